"""The known graph, indexed once: what one entity is linked to, and which answers a question already has."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ookg.errors import damaged_file
from ookg.types import BoolArray, IntArray, Numbers

SORTED_AT_ONCE = 1 << 22  # triples up to which sorting may take 100 bytes for each


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Triples by entity: entity n has the rows offsets[n] to offsets[n + 1], sorted by link, then by the other end.

    A link is a directed relation: r where the entity is the head of a triple over r, num_relations + r where it is the
    tail. A triple has two rows, one at either end.

    offsets: (entities + 1,); link: (2·triples,); other: (2·triples,) the entity at the other end
    source: the file that it is mapped from, if nobody has read all of that: then what is read is checked
    """

    offsets: IntArray
    link: Numbers
    other: Numbers
    num_relations: int
    source: str | None = None

    @classmethod
    def of(cls, triples: IntArray, num_entities: int, num_relations: int) -> GraphIndex:
        """The index of distinct triples, (triples, 3)."""
        if len(triples) > SORTED_AT_ONCE and max(num_entities, 2 * num_relations) < 1 << 31:
            from ookg.graph.large import rows_by_entity  # takes a while to import

            offsets, (links, others) = rows_by_entity(triples, num_entities, num_relations)
            return cls(offsets, links, others, num_relations)
        head, relation, tail = triples.T
        size = np.int32 if max(num_entities, 2 * num_relations) < 1 << 31 else np.int64
        owner = np.concatenate([head, tail])
        link = np.concatenate([relation, relation + num_relations])
        other = np.concatenate([tail, head])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=num_entities))]).astype(np.int64)
        if num_entities**2 * 2 * num_relations < 1 << 63:  # one number per row sorts faster than three
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
        """The rows of an entity; none for one that it does not know."""
        if not 0 <= entity < self.num_entities:
            return slice(0, 0)
        rows = slice(int(self.offsets[entity]), int(self.offsets[entity + 1]))
        if self.source is not None and not 0 <= rows.start <= rows.stop <= len(self.link):
            raise damaged_file(self.source, f"rows {rows.start} to {rows.stop} of {len(self.link)}")
        return rows

    def rows_of(self, entities: IntArray, most: int | None = None) -> tuple[IntArray, IntArray]:
        """The rows of some entities one after the other, and for each row its place in `entities`.

        most: of more rows of an entity, so many at even distances
        """
        known = (entities >= 0) & (entities < self.num_entities)
        start = self.offsets[np.where(known, entities, 0)]
        stop = self.offsets[np.where(known, entities, 0) + 1]
        if self.source is not None and ((start < 0) | (start > stop) | (stop > len(self.link)))[known].any():
            raise damaged_file(self.source, f"rows outside the {len(self.link)} there are")
        sizes = np.where(known, stop - start, 0)
        counts = sizes if most is None else np.minimum(sizes, most)
        place = np.repeat(np.arange(len(entities)), counts)
        number = np.arange(len(place)) - (np.cumsum(counts) - counts)[place]
        if most is not None:
            number = number * sizes[place] // counts[place]
        return number + start[place], place

    def owners(self, rows: IntArray) -> IntArray:
        """The entities that some rows belong to."""
        owners: IntArray = np.searchsorted(self.offsets, rows, side="right") - 1
        return self._checked("entities", owners, self.num_entities)

    def links(self, rows: slice | IntArray) -> Numbers:
        """The links of some rows."""
        return self._checked("links", self.link[rows], 2 * self.num_relations)

    def others(self, rows: slice | IntArray) -> Numbers:
        """The entities at the other ends of some rows."""
        return self._checked("entities", self.other[rows], self.num_entities)

    def answers(self, entity: int, link: int) -> Numbers:
        """The entities that an entity is linked to by a directed relation, ascending."""
        rows = self.rows(entity)
        if rows.start == rows.stop:
            return self.other[:0]
        first, last = self.link[rows].searchsorted([link, link + 1])
        return self.others(slice(rows.start + int(first), rows.start + int(last)))

    def has(self, triples: IntArray) -> BoolArray:
        """(triples,) whether each of them, (triples, 3), is there; ids that it does not know are in none."""
        found = np.zeros(len(triples), dtype=np.bool_)
        inside = (triples >= 0).all(axis=1) & (triples[:, 1] < self.num_relations)
        questions, place = np.unique(triples[inside, :2], axis=0, return_inverse=True)
        order = np.argsort(place.ravel(), kind="stable")
        rows = np.split(np.flatnonzero(inside)[order], np.cumsum(np.bincount(place.ravel()))[:-1])
        for (head, relation), mine in zip(questions.tolist(), rows, strict=False):
            found[mine] = np.isin(triples[mine, 2], self.answers(head, relation))
        return found

    def without(self, triples: IntArray) -> GraphIndex:
        """The index without some of its triples, (triples, 3), each of them once."""
        if not len(triples):
            return self
        size = self.num_relations
        head, relation, tail = triples.T
        ends = np.concatenate([head, tail]), np.concatenate([relation, relation + size]), np.concatenate([tail, head])
        gone = np.empty(2 * len(triples), dtype=np.int64)
        for number, (owner, link, other) in enumerate(zip(*(end.tolist() for end in ends), strict=True)):
            rows = self.rows(owner)
            first, last = self.link[rows].searchsorted([link, link + 1])
            first, last = rows.start + int(first), rows.start + int(last)
            gone[number] = first + int(self.others(slice(first, last)).searchsorted(other))
        counts = np.diff(self.offsets) - np.bincount(ends[0], minlength=self.num_entities)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        link, other = np.delete(self.link, gone), np.delete(self.other, gone)
        return replace(self, offsets=offsets, link=link, other=other)

    def check(self) -> None:
        """Read all of it; a ValueError says what is impossible."""
        if (np.diff(self.offsets) < 0).any():
            raise ValueError("the rows of the index are not in order")
        for name, numbers, below in (
            ("links", self.link, 2 * self.num_relations),
            ("entities", self.other, self.num_entities),
        ):
            if _is_outside(numbers, below):
                raise ValueError(
                    f"{name} from {numbers.min()} to {numbers.max()}, expected 0 or more and below {below}"
                )

    def _checked(self, name: str, numbers: Numbers, below: int) -> Numbers:
        if self.source is not None and _is_outside(numbers, below):
            raise damaged_file(self.source, f"{name} from {numbers.min()} to {numbers.max()} of {below}")
        return numbers


def _is_outside(numbers: Numbers, below: int) -> bool:
    return len(numbers) > 0 and not 0 <= int(numbers.min()) <= int(numbers.max()) < below
