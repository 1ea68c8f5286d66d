from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ookg.errors import InputError
from ookg.graph.statistics import GraphStatistics
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers import embedder
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights, normalised
from ookg.types import IntArray

KNOWN = np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2], [2, 1, 1]])  # three entities, two relations
TABLE = torch.tensor([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]])
RELATIONS = torch.tensor([[1.0, 1.0], [0.0, -2.0]])


def newcomers(given: list[list[int]], weights: Weights, limit: NeighborLimit | None = None) -> Newcomers:
    embedding = Embedding(TransE(2), TABLE, RELATIONS)
    graph = GraphStatistics.count(KNOWN, 3, 2)
    ids = np.array(given, dtype=np.int64).reshape(-1, 3)
    return find_newcomers(embedding, graph, KNOWN, ids, weights, limit)


def test_candidates_by_hand() -> None:
    found = newcomers([[3, 0, 1]], Uniform()).vectors(np.array([0]))
    assert found.tolist() == [[-1.0, 1.0]]  # t - r = (0, 2) - (1, 1)
    found = newcomers([[2, 1, 3]], Uniform()).vectors(np.array([0]))
    assert found.tolist() == [[4.0, 2.0]]  # h + r = (4, 4) + (0, -2)


def test_rotate_candidates_by_hand() -> None:
    quarter = torch.tensor([[math.pi / 2]])
    embedding = Embedding(RotatE(1), torch.tensor([[1.0, 0.0]]), quarter)  # one entity, 1; a quarter turn
    graph = GraphStatistics.count(np.array([[0, 0, 0]]), 1, 1)
    for given, expected in (([1, 0, 0], [0.0, -1.0]), ([0, 0, 1], [0.0, 1.0])):  # 1 / i = -i and 1 · i = i
        found = find_newcomers(embedding, graph, np.array([[0, 0, 0]]), np.array([given]), Uniform())
        torch.testing.assert_close(found.vectors(np.array([0])), torch.tensor([expected]))


def test_uniform_and_degree_weights_by_hand() -> None:
    given = [[3, 0, 1], [2, 1, 3]]  # candidates (-1, 1) from entity 1 and (4, 2) from entity 2
    assert newcomers(given, Uniform()).vectors(np.array([0])).tolist() == [[1.5, 1.5]]
    found = newcomers([*given, [3, 0, 0]], Degree(0.1))  # and (0, -1) from entity 0, which has degree 2
    raw = [math.log(3.1), math.log(3.1), math.log(2.1)]  # degrees 3, 3, 2
    weights = [w / sum(raw) for w in raw]
    assert found.row_weights(np.array([0])).tolist() == pytest.approx(weights)
    expected = [-weights[0] + 4 * weights[1], weights[0] + 2 * weights[1] - weights[2]]
    assert found.vectors(np.array([0])).tolist()[0] == pytest.approx(expected)


def test_correlation_weights_by_hand() -> None:
    # All three known entities have both relations; the newcomer has relation 0 alone, then neighbour 1 again.
    found = newcomers([[3, 0, 1], [3, 1, 2], [4, 0, 0]], Correlation(4))
    # Entities with relation 0: 0, 1, 2, 3, 4; with relation 1: 0, 1, 2, 3; with both: 4.
    correlation = 4 / 5 + 4 / 4
    weights = found.row_weights(np.array([0]), np.array([0]))
    raw = [2.0**4, correlation**4]
    assert weights.tolist() == pytest.approx([raw[0] / sum(raw), raw[1] / sum(raw)])
    power_one = newcomers([[3, 0, 1], [3, 1, 2], [4, 0, 0]], Correlation(1)).row_weights(np.array([0]), np.array([0]))
    assert power_one.tolist() == pytest.approx([2 / (2 + correlation), correlation / (2 + correlation)])


def test_correlation_weights_need_a_query() -> None:
    with pytest.raises(InputError, match="give a query relation, or choose uniform or degree"):
        newcomers([[3, 0, 1]], Correlation()).vectors(np.array([0]))


