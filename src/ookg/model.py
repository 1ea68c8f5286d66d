"""A trained model with its labels: represent what is new, ask about it, judge claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ookg.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ookg.display import counted
from ookg.errors import InputError, unknown_name
from ookg.evaluation.thresholds import Thresholds
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights
from ookg.reading import ArrowStream
from ookg.statistics import FloatArray, IntArray
from ookg.triples import Triples, as_triples
from ookg.vocabulary import Vocabulary

TripleSource = str | Path | Triples | ArrowStream | Iterable[Sequence[str]]
EXAMPLES = 3
NEWCOMERS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class NewVectors:
    """Vectors of new entities.

    entities: (newcomers,) those that have a vector; vectors: (newcomers, entity_width)
    neighbors: (newcomers,) how many triples made each vector
    without_vector: new entities with no usable neighbour; notes: what was not used and why, in words
    """

    entities: list[str]
    vectors: Tensor
    neighbors: IntArray
    without_vector: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Answer:
    """One answer: its score is -D(h, r, t), its rank counts from 1."""

    entity: str
    score: float
    rank: int
    is_known: bool
    is_new: bool


@dataclass(frozen=True)
class Reason:
    """One triple that made the asked entity's vector, and its weight; direction "out": the entity is its head."""

    entity: str
    relation: str
    direction: Literal["out", "in"]
    weight: float


@dataclass(frozen=True)
class Prediction:
    """The best answers to a query, and for a new entity what its vector was made of (heaviest first)."""

    answers: list[Answer]
    explanation: list[Reason]
    notes: list[str]


@dataclass(frozen=True)
class Verdict:
    """A claim with its score and the threshold it is held against; score and verdict are None without a vector."""

    head: str
    relation: str
    tail: str
    score: float | None
    threshold: float
    verdict: bool | None


@dataclass(frozen=True)
class Classification:
    """Verdicts on claims, and where these are labelled the percentage that is right (no verdict counts as false)."""

    claims: list[Verdict]
    accuracy: float | None
    notes: list[str]


@dataclass(frozen=True)
class Given:
    """A set of given triples as a model sees it.

    entities: the model's entities, then the new ones; relations: the model's, then untrained ones
    triples: (triples, 3) ids of these
    """

    newcomers: Newcomers
    entities: Vocabulary
    relations: Vocabulary
    triples: IntArray
    notes: list[str]


