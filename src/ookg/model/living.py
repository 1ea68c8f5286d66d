"""A model directory that lives: its stored version, what was added and removed since, and what it answers with both."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from torch import Tensor

from ookg.errors import InputError, unknown_name
from ookg.evaluation.verdicts import Classification
from ookg.extension.answers import LikelyAnswers, Neighbors, Prediction, Predictions, Reason
from ookg.extension.extended import ExtendedModel
from ookg.extension.likely import End
from ookg.extension.lookup import names_to_suggest
from ookg.extension.questions import AnswerKeywords, AnswerOptions, Question
from ookg.graph.names import Names, NameSource, notes_on_names
from ookg.graph.prefixes import with_whole_iris
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.model.approximate import FollowedIndex
from ookg.model.current import Current, known_to
from ookg.model.model import Model
from ookg.model.updating import Updated, growth_of, training_settings, update_model
from ookg.newcomers.embedder import NeighborLimit, as_limit
from ookg.newcomers.reducer import Precision, Uniform, WeightsChoice, as_weights
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.approximate import ApproximateIndex
from ookg.simulation.trust import Trust
from ookg.storage.checkpoint import MODEL_FILE, Checkpoint, load_checkpoint, read_description, update_states
from ookg.storage.companions import companion_place
from ookg.storage.journal import Batch, Kind, Triple, Written
from ookg.storage.journals import open_journal
from ookg.storage.names import Stamp, add_names, names_stamp, stored_names
from ookg.storage.network import network_stamp, remove_network
from ookg.storage.versions import KEPT, Version, roll_back, versions
from ookg.system.progress import Reporter
from ookg.training.continuing import Growth, UpdateSettings
from ookg.training.loop import choose_device
from ookg.training.network import NetworkSettings

MANY_BATCHES = 64  # so many at once are read as one difference


@dataclass(frozen=True)
class Added:
    """What adding triples did.

    added: how many were not there; known_before: how many were; journal: the number of the batch
    new_entities, new_relations: how many the added ones have that the model did not
    notes: on new ones that are called as another id is: triples take ids, and a name in one is an id of its own
    """

    added: int
    known_before: int
    new_entities: int
    new_relations: int
    journal: int
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Removed:
    """What removing triples did.

    removed: how many were there; not_there: how many were not; journal: the number of the batch
    """

    removed: int
    not_there: int
    journal: int


@dataclass(frozen=True)
class History:
    """Every batch that was added or removed, and the versions that are kept, each by number."""

    batches: list[Batch]
    versions: list[Version]


@dataclass(frozen=True)
class Expected:
    """What newcomers are worth as they are, by the stored calibration: means over so many of them, each 0 to 1."""

    entities: int
    hits_at_10: float
    mrr: float


@dataclass(frozen=True)
class Cost:
    """What an update would take.

    steps: of the model and its companions, in all
    seconds: by what a step took before, on `device`; None if that is not known
    """

    steps: int
    seconds: float | None
    device: str | None


@dataclass(frozen=True)
class Status:
    """How much is new since the version, and what an update would mean.

    journal: the last batch that the version has learned; batches: how many came after it
    added, removed: triples, of which those that came and went again are none; share: of all triples that are there
    expected: what newcomers are worth until then; None if it is not calibrated, or there are none
    update: None for a model that cannot be updated; gain: None, as it is not measured before
    why_not: why it cannot be updated, as `update` says it; None where it can
    network: how the network was trained that counts in answers, as plain values; None where there is none
    unfinished: the last batch of an update whose state is there, as it was interrupted or is under way; else None
    """

    version: int
    journal: int
    batches: int
    added: int
    removed: int
    new_entities: int
    new_relations: int
    share: float
    expected: Expected | None
    update: Cost | None
    gain: float | None = None
    why_not: str | None = None
    network: dict[str, Any] | None = None
    unfinished: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; without `network` and `unfinished` where there is none."""
        rare = ("network", "unfinished")
        return {name: value for name, value in asdict(self).items() if name not in rare or value is not None}


