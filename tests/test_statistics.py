from __future__ import annotations

import numpy as np
import pytest

from ookg.statistics import GraphStatistics, IntArray, directed_cooccurrence


def slow_cooccurrence(triples: list[tuple[int, int, int]], relations: int) -> list[list[int]]:
    has: dict[int, set[int]] = {}
    for h, r, t in triples:
        has.setdefault(h, set()).add(r)
        has.setdefault(t, set()).add(r)
    return [[sum(a in s and b in s for s in has.values()) for b in range(relations)] for a in range(relations)]


def test_by_hand() -> None:
    # Entity 0 has relations 0 and 1, entity 1 has 0 and 1, entity 2 has 1, entity 3 (a self-loop) has 2.
    triples = np.array([[0, 0, 1], [2, 1, 0], [1, 1, 2], [3, 2, 3]])
    graph = GraphStatistics.count(triples, 5, 3)
    assert graph.degree.tolist() == [2, 2, 2, 2, 0]
    assert graph.cooccurrence.toarray().tolist() == [[2, 2, 0], [2, 3, 0], [0, 0, 1]]
    # P(0 | 1) = 2/3, P(1 | 0) = 2/2
    found = graph.correlation(np.array([0, 1, 0, 0]), np.array([1, 0, 0, 2]))
    assert found.tolist() == pytest.approx([2 / 3 + 1, 2 / 3 + 1, 2, 0])


def test_directed_by_hand() -> None:
    # Entity 0 is a head of 0 and a tail of 1; entity 1 a tail of 0 and a head of 1; entity 2 a head and a tail of 1.
    triples = np.array([[0, 0, 1], [2, 1, 0], [1, 1, 2]])
    found = directed_cooccurrence(triples, 3, 2).toarray()
    assert found.tolist() == [[1, 0, 0, 1], [0, 2, 1, 1], [0, 1, 1, 0], [1, 1, 0, 2]]


def random_ids(rng: np.random.Generator, entities: int, relations: int, size: int) -> IntArray:
    return np.stack([rng.integers(0, n, size) for n in (entities, relations, entities)], axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_counts_equal_a_slow_reference(seed: int) -> None:
    triples = random_ids(np.random.default_rng(seed), 15, 6, 40)
    graph = GraphStatistics.count(triples, 15, 6)
    assert graph.cooccurrence.toarray().tolist() == slow_cooccurrence(list(map(tuple, triples.tolist())), 6)


@pytest.mark.parametrize("seed", range(5))
def test_given_triples_are_counted_in_as_if_from_the_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = random_ids(rng, 15, 6, 40)
    given = random_ids(rng, 20, 6, 12)  # entities 15 to 19 are new
    given[::4, 1] = -1  # a relation that the model does not know
    updated = GraphStatistics.count(known, 15, 6).with_given(known, given, 15)
    together = [*map(tuple, known.tolist()), *(tuple(row) for row in given.tolist() if row[1] >= 0)]
    assert updated.cooccurrence.toarray().tolist() == slow_cooccurrence(together, 6)
    assert updated.degree.tolist() == GraphStatistics.count(known, 15, 6).degree.tolist()


def test_nothing_given_changes_nothing() -> None:
    known = np.array([[0, 0, 1]])
    graph = GraphStatistics.count(known, 2, 1)
    assert graph.with_given(known, np.empty((0, 3), dtype=np.int64), 2) is graph
