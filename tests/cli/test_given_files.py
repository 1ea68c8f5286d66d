"""Files that are given: without a triple, a question or a claim, or of an entity that came with its vector."""

from __future__ import annotations

from pathlib import Path

import pytest

import ookg
from ookg.cli import main

GRAPH = [(f"e{n}", f"r{n % 3}", f"e{(2 * n + 1) % 12}") for n in range(36)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("empty")
    settings = ookg.TrainingSettings(dim=4, steps=5, batch=8, negatives=2)
    ookg.train(GRAPH, settings).save(place / "model")
    (place / "empty.tsv").write_text("")
    (place / "some.tsv").write_text("new\tr0\te1\n")
    (place / "graph.tsv").write_text("".join("\t".join(row) + "\n" for row in GRAPH))
    return place


@pytest.mark.parametrize(
    "line",
    [
        ("add", "model", "empty.tsv"),
        ("remove", "model", "empty.tsv"),
        ("embed", "model", "empty.tsv", "--out", "vectors.csv"),
        ("predict", "model", "--given", "empty.tsv", "--head", "e1", "--relation", "r0"),
        ("classify", "model", "empty.tsv"),
        ("classify", "model", "some.tsv", "--given", "empty.tsv"),
        ("evaluate", "model", "--test", "empty.tsv"),
        ("calibrate", "model", "empty.tsv"),
        ("neighbors", "model", "e1", "--given", "empty.tsv"),
        ("export", "model", "--given", "empty.tsv", "--entities", "entities.csv"),
        ("train", "graph.tsv", "--valid", "empty.tsv", "--out", "other"),
        ("train", "empty.tsv", "--out", "other"),
        ("datasets", "split", "empty.tsv", "--out", "folder"),
        ("datasets", "split", "empty.tsv", "--snapshots", "2", "--out", "folder"),
        ("datasets", "split", "empty.tsv", "--shots", "1", "--out", "folder"),
    ],
)
def test_a_file_without_triples(
    directory: Path, line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(directory)
    before = sorted(directory.rglob("*.json"))
    assert main(list(line)) == 2
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1].startswith("ookg: empty.tsv: no triples")
    assert not printed.out
    assert sorted(directory.rglob("*.json")) == before
    assert not (directory / "vectors.csv").exists()


def test_triples_of_an_entity_that_came_with_its_vector(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(directory)
    assert main(["embed", "model", "some.tsv", "--out", "new.csv", "--device", "cpu"]) == 0
    capsys.readouterr()
    line = ["predict", "model", "--device", "cpu", "--vectors", "new.csv", "--head", "new", "--relation", "r1"]
    assert main([*line, "--given", "some.tsv"]) == 2
    assert "some.tsv: 'new' came with a vector of its own" in capsys.readouterr().err
    assert main(line) == 0


@pytest.mark.parametrize("text", ["head\trelation\ttail\n", ""])
def test_a_file_without_questions(
    directory: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(directory)
    (directory / "questions.tsv").write_text(text)
    assert main(["predict", "model", "--questions", "questions.tsv", "--out", "answers.csv"]) == 2
    assert "questions.tsv: no " in capsys.readouterr().err
    assert not (directory / "answers.csv").exists()
