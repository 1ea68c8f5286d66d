"""Habits of relations: which entities have stood at which end of a relation, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from ookg.evidence.around import having
from ookg.evidence.source import Asked, Source, Spoken
from ookg.graph.grown import GrownGraph, Triple, summed
from ookg.graph.index import GraphIndex
from ookg.graph.layers import Layers
from ookg.graph.linked import known_links
from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

BITS = 32  # of a key, for the entity
LOGARITHMS = np.log1p(np.arange(1 << 12))  # a question needs thousands of them, mostly of small numbers


@dataclass(frozen=True, eq=False)
class Ends:
    """How often each entity stands at each end of a relation: relation r's tails have the end 2·r, its heads 2·r + 1.

    keys: end · 2³² + entity, ascending; counts: how many triples
    """

    keys: IntArray
    counts: IntArray

    @classmethod
    def of(cls, triples: IntArray) -> Ends:
        """Those of triples, (triples, 3)."""
        head, relation, tail = triples.T
        keys = np.concatenate([((2 * relation) << BITS) + tail, ((2 * relation + 1) << BITS) + head])
        return cls(*np.unique(keys, return_counts=True))

    def with_more(self, others: Ends) -> Ends:
        """These and others together."""
        keys, place = np.unique(np.concatenate([self.keys, others.keys]), return_inverse=True)
        counts = np.bincount(place.ravel(), np.concatenate([self.counts, others.counts]), minlength=len(keys))
        return Ends(keys, counts.astype(np.int64))

    def at(self, end: int) -> tuple[IntArray, IntArray]:
        """The entities that stand at an end, ascending, and how often each does."""
        part = slice(*np.searchsorted(self.keys, [end << BITS, (end + 1) << BITS]))
        return self.keys[part] & ((1 << BITS) - 1), self.counts[part]

    def times(self, keys: IntArray) -> IntArray:
        """(keys,) how often, for each end and entity."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0)


