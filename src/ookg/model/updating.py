"""Updating a model: its vectors learn what was added and removed, and the result is the next version."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ookg.errors import InputError
from ookg.graph.known import KnownGraph
from ookg.model.current import Current, encoded
from ookg.model.gain import Gain, measured_gain
from ookg.model.model import Model
from ookg.simulation.choice import NewcomerChoice
from ookg.storage.checkpoint import Checkpoint, held_model, load_checkpoint, read_description, update_states
from ookg.storage.companions import companion_place, prune_companions, write_companion
from ookg.storage.journal import Journal
from ookg.storage.journals import open_journal
from ookg.storage.versions import KEPT, write_version
from ookg.system.display import counted
from ookg.system.machine import processor
from ookg.system.progress import Progress, Reporter, tell
from ookg.training.continuing import Continued, Growth, Moved, UpdateSettings, continue_training, goes_on
from ookg.training.loop import choose_device
from ookg.training.settings import TrainingSettings
from ookg.version import __version__

# Makes what progress is reported to, from what is done and how many steps that takes; `Progress` is one.
ProgressMaker = Callable[[str, int], AbstractContextManager[Reporter]]


@dataclass(frozen=True)
class Updated:
    """What an update did.

    version: the number of the model now; journal: the last batch that it has learned; pending: how many came meanwhile
    steps, seconds: of the training; moved: how far known vectors went
    added, removed: triples learned and unlearned; new_entities, new_relations: that have got vectors of their own
    gained: what it is worth, where that was asked for
    """

    version: int
    journal: int
    pending: int
    mode: str
    steps: int
    seconds: float
    moved: Moved
    added: int = 0
    removed: int = 0
    new_entities: int = 0
    new_relations: int = 0
    gained: Gain | None = None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def update_model(
    directory: str | Path,
    settings: UpdateSettings | None = None,
    *,
    keep: int = KEPT,
    validate: float | None = None,
    device: str = "auto",
    progress: bool | ProgressMaker = False,
    journal: Journal | str | None = None,
) -> Updated:
    """Learn what the journal holds, and make the result the next version; what comes meanwhile stays for the next one.

    keep: how many earlier versions stay. Ctrl-C keeps the state of the training: the same call goes on from there.
    validate: first update without this share of the added triples, and measure what that gains on them
    progress: show a bar, or report to what this makes
    journal: the directory's, or its address, where it is not in the directory
    """
    directory, settings = Path(directory), settings or UpdateSettings()
    if keep < 0:
        raise InputError(f"keep {keep} versions; give 0 or more")
    read_description(directory)  # no lock is left where there is no model
    with held_model(directory):
        journal = journal if isinstance(journal, Journal) else open_journal(directory, journal)
        checkpoint = load_checkpoint(directory, str(choose_device(device)))
        places = {name: companion_place(directory, name) for name in checkpoint.companions}
        until = _where_to(checkpoint, journal, {"": directory, **places}, settings)
        current = Current.of(checkpoint, journal, until)
        trained = training_settings(checkpoint)
        for companion in checkpoint.companions.values():
            training_settings(companion)  # one that cannot be updated is refused before the work
        if not current.is_changed and not settings.steps and not settings.seconds:
            return _nothing_new(current, journal, settings)
        plan = growth_of(current)
        gained = None
        if validate is not None:
            with _bar(progress, "validating", settings.steps_for(plan, trained)) as report:
                gained = measured_gain(checkpoint.embedding, plan, trained, settings, validate, report)
        step = _Step(current, plan, settings, until, progress)
        companions = {name: _updated_companion(step, name, place) for name, place in places.items()}
        learned = step.learn(checkpoint, directory)
        updated = replace(learned.updated, gained=gained)
        stored = write_version(replace(learned.checkpoint, companions=companions), directory, keep)
        learned.state.unlink(missing_ok=True)
        prune_companions(directory)
        Model(load_checkpoint(directory)).count_ahead()  # not by whoever asks first
        notes = [*updated.notes, *(_note_on_companion(name, one) for name, one in companions.items())]
        return replace(updated, version=stored.number, pending=journal.last - until, notes=notes)


def _where_to(checkpoint: Checkpoint, journal: Journal, places: Mapping[str, Path], settings: UpdateSettings) -> int:
    """The last batch that an update learns: that of the journal, or where an interrupted one was going that goes on.

    places: the directories of the model, which has no name, and of its companions
    """
    states = {name: update_states(place) for name, place in places.items()}
    begun = sorted({number for found in states.values() for number in found})
    for number in begun:
        if not checkpoint.journal < number < journal.last:
            continue
        growth = growth_of(Current.of(checkpoint, journal, number))
        for name, found in states.items():
            if number not in found:
                continue
            one = checkpoint.companions[name] if name else checkpoint
            if goes_on(found[number], one.embedding, growth, training_settings(one), settings):
                return number
            tell(f"note: {found[number]}: an interrupted update that this one cannot go on from; it begins anew")
    return journal.last


@dataclass(frozen=True, eq=False)
class _Learned:
    """A model that has learned what came and went: its next version, and the state of its training."""

    checkpoint: Checkpoint
    updated: Updated
    state: Path


@dataclass(frozen=True, eq=False)
class _Step:
    """From one version to the next: the same of a model and its companions, whose labels are the same."""

    current: Current
    plan: Growth
    settings: UpdateSettings
    until: int
    progress: bool | ProgressMaker

    def learn(self, before: Checkpoint, place: Path) -> _Learned:
        """Train a model on. place: its directory, which keeps the state of the training on the way"""
        plan, settings, trained = self.plan, self.settings, training_settings(before)
        state = place / f"update-to-{self.until}.safetensors"
        with _bar(self.progress, "updating", settings.steps_for(plan, trained)) as report:
            continued = continue_training(before.embedding, plan, trained, settings, report, state)
        choice, notes = _kept_choice(Model(before).choice)
        updated = Updated(
            before.number,
            self.until,
            0,
            settings.mode,
            continued.steps,
            round(continued.seconds, 3),
            continued.moved,
            len(plan.added),
            len(self.current.removed),
            plan.num_entities - len(before.entities),
            plan.num_relations - len(before.relations),
            notes=[*notes, *([continued.note] if continued.note else [])],
        )
        return _Learned(_next(before, self.current, plan, continued, updated, choice), updated, state)


def _updated_companion(step: _Step, name: str, place: Path) -> Checkpoint:
    """The next version of a companion, stored; one that an interrupted update has made already is taken."""
    before = step.current.version.checkpoint.companions[name]
    settings = json.loads(json.dumps(asdict(step.settings)))  # as it is stored
    asked = {"from_version": before.number, "journal": step.until, "settings": settings}
    with held_model(place):
        there = load_checkpoint(place, before.embedding.device.type)
        done = there.provenance.get("update") or {}
        if there.number != before.number and {key: done.get(key) for key in asked} == asked:
            return there
        learned = step.learn(before, place)
        learned.checkpoint.provenance["update"]["settings"] = settings
        stored = write_companion(learned.checkpoint, place)
        learned.state.unlink(missing_ok=True)
        return stored


def _note_on_companion(name: str, companion: Checkpoint) -> str:
    done = companion.provenance["update"]
    return f"the companion {name} has learned it too, in {counted(done['steps'], 'step')} and {done['seconds']:.1f} s"


def _bar(progress: bool | ProgressMaker, label: str, steps: int) -> AbstractContextManager[Reporter | None]:
    if isinstance(progress, bool):
        return Progress(label, steps) if progress else nullcontext()
    return progress(label, steps)


def training_settings(checkpoint: Checkpoint) -> TrainingSettings:
    """What a model was trained with; one that came from elsewhere is refused."""
    if checkpoint.graph is None or not {"model", "dim", "steps"} <= set(checkpoint.settings):
        problem = "this model was imported, and how it was trained is not known"
        raise InputError(f"{problem}; train it here with `ookg train` to update it")
    if checkpoint.embedding.entities.dtype == torch.float16:
        problem = "this model has vectors of 16 bits, which are made to be asked"
        raise InputError(f"{problem}; update the model that it was made of, and compact that again")
    return TrainingSettings.from_dict(checkpoint.settings)


def growth_of(current: Current) -> Growth:
    """What has become of the graph since the version, on ids: those of the version stay, new ones follow."""
    checkpoint = current.version.checkpoint
    labels = current.given()
    entities = checkpoint.entities.extended(labels.entities.labels)
    relations = checkpoint.relations.extended(labels.relations.labels)
    added = encoded(current.difference.added, entities, relations)
    return Growth(current.model.checkpoint.triples, added, len(entities), len(relations), len(current.removed))


def _nothing_new(current: Current, journal: Journal, settings: UpdateSettings) -> Updated:
    checkpoint = current.version.checkpoint
    notes = ["nothing was added or removed since this version; say how many steps or seconds to train on all the same"]
    pending = journal.last - current.position
    return Updated(checkpoint.number, checkpoint.journal, pending, settings.mode, 0, 0.0, Moved(0.0, 0.0), notes=notes)


def _next(
    before: Checkpoint,
    current: Current,
    growth: Growth,
    continued: Continued,
    updated: Updated,
    choice: NewcomerChoice | None,
) -> Checkpoint:
    """The checkpoint of the next version of a model, or of a companion of it."""
    labels = current.given()
    entities = before.entities.extended(labels.entities.labels)
    relations = before.relations.extended(labels.relations.labels)
    triples = np.concatenate([growth.known, growth.added])
    device = before.embedding.device
    provenance = before.provenance | {
        "update": {
            "ookg": __version__,
            "torch": torch.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "from_version": before.number,
            "from_journal": current.version.checkpoint.journal,
            "device": device.type,
            "processor": processor(device),
        }
        | {
            name: value
            for name, value in updated.to_dict().items()
            if name not in ("version", "notes", "pending", "gained")
        }
    }
    vectors = continued.embedding
    return replace(
        before,
        embedding=replace(vectors, entities=vectors.entities.cpu(), relations=vectors.relations.cpu()),
        entities=entities,
        relations=relations,
        graph=KnownGraph(triples, len(entities), len(relations)),
        provenance=provenance,
        newcomers=None if choice is None else choice.to_dict(),
        journal=updated.journal,
        lock=None,
    )


def _kept_choice(choice: NewcomerChoice) -> tuple[NewcomerChoice | None, list[str]]:
    """What still holds of the settings for new entities, with other vectors; and in words what does not."""
    if choice == NewcomerChoice():
        return None, []
    parts = (
        ("what to expect of new entities", "ookg audit DIR --save", choice.calibration),
        ("the judge", "ookg classify --judge --save", choice.judge),
        ("what claims are held against", "ookg classify", choice.thresholds),
        ("how likely answers are", "ookg tune DIR --save` and `ookg calibrate DIR HELD_OUT --save", choice.likelihood),
    )
    notes = [
        f"{what} belonged to the old vectors and is gone; `{command}` stores it anew"
        for what, command, there in parts
        if there
    ]
    return replace(choice, calibration={}, judge=None, likelihood={}, thresholds=None), notes