def test_no_cooccurring_relation_falls_back_to_uniform() -> None:
    known = np.array([[0, 0, 1], [2, 1, 3]])  # relations 0 and 1 never meet
    embedding = Embedding(TransE(2), torch.randn(4, 2), torch.randn(3, 2))
    graph = GraphStatistics.count(known, 4, 3)
    given = np.array([[4, 0, 1], [0, 0, 4]])
    found = find_newcomers(embedding, graph, known, given, Correlation(4))
    assert found.row_weights(np.array([0]), np.array([2])).tolist() == [0.5, 0.5]
    assert torch.isfinite(found.vectors(np.array([0]), np.array([2]))).all()


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 3.0], [0.25, 0.75]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([-1.0, -3.0], [0.5, 0.5]),
        ([1.0, -1.0], [0.5, 0.5]),
        ([1.0, -1.0 + 1e-12], [0.5, 0.5]),  # what is left of a cancellation is no normaliser
        ([-np.inf, 1.0], [0.5, 0.5]),
        ([np.nan, 1.0], [0.5, 0.5]),
        ([3.0, -1.0], [1.5, -0.5]),  # a negative weight in a positive sum stays
    ],
)
def test_sums_that_are_no_normaliser_fall_back_to_uniform(weights: list[float], expected: list[float]) -> None:
    found = normalised(np.array([*weights, 2.0, 2.0]), np.array([0, 0, 1, 1]), 2)
    assert found.tolist() == pytest.approx([*expected, 0.5, 0.5])


def test_degree_zero_without_smoothing_is_handled() -> None:
    embedding = Embedding(TransE(2), torch.randn(4, 2), torch.randn(2, 2))  # entity 3 is in no triple
    graph = GraphStatistics.count(KNOWN, 4, 2)
    given = np.array([[4, 0, 3], [4, 0, 1]])
    for smoothing in (0.0, 0.1):
        found = find_newcomers(embedding, graph, KNOWN, given, Degree(smoothing)).vectors(np.array([0]))
        assert torch.isfinite(found).all()
    with pytest.raises(InputError, match="smoothing -1"):
        Degree(-1)
    with pytest.raises(InputError, match="power -1"):
        Correlation(-1)


def test_what_cannot_be_used_is_named_and_makes_no_vector() -> None:
    given = [
        [3, 0, 1],  # usable
        [3, -1, 2],  # untrained relation
        [4, 0, 6],  # two newcomers that nothing ties to a known entity
        [4, 1, 4],  # a newcomer with itself
        [0, 0, 2],  # two known entities
        [1, -1, 5],  # newcomer 5 has nothing but an untrained relation
    ]
    found = newcomers(given, Uniform())
    assert found.unused.untrained_relation.tolist() == [1, 5]
    assert found.unused.between_newcomers.tolist() == [2]
    assert found.unused.self_loops.tolist() == [3]
    assert found.unused.without_newcomer.tolist() == [4]
    assert found.representable.tolist() == [True, False, False, False]
    vectors = found.vectors(np.arange(4))
    assert vectors[0].tolist() == [-1.0, 1.0]
    assert vectors[1:].isnan().all()


def test_nothing_given() -> None:
    found = newcomers([], Uniform())
    assert found.support.num_newcomers == 0
    assert found.vectors(np.arange(0)).shape == (0, 2)


def test_a_cap_chooses_by_seed_and_alike_for_each_newcomer() -> None:
    given = [[3, r, t] for r in (0, 1) for t in (0, 1, 2)] + [[4, 0, 0]]

    def chosen(limit: NeighborLimit) -> list[list[int]]:
        support = newcomers(given, Uniform(), limit).support
        return [support.triple[support.newcomer == n].tolist() for n in (0, 1)]

    first = chosen(NeighborLimit(2, seed=0))
    assert [len(rows) for rows in first] == [2, 1]
    assert first == chosen(NeighborLimit(2, seed=0))
    assert len({tuple(chosen(NeighborLimit(2, seed))[0]) for seed in range(10)}) > 1
    assert [len(rows) for rows in chosen(NeighborLimit(100))] == [6, 1]
    with pytest.raises(InputError, match="at most 0 neighbours"):
        NeighborLimit(0)