@dataclass(frozen=True)
class _Stamp:
    """What changes whenever a model's description, or its network, is replaced; far cheaper than to read them."""

    description: tuple[int, int] | None
    network: tuple[int, int, int] | None


@dataclass(frozen=True)
class _Loaded:
    """A version as it was loaded; stamp: what the files of its description and its network looked like then."""

    stamp: _Stamp
    description: dict[str, Any]
    model: Model


@dataclass(frozen=True)
class _Extension:
    """The extended model, and the last batch that it has."""

    model: ExtendedModel
    position: int


class LivingModel:
    """A model directory, opened: what is added to it stays with it. Made by `ookg.open`.

    Any number of processes may open the same directory and add to it; `refresh` follows what the others wrote. Any
    number of threads may ask, and add, at the same time: whoever asks waits for nobody.
    journal: the URL of the PostgreSQL database where the journal lies, or is to lie, instead of in the directory
    """

    def __init__(
        self,
        directory: str | Path,
        device: str = "cpu",
        *,
        weights: WeightsChoice | None = None,
        limit: NeighborLimit | int | None = None,
        refine: bool | RefineSettings | None = None,
        journal: str | None = None,
    ) -> None:
        self.directory, self._device = Path(directory), str(choose_device(device))
        self._weights, self._limit, self._refine = as_weights(weights), as_limit(limit), refine
        self._named: tuple[Stamp | None, Names] | None = None
        self._index = FollowedIndex(self.directory)
        self._writing = threading.RLock()
        self._loading = threading.Lock()  # taken before the other
        self._put(self._load())
        self.journal = open_journal(directory, journal)

    def _load(self) -> _Loaded:
        stamp = _stamp(self.directory)  # a description that is replaced now is seen by `refresh`
        description = read_description(self.directory)
        return _Loaded(stamp, description, Model(load_checkpoint(self.directory, self._device)))

    def _put(self, loaded: _Loaded, extension: _Extension | None = None) -> None:
        self._loaded, self.model, self._extension = loaded, loaded.model, extension

    # What is there.

    @property
    def extended(self) -> ExtendedModel:
        """The version and what the journal has after it, as one; made when it is first asked for."""
        extension = self._extension
        if extension is not None:  # whoever asks does not wait for whoever writes
            return extension.model
        with self._writing:
            if self._extension is None:
                self._extension = self._extend(self.model)
            return self._extension.model

    @property
    def position(self) -> int:
        """The last batch of the journal that answers have."""
        return self.model.checkpoint.journal if self._extension is None else self._extension.position

    def _extend(self, model: Model) -> _Extension:
        current = Current.of(model.checkpoint, self.journal)
        extended = model.extend((), weights=self._weights, limit=self._limit, refine=self._refine)
        if len(current.removed):
            extended.remove(_labelled(model, current))
        extended.add(current.difference.added)
        return _Extension(extended, current.position)

    def _current(self) -> Current:
        return Current.of(self.model.checkpoint, self.journal)

    def refresh(self) -> bool:
        """Follow what was written since, by this process or another: batches, or a version. Whether there was any.

        Other threads ask and write meanwhile: a new version is loaded beside the old one, and then takes its place.
        """
        if _stamp(self.directory) == self._loaded.stamp:
            return self.follow()
        with self._loading:
            loaded, before = self._loaded, self._loaded
            if _stamp(self.directory) != before.stamp:
                loaded = self._load()
            if loaded.description == before.description and loaded.stamp.network == before.stamp.network:
                self._loaded = replace(before, stamp=loaded.stamp)
                return self.follow()
            extension = None if self._extension is None else self._extend(loaded.model)
            with self._writing:
                self._put(loaded, extension)
                self._follow()
        return True

    def follow(self) -> bool:
        """Follow the batches that were written since, and no new version. Whether there were any."""
        extension = self._extension
        if extension is None or self.journal.last <= extension.position:  # without waiting for a writer
            return False
        with self._writing:
            return self._follow()

    def _follow(self) -> bool:
        """Apply later batches to the extended model, in order. Whether there were any."""
        extension = self._extension
        if extension is None:
            return False
        batches = self.journal.batches(extension.position)
        if len(batches) > MANY_BATCHES:
            self._extension = self._extend(self.model)
            return True
        for batch in batches:
            triples = self.journal.triples_of(batch.number)
            if triples and batch.kind == "add":
                extension.model.add(triples)
            elif triples:
                extension.model.remove(triples)
            self._extension = _Extension(extension.model, batch.number)
        return bool(batches)

    def __repr__(self) -> str:
        return f"<ookg.LivingModel {self.directory}, version {self.model.checkpoint.number} of {self.model!r}>"

    # Coming and going.

    def add(self, triples: TripleSource, *, key: str | None = None, author: str | None = None) -> Added:
        """Add triples, for good: when this returns, they are on the disk. Those that are there already stay.

        key: the same batch, sent again with the same key, counts once; author: who says so (this system's user)
        """
        rows = self._written_out(triples)
        if rows.truth is not None and not rows.truth.all():
            raise InputError(f"{rows.source}: it holds triples labelled false; what is added must be true")
        if not len(rows):
            raise InputError(f"{rows.source}: no triples; give at least one")
        self.refresh()
        with self._writing:
            self._follow()
            written = self._append("add", list(rows), key, author)
            batch = written.batch
            changed = self.journal.triples_of(batch.number)
            entities = {label for head, _, tail in changed for label in (head, tail)}
            relations = {relation for _, relation, _ in changed}
            extension = self._extension
            if extension is not None and extension.position == batch.number - 1:
                # It stands where the batch came in: nothing of the journal needs to be read again.
                entities = {label for label in entities if not extension.model.has_entity(label)}
                relations = {label for label in relations if not extension.model.has_relation(label)}
            else:
                before = self.journal.difference(self.model.checkpoint.journal, batch.number - 1).added
                entities -= {label for head, _, tail in before for label in (head, tail)}
                relations -= {relation for _, relation, _ in before}
            new = _unknown(self.model.entities, entities), _unknown(self.model.relations, relations)
            self._follow()
            notes = notes_on_names([*new[0], *new[1]], self.names, _on_a_name)
            sizes = len(new[0]), len(new[1])
            return Added(batch.changed, batch.asked - batch.changed, *sizes, batch.number, notes)

    def remove(
        self,
        triples: TripleSource | None = None,
        *,
        entity: str | None = None,
        key: str | None = None,
        author: str | None = None,
    ) -> Removed:
        """Remove triples, or all triples of an entity, for good: added ones and those of training.

        What was added leaves no trace. A triple of training is no known answer and no evidence any more; known vectors
        stay as they are until the next update.
        """
        if (triples is None) == (entity is None):
            raise InputError("give either triples or an entity to remove")
        self.refresh()
        with self._writing:
            repeated = None if entity is None or key is None else self.journal.removal_of(entity, key)
            if repeated is not None:  # its triples are gone, so it cannot be put together again
                return _removed(repeated)
            named = None if triples is None else self._written_out(triples)
            if named is not None and named.truth is not None and not named.truth.all():
                raise InputError(
                    f"{named.source}: it holds triples labelled false; name those to remove without a label"
                )
            rows = self._triples_of(entity) if entity is not None else list(named or ())
            if not rows:
                raise InputError("no triples; give at least one")
            if key is None and not self._is_there(rows).any():
                some = " ".join(rows[0])
                raise InputError(f"none of the triples is there, such as {some!r}; nothing is removed")
            batch = self._append("remove", rows, key, author, entity).batch
            self._follow()
            return _removed(batch)

    def _written_out(self, triples: TripleSource) -> Triples:
        """Triples with whole IRIs, where they are written by their prefixes (`rdf:type`)."""
        place = self.model if self._extension is None else self._extension.model
        return with_whole_iris(as_triples(triples), place.entities, place.relations)

    def _append(
        self, kind: Kind, rows: list[Triple], key: str | None, author: str | None, entity: str | None = None
    ) -> Written:
        version = self.model
        return self.journal.append(
            kind,
            rows,
            lambda some: known_to(version, some).tolist(),
            after=version.checkpoint.journal,
            key=key,
            author=_user() if author is None else author,
            entity=entity,
        )

    def _is_there(self, rows: Sequence[Triple]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        difference = self._current().difference
        added, removed = set(difference.added), set(difference.removed)
        known = known_to(self.model, rows)
        return np.array(
            [row in added or (bool(is_known) and row not in removed) for row, is_known in zip(rows, known, strict=True)]
        )

    def _triples_of(self, entity: str) -> list[Triple]:
        """The triples of an entity: known ones that are not removed, and added ones."""
        difference, number = self._current().difference, self.model.entities.find(entity)
        added = [triple for triple in difference.added if entity in (triple[0], triple[2])]
        known: list[Triple] = []
        if number is not None:
            index, relations, removed = self.model.index, self.model.relations, set(difference.removed)
            rows = index.rows(number)
            others = self.model.entities.select(index.others(rows).astype(np.int64))
            for link, other in zip(index.links(rows).tolist(), others, strict=True):
                relation = relations.label(link % index.num_relations)
                known.append((entity, relation, other) if link < index.num_relations else (other, relation, entity))
            known = [triple for triple in dict.fromkeys(known) if triple not in removed]
        if not added and not known:
            if number is not None:
                raise InputError(f"entity {entity!r} has no triples (any more); nothing is removed")
            added_ends = {end for row in difference.added for end in (row[0], row[2])}
            names = names_to_suggest(entity, self.model.entities, sorted(added_ends))
            raise unknown_name("entity", entity, names, "it is in no triple of training and in none that was added")
        return [*known, *added]

    def history(self) -> History:
        """What was added and removed, and the versions."""
        return History(self.journal.batches(), versions(self.directory))

    def update(
        self,
        settings: UpdateSettings | None = None,
        *,
        keep: int = KEPT,
        validate: float | None = None,
        device: str | None = None,
        progress: bool = False,
    ) -> Updated:
        """Let the vectors learn what came and went; the result is the next version, and this model from then on.

        keep: how many earlier versions stay; device: by default where this model is
        validate: first update without this share of the added triples, to measure what that gains on them
        """
        device = device or self.model.embedding.device.type
        updated = update_model(
            self.directory,
            settings,
            keep=keep,
            validate=validate,
            device=device,
            progress=progress,
            journal=self.journal,
        )
        self.refresh()
        return updated

    def train_network(
        self,
        settings: NetworkSettings | None = None,
        *,
        device: str | None = None,
        report: Reporter | None = None,
    ) -> None:
        """Train a graph neural network on the triples that are there, and store it: it counts in answers from then on.

        device: by default where this model is; report: called with the number of steps done
        """
        current = self._current()
        trained = current.model.train_network(settings, given=current.given(), device=device, report=report)
        trained.save_network(self.directory)
        self.refresh()

    def remove_network(self) -> bool:
        """Remove the network; whether there was one."""
        removed = remove_network(self.directory)
        self.refresh()
        return removed

    def rollback(self, number: int | None = None) -> Version:
        """Make an earlier version the model again, by default the one before; what came after it applies again."""
        version = roll_back(self.directory, number)
        self.refresh()
        return version

    def status(self) -> Status:
        """How much is new, and what an update would mean."""
        self.refresh()
        current = self._current()
        checkpoint = current.version.checkpoint
        places = (self.directory, *(companion_place(self.directory, name) for name in checkpoint.companions))
        begun = {number for place in places for number in update_states(place) if number >= checkpoint.journal}
        return replace(status_of(current), unfinished=max(begun, default=None))

    @property
    def approximate(self) -> ApproximateIndex:
        """The index that is stored for the version's vectors, for `AnswerOptions`; an error says why there is none.

        An update leaves it behind: from then on, questions are answered exactly until it is made anew.
        """
        return self._index.of(self.model)

    # What ids are called.

    @property
    def names(self) -> Names:
        """The names that are stored now, by whomever."""
        stamp, named = names_stamp(self.directory), self._named
        if named is None or named[0] != stamp:  # two threads may both read them, and read the same
            named = self._named = (stamp, stored_names(self.directory))
        return named[1]

    def add_names(self, source: NameSource, *, replace: bool = False) -> Names:
        """Name ids, for good, known ones or such as may come; return all names that there are then.

        An id that has a name gets the new one; the others stay, unless all are to be replaced.
        """
        add_names(self.directory, source, replace=replace)
        return self.names

    # Asking: as the extended model does.

    @property
    def entities(self) -> Vocabulary:
        """The labels of known and new entities, by id."""
        return self.extended.entities

    @property
    def relations(self) -> Vocabulary:
        """The labels of trained and new relations, by id."""
        return self.extended.relations

    @property
    def new_entities(self) -> list[str]:
        """The labels of the entities that are new since the version."""
        return self.extended.new_entities

    @property
    def notes(self) -> list[str]:
        """What of the added triples makes no vector, in words."""
        return self.extended.notes

    def vector(self, entity: str, query_relation: str | None = None) -> Tensor:
        """The vector of a known or new entity."""
        return self.extended.vector(entity, query_relation)

    @property
    def vectors(self) -> dict[str, Tensor]:
        """The vectors of all new entities that have one, by label."""
        return self.extended.vectors

    def trust(self, entity: str, *, combine: bool | None = None) -> Trust | None:
        """How far to trust a new entity's vector; None for a known one."""
        return self.extended.trust(entity, combine=combine)

    def explain(self, entity: str, relation: str) -> list[Reason]:
        """The triples that made a new entity's vector, heaviest first."""
        return self.extended.explain(entity, relation)

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        options: AnswerOptions | None = None,
        **keywords: Unpack[AnswerKeywords],
    ) -> Prediction:
        """The best tails for (head, relation), or heads for (relation, tail).

        options: also by keyword, such as top=3, known_answers="mark" or explain=True, here and in what follows
        """
        return self.extended.predict(relation=relation, head=head, tail=tail, options=options, **keywords)

    def neighbors(self, entity: str, top: int = 10) -> Neighbors:
        """The known and new entities whose vectors are nearest to that of an entity, the nearest first."""
        return self.extended.neighbors(entity, top)

    def likely(
        self,
        entity: str,
        end: End = "both",
        options: AnswerOptions | None = None,
        **keywords: Unpack[AnswerKeywords],
    ) -> LikelyAnswers:
        """Everything likely about an entity over all relations that fit it, the likeliest first."""
        return self.extended.likely(entity, end, options, **keywords)

    def predict_all(
        self, questions: Sequence[Question], options: AnswerOptions | None = None, **keywords: Unpack[AnswerKeywords]
    ) -> Predictions:
        """The answers to many questions, all from one state."""
        return self.extended.predict_all(questions, options, **keywords)

    def classify(self, claims: TripleSource, *, valid: TripleSource | None = None) -> Classification:
        """True or false for each claim: by the judge where it is about newcomers, else by thresholds.

        As `Model.classify`, with a judge that learns once for each version where none is stored. Nothing is stored.
        """
        claims, extended, model = as_triples(claims, keep_duplicates=True), self.extended, self.model
        if extended.new_end(claims) is None:
            return extended.classify(claims, valid=valid)
        try:
            judge = model.usual_judge if valid is None else model.judge_for(valid)
        except InputError:  # too few labelled claims: thresholds have to do
            judge = None
        return extended.classify(claims, valid=valid, judge=judge)


