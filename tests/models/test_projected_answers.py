"""TransH and TransR asked for answers and validated by rank: entities are compared as the relation sees them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.cli import main
from ookg.graph.triples import Triples, write_triples

NEW = [("x", "r0", "e1"), ("e2", "r1", "x"), ("y", "r2", "e3")]


@pytest.mark.parametrize("name", ["transh", "transr", "transr of 5"])
def test_answers_have_the_scores_of_their_triples(name: str, graph: Triples) -> None:
    model, _, of = name.partition(" of ")
    trained = ookg.train(graph, SMALL.changed({"model": model, "relation_dim": int(of or 0)}), device="cpu")
    for ends in ({"head": "x"}, {"tail": "x"}):
        weights = ookg.Uniform()
        found = trained.predict(NEW, relation="r3", top=50, weights=weights, **ends).answers  # type: ignore[arg-type]
        assert {answer.entity for answer in found} >= {"y", "e1"}
        claims = [("x", "r3", answer.entity) if "head" in ends else (answer.entity, "r3", "x") for answer in found]
        valid = [("e1", "r0", "e2", "1")]
        verdicts = trained.classify(claims, valid=valid, given=NEW, weights=weights).claims
        scores = [verdict.score for verdict in verdicts]
        assert [answer.score for answer in found] == pytest.approx(scores, rel=1e-4, abs=1e-5)
        assert np.all(np.diff([answer.score for answer in found]) <= 1e-6)


@pytest.mark.parametrize("model", ["transh", "transr"])
def test_commands(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_triples(tmp_path / "graph.tsv", random_triples(0))
    write_triples(tmp_path / "valid.tsv", random_triples(1, size=10))
    write_triples(tmp_path / "new.tsv", ookg.graph.triples.as_triples(NEW))
    options = ["--dim", "6", "--steps", "20", "--batch", "16", "--negatives", "4", "--device", "cpu"]
    options += ["--valid", str(tmp_path / "valid.tsv"), "--validate-every", "10"]
    out = str(tmp_path / "model")
    assert main(["train", str(tmp_path / "graph.tsv"), "--model", model, "--out", out, *options]) == 0
    assert "has no fast kernel" in capsys.readouterr().err
    validations = json.loads((tmp_path / "model" / "model.json").read_text())["provenance"]["validations"]
    assert [step for step, _ in validations] == [10, 20]
    assert all(0 < figure <= 1 for _, figure in validations)
    asked = ["--given", str(tmp_path / "new.tsv"), "--head", "x", "--relation", "r1", "--json"]
    assert main(["predict", out, *asked, "--device", "cpu"]) == 0
    assert len(json.loads(capsys.readouterr().out)["answers"]) == 10
