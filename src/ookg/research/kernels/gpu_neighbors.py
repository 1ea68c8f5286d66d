# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The baselines' step on a GPU: entities from their neighbours, and the ranking objective, two Triton kernels each.

`ookg.research.baselines` specifies what they compute: the projection e - (w·e) w of each neighbour, joined by `Mean` or
by `LogicAttention`, and max(0, γ + D - D') with vectors scaled to length 1.

* One entity a program: it walks over the neighbours that are there, a few at once, with a softmax that is rescaled as
  it grows. No tensor of entities × neighbours × dimension exists; going back, the same is computed again.
* W (e - (w·e) w) = We - (w·e) Ww: the attention's matrix is applied to the tables, not to each neighbour.
* Gradients of table rows are added atomically, so that two runs of one seed differ in the last digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ookg.kernels.gpu_step import sign

TILE = 4  # neighbours that are looked at at once
WARPS = 2
SMALLEST_LENGTH = tl.constexpr(1e-12)  # a shorter vector is not scaled to length 1


@dataclass(frozen=True, eq=False)
class Question:
    """What attention depends on, besides the tables.

    query: (entities,) directed relations; implies: (2R, 2R) P(a implies b); discount: (entities, K)
    """

    query: Tensor
    implies: Tensor
    discount: Tensor


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)


@triton.jit
def _rows_of(table_ptr, row, column, dim, mask):
    return tl.load(table_ptr + row[:, None] * dim + column[None, :], mask=mask, other=0.0)


@triton.jit
def _join(
    entity_ptr, relation_ptr, count_ptr, entities_ptr, normals_ptr, entity_keys_ptr, normal_keys_ptr,
    asked_ptr, readout_ptr, query_ptr, implies_ptr, discount_ptr, joined_ptr, network_ptr, mass_ptr,
    num_slots, num_directed, dim, width,
    ATTEND: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, WIDTH_BLOCK: tl.constexpr,
):  # fmt: skip
    """One entity a program: its vector; with attention also its part by the network, and the softmax's log-sum."""
    row = tl.program_id(0).to(tl.int64)
    count = tl.load(count_ptr + row)
    column = tl.arange(0, BLOCK)
    in_dim = column < dim
    joined = tl.zeros([BLOCK], tl.float32)
    network = tl.zeros([BLOCK], tl.float32)
    top = tl.full((), float("-inf"), tl.float32)
    mass = tl.full((), 0.0, tl.float32)
    if ATTEND:
        unit = tl.arange(0, WIDTH_BLOCK)
        in_width = unit < width
        asked = tl.load(asked_ptr + row * width + unit, mask=in_width, other=0.0)
        readout = tl.load(readout_ptr + unit, mask=in_width, other=0.0)
        query = tl.load(query_ptr + row)
    for start in range(0, count, TILE):
        slot = start + tl.arange(0, TILE)
        real = slot < count
        place = row * num_slots + slot
        entity = tl.load(entity_ptr + place, mask=real, other=0)
        relation = tl.load(relation_ptr + place, mask=real, other=0)
        mask = real[:, None] & in_dim[None, :]
        e = _rows_of(entities_ptr, entity, column, dim, mask)
        w = _rows_of(normals_ptr, relation, column, dim, mask)
        along = tl.sum(e * w, axis=1)
        projection = e - along[:, None] * w
        if ATTEND:
            key_mask = real[:, None] & in_width[None, :]
            keys = _rows_of(entity_keys_ptr, entity, unit, width, key_mask)
            keys -= along[:, None] * _rows_of(normal_keys_ptr, relation, unit, width, key_mask)
            logit = tl.sum(_tanh(keys + asked[None, :]) * readout[None, :], axis=1)
            logit = tl.where(real, logit, float("-inf"))
            higher = tl.maximum(top, tl.max(logit, axis=0))
            shrink = tl.exp(top - higher)
            share = tl.exp(logit - higher)
            mass = mass * shrink + tl.sum(share, axis=0)
            network = network * shrink + tl.sum(share[:, None] * projection, axis=0)
            top = higher
            logic = tl.load(implies_ptr + relation * num_directed + query, mask=real, other=0.0)
            logic /= tl.load(discount_ptr + place, mask=real, other=1.0)
            joined += tl.sum(logic[:, None] * projection, axis=0)
        else:
            joined += tl.sum(projection, axis=0)
    if ATTEND:
        mass = tl.maximum(mass, 1.0)  # it is at least 1 but without neighbours: the highest one's share is 1
        network /= mass
        joined += network
        tl.store(network_ptr + row * dim + column, network, mask=in_dim)
        tl.store(mass_ptr + row, top + tl.log(mass))
    else:
        joined /= tl.maximum(count, 1).to(tl.float32)
    tl.store(joined_ptr + row * dim + column, joined, mask=in_dim)


