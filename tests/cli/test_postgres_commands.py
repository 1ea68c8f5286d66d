"""The life of a model whose journal lies in PostgreSQL, by commands and from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ookg
from ookg.cli import main
from ookg.storage.journal import JOURNAL_FILE, MARK_FILE
from ookg.storage.journals import VARIABLE
from postgres_server import Server

pytestmark = pytest.mark.postgres
Run = Callable[..., Any]
TRAINING = ["--dim", "8", "--steps", "20", "--batch", "32", "--negatives", "4", "--norm", "1", "--device", "cpu"]
GRAPH = [(f"{x},{y}", "right", f"{x + 1},{y}") for x in range(6) for y in range(6)]
GRAPH += [(f"{x},{y}", "up", f"{x},{y + 1}") for x in range(6) for y in range(6)]
GROWTH_FAULTS = Path(__file__).parents[2] / "benchmarks" / "growth_faults.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("graph.tsv").write_text("".join("\t".join(row) + "\n" for row in GRAPH))
    Path("new.tsv").write_text("new\tright\t5,5\nnew\tup\t4,5\n0,0\tup\t3,3\n")
    Path("wrong.tsv").write_text("0,0\tup\t3,3\n0,0\tright\t1,0\n")

    def call(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code:
            [line] = [line for line in captured.err.splitlines() if line.startswith("ookg: ")]
            return line
        return json.loads(captured.out) if "--json" in arguments else captured.out

    call("train", "graph.tsv", "--out", "model", *TRAINING)
    return call


def test_a_life_in_postgresql(run: Run, postgres: Server) -> None:
    at = ("--journal", postgres.url())
    added = run("add", "model", "new.tsv", "--key", "monday", "--json", *at)
    assert added == {"added": 3, "known_before": 0, "new_entities": 1, "new_relations": 0, "journal": 1, "notes": []}
    assert run("add", "model", "new.tsv", "--key", "monday", "--json", *at) == added
    assert run("remove", "model", "wrong.tsv", "--json", *at)["removed"] == 2
    assert not Path("model", JOURNAL_FILE).exists()
    question = ("predict", "model", "--head", "new", "--relation", "right", "--json")
    assert run(*question, *at)["trust"]["triples"] == 2
    assert run("status", "model", "--json", *at)["batches"] == 2
    assert run("update", "model", "--steps", "2", "--device", "cpu", "--json", *at)["version"] == 2
    assert [one["changed"] for one in run("history", "model", "--json", *at)["batches"]] == [3, 2]
    assert run("rollback", "model", "--json", *at) == {"version": 1, "journal": 0, "pending": 2}
    assert run("embed", "model", "--out", "v.parquet", *at) == ""
    assert run("export", "model", "--entities", "e.parquet", *at) == ""
    assert run("names", "model", *at).startswith("0 names; 0 of 49 entities")
    checks = run("check", "model", "--json", *at)
    assert checks["ok"]
    assert MARK_FILE in [file["name"] for file in checks["files"]]
    assert run("audit", "model", "--no-refine", "--sample", "6", *at)


def test_without_its_address_every_command_refuses_in_one_line(
    run: Run, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", "model", "new.tsv", "--journal", postgres.url())
    run("update", "model", "--steps", "2", "--device", "cpu", "--journal", postgres.url())
    before = Path("model/model.json").read_bytes()
    for command in (
        ("add", "model", "new.tsv"), ("remove", "model", "wrong.tsv"), ("status", "model"), ("history", "model"),
        ("update", "model"), ("rollback", "model"), ("check", "model"), ("names", "model"),
        ("predict", "model", "--head", "0,0", "--relation", "up"), ("embed", "model", "new.tsv", "--out", "v.parquet"),
        ("train", "graph.tsv", "--out", "model", "--overwrite", *TRAINING),
    ):  # fmt: skip
        message = run(*command, code=2)
        option = "`journal`" if command[0] == "train" else "--journal"  # which `train` does not have
        assert message.endswith(f"give its address with {option} or the environment variable OOKG_JOURNAL"), command
    assert Path("model/model.json").read_bytes() == before
    assert not Path("model", JOURNAL_FILE).exists()
    assert "no URL of PostgreSQL" in run("status", "model", "--journal", "journal.sqlite", code=2)
    monkeypatch.setenv(VARIABLE, postgres.url())
    assert "batch 1" in run("history", "model")
    run("train", "graph.tsv", "--out", "model", "--overwrite", *TRAINING)
    # What was said of the model before counts no more, and stays in the history.
    assert (run("status", "model", "--json")["batches"], len(run("history", "model", "--json")["batches"])) == (0, 1)
    monkeypatch.setenv(VARIABLE, "")
    assert "OOKG_JOURNAL" in run("status", "model", code=2)


def test_a_directory_with_a_journal_of_its_own_stays_with_it(run: Run, postgres: Server) -> None:
    run("add", "model", "new.tsv")
    assert "has its journal in a file" in run("add", "model", "new.tsv", "--journal", postgres.url(), code=2)
    assert run("status", "model", "--json")["batches"] == 1


def test_living_models_follow_one_journal(run: Run, postgres: Server) -> None:
    one, other = (ookg.open("model", journal=postgres.url()) for _ in range(2))
    assert "new" not in other.entities
    one.add([("new", "right", "5,5"), ("new", "up", "4,5")])
    assert other.refresh()
    assert other.new_entities == ["new"]
    assert other.predict(head="new", relation="up").answers == one.predict(head="new", relation="up").answers
    other.remove(entity="new")
    assert one.refresh()
    assert one.new_entities == []
    other.add([("later", "up", "1,1")])
    assert one.update(ookg.UpdateSettings(steps=2)).version == 2
    assert other.refresh()
    assert "later" in other.model.entities
    assert other.status().batches == 0


def test_kills_lose_nothing_that_was_acknowledged(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, postgres.url())
    command = [sys.executable, str(GROWTH_FAULTS), "--kills", "3"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all held"), done.stdout + done.stderr