NO_ENDS = Ends(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class KnownEnds:
    """The same of an index: an end is counted when it is first asked for, which takes one look at every link.

    A question asks for one of them, and a graph of millions of triples would keep it waiting for all of them.
    """

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        self._at: dict[int, tuple[IntArray, IntArray]] = {}

    def at(self, end: int) -> tuple[IntArray, IntArray]:
        """The entities that stand at an end, ascending, and how often each does."""
        if end not in self._at:  # two threads may both count it, and count the same
            self._at[end] = having(self.index, end ^ 1)  # whoever stands there has the relation the other way round
        return self._at[end]

    def times(self, keys: IntArray) -> IntArray:
        """(keys,) how often, for each end and entity."""
        return self._all.times(keys)

    @cached_property
    def _all(self) -> Ends:
        links = known_links(self.index)
        return Ends(*np.unique(((links.link ^ 1) << BITS) + links.owner, return_counts=True))


@dataclass(frozen=True, eq=False)
class Habits(Source):
    """log(1 + how often an entity has stood at an end of a relation).

    known: the ends of known triples; given: those of given triples that were counted in at once
    change: what triples that came one by one add, by end and entity
    """

    name: ClassVar[str] = "habits"
    weight: ClassVar[float] = 0.69
    closed_form_weight: ClassVar[float] = 0.62
    features: ClassVar[tuple[str, ...]] = ("habits of the head", "habits of the tail")
    reads_graph: ClassVar[bool] = True

    graph: GrownGraph
    known: KnownEnds
    given: Ends = NO_ENDS
    change: Layers[int, Layers[int, int]] = field(default_factory=Layers)

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Habits:
        """From known triples: nothing yet."""
        del triples
        return cls(graph, KnownEnds(graph.index))

    def with_given(self, given: IntArray, after: GrownGraph) -> Habits:
        """With given triples counted in; a triple that is stated again counts again."""
        return replace(self, graph=after, given=self.given.with_more(Ends.of(given)))

    def plus(self, triple: Triple, after: GrownGraph) -> Habits:
        """With one more triple."""
        return self._with(triple, after, 1)

    def minus(self, triple: Triple, after: GrownGraph) -> Habits:
        """Without one triple."""
        return self._with(triple, after, -1)

    def _with(self, triple: Triple, after: GrownGraph, sign: int) -> Habits:
        head, relation, tail = triple
        ends: dict[int, Layers[int, int]] = {}
        gone = []
        for end, entity in ((2 * relation, tail), (2 * relation + 1, head)):
            left = summed(self.change.get(end) or Layers(), {entity: sign})
            if left:
                ends[end] = left
            else:
                gone.append(end)
        return replace(self, graph=after, change=self.change.changed(ends, gone))

    def seen_at(self, end: int) -> tuple[IntArray, IntArray]:
        """The entities that have stood at an end, ascending, and how often each has."""
        entities, counts = self.known.at(end)
        if len(self.given.keys):
            entities, counts = _added(entities, counts, *self.given.at(end))
        added = self.change.get(end)
        if added:
            ids, more = (np.array(list(column), dtype=np.int64) for column in (added, added.values()))
            order = np.argsort(ids)
            entities, counts = _added(entities, counts, ids[order], more[order])
            is_there = counts > 0
            if not is_there.all():
                entities, counts = entities[is_there], counts[is_there]
        return entities, counts

    def of_question(self, asked: Asked) -> Spoken:
        """log(1 + how often) for each entity that has stood where the answer stands."""
        entities, counts = self.seen_at(asked.code)
        return Spoken(entities, _log1p(counts))

    def of_answers(self, queries: Queries, num_answers: int, device: torch.device | str) -> Tensor:
        """(queries, answers) log(1 + how often each of the first entities has been an answer of the relation)."""
        # The entity that is given does not matter: one row for each end of a relation.
        ends, place = np.unique(2 * queries.relation + ~queries.asks_tail, return_inverse=True)
        rows = torch.zeros(len(ends), num_answers, device=device)
        for row, end in enumerate(ends.tolist()):
            said = self.of_question(Asked(-1, end // 2, end % 2 == 0))
            known = said.entities < num_answers
            values = torch.from_numpy(said.values[known]).float()
            rows[row, torch.from_numpy(said.entities[known]).to(device)] = values.to(device)
        return rows[torch.from_numpy(place.ravel()).to(device)]

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) log(1 + how often the head has been a head, and the tail a tail, of the claim's relation)."""
        head, relation, tail = claims.T
        is_known = (claims >= 0).all(axis=1)
        ends = ((2 * relation + 1, head), (2 * relation, tail))
        counts = [np.where(is_known, self._look_up(end, entity), 0) for end, entity in ends]
        return np.stack([np.log1p(count) for count in counts], axis=1)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """That of the end which is asked for."""
        return features[:, 1 if asks_tail else 0]

    def _look_up(self, end: IntArray, entity: IntArray) -> IntArray:
        """(claims,) how often each entity has stood at each end."""
        keys = (end << BITS) + entity
        counts = self.known.times(keys) + self.given.times(keys)
        if self.change:
            nothing: Layers[int, int] = Layers()
            pairs = zip(end.tolist(), entity.tolist(), strict=True)
            more = [self.change.get(one, nothing).get(other, 0) for one, other in pairs]
            counts = counts + np.array(more, dtype=np.int64)
        return counts


@dataclass(frozen=True, eq=False)
class FromGraph(Source):
    """What reads the graph when it is asked, and counts nothing ahead but who stands at the ends of relations.

    It knows of questions alone, so a claim is asked as a question about each of its ends.

    ends: how often an entity has stood at each end of a relation
    """

    judges: ClassVar[bool] = False
    reads_graph: ClassVar[bool] = True

    graph: GrownGraph
    ends: Habits

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Self:
        """Of known triples."""
        return cls(graph, Habits.count(triples, graph))

    def with_given(self, given: IntArray, after: GrownGraph) -> Self:
        """With given triples."""
        return replace(self, graph=after, ends=self.ends.with_given(given, after))

    def plus(self, triple: Triple, after: GrownGraph) -> Self:
        """With one more triple."""
        return replace(self, graph=after, ends=self.ends.plus(triple, after))

    def minus(self, triple: Triple, after: GrownGraph) -> Self:
        """Without one triple."""
        return replace(self, graph=after, ends=self.ends.minus(triple, after))

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) the evidence for the head, and for the tail, of each claim as an answer about the other one."""
        return self.of_both_ends(claims)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """That of the end which is asked for."""
        return features[:, 1 if asks_tail else 0]


def _added(entities: IntArray, counts: IntArray, more: IntArray, times: IntArray) -> tuple[IntArray, IntArray]:
    """Ascending entities and their counts with those of some more, ascending too."""
    place = np.searchsorted(entities, more)
    is_there = place < len(entities)
    is_there[is_there] = entities[place[is_there]] == more[is_there]
    counts = counts.copy()
    counts[place[is_there]] += times[is_there]
    if is_there.all():
        return entities, counts
    new = place[~is_there]
    return np.insert(entities, new, more[~is_there]), np.insert(counts, new, times[~is_there])


def _log1p(counts: IntArray) -> FloatArray:
    """log(1 + n) of each."""
    logs: FloatArray = LOGARITHMS[np.minimum(counts, len(LOGARITHMS) - 1)]
    if len(counts) and int(counts.max()) >= len(LOGARITHMS):
        large = counts >= len(LOGARITHMS)
        logs[large] = np.log1p(counts[large])
    return logs