@triton.jit
def _add_rows(table_ptr, row, column, dim, values, mask):
    tl.atomic_add(table_ptr + row[:, None] * dim + column[None, :], values, mask=mask, sem="relaxed")


@triton.jit
def _join_back(
    entity_ptr, relation_ptr, count_ptr, entities_ptr, normals_ptr, entity_keys_ptr, normal_keys_ptr,
    asked_ptr, readout_ptr, query_ptr, implies_ptr, discount_ptr, network_ptr, mass_ptr, grad_ptr,
    to_entities_ptr, to_normals_ptr, to_entity_keys_ptr, to_normal_keys_ptr, to_asked_ptr, to_readout_ptr,
    num_slots, num_directed, dim, width,
    ATTEND: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, WIDTH_BLOCK: tl.constexpr,
):  # fmt: skip
    """One entity a program: what its vector's gradient adds to the tables; to_readout gets a row for each entity."""
    row = tl.program_id(0).to(tl.int64)
    count = tl.load(count_ptr + row)
    column = tl.arange(0, BLOCK)
    in_dim = column < dim
    grad = tl.load(grad_ptr + row * dim + column, mask=in_dim, other=0.0)
    to_asked = tl.zeros([WIDTH_BLOCK], tl.float32)
    to_readout = tl.zeros([WIDTH_BLOCK], tl.float32)
    if ATTEND:
        unit = tl.arange(0, WIDTH_BLOCK)
        in_width = unit < width
        asked = tl.load(asked_ptr + row * width + unit, mask=in_width, other=0.0)
        readout = tl.load(readout_ptr + unit, mask=in_width, other=0.0)
        query = tl.load(query_ptr + row)
        mass = tl.load(mass_ptr + row)
        mean_rise = tl.sum(grad * tl.load(network_ptr + row * dim + column, mask=in_dim, other=0.0), axis=0)
    for start in range(0, count, TILE):
        slot = start + tl.arange(0, TILE)
        real = slot < count
        place = row * num_slots + slot
        entity = tl.load(entity_ptr + place, mask=real, other=0)
        relation = tl.load(relation_ptr + place, mask=real, other=0)
        mask = real[:, None] & in_dim[None, :]
        e = _rows_of(entities_ptr, entity, column, dim, mask)
        w = _rows_of(normals_ptr, relation, column, dim, mask)
        along = tl.sum(e * w, axis=1)
        if ATTEND:
            projection = e - along[:, None] * w
            key_mask = real[:, None] & in_width[None, :]
            normal_keys = _rows_of(normal_keys_ptr, relation, unit, width, key_mask)
            keys = _rows_of(entity_keys_ptr, entity, unit, width, key_mask) - along[:, None] * normal_keys
            hidden = _tanh(keys + asked[None, :])
            logit = tl.sum(hidden * readout[None, :], axis=1)
            share = tl.where(real, tl.exp(logit - mass), 0.0)
            logic = tl.load(implies_ptr + relation * num_directed + query, mask=real, other=0.0)
            logic /= tl.load(discount_ptr + place, mask=real, other=1.0)
            rise = tl.sum(projection * grad[None, :], axis=1)
            to_logit = share * (rise - mean_rise)
            to_readout += tl.sum(to_logit[:, None] * hidden, axis=0)
            to_keys = to_logit[:, None] * readout[None, :] * (1.0 - hidden * hidden)
            to_asked += tl.sum(to_keys, axis=0)
            _add_rows(to_entity_keys_ptr, entity, unit, width, to_keys, key_mask)
            _add_rows(to_normal_keys_ptr, relation, unit, width, -along[:, None] * to_keys, key_mask)
            to_along = -tl.sum(to_keys * normal_keys, axis=1)
            to_projection = (share + logic)[:, None] * grad[None, :]
        else:
            to_along = tl.zeros([TILE], tl.float32)
            to_projection = tl.where(mask, grad[None, :] / count.to(tl.float32), 0.0)
        to_along -= tl.sum(to_projection * w, axis=1)
        _add_rows(to_entities_ptr, entity, column, dim, to_projection + to_along[:, None] * w, mask)
        _add_rows(to_normals_ptr, relation, column, dim, to_along[:, None] * e - along[:, None] * to_projection, mask)
    if ATTEND:
        tl.store(to_asked_ptr + row * width + unit, to_asked, mask=in_width)
        tl.store(to_readout_ptr + row * width + unit, to_readout, mask=in_width)


