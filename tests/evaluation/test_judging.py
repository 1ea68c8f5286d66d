from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from ookg.cli import main
from ookg.errors import InputError

Rows = list[tuple[str, ...]]
SETTINGS = ookg.TrainingSettings(dim=8, steps=200, batch=64, negatives=8, margin=4.0)
CLUSTERS, SIZE = 4, 12


def claims_of(random: np.random.Generator, heads: list[str], count: int) -> Rows:
    """Claims (head, near, tail), true if both are of one cluster; each true one is followed by a false one."""
    found: Rows = []
    for _ in range(count):
        head = heads[random.integers(len(heads))]
        cluster = int(head[1])
        other = (cluster + int(random.integers(1, CLUSTERS))) % CLUSTERS
        found += [(head, "near", f"e{cluster}_{random.integers(SIZE)}", "1")]
        found += [(head, "near", f"e{other}_{random.integers(SIZE)}", "0")]
    return found


@pytest.fixture(scope="module")
def parts() -> dict[str, Rows]:
    random = np.random.default_rng(0)
    members = [f"e{cluster}_{number}" for cluster in range(CLUSTERS) for number in range(SIZE)]
    train: set[tuple[str, ...]] = {
        (head, "near", f"e{head[1]}_{random.integers(SIZE)}") for head in members for _ in range(6)
    }  # an entity is near others of its cluster
    new = [f"n{cluster}_{number}" for cluster in range(CLUSTERS) for number in range(3)]
    given: Rows = [(entity, "near", f"e{entity[1]}_{number}") for entity in new for number in (0, 3, 6)]
    return {
        "train": sorted(train),
        "valid": claims_of(random, members, 150),
        "given": given,
        "claims": claims_of(random, new, 40),
    }


@pytest.fixture(scope="module")
def model(parts: dict[str, Rows]) -> ookg.Model:
    return ookg.train(parts["train"], SETTINGS)


def test_the_judge_learns_what_new_entities_are_like(model: ookg.Model, parts: dict[str, Rows]) -> None:
    before = model.entity_vectors.clone(), model.relation_vectors.clone()
    found = ookg.judge(model, parts["claims"], valid=parts["valid"], given=parts["given"])
    assert found.accuracy is not None
    assert found.accuracy > 85
    assert all(verdict.threshold == 0 for verdict in found.claims)
    assert "80 claims about new entities judged" in found.notes[-1]
    assert torch.equal(before[0], model.entity_vectors)
    assert torch.equal(before[1], model.relation_vectors)
    again = ookg.judge(model, parts["claims"], valid=parts["valid"], given=parts["given"])
    assert [verdict.score for verdict in again.claims] == [verdict.score for verdict in found.claims]


def test_claims_about_known_entities_are_classified_as_usual(model: ookg.Model, parts: dict[str, Rows]) -> None:
    found = ookg.judge(model, parts["valid"][:20], valid=parts["valid"], given=parts["given"])
    usual = model.classify(parts["valid"][:20], valid=parts["valid"], given=parts["given"])
    assert found.claims == usual.claims
    unknown = [("nobody", "near", "e0_0"), ("n0_0", "far", "e0_0")]
    assert [v.verdict for v in ookg.judge(model, unknown, valid=parts["valid"], given=parts["given"]).claims] == [
        None
    ] * 2


def test_what_the_judge_needs(model: ookg.Model, parts: dict[str, Rows], monkeypatch: pytest.MonkeyPatch) -> None:
    imported = ookg.Model(replace(model.checkpoint, settings={}))
    with pytest.raises(InputError, match="classify without the judge"):
        ookg.judge(imported, parts["claims"], valid=parts["valid"], given=parts["given"])
    with pytest.raises(InputError, match="share 0"):
        ookg.JudgeSettings(share=0)
    # What cannot be learned from is refused before the training.
    monkeypatch.setattr("ookg.evaluation.judging.train_again", lambda *_: pytest.fail("trained in vain"))
    with pytest.raises(InputError, match="no labelled claims of both kinds"):
        ookg.judge(model, parts["claims"], valid=[(*row[:3], "1") for row in parts["valid"]], given=parts["given"])


def test_the_command(
    model: ookg.Model, parts: dict[str, Rows], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model")
    for name in ("valid", "given", "claims"):
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in parts[name]))
    files = ["--valid", str(tmp_path / "valid"), "--given", str(tmp_path / "given"), str(tmp_path / "claims")]
    assert main(["classify", str(tmp_path / "model"), "--device", "cpu", *files, "--judge", "--judge-steps", "50"]) == 0
    assert "accuracy:" in capsys.readouterr().out
    assert main(["classify", str(tmp_path / "model"), *files, "--judge-steps", "50"]) == 2
    assert "--judge-steps without --judge" in capsys.readouterr().err
    assert main(["classify", str(tmp_path / "model"), *files, "--judge", "--weights", "uniform"]) == 2
    assert "leave out" in capsys.readouterr().err
