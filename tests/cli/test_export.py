"""`ookg export` into each format, with new entities, and its bad usage: one line, exit code 2."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import random_triples
from ookg.cli import main
from ookg.graph.triples import write_triples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export")
    write_triples(path / "graph.tsv", random_triples(0))
    settings = ["--dim", "8", "--steps", "20", "--batch", "32", "--negatives", "4", "--device", "cpu"]
    for model in ("transe", "rotate"):
        assert main(["train", str(path / "graph.tsv"), "--out", str(path / model), "--model", model, *settings]) == 0
    (path / "new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\ny\tr2\te3\nz\tr0\tx\nv\tr0\tw\n")
    return path


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("model", ["transe", "rotate"])
@pytest.mark.parametrize("form", ["parquet", "npy", "word2vec", "safetensors", "kge"])
def test_every_format_with_new_entities(
    model: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    options = ["export", model, "--device", "cpu", "--format", form, "--out", out]
    assert main([*options, "--given", "new.tsv", "--weights", "uniform"]) == 0
    said = capsys.readouterr().err
    assert "23 entities, 3 of them new, 4 relations" in said  # z by way of x
    assert "2 new entities without" in said  # v and w touch nothing that is known: no vector, and said so
    assert main([*options]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*options, "--overwrite"]) == 0
    assert "20 entities, 4 relations" in capsys.readouterr().err


def test_pykeen_and_the_file_options(tmp_path: Path) -> None:
    out = tmp_path / "pykeen"
    options = ["export", "transe", "--device", "cpu", "--given", "new.tsv"]
    assert main([*options, "--format", "pykeen", "--out", str(out)]) == 0
    assert json.loads((out / "metadata.json").read_text())["model"] == "TransE"
    entities = tmp_path / "entities.parquet"
    assert main([*options, "--entities", str(entities)]) == 0
    assert pq.read_table(entities)["entity"].to_pylist()[-3:] == ["x", "y", "z"]
    assert main(["export", "rotate", "--out", str(tmp_path / "kge"), "--format", "kge", "--gamma", "9"]) == 0
    assert json.loads((tmp_path / "kge" / "config.json").read_text())["gamma"] == 9
    assert np.load(tmp_path / "kge" / "entity_embedding.npy").shape == (20, 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to write"),
        (["--format", "npy"], "nothing to write"),
        (["--entities", "e.parquet", "--format", "npy"], "goes with --out"),
        (["--entities", "e.parquet", "--out", "o"], "leave out --entities"),
        (["--out", "o", "--gamma", "3"], "--gamma goes with --format kge"),
        (["--out", "o", "--format", "pykeen"], "PyKEEN's RotatE measures by norm 2"),
        (
            ["--out", "o", "--given", "new.tsv", "--weights", "correlation"],
            "a file has one; choose --weights uniform or degree",
        ),
        (["--out", "o", "--weights", "uniform"], "are for new entities; give --given TRIPLES"),
        (["--out", "o", "--smoothing", "1"], "are for new entities; give --given TRIPLES"),
        (["--out", "o", "--max-neighbors", "3"], "are for new entities; give --given TRIPLES"),
        (["--out", "o", "--given", "new.tsv", "--power", "2"], "choose --weights uniform or degree"),
        (["--out", "o", "--given", "missing.tsv"], "missing.tsv: no such file"),
        (["--out", "graph.tsv"], "cannot be written"),
    ],
)
def test_bad_usage(options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "rotate", "--device", "cpu", *options]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("ookg: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert not (folder / "o").exists()
    assert not (folder / "e.parquet").exists()


def test_two_files_are_both_complete_before_either_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "entities.parquet", tmp_path / "relations.parquet"]
    options = ["export", "transe", "--device", "cpu", "--entities", str(files[0]), "--relations", str(files[1])]
    for path in files:
        path.write_text("old")
    real = pq.write_table

    def full_disk(table: pa.Table, place: Path) -> None:
        if "relation" in table.column_names:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(table, place)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full_disk)
        assert main([*options, "--overwrite"]) == 2
    assert capsys.readouterr().err.endswith("(No space left on device); choose another place, or make room\n")
    assert [path.read_text() for path in files] == ["old", "old"]
    assert main(options) == 2
    assert "entities.parquet: is there already; give --overwrite" in capsys.readouterr().err
    assert main([*options, "--overwrite"]) == 0
    assert [pq.read_table(path).num_rows for path in files] == [20, 4]
    assert sorted(tmp_path.iterdir()) == files