class Model:
    """A trained embedding with labels and statistics. Nothing here changes it: what is new gets vectors of its own."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    @classmethod
    def load(cls, directory: str | Path, device: str = "cpu") -> Model:
        """Read a model directory."""
        return cls(load_checkpoint(directory, device))

    def save(self, directory: str | Path) -> None:
        """Write a model directory, atomically."""
        save_checkpoint(self.checkpoint, directory)

    def __repr__(self) -> str:
        geometry = self.checkpoint.embedding.geometry
        kind = f"{type(geometry).__name__}, dim {geometry.dim}, norm {geometry.norm}"
        return f"<ookg.Model {kind}: {len(self.entities):,} entities, {len(self.relations):,} relations>"

    @property
    def entities(self) -> Vocabulary:
        """The known entities."""
        return self.checkpoint.entities

    @property
    def relations(self) -> Vocabulary:
        """The relations with a trained vector."""
        return self.checkpoint.relations

    @property
    def entity_vectors(self) -> Tensor:
        """(entities, entity_width); RotatE: the real parts, then the imaginary parts."""
        return self.checkpoint.embedding.entities

    @property
    def relation_vectors(self) -> Tensor:
        """(relations, relation_width); RotatE: phases in radians."""
        return self.checkpoint.embedding.relations

    def default_weights(self, weights: Weights) -> Weights:
        """The usual weights of a task; uniform ones for a model that came without its training triples."""
        return weights if self.checkpoint.statistics is not None else Uniform()

    def given(self, triples: TripleSource, weights: Weights, limit: NeighborLimit | None = None) -> Given:
        """Find the new entities and their neighbours in given triples."""
        triples, checkpoint = as_triples(triples), self.checkpoint
        if triples.truth is not None and not triples.truth.all():
            raise InputError(f"{triples.source}: it holds triples labelled false; what is given must be true")
        entities = checkpoint.entities.extended(triples.entities.labels)
        relations = checkpoint.relations.extended(triples.relations.labels)
        ids = triples.encoded(entities, relations)
        trained = ids.copy()
        trained[ids[:, 1] >= len(checkpoint.relations), 1] = -1
        found = find_newcomers(checkpoint.embedding, checkpoint.statistics, checkpoint.triples, trained, weights, limit)
        return Given(found, entities, relations, ids, _notes(triples, found, entities, len(checkpoint.entities)))

    def embed(
        self,
        triples: TripleSource,
        *,
        weights: Weights | None = None,
        query_relation: str | None = None,
        limit: NeighborLimit | None = None,
    ) -> NewVectors:
        """Vectors for the entities of `triples` that the model does not know: e = Σ w(ẽ)·ẽ over their candidates ẽ.

        weights: `Uniform()`, `Degree()` or `Correlation()`; by default correlation if a query relation is given, as
            those weights depend on it, else degree
        """
        weights = weights or (Correlation() if query_relation is not None else self.default_weights(Degree()))
        if query_relation is not None and not weights.needs_query:
            name = type(weights).__name__.lower()
            raise InputError(
                f"a query relation with {name} weights, which do not look at it; choose correlation weights"
            )
        if weights.needs_query and query_relation is None:
            raise InputError(
                "correlation weights depend on the relation that is asked for, so there is no single vector; "
                "give a query relation, or choose uniform or degree weights"
            )
        given = self.given(triples, weights, limit)
        newcomers, first = given.newcomers, len(self.entities)
        queries = None
        if query_relation is not None:
            queries = np.full(newcomers.support.num_newcomers, self._relation(query_relation))
        vectors = newcomers.vectors(np.arange(newcomers.support.num_newcomers), queries)
        made = newcomers.representable
        return NewVectors(
            given.entities.select(np.flatnonzero(made) + first),
            vectors[torch.from_numpy(made)],
            newcomers.support.counts[made],
            given.entities.select(np.flatnonzero(~made) + first),
            given.notes,
        )

    def predict(
        self,
        given: TripleSource = (),
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        weights: Weights | None = None,
        limit: NeighborLimit | None = None,
        top: int = 10,
        known_answers: Literal["drop", "mark"] = "drop",
        new_answers: bool = True,
    ) -> Prediction:
        """The best tails for (head, relation) or heads for (relation, tail); the given end may be known or new.

        Candidates are all known entities and the new ones of `given` (unless new_answers is False), but for the
        asked entity itself if it is new. Answers that the training or given triples already state are left out, or
        kept and marked. Weights are correlation weights by default.
        """
        if (head is None) == (tail is None):
            raise InputError("give either a head or a tail; the other one is what is asked for")
        if top < 1:
            raise InputError(f"top {top}; ask for 1 or more answers")
        found = self.given(given, weights or self.default_weights(Correlation()), limit)
        asked, asks_tail = (head, True) if head is not None else (str(tail), False)
        query = self._relation(relation)
        entity = self._entity(asked, found)
        gaps = self._gaps(found, entity, query, asks_tail)  # (known and new entities,)
        if not new_answers:
            gaps[len(self.entities) :] = np.nan
        if entity >= len(self.entities):
            gaps[entity] = np.nan

        stated = self._stated_answers(found, entity, query, asks_tail)
        if known_answers == "drop":
            gaps[stated] = np.nan
        order = np.argsort(gaps, kind="stable")[: min(top, int(np.isfinite(gaps).sum()))]
        marked = np.isin(order, stated)
        is_new = order >= len(self.entities)
        labels = found.entities.select(order)
        answers = [
            Answer(label, -float(gaps[place]), rank, bool(known), bool(new))
            for rank, (label, place, known, new) in enumerate(zip(labels, order, marked, is_new, strict=True), start=1)
        ]
        return Prediction(answers, self._explanation(found, entity, query), found.notes)

    def classify(
        self,
        claims: TripleSource,
        *,
        valid: TripleSource,
        given: TripleSource = (),
        weights: Weights | None = None,
        limit: NeighborLimit | None = None,
    ) -> Classification:
        """True or false for each claim: its score against its relation's threshold, found on labelled `valid` triples.

        Weights are degree weights by default. A claim whose ends or relation have no vector gets no verdict.
        """
        found = self.given(given, weights or self.default_weights(Degree()), limit)
        claims, valid = as_triples(claims, keep_duplicates=True), as_triples(valid, keep_duplicates=True)
        thresholds = self.thresholds(valid, found)
        ids = claims.encoded(found.entities, self.relations)
        scores, limits = found.newcomers.scores(ids), thresholds.of(ids[:, 1])
        scored = ~np.isnan(scores)
        verdicts = [
            Verdict(*triple, score if known else None, limit, score >= limit if known else None)
            for triple, score, limit, known in zip(
                claims, scores.tolist(), limits.tolist(), scored.tolist(), strict=True
            )
        ]
        notes = [*found.notes, *claims.notes, *valid.notes]
        if not scored.all():
            missing = f"{int((~scored).sum()):,} of {counted(len(scored), 'claim')} without a verdict"
            notes.append(f"{missing}: an entity or the relation has no vector")
        return Classification(verdicts, accuracy(scores, limits, claims.truth), notes)

    def thresholds(self, valid: Triples, given: Given) -> Thresholds:
        """Thresholds that tell the labelled triples of `valid` apart best."""
        if valid.truth is None:
            raise InputError(f"{valid.source}: no label column; thresholds need triples labelled 1 and 0")
        ids = valid.encoded(given.entities, self.relations)
        scores = given.newcomers.scores(ids)
        scored = ~np.isnan(scores)
        if not scored.any():
            remedy = "give triples of known entities and relations"
            raise InputError(f"{valid.source}: none of its {len(ids)} triples can be scored; {remedy}")
        return Thresholds.fit(scores[scored], ids[scored, 1], valid.truth[scored], len(self.relations))

    def _relation(self, label: str) -> int:
        number = self.relations.find(label)
        if number is None:
            known = self.relations.labels.to_pylist()
            raise unknown_name("relation", label, known, "only relations of the training triples have a vector")
        return number

    def _entity(self, label: str, given: Given) -> int:
        number = given.entities.find(label)
        if number is None:
            known = given.entities.labels.to_pylist()
            raise unknown_name("entity", label, known, "it is in no training triple and in none of the given ones")
        newcomer = number - len(self.entities)
        if newcomer >= 0 and not given.newcomers.representable[newcomer]:
            problem = f"entity {label!r} is new and has no usable neighbour"
            raise InputError(f"{problem}; give a triple that ties it to a known entity over a trained relation")
        return number

    def _gaps(self, given: Given, entity: int, relation: int, asks_tail: bool) -> FloatArray:
        """The distance of the query's triple with each entity, known and new, at the open end."""
        embedding, newcomers = self.checkpoint.embedding, given.newcomers
        vector = newcomers.entity_vectors(np.array([entity]), np.array([relation]))
        moved = embedding.relations[relation][None]
        geometry = embedding.geometry
        point = geometry.solve_tail(vector, moved) if asks_tail else geometry.solve_head(moved, vector)
        known = geometry.gap_to_all(point, embedding.entities)[0]
        gaps = [known]
        for start in range(0, newcomers.support.num_newcomers, NEWCOMERS_AT_ONCE):
            others = np.arange(start, min(start + NEWCOMERS_AT_ONCE, newcomers.support.num_newcomers))
            gaps.append(geometry.gap(point, newcomers.vectors(others, np.full(len(others), relation))))
        return torch.cat(gaps).double().cpu().numpy()

    def _stated_answers(self, given: Given, entity: int, relation: int, asks_tail: bool) -> IntArray:
        """The answers that training and given triples state."""
        near, far = (0, 2) if asks_tail else (2, 0)
        found = [
            triples[(triples[:, near] == entity) & (triples[:, 1] == relation), far]
            for triples in (self.checkpoint.triples, given.triples)
        ]
        return np.unique(np.concatenate(found))

    def _explanation(self, given: Given, entity: int, relation: int) -> list[Reason]:
        newcomer = np.array([entity - len(self.entities)])
        if newcomer[0] < 0:
            return []
        support = given.newcomers.support
        rows, _ = support.rows_of(newcomer)
        weights = given.newcomers.row_weights(newcomer, np.array([relation]))
        order = np.argsort(-weights, kind="stable")
        return [
            Reason(
                self.entities.label(support.neighbor[rows[place]]),
                self.relations.label(support.relation[rows[place]]),
                "out" if support.is_head[rows[place]] else "in",
                float(weights[place]),
            )
            for place in order
        ]