def status_of(current: Current) -> Status:
    """How much is new in a model directory, and what an update would mean."""
    version, difference = current.version, current.difference
    checkpoint, labels = version.checkpoint, current.given()
    changed, kept = len(difference.added) + len(difference.removed), len(checkpoint.triples) - len(current.removed)
    cost: Cost | None = None
    why_not: str | None = None
    try:
        cost = _cost(current)
    except InputError as error:
        why_not = str(error)
    return Status(
        checkpoint.number,
        checkpoint.journal,
        current.position - checkpoint.journal,
        len(difference.added),
        len(difference.removed),
        len(_unknown(version.entities, labels.entities.labels.to_pylist())),
        len(_unknown(version.relations, labels.relations.labels.to_pylist())),
        changed / max(1, changed + kept),
        _expected(current),
        cost,
        why_not=why_not,
        network=None if checkpoint.network is None else checkpoint.network.about,
    )


def _stamp(directory: Path) -> _Stamp:
    try:
        status = (directory / MODEL_FILE).stat()
    except OSError:
        return _Stamp(None, network_stamp(directory))
    return _Stamp((status.st_ino, status.st_mtime_ns), network_stamp(directory))


def _removed(batch: Batch) -> Removed:
    return Removed(batch.changed, batch.asked - batch.changed, batch.number)


