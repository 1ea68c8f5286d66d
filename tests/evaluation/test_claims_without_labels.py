"""Claims where nobody has labelled any, where few are labelled, and about entities that came with their vectors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ookg
from ookg.cli import main
from ookg.errors import InputError
from ookg.evaluation.verdicts import Classification
from ookg.model.held_out import held_out_rows
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.claim_thresholds import FittedThresholds
from ookg.simulation.judge import FITTED_VERSION, FittedJudge
from ookg.simulation.made_claims import MADE

Rows = list[tuple[str, ...]]
CLUSTERS, SIZE = 3, 40
NEW = [f"n{cluster}" for cluster in range(CLUSTERS)]


@pytest.fixture(scope="module")
def graph() -> Rows:
    """People of three clusters know others of theirs, and each cluster has two trades of its own."""
    random = np.random.default_rng(0)
    people = [f"p{cluster}_{number}" for cluster in range(CLUSTERS) for number in range(SIZE)]
    knows = {(one, "knows", f"p{one[1]}_{random.integers(SIZE)}") for one in people for _ in range(5)}
    return sorted({*knows, *((one, "trade", f"t{one[1]}_{int(one[3:]) % 2}") for one in people)})


@pytest.fixture(scope="module")
def model(graph: Rows) -> ookg.Model:
    return ookg.train(graph, ookg.TrainingSettings(dim=8, steps=200, batch=64, negatives=8, margin=4.0))


GIVEN: Rows = [(one, "knows", f"p{one[1]}_{number}") for one in NEW for number in (0, 3, 6)]
TRUE: Rows = [(one, "knows", f"p{one[1]}_{number}") for one in NEW for number in (1, 4, 7)]
FALSE: Rows = [(one, "knows", f"p{(int(one[1]) + 1) % CLUSTERS}_{number}") for one in NEW for number in (1, 4, 7)]
LABELLED: Rows = [
    (f"p{cluster}_{number}", "knows", f"p{(cluster + wrong) % CLUSTERS}_{(7 * number + 3) % SIZE}", str(int(not wrong)))
    for number in range(SIZE)
    for cluster in range(CLUSTERS)
    for wrong in (0, 1, 2)
]
FEW = LABELLED[:24]
TRADES: Rows = [
    (f"p{cluster}_{number}", "trade", f"t{(cluster + wrong) % CLUSTERS}_{number % 2}", str(int(not wrong)))
    for number in range(SIZE)
    for cluster in range(CLUSTERS)
    for wrong in (0, 1)
]


def values(judged: Classification) -> list[tuple[object, ...]]:
    return [(one.verdict, one.score, one.threshold, one.probability) for one in judged.claims]


def test_claims_without_labelled_ones(model: ookg.Model) -> None:
    judged = model.classify(TRUE + FALSE, given=GIVEN)
    assert judged.judge is not None
    assert (judged.judge.learned["claims"], judged.judge.learned_from_labels) == (0, False)
    right = [one.verdict is (number < len(TRUE)) for number, one in enumerate(judged.claims)]
    assert sum(right) >= 13  # of 18
    assert any("training triples and as many false ones made from them" in note for note in judged.notes)
    assert values(model.classify(TRUE + FALSE, given=GIVEN)) == values(judged)
    stored = model.with_judge(judged.judge)
    assert stored.judge_for() is stored.judge
    assert stored.judge_for(FEW).learned["claims"] == len(FEW)  # labelled claims teach it anew
    assert stored.judge_for(LABELLED).learned["made"] == 0 < stored.judge_for(FEW).learned["made"]
    bare = ookg.Model(replace(model.checkpoint, graph=None))
    with pytest.raises(InputError, match="has no triples from which claims could be made; give labelled"):
        bare.classify(TRUE, given=GIVEN)


@pytest.mark.parametrize("labelled", [None, FEW])
def test_what_nothing_like_it_has_ever_been_is_unlikely(model: ookg.Model, labelled: Rows | None) -> None:
    absurd = [(one, "trade", f"p{cluster}_{number}") for one in NEW for cluster in (0, 1) for number in (0, 5, 9)]
    judged = model.classify(absurd, valid=labelled, given=GIVEN)
    assert judged.judge is not None
    chances = [one.probability for one in judged.claims]
    assert max(chance for chance in chances if chance is not None) < 0.1
    assert None not in chances
    assert not any(one.verdict for one in judged.claims)
    known = next(one for one in model.classify([("n0", "trade", "t0_0")], valid=labelled, given=GIVEN).claims)
    assert known.probability is not None
    assert known.probability > 0.3


def test_thresholds_are_stored_and_labelled_triples_replace_made_ones(model: ookg.Model) -> None:
    known: Rows = [("p0_1", "trade", "t0_1"), ("p0_1", "trade", "t1_1")]
    made, labelled = model.classify(known), model.classify(known, valid=LABELLED)
    assert made.thresholds is not None
    assert labelled.thresholds is not None
    assert (made.thresholds.is_made, labelled.thresholds.is_made) == (True, False)
    assert values(made) != values(labelled)
    stored = model.with_choice(replace(model.choice, thresholds=labelled.thresholds))
    assert values(stored.classify(known)) == values(labelled)
    assert values(stored.extend().classify(known)) == values(labelled)
    choice = stored.choice
    assert NewcomerChoice.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice
    other = replace(labelled.thresholds, vectors="0" * 64)  # of other vectors: as if none were stored
    assert values(model.with_choice(replace(choice, thresholds=other)).classify(known)) == values(made)


def test_what_an_older_version_fitted_to_made_claims_is_fitted_anew(model: ookg.Model) -> None:
    """The version is told by a common threshold that nothing would have fitted."""
    known: Rows = [("p0_1", "unheard", "t0_1"), ("p0_1", "trade", "t0_1")]
    made, labelled = (model.classify(known, valid=valid).thresholds for valid in (None, LABELLED))
    assert made is not None
    assert labelled is not None
    for fitted, stays in ((made, False), (labelled, True)):
        stored = fitted.to_dict()
        del stored["version"]  # as they were written before
        old = FittedThresholds.from_dict(stored | {"overall": -99.0, "by_relation": {}})
        assert (old.version, fitted.version) == (1, FITTED_VERSION)
        judged = model.with_choice(replace(model.choice, thresholds=old)).classify(known)
        assert (judged.claims[1].threshold == -99.0) == stays
        assert judged.thresholds == (old if stays else made)
        assert any("an older version of ookg" in note for note in judged.notes) == stays


def test_a_judge_of_an_older_version_stays_where_it_knows_more(model: ookg.Model) -> None:
    made, labelled = (model.classify(TRUE, given=GIVEN, valid=valid).judge for valid in (None, LABELLED))
    assert made is not None
    assert labelled is not None
    assert FittedJudge.from_dict(made.to_dict()) == made
    for fitted, stays in ((made, False), (labelled, True)):
        stored = fitted.to_dict()
        del stored["version"]
        old = model.with_judge(FittedJudge.from_dict(stored))
        judged = old.classify(TRUE, given=GIVEN)
        assert judged.judge is not None
        assert judged.judge.version == (1 if stays else FITTED_VERSION)
        assert any("an older version of ookg" in note for note in judged.notes) == stays
        again = old.classify(TRUE, given=GIVEN, valid=LABELLED).judge
        assert again is not None
        assert (again.version, again.learned_from_labels) == (FITTED_VERSION, True)
    trained = replace(made, version=1, learned=made.learned | {"retrained": True})
    assert model.with_judge(trained).judge_for() == trained
    for wrong in (0, True, "2", None):
        with pytest.raises(InputError, match="version of a judge"):
            FittedJudge.from_dict(made.to_dict() | {"version": wrong})


def test_where_labelled_claims_lie_is_not_said(model: ookg.Model, tmp_path: Path) -> None:
    path = tmp_path / "labelled.tsv"
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in LABELLED))
    judged = model.classify(TRUE, given=GIVEN, valid=ookg.read_triples(path))
    assert f"the judge learned from {len(LABELLED)} labelled claims of labelled.tsv" in judged.notes
    assert not [note for note in judged.notes if str(tmp_path) in note]
    choice = replace(model.choice, judge=judged.judge, thresholds=judged.thresholds)
    model.with_choice(choice).save(tmp_path / "model")
    stored = (tmp_path / "model" / "model.json").read_text()
    assert stored.count('"labelled.tsv"') == 2  # of the judge and of the thresholds
    assert str(tmp_path) not in stored
    # What an older version stored names the folder, and is read as before.
    assert judged.judge is not None
    older_judge = replace(judged.judge, learned=judged.judge.learned | {"source": str(path)})
    model.with_choice(replace(choice, judge=older_judge)).save(tmp_path / "model")
    assert str(path) in (tmp_path / "model" / "model.json").read_text()
    older = ookg.load(tmp_path / "model").classify(TRUE, given=GIVEN)
    assert f"the judge learned from {len(LABELLED)} labelled claims of labelled.tsv" in older.notes
    assert older.judge == judged.judge


def test_what_the_judge_learned_from_is_said_once(model: ookg.Model) -> None:
    def said(valid: Rows | None) -> str:
        (note,) = [note for note in model.classify(TRUE, given=GIVEN, valid=valid).notes if "the judge learned" in note]
        return note

    triples = len(model.known_triples)
    made = f"{round(triples / 10):,} training triples and as many false ones made from them"
    assert said(None) == f"the judge learned from {made}"
    assert said(FEW) == f"the judge learned from 24 labelled claims, {made}"
    assert said(LABELLED) == f"the judge learned from {len(LABELLED)} labelled claims"
    assert not [note for note in model.classify([("p0_1", "trade", "t0_1")]).notes if "judge" in note]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"overall": None}, "must be numbers"),
        ({"overall": float("nan")}, "must be finite"),
        ({"by_relation": {"knows": True}}, "must be numbers"),
        ({"by_relation": []}, "not whole"),
        ({"vectors": 1}, "not whole"),
        ({"worth": {"accuracy": 2, "slope": 1, "claims": 1}}, "worth of a judge"),
    ],
)
def test_damaged_thresholds_are_refused(change: dict[str, object], problem: str) -> None:
    whole = FittedThresholds({"knows": -1.0}, -2.0, None, "0" * 64, {"source": "labelled.tsv"}).to_dict()
    assert FittedThresholds.from_dict(whole).to_dict() == whole
    with pytest.raises(InputError, match=problem):
        FittedThresholds.from_dict(whole | change)


def test_claims_about_entities_with_vectors_alone_are_held_against_newcomers(model: ookg.Model) -> None:
    grown = model.with_vectors(model.embed(GIVEN))
    assert (grown.given_vectors, grown.beside(grown.checkpoint.graph).given_vectors) == (3, 3)
    judged = grown.classify(TRUE + FALSE)
    assert judged.judge is None
    assert "18 claims about entities that came with vectors and no triples" in judged.notes[-1]
    # The same vectors by the closed form, and thresholds of the same kind.
    same = model.classify(TRUE + FALSE, given=GIVEN, weights=ookg.Degree())
    for one, other in zip(judged.claims, same.claims, strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-4)
    known = grown.classify([("p0_1", "trade", "t0_1")])
    assert not any("vectors and no triples" in note for note in known.notes)


def test_the_command_needs_no_labelled_triples(
    model: ookg.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model")
    claims = [*TRUE, *FALSE, ("p0_1", "trade", "t0_1")]
    for name, rows in (("given", GIVEN), ("claims", claims), ("valid", LABELLED), ("few", FEW)):
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in rows))
    command = ["classify", str(tmp_path / "model"), "--device", "cpu", "--given", str(tmp_path / "given"), "--json"]
    command += [str(tmp_path / "claims")]

    def said(*options: str) -> tuple[str, str]:
        assert main([*command, *options]) == 0
        printed = capsys.readouterr()
        return json.loads(printed.out), printed.err

    first, errors = said()
    assert "the judge is stored" in errors
    assert "the thresholds are stored" in errors
    again, errors = said()
    assert again == first
    assert "stored" not in errors
    _, errors = said("--valid", str(tmp_path / "few"))
    assert "the judge is stored" in errors
    assert "thresholds are" not in errors  # those of few triples are for one call
    by_labels, errors = said("--valid", str(tmp_path / "valid"), "--judge", "--judge-steps", "20", "--save")
    assert by_labels != first
    assert "the judge is stored" in errors
    assert "the thresholds are stored" in errors
    assert said()[0] == by_labels  # from now on, whoever asks
    stored = ookg.load(tmp_path / "model").choice
    assert stored.judge is not None
    assert stored.judge.learned_from_labels
    assert stored.thresholds is not None
    assert not stored.thresholds.is_made


def test_thresholds_fit_triples_that_training_held_out(graph: Rows, model: ookg.Model) -> None:
    """Vectors fit what they have learned better than anything new: thresholds of that would be too strict."""
    settings = ookg.TrainingSettings(dim=8, steps=200, batch=64, negatives=8, margin=4.0, held_out=60)
    holding = ookg.train(graph, settings)
    made = holding.made_claims
    assert made.truth is not None
    rows = held_out_rows(holding.known_triples, 60, settings.seed)
    unseen = {tuple(row) for row in holding.known_triples[rows].tolist()}
    assert unseen
    assert {tuple(row) for row in made.ids[made.truth].tolist()} <= unseen
    judged = holding.classify(LABELLED)
    assert judged.thresholds is not None
    assert (judged.thresholds.is_made, judged.thresholds.is_seen) == (True, False)
    assert all(one.probability is not None for one in judged.claims)
    # Without held-out triples a note says so, and how likely a claim is is not said.
    seen = model.classify(LABELLED)
    assert seen.thresholds is not None
    assert (seen.thresholds.is_seen, seen.thresholds.worth) == (True, None)
    assert all(one.probability is None for one in seen.claims)
    assert any("too strict for what is true and new" in note for note in seen.notes)
    # What an update has learned is not unseen any more.
    updated = ookg.Model(replace(holding.checkpoint, number=2))
    assert updated.made_claims.source == model.made_claims.source != made.source


@pytest.mark.parametrize("change", [{"held_out": "many"}, {"held_out": 10**6}, {"seed": -1}, {"seed": None}])
def test_settings_that_say_no_held_out_triples(graph: Rows, change: dict[str, object]) -> None:
    """They are plain values for people to read: whatever stands there, claims are made from training triples then."""
    settings = ookg.TrainingSettings(dim=4, steps=2, batch=64, negatives=2, held_out=60)
    checkpoint = ookg.train(graph, settings).checkpoint
    strange = ookg.Model(replace(checkpoint, settings=checkpoint.settings | change))
    assert strange.made_claims.source == MADE
    assert ookg.Model(replace(checkpoint, provenance={"quality": "good"})).made_claims.source == MADE


def test_a_stranger_is_held_against_more_among_known_entities_too(model: ookg.Model) -> None:
    """No person has ever been a trade: the distance stays what it is, the threshold is higher."""
    claims: Rows = [("p0_1", "trade", "t0_1"), ("p0_1", "trade", "p0_2")]
    usual, absurd = model.classify(claims, valid=LABELLED + TRADES).claims
    assert absurd.verdict is False
    assert absurd.probability is not None
    assert absurd.probability < 0.2
    assert absurd.threshold is not None
    assert usual.threshold is not None
    assert absurd.threshold > usual.threshold


def test_a_living_model_learns_from_labelled_claims_too(model: ookg.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    living = ookg.open(tmp_path / "model")
    living.add(GIVEN)
    judged = living.classify(TRUE + FALSE, valid=LABELLED)
    assert values(judged) == values(model.classify(TRUE + FALSE, valid=LABELLED, given=GIVEN))
    assert judged.judge is not None
    assert judged.judge.learned_from_labels


def test_a_judge_of_made_claims_gives_way_where_one_is_asked_for(model: ookg.Model) -> None:
    made = model.classify(TRUE, given=GIVEN).judge
    assert made is not None
    judged = model.with_judge(made).classify(TRUE, valid=LABELLED, given=GIVEN, judge=True)
    assert judged.judge is not None
    assert judged.judge.learned_from_labels
    again = model.with_judge(judged.judge).classify(TRUE, valid=LABELLED, given=GIVEN, judge=True)
    assert again.judge == judged.judge
