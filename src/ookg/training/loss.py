"""The self-adversarial loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ookg.models import Geometry
from ookg.training.sampling import Batch
from ookg.training.settings import TrainingSettings


def batch_distances(geometry: Geometry, entities: Tensor, relations: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """D of the true triples, (batch,), and of the false ones, (batch, negatives).

    Both are gaps from one point a triple, the solution for the end that is corrupted, to what stands at that end.
    """
    head, relation, tail = batch.triples.unbind(dim=1)
    rows = relations[relation]  # (batch, relation_width)
    if batch.corrupts_head:
        points, answers = geometry.solve_head(rows, entities[tail]), head
    else:
        points, answers = geometry.solve_tail(entities[head], rows), tail
    positive = geometry.gap(points, geometry.project(entities[answers], rows))
    negative = geometry.gap(points[:, None], geometry.project(entities[batch.negatives], rows[:, None]))
    return positive, negative


def self_adversarial_loss(positive: Tensor, negative: Tensor, batch: Batch, settings: TrainingSettings) -> Tensor:
    """L = ½ Σ w [ -log σ(γ - D) - Σᵢ pᵢ log σ(Dᵢ - γ) ] / Σ w, with pᵢ = softmax(-α Dᵢ) taken as constant.

    positive: (batch,) D of the true triples; negative: (batch, negatives) Dᵢ of the false ones
    """
    margin = settings.margin
    logits = (-settings.temperature * negative).masked_fill(~batch.usable, -torch.inf)
    # A row without a usable negative has no softmax: its negatives weigh nothing.
    probability = torch.softmax(logits, dim=1).nan_to_num(0.0).detach()
    losses = -logsigmoid(margin - positive) - (probability * logsigmoid(negative - margin)).sum(dim=1)
    weight = batch.weight.to(losses.dtype)
    return (weight * losses).sum() / weight.sum() / 2


def l2_penalty(entities: Tensor, relations: Tensor, factor: float) -> Tensor:
    """factor · (‖E‖² + ‖R‖²) over the whole tables of parameters."""
    return factor * (entities.square().sum() + relations.square().sum())
