"""Training from labels: triples in, a model out."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ookg.errors import InputError, ModelFileError, ModelNotStored, OokgError
from ookg.graph.known import KnownGraph
from ookg.graph.triples import Triples, as_triples
from ookg.model.held_out import HELD_OUT, HeldOut
from ookg.model.model import Model, TripleSource
from ookg.models.embedding import Embedding
from ookg.scoring.queries import Queries, both_ends
from ookg.scoring.ranking import AnswerIndex, query_rank_counts
from ookg.scoring.thresholds import best_threshold
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.choosing import choose_known, known_questions
from ookg.storage.checkpoint import (
    PROBE_FILE,
    STATE_FILE,
    Checkpoint,
    held_model,
    holds_model,
    load_checkpoint,
    write_checkpoint,
)
from ookg.storage.companions import companion_place, name_companions, prune_companions, unique_names
from ookg.storage.journals import open_journal
from ookg.system.files import atomic_write, check_room
from ookg.system.machine import processor
from ookg.system.progress import Progress, tell
from ookg.training.loop import TrainedTables, TrainingRun, Validate, choose_device, fingerprint_of
from ookg.training.plan import Plan, Wanted, plan, room_for, steps_per_second, with_optimizer
from ookg.training.settings import COMPACT, RETIRED, TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import BoolArray, IntArray
from ookg.version import __version__

VALIDATION_TRIPLES = 1000
OTHER_PLACE = "choose another directory, or replace it with `overwrite=True`"


@dataclass(frozen=True)
class Storage:
    """Where a model goes, and what may happen to what is there already."""

    directory: Path
    resume: bool = False
    overwrite: bool = False

    @property
    def state_path(self) -> Path:
        """The state of an unfinished run."""
        return self.directory / STATE_FILE

    @property
    def settings(self) -> dict[str, Any]:
        """What the run, unfinished or finished, was begun with; nothing where there is none, or it is damaged."""
        if self.state_path.exists():
            return fingerprint_of(self.state_path)
        try:
            return load_checkpoint(self.directory).settings if holds_model(self.directory) else {}
        except OokgError:
            return {}

    def prepare(self) -> None:
        """Refuse to lose anything that was not meant to be lost."""
        if self.directory.exists() and not self.directory.is_dir():
            raise InputError(f"{self.directory}: is a file; name a directory for the model")
        if not (self.overwrite or self.resume):
            if self.state_path.exists():
                remedy = "continue it with `resume=True`, or replace it with `overwrite=True`"
                raise InputError(f"{self.directory}: holds an unfinished run; {remedy}")
            if holds_model(self.directory):
                raise InputError(f"{self.directory}: holds a model; {OTHER_PLACE}")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory, in which something can be written, and refuse as `prepare` does."""
        with held_model(self.directory):
            self.prepare()  # what is there may have changed before it was held
            open_journal(self.directory).last  # noqa: B018 (one that is damaged is refused before the training)
            with atomic_write(self.directory / PROBE_FILE) as temporary:  # fail before the training, not after it
                temporary.touch()
            (self.directory / PROBE_FILE).unlink(missing_ok=True)
            yield


