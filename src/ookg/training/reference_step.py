"""One training step in plain PyTorch: the specification that every fast step is tested against."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ookg.kernels.adam import adam_update
from ookg.kernels.threads import one_torch_thread
from ookg.training.loss import batch_distances, l2_penalty, self_adversarial_loss
from ookg.training.sampling import Batch, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables


class ReferenceStep:
    """Gradients by autograd, then Adam over both whole tables."""

    name = "reference"

    def __init__(self, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> None:
        self.tables, self.sampler, self.settings = tables, sampler, settings
        self.rate_of: Callable[[int], float] = settings.rate

    @one_torch_thread()
    def __call__(self, number: int) -> Tensor:
        """Take the step with this number; return its loss (without the L2 term), not yet read from the device."""
        tables = self.tables
        loss, gradients = loss_and_gradients(tables.entities, tables.relations, self.sampler(number), self.settings)
        tables.updates += 1
        rate = self.rate_of(number)
        adam_update(tables.entities, gradients[0], tables.entities_mean, tables.entities_square, rate, tables.updates)
        adam_update(
            tables.relations, gradients[1], tables.relations_mean, tables.relations_square, rate, tables.updates
        )
        return loss


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
