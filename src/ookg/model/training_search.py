"""Settings of a training that suit a graph: tried one after the other within a time, judged on held-out triples.

From the best so far one setting is changed at a time; what is better stays. Every trial trains anew, with a part of the
steps that a whole training takes and the whole course of the learning rate, on the same triples, and is judged on the
same held-out ones. Which trials there is time for depends on the machine; their order and their figures do not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ookg.errors import InputError
from ookg.graph.triples import Triples
from ookg.model.held_out import HeldOut
from ookg.models.embedding import Embedding
from ookg.system.machine import lacks_memory
from ookg.system.progress import tell
from ookg.training.loop import TrainingRun, choose_device
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer

# Each setting is tried at these multiples of its value so far, or at these values.
MULTIPLES: dict[str, tuple[float, ...]] = {"margin": (0.5, 2.0), "lr": (3.0, 1 / 3), "dim": (2,), "negatives": (2,)}
VALUES: dict[str, tuple[Any, ...]] = {"model": ("rotate",), "temperature": (0.5, 2.0)}
ROUNDS = 3
PART_OF_STEPS = 4  # a trial takes a quarter of the steps
LEAST_HELD_OUT = 10


class _OutOfTimeError(Exception):
    """The time of the search is over."""


@dataclass(frozen=True)
class Trial:
    """What one setting brought.

    changed: what it differs in from the best before; mrr: on the held-out triples
    """

    changed: dict[str, Any]
    settings: TrainingSettings
    mrr: float
    seconds: float
    is_best: bool

    def in_words(self) -> str:
        """What was changed."""
        return changes_in_words(self.changed)


@dataclass(frozen=True)
class TrainingSearch:
    """All trials in their order, and how many held-out triples they were judged on; the first is the start.

    skipped: what was changed in trials for which there was not enough memory
    """

    trials: list[Trial]
    held_out: int
    skipped: list[dict[str, Any]] = field(default_factory=list)

    @property
    def best(self) -> Trial:
        """The best one; of equals the first."""
        return max(self.trials, key=lambda trial: trial.mrr)

    def chosen(self, start: TrainingSettings) -> TrainingSettings:
        """The settings to train with: those of the start with what proved better."""
        better = self.best.settings
        names = (*MULTIPLES, *VALUES)
        return replace(start, **{name: getattr(better, name) for name in names})


def search_training(
    triples: Triples,
    start: TrainingSettings | None = None,
    *,
    seconds: float = 600.0,
    steps: int | None = None,
    device: str = "auto",
    clock: Callable[[], float] = time.monotonic,
) -> TrainingSearch:
    """Try settings for about so many seconds; the start is tried to its end however long it takes.

    steps: of each trial; a quarter of those that a whole training takes if None
    """
    start = start or TrainingSettings()
    if not seconds > 0:
        raise InputError(f"{seconds:g} seconds for the search; give more than 0")
    if steps is not None and steps < 1:
        raise InputError(f"steps {steps}; it must be 1 or more")
    held_out = HeldOut.of(
        triples.ids, replace(start, held_out=start.held_out or max(1, min(1_000, len(triples) // 20)))
    )
    if held_out is None or len(held_out) < LEAST_HELD_OUT:
        raise InputError(f"{triples.source}: too few triples to hold some out and compare settings; give more")
    steps = steps or max(1, start.with_steps(len(triples)).steps // PART_OF_STEPS)
    tried = replace(start, steps=steps, validate_every=0, patience=0, held_out=0)
    begun, target = clock(), choose_device(device)

    def figure(settings: TrainingSettings, until: float) -> tuple[float, float]:
        """The figure of some settings, and how long that took."""
        ids = torch.from_numpy(held_out.trained).to(target)
        trainer = Trainer(ids, len(triples.entities), len(triples.relations), settings)
        at = clock()

        def report(done: int, figure: Callable[[], str] | None = None) -> None:
            del figure
            if clock() > until and done < settings.steps:
                raise _OutOfTimeError

        tables = TrainingRun(trainer).run(report)
        vectors = Embedding(settings.geometry, tables.entity_vectors, tables.relation_vectors)
        return held_out.mrr(vectors), clock() - at

    trials = [Trial({}, tried, *figure(tried, math.inf), is_best=True)]
    skipped: list[dict[str, Any]] = []
    try:
        for settings, changed in _proposals(trials):
            try:
                mrr, took = figure(settings, begun + seconds)
            except (MemoryError, RuntimeError) as error:
                if not lacks_memory(error):
                    raise
                skipped.append(changed)
                tell(f"{changes_in_words(changed)}: not enough memory, left out")
                continue
            trials.append(Trial(changed, settings, mrr, took, is_best=mrr > max(one.mrr for one in trials)))
            tell(f"{trials[-1].in_words()}: MRR {mrr:.4f}")
    except _OutOfTimeError:
        tell(f"{seconds:g} seconds are over; a trial that was under way is left out")
    return TrainingSearch(trials, len(held_out), skipped)


def changes_in_words(changed: dict[str, Any]) -> str:
    """The settings that a trial changes, and their values."""
    return ", ".join(f"{name} {value}" for name, value in changed.items())


def _proposals(trials: list[Trial]) -> Iterator[tuple[TrainingSettings, dict[str, Any]]]:
    """One setting after the other, changed from the best so far; again from the first if a round brought anything."""
    seen = {trials[0].settings}
    for _ in range(ROUNDS):
        before = len([trial for trial in trials if trial.is_best])
        for name in (*MULTIPLES, *VALUES):
            for settings, value in _changed(trials, name):
                if settings not in seen:
                    seen.add(settings)
                    yield settings, {name: value}
        if len([trial for trial in trials if trial.is_best]) == before:
            return


def _changed(trials: list[Trial], name: str) -> Iterator[tuple[TrainingSettings, Any]]:
    """The best settings so far with one of them changed; upwards again as long as that is better."""
    for step in (*MULTIPLES.get(name, ()), *VALUES.get(name, ())):
        best = max(trials, key=lambda trial: trial.mrr).settings
        old = getattr(best, name)
        value = step if name in VALUES else type(old)(old * step)
        if value != old:
            yield best.changed({name: value}), value