def slow_vector(
    geometry: Geometry, entities: torch.Tensor, relations: torch.Tensor, rows: list[list[int]], weights: list[float]
) -> torch.Tensor:
    total = torch.zeros(geometry.entity_width, dtype=torch.float64)
    for (h, r, t), weight in zip(rows, weights, strict=True):
        relation = relations[r]
        if h >= len(entities):
            candidate = geometry.solve_head(relation, entities[t])
        else:
            candidate = geometry.solve_tail(entities[h], relation)
        total += weight * candidate
    return total


@pytest.mark.parametrize("geometry", [TransE(5), RotatE(5)], ids=str)
@pytest.mark.parametrize("weights", [Uniform(), Degree(0.1), Correlation(4), Correlation(1)], ids=repr)
@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_vectors_equal_a_slow_reference(
    geometry: Geometry, weights: Weights, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "CHUNK_NUMBERS", chunk)
    rng = np.random.default_rng(0)
    known = np.stack([rng.integers(0, n, 80) for n in (12, 4, 12)], axis=1)
    pairs = {tuple(row) for row in np.stack([rng.integers(0, n, 60) for n in (18, 4, 18)], axis=1).tolist()}
    given = np.array([row for row in pairs if (row[0] >= 12) != (row[2] >= 12)])
    generator = torch.Generator().manual_seed(0)
    entities = torch.randn(12, geometry.entity_width, generator=generator, dtype=torch.float64)
    relations = torch.randn(4, geometry.relation_width, generator=generator, dtype=torch.float64)
    graph = GraphStatistics.count(known, 12, 4)
    found = find_newcomers(Embedding(geometry, entities, relations), graph, known, given, weights)
    asked: IntArray = np.array([[n, q] for n in range(6) for q in range(4)])
    vectors = found.vectors(asked[:, 0], asked[:, 1])

    together = np.concatenate([known, given])
    has: dict[int, set[int]] = {}
    for h, r, t in together.tolist():
        has.setdefault(h, set()).add(r)
        has.setdefault(t, set()).add(r)
    degree = np.bincount(known[:, [0, 2]].ravel(), minlength=12)

    def probability(b: int, a: int) -> float:
        having = [s for s in has.values() if a in s]
        return sum(b in s for s in having) / len(having)

    for (newcomer, query), vector in zip(asked.tolist(), vectors, strict=True):
        rows = [row for row in given.tolist() if newcomer + 12 in (row[0], row[2])]
        if not rows:
            assert vector.isnan().all()
            continue
        if isinstance(weights, Uniform):
            raw = [1.0] * len(rows)
        elif isinstance(weights, Degree):
            raw = [math.log(degree[min(row[0], row[2])] + 0.1) for row in rows]
        else:
            assert isinstance(weights, Correlation)
            raw = [(probability(row[1], query) + probability(query, row[1])) ** weights.power for row in rows]
        expected = slow_vector(geometry, entities, relations, rows, [w / sum(raw) for w in raw])
        torch.testing.assert_close(vector, expected)


def test_scores_of_known_and_new_ends() -> None:
    found = newcomers([[3, 0, 1], [2, 1, 4]], Uniform())  # newcomer 3 at (-1, 1), newcomer 4 at (4, 2)
    triples = np.array([[0, 0, 1], [3, 0, 1], [3, 1, 4], [5, 0, 1], [0, -1, 1], [0, 7, 1], [-1, 0, 1]])
    scores = found.scores(triples)
    # (1,0)+(1,1)-(0,2) = (2,-1); the newcomer's own triple; (-1,1)+(0,-2)-(4,2) = (-5,-3); then no vectors
    assert scores[:3].tolist() == [-3.0, 0.0, -8.0]
    assert np.isnan(scores[3:]).all()
