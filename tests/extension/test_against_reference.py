"""An extended model, and `Model.predict` and `classify`, which ask one, say what a slow reference says.

The reference prepares all newcomers at once (`find_newcomers`), takes the distance to each entity one by one, and
counts links and habits in plain loops over all triples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from math import log1p

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.evaluation.verdicts import Classification
from ookg.evidence.combined import RankingWeights
from ookg.evidence.links import SMOOTHING
from ookg.extension.answers import Prediction
from ookg.extension.questions import AnswerOptions, Question
from ookg.graph.triples import as_triples
from ookg.model.model import Given
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights
from ookg.scoring.thresholds import Thresholds
from ookg.simulation.trust import Trust

FIT = ookg.RefineSettings(steps=6, margin=4.0, lr=0.05, negatives=8, batch=4)
VECTOR, LINKS, HABITS = 1.0, 3.0, 0.5
WEIGHTS = RankingWeights(VECTOR, LINKS, HABITS)
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


@dataclass(frozen=True)
class Expected:
    """What the reference says of a question.

    scores: of all that may be an answer; stated: answers that triples state; confidence: of the best link, by entity
    weights: of the triples behind the vector, by (entity, relation, direction)
    """

    scores: dict[str, float]
    stated: set[str]
    confidence: dict[str, float]
    weights: dict[tuple[str, str, str], float]
    trust: Trust | None


def given_at_once(model: ookg.Model, weights: Weights, refine: ookg.RefineSettings | None = None) -> Given:
    return model.refined(model.given(GIVEN, weights, new_relations=True), refine or False)


def all_triples(model: ookg.Model) -> list[tuple[str, str, str]]:
    """Those of training, then the given ones; what is in both is there twice."""
    rows = model.checkpoint.triples.tolist()
    return [(model.entities.label(h), model.relations.label(r), model.entities.label(t)) for h, r, t in rows] + GIVEN


def best_confidence(model: ookg.Model, asked: str, relation: str, asks_tail: bool) -> dict[str, float]:
    """How much the best link from the asked entity to each other one speaks for the relation."""
    links: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)  # by ordered pair: relation, direction
    for head, over, tail in all_triples(model):
        links[head, tail].add((over, "out"))
        if head != tail:
            links[tail, head].add((over, "in"))
    having: Counter[tuple[str, str]] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    wanted = (relation, "out" if asks_tail else "in")
    for (head, tail), there in links.items():
        # A pair counts once from either end, a loop as two pairs of which each goes one way.
        ways = [there] if head != tail else [there, {(over, "in") for over, _ in there}]
        for way in ways:
            having.update(way)
            both.update(way if wanted in way else ())
    found: dict[str, float] = {}
    for (head, tail), there in links.items():
        seen = there if head != tail else there | {(over, "in") for over, _ in there}
        for link in seen if head == asked else ():
            if link != wanted:
                found[tail] = max(found.get(tail, 0.0), both[link] / (having[link] + SMOOTHING))
    return {entity: sure for entity, sure in found.items() if sure > 0}


def weights_behind(model: ookg.Model, given: Given, entity: int, relation: int) -> dict[tuple[str, str, str], float]:
    """The triples that made a new entity's vector."""
    newcomers, newcomer, query = given.newcomers, np.array([entity - len(model.entities)]), np.array([relation])
    if newcomers.refined is not None and newcomers.weights.needs_query:
        newcomers = replace(newcomers, weights=Uniform())
    parts = [(newcomers.support, newcomers.support.neighbor, newcomers.row_weights(newcomer, query))]
    if newcomers.together is not None:
        members = len(model.entities) + newcomers.together.ties.members
        peers = newcomers.together.peers
        parts.append((peers, members[peers.neighbor], newcomers.peer_weights(newcomer, query)))
    found = {}
    for part, neighbor, weights in parts:
        for row, weight in zip(part.rows_of(newcomer)[0], weights, strict=True):
            names = given.entities.label(neighbor[row]), given.relations.label(part.relation[row])
            found[*names, "out" if part.is_head[row] else "in"] = float(weight)
    return found


def reference(model: ookg.Model, given: Given, question: Question, *, combine: bool) -> Expected:
    newcomers, size = given.newcomers, len(given.entities)
    asked, relation = given.entities.find(question.asked), given.relations.find(question.relation)
    assert asked is not None
    assert relation is not None
    scores: dict[str, float] = {}
    for number in range(size):
        triple = (asked, relation, number) if question.asks_tail else (number, relation, asked)
        score = float(newcomers.scores(np.array([triple]))[0])
        if not np.isnan(score):
            scores[given.entities.label(number)] = score
    confidence: dict[str, float] = {}
    if combine:
        known = np.array([scores[label] for label in model.entities.labels.to_pylist()])
        confidence = best_confidence(model, question.asked, question.relation, question.asks_tail)
        side = 2 if question.asks_tail else 0
        seen = Counter(triple[side] for triple in all_triples(model) if triple[1] == question.relation)
        for label, score in scores.items():
            position = (score - known.mean()) / known.std()
            scores[label] = VECTOR * position + LINKS * confidence.get(label, 0.0) + HABITS * log1p(seen[label])
    near, far = (0, 2) if question.asks_tail else (2, 0)
    stated = {t[far] for t in all_triples(model) if t[near] == question.asked and t[1] == question.relation}
    over = [(t[0], t[2]) for t in all_triples(model)[: -len(GIVEN)] if t[1] == question.relation]
    loops = sum(one == other for one, other in over)
    if not (loops and loops >= len(over) / 5) and question.asked not in stated:
        del scores[question.asked]
    weights, trust = {}, None
    if asked >= len(model.entities):
        weights = weights_behind(model, given, asked, relation)
        own = np.array([asked - len(model.entities)])
        trust = next(iter(model.trust(newcomers, own, refine=newcomers.refined is not None, combine=combine)))
    return Expected(scores, stated, confidence, weights, trust)


