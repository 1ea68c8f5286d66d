from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from ookg.cli import main
from ookg.errors import InputError
from ookg.evaluation.verdicts import Classification
from ookg.evidence.claims import USE_FEATURES, feature_names
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.judge import MOST_NUMBERS, FittedJudge

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
    assert main(["classify", str(tmp_path / "model"), *files, "--save"]) == 2
    assert "none without --judge" in capsys.readouterr().err


def scores(found: Classification) -> list[float | None]:
    return [verdict.score for verdict in found.claims]


@pytest.fixture(scope="module")
def fitted(model: ookg.Model, parts: dict[str, Rows]) -> FittedJudge:
    return model.fit_judge(parts["valid"], ookg.JudgeSettings(new="head"))


def no_training(*_: object) -> None:
    pytest.fail("a stored judge trains nothing")


def test_a_stored_judge_says_the_same_and_trains_nothing(
    model: ookg.Model,
    parts: dict[str, Rows],
    fitted: FittedJudge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims, valid, given = parts["claims"], parts["valid"], parts["given"]
    expected = model.classify(claims, valid=valid, given=given, judge=True)
    assert expected.judge == fitted  # the heads of the claims are new
    model.with_judge(fitted).save(tmp_path)
    again = ookg.load(str(tmp_path))
    assert again.choice.judge == fitted
    monkeypatch.setattr("ookg.evaluation.judging.train_again", no_training)
    found = again.classify(claims, valid=valid, given=given, judge=True)
    assert (found.claims, found.accuracy, found.notes) == (expected.claims, expected.accuracy, expected.notes)
    assert scores(ookg.judge(again, claims, valid=valid, given=given)) == scores(expected)
    assert scores(model.classify(claims, valid=valid, given=given, judge=fitted)) == scores(expected)
    turned = [(tail, relation, head, label) for head, relation, tail, label in claims]
    notes = again.classify(turned, valid=valid, given=given, judge=True).notes
    assert any("a new head, and not on such" in note for note in notes)


def test_a_judge_is_fitted_for_both_ends_if_nothing_else_is_said(
    model: ookg.Model, parts: dict[str, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = model.fit_judge(parts["valid"], ookg.JudgeSettings(steps=20))
    assert (found.new, found.learned["steps"], list(found.own)) == ("both", 20, ["near"])
    assert found.features == feature_names()
    monkeypatch.setattr("ookg.evaluation.judging.train_again", no_training)
    for valid in ([row[:3] for row in parts["valid"]], [(*row[:3], "1") for row in parts["valid"]]):
        with pytest.raises(InputError, match=r"label column|labelled claims of both kinds"):
            model.fit_judge(valid)


def test_a_judge_of_another_model_is_refused(model: ookg.Model, parts: dict[str, Rows], fitted: FittedJudge) -> None:
    other = ookg.train(parts["train"], replace(SETTINGS, seed=1, steps=5))
    with pytest.raises(InputError, match="learned with another model than this one; fit the judge again"):
        other.with_judge(fitted)
    with pytest.raises(InputError, match="learned with another model"):
        other.classify(parts["claims"], valid=parts["valid"], given=parts["given"], judge=fitted)
    less = replace(
        fitted, features=fitted.features[1:], centre=fitted.centre[1:], scale=fitted.scale[1:],
        shared=fitted.shared[1:], own={},
    )  # fmt: skip
    with pytest.raises(InputError, match="the judge weighs 17 features and the evidence has 18 others"):
        model.with_judge(less)
    with pytest.raises(InputError, match="leave out weights, limit and refine"):
        model.classify(parts["claims"], valid=parts["valid"], judge=True, refine=True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"features": "distance"}, "instead of names"),
        ({"features": []}, "a judge of 0 features"),
        ({"centre": [0.0]}, "centre of a judge must be"),
        ({"scale": None}, "instead of numbers"),
        ({"shared": [True] * 15}, "instead of numbers"),
        ({"own": {"near": [1.0]}}, "own weights of 'near'"),
        ({"own": []}, "missing in a judge"),
        ({"vectors": 3}, "missing in a judge"),
        ({"new": "middle"}, "new end of a judge is 'middle'"),
    ],
)
def test_a_damaged_judge_is_refused(fitted: FittedJudge, change: dict[str, object], problem: str) -> None:
    values = json.loads(json.dumps(fitted.to_dict()))
    assert FittedJudge.from_dict(values) == fitted
    with pytest.raises(InputError, match=problem):
        FittedJudge.from_dict(values | change)


