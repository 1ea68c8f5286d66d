"""Questions in bulk, everything likely, probabilities: as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import random_triples
from ookg.cli import main
from ookg.graph.triples import Triples, as_triples, write_triples
from ookg.model.model import Model


@pytest.fixture
def folder(model: Model, graph: Triples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model.save("model")
    Path("new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\n")
    Path("q.csv").write_text("head,relation,tail\nx,r1,\n,r0,e1\nx,,\n")
    known = set(graph)
    held_out = [row for row in random_triples(7, size=2000) if row not in known]
    write_triples(Path("held-out.tsv"), as_triples(held_out))
    return tmp_path


PREDICT = ["predict", "model", "--device", "cpu", "--given", "new.tsv"]


def test_questions_of_a_file_are_answered_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [*PREDICT, "--questions", "q.csv", "--top", "3"]
    assert main([*line, "--out", "a.parquet"]) == 0
    table = pq.read_table("a.parquet").to_pylist()
    assert [row["question"] for row in table] == [1] * 3 + [2] * 3 + [3] * 3
    assert main([*PREDICT, "--head", "x", "--relation", "r1", "--top", "3", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["question"]["head"] == "x"
    assert alone["question"]["tail"] is None
    assert [(row["tail"], row["score"]) for row in table[:3]] == [
        (answer["entity"], answer["score"]) for answer in alone["answers"]
    ]
    assert main([*line, "--out", "a.parquet"]) == 2
    assert "a.parquet: is there already; give --overwrite" in capsys.readouterr().err
    assert main([*line, "--out", "a.parquet", "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"questions": 3, "answers": 9, "out": "a.parquet"}
    Path("q.csv").write_text("head,relation\nx,r1\nnobody,r1\n")
    assert main([*line, "--out", "b.csv"]) == 2
    assert "q.csv, row 2: unknown entity 'nobody'" in capsys.readouterr().err


def test_everything_likely(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PREDICT, "--entity", "x", "--top", "4", "--out", "likely.jsonl"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("what is likely about x")
    assert "probability" not in captured.out
    assert "in an order by experience with another graph" in captured.err
    rows = [json.loads(line) for line in Path("likely.jsonl").read_text().splitlines()]
    assert main([*PREDICT, "--entity", "x", "--top", "4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["question"] == {"entity": "x", "end": "both"}
    assert [row["head"] for row in document["answers"]] == [row["head"] for row in rows]


def test_probabilities_after_calibrating(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["predict", "model", "--device", "cpu", "--head", "e1", "--relation", "r0"]
    assert main([*ask, "--min-probability", "0.1"]) == 2
    assert "`ookg calibrate DIR HELD_OUT --save` does it" in capsys.readouterr().err
    calibrate = ["calibrate", "model", "held-out.tsv", "--device", "cpu"]
    assert main(calibrate) == 0
    assert "nothing is stored" in capsys.readouterr().out
    assert main([*calibrate, "--save", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == 1
    assert main([*ask, "--json"]) == 0
    chances = [answer["probability"] for answer in json.loads(capsys.readouterr().out)["answers"]]
    assert all(0 <= chance <= 1 for chance in chances)
    least = sorted(chances)[-3]
    assert main([*ask, "--json", "--min-probability", str(least)]) == 0
    kept = json.loads(capsys.readouterr().out)["answers"]
    assert [one["probability"] for one in kept] == [chance for chance in chances if chance >= least]
    assert main(ask) == 0
    assert "probability" in capsys.readouterr().out
    assert main(["check", "model"]) == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "give one of --head, --tail, --entity and --questions"),
        (["--head", "x", "--entity", "x"], "give one of"),
        (["--entity", "x", "--relation", "r0"], "--relation with --entity"),
        (["--questions", "q.csv"], "--questions without --out"),
        (["--questions", "q.csv", "--out", "a.xlsx"], "end it with .parquet"),
        (["--entity", "x", "--min-probability", "2"], "a probability of 2.0"),
    ],
)
def test_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str) -> None:
    assert main([*PREDICT, *options]) == 2
    assert problem in capsys.readouterr().err
