"""Training that goes on from stored vectors, after a graph has grown or lost triples.

Three ways, which differ in what they learn from and in what may move:

    all       known and added triples; every vector may move
    freeze    added triples that have something new in them; known vectors stay bit for bit
    new-only  added triples alone; known vectors may move, and are pulled back to where they were

What is new starts where the added triples place it (`newcomers/propagation.py`); Adam starts afresh.

A pull of p takes a known row x after each step to x + p·(x₀ - x), where x₀ is the stored one. With `old` triples of it
known and `new` ones added, p = min(1, pull / steps · (old / new)^pull_power): what no added triple speaks of stays,
what had few triples and gets many is free. Divided by the steps, a pull means the same for a short run as for a long
one: where old and new triples are as many, all but exp(-pull) of a displacement is gone when all steps are taken.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.kernels.threads import one_torch_thread
from ookg.models.embedding import Embedding
from ookg.newcomers.propagation import propagated
from ookg.system.progress import Reporter
from ookg.training.loop import TrainingRun, fingerprint_of
from ookg.training.schedule import LinearSchedule
from ookg.training.settings import UNSTATED, TrainingSettings
from ookg.training.tables import Tables
from ookg.training.trainer import Trainer
from ookg.types import FloatArray, IntArray

Mode = Literal["all", "freeze", "new-only"]
Decay = Literal["linear", "drops"]
# How many times the training's learning rate each way takes, unless it is said.
LR_FACTORS: dict[Mode, float] = {"all": 2.0, "freeze": 5.0, "new-only": 2.0}
LEAST_FACTOR = 0.1  # of "all": the rate after training's last drop


@dataclass(frozen=True)
class Growth:
    """What has become of a graph since its vectors were trained.

    known: (triples, 3) what the vectors were trained on, less what was removed; "freeze" and "new-only" need none
    added: (triples, 3) what has come; ids from those of the embedding on are new
    num_entities, num_relations: how many there are now
    removed: how many known triples are gone
    degree, relation_counts: (known entities,) triple ends and (known relations,) triples of the known graph, for
        "new-only"; counted from `known` where they are not given
    """

    known: IntArray
    added: IntArray
    num_entities: int
    num_relations: int
    removed: int = 0
    degree: IntArray | None = None
    relation_counts: IntArray | None = None

    @property
    def share(self) -> float:
        """How much of the graph has changed: added and removed triples, as a share of all."""
        known, changed = len(self.known), len(self.added) + self.removed
        if not known and self.degree is not None:  # known triples that are not to be read count too
            known = int(self.degree.sum()) // 2
        return changed / max(1, changed + known)


@dataclass(frozen=True)
class UpdateSettings:
    """How to go on.

    mode: "all", "freeze" or "new-only"
    steps: how many; None: by the share of the graph that has changed, see `steps_for`
    seconds: stop after so much time, and let the learning rate drop in time for it; None for no limit
    lr_factor: times the training's learning rate; None: by the mode and by what has changed, see `rate_for`
    decay: "linear": the rate falls evenly to 0; "drops": as `lr_drops` says; None: linear for "all", drops else
    lr_drops: shares of the steps (or of the time) at which the rate is divided by ten and Adam starts afresh
    placing: steps that first fit what is new as "freeze" does, as a share of the steps that follow and in addition to
        them, so that known vectors do not make way for new ones that are not yet in their place; 0 for none
    rounds: of propagation, for the vectors that what is new starts from
    pull, pull_power: of "new-only", how strongly known rows are held over all steps, and by how much more what had more
        triples than it gets
    relation_pull: the same as `pull` for relations; None: as for entities
    full_steps: the most steps by default, as a share of the training's steps
    full_share: the share of changed triples from which on it is so many; in proportion below
    least_steps: the fewest steps by default
    """

    mode: Mode = "all"
    steps: int | None = None
    seconds: float | None = None
    lr_factor: float | None = None
    decay: Decay | None = None
    lr_drops: tuple[float, ...] = (0.4, 0.8)
    placing: float = 0.0
    rounds: int = 4
    pull: float = 3.0
    pull_power: float = 1.0
    relation_pull: float | None = None
    full_steps: float = 0.17
    full_share: float = 0.07
    least_steps: int = 300

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise InputError(f"mode {self.mode!r}; choose {', '.join(get_args(Mode))}")
        if self.decay is not None and self.decay not in get_args(Decay):
            raise InputError(f"decay {self.decay!r}; choose {' or '.join(get_args(Decay))}")
        for name in ("steps", "seconds", "placing", "rounds", "pull", "pull_power", "relation_pull", "least_steps"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise InputError(f"{name} {value}; it must be 0 or more")
        for name in ("lr_factor", "full_steps", "full_share"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{name} {value}; it must be a number above 0")

    def steps_for(self, growth: Growth, settings: TrainingSettings) -> int:
        """How many steps an update takes that no time limit stops: `steps`, or by what has changed.

        full_steps · (the training's steps) · min(1, share / full_share), and at least `least_steps`; never more than
        the training took, and none where nothing has changed.
        """
        if self.steps is not None:
            return self.steps
        if growth.share == 0:
            return 0
        steps = round(self.full_steps * settings.steps * min(1.0, growth.share / self.full_share))
        return min(settings.steps, max(steps, self.least_steps))

    def rate_for(self, growth: Growth) -> float:
        """Times the training's learning rate: `lr_factor`, or 2, with "freeze" 5.

        With "all" the 2 is times share / full_share below `full_share`: where little has changed, known vectors are
        nearly where they should be, and the few steps could not bring back what a high rate would shake up.
        """
        if self.lr_factor is not None:
            return self.lr_factor
        factor = LR_FACTORS[self.mode]
        if self.mode == "all":
            factor = max(LEAST_FACTOR, factor * min(1.0, growth.share / self.full_share))
        return factor

    @property
    def is_linear(self) -> bool:
        """Whether the learning rate falls evenly."""
        return (self.decay or ("linear" if self.mode == "all" else "drops")) == "linear"

    def training(self, growth: Growth, settings: TrainingSettings) -> TrainingSettings:
        """The training's settings as this update takes them.

        Adagrad begins with nothing summed up, so that its first steps are its largest ones: they would shake up what
        is learned already. Adam takes its place.
        """
        return replace(
            settings,
            optimizer="sparse-adam" if settings.optimizer == "adagrad" else settings.optimizer,
            steps=max(1, self.steps_for(growth, settings)),
            lr=self.rate_for(growth) * settings.lr,
            lr_drops=self.lr_drops,
            validate_every=0,
            patience=0,
        )


@dataclass(frozen=True)
class Moved:
    """How far known entity vectors moved, in units of the mean gap between two of them."""

    mean: float
    largest: float


@dataclass(frozen=True)
class Continued:
    """What an update ends with.

    embedding: vectors of known and new entities and relations, by their ids
    steps: how many were taken; seconds: how long all took, with the time before an interruption
    note: what made it slow, if anything did
    """

    embedding: Embedding
    steps: int
    seconds: float
    moved: Moved
    note: str | None = None


def continue_training(
    embedding: Embedding,
    growth: Growth,
    settings: TrainingSettings,
    update: UpdateSettings,
    report: Reporter | None = None,
    state_path: Path | None = None,
) -> Continued:
    """Vectors for the graph as it is now, on the embedding's device; the embedding itself stays as it is.

    settings: what the vectors were trained with
    report: gets the number of steps done, of `update.steps_for(growth, settings)`
    state_path: where the state is kept on the way. Ctrl-C leaves it there, and the same call goes on from it; one that
        another call left is replaced. It is not removed in the end: first the result is to be stored
    """
    begun = time.monotonic()
    _check(embedding, growth, settings)
    steps, triples = update.steps_for(growth, settings), _triples(embedding, growth, update.mode)
    training = update.training(growth, settings).on(embedding.device)
    gap = embedding.mean_gap  # before the work: a model that cannot say it is refused
    if not steps or not len(triples):
        start = _start(embedding, growth, training, update)
        return Continued(start, 0, time.monotonic() - begun, _moved(embedding, start, gap))
    ids = torch.from_numpy(triples).to(embedding.device)
    trainer = Trainer(ids, growth.num_entities, growth.num_relations, training)
    trainer.after_step = _holding(embedding, growth, training, update)
    if update.is_linear:
        trainer.follow(LinearSchedule(training))
    run = TrainingRun(trainer, state_path, how_to_resume="the same command continues")
    if state_path is not None:
        run.fingerprint = _fingerprint(embedding, growth, training, update)
    if not run.resume(or_replace=True):
        if update.mode == "freeze":
            start = _start(embedding, growth, training, update)
        else:
            start = _placed(embedding, growth, settings, update, steps)
        trainer.start_from(start.entities, start.relations)
    trainer.prepare()
    before = time.monotonic() - begun
    if update.seconds is not None:
        run.most_seconds = max(0.0, update.seconds - before)
    tables = run.run(report)
    entities, relations = tables.entity_vectors, tables.relation_vectors
    if update.mode == "freeze":  # parameters and back may have cost a last bit
        entities[: embedding.num_entities] = embedding.entities
        relations[: embedding.num_relations] = embedding.relations
    trained = Embedding(embedding.geometry, entities, relations)
    moved = _moved(embedding, trained, gap)
    return Continued(trained, tables.step, before + run.seconds, moved, trainer.note)


def _check(embedding: Embedding, growth: Growth, settings: TrainingSettings) -> None:
    mine, trained = embedding.geometry, settings.geometry
    if (type(mine), mine.dim, mine.norm, mine.relation_width, mine.kernel) != (
        type(trained), trained.dim, trained.norm, trained.relation_width, trained.kernel,
    ):  # fmt: skip
        raise InputError(f"vectors of {mine} cannot be trained on as {trained}; train them anew with `ookg train`")
    for name, old, now in (
        ("entities", embedding.num_entities, growth.num_entities),
        ("relations", embedding.num_relations, growth.num_relations),
    ):
        if now < old:
            raise InputError(f"{now} {name} after growth, of {old} with vectors; ids stay, so give at least as many")
    for name, triples, sizes in (
        ("known", growth.known, (embedding.num_entities, embedding.num_relations)),
        ("added", growth.added, (growth.num_entities, growth.num_relations)),
    ):
        if triples.ndim != 2 or triples.shape[1] != 3:
            raise InputError(f"{name} triples of shape {triples.shape}; give (triples, 3) ids")
        highest = triples.max(axis=0, initial=-1)
        if triples.min(initial=0) < 0 or max(highest[0], highest[2]) >= sizes[0] or highest[1] >= sizes[1]:
            raise InputError(f"{name} triples with ids outside of {sizes[0]} entities and {sizes[1]} relations")
    for name, counts, size in (
        ("degree", growth.degree, embedding.num_entities),
        ("relation_counts", growth.relation_counts, embedding.num_relations),
    ):
        if counts is not None and counts.shape != (size,):
            raise InputError(f"{name} of shape {counts.shape}; give a number for each of the {size} known ones")


def _triples(embedding: Embedding, growth: Growth, mode: Mode) -> IntArray:
    """What to learn from, (triples, 3)."""
    added = growth.added
    match mode:
        case "all":
            chosen = np.concatenate([growth.known, added])
        case "freeze":
            new_end = (added[:, [0, 2]] >= embedding.num_entities).any(axis=1)
            chosen = added[new_end | (added[:, 1] >= embedding.num_relations)]
        case "new-only":
            chosen = added
    return np.ascontiguousarray(chosen, dtype=np.int64)


def _placed(
    embedding: Embedding, growth: Growth, settings: TrainingSettings, update: UpdateSettings, steps: int
) -> Embedding:
    """The start after some steps of "freeze"; the rest of the time belongs to what follows."""
    seconds = None if update.seconds is None else update.seconds * update.placing / (1 + update.placing)
    first = replace(update, mode="freeze", steps=round(update.placing * steps), seconds=seconds, lr_factor=None)
    return continue_training(embedding, growth, settings, first).embedding


def _start(embedding: Embedding, growth: Growth, training: TrainingSettings, update: UpdateSettings) -> Embedding:
    """Known vectors as they are, new ones by propagation; what nothing determines, as training begins."""
    geometry = embedding.geometry
    random = Tables.initial(growth.num_entities, growth.num_relations, training, embedding.device)
    relations = geometry.relation_vectors(random.relations, training.initial_range)
    start = Embedding(geometry, random.entities, relations)
    return propagated(embedding, np.asarray(growth.added, dtype=np.int64), start, update.rounds)


def _holding(
    embedding: Embedding, growth: Growth, training: TrainingSettings, update: UpdateSettings
) -> Callable[[Tables], None] | None:
    """What keeps known rows where they are to be, after each step; None where they are free."""
    if update.mode == "all":
        return None
    entities = embedding.entities
    relations = embedding.geometry.relation_parameters(embedding.relations, training.initial_range)
    if update.mode == "freeze":

        def freeze(now: Tables) -> None:
            now.entities[: len(entities)].copy_(entities)
            now.relations[: len(relations)].copy_(relations)

        return freeze
    entity_pull, relation_pull = (
        torch.from_numpy(values).to(entities)[:, None] for values in pulls(embedding, growth, update, training.steps)
    )

    @one_torch_thread()
    def pull(now: Tables) -> None:
        now.entities[: len(entities)].lerp_(entities, entity_pull)
        now.relations[: len(relations)].lerp_(relations, relation_pull)

    return pull


def pulls(embedding: Embedding, growth: Growth, update: UpdateSettings, steps: int) -> tuple[FloatArray, FloatArray]:
    """How strongly "new-only" pulls each known entity and relation back after each of so many steps, from 0 to 1."""
    known, added = growth.known, growth.added
    sizes = embedding.num_entities, embedding.num_relations
    degree = _degrees(known, sizes[0]) if growth.degree is None else growth.degree
    counts = np.bincount(known[:, 1], minlength=sizes[1]) if growth.relation_counts is None else growth.relation_counts
    new_counts = np.bincount(added[:, 1], minlength=sizes[1])[: sizes[1]]
    relation_pull = update.pull if update.relation_pull is None else update.relation_pull
    return (
        _pull(degree, _degrees(added, sizes[0])[: sizes[0]], update.pull / steps, update.pull_power),
        _pull(counts, new_counts, relation_pull / steps, update.pull_power),
    )


def _degrees(triples: IntArray, size: int) -> IntArray:
    degrees: IntArray = np.bincount(triples[:, [0, 2]].ravel(), minlength=size)
    return degrees


def _pull(old: IntArray, new: IntArray, pull: float, power: float) -> FloatArray:
    """min(1, pull · (old / new)^power); 1 where nothing is new."""
    factors: FloatArray = np.minimum(1.0, pull * (old / np.maximum(new, 1)) ** power)
    factors[new == 0] = 1.0
    return factors


def _moved(embedding: Embedding, trained: Embedding, gap: float) -> Moved:
    gaps = embedding.plain_gaps(embedding.entities, trained.entities[: embedding.num_entities]) / gap
    return Moved(float(gaps.mean()), float(gaps.max())) if len(gaps) else Moved(0.0, 0.0)


def goes_on(
    state_path: Path, embedding: Embedding, growth: Growth, settings: TrainingSettings, update: UpdateSettings
) -> bool:
    """Whether `continue_training` with these arguments would go on from a state, and not replace it."""
    training = update.training(growth, settings).on(embedding.device)
    state = fingerprint_of(state_path)
    return bool(state) and all(
        (UNSTATED | state).get(name) == value
        for name, value in (UNSTATED | _fingerprint(embedding, growth, training, update)).items()
    )


def _fingerprint(
    embedding: Embedding, growth: Growth, training: TrainingSettings, update: UpdateSettings
) -> dict[str, Any]:
    """What a state must match to be gone on from, as JSON has it."""
    arrays: dict[str, IntArray | Tensor | None] = {
        "known vectors": embedding.entities,
        "known relation vectors": embedding.relations,
        "known triples": growth.known,
        "added triples": growth.added,
        "degree": growth.degree,
        "relation counts": growth.relation_counts,
    }
    values = asdict(update) | training.to_dict()  # the training's steps and drops are those that the update takes
    values |= {"entities": growth.num_entities, "relations": growth.num_relations, "removed": growth.removed}
    return values | {name: _digest(array) for name, array in arrays.items()}


def _digest(array: IntArray | Tensor | None) -> str:
    if array is None:
        return ""
    values = array.cpu().numpy() if isinstance(array, Tensor) else array
    return hashlib.sha256(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data).hexdigest()[:16]