def test_numbers_of_a_judge_are_finite_and_few(fitted: FittedJudge) -> None:
    with pytest.raises(InputError, match=f"centre of a judge must be {len(fitted.centre)} finite numbers; fit the"):
        replace(fitted, centre=(float("nan"), *fitted.centre[1:]))
    with pytest.raises(InputError, match=f"shared of a judge must be {len(fitted.shared)} finite numbers; fit the"):
        replace(fitted, shared=(float("inf"), *fitted.shared[1:]))
    with pytest.raises(InputError, match="scale of a judge has 0"):
        replace(fitted, scale=(0.0, *fitted.scale[1:]))
    many = {f"r{number}": fitted.shared for number in range(MOST_NUMBERS // len(fitted.shared) + 1)}
    with pytest.raises(InputError, match=r"too large to be stored; give labelled claims of [\d,]+ relations at most"):
        replace(fitted, own=many)


def test_tuning_keeps_the_judge(model: ookg.Model, fitted: FittedJudge) -> None:
    hiding = ookg.HidingSettings(sample=10)
    tuned = model.with_judge(fitted).tune(ookg.TuningSettings(hiding, retraining=None, trials=1))
    assert tuned.choice.judge == fitted
    assert NewcomerChoice.from_dict(json.loads(json.dumps(tuned.choice.to_dict()))) == tuned.choice


def test_the_command_stores_a_judge_and_uses_it(
    model: ookg.Model,
    parts: dict[str, Rows],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path / "model"
    model.save(directory)
    for name in ("valid", "given", "claims"):
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in parts[name]))
    files = ["--valid", str(tmp_path / "valid"), "--given", str(tmp_path / "given"), str(tmp_path / "claims")]
    command = ["classify", str(directory), "--device", "cpu", *files, "--judge", "--json"]
    assert main([*command, "--save"]) == 0
    said = capsys.readouterr()
    assert "the judge is stored" in said.err
    monkeypatch.setattr("ookg.evaluation.judging.train_again", no_training)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(said.out)
    known = ["classify", str(directory), "--device", "cpu", "--valid", str(tmp_path / "valid"), str(tmp_path / "valid")]
    before = (directory / "model.json").read_bytes()
    assert main([*known, "--judge", "--save"]) == 0
    assert "no judge to store" in capsys.readouterr().err
    assert (directory / "model.json").read_bytes() == before
    description = json.loads(before)
    description["newcomers"]["judge"]["shared"][0] += 1e-9
    (directory / "model.json").write_text(json.dumps(description))
    assert main(command) == 2
    assert "damaged 'newcomers' (its digest is another)" in capsys.readouterr().err


def test_claims_about_newcomers_are_judged_by_default_without_a_training(
    model: ookg.Model, parts: dict[str, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ookg.evaluation.judging.train_again", no_training)
    claims, valid, given = parts["claims"], parts["valid"], parts["given"]
    found = model.classify(claims, valid=valid, given=given)
    assert found.accuracy is not None
    assert found.accuracy > 85
    assert found.judge is not None
    assert (found.judge.new, found.judge.learned["retrained"]) == ("both", False)
    assert found.judge.worth is not None
    assert found.judge.worth.tells
    assert "80 claims about new entities judged by all evidence" in found.notes[-1]
    for claim in found.claims:
        assert claim.probability is not None
        assert claim.verdict == (claim.probability >= 0.5)
    assert scores(model.with_judge(found.judge).classify(claims, valid=valid, given=given)) == scores(found)
    unlabelled = [row[:3] for row in valid]
    with pytest.raises(InputError, match="no label column"):
        model.classify(claims, valid=unlabelled, given=given)


@pytest.mark.parametrize("how", [{"refine": True}, {"judge": False}, {"weights": ookg.Uniform()}])
def test_thresholds_come_from_newcomers_of_the_same_kind(
    model: ookg.Model, parts: dict[str, Rows], how: dict[str, Any]
) -> None:
    found = model.classify(parts["claims"], valid=parts["valid"], given=parts["given"], **how)
    assert found.judge is None
    assert found.accuracy is not None
    assert found.accuracy > 55  # these vectors are small and poor
    verdicts = [bool(claim.verdict) for claim in found.claims]
    assert 0.1 < np.mean(verdicts) < 0.9  # half of them are true
    assert "thresholds that known entities made new again have" in found.notes[-1]
    for claim in found.claims:
        assert claim.probability is not None
        assert claim.probability >= 0.5 if claim.verdict else claim.probability <= 0.5


def test_what_cannot_tell_true_from_false_says_so(model: ookg.Model, parts: dict[str, Rows]) -> None:
    checkpoint = model.checkpoint
    noise = torch.randn(checkpoint.embedding.entities.shape, generator=torch.Generator().manual_seed(0))
    lost = ookg.Model(replace(checkpoint, embedding=replace(checkpoint.embedding, entities=noise)))
    found = lost.classify(parts["claims"], valid=parts["valid"], given=parts["given"], judge=False)
    assert "this cannot tell true from false here" in found.notes[-1]
    assert "the judge looks at more than vectors" in found.notes[-1]


def test_too_few_labelled_claims_are_reported(model: ookg.Model, parts: dict[str, Rows]) -> None:
    found = model.classify(parts["claims"], valid=parts["valid"][:4], given=parts["given"], judge=False)
    assert "too few labelled claims" in found.notes[-1]


def test_a_judge_of_an_older_version_has_no_worth(
    model: ookg.Model, parts: dict[str, Rows], fitted: FittedJudge
) -> None:
    values = fitted.to_dict()
    assert values.pop("worth")["claims"] == 24
    old = FittedJudge.from_dict(values)
    found = model.classify(parts["claims"], valid=parts["valid"], given=parts["given"], judge=old)
    assert {claim.probability for claim in found.claims} == {None}
    for worth in ({}, [1], {"accuracy": 2, "slope": 1, "claims": 1}, {"accuracy": "x", "slope": 1, "claims": 1}):
        with pytest.raises(InputError, match="worth of a judge"):
            FittedJudge.from_dict(values | {"worth": worth})


def test_a_judge_of_an_older_version_looks_at_what_it_knew(
    model: ookg.Model, parts: dict[str, Rows], fitted: FittedJudge
) -> None:
    size = len(fitted.features) - len(USE_FEATURES)
    old = replace(
        fitted, features=fitted.features[:size], centre=fitted.centre[:size], scale=fitted.scale[:size],
        shared=fitted.shared[: size + 1], own={label: row[: size + 1] for label, row in fitted.own.items()},
    )  # fmt: skip
    assert model.with_judge(old).judge == old
    nothing = (0.0,) * len(USE_FEATURES)
    without = replace(fitted, shared=old.shared + nothing, own={label: row + nothing for label, row in old.own.items()})
    found, expected, new = (
        [
            claim.score
            for claim in model.classify(parts["claims"], valid=parts["valid"], given=parts["given"], judge=one).claims
        ]
        for one in (old, without, fitted)
    )
    assert found == pytest.approx(expected)
    assert found != pytest.approx(new)


def test_a_stored_judge_that_does_not_fit_is_replaced_by_default(
    model: ookg.Model, parts: dict[str, Rows], fitted: FittedJudge
) -> None:
    old = model.with_choice(NewcomerChoice(judge=replace(fitted, vectors="0" * 64)))
    assert (model.with_judge(fitted).judge, old.judge) == (fitted, None)
    claims, valid, given = parts["claims"], parts["valid"], parts["given"]
    found = old.classify(claims, valid=valid, given=given)
    assert found.judge is not None
    assert found.judge.vectors == fitted.vectors
    with pytest.raises(InputError, match="learned with another model"):
        old.classify(claims, valid=valid, given=given, judge=True)


def test_the_command_stores_the_judge_by_default(
    model: ookg.Model,
    parts: dict[str, Rows],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ookg.evaluation.judging.train_again", no_training)
    model.save(tmp_path / "model")
    for name in ("valid", "given", "claims"):
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in parts[name]))
    command = ["classify", str(tmp_path / "model"), "--device", "cpu", "--valid", str(tmp_path / "valid")]
    command += ["--given", str(tmp_path / "given"), str(tmp_path / "claims")]
    with monkeypatch.context() as refusing:
        refusing.setattr("ookg.model.model.Model.save_choice", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
        assert main(command) == 0
        assert "the judge is not stored: read-only" in capsys.readouterr().err
    assert main(command) == 0
    first = capsys.readouterr()
    assert "the judge is stored" in first.err
    assert "probability" in first.out
    monkeypatch.setattr("ookg.model.model.fit_judge", no_training)  # from now on it is there
    assert main(command) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "is stored" not in again.err
    assert main([*command, "--no-judge"]) == 0
    assert "thresholds that known entities made new again have" in capsys.readouterr().err
    # A question that needs no judge leaves the one that is there.
    (tmp_path / "known").write_text("".join("\t".join(row) + "\n" for row in parts["valid"][:4]))
    for options in ([*command[:-1], str(tmp_path / "known")], [*command, "--weights", "degree"]):
        assert main(options) == 0
        assert "the judge is stored" not in capsys.readouterr().err
        assert ookg.load(tmp_path / "model").choice.judge is not None


def test_a_model_of_16_bits_is_judged_too(model: ookg.Model, parts: dict[str, Rows]) -> None:
    found = model.compacted().classify(parts["claims"], valid=parts["valid"], given=parts["given"])
    assert found.judge is not None
    assert found.accuracy is None or found.accuracy > 50


def test_claims_without_training_triples_are_held_against_thresholds(model: ookg.Model, parts: dict[str, Rows]) -> None:
    bare = ookg.Model(replace(model.checkpoint, graph=None))
    found = bare.classify(parts["claims"], valid=parts["valid"], given=parts["given"])
    assert found.judge is None
    assert any("no training triples" in note for note in found.notes)
