"""Rows of tables of parameters, with gradients that are added up without sorting the indices first."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return added_rows(ctx.shape, index, grads[0]), None


class _Projections(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entities: Tensor, normals: Tensor, entity: Tensor, relation: Tensor) -> Tensor:
        e, w = entities[entity], normals[relation]  # (..., d)
        along = (e * w).sum(dim=-1, keepdim=True)
        ctx.save_for_backward(e, w, along, entity, relation)
        ctx.shapes = entities.shape, normals.shape
        return torch.addcmul(e, along, w, value=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        e, w, along, entity, relation = ctx.saved_tensors
        grad = grads[0]
        grad_along = (grad * w).sum(dim=-1, keepdim=True)
        to_entities = added_rows(ctx.shapes[0], entity, torch.addcmul(grad, grad_along, w, value=-1))
        to_normals = added_rows(ctx.shapes[1], relation, torch.addcmul(along * grad, grad_along, e).neg_())
        return to_entities, to_normals, None, None


class _Rearranged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, source: Tensor, target: Tensor, filled: Tensor) -> Tensor:
        ctx.save_for_backward(target, filled)
        return values[source]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        target, filled = ctx.saved_tensors
        return grads[0][target].mul_(filled[:, None]), None, None, None


def rows(table: Tensor, index: Tensor) -> Tensor:
    """table[index], (*index.shape, *row)."""
    found: Tensor = _Rows.apply(table, index)  # type: ignore[no-untyped-call]
    return found


def projections(entities: Tensor, normals: Tensor, entity: Tensor, relation: Tensor) -> Tensor:
    """e - (w·e) w for rows e of `entities` and w of `normals`, chosen by (...) indices; (..., d)."""
    found: Tensor = _Projections.apply(entities, normals, entity, relation)  # type: ignore[no-untyped-call]
    return found


def rearranged(values: Tensor, source: Tensor, target: Tensor, filled: Tensor) -> Tensor:
    """values[source] for distinct sources.

    target: (len(values),) the inverse, source[target[n]] == n where filled[n]; the other values are not used
    """
    found: Tensor = _Rearranged.apply(values, source, target, filled)  # type: ignore[no-untyped-call]
    return found


def added_rows(shape: torch.Size, index: Tensor, values: Tensor) -> Tensor:
    """A table of zeros with values[n] added to row index[n]."""
    table = torch.zeros(shape, dtype=values.dtype, device=values.device)
    return table.index_add_(0, index.reshape(-1), values.reshape(-1, *shape[1:]))