@cache
def _user() -> str:
    """Who is at work here, as far as the system says."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a user of its own
        return ""


def _unknown(vocabulary: Vocabulary, labels: Iterable[str]) -> list[str]:
    """Those that it does not have, ascending."""
    ordered = sorted(labels)
    return [label for label, place in zip(ordered, vocabulary.ids(ordered).tolist(), strict=True) if place < 0]


def _on_a_name(label: str, ids: str) -> str:
    """What to say of a new label that is the name of other ids."""
    return f"{label!r} is new, and the name of {ids}; triples take ids: if that is meant, remove these and add its id"


def _labelled(model: Model, current: Current) -> list[Triple]:
    """The removed training triples as labels."""
    heads, tails = (model.entities.select(current.removed[:, end]) for end in (0, 2))
    return list(zip(heads, model.relations.select(current.removed[:, 1]), tails, strict=True))


def _expected(current: Current) -> Expected | None:
    """What the stored calibration says of the newcomers, as `predict` answers about them; None where there is none."""
    model, in_ways = current.model, current.model.ways is not None
    is_measured = model.defaults.calibration(refine=False, combine=False, chosen=in_ways) is not None
    if not is_measured or not current.difference.added:
        return None
    newcomers = model.given(current.given(), Precision() if in_ways else Uniform(), new_relations=True).newcomers
    every = np.arange(newcomers.support.num_newcomers)
    trust = model.trust(newcomers, every, refine=False, chosen=in_ways)
    hits, mrr = (column[np.isfinite(column)] for column in (trust.expected_hits_at_10, trust.expected_mrr))
    return Expected(len(mrr), float(hits.mean()), float(mrr.mean())) if len(mrr) else None


def _cost(current: Current) -> Cost:
    """What an update would take, by how long steps took before; a model that cannot be updated is refused."""
    checkpoint, growth = current.version.checkpoint, growth_of(current)
    each = [_cost_of(one, growth) for one in (checkpoint, *checkpoint.companions.values())]
    seconds = [cost.seconds for cost in each if cost.seconds is not None]
    in_all = round(sum(seconds), 3) if len(seconds) == len(each) else None
    return Cost(sum(cost.steps for cost in each), in_all, each[0].device)


def _cost_of(checkpoint: Checkpoint, growth: Growth) -> Cost:
    """That of a model, or of a companion."""
    steps = UpdateSettings().steps_for(growth, training_settings(checkpoint))
    provenance = checkpoint.provenance
    earlier = [(provenance.get("update") or {}, "steps"), (provenance, "step")]
    for values, name in earlier:
        done, seconds = values.get(name), values.get("seconds")
        if isinstance(done, int) and isinstance(seconds, int | float) and done > 0:
            return Cost(steps, round(steps * seconds / done, 3), values.get("processor"))
    return Cost(steps, None, None)
