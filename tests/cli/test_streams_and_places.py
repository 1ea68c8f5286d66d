"""Outputs that nobody reads, places that cannot be replaced, names and numbers that no command expects."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from conftest import random_triples
from ookg.cli import main
from ookg.cli.console import print_json
from ookg.errors import FileError
from ookg.graph.triples import read_triples, write_triples
from ookg.interchange import exports
from ookg.system.progress import tell
from ookg.training.settings import TrainingSettings

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
    os.mkfifo(tmp_path / "pipe.csv")
    assert "is a device or a pipe" in refused([*embed, str(tmp_path / "pipe.csv")], capsys)
    assert (tmp_path / "pipe.csv").is_fifo()
    read = ["embed", str(folder / "model"), "/dev/null", "--out", str(tmp_path / "x.parquet")]
    assert refused(read, capsys) == "ookg: /dev/null: is a device, not a file of triples; give a file or a pipe"


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_triples_come_through_a_pipe(folder: Path, tmp_path: Path) -> None:
    content = gzip.compress((folder / "graph.tsv").read_bytes())
    for name, problem in (("pipe", None), ("pipe.nt", "alone"), ("pipe.parquet", "alone")):
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(content,), daemon=True)
        writer.start()
        if problem is None:
            assert read_triples(tmp_path / name).ids.tolist() == read_triples(folder / "graph.tsv").ids.tolist()
        else:
            with pytest.raises(FileError, match="a pipe brings TSV or CSV alone; write Parquet or RDF to a file"):
                read_triples(tmp_path / name)
        writer.join(timeout=10)
    command = [sys.executable, "-m", "ookg", "train", "-", "--out", str(tmp_path / "model"), "--steps", "5", *SMALL]
    done = subprocess.run(command, input=content, capture_output=True, check=False, timeout=100)
    assert (done.returncode, (tmp_path / "model" / "model.json").is_file()) == (0, True), done.stderr


def test_a_dash_is_standard_input(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], standard_input: Callable[[bytes], None]
) -> None:
    model, out, new = str(folder / "model"), str(tmp_path / "x.parquet"), b"x\tr0\te1\ne2\tr1\tx\n"
    claims, valid = tmp_path / "claims.tsv", tmp_path / "valid.tsv"
    claims.write_text("x\tr0\te3\n")
    valid.write_text("e1\tr0\te2\t1\ne3\tr0\te4\t0\n")
    for command in (
        ["embed", model, "-", "--out", out],
        ["predict", model, "--head", "x", "--relation", "r0", "--given", "-"],
        ["classify", model, str(claims), "--valid", str(valid), "--given", "-"],
        ["export", model, "--given", "-", "--out", str(tmp_path / "exported")],
    ):
        standard_input(new)
        assert main(command) == 0, command
    assert "21 entities, 1 of them new" in capsys.readouterr().err
    standard_input((folder / "graph.tsv").read_bytes().replace(b"\t", b","))
    split = ["datasets", "split", "-", "--delimiter", ",", "--new", "head", "--count", "3"]
    assert main([*split, "--out", str(tmp_path / "set")]) == 0
    assert (tmp_path / "set" / "train.txt").is_file()
    # What cannot be.
    standard_input(b"x\tr0\te1\nx\tr0\n")
    embed = ["embed", model, "-", "--out", out, "--overwrite"]
    assert refused(embed, capsys).startswith("ookg: standard input:2: ")
    standard_input(b"PAR1")
    assert "standard input: a pipe brings TSV or CSV alone" in refused(embed, capsys)
    standard_input(new)
    twice = ["classify", model, "-", "--valid", str(valid), "--given", "-"]
    assert refused(twice, capsys) == "ookg: standard input: is read already; give - for one input alone"
    assert refused(["embed", model, "new.tsv", "--out", "-"], capsys) == "ookg: - as an output; give the name of a file"
    (tmp_path / "-").write_text("x\tr0\te1\n")
    assert len(read_triples(tmp_path / "-")) == len(read_triples(f"{tmp_path}/-")) == 1  # a file of that name is one


def test_what_standard_input_is_redirected_from_is_not_replaced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set").mkdir()
    source = tmp_path / "set" / "train.txt"
    source.write_text("x\tr0\te1\n")
    with source.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        line = refused(["embed", str(folder / "model"), "-", "--out", str(source)], capsys)
        assert "is read or written by this command already" in line
        split = ["datasets", "split", "-", "--out", str(tmp_path / "set"), "--overwrite"]
        assert refused(split, capsys).startswith("ookg: -: lies in the folder to overwrite")
    assert source.read_text() == "x\tr0\te1\n"


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
    for command in (["tune"], ["audit", "--retrain"]):
        line = refused([command[0], str(folder / "model"), *command[1:], "--save"], capsys)
        assert f"nothing can be written in {folder / 'model'}" in line


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
    monkeypatch.setattr(exports, "save_tensors", fail)
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
