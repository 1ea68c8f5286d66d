"""Making an approximate index of a model's vectors, measuring what it misses, and finding the one that is stored."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch

from ookg.errors import InputError, OokgError
from ookg.extension.answers import Prediction
from ookg.extension.extended import ExtendedModel
from ookg.extension.questions import AnswerOptions, Question
from ookg.model.model import Model
from ookg.models.embedding import Embedding
from ookg.scoring.approximate import MEASURED_TOP, ApproximateIndex, Measured, clustered
from ookg.storage.approximate import (
    INDEX_FILE,
    Stamp,
    StoredIndex,
    damaged_index,
    index_stamp,
    read_index,
    write_index,
)
from ookg.system.progress import Reporter
from ookg.types import IntArray

MOST_SHARE = 0.25  # of the lists: with more, a question is hardly faster than one to all entities
EXACT = AnswerOptions(combine=False, top=MEASURED_TOP)


@dataclass(frozen=True)
class IndexSettings:
    """How an index is made.

    recall: the least share of the ten best answers that it must name; questions: that measure it, in each direction
    """

    recall: float = 0.95
    questions: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.recall <= 1:
            raise InputError(f"a recall of {self.recall}; give one above 0, up to 1")
        if self.questions < 1:
            raise InputError(f"{self.questions} questions; ask 1 or more")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; give 0 or more")


@dataclass(frozen=True)
class _Drawn:
    """Questions over triples of the graph, half of them for the tail."""

    tails: IntArray
    heads: IntArray

    def questions(self, model: Model) -> list[Question]:
        """All of them, those for the tail first."""
        entities, relations = model.entities, model.relations
        return [
            *(Question(relations.label(r), head=entities.label(h)) for h, r, _ in self.tails.tolist()),
            *(Question(relations.label(r), tail=entities.label(t)) for _, r, t in self.heads.tolist()),
        ]


def make_index(model: Model, settings: IndexSettings | None = None, report: Reporter | None = None) -> ApproximateIndex:
    """An index that names at least so many of the ten best answers to questions drawn from the graph, or an error.

    How many lists a question looks into is chosen on some questions, and what that misses is measured on others.
    report: called with the number of entities that are in their lists
    """
    settings = settings or IndexSettings()
    if model.companions:
        names = ", ".join(model.checkpoint.companions)
        problem = f"its answers are ranked together with {names}, which takes the scores of all entities"
        raise InputError(f"{problem}; an index serves a model without companions")
    chosen_on, measured_on = _drawn(model, settings)
    index = clustered(model.embedding, settings.seed, report)
    extended = model.extend(())
    index = replace(index, probes=_probes(index, extended, chosen_on.questions(model), (1 + settings.recall) / 2))
    index = replace(index, measured=_measured(index, extended, measured_on.questions(model)))
    if index.recall < settings.recall:
        problem = f"the index names {index.recall:.1%} of the ten best answers, not {settings.recall:.1%}"
        share = f"where a question scores {index.share:.0%} of the entities"
        raise InputError(
            f"{problem}, {share}; nothing is stored: ask exactly, or settle for less with a lower `recall`"
        )
    return index


def _drawn(model: Model, settings: IndexSettings) -> tuple[_Drawn, _Drawn]:
    triples = np.asarray(model.known_triples)
    size = min(settings.questions, len(triples) // 4)
    if not size:
        problem = f"{len(triples)} training triples, from which the questions are drawn that measure an index"
        raise InputError(f"this model has {problem}; it takes 4 or more")
    rows = np.random.default_rng(settings.seed).choice(len(triples), 4 * size, replace=False)
    parts = triples[rows].astype(np.int64).reshape(4, size, 3)
    return _Drawn(parts[0], parts[1]), _Drawn(parts[2], parts[3])


def _probes(index: ApproximateIndex, extended: ExtendedModel, questions: Sequence[Question], aim: float) -> int:
    """How many lists to look into, so that each direction has this share of the best answers; a quarter at most."""
    places = [
        _places(index, extended, question, prediction)
        for question, prediction in zip(questions, extended.predict_all(questions, EXACT), strict=True)
    ]
    half = len(places) // 2
    needed = 1
    for part in (places[:half], places[half:]):
        place = np.sort(np.concatenate(part))
        if len(place):
            needed = max(needed, int(place[math.ceil(aim * len(place)) - 1]) + 1)
    return max(1, min(needed, int(MOST_SHARE * len(index.centres))))


def _places(index: ApproximateIndex, extended: ExtendedModel, question: Question, prediction: Prediction) -> IntArray:
    """(answers,) which list has each answer, counted from the one that is nearest to where it should be."""
    embedding, labels = index.embedding, [answer.entity for answer in prediction.answers]
    geometry, entities = embedding.geometry, extended.model.entities
    own = embedding.rows(torch.from_numpy(entities.ids([question.asked])).to(embedding.device))
    relation = embedding.relations[extended.model.relations.ids([question.relation]).tolist()]
    point = geometry.solve_tail(own, relation) if question.asks_tail else geometry.solve_head(relation, own)
    place_of = np.empty(len(index.centres), dtype=np.int64)
    place_of[index.nearest_lists(point, len(place_of))] = np.arange(len(place_of))
    places: IntArray = place_of[index.list_of[entities.ids(labels)]]
    return places


def _measured(index: ApproximateIndex, extended: ExtendedModel, questions: Sequence[Question]) -> Measured:
    """One by one, as they are asked in life."""
    options = replace(EXACT, approximate=index)
    for one in (EXACT, options):
        extended.predict_all(questions[:1], one)  # what is loaded and compiled is not timed
    shares, seconds = [], [0.0, 0.0]
    for question in questions:
        answers = []
        for place, one in enumerate((EXACT, options)):
            begun = time.perf_counter()
            answers.append({answer.entity for answer in extended.predict_all([question], one)[0].answers})
            seconds[place] += time.perf_counter() - begun
        shares.append(len(answers[0] & answers[1]) / max(1, len(answers[0])) if answers[0] else 1.0)
    half = len(questions) // 2
    tails, heads = float(np.mean(shares[:half])), float(np.mean(shares[half:]))
    exact, approximate = (1e3 * taken / len(questions) for taken in seconds)
    return Measured(half, tails, heads, exact, approximate)


def store_index(index: ApproximateIndex, model: Model, directory: str | Path) -> Path:
    """Store a measured index with the model in a directory that has these vectors; return its file."""
    fingerprint = model.checkpoint.fingerprint
    if fingerprint is None or index.embedding is not model.embedding or index.measured is None:
        raise InputError("the index is not of the vectors that are stored; save the model, load it, and make it anew")
    arrays = {"centres": index.centres.numpy(), "offsets": index.offsets, "members": index.members}
    about = {"fingerprint": fingerprint, "version": model.checkpoint.number}
    return write_index(
        directory, StoredIndex(arrays, about | {"probes": index.probes, "measured": asdict(index.measured)})
    )


def stored_index(model: Model) -> ApproximateIndex:
    """The index that is stored with a model's vectors; an error says why there is none."""
    directory, fingerprint = model.checkpoint.directory, model.checkpoint.fingerprint
    if directory is None or fingerprint is None:
        raise InputError("an approximate index is of the stored vectors alone, and there are others here; ask exactly")
    stored = read_index(directory)
    if stored is None:
        raise InputError(f"{directory}: it has no approximate index; make one with `ookg index {directory}`")
    if stored.about.get("fingerprint") != fingerprint:
        theirs, own = stored.about.get("version"), model.checkpoint.number
        problem = "the index was made for other vectors"
        if theirs != own:
            problem += f" (those of version {theirs}, and this is version {own})"
        raise InputError(f"{directory / INDEX_FILE}: {problem}; make it anew with `ookg index {directory}`")
    try:
        arrays, about = stored.arrays, stored.about
        lists = torch.from_numpy(arrays["centres"]), arrays["offsets"].astype(np.int64), arrays["members"]
        questions, *figures = (about["measured"][one.name] for one in fields(Measured))
        measured = Measured(int(questions), *map(float, figures))
        return ApproximateIndex(model.embedding, *lists, about["probes"], measured)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise damaged_index(directory, str(error)) from error


@dataclass(frozen=True)
class _Held:
    """An index for some vectors, or why there is none; stamp: what its file looked like."""

    stamp: Stamp | None
    embedding: Embedding
    index: ApproximateIndex | str


class FollowedIndex:
    """The index of a model directory, read again whenever it, or the model, is another one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: _Held | None = None

    def of(self, model: Model) -> ApproximateIndex:
        """That of a model which was read from the directory; an error says why there is none."""
        stamp, held = index_stamp(self._directory), self._held
        if held is None or held.stamp != stamp or held.embedding is not model.embedding:
            try:
                held = _Held(stamp, model.embedding, stored_index(model))
            except OokgError as error:
                held = _Held(stamp, model.embedding, str(error))
            self._held = held  # two threads may both read it, and read the same
        if isinstance(held.index, str):
            raise InputError(held.index)
        return held.index
