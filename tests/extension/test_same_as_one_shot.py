"""An extended model says what `Model.predict` and `Model.classify` say, which go through the whole graph each time."""

from __future__ import annotations

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.evidence.combined import RankingWeights
from ookg.extension.answers import Prediction
from ookg.extension.questions import AnswerOptions, Question
from ookg.newcomers.reducer import Correlation, Degree

FIT = ookg.RefineSettings(steps=6, margin=4.0, lr=0.05, negatives=8, batch=4)
WEIGHTS = RankingWeights(1.0, 3.0, 0.5)
TOLERANCE = 1e-4
# Newcomers alone (a), tied to each other (b, c) and over a new relation (d), a loop, facts of known entities of which
# training states one, and one that nothing ties to the graph (z).
GIVEN = [
    ("a", "r0", "e1"),
    ("a", "r1", "e2"),
    ("e3", "r2", "a"),
    ("a", "r0", "e4"),
    ("b", "r1", "e5"),
    ("c", "r2", "b"),
    ("e6", "r3", "c"),
    ("d", "made", "e7"),
    ("e8", "made", "e9"),
    ("d", "r3", "e9"),
    ("a", "r3", "a"),
    ("e1", "r3", "e2"),
    next(iter(random_triples(0))),
    ("z", "r0", "y"),
]
QUESTIONS = [
    Question("r0", "a"),
    Question("r3", None, "a"),
    Question("r1", "b"),
    Question("r2", None, "c"),
    Question("r0", "d"),
    Question("r2", "e1"),
    Question("r1", None, "e2"),
    Question("r3", "e1"),
]


@pytest.fixture(scope="module", params=["transe", "rotate", "transh"])
def any_model(request: pytest.FixtureRequest) -> ookg.Model:
    return ookg.train(random_triples(0), SMALL.changed({"model": request.param}), device="cpu")


def is_close(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(1.0, abs(other))


def agree(found: Prediction, expected: Prediction) -> None:
    """The same answers with the same scores; those whose scores are all but equal may change places."""
    assert len(found.answers) == len(expected.answers) > 0
    scores = {answer.entity: answer for answer in expected.answers}
    for one, other in zip(found.answers, expected.answers, strict=True):
        same = scores[one.entity]
        assert is_close(one.score, same.score)
        assert one.entity == other.entity or is_close(same.score, other.score)
        assert (one.is_known, one.is_new) == (same.is_known, same.is_new)
        assert (one.link is None) == (same.link is None)
        if one.link is not None and same.link is not None:
            assert one.link.confidence == pytest.approx(same.link.confidence, rel=1e-9)
    reasons = sorted((r.entity, r.relation, r.direction) for r in found.explanation)
    assert reasons == sorted((r.entity, r.relation, r.direction) for r in expected.explanation)
    weights = {(r.entity, r.relation, r.direction): r.weight for r in expected.explanation}
    for reason in found.explanation:
        assert is_close(reason.weight, weights[reason.entity, reason.relation, reason.direction])
    assert (found.trust is None) == (expected.trust is None)
    if found.trust is not None and expected.trust is not None:
        assert found.trust.triples == expected.trust.triples
        assert (found.trust.spread is None) == (expected.trust.spread is None)
        assert is_close(found.trust.spread or 0.0, expected.trust.spread or 0.0)


@pytest.mark.parametrize("combine", [False, WEIGHTS], ids=["vector", "combined"])
@pytest.mark.parametrize("keeps_known", [False, True], ids=["drop", "mark"])
def test_answers(any_model: ookg.Model, combine: bool | RankingWeights, keeps_known: bool) -> None:
    extended = any_model.extend(GIVEN)
    options = AnswerOptions(combine=combine, top=100, drop_known=not keeps_known)
    for question, found in zip(QUESTIONS, extended.predict_all(QUESTIONS, options), strict=True):
        expected = any_model.predict(
            GIVEN,
            relation=question.relation,
            head=question.head,
            tail=question.tail,
            combine=combine,
            top=100,
            known_answers="mark" if keeps_known else "drop",
        )
        agree(found, expected)
        assert extended.notes == expected.notes


@pytest.mark.parametrize("combine", [False, WEIGHTS], ids=["vector", "combined"])
def test_answers_by_fitted_vectors(model: ookg.Model, combine: bool | RankingWeights) -> None:
    extended = model.extend(GIVEN, refine=FIT)
    options = AnswerOptions(combine=combine, top=100)
    for question in QUESTIONS:
        named = {"relation": question.relation, "head": question.head, "tail": question.tail}
        expected = model.predict(GIVEN, **named, refine=FIT, combine=combine, top=100)  # type: ignore[arg-type]
        agree(extended.predict_all([question], options)[0], expected)


@pytest.mark.parametrize("weights", [Degree(), Correlation(4.0)], ids=str)
def test_verdicts(any_model: ookg.Model, weights: Degree | Correlation) -> None:
    random = np.random.default_rng(1)
    valid = [
        (f"e{random.integers(20)}", f"r{number % 4}", f"e{random.integers(20)}", str(number // 4 % 2))
        for number in range(40)
    ]
    claims = [
        ("a", "r0", "e1", "1"),
        ("e5", "r1", "a", "0"),
        ("b", "r2", "c", "1"),
        ("d", "made", "e7", "1"),
        ("z", "r0", "e1", "0"),
        ("e1", "never", "e2", "0"),
        ("e1", "r3", "e2", "1"),
    ]
    found = any_model.extend(GIVEN, weights=weights).classify(claims, valid=valid)
    expected = any_model.classify(claims, valid=valid, given=GIVEN, weights=weights)
    for one, other in zip(found.claims, expected.claims, strict=True):
        assert (one.score is None) == (other.score is None)
        if one.score is not None and other.score is not None:
            assert is_close(one.score, other.score)
            assert is_close(one.score, one.threshold) or one.verdict == other.verdict
        assert (one.head, one.relation, one.tail) == (other.head, other.relation, other.tail)
    assert sorted(found.trust) == sorted(expected.trust)
    for name, trust in found.trust.items():
        assert trust.triples == expected.trust[name].triples
    assert found.notes == expected.notes
