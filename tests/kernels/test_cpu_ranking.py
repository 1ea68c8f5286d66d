"""The compiled ranking against `reference_rank_counts`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ookg.models import GEOMETRIES, Geometry, TransE
from ookg.models.embedding import Embedding
from ookg.scoring.ranking import AnswerIndex, reference_rank_counts

pytest.importorskip("numba")

from ookg.kernels.cpu_ranking import gap_to_all, rank_counts

Array = np.ndarray[Any, Any]

NORMS = [("transe", 1), ("transe", 2), ("rotate", 1), ("rotate", 2)]


def geometry_of(model: str, norm: int, dim: int) -> Geometry:
    return GEOMETRIES[model](dim, norm)


def float64_gaps(geometry: Geometry, points: Array, table: Array) -> Array:
    differences = points.astype(np.float64)[:, None] - table
    if geometry.norm == 2:
        found: Array = np.sqrt((differences**2).sum(axis=-1))
    elif geometry.name == "transe":
        found = np.abs(differences).sum(axis=-1)
    else:
        found = np.hypot(differences[..., : geometry.dim], differences[..., geometry.dim :]).sum(axis=-1)
    return found


def random_others(rng: np.random.Generator, queries: int, entities: int) -> AnswerIndex:
    """Unsorted, with repetitions, and with ids beyond the table."""
    counts = rng.integers(0, 6, queries)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return AnswerIndex(rng.integers(0, entities + 3, int(offsets[-1])), offsets)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NORMS), st.integers(1, 150), st.integers(1, 150), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_counts_equal_the_reference(model: tuple[str, int], queries: int, entities: int, dim: int, seed: int) -> None:
    """On small whole numbers, where all sums are exact and ties are many."""
    rng = np.random.default_rng(seed)
    geometry = geometry_of(*model, dim)
    table, points = (
        torch.from_numpy(rng.integers(-1, 2, (rows, geometry.entity_width)).astype(np.float32))
        for rows in (entities, queries)
    )
    if geometry.name == "rotate":
        table[:, dim:] = points[:, dim:] = 0.0  # moduli that are whole numbers
    answers, others = rng.integers(0, entities, queries), random_others(rng, queries, entities)
    embedding = Embedding(geometry, table, torch.zeros(1, geometry.relation_width))
    expected = reference_rank_counts(embedding, points, answers, others.distinct_below(entities))
    better, equal = rank_counts(geometry, points.numpy(), table.numpy(), answers, others.answers, others.offsets)
    np.testing.assert_array_equal(better, expected.better)
    np.testing.assert_array_equal(equal, expected.equal)


@pytest.mark.parametrize("dim", [3, 127, 128, 300])
@pytest.mark.parametrize(("model", "norm"), NORMS)
def test_copies_of_the_answer_are_ties(model: str, norm: int, dim: int) -> None:
    """Equal vectors have equal gaps to the last bit, wherever they are in the table."""
    rng = np.random.default_rng(dim)
    geometry = geometry_of(model, norm, dim)
    table = rng.standard_normal((1300, geometry.entity_width)).astype(np.float32)
    copies = rng.choice(1300, 300, replace=False)
    table[copies] = table[copies[0]]
    points = table[copies[:1]] + rng.standard_normal((66, geometry.entity_width)).astype(np.float32) * 0.9
    answers = rng.choice(copies, 66)
    no_others, offsets = np.empty(0, dtype=np.int64), np.zeros(67, dtype=np.int64)
    better, equal = rank_counts(geometry, points, table, answers, no_others, offsets)
    np.testing.assert_array_equal(equal, 299)
    gaps = float64_gaps(geometry, points, table)
    own = gaps[np.arange(66), answers][:, None]
    assert ((gaps < own * (1 - 1e-5)).sum(axis=1) <= better).all()
    assert (better <= (gaps < own * (1 + 1e-5)).sum(axis=1)).all()


@pytest.mark.parametrize(("model", "norm"), NORMS)
def test_points_that_are_not_numbers_beat_nothing(model: str, norm: int) -> None:
    geometry = geometry_of(model, norm, 5)
    table = np.ones((4, geometry.entity_width), dtype=np.float32)
    points = np.full((2, geometry.entity_width), np.nan, dtype=np.float32)
    offsets = np.zeros(3, dtype=np.int64)
    better, equal = rank_counts(geometry, points, table, np.array([0, 3]), offsets[:0], offsets)
    assert better.tolist() == equal.tolist() == [0, 0]


@pytest.mark.parametrize("dim", [1, 40, 200])
@pytest.mark.parametrize(("model", "norm"), NORMS)
def test_gap_to_all(model: str, norm: int, dim: int) -> None:
    rng = np.random.default_rng(dim)
    geometry = geometry_of(model, norm, dim)
    points, table = (rng.standard_normal((rows, geometry.entity_width)).astype(np.float32) for rows in (67, 1030))
    points[3] = table[1029]
    found = gap_to_all(geometry, points, table)
    assert found.dtype == np.float32
    assert found[3, 1029] == 0
    np.testing.assert_allclose(found, float64_gaps(geometry, points, table), rtol=1e-5, atol=1e-6)


def test_squared_gaps() -> None:
    geometry = TransE(2, squared=True)
    points, table = np.zeros((1, 2), dtype=np.float32), np.array([[1, 2], [-1, 0]], dtype=np.float32)
    np.testing.assert_array_equal(gap_to_all(geometry, points, table), [[9, 1]])


def test_nothing_to_rank() -> None:
    geometry = geometry_of("transe", 1, 2)
    table, none = np.ones((3, 2), dtype=np.float32), np.empty(0, dtype=np.int64)
    better, equal = rank_counts(geometry, table[:0], table, none, none, np.zeros(1, dtype=np.int64))
    assert len(better) == len(equal) == 0
    assert gap_to_all(geometry, table, table[:0]).shape == (3, 0)
