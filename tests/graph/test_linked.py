"""Links of many entities against going through all triples."""

from __future__ import annotations

import numpy as np
import pytest

from ookg.graph.grown import GrownGraph
from ookg.graph.linked import all_triples, graph_alone, link_counts, link_rows
from ookg.types import IntArray

ENTITIES, RELATIONS = 10, 4
NOTHING = np.empty((0, 3), dtype=np.int64)


def random_triples(seed: int, size: int, entities: int = ENTITIES) -> IntArray:
    found = np.random.default_rng(seed).integers(0, [entities, RELATIONS, entities], size=(size, 3))
    return np.unique(found, axis=0)


def grown(known: IntArray, given: IntArray) -> GrownGraph:
    graph = graph_alone(known, RELATIONS)
    for number, triple in enumerate(given.tolist()):
        graph = graph.plus(tuple(triple), number)
    return graph


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("num_given", [0, 8])
def test_links_of_entities(seed: int, num_given: int) -> None:
    known, given = random_triples(seed, 30), random_triples(seed + 9, num_given, ENTITIES + 3)
    given = np.array([row for row in given.tolist() if row not in known.tolist()], dtype=np.int64).reshape(-1, 3)
    graph, triples = grown(known, given), np.concatenate([known, given]).tolist()
    asked = np.array([4, 20, 0, 4, 7, ENTITIES + 1, 0])  # unsorted, repeated; 20 is in no triple
    rows = link_rows(graph, asked)
    counts = link_counts(graph, asked)
    for number, entity in enumerate(asked.tolist()):
        expected = [(2 * r, t) for h, r, t in triples if h == entity]
        expected += [(2 * r + 1, h) for h, r, t in triples if t == entity]
        mine = rows.select(rows.owner == number)
        assert sorted(zip(mine.link.tolist(), mine.other.tolist(), strict=True)) == sorted(expected)
        assert counts[number] == len(expected)
    assert sorted(all_triples(graph).tolist()) == sorted(triples)


@pytest.mark.parametrize("asked", [[], [3, 0]])
def test_links_in_no_triples(asked: list[int]) -> None:
    entities = np.array(asked, dtype=np.int64)
    graph = graph_alone(NOTHING, RELATIONS)
    assert link_rows(graph, entities).other.tolist() == []
    assert link_counts(graph, entities).tolist() == [0] * len(asked)
    assert all_triples(graph).shape == (0, 3)
    assert link_rows(graph_alone(random_triples(0, 20), RELATIONS), entities[:0]).other.tolist() == []