class _Joined(torch.autograd.Function):
    """The arguments of `attended`, or those of `averaged` and four times None."""

    @staticmethod
    def forward(
        ctx: Any,
        neighbors: tuple[Tensor, Tensor, Tensor],
        question: Question | None,
        entities: Tensor,
        normals: Tensor,
        entity_keys: Tensor | None,
        normal_keys: Tensor | None,
        asked: Tensor | None,
        readout: Tensor | None,
    ) -> Tensor:
        ctx.inputs = (neighbors, question)
        tables = (entities, normals, entity_keys, normal_keys, asked, readout)
        size = len(neighbors[0])
        joined = entities.new_empty(size, entities.shape[1])
        network = None if question is None else torch.empty_like(joined)
        mass = None if question is None else entities.new_empty(size)
        _launch(_join, neighbors, question, tables, (joined, network, mass))
        ctx.save_for_backward(*tables, network, mass)
        return joined

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        neighbors, question = ctx.inputs
        *tables, network, mass = ctx.saved_tensors
        entities, normals, entity_keys, normal_keys, asked, _ = tables
        found = [
            None if table is None else torch.zeros_like(table)
            for table in (entities, normals, entity_keys, normal_keys)
        ]
        to_asked = None if asked is None else torch.empty_like(asked)
        to_readout = None if asked is None else torch.empty_like(asked)
        grad = grads[0].contiguous()
        _launch(_join_back, neighbors, question, tables, (network, mass, grad, *found, to_asked, to_readout))
        return None, None, *found, to_asked, None if to_readout is None else to_readout.sum(dim=0)


def _launch(
    kernel: Any,
    neighbors: tuple[Tensor, Tensor, Tensor],
    question: Question | None,
    tables: tuple[Tensor | None, ...] | list[Tensor | None],
    results: tuple[Tensor | None, ...],
) -> None:
    entity, relation, count = neighbors
    asked = (None, None, None) if question is None else (question.query, question.implies, question.discount)
    num_directed, dim = tables[1].shape  # type: ignore[union-attr]
    width = 1 if tables[5] is None else len(tables[5])
    kernel[(len(entity),)](
        entity, relation, count, *tables, *asked, *results, entity.shape[1], num_directed, dim, width,
        ATTEND=question is not None, TILE=TILE, BLOCK=triton.next_power_of_2(dim),
        WIDTH_BLOCK=triton.next_power_of_2(width), num_warps=WARPS,
    )  # fmt: skip


def averaged(neighbors: tuple[Tensor, Tensor, Tensor], entities: Tensor, normals: Tensor) -> Tensor:
    """(entities, d) the mean of the neighbours' projections.

    neighbors: (entities, K) entity and directed relation, the real ones first, and (entities,) how many are real
    entities: (known, d); normals: (2R, d) at length 1
    """
    found: Tensor = _Joined.apply(neighbors, None, entities, normals, None, None, None, None)
    return found


def attended(
    neighbors: tuple[Tensor, Tensor, Tensor],
    question: Question,
    tables: tuple[Tensor, Tensor],
    keys: tuple[Tensor, Tensor],
    asked: Tensor,
    readout: Tensor,
) -> Tensor:
    """(entities, d) Σ (logic + network) · projection.

    neighbors: as `averaged` has them; tables: entities and normals, keys: both multiplied by the attention's matrix
    asked: (entities, width) the query's part of the attention; readout: (width,) v
    """
    found: Tensor = _Joined.apply(neighbors, question, *tables, *keys, asked, readout)
    return found


