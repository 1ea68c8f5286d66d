"""Ways to follow a growing graph: trained anew for each snapshot, or grown from the vectors of the one before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ookg.research.reproduction.methods.method import LINK_PREDICTION, Context, Method, Variant
from ookg.research.reproduction.settings import PaperSettings

if TYPE_CHECKING:
    import torch

    from ookg.datasets.encoded import Task
    from ookg.datasets.snapshots import EncodedGrowth
    from ookg.models.embedding import Embedding
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.training.continuing import Growth, UpdateSettings

# What differs from the default settings of a training: for all ways, and for one of them. Chosen on valid: vectors that
# never move again are the better, the less they fit what they were trained on.
TRAINING: Mapping[str, Any] = {"margin": 9.0}
OWN_TRAINING: Mapping[str, Mapping[str, Any]] = {"Frozen": {"margin": 6.0}}
# How each way goes on from a snapshot to the next, as changes of `UpdateSettings`; None trains anew. Chosen on valid.
# Fine-tuned is what one does without thinking: to train on with the new triples alone, and hold nothing.
WAYS: Mapping[str, Mapping[str, Any] | None] = {
    "Retrained": None,
    "Updated": {"mode": "all", "full_steps": 0.17, "placing": 0.0, "decay": "linear"},
    "Frozen": {"mode": "freeze", "placing": 0.3},  # which has no meaning there
    "New only": {"mode": "new-only", "full_steps": 0.13, "placing": 0.3},
    "Fine-tuned": {"mode": "all", "placing": 0.0, "decay": "drops"},
}
MODELS = {"TransE": "transe", "RotatE": "rotate"}
WARM_UP_STEPS = 2  # after which all that a run needs is compiled


@dataclass(frozen=True)
class ContinualSettings:
    """The training of the first snapshot, and the update with each further one; None where it is trained anew."""

    training: Mapping[str, Any]
    update: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"training": dict(self.training), "update": None if self.update is None else dict(self.update)}


@dataclass(frozen=True, eq=False)
class Course:
    """The vectors after each snapshot, and how long each took."""

    embeddings: tuple[Embedding, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class ContinualMethod(Method):
    """Follows a growing graph in one of `WAYS`.

    way: its name there; model: "transe" or "rotate"
    """

    name: str
    way: str
    model: str
    tasks: tuple[Task, ...] = LINK_PREDICTION

    def training(self, dataset: str, seed: int) -> ContinualSettings:
        """The settings of both."""
        del dataset
        update = self._update()
        values = None if update is None else asdict(update)
        if values is not None and values["decay"] != "linear":
            del values["decay"]  # results are stored from before there was another
        return ContinualSettings(self._base(seed).to_dict(), values)

    def _base(self, seed: int) -> PaperSettings:
        chosen = {**TRAINING, **OWN_TRAINING.get(self.way, {})}
        return PaperSettings().changed({"model": self.model, "seed": seed, **chosen})

    def _update(self) -> UpdateSettings | None:
        from ookg.training.continuing import UpdateSettings

        changes = WAYS[self.way]
        return None if changes is None else UpdateSettings(**changes)

    def variants(self, dataset: str) -> tuple[Variant, ...]:
        """One: both protocols are measured together."""
        del dataset
        return (Variant(),)

    def train(self, context: Context) -> Course:
        """The vectors after each snapshot. Times are taken after a warm-up, in which all is compiled."""
        growth = _growing(context)
        embedding, seconds = self._trained(context, 0)
        embeddings, times = [embedding], [seconds]
        for number in range(1, len(growth.snapshots)):
            if WAYS[self.way] is None:
                embedding, seconds = self._trained(context, number)
            else:
                embedding, seconds = self._grown(context, embedding, number)
            embeddings.append(embedding)
            times.append(seconds)
        return Course(tuple(embeddings), tuple(times))

    def _trained(self, context: Context, number: int) -> tuple[Embedding, float]:
        """Trained from scratch on all that is known by a snapshot, or from the cache."""
        from ookg.models.embedding import Embedding

        settings = self._base(context.seed)
        there = context.within(_growing(context).dataset_of(number))
        found = there.trained(settings, lambda: _train_warm(there, settings))
        embedding = Embedding(settings.geometry, found.tensors["entities"], found.tensors["relations"])
        return embedding, found.seconds

    def _grown(self, context: Context, embedding: Embedding, number: int) -> tuple[Embedding, float]:
        from ookg.training.continuing import continue_training

        settings, update = self._base(context.seed), self._update()
        if update is None:
            raise TypeError(f"{self.way} does not grow")
        growth = self._growth(_growing(context), number)
        continue_training(embedding, growth, settings, replace(update, steps=WARM_UP_STEPS, seconds=None))
        begun = _now(context.device)
        label = f"{self.name} on {_growing(context).name}, snapshot {number}"
        with context.progress(label, update.steps_for(growth, settings)) as report:
            found = continue_training(embedding, growth, settings, update, report)
        return found.embedding, _now(context.device) - begun

    def _growth(self, growing: EncodedGrowth, number: int) -> Growth:
        """What the way gets to see of what is known: all of it, counts alone, or nothing."""
        from ookg.training.continuing import Growth

        snapshot, before = growing.snapshots[number], growing.snapshots[number - 1]
        known = growing.until(number - 1, "train")
        nothing = np.empty((0, 3), np.int64)
        sizes = snapshot.num_entities, snapshot.num_relations
        if self.way == "Fine-tuned":
            return Growth(nothing, snapshot.train, *sizes)
        if self.way == "New only":
            degree = np.bincount(known[:, [0, 2]].ravel(), minlength=before.num_entities)
            counts = np.bincount(known[:, 1], minlength=before.num_relations)
            return Growth(nothing, snapshot.train, *sizes, degree=degree, relation_counts=counts)
        return Growth(known, snapshot.train, *sizes)

    def figures(self, context: Context, trained: Course, variant: Variant) -> dict[str, float]:
        """Both protocols after every snapshot, test by test, what was forgotten and gained, and the times.

        seconds: the mean over the snapshots after the first; those of valid are what settings are chosen by
        """
        del variant
        from ookg.evaluation.growing import Change, growth_tests

        growing = _growing(context)
        tests, last = growth_tests(growing), len(growing.snapshots) - 1
        stages = tuple(tests.measure(embedding, number) for number, embedding in enumerate(trained.embeddings))
        valid = growth_tests(growing, "valid").measure(trained.embeddings[-1], last)
        change = Change.over(stages)
        figures = {
            "mrr": stages[-1].mrr,
            "mrr-snapshot": stages[-1].mrr_snapshot,
            "seconds": sum(trained.seconds[1:]) / last,
            "valid-mrr": valid.mrr,
            "valid-mrr-snapshot": valid.mrr_snapshot,
            "forgotten": change.forgotten,
            "gained": change.gained,
        }
        for number, (stage, seconds) in enumerate(zip(stages, trained.seconds, strict=True)):
            after = f"after-{number}"
            figures |= {f"seconds.{after}": seconds, f"mrr.{after}": stage.mrr}
            figures[f"mrr-snapshot.{after}"] = stage.mrr_snapshot
            for test in stage.tests:
                figures[f"mrr.{after}.test-{test.snapshot}"] = test.mrr
                figures[f"mrr-snapshot.{after}.test-{test.snapshot}"] = test.mrr_snapshot
        return figures

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """As on an H200 and on two cores, about."""
        del dataset
        trainings = 5 if WAYS[self.way] is None else 2
        return trainings * (5.0 if on_gpu else 900.0)


def _growing(context: Context) -> EncodedGrowth:
    if context.growing is None:
        raise TypeError(f"{context.dataset.name} does not grow")
    return context.growing


def _train_warm(context: Context, settings: PaperSettings) -> TrainedModel:
    """Train after a warm-up of some steps, which is not timed; the time is that of all the rest."""
    from ookg.research.reproduction.pretraining import train_vectors

    train_vectors(replace(context, show_progress=False), settings.changed({"steps": WARM_UP_STEPS}))
    begun = _now(context.device)
    found = train_vectors(context, settings)
    return replace(found, seconds=max(found.seconds, _now(context.device) - begun))


def _now(device: torch.device) -> float:
    """The time, once all that was asked of the device is done."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


CONTINUAL_METHODS = tuple(
    ContinualMethod(f"{way} {label}", way, model) for way in WAYS for label, model in MODELS.items()
)
