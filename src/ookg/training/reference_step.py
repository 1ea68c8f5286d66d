"""One training step in plain PyTorch: the specification that every fast step is tested against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ookg.kernels.threads import one_torch_thread
from ookg.training.loss import batch_distances, l2_penalty, self_adversarial_loss
from ookg.training.sampling import Batch, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables


class ReferenceStep:
    """Gradients by autograd, then the optimiser over both whole tables, or over what the step touches of them."""

    name = "reference"

    def __init__(self, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> None:
        self.tables, self.sampler, self.settings = tables, sampler, settings
        self.rate_of: Callable[[int], float] = settings.rate

    @one_torch_thread()
    def __call__(self, number: int) -> Tensor:
        """Take the step with this number; return its loss (without the L2 term), not yet read from the device."""
        tables, optimizer, batch = self.tables, self.tables.optimizer, self.sampler(number)
        tables.updates += 1
        rate = optimizer.rate(self.rate_of(number))
        if not optimizer.is_sparse:
            loss, gradients = loss_and_gradients(tables.entities, tables.relations, batch, self.settings)
            optimizer.update(tables.entities, gradients[0], tables.entity_state, rate, tables.updates)
            optimizer.update(tables.relations, gradients[1], tables.relation_state, rate, tables.updates)
            return loss
        ids, batch = touched(batch)
        parts = [
            [part[rows] for part in (table, *state)]
            for table, state, rows in (
                (tables.entities, tables.entity_state, ids[0]),
                (tables.relations, tables.relation_state, ids[1]),
            )
        ]
        loss, gradients = loss_and_gradients(parts[0][0], parts[1][0], batch, self.settings)
        for (rows, *state), gradient in zip(parts, gradients, strict=True):
            optimizer.update(rows, gradient, tuple(state), rate, tables.updates)
        for part, table in zip(parts[0], (tables.entities, *tables.entity_state), strict=True):
            table[ids[0]] = part
        for part, table in zip(parts[1], (tables.relations, *tables.relation_state), strict=True):
            table[ids[1]] = part
        return loss


def touched(batch: Batch) -> tuple[tuple[Tensor, Tensor], Batch]:
    """The ids of entities and of relations that a batch touches, ascending, and the batch in places among them."""
    ends, relation = batch.triples[:, ::2].contiguous(), batch.triples[:, 1].contiguous()
    entities = torch.unique(torch.cat([ends.flatten(), batch.negatives[batch.usable]]))
    relations = torch.unique(relation)
    ends, relation = torch.searchsorted(entities, ends), torch.searchsorted(relations, relation)
    triples = torch.stack([ends[:, 0], relation, ends[:, 1]], dim=1)
    # What is not usable may have no place; it weighs nothing, so any place will do.
    negatives = torch.searchsorted(entities, batch.negatives.contiguous()).clamp_(max=len(entities) - 1)
    return (entities, relations), replace(batch, triples=triples, negatives=negatives)


def loss_and_gradients(
    entities: Tensor, relations: Tensor, batch: Batch, settings: TrainingSettings
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """A batch's loss without the L2 term, and the gradients of the loss with it."""
    entities, relations = entities.detach().requires_grad_(), relations.detach().requires_grad_()
    vectors = settings.geometry.relation_vectors(relations, settings.initial_range)
    positive, negative = batch_distances(settings.geometry, entities, vectors, batch)
    loss = self_adversarial_loss(positive, negative, batch, settings)
    total = loss + l2_penalty(entities, relations, settings.l2) if settings.l2 else loss
    gradients = torch.autograd.grad(total, (entities, relations))
    return loss.detach(), (gradients[0], gradients[1])
