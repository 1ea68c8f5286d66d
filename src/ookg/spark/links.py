"""What ties a newcomer to a known entity, as one number, so that a triple takes eight bytes on its way.

Numbers are in the order in which the triples are when sorted by head, relation and tail, as labels: first those with a
head before the newcomer, then those that it is the head of, then those with a head after it. So vectors have the bits
that `Model.embed` gives for the sorted triples, however a cluster cuts its work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError
from ookg.kernels.cpu_compile import compiled
from ookg.newcomers.support import Support
from ookg.spark.labels import LabelIndex
from ookg.types import Array, BoolArray, IntArray

COLUMNS = ("head", "relation", "tail")
PART_BITS = 62  # below these lie relation and neighbour, by their places among all labels
RELATION_BITS = 30
ENTITY_BITS = 32
FEW = 48  # links of a newcomer, which are sorted one by one


@dataclass(frozen=True, eq=False)
class SeenTriples:
    """Triples of labels as a model sees them.

    head, relation, tail: Arrow arrays of labels; the places of each among the model's, -1 where it does not know it
    """

    head: Any
    relation: Any
    tail: Any
    head_place: IntArray
    relation_place: IntArray
    tail_place: IntArray

    @classmethod
    def of(cls, batch: Any, entities: LabelIndex, relations: LabelIndex) -> SeenTriples:
        """The triples of an Arrow batch or table; gaps and empty labels are refused."""
        columns = [_column(batch, name) for name in COLUMNS]
        head, relation, tail = columns
        places = entities.places(head), relations.places(relation), entities.places(tail)
        for name, column, place in zip(COLUMNS, columns, places, strict=True):
            refuse_empty(name, column.filter(pa.array(place < 0)))
        return cls(head, relation, tail, *places)

    @property
    def head_is_new(self) -> BoolArray:
        """(triples,) whether each head is new."""
        return self.head_place < 0

    @property
    def tail_is_new(self) -> BoolArray:
        """(triples,) whether each tail is new."""
        return self.tail_place < 0

    @property
    def relation_is_new(self) -> BoolArray:
        """(triples,) whether each relation is new."""
        return self.relation_place < 0

    @property
    def is_link(self) -> BoolArray:
        """(triples,) whether each ties one newcomer to a known entity over a trained relation."""
        is_link: BoolArray = (self.head_is_new != self.tail_is_new) & ~self.relation_is_new
        return is_link

    @property
    def is_tie(self) -> BoolArray:
        """(triples,) whether each has something new and is no link."""
        is_tie: BoolArray = (self.head_is_new | self.tail_is_new | self.relation_is_new) & ~self.is_link
        return is_tie

    @property
    def newcomers(self) -> Any:
        """The new end of each triple, the head where both are new; a gap where none is."""
        tail = pc.if_else(pa.array(self.tail_is_new), self.tail, pa.scalar(None, self.tail.type))
        return pc.if_else(pa.array(self.head_is_new), self.head, tail)

    def links(self, rows: IntArray) -> IntArray:
        """The number of each of some triples, which are links."""
        is_head = self.head_is_new[rows]
        relation = self.relation_place[rows]
        places = pa.array(rows)
        comes_first = np.asarray(pc.less(self.head.take(places), self.tail.take(places)))
        part = np.where(is_head, 0, np.where(comes_first, -1, 1))
        below = np.where(
            is_head,
            (relation << ENTITY_BITS) | self.tail_place[rows],
            (self.head_place[rows] << RELATION_BITS) | relation,
        )
        numbers: IntArray = (part << PART_BITS) + below
        return numbers


def support_of(
    links: IntArray, owner: IntArray, num_newcomers: int, entities: LabelIndex, relations: LabelIndex
) -> Support:
    """Links as rows of newcomers, which ascend. owner: (links,) the newcomer of each, counted from 0"""
    is_head = (links >> PART_BITS) == 0
    below = links & ((1 << PART_BITS) - 1)
    neighbor = np.where(is_head, below & ((1 << ENTITY_BITS) - 1), below >> RELATION_BITS)
    relation = np.where(is_head, below >> ENTITY_BITS, below & ((1 << RELATION_BITS) - 1))
    return Support(
        owner,
        relations.order[relation].astype(np.int64),
        entities.order[neighbor].astype(np.int64),
        is_head,
        np.arange(len(links)),
        num_newcomers,
    )


def sorted_links(links: IntArray, owner: IntArray) -> tuple[IntArray, IntArray]:
    """Each owner's links once, ascending, and their owners, which ascend already."""
    if len(links) < 2 or _ascends(links, owner):
        return links, owner
    links = np.array(links)
    starts = np.append(0, np.flatnonzero(np.diff(owner)) + 1)
    sizes = np.diff(np.append(starts, len(links)))
    is_small = sizes <= FEW
    _sort_each(links, starts[is_small], sizes[is_small])
    for start, size in zip(starts[~is_small], sizes[~is_small], strict=True):
        links[start : start + size].sort()
    is_first = np.append(True, (owner[1:] > owner[:-1]) | (links[1:] > links[:-1]))
    return links[is_first], owner[is_first]


def _ascends(links: IntArray, owner: IntArray) -> bool:
    return bool(((owner[1:] > owner[:-1]) | (links[1:] > links[:-1])).all())


@compiled()
def _sort_each(links: Array, starts: Array, sizes: Array) -> None:
    """Sort stretches of few links, where they lie."""
    for stretch in range(len(starts)):
        start = starts[stretch]
        for row in range(start + 1, start + sizes[stretch]):
            link, place = links[row], row
            while place > start and links[place - 1] > link:
                links[place] = links[place - 1]
                place -= 1
            links[place] = link


def refuse_empty(name: str, labels: Any) -> None:
    """Refuse labels of nothing but space; those of a model are none."""
    if len(labels) and pc.any(pc.equal(pc.utf8_trim_whitespace(labels), "")).as_py():
        raise InputError(f"column {name!r} has an empty label; leave such rows out")


def _column(batch: Any, name: str) -> Any:
    column = batch.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count:
        raise InputError(f"column {name!r} has a gap (null); leave such rows out")
    return column
