"""Outputs that nobody reads, places that cannot be replaced, names and numbers that no command expects."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from conftest import random_triples
from ookg.cli import main
from ookg.cli.console import print_json
from ookg.interchange import exports
from ookg.progress import tell
from ookg.training.settings import TrainingSettings
from ookg.triples import read_triples, write_triples

SMALL = ["--dim", "8", "--batch", "32", "--negatives", "4", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams")
    write_triples(path / "graph.tsv", random_triples(0))
    assert main(["train", str(path / "graph.tsv"), "--out", str(path / "model"), "--steps", "20", *SMALL]) == 0
    (path / "new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\n")
    return path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    (line,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("ookg: ")]
    return line


def test_training_goes_on_where_nobody_reads_its_notices(folder: Path, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    out = tmp_path / "model"
    command = [
        sys.executable,
        "-m",
        "ookg",
        "train",
        str(folder / "graph.tsv"),
        "--out",
        str(out),
        "--steps",
        "20",
        *SMALL,
    ]
    done = subprocess.run(command, stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert (out / "model.json").is_file()


def test_a_closed_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    tell("for nobody")


def test_json_is_json_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding in ("ascii", "utf-8"):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace"))
        print_json({"label": "García"})
        sys.stdout.flush()
        assert json.loads(raw.getvalue().decode(encoding)) == {"label": "García"}


def test_a_link_stays_and_a_pipe_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embed = ["embed", str(folder / "model"), str(folder / "new.tsv"), "--out"]
    (tmp_path / "link.parquet").symlink_to(tmp_path / "target.parquet")
    assert main([*embed, str(tmp_path / "link.parquet")]) == 0
    assert (tmp_path / "link.parquet").is_symlink()
    assert (tmp_path / "target.parquet").is_file()
    os.mkfifo(tmp_path / "pipe")
    assert "is a device or a pipe" in refused([*embed, str(tmp_path / "pipe")], capsys)
    assert (tmp_path / "pipe").is_fifo()
    read = ["embed", str(folder / "model"), "/dev/null", "--out", str(tmp_path / "x.parquet")]
    assert refused(read, capsys) == "ookg: /dev/null: is a device, not a file of triples; give a file or a pipe"


def piped(arguments: list[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "ookg", *arguments], input=content, capture_output=True, check=False)


def test_triples_come_through_a_pipe(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = gzip.compress((folder / "graph.tsv").read_bytes())
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    found = read_triples(tmp_path / "pipe")
    writer.join()
    assert found.ids.tolist() == read_triples(folder / "graph.tsv").ids.tolist()
    # "-" is standard input, also for what is trained on.
    done = piped(["train", "-", "--out", str(tmp_path / "model"), "--steps", "5", *SMALL], content)
    assert (done.returncode, (tmp_path / "model" / "model.json").is_file()) == (0, True), done.stderr
    bad = piped(["embed", str(folder / "model"), "-", "--out", str(tmp_path / "x.parquet")], b"x\tr0\te1\nx\tr0\n")
    assert bad.returncode == 2
    assert bad.stderr.decode().startswith("ookg: /dev/stdin:2: ")
    assert b"Parquet through a pipe; write it to a file" in piped(["train", "-", "--out", "x"], b"PAR1").stderr


def test_a_place_where_nothing_can_be_is_refused_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "x.parquet"
    line = refused(["embed", str(folder / "model"), "nowhere.tsv", "--out", str(place)], capsys)
    assert line == f"ookg: {place}: {tmp_path / 'file'} is a file, not a folder; choose another place"
    assert "is a file, not a folder" in refused(["demo", "--svg", str(tmp_path / "file" / "x.svg")], capsys)
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    line = refused(["embed", str(folder / "model"), "nowhere.tsv", "--out", str(tmp_path / "x.parquet")], capsys)
    assert line == f"ookg: {tmp_path / 'x.parquet'}: nothing can be written in {tmp_path}; choose another place"


def test_a_fit_that_diverges_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.parquet"
    embed = ["embed", str(folder / "model"), str(folder / "new.tsv"), "--out", str(out), "--device", "cpu"]
    assert "diverged with lr 1e+300; lower it (--refine-lr)" in refused(
        [*embed, "--refine", "--refine-lr", "1e300"], capsys
    )
    assert not out.exists()


@pytest.mark.parametrize(("form", "error"), [("pykeen", RuntimeError("enforce fail\nat file")), ("safetensors", None)])
def test_a_full_disk_in_an_export(
    form: str,
    error: Exception | None,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: object) -> None:
        raise error or SafetensorError("no space")

    monkeypatch.setattr(torch, "save", fail)
    monkeypatch.setattr(exports, "save_file", fail)
    out = tmp_path / "out"
    line = refused(["export", str(folder / "model"), "--format", form, "--out", str(out)], capsys)
    reason = "enforce fail" if error else "no space"
    assert line == f"ookg: {out}: cannot be written ({reason}); choose another place, or make room"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dim", "9" * 20], "it must be at most 1,000,000"),
        (["--negatives", "1000000000000"], "it must be at most 1,000,000"),
        (["--margin", "1e308"], "it must be at most 1,000,000,000"),
        (["--out", "q\udcff"], "is not UTF-8 text; rename the file"),
        (["--delimiter", "é"], "it must be one ASCII character"),
    ],
)
def test_numbers_and_names_beyond_reason(
    options: list[str], message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(["train", str(folder / "graph.tsv"), "--out", str(tmp_path / "m"), *options], capsys)
    assert message in line
    assert not (tmp_path / "m").exists()


def test_settings_within_reason_are_taken() -> None:
    assert TrainingSettings(dim=1_000_000, negatives=1_000_000).dim == 1_000_000
