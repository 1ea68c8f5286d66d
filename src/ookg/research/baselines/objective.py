"""What a step minimises."""

from __future__ import annotations

import torch
from torch import Tensor

from ookg.research.baselines.encoder import Encoder
from ookg.research.baselines.settings import BaselineSettings


def batch_loss(encoder: Encoder, batch: Tensor) -> Tensor:
    """The mean objective of a batch as `Batches` draws it, (batch, 5).

    A triple with an end that has no neighbour but the hidden one does not count in the aggregated term, unless padding
    is learned, which then stands for that end.
    """
    settings = encoder.settings
    head, relation, tail, false, replaces_tail = batch.unbind(dim=1)
    inverse, on_tail = relation + encoder.num_relations, replaces_tail > 0
    entities = torch.cat([head, tail, false])  # (3 · batch,): each is represented once
    query = torch.cat([relation, inverse, torch.where(on_tail, inverse, relation)])
    if settings.hide_target:
        nothing = torch.full_like(false, -1)
        hidden = torch.cat([relation, inverse, nothing]), torch.cat([tail, head, nothing])
        neighbors = encoder.table.without(entities, *hidden)
    else:
        neighbors = encoder.table.of_entities(entities)
    has_vector = neighbors.real[:, 0] if encoder.padding is None else torch.ones_like(neighbors.real[:, 0])
    usable = has_vector.view(3, -1).all(dim=0).to(torch.float32)  # (batch,)
    losses = _losses(encoder, encoder(neighbors, query), relation, on_tail)
    loss = (losses * usable).sum() / usable.sum().clamp_min(1.0)
    if settings.raw_term:
        loss = loss + _losses(encoder, encoder.raw(entities), relation, on_tail).mean()
    return loss


def _losses(encoder: Encoder, entities: Tensor, relation: Tensor, on_tail: Tensor) -> Tensor:
    """(batch,) from unscaled vectors of heads, tails and false entities, one below the other."""
    if encoder.ranks_by_kernel:
        from ookg.research.kernels.gpu_neighbors import ranking_losses

        return ranking_losses(entities, encoder.relations, relation, on_tail, encoder.settings.margin)
    head, tail, false = encoder.scaled(entities).chunk(3)
    replaces, vectors = on_tail[:, None], encoder.relation_vectors(relation)
    true_distance = encoder.distance(head, vectors, tail)
    false_distance = encoder.distance(torch.where(replaces, head, false), vectors, torch.where(replaces, false, tail))
    return objective(encoder.settings, true_distance, false_distance)


def objective(settings: BaselineSettings, true_distance: Tensor, false_distance: Tensor) -> Tensor:
    """max(0, γ + D - D') for "ranking", D + max(0, γ - D') for "absolute"."""
    if settings.objective == "ranking":
        return torch.relu(settings.margin + true_distance - false_distance)
    return true_distance + torch.relu(settings.margin - false_distance)
