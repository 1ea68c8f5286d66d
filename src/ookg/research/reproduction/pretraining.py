"""Training the vectors that runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ookg.research.reproduction.cache import TrainedModel
from ookg.research.reproduction.settings import PaperSettings
from ookg.system.machine import device_name
from ookg.training.loop import TrainingRun
from ookg.training.trainer import Trainer

if TYPE_CHECKING:
    from ookg.research.reproduction.methods.method import Context


def train_vectors(context: Context, settings: PaperSettings) -> TrainedModel:
    """Train "entities", "relations" and "placeholders" on a data set.

    It goes on from where an interrupted training of the same stopped.
    """
    dataset, device = context.dataset, context.device
    triples = torch.from_numpy(dataset.train).to(device)
    rows = settings.placeholder_entities
    trainer = Trainer(triples, dataset.num_known, dataset.num_trained, settings, untrained_rows=rows)
    # The path names settings and triples by their digests: whatever state is there is of this training.
    state = context.cache.path_of(dataset, settings).with_suffix(".state")
    run = TrainingRun(trainer, state)
    run.resume()
    label = f"training {settings.model} on {dataset.name}, seed {settings.seed}"
    with context.progress(label, settings.steps, start=trainer.step_number) as report:
        tables = run.run(report)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = run.seconds
    state.unlink(missing_ok=True)
    tensors = {
        "entities": tables.entity_vectors,
        "relations": tables.relation_vectors,
        "placeholders": trainer.untrained_vectors,
    }
    return TrainedModel(tensors, seconds, device_name(device))
