"""Training again without the hidden entities, by the settings that the model was trained with."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ookg.errors import InputError
from ookg.models.embedding import Embedding
from ookg.simulation.hiding import Hidden
from ookg.system.display import counted
from ookg.system.progress import Progress
from ookg.training.loop import TrainingRun
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import IntArray

if TYPE_CHECKING:
    from ookg.storage.checkpoint import Checkpoint

AS_THEY_ARE = "`retraining=None` takes its vectors as they are"


@dataclass(frozen=True)
class Retraining:
    """How to train again: by the model's own settings.

    steps: another number of steps, if given
    passes: at most as many steps as take so many passes over the triples; what a small graph needs is soon done
    reference: whether to train a second time, with what is given of the hidden entities, to compare newcomers with
    """

    steps: int | None = None
    reference: bool = True
    progress: bool = False
    passes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("passes", self.passes)):
            if value is not None and value < 1:
                raise InputError(f"{name} {value}; it must be 1 or more")

    def settings(self, stored: dict[str, object], num_triples: int) -> TrainingSettings:
        """The settings of a training on so many triples; there is no validation in them, so no early stop."""
        if not {"model", "dim", "steps"} <= set(stored):
            problem = "this model was imported, and how it was trained is not known"
            raise InputError(f"{problem}; {AS_THEY_ARE}")
        changes: dict[str, object] = {"validate_every": 0, "patience": 0}
        if self.steps is not None:
            changes["steps"] = self.steps
        settings = TrainingSettings.from_dict(stored).changed(changes)
        if self.passes is None:
            return settings
        enough = max(1, -(-self.passes * num_triples // settings.batch))
        return settings.changed({"steps": min(settings.steps, enough)})

    def in_words(self, checkpoint: Checkpoint) -> str:
        """What training again takes: steps, and about how long, by the time that the model itself took."""
        settings = self.settings(checkpoint.settings, len(checkpoint.triples))
        trainings = 2 if self.reference else 1
        words = f"{counted(trainings, 'training')} of {settings.steps:,} steps"
        took, steps = (checkpoint.provenance.get(name) for name in ("seconds", "step"))
        if not isinstance(took, int | float) or not isinstance(steps, int) or not (took > 0 and steps > 0):
            return words
        seconds = trainings * settings.steps * took / steps
        about = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
        return f"{words}, about {about} if this machine is as quick as the one that trained the model"


def train_again(
    checkpoint: Checkpoint, triples: IntArray, num_entities: int, retraining: Retraining, label: str
) -> Embedding:
    """Vectors for other triples over the checkpoint's relations, by its settings and on its device."""
    settings = retraining.settings(checkpoint.settings, len(triples)).on(checkpoint.embedding.device)
    if type(settings.geometry) is not type(checkpoint.embedding.geometry):
        other = type(checkpoint.embedding.geometry).__name__
        problem = f"the stored settings train {settings.model}, and this is {other}"
        raise InputError(f"{problem}; {AS_THEY_ARE}")
    ids = torch.from_numpy(np.ascontiguousarray(triples)).to(checkpoint.embedding.device)
    run = TrainingRun(Trainer(ids, num_entities, checkpoint.embedding.num_relations, settings))
    with ExitStack() as stack:
        report = stack.enter_context(Progress(label, settings.steps)) if retraining.progress else None
        tables = run.run(report)
    return Embedding(settings.geometry, tables.entity_vectors, tables.relation_vectors)


def retrain(checkpoint: Checkpoint, hidden: Hidden, retraining: Retraining) -> tuple[Embedding, Embedding | None]:
    """Trained on the known triples; and, as a reference, on the known and the given ones. No question is in either."""
    label = "training without the hidden entities"
    without = train_again(checkpoint, hidden.known, hidden.num_known, retraining, label)
    if not retraining.reference:
        return without, None
    both = np.concatenate([hidden.known, hidden.given])
    label = "training with what is given of them"
    return without, train_again(checkpoint, both, len(hidden.entities), retraining, label)
