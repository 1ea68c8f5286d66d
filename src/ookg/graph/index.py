"""The known graph, indexed once: what one entity is linked to, and which answers a question already has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.types import IntArray, Numbers


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Triples by entity: entity n has the rows offsets[n] to offsets[n + 1], sorted by link, then by the other end.

    A link is a directed relation: r where the entity is the head of a triple over r, num_relations + r where it is the
    tail. A triple has two rows, one at either end.

    offsets: (entities + 1,); link: (2·triples,); other: (2·triples,) the entity at the other end
    """

    offsets: IntArray
    link: Numbers
    other: Numbers
    num_relations: int

    @classmethod
    def of(cls, triples: IntArray, num_entities: int, num_relations: int) -> GraphIndex:
        """The index of distinct triples, (triples, 3)."""
        head, relation, tail = triples.T
        size = np.int32 if max(num_entities, 2 * num_relations) < 1 << 31 else np.int64
        owner = np.concatenate([head, tail])
        link = np.concatenate([relation, relation + num_relations])
        other = np.concatenate([tail, head])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=num_entities))]).astype(np.int64)
        if num_entities**2 * 2 * num_relations < 1 << 63:  # one number a row sorts faster than three
            keys = np.sort((owner * (2 * num_relations) + link) * num_entities + other)
            keys, other = np.divmod(keys, max(1, num_entities))
            return cls(offsets, (keys % max(1, 2 * num_relations)).astype(size), other.astype(size), num_relations)
        order = np.lexsort((other, link, owner))
        return cls(offsets, link[order].astype(size), other[order].astype(size), num_relations)

    @property
    def num_entities(self) -> int:
        """How many entities it knows."""
        return len(self.offsets) - 1

    def rows(self, entity: int) -> slice:
        """The rows of an entity; none of one that it does not know."""
        if not 0 <= entity < self.num_entities:
            return slice(0, 0)
        return slice(int(self.offsets[entity]), int(self.offsets[entity + 1]))

    def rows_of(self, entities: IntArray) -> tuple[IntArray, IntArray]:
        """The rows of some entities one after the other, and for each row its place in `entities`."""
        known = (entities >= 0) & (entities < self.num_entities)
        start = self.offsets[np.where(known, entities, 0)]
        counts = np.where(known, self.offsets[np.where(known, entities, 0) + 1] - start, 0)
        place = np.repeat(np.arange(len(entities)), counts)
        rows = np.arange(len(place)) - (np.cumsum(counts) - counts)[place] + start[place]
        return rows, place

    def answers(self, entity: int, link: int) -> Numbers:
        """The entities that an entity is linked to by a directed relation, ascending."""
        rows = self.rows(entity)
        if rows.start == rows.stop:
            return self.other[:0]
        first, last = self.link[rows].searchsorted([link, link + 1])
        return self.other[rows.start + first : rows.start + last]