def agree(found: Prediction, expected: Expected, model: ookg.Model, *, drop_known: bool = True) -> None:
    """The same answers with the same scores; those whose scores are all but equal may change places."""
    wanted = {label: score for label, score in expected.scores.items() if not (drop_known and label in expected.stated)}
    assert {answer.entity for answer in found.answers} == set(wanted)
    highest = sorted(wanted.values(), reverse=True)
    for rank, answer in enumerate(found.answers, start=1):
        assert answer.rank == rank
        assert is_close(answer.score, wanted[answer.entity])
        assert is_close(answer.score, highest[rank - 1])
        assert answer.is_known == (answer.entity in expected.stated)
        assert answer.is_new == (answer.entity not in model.entities)
        sure = 0.0 if answer.link is None else answer.link.confidence
        assert sure == pytest.approx(expected.confidence.get(answer.entity, 0.0), rel=1e-9)
    reasons = {(r.entity, r.relation, r.direction): r.weight for r in found.explanation}
    assert set(reasons) == set(expected.weights)
    for reason, weight in reasons.items():
        assert is_close(weight, expected.weights[reason])
    assert [r.weight for r in found.explanation] == sorted(reasons.values(), reverse=True)
    assert (found.trust is None) == (expected.trust is None)
    if found.trust is not None and expected.trust is not None:
        assert found.trust.triples == expected.trust.triples
        assert (found.trust.spread is None) == (expected.trust.spread is None)
        assert is_close(found.trust.spread or 0.0, expected.trust.spread or 0.0)


@pytest.mark.parametrize("combine", [False, True], ids=["vector", "combined"])
def test_answers(any_model: ookg.Model, combine: bool) -> None:
    given = given_at_once(any_model, Correlation())
    extended = any_model.extend(GIVEN, weights=Correlation())
    weighing = WEIGHTS if combine else False
    for question in QUESTIONS:
        expected = reference(any_model, given, question, combine=combine)
        for drop_known in (True, False):
            options = AnswerOptions(combine=weighing, top=100, drop_known=drop_known)
            agree(extended.predict_all([question], options)[0], expected, any_model, drop_known=drop_known)
    assert extended.notes == given.notes


def test_model_predict_asks_an_extended_model(any_model: ookg.Model) -> None:
    extended = any_model.extend(GIVEN, weights=Correlation())
    for number, question in enumerate(QUESTIONS):
        combine = WEIGHTS if number % 2 else False
        found = any_model.predict(
            GIVEN,
            relation=question.relation,
            head=question.head,
            tail=question.tail,
            combine=combine,
            top=5,
            known_answers="mark",
            new_answers=False,
        )
        options = AnswerOptions(combine, 5, drop_known=False, new_answers=False)
        assert found == replace(extended.predict_all([question], options)[0], notes=extended.notes)
        assert not any(answer.is_new for answer in found.answers)


@pytest.mark.parametrize("combine", [False, True], ids=["vector", "combined"])
def test_answers_by_fitted_vectors(model: ookg.Model, combine: bool) -> None:
    given = given_at_once(model, Correlation(), FIT)
    extended = model.extend(GIVEN, refine=FIT)
    options = AnswerOptions(combine=WEIGHTS if combine else False, top=100)
    for question in QUESTIONS:
        expected = reference(model, given, question, combine=combine)
        agree(extended.predict_all([question], options)[0], expected, model)


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
    given = given_at_once(any_model, weights)
    ids, labelled = (as_triples(rows).encoded(given.entities, given.relations) for rows in (claims, valid))
    truth = as_triples(valid).truth
    assert truth is not None
    limits = Thresholds.fit(given.newcomers.scores(labelled), labelled[:, 1], truth, len(given.relations)).of(ids[:, 1])
    scores = given.newcomers.scores(ids)
    found = any_model.classify(claims, valid=valid, given=GIVEN, weights=weights)
    for row, verdict, score, limit in zip(claims, found.claims, scores.tolist(), limits.tolist(), strict=True):
        assert (verdict.head, verdict.relation, verdict.tail) == row[:3]
        assert (verdict.score is None) == (verdict.verdict is None) == bool(np.isnan(score))
        assert (verdict.threshold is None) == (verdict.score is None)
        if verdict.score is not None and verdict.threshold is not None:
            assert is_close(verdict.threshold, limit)
            assert is_close(verdict.score, score)
            assert is_close(score, limit) or verdict.verdict == (score >= limit)
    named = {end for row in claims for end in (row[0], row[2])}
    new = [name for name in sorted(named) if name not in any_model.entities]
    new = [name for name in new if given.newcomers.has_vector(given.entities.ids([name]))[0]]
    assert sorted(found.trust) == new != []
    for name, trust in found.trust.items():
        place = given.entities.ids([name]) - len(any_model.entities)
        assert trust.triples == given.newcomers.counts[place][0]
    missing = sum(verdict.score is None for verdict in found.claims)
    line = f"{missing} of 7 claims without a verdict: an entity or the relation has no vector"
    assert found.notes[: len(given.notes) + 1] == [*given.notes, line]
    assert "too few labelled claims" in found.notes[len(given.notes) + 1]
    again: Classification = any_model.extend(GIVEN, weights=weights).classify(claims, valid=valid)
    assert again == found
