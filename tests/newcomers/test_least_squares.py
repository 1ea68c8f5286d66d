"""The least-squares vectors of new entities against dense systems and against what they must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ookg.graph.statistics import GraphStatistics
from ookg.models import Projected, TransE, TransH, TransR
from ookg.models.embedding import Embedding
from ookg.newcomers import least_squares as module
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.estimator import candidates
from ookg.newcomers.least_squares import least_squares
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights
from ookg.types import IntArray

KNOWN, RELATIONS, NEW, DIM = 12, 5, 7, 6
GEOMETRIES: list[TransH | TransR] = [
    TransH(DIM, ridge=0.3),
    TransR(DIM, ridge=0.3),
    TransR(DIM, ridge=0.3, relation_dim=4),
    TransR(DIM, ridge=0.3, relation_dim=9),
]
TINY = 1e-9


def embedding_of(geometry: TransH | TransR, seed: int = 0) -> Embedding:
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randn(KNOWN, DIM, generator=generator, dtype=torch.float64)
    parameters = torch.randn(RELATIONS, geometry.relation_width, generator=generator, dtype=torch.float64)
    return Embedding(geometry, entities, geometry.relation_vectors(parameters, 1.0))


def matrix_of(geometry: Projected, relation: torch.Tensor) -> torch.Tensor:
    """A, (space.dim, dim), column by column."""
    return torch.stack([geometry.project(column, relation) for column in torch.eye(DIM, dtype=torch.float64)], dim=1)


def random_given(seed: int) -> IntArray:
    """Triples of new entities, of 1 to 12 each; newcomer NEW - 1 has none."""
    rng = np.random.default_rng(seed)
    rows: list[list[int]] = []
    for new in range(NEW - 1):
        for _ in range(2 * new + 1):
            r, known = int(rng.integers(RELATIONS)), int(rng.integers(KNOWN))
            rows.append([KNOWN + new, r, known] if rng.random() < 0.5 else [known, r, KNOWN + new])
    return np.unique(np.array(rows), axis=0)


def newcomers(embedding: Embedding, given: IntArray, weights: Weights | None = None) -> Newcomers:
    rng = np.random.default_rng(0)
    known = np.stack([rng.integers(0, n, 60) for n in (KNOWN, RELATIONS, KNOWN)], axis=1)
    graph = GraphStatistics.count(known, KNOWN, RELATIONS)
    return find_newcomers(embedding, graph, known, given, weights or Uniform())


def dense(embedding: Embedding, given: IntArray, weights: list[float], prior: torch.Tensor) -> torch.Tensor:
    """argmin Σ ω ‖A e - b‖² + λ ‖e - e₀‖² by one stacked system."""
    geometry = embedding.geometry
    assert isinstance(geometry, Projected)
    blocks, sides = [], []
    for (h, r, t), weight in zip(given.tolist(), weights, strict=True):
        row = embedding.relations[r]
        if h >= KNOWN:
            side = geometry.solve_head(row, embedding.entities[t])
        else:
            side = geometry.solve_tail(embedding.entities[h], row)
        blocks.append(weight**0.5 * matrix_of(geometry, row))
        sides.append(weight**0.5 * side)
    blocks.append(geometry.ridge**0.5 * torch.eye(DIM, dtype=torch.float64))
    sides.append(geometry.ridge**0.5 * prior)
    found, *_ = np.linalg.lstsq(torch.cat(blocks).numpy(), torch.cat(sides).numpy(), rcond=None)
    return torch.from_numpy(found)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize(("weights", "chunk"), [(Degree(), 1), (Degree(), 1 << 23), (Correlation(), 1 << 23)])
def test_equals_a_dense_solution(
    geometry: TransH | TransR, weights: Weights, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_NUMBERS", chunk)
    embedding, given = embedding_of(geometry), random_given(1)
    found = newcomers(embedding, given, weights).with_room_for(NEW)
    asked = np.array([[n, q] for n in range(NEW) for q in (0, 3)])
    vectors = found.vectors(asked[:, 0], asked[:, 1])
    support = found.support
    assert vectors.dtype == torch.float64
    for (newcomer, query), vector in zip(asked.tolist(), vectors, strict=True):
        if newcomer == NEW - 1:
            assert vector.isnan().all()
            continue
        rows, _ = support.rows_of(np.array([newcomer]))
        own = found.row_weights(np.array([newcomer]), np.array([query]))
        prior = (torch.from_numpy(own)[:, None] * candidates(embedding, support, rows)).sum(dim=0)
        torch.testing.assert_close(vector, dense(embedding, given[support.triple[rows]], own.tolist(), prior))


def consistent(embedding: Embedding, given: IntArray, truth: torch.Tensor) -> Embedding:
    """The embedding with neighbours moved so that `truth`, (newcomers, dim), satisfies every given triple."""
    geometry, entities = embedding.geometry, embedding.entities.clone()
    assert isinstance(geometry, Projected)
    for h, r, t in given.tolist():
        new, known, sign = (h, t, 1) if h >= KNOWN else (t, h, -1)
        step = geometry.displacement(embedding.relations[r])
        hidden = torch.randn(DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(known))
        matrix = matrix_of(geometry, embedding.relations[r])
        free = hidden - torch.linalg.pinv(matrix, rtol=1e-9) @ (matrix @ hidden)  # what the relation does not see
        entities[known] = truth[new - KNOWN] + sign * step + free
    return replace(embedding, entities=entities)


@pytest.mark.parametrize(
    "geometry",
    [TransH(DIM, ridge=TINY), TransR(DIM, ridge=TINY), TransR(DIM, ridge=TINY, relation_dim=4)],
    ids=["transh", "transr", "transr 4"],
)
def test_recovers_an_entity_that_satisfies_its_triples(geometry: TransH | TransR) -> None:
    # Two relations each: two planes that are not parallel, or 4 + 4 rows of rank 6.
    given = np.array([[KNOWN, 0, 0], [1, 1, KNOWN], [KNOWN + 1, 2, 2], [KNOWN + 1, 3, 3]])
    truth = torch.randn(2, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    embedding = consistent(embedding_of(geometry), given, truth)
    found = newcomers(embedding, given).vectors(np.arange(2))
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-5)
    # One triple alone does not suffice where it leaves something open.
    if geometry != TransR(DIM, ridge=TINY):
        one = newcomers(embedding, given[:1]).vectors(np.array([0]))[0]
        assert float((one - truth[0]).norm()) > 0.01


@pytest.mark.parametrize("geometry", GEOMETRIES[:3], ids=str)
def test_one_triple_stays_at_the_neighbour_where_it_says_nothing(geometry: TransH | TransR) -> None:
    embedding = embedding_of(geometry)
    for given, sign in (([KNOWN, 1, 4], -1), ([4, 1, KNOWN], 1)):
        vector = newcomers(embedding, np.array([given])).vectors(np.array([0]))[0]
        moved, matrix = vector - embedding.entities[4], matrix_of(geometry, embedding.relations[1])
        unseen = moved - torch.linalg.pinv(matrix, rtol=1e-9) @ (matrix @ moved)
        assert unseen.abs().max() < 1e-9
        if isinstance(geometry, TransH):  # and the triple is satisfied, at any λ
            torch.testing.assert_close(moved, sign * embedding.relations[1, :DIM])


def test_equals_the_mean_of_transe_where_planes_and_matrices_do_nothing() -> None:
    given = random_given(3)
    generator = torch.Generator().manual_seed(4)
    entities = torch.randn(KNOWN, DIM, generator=generator, dtype=torch.float64)
    plain = torch.randn(RELATIONS, DIM, generator=generator, dtype=torch.float64)
    plain[:, -1] = 0  # on the plane of w
    made = np.arange(NEW - 1)
    expected = newcomers(Embedding(TransE(DIM), entities, plain), given).vectors(made)
    w = torch.eye(DIM, dtype=torch.float64)[-1].expand(RELATIONS, DIM)  # one plane for all
    plane = Embedding(TransH(DIM), entities, torch.cat([plain, w], dim=1))
    torch.testing.assert_close(newcomers(plane, given).vectors(made), expected)
    identity = torch.eye(DIM, dtype=torch.float64).flatten().expand(RELATIONS, -1)
    matrices = Embedding(TransR(DIM, ridge=TINY), entities, torch.cat([plain, identity], dim=1))
    torch.testing.assert_close(newcomers(matrices, given).vectors(made), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("geometry", GEOMETRIES[:2], ids=str)
def test_the_vector_is_the_best_of_all(geometry: TransH | TransR) -> None:
    embedding, given = embedding_of(geometry), random_given(5)
    found = newcomers(embedding, given)
    support, vectors = found.support, found.vectors(np.arange(NEW - 1))
    generator = torch.Generator().manual_seed(6)
    for newcomer, vector in enumerate(vectors):
        rows, _ = support.rows_of(np.array([newcomer]))
        prior = candidates(embedding, support, rows).mean(dim=0)
        relations = embedding.relations[torch.from_numpy(support.relation[rows])]
        # Any solution of a triple gives its right side: the candidate's projection up to what no vector reaches.
        side = [
            geometry.solve_head(relation, embedding.entities[n])
            if is_head
            else geometry.solve_tail(embedding.entities[n], relation)
            for relation, n, is_head in zip(
                relations, support.neighbor[rows].tolist(), support.is_head[rows].tolist(), strict=True
            )
        ]

        def cost(e: torch.Tensor, relations=relations, side=side, prior=prior) -> float:  # type: ignore[no-untyped-def]
            off = geometry.project(e.expand(len(relations), -1), relations) - torch.stack(side)
            return float(off.square().sum(dim=1).mean() + geometry.ridge * (e - prior).square().sum())

        for scale in (1e-3, 0.1, 1.0):
            other = vector + scale * torch.randn(DIM, generator=generator, dtype=torch.float64)
            assert cost(other) > cost(vector)


def test_single_precision_tables_and_negative_weights() -> None:
    embedding = embedding_of(TransH(DIM, ridge=0.3))
    single = Embedding(embedding.geometry, embedding.entities.float(), embedding.relations.float())
    found = newcomers(embedding, np.array([[KNOWN, 0, 1], [KNOWN, 1, 2], [KNOWN, 2, 3]]))
    rows, place = found.support.rows_of(np.array([0]))
    arguments = found.support, rows, place
    first = least_squares(embedding, *arguments, np.array([1.2, 0.4, -0.6]), 1)
    torch.testing.assert_close(first, least_squares(embedding, *arguments, np.array([0.75, 0.25, 0.0]), 1))
    second = least_squares(single, *arguments, np.array([0.75, 0.25, 0.0]), 1)
    assert second.dtype == torch.float32
    torch.testing.assert_close(second.double(), first, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="need no least squares"):
        least_squares(Embedding(TransE(2), torch.zeros(2, 2), torch.zeros(1, 2)), *arguments, np.ones(3), 1)


def test_nothing_given() -> None:
    found = newcomers(embedding_of(TransH(DIM)), np.empty((0, 3), dtype=np.int64))
    assert found.vectors(np.arange(0)).shape == (0, DIM)
    assert found.with_room_for(2).vectors(np.arange(2)).isnan().all()
