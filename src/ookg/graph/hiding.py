"""What it means to make known entities of a graph new: the one rule by which data sets and simulations hide them.

A triple stays if neither end is hidden; what stays says which entities and relations are known. A triple of a hidden
and a known entity ties the hidden one to the graph: it can be given, or asked. All others are gone, and with them an
entity that only hidden ones were tied to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ookg.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Hiding:
    """Triples, sorted by which entities are hidden.

    triples: (triples, 3); hidden: (entities,)
    stays: (triples,) whether neither end is hidden; known: (entities,) and trained: (relations,) those in such triples
    """

    triples: IntArray
    hidden: BoolArray
    stays: BoolArray
    known: BoolArray
    trained: BoolArray

    @classmethod
    def of(cls, triples: IntArray, hidden: BoolArray, num_relations: int) -> Hiding:
        """Sort triples, (triples, 3); hidden: (entities,)."""
        stays = ~hidden[triples[:, 0]] & ~hidden[triples[:, 2]]
        left = triples[stays]
        return cls(triples, hidden, stays, mask(left[:, [0, 2]], len(hidden)), mask(left[:, 1], num_relations))

    @cached_property
    def ties(self) -> BoolArray:
        """(triples,) whether one end is hidden and the other known."""
        head, _, tail = self.triples.T
        ties: BoolArray = (self.hidden[head] & self.known[tail]) | (self.known[head] & self.hidden[tail])
        return ties

    @cached_property
    def entities(self) -> IntArray:
        """The entities that are left, in their new order: known ones first, then the hidden."""
        return np.concatenate([np.flatnonzero(self.known), np.flatnonzero(self.hidden)])

    @cached_property
    def num_known(self) -> int:
        """How many entities are known."""
        return int(self.known.sum())

    @cached_property
    def _position(self) -> IntArray:
        position = np.full(len(self.hidden), -1)
        position[self.entities] = np.arange(len(self.entities))
        return position

    def renumbered(self, triples: IntArray) -> IntArray:
        """Triples, (triples, 3), by the new numbers of their ends; -1 for an entity that is gone."""
        return np.stack([self._position[triples[:, 0]], triples[:, 1], self._position[triples[:, 2]]], axis=1)


def mask(ids: IntArray, size: int) -> BoolArray:
    """(size,) which of the first `size` ids occur."""
    there = np.zeros(size, dtype=np.bool_)
    there[ids] = True
    return there