def train(
    triples: TripleSource,
    settings: TrainingSettings | None = None,
    *,
    out: str | Path | None = None,
    valid: TripleSource | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    tables: Wanted = "auto",
) -> Model:
    """Train an embedding on triples and return the model; with `out`, it is stored there and can be resumed.

    resume: go on with this run where `out` has it unfinished, take it where it is finished, or start it
    overwrite: replace a model or an unfinished run there; with `resume`, only if it is not of this run
    A model that cannot be stored in the end is the attribute `model` of the `ModelNotStored` that is raised.
    valid: triples for `settings.validate_every`; labelled ones are judged by accuracy, others by reciprocal rank
    tables: where they lie meanwhile: "device" or "host" memory, a file ("disk"), or by their size ("auto")
    With 0 steps, the default, the size of the graph says how many, and training stops when more no longer pay: by
    `valid`, or by triples that are held out. What it reached is `provenance["quality"]` of the model's checkpoint.
    """
    storage = None if out is None else Storage(Path(out), resume, overwrite)
    task = _Task.of(_to_train_on(triples, progress), settings, valid, choose_device(device), tables, storage)
    with ExitStack() as holding:
        if storage is not None:
            storage.prepare()
            if (finished := _finished(storage, task)) is not None:
                return finished
            holding.enter_context(storage.held())
            if (finished := _finished(storage, task)) is not None:  # by another process, in between
                return finished
        trainer, planned = _planned(task, tables, storage)
        if storage is not None:
            check_room(storage.directory, _model_bytes(task.triples, trainer))
        run = TrainingRun(trainer, storage.state_path if storage else None, task.validate, task.fingerprint)
        is_resumed = resume and run.resume(or_replace=overwrite)
        if progress and not is_resumed:  # the steps that measure its speed would lose what was resumed
            _say_what_is_planned(trainer, planned)
        trained = _with_progress(run) if progress else run.run()
        checkpoint = _checkpoint(task, trained, run.seconds)
        checkpoint.provenance["quality"] = _quality(task, checkpoint.embedding, trained)
        model = Model(_with_known_ranking(checkpoint, task, progress))
        if storage is not None:
            try:
                write_checkpoint(model.checkpoint, storage.directory)
            except InputError as error:
                raise _not_stored(str(error).split(";")[0], run, model) from error
            storage.state_path.unlink(missing_ok=True)
            prune_companions(storage.directory)  # those of a model that was there before
        return model


def plan_training(
    triples: TripleSource,
    settings: TrainingSettings | None = None,
    *,
    out: str | Path | None = None,
    valid: TripleSource | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    tables: Wanted = "auto",
) -> Plan:
    """What `train` would take with these arguments: memory, and by some steps that leave nothing behind, time.

    Where it would go on with a run in `out`, that is the time of the steps that are left.
    """
    storage = None if out is None else Storage(Path(out), resume, overwrite)
    task = _Task.of(_to_train_on(triples), settings, valid, choose_device(device), tables, storage)
    trainer, planned = _planned(task, tables, storage)
    if storage is not None and resume:
        if _finished(storage, task) is not None:
            return replace(planned, done=planned.steps)
        rate = steps_per_second(trainer)  # before the state is read, which these steps would lose
        TrainingRun(trainer, storage.state_path, task.validate, task.fingerprint).resume(or_replace=overwrite)
        return replace(planned, steps_per_second=rate, done=trainer.step_number)
    return replace(planned, steps_per_second=steps_per_second(trainer))


def train_together(
    triples: TripleSource,
    settings: Sequence[TrainingSettings],
    *,
    out: str | Path | None = None,
    valid: TripleSource | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    tables: Wanted = "auto",
) -> Model:
    """Train several models on the same triples, one after the other; the first is returned with the others beside it.

    Questions are answered by all of them together, by the mean of standardised scores. The options are those of
    `train`. In `out` the first is a model like any other; the others are its companions once the last is trained.
    """
    if not settings:
        raise InputError("no settings to train with; give those of at least one model")
    if any(one in settings[:place] for place, one in enumerate(settings)):
        raise InputError("two models with the same settings are one model; give them another model, seed or dimension")
    triples = as_triples(triples, progress=progress)
    models = [
        train(
            triples,
            one,
            out=place,
            valid=valid,
            device=device,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            tables=tables,
        )
        for one, place in zip(settings, places_together(settings, out), strict=True)
    ]
    if len(models) == 1:
        return models[0]
    if out is None:
        return models[0].with_companions(models[1:])
    name_companions(out, _companion_names(settings))
    return Model.load(out)


def places_together(settings: Sequence[TrainingSettings], out: str | Path | None) -> list[Path | None]:
    """Where `train_together` stores each of the models; None where it stores none."""
    if out is None:
        return [None] * len(settings)
    return [Path(out), *(companion_place(out, name) for name in _companion_names(settings))]


def _companion_names(settings: Sequence[TrainingSettings]) -> list[str]:
    return unique_names(one.model for one in settings[1:])


