"""Habits of relations against dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ookg.evidence.combined import GraphEvidence
from ookg.evidence.source import Asked, Source
from ookg.scoring.queries import Queries
from ookg.types import IntArray

ENTITIES, RELATIONS = 8, 3
NOTHING = np.empty((0, 3), dtype=np.int64)


def habits_of(triples: IntArray, num_relations: int = RELATIONS) -> Source:
    return GraphEvidence.count(triples, NOTHING, num_relations)["habits"]


def random_triples(seed: int, size: int = 60) -> IntArray:
    """With duplicates, self-loops and relations that do not count."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, ENTITIES - 1, size=(size, 2))  # the last entity is in no triple
    return np.stack([ends[:, 0], rng.integers(-1, RELATIONS + 1, size), ends[:, 1]], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_claims_by_counting(seed: int) -> None:
    triples = random_triples(seed)
    heads = Counter((relation, head) for head, relation, _ in triples.tolist())
    tails = Counter((relation, tail) for _, relation, tail in triples.tolist())
    claims = np.stack(np.meshgrid(np.arange(ENTITIES), np.arange(RELATIONS), np.arange(ENTITIES)), -1).reshape(-1, 3)
    expected = [[np.log1p(heads[r, h]), np.log1p(tails[r, t])] for h, r, t in claims.tolist()]
    np.testing.assert_allclose(habits_of(triples).of_claims(claims), expected)


@pytest.mark.parametrize("num_known", [ENTITIES, ENTITIES - 3])
def test_answers_and_claims_agree(num_known: int) -> None:
    rng = np.random.default_rng(5)
    habits = habits_of(random_triples(4))
    asks_tail = rng.random(20) < 0.5
    relation = rng.integers(0, RELATIONS, 20)
    queries = Queries(rng.integers(0, ENTITIES, 20), relation, np.full(20, -1), asks_tail)
    found = habits.of_answers(queries, num_known, "cpu").numpy()
    assert found.shape == (20, num_known)
    assert found.max() > 0
    everyone = np.arange(num_known)
    for row in range(20):
        claims = np.stack([everyone, np.full(num_known, relation[row]), everyone], axis=1)
        expected = habits.of_claims(claims)[:, 1 if asks_tail[row] else 0]
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)


def test_each_occurrence_counts_and_an_end_is_not_the_other() -> None:
    habits = habits_of(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 2], [1, 1, 0]]), 2)
    found = np.expm1(habits.of_claims(np.array([[0, 0, 1], [1, 0, 0], [0, 0, 2], [1, 1, 0]])))
    np.testing.assert_allclose(found, [[3, 2], [0, 0], [3, 1], [1, 1]])


def test_habits_of_nothing() -> None:
    for triples in (NOTHING, np.array([[0, -1, 1], [0, RELATIONS, 1]])):
        habits = habits_of(triples)
        queries = Queries(np.array([0]), np.array([1]), np.array([-1]), np.array([True]))
        assert habits.of_claims(np.array([[0, 1, 2]])).tolist() == [[0, 0]]
        assert habits.of_answers(queries, 4, "cpu").tolist() == [[0, 0, 0, 0]]
    habits = habits_of(random_triples(0))
    empty = np.empty(0, dtype=np.int64)
    assert habits.of_claims(NOTHING).shape == (0, 2)
    assert habits.of_answers(Queries(empty, empty, empty, empty.astype(np.bool_)), 4, "cpu").shape == (0, 4)


def test_counts_beyond_the_table_of_logarithms() -> None:
    many = np.tile([[0, 0, 1]], (5000, 1))
    habits = habits_of(np.concatenate([many, [[0, 0, 2]]]))
    said = habits.of_question(Asked(7, 0, True))
    assert said.entities.tolist() == [1, 2]
    assert said.values.tolist() == [np.log1p(5000), np.log1p(1)]
