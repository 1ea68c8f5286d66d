"""`ookg network`, and what uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ookg.cli import main
from ookg.model.model import Model
from ookg.simulation.likelihood import FEATURES, Likelihood
from ookg.storage.network import NETWORK_FILE

Run = Callable[..., Any]
TRAINING = ["--dim", "8", "--steps", "20", "--batch", "32", "--negatives", "4", "--norm", "1", "--device", "cpu"]
GRAPH = [(f"{x},{y}", "right", f"{x + 1},{y}") for x in range(6) for y in range(6)]
GRAPH += [(f"{x},{y}", "up", f"{x},{y + 1}") for x in range(6) for y in range(6)]
NEW = [("new", "right", "5,5"), ("new", "up", "4,5")]
ASK = ("predict", "model", "--given", "new.tsv", "--head", "new", "--relation", "up", "--known-answers", "mark")
TRAIN = ("network", "model", "--steps", "2", "--encoder-steps", "3", "--encoder-batch", "8", "--device", "cpu")
FILE = Path("model") / NETWORK_FILE


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("graph.tsv", GRAPH), ("new.tsv", NEW)):
        Path(name).write_text("".join("\t".join(row) + "\n" for row in rows))

    def call(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code:
            lines = [line for line in captured.err.splitlines() if line.startswith("ookg: ")]
            assert len(lines) == 1
            return lines[0]
        return json.loads(captured.out) if "--json" in arguments else captured.out

    call("train", "graph.tsv", "--out", "model", *TRAINING)
    return call


def test_it_is_trained_used_explained_and_removed(run: Run) -> None:
    before = run(*ASK, "--json")
    assert "network" not in run("status", "model")
    assert "network" not in run("status", "model", "--json")
    assert "network: trained 20" in run(*TRAIN)
    values = run(*TRAIN, "--seed", "3", "--batch", "4", "--most-links", "5", "--json")
    assert (values["settings"]["batch"], values["settings"]["most_links"]) == (4, 5)
    assert (values["settings"]["seed"], values["settings"]["steps"], values["version"]) == (3, 2, 1)
    assert values["bytes"] == FILE.stat().st_size
    assert "on version 1, 72 triples, 2 steps and 3 of its encoder in" in run("status", "model")
    assert run("status", "model", "--json")["network"]["settings"]["seed"] == 3
    alone = run("network", "model", "--steps", "0", "--encoder-steps", "1", "--encoder-batch", "4", "--device", "cpu")
    assert "72 triples, 1 step of an encoder in" in alone
    assert run(*ASK, "--json")["way"].endswith("company, likeness, encoder")
    run(*TRAIN, "--seed", "3")
    assert run("check", "model", "--json")["ok"]
    with_it = run(*ASK, "--json")
    assert [one["score"] for one in with_it["answers"]] != [one["score"] for one in before["answers"]]
    assert "company, likeness, network, encoder" in with_it["way"]
    kinds = {reason["kind"]: reason["text"] for reason in with_it["answers"][0]["reasons"]}
    explained = run(*ASK, "--explain")
    for part in ("network", "encoder"):
        assert kinds[part].startswith(f"the {part}: ")
        assert f"the {part}: " in explained
    assert "%, its rank " in explained
    assert run("network", "model", "--remove", "--json") == {"removed": True}
    assert not FILE.exists()
    assert run(*ASK, "--json") == before
    assert run("network", "model", "--remove", "--json") == {"removed": False}


def test_it_says_that_what_was_measured_is_not_shown_with_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model.load("model")
    measured = Likelihood((0.0,) * len(FEATURES), (), 1)
    model.with_choice(replace(model.choice, likelihood={"chosen": measured})).save_choice("model")
    assert main(list(TRAIN)) == 0
    assert "are was measured without it, and is not shown with it" in capsys.readouterr().err
    assert "what to expect of that was measured without the network" in run(*ASK)
    refused = run(*ASK, "--min-probability", "0.1", code=2)
    assert "are was measured without the network; `ookg network DIR --remove` goes back" in refused
    for entity, note in (
        ("new", "was measured without the network"),
        ("0,0", "`ookg calibrate DIR HELD_OUT --save` does it"),
    ):
        assert main(["predict", "model", "--given", "new.tsv", "--entity", entity]) == 0
        assert note in capsys.readouterr().err
    explain = run("predict", "model", "--given", "new.tsv", "--entity", "new", "--explain", code=2)
    assert "--explain without --relation; ask one question to see its reasons" in explain
    run("network", "model", "--remove")
    assert "what to expect of that is not calibrated" in run(*ASK)


def test_what_cannot_be_is_refused_in_one_line(run: Run) -> None:
    nothing = run("network", "model", "--steps", "0", "--encoder-steps", "0", code=2)
    assert "--steps 0 and --encoder-steps 0 leave nothing to train; give at least one of them more" in nothing
    assert "--batch 0; it must be a whole number from 1" in run("network", "model", "--batch", "0", code=2)
    assert "--most-links 0; it must be a whole number from 1" in run("network", "model", "--most-links", "0", code=2)
    assert "no model here" in run("network", "nowhere", code=2)
    assert "no model here" in run("network", "nowhere", "--remove", code=2)
    run(*TRAIN)
    content = FILE.read_bytes()
    FILE.write_bytes(content[:-5] + b"wrong")
    damaged = run(*ASK, code=2)
    assert f"{FILE}: damaged network (its content is not what was written); remove it with" in damaged
    assert "1 damaged" in run("check", "model", code=2)
    FILE.write_bytes(b"nothing of the kind")
    assert "damaged network" in run("status", "model", code=2)
    run("network", "model", "--remove")
    run(*ASK)


def test_what_is_interrupted_leaves_all_as_it_was(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*TRAIN)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in Path("model").iterdir())

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ookg.training.network_training._loss", interrupted)
    assert "interrupted" in run(*TRAIN, code=130)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in Path("model").iterdir()) == before


def test_it_stays_through_updates_and_goes_with_another_model(run: Run) -> None:
    run(*TRAIN)
    run("add", "model", "new.tsv")
    asked = ("predict", "model", "--head", "new", "--relation", "up")
    assert "network" in run(*asked)
    run(*TRAIN)
    assert "on version 1 and 2 added triples, 74 triples" in run("status", "model")
    run("update", "model", "--steps", "2", "--device", "cpu")
    assert "on version 1 and 2 added triples, 74 triples" in run("status", "model")
    run("rollback", "model")
    assert "network" in run(*asked)
    run("compact", "model", "--out", "small", code=2)  # the journal is not in its vectors
    run("rollback", "model", "2")
    run("compact", "model", "--out", "small")
    assert (Path("small") / NETWORK_FILE).read_bytes() == FILE.read_bytes()
    run("train", "graph.tsv", "--out", "model", "--overwrite", *TRAINING)
    assert not FILE.exists()


def test_a_simulation_says_that_it_is_without_the_network(run: Run) -> None:
    tune, audit = ((name, "model", "--sample", "4", "--quick", "--json") for name in ("tune", "audit"))
    before = run(*tune)["report"], run(*audit)["overall"]
    run(*TRAIN)
    tuned, audited = run(*tune), run(*audit)
    assert (tuned["report"], audited["overall"]) == before
    for values in (tuned, audited):
        assert [note for note in values["notes"] if note.startswith("the network is left out: ")] == values["notes"][
            -1:
        ]