@dataclass(frozen=True, eq=False)
class _Task:
    """What a training is to do.

    settings: with what 0 steps and "auto" are for these triples; digest: of the triples
    valid: triples to validate on, of what is known; held_out: those that are not trained on; validate: by either
    """

    triples: Triples
    settings: TrainingSettings
    device: torch.device
    digest: str
    fingerprint: dict[str, Any]
    valid: Triples | None = None
    held_out: HeldOut | None = None
    validate: Validate | None = None

    @classmethod
    def of(
        cls,
        triples: Triples,
        settings: TrainingSettings | None,
        valid: TripleSource | None,
        device: torch.device,
        tables: Wanted,
        storage: Storage | None,
    ) -> _Task:
        """What the arguments of `train` say."""
        if not isinstance(settings, TrainingSettings | None):
            raise InputError(
                f"settings {settings!r}; give such as ookg.TrainingSettings(dim=100), or ookg.preset(name)"
            )
        valid = None if valid is None else as_triples(valid, keep_duplicates=True)
        settings = (settings or TrainingSettings()).validated(len(triples))
        if valid is not None:
            settings = replace(settings, held_out=0)
        settings = _with_optimizer(triples, settings, device, tables, storage)  # what is stored says by which one
        digest = _digest(triples)
        task = cls(triples, settings, device, digest, settings.to_dict() | {"training triples": digest})
        if valid is not None:
            fingerprint = task.fingerprint | {"validation triples": _digest(valid)}
            valid = _known_among(valid, triples)
            validate = _validation(valid, triples, settings)
            return replace(task, valid=valid, validate=validate, fingerprint=fingerprint)
        held_out = HeldOut.of(triples.ids, settings) if settings.held_out else None
        if held_out is None:
            return task
        return replace(task, held_out=held_out, validate=held_out.on_the_way(settings.geometry))


def _quality(task: _Task, embedding: Embedding, tables: TrainedTables) -> dict[str, Any] | None:
    """How good the vectors are, by what figure, and on how many triples; None if there is nothing to look at."""
    settings, held_out, valid, validate = task.settings, task.held_out, task.valid, task.validate
    if held_out is not None:
        return {"figure": "MRR", "value": held_out.mrr(embedding), "triples": len(held_out), "of": HELD_OUT}
    if valid is None or validate is None:
        return None
    figures = [figure for _, figure in tables.validations]
    figures = figures or [validate(tables.entity_vectors, tables.relation_vectors)]
    value = max(figures) if settings.patience else figures[-1]
    if valid.truth is not None:
        return {"figure": "accuracy", "value": value, "triples": len(valid), "of": "labelled validation triples"}
    triples = min(len(valid), VALIDATION_TRIPLES)
    return {"figure": "MRR of tails", "value": value, "triples": triples, "of": "validation triples"}


def _with_known_ranking(checkpoint: Checkpoint, task: _Task, progress: bool) -> Checkpoint:
    """The same with what evidence counts beside its vectors, chosen on true triples that they have not learned."""
    embedding, known = checkpoint.embedding, checkpoint.triples
    if task.held_out is not None:
        known, questions = task.held_out.trained, task.held_out.questions
    elif task.valid is not None:
        valid = task.valid if task.valid.truth is None else task.valid.select(task.valid.truth)
        rows = np.unique(valid.encoded(checkpoint.entities, checkpoint.relations), axis=0)
        questions = both_ends(rows[~checkpoint.index.has(rows)])
    else:
        return checkpoint
    with ExitStack() as shown:
        report: Progress | None = None
        if progress:
            total = known_questions(len(questions), embedding.num_entities)
            report = shown.enter_context(Progress("choosing what counts beside the vectors", total, "questions"))
        tried = choose_known([embedding], known, questions, embedding.num_relations, report=report)
    if tried is None:
        return checkpoint
    figures = {"questions": tried.questions, "alone": tried.alone, "mrr": tried.mrr}
    provenance = checkpoint.provenance | {"known entities": figures}
    return replace(checkpoint, provenance=provenance, newcomers=NewcomerChoice(known=tried.ranking).to_dict())


