"""False triples for a data set's labelled parts, made from true ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ookg.graph.triples import TripleIds, triple_keys
from ookg.types import BoolArray, IntArray

ATTEMPTS = 100
LIKELY_ATTEMPTS = 20  # of these, with an entity seen at that end of that relation


class Corruptor:
    """Makes false triples by replacing one end of true ones; never a true triple of the graph, never one twice."""

    def __init__(self, graph: TripleIds, num_entities: int, num_relations: int, random: np.random.Generator) -> None:
        self.num_entities, self.num_relations, self.random = num_entities, num_relations, random
        self.true_keys = np.sort(triple_keys(graph, num_entities, num_relations))

    def corrupt(
        self, positives: TripleIds, ends: Sequence[int], pool: IntArray, seen: TripleIds
    ) -> tuple[TripleIds, BoolArray]:
        """A false triple for each positive, and which positives got one.

        ends: the columns that may be replaced (0 head, 2 tail)
        pool: the entities that may take the place
        seen: where possible, the entity is one that these triples have at that end of that relation
        """
        negatives, has_negative = positives.copy(), np.zeros(len(positives), dtype=np.bool_)
        candidates = {end: self._pairs(seen, end, pool) for end in ends}
        taken = np.empty(0, np.int64)
        for attempt in range(ATTEMPTS if len(pool) else 0):
            rows = np.flatnonzero(~has_negative)
            if not len(rows):
                break
            trial, column = positives[rows], self.random.choice(np.asarray(ends), len(rows))
            for end in ends:
                here = column == end
                trial[here, end] = self.random.choice(pool, int(here.sum()))
                if attempt < LIKELY_ATTEMPTS:
                    trial[here, end] = self._draw_seen(candidates[end], trial[here, 1], trial[here, end])
            keys = triple_keys(trial, self.num_entities, self.num_relations)
            fresh = ~self._is_true(keys) & ~np.isin(keys, taken)
            fresh &= _first(keys)
            negatives[rows[fresh]], has_negative[rows[fresh]] = trial[fresh], True
            taken = np.concatenate([taken, keys[fresh]])
        return negatives, has_negative

    def _pairs(self, seen: TripleIds, end: int, pool: IntArray) -> IntArray:
        """The sorted distinct pairs (relation, entity) at one end, as relation · entities + entity."""
        allowed = np.zeros(self.num_entities, dtype=np.bool_)
        allowed[pool] = True
        chosen = seen[allowed[seen[:, end]]]
        pairs: IntArray = np.unique(chosen[:, 1] * self.num_entities + chosen[:, end])
        return pairs

    def _draw_seen(self, pairs: IntArray, relations: IntArray, otherwise: IntArray) -> IntArray:
        low = np.searchsorted(pairs, relations * self.num_entities)
        high = np.searchsorted(pairs, (relations + 1) * self.num_entities)
        chosen = low + (self.random.random(len(relations)) * (high - low)).astype(np.int64)
        drawn = otherwise.copy()
        drawn[high > low] = pairs[chosen[high > low]] % self.num_entities
        return drawn

    def _is_true(self, keys: IntArray) -> BoolArray:
        place = np.minimum(np.searchsorted(self.true_keys, keys), len(self.true_keys) - 1)
        true: BoolArray = self.true_keys[place] == keys
        return true


def _first(keys: IntArray) -> BoolArray:
    first = np.zeros(len(keys), dtype=np.bool_)
    first[np.unique(keys, return_index=True)[1]] = True
    return first
