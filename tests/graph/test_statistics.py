from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ookg
from ookg.datasets.folder import load_dataset
from ookg.graph import known, statistics
from ookg.graph.known import KnownGraph
from ookg.graph.layers import Layers
from ookg.graph.statistics import MOST_RELATIONS, GraphStatistics, directed_cooccurrence, pairs_gained
from ookg.graph.triples import as_triples
from ookg.newcomers.refinement import RefineSettings
from ookg.training.settings import TrainingSettings
from ookg.types import IntArray


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


def slow_bounded(triples: list[tuple[int, int, int]], relations: int, most: int) -> list[list[int]]:
    """Entities with more than `most` relations count on the diagonal alone."""
    has: dict[int, set[int]] = {}
    for h, r, t in triples:
        has.setdefault(h, set()).add(r)
        has.setdefault(t, set()).add(r)
    found = [[0] * relations for _ in range(relations)]
    for own in has.values():
        for a in own:
            for b in own if len(own) <= most else {a}:
                found[a][b] += 1
    return found


@pytest.mark.parametrize("seed", range(5))
def test_hubs_count_on_the_diagonal_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_RELATIONS", 4)
    rng = np.random.default_rng(seed)
    known = random_ids(rng, 15, 8, 40)
    graph = GraphStatistics.count(known, 15, 8)
    expected = slow_bounded(list(map(tuple, known.tolist())), 8, 4)
    assert graph.cooccurrence.toarray().tolist() == expected
    assert expected != slow_cooccurrence(list(map(tuple, known.tolist())), 8)
    # An entity that becomes a hub by what is given takes its pairs along.
    given = random_ids(rng, 20, 8, 12)
    together = list(map(tuple, np.concatenate([known, given]).tolist()))
    found = graph.with_given(known, given, 15).cooccurrence.toarray().tolist()
    assert found == slow_bounded(together, 8, 4)


@pytest.mark.parametrize("seed", range(5))
def test_of_very_many_pairs_the_most_frequent_are_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    triples = random_ids(np.random.default_rng(seed), 30, 40, 400)
    whole = GraphStatistics.count(triples, 30, 40)
    full = whole.cooccurrence.toarray()
    monkeypatch.setattr(statistics, "MOST_PAIRS", 200)
    monkeypatch.setattr(statistics, "BLOCK_PAIRS", 50)
    bounded = GraphStatistics.count(triples, 30, 40)
    kept = np.eye(40, dtype=np.bool_)
    for row in range(40):
        others = [column for column in range(40) if column != row and full[row, column]]
        kept[row, sorted(others, key=lambda column: (-full[row, column], column))[:5]] = True
    assert bounded.cooccurrence.toarray().tolist() == np.where(kept | kept.T, full, 0).tolist()
    # What is given on top stays a share.
    given = bounded.with_given(triples, triples[:50] + np.array([25, 0, 0]), 30)
    pairs = np.stack(np.meshgrid(np.arange(40), np.arange(40)), axis=-1).reshape(-1, 2)
    assert 0 <= given.correlation(*pairs.T).min() <= given.correlation(*pairs.T).max() <= 2


@pytest.mark.parametrize(("most_relations", "most_pairs"), [(1000, 1 << 24), (15, 1 << 24), (1000, 200), (15, 200)])
def test_counting_without_a_copy_gives_the_same(
    most_relations: int, most_pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "MOST_RELATIONS", most_relations)
    monkeypatch.setattr(statistics, "MOST_PAIRS", most_pairs)
    monkeypatch.setattr(statistics, "BLOCK_PAIRS", 50)
    triples = np.unique(random_ids(np.random.default_rng(0), 30, 40, 400), axis=0)
    expected = GraphStatistics.count(triples, 35, 40)
    monkeypatch.setattr(known, "COUNTED_AT_ONCE", 0)
    counted = KnownGraph(triples, 35, 40).statistics
    assert counted.degree.tolist() == expected.degree.tolist()
    assert counted.cooccurrence.toarray().tolist() == expected.cooccurrence.toarray().tolist()
    assert counted.cooccurrence.dtype == expected.cooccurrence.dtype


def test_a_hub_of_thousands_of_relations_takes_little_room(tmp_path: Path) -> None:
    # 4,000 relations at one entity are 16 million pairs; all of it works, and none of them is stored.
    rows = [("hub", f"r{n}", f"e{n}") for n in range(4000)] + [("a", "r0", "b"), ("a", "r1", "b")]
    settings = TrainingSettings(dim=4, steps=2, batch=16, negatives=2)
    ookg.train(as_triples(rows), settings, device="cpu").save(tmp_path / "model")
    (stored,) = tmp_path.glob("model/data-*/cooccurrence.parquet")
    assert stored.stat().st_size < 200_000
    model = ookg.Model.load(tmp_path / "model")
    graph = model.checkpoint.statistics
    assert graph is not None
    assert graph.cooccurrence.nnz == 4000 + 2
    # The hub, e0, a and b have r0, and two of them have r1 too.
    assert graph.correlation(np.array([1, 0, 2]), np.array([0, 0, 0])).tolist() == [2 / 4 + 2 / 4, 2.0, 0.0]
    given = [("new", f"r{n}", f"e{n}") for n in range(4000)]
    for refine in (False, RefineSettings(steps=2)):
        found = model.predict(given, head="new", relation="r0", top=3, refine=refine, combine=True)
        assert len(found.answers) == 3


def test_no_entity_of_the_published_sets_is_a_hub(published: Path) -> None:
    for name in ("FB15k-Head-10", "FB15k-Tail-10", "WN11-Head-1000"):
        triples = load_dataset(name, published).train
        ends = np.concatenate([triples.ids[:, [0, 1]], triples.ids[:, [2, 1]]])
        counts = np.bincount(np.unique(ends, axis=0)[:, 0])
        assert counts.max() < MOST_RELATIONS / 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [3, 1000])
def test_counts_that_follow_each_triple_are_those_of_all(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_RELATIONS", most)
    triples = random_ids(np.random.default_rng(seed), 8, 7, 40)
    total: dict[int, int] = {}
    has: dict[int, set[int]] = {}
    for number, (head, relation, tail) in enumerate(triples.tolist(), start=1):
        for end in {head, tail}:
            own = has.setdefault(end, set())
            for key, gained in pairs_gained(own, relation).items():
                total[key] = total.get(key, 0) + gained
            own.add(relation)
        counted = GraphStatistics.count(triples[:number], 8, 7).cooccurrence.toarray()
        expected = {(one << 32) + other: int(counted[one, other]) for one, other in np.argwhere(counted).tolist()}
        assert {key: count for key, count in total.items() if count} == expected
    assert (max(map(len, has.values())) > most) == (most == 3)  # some pass the limit


def test_a_change_on_top_is_counted_like_a_table_with_it() -> None:
    triples = random_ids(np.random.default_rng(4), 8, 5, 20)
    before, after = (GraphStatistics.count(triples[:size], 8, 5) for size in (12, 20))
    difference = (after.cooccurrence - before.cooccurrence).toarray()
    change = {(one << 32) + other: int(difference[one, other]) for one, other in np.argwhere(difference).tolist()}
    changed = replace(before, change=Layers(change))
    one, other = (part.ravel() for part in np.meshgrid(np.arange(5), np.arange(5)))
    assert changed.correlation(one, other).tolist() == after.correlation(one, other).tolist()
    assert changed.correlation(one, other).tolist() != before.correlation(one, other).tolist()