def _to_train_on(triples: TripleSource, progress: bool = False) -> Triples:
    """The true ones among triples, of which there are some."""
    triples = as_triples(triples, progress=progress)
    if triples.truth is not None:
        triples = triples.select(triples.truth)
    if not len(triples):
        raise InputError(f"{triples.source}: no triples to train on; give at least one")
    return triples


def _with_optimizer(
    triples: Triples, settings: TrainingSettings, device: torch.device, tables: Wanted, storage: Storage | None
) -> TrainingSettings:
    """Settings with the optimiser that "auto" is, or was when the run began that is resumed."""
    resolved = with_optimizer((len(triples.entities), len(triples.relations), len(triples)), settings, device, tables)
    resolved.refuse_without_gpu(device)
    if device.index:
        remedy = f'use `device="cuda"`, with CUDA_VISIBLE_DEVICES={device.index} for this one'
        raise InputError(f"device {device}, and training takes the first GPU that it sees; {remedy}")
    by_memory = ("sparse-adam", COMPACT)
    if settings.optimizer == "auto" and resolved.optimizer in by_memory and storage is not None and storage.resume:
        begun = storage.settings.get("optimizer")
        if begun in by_memory:  # another amount of memory may be free by now
            return replace(resolved, optimizer=begun)
    return resolved


def _planned(task: _Task, tables: Wanted, storage: Storage | None) -> tuple[Trainer, Plan]:
    """A trainer with its tables where they are to lie, and what is known of its training before it has begun."""
    triples, settings = task.triples, task.settings
    ids = triples.ids if task.held_out is None else task.held_out.trained
    entities, relations = len(triples.entities), len(triples.relations)
    keeps_best = task.validate is not None and settings.patience > 0
    planned = plan((entities, relations, len(ids)), settings, task.device, tables, keeps_best=keeps_best)
    room = room_for(planned, None if storage is None else storage.directory)
    return Trainer(torch.from_numpy(ids).to(task.device), entities, relations, settings, room=room), planned


def _model_bytes(triples: Triples, trainer: Trainer) -> int:
    """About as many bytes as the model will take on disk."""
    labels: int = triples.entities.labels.nbytes + triples.relations.labels.nbytes
    tables = trainer.tables.entities[: trainer.num_entities].nbytes + trainer.tables.relations.nbytes
    index = 16 * len(triples.ids) + 20 * len(triples.entities)
    return tables + labels + index + 4 * triples.ids.size


def _not_stored(problem: str, run: TrainingRun, model: Model) -> ModelNotStored:
    """The error for a model that could not be written: its state is kept, so that resuming stores it."""
    try:
        run.save()
        kept, is_resumable = "the end of the training is kept: make room, then `resume=True` stores the model", True
    except OokgError:
        if run.state_path is not None and run.state_path.exists():
            kept, is_resumable = "an earlier state is kept: make room, then `resume=True` trains the rest again", False
        else:
            kept, is_resumable = "and there was no room for the state of the training either", False
    return ModelNotStored(f"{problem}; {kept}", model, is_resumable)


def _with_progress(run: TrainingRun) -> TrainedTables:
    trainer, settings = run.trainer, run.trainer.settings
    with Progress(f"training {settings.model}", settings.steps, start=trainer.step_number) as report:
        return run.run(report)


def _say_what_is_planned(trainer: Trainer, planned: Plan) -> None:
    """Compile and measure before the clock of the progress starts, and say so where it takes long."""
    name = trainer.take_step.name
    notice = f"compiling the {name} kernels, once on this machine; it takes about 20 seconds"
    waiting = threading.Timer(1.0, lambda: tell(notice))
    waiting.start()
    try:
        seconds = trainer.prepare()
    finally:
        waiting.cancel()
    if seconds > 1:
        tell(f"compiled the {name} kernels in {seconds:.1f} s")
    if trainer.note:
        tell(f"note: {trainer.note}")
    for line in replace(planned, steps_per_second=steps_per_second(trainer)).lines():
        tell(line)


