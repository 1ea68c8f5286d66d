"""The life of a model by commands: add, remove, history, update, status, rollback."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ookg.cli import main
from ookg.storage.checkpoint import check_model

Run = Callable[..., Any]
TRAINING = ["--dim", "8", "--steps", "20", "--batch", "32", "--negatives", "4", "--norm", "1", "--device", "cpu"]
GRAPH = [(f"{x},{y}", "right", f"{x + 1},{y}") for x in range(6) for y in range(6)]
GRAPH += [(f"{x},{y}", "up", f"{x},{y + 1}") for x in range(6) for y in range(6)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("graph.tsv", GRAPH)
    write("new.tsv", [("new", "right", "5,5"), ("new", "up", "4,5"), ("other", "right", "new"), ("0,0", "up", "3,3")])
    write("more.tsv", [("third", "up", "1,1"), ("new", "right", "2,2")])
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code:
            assert len(captured.err.splitlines()) == 1
            return captured.err
        return json.loads(captured.out) if "--json" in arguments else captured.out

    call("train", "graph.tsv", "--out", "model", *TRAINING)
    return call


def write(name: str, rows: Sequence[tuple[str, ...]]) -> None:
    Path(name).write_text("".join("\t".join(row) + "\n" for row in rows))


def test_a_life(run: Run) -> None:
    assert "an update: nothing to learn" in run("status", "model")
    counts = {"added": 4, "known_before": 0, "new_entities": 2, "new_relations": 0, "journal": 1, "notes": []}
    assert run("add", "model", "new.tsv", "--key", "monday", "--author", "me", "--json") == counts
    assert run("add", "model", "new.tsv", "--key", "monday", "--json") == counts
    again = run("add", "model", "new.tsv", "--key", "monday")
    assert "batch 1, which came under the key 'monday' before (nothing was written now): 4 triples added" in again
    status = run("status", "model", "--json")
    assert (status["batches"], status["added"], status["new_entities"], status["gain"]) == (1, 4, 2, None)
    assert "not measured" in run("status", "model")
    write("wrong.tsv", [("0,0", "up", "3,3"), GRAPH[0]])
    assert run("remove", "model", "wrong.tsv", "--json") == {"removed": 2, "not_there": 0, "journal": 2}
    updated = run("update", "model", "--steps", "3", "--json", "--device", "cpu")
    assert (updated["version"], updated["steps"], updated["added"], updated["removed"]) == (2, 3, 3, 1)
    assert set(updated["moved"]) == {"mean", "largest"}
    assert "3 triples added" not in run("status", "model")
    history = run("history", "model", "--json")
    assert [(one["number"], one["is_current"]) for one in history["versions"]] == [(1, False), (2, True)]
    assert [(one["kind"], one["changed"]) for one in history["batches"]] == [("add", 4), ("remove", 2)]
    lines = run("history", "model").splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["version", "1"], ["batch", "1"], ["batch", "2"], ["version", "2"],
    ]  # fmt: skip
    assert run("rollback", "model", "--json") == {"version": 1, "journal": 0, "pending": 2}
    run("rollback", "model", "2")
    assert "version 1 is the model; not in its vectors: 2 batches" in run("rollback", "model")
    assert run("status", "model", "--json")["batches"] == 2
    run("rollback", "model", "2")
    assert run("remove", "model", "--entity", "new", "--json")["removed"] == 3
    assert run("check", "model", "--json")["ok"]
    assert "version 3" in run("update", "model", "--freeze", "--steps", "2", "--keep-versions", "1", "--device", "cpu")
    names = {file["name"].split("/")[0] for file in run("check", "model", "--json")["files"]}
    assert {"version-2.json", "journal.sqlite"} <= names
    assert "version-1.json" not in names


def test_what_was_added_needs_no_given(run: Run, folder: Path) -> None:
    question = ("--head", "new", "--relation", "up", "--json", "--combine", "--top", "100")
    expected = run("predict", "model", "--given", "new.tsv", *question)
    run("embed", "model", "new.tsv", "--out", "given.parquet")
    run("export", "model", "--given", "new.tsv", "--entities", "given-all.parquet")
    write("claims.tsv", [("new", "up", "3,3", "1"), ("new", "up", "0,0", "0")])
    write(
        "valid.tsv", [(*row, "1") for row in GRAPH[30:40]] + [("0,0", "up", "5,5", "0"), ("0,0", "right", "5,5", "0")]
    )
    claims = ("claims.tsv", "--valid", "valid.tsv", "--json")
    judged = run("classify", "model", *claims, "--given", "new.tsv")
    run("add", "model", "new.tsv")
    assert run("predict", "model", *question) == expected
    assert run("classify", "model", *claims) == judged
    run("embed", "model", "--out", "added.parquet")
    run("export", "model", "--entities", "added-all.parquet", "--weights", "degree")
    for one, other in (("given", "added"), ("given-all", "added-all")):
        assert pq.read_table(f"{one}.parquet").equals(pq.read_table(f"{other}.parquet"))
    # --given comes on top, for that call alone.
    both = run("predict", "model", "--given", "more.tsv", *question)
    assert both != expected
    assert run("predict", "model", *question) == expected
    run("embed", "model", "more.tsv", "--out", "more.parquet", "--trust")
    assert pq.read_table("more.parquet")["entity"].to_pylist() == ["new", "third"]
    run("add", "model", "more.tsv")
    assert run("predict", "model", *question) == both


def undated(audit: dict[str, Any]) -> dict[str, Any]:
    """What an audit says, but for when it was made."""
    del audit["choice"]["simulation"]
    return audit


def test_evaluate_and_audit_know_what_was_added_and_removed(run: Run, folder: Path) -> None:
    (folder / "data").mkdir()
    write("data/train.txt", GRAPH)
    write("data/valid.txt", [])
    write("data/aux.txt", [("new", "right", "5,5")])
    write("data/test.txt", [("new", "up", "4,4"), ("new", "right", "3,3")])
    evaluate = ("evaluate", "model", "--dataset", "data", "--json", "--device", "cpu")
    before, audit = run(*evaluate), ("audit", "model", "--quick", "--sample", "20", "--no-refine", "--json")
    audited = undated(run(*audit))
    facts = [(f"{x},{y}", "right", f"{y},{x}") for x in range(6) for y in range(6) if x != y]
    write("facts.tsv", [("new", "up", "1,1"), ("new", "up", "2,1"), *facts])
    run("add", "model", "facts.tsv")
    assert run(*evaluate)["mean_rank"] != before["mean_rank"]
    later = undated(run(*audit))
    assert later.pop("status")["new_entities"] == 1
    assert later != audited
    assert "- since version 1: 1 batch" in run(*audit[:-1])
    run("remove", "model", "facts.tsv")
    assert run(*evaluate) == before
    assert undated(run(*audit)) == audited
    write("known.tsv", [*GRAPH[:20]])
    run("remove", "model", "known.tsv")
    assert undated(run(*audit)) != audited


def test_a_batch_that_is_removed_again_says_so(run: Run) -> None:
    run("add", "model", "new.tsv")
    first = run("remove", "model", "new.tsv", "--key", "back")
    assert "nothing was written" not in first
    assert "which came under the key 'back' before (nothing was written now)" in run(
        "remove", "model", "new.tsv", "--key", "back"
    )


def test_status_says_why_there_is_no_update_as_update_does(run: Run) -> None:
    run("compact", "model", "--out", "small")
    run("add", "small", "new.tsv")
    refused = run("update", "small", code=2).removeprefix("ookg: ").strip()
    assert "vectors of 16 bits" in refused
    assert f"an update: not possible: {refused}" in run("status", "small")
    assert run("status", "small", "--json")["why_not"] == refused
    run("add", "model", "new.tsv")
    assert run("status", "model", "--json")["why_not"] is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--patience", "3"), "--patience without --validate-every; say how often to validate"),
        (("--dim", "0"), "--dim 0; it must be 1 or more"),
        (("--validate-every", "-1"), "--validate-every -1; it must be 0 or more"),
        (("--relation-dim", "5"), "--relation-dim 5 with transe; only transr has one"),
        (("--lr-drops", "2"), "--lr-drops (2.0,); each is a share of the steps"),
        (("--config", "settings.toml"), "settings.toml: patience without validate_every"),
    ],
)
def test_settings_are_called_as_they_were_given(
    folder: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], problem: str
) -> None:
    (folder / "settings.toml").write_text("patience = 3\n")
    assert main(["train", "graph.tsv", "--out", "other", *options]) == 2
    assert problem in capsys.readouterr().err


def test_bad_input_is_a_line_and_loses_nothing(run: Run, folder: Path) -> None:
    run("add", "model", "new.tsv")
    (folder / "bad.tsv").write_text("only two\tcolumns\n")
    (folder / "empty.tsv").write_text("")
    cases: list[tuple[tuple[str, ...], str]] = [
        (("add", "model", "bad.tsv"), "bad.tsv:1"),
        (("add", "model", "empty.tsv"), "no triples"),
        (("add", "model", "nosuch.tsv"), "no such file"),
        (("add", "nosuch", "new.tsv"), "no model here"),
        (("remove", "model"), "either TRIPLES or --entity"),
        (("remove", "model", "more.tsv"), "none of the triples is there"),
        (("remove", "model", "--entity", "newish"), "unknown entity 'newish'"),
        (("update", "model", "--steps", "-1"), "it must be 0 or more"),
        (("update", "model", "--keep-versions", "-1"), "keep -1"),
        (("update", "nosuch"), "no model here"),
        (("rollback", "model"), "no version before 1"),
        (("rollback", "model", "7"), "no version 7"),
        (("rollback", "nosuch"), "no model here"),
        (("status", "nosuch"), "no model here"),
        (("history", "nosuch"), "no model here"),
    ]
    for line, problem in cases:
        assert problem in run(*line, code=2), line
    assert not (folder / "nosuch").exists()
    assert run("status", "model", "--json")["added"] == 4
    with sqlite3.connect(folder / "model" / "journal.sqlite") as connection:
        connection.execute("PRAGMA user_version = 9")
    for line in (("add", "model", "more.tsv"), ("status", "model"), ("update", "model"), ("history", "model")):
        assert "upgrade ookg" in run(*line, code=2)
    (folder / "model" / "journal.sqlite").write_bytes(b"no database" * 100)
    for name in folder.glob("model/journal.sqlite-*"):
        name.unlink()
    assert "damaged journal" in run("predict", "model", "--head", "0,0", "--relation", "up", code=2)
    problems = [file.name for file in check_model(folder / "model") if file.problem is not None]
    assert problems == ["journal.sqlite"]