@triton.jit
def _scaled(x):
    length = tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), SMALLEST_LENGTH)
    return x / length, length


@triton.jit
def _scaled_back(unit, length, grad):
    return (grad - tl.sum(unit * grad, axis=0) * unit) / length


@triton.jit
def _ranking(
    vectors_ptr, relation_ptr, relations_ptr, on_tail_ptr, losses_ptr, grad_ptr, to_vectors_ptr, to_relations_ptr,
    margin, size, dim,
    BACK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One triple a program: its loss, or what the loss's gradient adds to vectors and relations."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    in_dim = column < dim
    place = row * dim + column
    relation = tl.load(relation_ptr + row) * dim + column
    on_tail = tl.load(on_tail_ptr + row) != 0
    h, head_length = _scaled(tl.load(vectors_ptr + place, mask=in_dim, other=0.0))
    t, tail_length = _scaled(tl.load(vectors_ptr + size * dim + place, mask=in_dim, other=0.0))
    f, false_length = _scaled(tl.load(vectors_ptr + 2 * size * dim + place, mask=in_dim, other=0.0))
    r, relation_length = _scaled(tl.load(relations_ptr + relation, mask=in_dim, other=0.0))
    gap = h + r - t
    false_gap = tl.where(on_tail, h + r - f, f + r - t)
    loss = margin + tl.sum(tl.abs(gap), axis=0) - tl.sum(tl.abs(false_gap), axis=0)
    if BACK:
        grad = tl.where(loss > 0, tl.load(grad_ptr + row), 0.0)
        up = grad * sign(gap)
        down = grad * sign(false_gap)
        to_head = _scaled_back(h, head_length, up - tl.where(on_tail, down, 0.0))
        to_tail = _scaled_back(t, tail_length, tl.where(on_tail, 0.0, down) - up)
        to_false = _scaled_back(f, false_length, tl.where(on_tail, down, -down))
        tl.store(to_vectors_ptr + place, to_head, mask=in_dim)
        tl.store(to_vectors_ptr + size * dim + place, to_tail, mask=in_dim)
        tl.store(to_vectors_ptr + 2 * size * dim + place, to_false, mask=in_dim)
        to_relation = _scaled_back(r, relation_length, up - down)
        tl.atomic_add(to_relations_ptr + relation, to_relation, mask=in_dim, sem="relaxed")
    else:
        tl.store(losses_ptr + row, tl.maximum(loss, 0.0))


class _RankingLosses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, relations: Tensor, relation: Tensor, on_tail: Tensor, margin: float
    ) -> Tensor:
        ctx.save_for_backward(vectors, relations, relation, on_tail)
        ctx.margin = margin
        losses = vectors.new_empty(len(relation))
        _rank(vectors, relations, relation, on_tail, margin, (losses, None, None, None))
        return losses

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        vectors, relations, relation, on_tail = ctx.saved_tensors
        to_vectors, to_relations = torch.empty_like(vectors), torch.zeros_like(relations)
        results = (None, grads[0].contiguous(), to_vectors, to_relations)
        _rank(vectors, relations, relation, on_tail, ctx.margin, results)
        return to_vectors, to_relations, None, None, None


def _rank(
    vectors: Tensor,
    relations: Tensor,
    relation: Tensor,
    on_tail: Tensor,
    margin: float,
    results: tuple[Tensor | None, ...],
) -> None:
    size, dim = len(relation), vectors.shape[1]
    _ranking[(size,)](
        vectors, relation, relations, on_tail, *results, margin, size, dim,
        BACK=results[0] is None, BLOCK=triton.next_power_of_2(dim), num_warps=1,
    )  # fmt: skip


def ranking_losses(vectors: Tensor, relations: Tensor, relation: Tensor, on_tail: Tensor, margin: float) -> Tensor:
    """(batch,) max(0, γ + ‖h + r - t‖₁ - ‖h' + r - t'‖₁), all vectors scaled to length 1.

    vectors: (3 · batch, d) unscaled heads, tails and false entities, one below the other
    relations: (R, d); relation: (batch,); on_tail: (batch,) whether the false entity replaces the tail
    """
    found: Tensor = _RankingLosses.apply(
        vectors.contiguous(), relations, relation.contiguous(), on_tail.contiguous(), margin
    )
    return found
