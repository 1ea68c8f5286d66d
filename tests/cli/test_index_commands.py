"""`ookg index`, and what uses it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import ookg
from conftest import SMALL, random_triples
from index_models import index_by_hand, write_bunches
from ookg.cli import main
from ookg.storage.approximate import INDEX_FILE

ASK = ["predict", "model", "--head", "e5", "--relation", "r1", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_bunches(Path("model"))
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    capsys.readouterr()
    assert main(line) == 2
    lines = [text for text in capsys.readouterr().err.splitlines() if text.startswith("ookg: ")]
    assert len(lines) == 1
    return lines[0]


def test_an_index_is_made_printed_and_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed; pip install faiss-cpu")
    assert main(["index", "model", "--questions", "30", "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    assert "% of heads (30 questions each, drawn from the graph)" in captured.out
    assert "times as fast" in captured.out
    assert f"model/{INDEX_FILE}" in captured.err
    assert main(["index", "model", "--questions", "30", "--device", "cpu", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["recall"] == min(values["tails"], values["heads"]) >= 0.95
    assert values["bytes"] == (folder / "model" / INDEX_FILE).stat().st_size
    assert main([*ASK, "--approximate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] == values["recall"]


def test_an_index_that_misses_too_much_leaves_the_one_that_is_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed; pip install faiss-cpu")
    ookg.train(random_triples(0), SMALL, device="cpu").save("random")
    assert "ten best answers, not 99.9%" in refusal(capsys, "index", "random", "--recall", "0.999")
    assert not (folder / "random" / INDEX_FILE).exists()
    assert "a recall of 2.0; give one above 0, up to 1" in refusal(capsys, "index", "model", "--recall", "2")


def test_without_faiss_one_line_says_how_to_get_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    line = "an approximate index needs faiss; install it with `pip install faiss-cpu` (the extra 'faiss' of ookg)"
    assert refusal(capsys, "index", "model") == f"ookg: {line}"
    index_by_hand(folder / "model")  # which is asked without it
    assert main([*ASK, "--approximate"]) == 0
    assert "approximate: such answers have 97.0% of the ten best" in capsys.readouterr().out


def test_answers_say_that_they_are_approximate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index_by_hand(folder / "model")
    assert main([*ASK, "--no-combine", "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)
    assert exact["recall"] is None
    assert main([*ASK, "--approximate", "--json"]) == 0
    approximate = json.loads(capsys.readouterr().out)
    assert approximate["recall"] == 0.97
    assert approximate["answers"] == exact["answers"]
    assert approximate["way"] == "trained vector"
    assert main([*ASK, "--approximate", "--top", "20"]) == 0
    assert "answered exactly: the index serves questions that vectors alone rank" in capsys.readouterr().out
    Path("q.csv").write_text("head,relation\ne5,r1\ne6,r0\n")
    questions = ["predict", "model", "--questions", "q.csv", "--out", "a.csv", "--approximate", "--device", "cpu"]
    assert main(questions) == 0
    assert "note: the index serves questions that vectors alone rank" in capsys.readouterr().err
    assert len(Path("a.csv").read_text().splitlines()) == 21
    assert "takes the scores of all entities" in refusal(capsys, "predict", "model", "--entity", "e5", "--approximate")


def test_an_index_that_is_missing_or_of_other_vectors_is_not_used(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in ([*ASK, "--approximate"], ["serve", "model", "--approximate", "--check"]):
        assert refusal(capsys, *line) == "ookg: model: it has no approximate index; make one with `ookg index model`"
    index_by_hand(folder / "model")
    assert main(["serve", "model", "--approximate", "--check"]) == 0
    write_bunches(Path("model"), seed=1)
    for line in ([*ASK, "--approximate"], ["serve", "model", "--approximate", "--check"]):
        assert "the index was made for other vectors; make it anew" in refusal(capsys, *line)


def test_an_update_leaves_the_index_behind_and_a_rollback_finds_it_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ookg.train(random_triples(0, entities=800, size=2000), SMALL.changed({"dim": 16}), device="cpu").save("model")
    index_by_hand(folder / "model")
    assert main(["status", "model"]) == 0
    assert "approximate index: 97.0% of the ten best answers, 5.0 times as fast" in capsys.readouterr().out
    Path("new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\n")
    assert main(["add", "model", "new.tsv"]) == 0
    assert main([*ASK, "--approximate"]) == 0  # what was added does not move a known vector
    assert main(["update", "model", "--steps", "2", "--device", "cpu"]) == 0
    stale = "the index was made for other vectors (those of version 1, and this is version 2); make it anew"
    assert stale in capsys.readouterr().out
    assert stale in refusal(capsys, *ASK, "--approximate")
    assert main(["status", "model"]) == 0
    assert stale in capsys.readouterr().out
    assert main(["rollback", "model"]) == 0
    assert "approximate index: 97.0%" in capsys.readouterr().out
    assert main([*ASK, "--approximate"]) == 0
    assert main(["compact", "model", "--out", "small"]) == 2  # there is a batch that it has not learned
    assert main(["check", "model"]) == 0


def test_a_compacted_model_has_no_index_yet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index_by_hand(folder / "model")
    assert main(["compact", "model", "--out", "small"]) == 0
    line = ["predict", "small", *ASK[2:], "--approximate"]
    assert "small: it has no approximate index" in refusal(capsys, *line)
    index_by_hand(folder / "small")
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] == 0.97
