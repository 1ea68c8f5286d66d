"""Ranking on a GPU: counts of nearer entities, without a table of distances.

Both tables are turned so that a coordinate's values lie side by side. A program holds the running distances of some
queries to some entities in registers, goes over the coordinates, and at the end compares and counts. Distances of
single pairs (the answers, and the true answers that do not count) are summed in the same order: ties are ties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ookg.kernels.gpu_step import EUCLIDEAN, SUM_OF_MODULI, SUM_OF_SIZES, gap_kind
from ookg.models.embedding import Embedding
from ookg.types import IntArray

QUERIES, ENTITIES, PAIRS = 32, 128, 256  # what a program holds


@triton.jit
def _added(total, dx, dy, GAP: tl.constexpr):
    if GAP == SUM_OF_SIZES:
        total += tl.abs(dx)
    elif GAP == EUCLIDEAN:
        total += dx * dx
    else:
        total += tl.sqrt(dx * dx + dy * dy)
    return total


@triton.jit
def _count(
    points_ptr, table_ptr, own_ptr, better_ptr, equal_ptr, num_queries, num_entities,
    DIM: tl.constexpr, GAP: tl.constexpr, Q: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """For some queries and some entities: how many entities are nearer than the own distance, and how many as near."""
    query = tl.program_id(0) * Q + tl.arange(0, Q)
    entity = tl.program_id(1) * E + tl.arange(0, E)
    has_query, has_entity = query < num_queries, entity < num_entities
    total = tl.zeros([Q, E], tl.float32)
    for k in range(DIM):
        x = tl.load(points_ptr + k * num_queries + query, mask=has_query, other=0.0)
        dx = x[:, None] - tl.load(table_ptr + k * num_entities + entity, mask=has_entity, other=0.0)[None, :]
        dy = dx
        if GAP == SUM_OF_MODULI:
            y = tl.load(points_ptr + (k + DIM) * num_queries + query, mask=has_query, other=0.0)
            dy = (
                y[:, None] - tl.load(table_ptr + (k + DIM) * num_entities + entity, mask=has_entity, other=0.0)[None, :]
            )
        total = _added(total, dx, dy, GAP)
    own = tl.load(own_ptr + query, mask=has_query, other=0.0)[:, None]
    counted = has_query[:, None] & has_entity[None, :]
    better = tl.sum((counted & (total < own)).to(tl.int32), axis=1)
    equal = tl.sum((counted & (total == own)).to(tl.int32), axis=1)
    tl.atomic_add(better_ptr + query, better, mask=has_query)
    tl.atomic_add(equal_ptr + query, equal, mask=has_query)


@triton.jit
def _pair(
    points_ptr, table_ptr, query_ptr, entity_ptr, out_ptr, num_pairs, num_queries, num_entities,
    DIM: tl.constexpr, GAP: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """The distances of (query, entity) pairs (their squares if Euclidean)."""
    pair = tl.program_id(0) * P + tl.arange(0, P)
    live = pair < num_pairs
    query = tl.load(query_ptr + pair, mask=live, other=0)
    entity = tl.load(entity_ptr + pair, mask=live, other=0)
    total = tl.zeros([P], tl.float32)
    for k in range(DIM):
        dx = tl.load(points_ptr + k * num_queries + query) - tl.load(table_ptr + k * num_entities + entity)
        dy = dx
        if GAP == SUM_OF_MODULI:
            y = tl.load(points_ptr + (k + DIM) * num_queries + query)
            dy = y - tl.load(table_ptr + (k + DIM) * num_entities + entity)
        total = _added(total, dx, dy, GAP)
    tl.store(out_ptr + pair, total, mask=live)


@dataclass(frozen=True)
class _Sides:
    """Points and entities as the kernels read them: a coordinate's values side by side."""

    points: Tensor
    table: Tensor
    dim: int
    gap: int

    @classmethod
    def of(cls, embedding: Embedding, points: Tensor) -> _Sides:
        geometry = embedding.geometry
        gap = gap_kind(geometry)
        # A Euclidean gap is a sum over all stored numbers, a sum of moduli over half as many pairs.
        dim = geometry.dim if gap == SUM_OF_MODULI.value else geometry.entity_width
        return cls(points.float().T.contiguous(), embedding.entities.float().T.contiguous(), dim, gap)

    def pair_distances(self, query: Tensor, entity: Tensor) -> Tensor:
        """Of each (query, entity), (pairs,)."""
        found = torch.empty(len(query), device=query.device)
        if len(query):
            grid = (triton.cdiv(len(query), PAIRS),)
            _pair[grid](
                self.points, self.table, query, entity, found, len(query), self.points.shape[1], self.table.shape[1],
                DIM=self.dim, GAP=self.gap, P=PAIRS,
            )  # fmt: skip
        return found

    def counts(self, own: Tensor) -> Tensor:
        """How many of all entities are nearer than `own`, and how many as near, (2, queries)."""
        size, num_entities = self.points.shape[1], self.table.shape[1]
        counts = torch.zeros(2, size, dtype=torch.int32, device=own.device)
        grid = (triton.cdiv(size, QUERIES), triton.cdiv(num_entities, ENTITIES))
        _count[grid](
            self.points, self.table, own, counts[0], counts[1], size, num_entities,
            DIM=self.dim, GAP=self.gap, Q=QUERIES, E=ENTITIES,
        )  # fmt: skip
        return counts


