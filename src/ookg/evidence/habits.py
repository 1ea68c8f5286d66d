"""Habits of relations: which entities have stood at which end of a relation, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ookg.evidence.source import Asked, Source, Spoken
from ookg.graph.grown import GrownGraph, Triple, summed
from ookg.graph.layers import Layers
from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

BITS = 32  # of a key, for the entity
LOGARITHMS = np.log1p(np.arange(1 << 12))  # a question needs thousands of them, mostly of small numbers


@dataclass(frozen=True, eq=False)
class Habits(Source):
    """Counts of (relation and end, entity): relation r's tails have the end 2·r, its heads 2·r + 1.

    keys: end · 2³² + entity, sorted; counts: how many triples, counted in bulk
    change: what triples that came one by one add, by end and entity
    """

    name: ClassVar[str] = "habits"
    weight: ClassVar[float] = 0.69
    closed_form_weight: ClassVar[float] = 0.62
    features: ClassVar[tuple[str, ...]] = ("habits of the head", "habits of the tail")

    graph: GrownGraph
    keys: IntArray
    counts: IntArray
    change: Layers[int, Layers[int, int]] = field(default_factory=Layers)

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Habits:
        """From known triples."""
        head, relation, tail = triples.T
        keys = np.concatenate([((2 * relation) << BITS) + tail, ((2 * relation + 1) << BITS) + head])
        distinct, counts = np.unique(keys, return_counts=True)
        return cls(graph, distinct, counts)

    def with_given(self, given: IntArray, after: GrownGraph) -> Habits:
        """With given triples counted in; a triple that is stated again counts again."""
        others = Habits.count(given, after)
        keys, place = np.unique(np.concatenate([self.keys, others.keys]), return_inverse=True)
        counts = np.bincount(place.ravel(), np.concatenate([self.counts, others.counts]), minlength=len(keys))
        return replace(self, graph=after, keys=keys, counts=counts.astype(np.int64))

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

    def _in_bulk(self, end: int) -> slice:
        """Where the keys of an end are."""
        return slice(*np.searchsorted(self.keys, [end << BITS, (end + 1) << BITS]))

    def seen_at(self, end: int) -> tuple[IntArray, IntArray]:
        """The entities that have stood at an end, ascending, and how often each has."""
        part = self._in_bulk(end)
        entities, counts = self.keys[part] & ((1 << BITS) - 1), self.counts[part]
        added = self.change.get(end)
        if added:
            ids, more = (np.array(list(column), dtype=np.int64) for column in (added, added.values()))
            entities, place = np.unique(np.concatenate([entities, ids]), return_inverse=True)
            counts = np.bincount(place.ravel(), np.concatenate([counts, more])).astype(np.int64)
        is_there = counts > 0
        return (entities, counts) if is_there.all() else (entities[is_there], counts[is_there])

    def of_question(self, asked: Asked) -> Spoken:
        """log(1 + how often) for each entity that has stood where the answer stands."""
        end = asked.code
        part = self._in_bulk(end)
        entities, values = self.keys[part] & ((1 << BITS) - 1), _log1p(self.counts[part])
        added = self.change.get(end)
        if not added:
            return Spoken(entities, values)
        ids, more = (np.array(list(column), dtype=np.int64) for column in (added, added.values()))
        place = np.searchsorted(entities, ids)
        is_there = np.zeros(len(ids), dtype=np.bool_)
        inside = place < len(entities)
        is_there[inside] = entities[place[inside]] == ids[inside]
        values[place[is_there]] = np.log1p(self.counts[part][place[is_there]] + more[is_there])
        new = np.log1p(more[~is_there])
        return Spoken(np.concatenate([entities, ids[~is_there]]), np.concatenate([values, new]))

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
        counts = np.zeros(len(keys), dtype=np.int64)
        if len(self.keys):
            place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            counts = np.where(self.keys[place] == keys, self.counts[place], 0)
        if self.change:
            nothing: Layers[int, int] = Layers()
            pairs = zip(end.tolist(), entity.tolist(), strict=True)
            more = [self.change.get(one, nothing).get(other, 0) for one, other in pairs]
            counts = counts + np.array(more, dtype=np.int64)
        return counts


def _log1p(counts: IntArray) -> FloatArray:
    """log(1 + n) of each."""
    logs: FloatArray = LOGARITHMS[np.minimum(counts, len(LOGARITHMS) - 1)]
    if len(counts) and int(counts.max()) >= len(LOGARITHMS):
        large = counts >= len(LOGARITHMS)
        logs[large] = np.log1p(counts[large])
    return logs
