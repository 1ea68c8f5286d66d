"""Many triples at once are counted as arrays, and newcomers that nothing ties are one crowd: the same numbers as one by
one, for what comes and goes afterwards too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

import ookg
from ookg.evidence.combined import RankingWeights
from ookg.extension.extended import ExtendedModel
from ookg.extension.questions import AnswerOptions, Question, Ranking, answered
from ookg.extension.vectors import entity_vector, entity_vectors
from ookg.graph.grown import MANY
from ookg.newcomers.embedder import NeighborLimit
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights

Row = tuple[str, str, str]
FIT = ookg.RefineSettings(steps=4, margin=4.0, lr=0.05, negatives=8, batch=4)
OPTIONS = AnswerOptions(combine=RankingWeights(1.0, 3.0, 0.5), top=100, drop_known=False)


def many(seed: int, size: int = 100) -> list[Row]:
    """Triples of many newcomers: most are alone, some tied, over a new relation too; loops; facts of known entities."""
    random = np.random.default_rng(seed)
    found: dict[Row, None] = {}
    while len(found) < size:
        new, known, relation = f"n{random.integers(40)}", f"e{random.integers(20)}", f"r{random.integers(4)}"
        kind = random.random()
        if kind < 0.05:
            found[new, relation, f"n{random.integers(6)}"] = None  # with another, or itself
        elif kind < 0.08:
            found[f"m{random.integers(4)}", "made", known] = None
        elif kind < 0.2:
            found[known, relation, f"e{random.integers(20)}"] = None
        else:
            found[(new, relation, known) if kind < 0.6 else (known, relation, new)] = None
    return [("loop", "r0", "loop"), *found, ("other loop", "r1", "other loop")]


def one_by_one(model: ookg.Model, rows: Sequence[Row], **options: object) -> ExtendedModel:
    extended = model.extend(**options)  # type: ignore[arg-type]
    for row in rows:
        extended.add([row])
    return extended


def everything(extended: ExtendedModel) -> str:
    """All that it says, with the bits of every number."""
    found: list[object] = [extended.triples, extended.notes, sorted(extended.new_entities), len(extended)]
    state = extended._state
    asked = [
        "e3",
        *(name for name in sorted(extended.new_entities) if state.is_represented(state.entities.ids([name])[0])),
    ]
    for number, name in enumerate(asked[:12]):
        question = Question(f"r{number % 4}", name) if number % 3 else Question(f"r{number % 4}", None, name)
        prediction = extended.predict_all([question], OPTIONS)[0]
        # Of equal scores the lower id comes first, and ids tell in which calls things came.
        answers = sorted(
            (-answer.score, answer.entity, answer.is_known, repr(answer.link)) for answer in prediction.answers
        )
        reasons = sorted((r.entity, r.relation, r.direction, r.weight) for r in prediction.explanation)
        found += [question, answers, reasons, prediction.trust]
    return repr(found)


@pytest.mark.parametrize("weights", [Correlation(4.0), Degree()], ids=str)
def test_the_same_as_one_by_one(model: ookg.Model, weights: Weights) -> None:
    rows = many(0)
    at_once, slowly = model.extend(rows, weights=weights), one_by_one(model, rows, weights=weights)
    assert len(at_once._state.graph.batch) == len(rows) > MANY > len(slowly._state.graph.batch)
    assert any(group.is_crowd for group in at_once._state.groups.values())
    assert not any(group.is_crowd for group in slowly._state.groups.values())
    assert everything(at_once) == everything(slowly)


@pytest.mark.parametrize("seed", range(2))
def test_what_comes_and_goes_afterwards(model: ookg.Model, seed: int) -> None:
    rows = many(seed)
    random = np.random.default_rng(seed)
    extended = model.extend(rows)
    if seed:
        everything(extended)  # evidence is counted, and kept up
    gone = [rows[place] for place in random.permutation(len(rows))[:25]]
    for row in gone[:15]:
        extended.remove([row])
    extended.remove(gone[15:])
    more = [("n1", "r3", "e9"), ("n2", "r2", "n3"), ("late", "r0", "e1"), *gone[:5]]
    for row in more:
        assert extended.add([row]) == 1
    assert extended.add([*more, rows[0]]) == (rows[0] in gone[5:])
    left = [row for row in rows if row not in gone] + more + ([rows[0]] if rows[0] in gone[5:] else [])
    assert extended.triples == left
    slowly = one_by_one(model, left)
    before = everything(slowly)
    assert everything(extended) == before
    others = [(f"x{number}", f"r{number % 4}", f"e{number % 20}") for number in range(MANY)]
    assert extended.add(others) == MANY  # counted together with all that is there
    for row in others:
        slowly.add([row])
    assert everything(extended) == everything(slowly)
    extended.remove(others)
    assert everything(extended) == before
    extended.remove(left)
    assert (len(extended), extended.new_entities, extended.triples) == (0, [], [])
    assert everything(extended) == everything(model.extend())


def test_fitted_vectors(model: ookg.Model) -> None:
    rows = many(4)
    at_once, slowly = model.extend(rows, refine=FIT), one_by_one(model, rows, refine=FIT)
    leaving = [row for row in rows if "n1" in row or "n2" in row][:4]
    for extended in (at_once, slowly):
        extended.remove(leaving)
    assert set(at_once.vectors) == set(slowly.vectors)
    for name, vector in slowly.vectors.items():
        assert torch.equal(vector, at_once.vectors[name])


def test_a_limit_draws_the_same(model: ookg.Model) -> None:
    rows = many(5, 400)
    limit = NeighborLimit(3, seed=1)
    at_once = model.extend(rows, weights=Uniform(), limit=limit)
    slowly = one_by_one(model, rows, weights=Uniform(), limit=limit)
    assert set(at_once.vectors) == set(slowly.vectors)
    for name, vector in slowly.vectors.items():
        assert torch.equal(vector, at_once.vectors[name])


def test_who_leaves_a_crowd_is_prepared_alone(model: ookg.Model) -> None:
    rows = [(f"n{number}", f"r{number % 4}", f"e{number % 20}") for number in range(MANY)]
    extended = model.extend(rows)
    before = extended._state
    (crowd,) = before.groups.values()
    extended.add([("n0", "r1", "e2")])
    after = extended._state
    own, rest = after.group(len(model.entities)), after.group(len(model.entities) + 1)
    assert own is not None
    assert rest is not None
    assert (own.entities.tolist(), own.is_crowd) == ([len(model.entities)], False)
    assert rest.newcomers is crowd.newcomers  # nothing of it was made again
    assert before.group(len(model.entities)) is crowd


def test_an_old_state_answers_as_before(model: ookg.Model) -> None:
    extended = model.extend(many(1))
    state, questions = extended._state, [Question("r0", "n1"), Question("r1", None, "n2")]
    before = answered(state, questions, AnswerOptions(combine=False), Ranking(None))
    extended.add(many(2))
    extended.remove(many(1)[:40])
    assert answered(state, questions, AnswerOptions(combine=False), Ranking(None)) == before
    assert answered(extended._state, questions, AnswerOptions(combine=False), Ranking(None)) != before


@pytest.mark.parametrize("weights", [Correlation(4.0), Degree()], ids=str)
@pytest.mark.parametrize("refine", [False, True], ids=["closed form", "refined"])
def test_groups_asked_together_have_the_vectors_of_each(model: ookg.Model, weights: Weights, refine: bool) -> None:
    pairs = [(f"a{number}", f"r{number % 3}", f"b{number}") for number in range(12)]
    rows = [
        *pairs,
        ("a1", "r3", "b2"),
        ("a5", "r0", "a5"),
        ("x", "made", "e1"),
        ("x", "r1", "e3"),
        ("lost", "r1", "also"),
    ]
    rows += [(f"{'ab'[number % 2]}{number % 12}", f"r{number % 4}", f"e{number % 20}") for number in range(0, 60, 5)]
    rows += [(f"n{number}", f"r{number % 4}", f"e{number % 20}") for number in range(30)]
    state = model.extend(rows, weights=weights, refine=FIT if refine else False)._state
    assert len(state.everyone) == 3 < len(state.groups)  # alone, tied, and those with a relation of their own
    for relation in range(4):
        together = entity_vectors(state, state.new_entities, relation)
        for entity, vector in zip(state.new_entities.tolist(), together, strict=True):
            torch.testing.assert_close(
                entity_vector(state, entity, relation)[0], vector, rtol=0, atol=0, equal_nan=True
            )
