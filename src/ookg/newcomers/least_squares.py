"""Vectors for new entities where relations project: one triple leaves part of the vector open, several determine it.

Triple i says A e = A x ± r with its relation's A and r and its neighbour x (+ for a new tail, - for a new head). With
the reducer's weights ω, which add up to 1,

    e = argmin Σᵢ ωᵢ ‖Aᵢ e - bᵢ‖² + λ ‖e - e₀‖²,    bᵢ = Aᵢ xᵢ ± rᵢ,

and e₀ = Σᵢ ωᵢ ẽᵢ is the weighted mean of the candidates: of all vectors that fit triple i, ẽᵢ is the nearest to xᵢ. It
settles what no triple determines. docs/transh-transr.md derives what is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ookg.kernels.threads import one_torch_thread
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.newcomers.reducer import normalised
from ookg.newcomers.support import Support
from ookg.types import FloatArray, IntArray

# How many numbers one chunk of newcomers may hold, however many there are.
CHUNK_NUMBERS = 1 << 23


@one_torch_thread()
def least_squares(
    embedding: Embedding, support: Support, rows: IntArray, place: IntArray, weights: FloatArray, size: int
) -> Tensor:
    """The least-squares vector of each of `size` groups, (size, entity_width); 0 for a group without rows.

    rows: rows of the support; place: (rows,) their groups, ascending; weights: (rows,) they add up to 1 in each group
    """
    geometry = embedding.geometry
    if not isinstance(geometry, Projected):
        raise TypeError(f"{geometry.name} has a closed form for each triple; its candidates need no least squares")
    solved = torch.zeros(size, geometry.dim, dtype=embedding.entities.dtype, device=embedding.device)
    if not len(rows):
        return solved
    used, relation = np.unique(support.relation[rows], return_inverse=True)
    vectors = embedding.relations[torch.from_numpy(used).to(embedding.device)].double()
    solver = geometry.normal_equations(vectors)
    steps = geometry.displacement(vectors)
    # Least squares needs weights of 0 or more; a negative one comes from a neighbour that no training triple has.
    weights = normalised(np.maximum(weights, 0.0), place, size)
    for groups, part in _chunks(place, size, max(1, CHUNK_NUMBERS // solver.numbers_per_row)):
        inside = place[part] - groups.start
        sums = _sums(embedding, support, rows[part], inside * len(used) + relation[part], weights[part])
        group, number = (torch.from_numpy(ids).to(solved.device) for ids in np.divmod(sums.keys, len(used)))
        prior = torch.zeros(groups.stop - groups.start, geometry.dim, dtype=torch.float64, device=solved.device)
        prior.index_add_(0, group, sums.neighbors + sums.sign[:, None] * steps[number])
        # Σ ω Aᵀ(b - A e₀) = Σ Aᵀ(A Σ ω (x - e₀) ± ω r): how far e₀ is off, as the triples see it.
        apart = sums.neighbors - sums.weight[:, None] * prior[group]
        relations = vectors[number]
        off = geometry.project(apart, relations) + sums.sign[:, None] * geometry.translation(relations)
        slope = torch.zeros_like(prior).index_add_(0, group, geometry.project_back(off, relations))
        solved[groups] = (prior + solver.solve(slope, group, number, sums.weight)).to(solved.dtype)
    return solved


@dataclass(frozen=True)
class _Sums:
    """What the triples of each newcomer over each relation add up to.

    keys: (pairs,) newcomer · relations + relation, ascending; weight: (pairs,) Σ ω; sign: (pairs,) Σ ±ω
    neighbors: (pairs, dim) Σ ω x
    """

    keys: IntArray
    weight: Tensor
    sign: Tensor
    neighbors: Tensor


def _sums(embedding: Embedding, support: Support, rows: IntArray, keys: IntArray, weights: FloatArray) -> _Sums:
    device = embedding.device
    pairs, pair = np.unique(keys, return_inverse=True)
    sign = np.bincount(pair, np.where(support.is_head[rows], -weights, weights), minlength=len(pairs))
    weight = np.bincount(pair, weights, minlength=len(pairs))
    neighbors = embedding.entities[torch.from_numpy(support.neighbor[rows]).to(device)].double()
    neighbors *= torch.from_numpy(weights).to(device)[:, None]
    total = torch.zeros(len(pairs), neighbors.shape[1], dtype=torch.float64, device=device)
    total.index_add_(0, torch.from_numpy(pair).to(device), neighbors)
    return _Sums(pairs, torch.from_numpy(weight).to(device), torch.from_numpy(sign).to(device), total)


def _chunks(place: IntArray, size: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Ranges of groups and of their rows, with about `most` rows each; a group is never split."""
    offsets = np.searchsorted(place, np.arange(size + 1))
    cuts = np.flatnonzero(np.diff(offsets[:-1] // most)) + 1
    for start, end in pairwise([0, *cuts.tolist(), size]):
        yield slice(start, end), slice(int(offsets[start]), int(offsets[end]))