def accuracy(
    scores: FloatArray, thresholds: FloatArray, truth: np.ndarray[tuple[int], np.dtype[np.bool_]] | None
) -> float | None:
    """The percentage of right verdicts; a claim without a score counts as held false. None without labels."""
    if truth is None or not len(truth):
        return None
    return float(((scores >= thresholds) == truth).mean() * 100)


def _notes(triples: Triples, found: Newcomers, entities: Vocabulary, num_known: int) -> list[str]:
    """What the given triples have that makes no vector, in words."""
    notes = triples.notes
    unused = found.unused
    for rows, text in (
        (unused.untrained_relation, "not used, over a relation without a trained vector"),
        (unused.between_newcomers, "not used, between two new entities"),
        (unused.without_newcomer, "between known entities, which make no vector but state known answers"),
    ):
        if len(rows):
            examples = [" ".join(triple) for triple in triples.select(rows[:EXAMPLES])]
            notes.append(f"{counted(len(rows), 'triple')} {text} ({_some(examples, len(rows))})")
    lacking = np.flatnonzero(~found.representable)
    if len(lacking):
        examples = entities.select(lacking[:EXAMPLES] + num_known)
        problem = (
            f"{counted(len(lacking), 'new entity', 'new entities')} without a usable neighbour, and so without a vector"
        )
        notes.append(f"{problem} ({_some(examples, len(lacking))})")
    return notes


def _some(examples: list[str], total: int) -> str:
    return ", ".join(examples) + (", ..." if total > len(examples) else "")