def rank_counts(
    embedding: Embedding, points: Tensor, answers: IntArray, others: tuple[IntArray, IntArray]
) -> tuple[IntArray, IntArray]:
    """`filtered_rank_counts` on the GPU: how many entities are nearer than each query's answer, and how many as near.

    others: (query, entity) pairs that do not count, without repetition; a query's answer may be among them
    """
    device = embedding.device
    sides = _Sides.of(embedding, points)
    asked = torch.from_numpy(answers).to(device)
    own = sides.pair_distances(torch.arange(len(answers), device=device), asked)
    counts = sides.counts(own)
    # Take back what does not count: the other true answers, and each answer itself.
    query, entity = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in others)
    other = entity != asked[query]
    query, entity = query[other], entity[other]
    distance = sides.pair_distances(query, entity)
    counts[0].index_add_(0, query, -(distance < own[query]).int())
    counts[1].index_add_(0, query, -(distance == own[query]).int())
    counts[1] -= 1
    better, equal = counts.long().cpu().numpy()
    return better, equal


def shared_rank_counts(
    embedding: Embedding, points: Tensor, answers: IntArray, question: IntArray, others: tuple[IntArray, IntArray]
) -> tuple[IntArray, IntArray]:
    """The same for queries of which many ask the same question: its true answers are compared once for all of them.

    question: (queries,) which one each asks, numbered from 0; queries of one question have the same point
    others: (question, entity) pairs that do not count, without repetition; the queries' answers are all among them
    """
    device = embedding.device
    number, asked = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (question, answers))
    first = torch.from_numpy(np.unique(question, return_index=True)[1]).to(device)
    sides = _Sides.of(embedding, points[first][number])  # equal to the last bit, so that ties are ties
    own = sides.pair_distances(torch.arange(len(answers), device=device), asked)
    counts = sides.counts(own).long()
    query, entity = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in others)
    keys = torch.sort(_keys(query, sides.pair_distances(first[query], entity)))[0]
    start = torch.searchsorted(keys, number << 32)
    low = torch.searchsorted(keys, _keys(number, own))
    high = torch.searchsorted(keys, _keys(number, own), right=True)
    counts[0] -= low - start
    counts[1] -= high - low  # the answer itself is one of them
    better, equal = counts.cpu().numpy()
    return better, equal


def _keys(question: Tensor, distance: Tensor) -> Tensor:
    """Whole numbers in the order of questions, then of distances: the bits of a float of 0 or more are in its order."""
    far = torch.nan_to_num(distance, nan=torch.inf, posinf=torch.inf)  # what has no vector is nearer than nothing
    return (question << 32) | far.view(torch.int32).long()
