"""The index beside going through all triples."""

from __future__ import annotations

import numpy as np
import pytest

from ookg.graph import index as index_module
from ookg.graph.index import GraphIndex
from ookg.types import IntArray


def random_graph(seed: int) -> IntArray:
    """Distinct triples of 30 entities, of which the last five have none, with loops."""
    random = np.random.default_rng(seed)
    rows = np.stack([random.integers(0, bound, 80) for bound in (25, 4, 25)], axis=1)
    rows[::9, 2] = rows[::9, 0]
    return np.unique(rows, axis=0)


def links_by_hand(triples: IntArray, entity: int, num_relations: int) -> list[tuple[int, int]]:
    found = [(relation, tail) for head, relation, tail in triples.tolist() if head == entity]
    found += [(num_relations + relation, head) for head, relation, tail in triples.tolist() if tail == entity]
    return sorted(found)


def agrees(index: GraphIndex, triples: IntArray, entities: list[int], num_relations: int) -> None:
    for entity in entities:
        rows = index.rows(entity)
        found = list(zip(index.link[rows].tolist(), index.other[rows].tolist(), strict=True))
        expected = links_by_hand(triples, entity, num_relations)
        assert found == expected
        for link in {0, 2 * num_relations - 1, *(link for link, _ in expected)}:
            assert index.answers(entity, link).tolist() == [other for own, other in expected if own == link]


@pytest.mark.parametrize("seed", range(5))
def test_each_entity_has_its_links(seed: int) -> None:
    triples = random_graph(seed)
    index = GraphIndex.of(triples, 30, 4)
    assert index.num_entities == 30
    assert index.link.dtype == np.int32
    agrees(index, triples, list(range(30)), 4)


@pytest.mark.parametrize("size", [0, 1, 80, 3000])
def test_sorting_in_little_memory_gives_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(size)
    rows = np.stack([random.integers(0, bound, size) for bound in (25, 40, 25)], axis=1)
    triples = random.permutation(np.unique(rows, axis=0))
    expected = GraphIndex.of(triples, 30, 40)
    monkeypatch.setattr(index_module, "SORTED_AT_ONCE", -1)
    index = GraphIndex.of(triples, 30, 40)
    for name in ("offsets", "link", "other"):
        one, other = getattr(index, name), getattr(expected, name)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


def test_entities_that_it_does_not_know_have_none() -> None:
    index = GraphIndex.of(random_graph(0), 30, 4)
    for entity in (-1, 30, 10**12):
        rows = index.rows(entity)
        assert rows.stop == rows.start
        assert len(index.answers(entity, 0)) == 0


def test_rows_of_many_entities() -> None:
    triples = random_graph(1)
    index = GraphIndex.of(triples, 30, 4)
    entities = np.array([7, 29, 3, -1, 7, 99])
    rows, place = index.rows_of(entities)
    for number, entity in enumerate(entities.tolist()):
        own = rows[place == number]
        found = list(zip(index.link[own].tolist(), index.other[own].tolist(), strict=True))
        assert found == links_by_hand(triples, entity, 4)


def test_of_many_rows_some_at_even_distances() -> None:
    index = GraphIndex.of(random_graph(1), 30, 4)
    entities = np.array([7, -1, 3])
    rows, place = index.rows_of(entities, 3)
    for number, entity in enumerate(entities.tolist()):
        all_rows = np.arange(30 * 1000)[index.rows(entity)]
        size = len(all_rows)
        expected = all_rows[[0, size // 3, 2 * size // 3]] if size else all_rows
        assert rows[place == number].tolist() == expected.tolist()
    assert index.rows_of(entities, 10**6)[0].tolist() == index.rows_of(entities)[0].tolist()


def test_a_graph_without_triples() -> None:
    nothing = np.empty((0, 3), dtype=np.int64)
    for entities, relations in ((0, 0), (3, 0), (3, 2)):
        index = GraphIndex.of(nothing, entities, relations)
        assert index.num_entities == entities
        rows = index.rows(0)
        assert rows.stop == rows.start


def test_where_a_row_does_not_fit_into_one_number() -> None:
    # So many relations that owner, link and other end together need more than 63 bits, and a link more than 31.
    relations = 1 << 60
    triples: IntArray = random_graph(2) * np.array([1, 1 << 50, 1])
    index = GraphIndex.of(triples, 30, relations)
    assert index.link.dtype == np.int64
    agrees(index, triples, list(range(30)), relations)
