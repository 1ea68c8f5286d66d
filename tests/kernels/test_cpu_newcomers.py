"""The fused weighted sums against `candidates` and `index_add_`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ookg.models import GEOMETRIES
from ookg.models.embedding import Embedding
from ookg.newcomers.estimator import candidates
from ookg.newcomers.support import Support

pytest.importorskip("numba")

from ookg.kernels.cpu_newcomers import weighted_candidates

ENTITIES, RELATIONS, NEWCOMERS = 30, 4, 300


def random_support(rng: np.random.Generator, rows: int) -> Support:
    newcomer = np.sort(rng.integers(0, NEWCOMERS, rows))
    return Support(
        newcomer,
        rng.integers(0, RELATIONS, rows),
        rng.integers(0, ENTITIES, rows),
        rng.random(rows) < 0.5,
        np.arange(rows),
        NEWCOMERS,
    )


@pytest.mark.parametrize("rows", [1, 7, 900])
@pytest.mark.parametrize("dim", [1, 17, 64])
@pytest.mark.parametrize("model", ["transe", "rotate"])
def test_sums_equal_the_reference(model: str, dim: int, rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(rows)
    geometry = GEOMETRIES[model](dim)
    table = rng.standard_normal((ENTITIES, geometry.entity_width)).astype(np.float32)
    relations = rng.standard_normal((RELATIONS, geometry.relation_width)).astype(np.float32)
    support = random_support(rng, rows)
    chosen = rng.permutation(NEWCOMERS)
    picked, place = support.rows_of(chosen)
    weights = rng.standard_normal(len(picked))

    embedding = Embedding(geometry, torch.from_numpy(table), torch.from_numpy(relations))
    weighted = candidates(embedding, support, picked).double() * torch.from_numpy(weights)[:, None]
    expected = torch.zeros(NEWCOMERS, geometry.entity_width, dtype=torch.float64)
    expected.index_add_(0, torch.from_numpy(place), weighted)

    path = tmp_path / "entities"
    table.tofile(path)
    mapped = np.memmap(path, dtype=np.float32, mode="r", shape=table.shape)
    for entities in (table, mapped):
        found = weighted_candidates(geometry, (entities, relations), support.links, picked, place, weights, NEWCOMERS)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_groups_without_rows_are_zero() -> None:
    geometry = GEOMETRIES["transe"](3)
    support = random_support(np.random.default_rng(0), 5)
    none = np.empty(0, dtype=np.int64)
    tables = np.ones((ENTITIES, 3), dtype=np.float32), np.ones((RELATIONS, 3), dtype=np.float32)
    found = weighted_candidates(geometry, tables, support.links, none, none, np.empty(0), 2)
    np.testing.assert_array_equal(found, np.zeros((2, 3)))