def _finished(storage: Storage, task: _Task) -> Model | None:
    """The model of a run that is to be resumed and is over already; None if there is none, or it may be replaced."""
    if not storage.resume or storage.state_path.exists() or not holds_model(storage.directory):
        return None
    try:
        checkpoint = load_checkpoint(storage.directory)
    except ModelFileError:
        if storage.overwrite:
            return None
        raise
    stored = {name: value for name, value in checkpoint.settings.items() if name not in RETIRED}
    if stored == task.settings.to_dict() and checkpoint.provenance.get("training_triples") == task.digest:
        return Model(checkpoint)
    if storage.overwrite:
        return None
    problem = "holds a finished model with other settings or triples"
    raise InputError(f"{storage.directory}: {problem}; {OTHER_PLACE}")


def _checkpoint(task: _Task, tables: TrainedTables, seconds: float) -> Checkpoint:
    triples, settings, device = task.triples, task.settings, task.device
    provenance: dict[str, Any] = {
        "ookg": __version__,
        "torch": torch.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": Path(triples.source).name,
        "training_triples": task.digest,
        "device": device.type,
        "processor": processor(device),
        "seconds": round(seconds, 3),
        "step": tables.step,
        "validations": tables.validations,
    }
    return Checkpoint(
        Embedding(settings.geometry, tables.entity_vectors.cpu(), tables.relation_vectors.cpu()),
        triples.entities,
        triples.relations,
        KnownGraph(triples.ids, len(triples.entities), len(triples.relations)),
        settings.to_dict(),
        provenance,
    )


def _digest(triples: Triples) -> str:
    """What a run is resumed on must be what it was started on."""
    digest = hashlib.sha256(np.ascontiguousarray(triples.ids).data)
    for vocabulary in (triples.entities, triples.relations):
        for buffer in vocabulary.labels.buffers():
            if buffer is not None:
                digest.update(buffer)
    return digest.hexdigest()[:16]


def _known_among(valid: Triples, train_triples: Triples) -> Triples:
    """The validation triples of entities and relations that are trained, of which there are some."""
    known: BoolArray = np.all(valid.encoded(train_triples.entities, train_triples.relations) >= 0, axis=1)
    if not known.any():
        raise InputError(f"{valid.source}: no triple of known entities and relations to validate on")
    return valid.select(known)


def _validation(valid: Triples, train_triples: Triples, settings: TrainingSettings) -> Validate:
    """A figure for vectors on validation triples of what is known, the higher the better."""
    ids, truth = valid.encoded(train_triples.entities, train_triples.relations), valid.truth
    if truth is not None:
        return lambda entities, relations: _accuracy(Embedding(settings.geometry, entities, relations), ids, truth)
    if len(ids) > VALIDATION_TRIPLES:
        ids = ids[np.random.default_rng(settings.seed).choice(len(ids), VALIDATION_TRIPLES, replace=False)]
    keys = np.concatenate([train_triples.ids, ids])
    others = AnswerIndex.build(
        ids[:, 0] * len(train_triples.relations) + ids[:, 1],
        keys[:, 0] * len(train_triples.relations) + keys[:, 1],
        keys[:, 2],
    )
    return lambda entities, relations: _reciprocal_rank(Embedding(settings.geometry, entities, relations), ids, others)


def _accuracy(embedding: Embedding, ids: IntArray, truth: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    head, relation, tail = torch.from_numpy(ids).to(embedding.device).unbind(dim=1)
    distance = embedding.geometry.distance(
        embedding.entities[head], embedding.relations[relation], embedding.entities[tail]
    )
    scores = -distance.double().cpu().numpy()
    right = 0
    for number in np.unique(ids[:, 1]):
        rows = ids[:, 1] == number
        right += int(((scores[rows] >= best_threshold(scores[rows], truth[rows])) == truth[rows]).sum())
    return right / len(ids)


def _reciprocal_rank(embedding: Embedding, ids: IntArray, others: AnswerIndex) -> float:
    queries = Queries(ids[:, 0], ids[:, 1], ids[:, 2], np.ones(len(ids), dtype=np.bool_))
    heads = embedding.entities[torch.from_numpy(queries.entity.copy()).to(embedding.device)]
    return float((1 / query_rank_counts(embedding, heads, queries, others).ranks()).mean())
