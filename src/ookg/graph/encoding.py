"""Ids for the labels of millions of triples that come batch by batch. Importing it imports Numba.

What it takes while it reads: 12 bytes per triple, and per entity the bytes of its label and 16 to 28 more. In the end,
when the triples are ids of 64 bits: 24 bytes per triple and up to 13 to see which are repeated; per entity its label
and 4 to 8 bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ookg.graph.hashing import LabelTable, are_first
from ookg.graph.ids import TripleIds
from ookg.types import Array, BoolArray, Numbers

BLOCK = 1 << 23  # triples that are kept together: large enough that the system gets their memory back at once


@dataclass(frozen=True, eq=False)
class EncodedTriples:
    """Triples as ids, and the labels of their entities and relations as Arrow arrays; truth as in `Triples`."""

    ids: TripleIds
    entities: Any
    relations: Any
    truth: BoolArray | None
    duplicates: int


class TripleEncoder:
    """Takes triples and gives ids: first to the heads, in the order in which they occur, then to the other tails."""

    def __init__(self) -> None:
        self._entities, self._relations = LabelTable(), LabelTable()
        self._is_head = np.zeros(0, np.bool_)
        self._heads: list[Numbers] = []  # the ids of heads, in the order in which they first are one
        self._triples = _Blocks(3, np.dtype(np.int32))
        self._truth = _Blocks(1, np.dtype(np.bool_))

    def __len__(self) -> int:
        return self._triples.size

    @property
    def num_entities(self) -> int:
        """How many entities there are so far."""
        return len(self._entities)

    def add(self, columns: list[Any], truth: BoolArray | None) -> None:
        """Take a batch: heads, relations and tails as dictionary arrays, and whether each is claimed true."""
        head, relation, tail = columns
        places = self._entities.ids(head.dictionary)
        if len(self._entities) > len(self._is_head):
            self._is_head.resize(max(len(self._entities), len(self._is_head) * 5 // 4), refcheck=False)
        fresh = places[~self._is_head[places]]
        self._is_head[fresh] = True
        self._heads.append(fresh)
        coded = [(places, head), (self._relations.ids(relation.dictionary), relation)]
        coded.append((self._entities.ids(tail.dictionary), tail))
        self._triples.append(np.stack([ids[np.asarray(column.indices)] for ids, column in coded], axis=1))
        if truth is not None:
            self._truth.append(truth[:, None])

    def finish(self, *, keep_duplicates: bool) -> EncodedTriples:
        """All of them; the encoder is empty then."""
        number = len(self._entities)
        is_tail_alone = np.ones(number, np.bool_)
        is_tail_alone[: len(self._is_head)] = ~self._is_head[:number]
        order = np.concatenate([*self._heads, np.flatnonzero(is_tail_alone).astype(np.int32)])
        self._heads, self._is_head = [], self._is_head[:0]
        entities, relations = self._entities.labels(order), self._relations.labels()
        place = np.empty(number, np.int32)
        place[order] = np.arange(number, dtype=np.int32)
        del order
        ids = np.empty((len(self), 3), np.int64)
        done = 0
        for block in self._triples.taken():
            rows = ids[done : done + len(block)]
            rows[:, 0], rows[:, 1], rows[:, 2] = place[block[:, 0]], block[:, 1], place[block[:, 2]]
            done += len(block)
        truth = np.concatenate([block[:, 0] for block in self._truth.taken()]) if self._truth.size else None
        kept = len(ids) if keep_duplicates else _without_repeats(ids, truth)
        return EncodedTriples(ids[:kept], entities, relations, None if truth is None else truth[:kept], len(ids) - kept)


def _without_repeats(ids: TripleIds, truth: BoolArray | None) -> int:
    """Move the first of equal triples to the front, in order and in place; how many there are."""
    first = are_first(ids, truth)
    if first.all():
        return len(ids)
    kept = 0
    for start in range(0, len(ids), BLOCK):
        chosen = first[start : start + BLOCK]
        end = kept + int(chosen.sum())
        ids[kept:end] = ids[start : start + BLOCK][chosen]
        if truth is not None:
            truth[kept:end] = truth[start : start + BLOCK][chosen]
        kept = end
    return kept


class _Blocks:
    """Rows that come in pieces, kept in blocks of one size."""

    def __init__(self, width: int, kind: np.dtype[Any]) -> None:
        self._width, self._kind, self.size = width, kind, 0
        self._blocks: deque[Array] = deque()

    def append(self, rows: Array) -> None:
        """Keep some more."""
        while len(rows):
            place = self.size % BLOCK
            if place == 0:
                self._blocks.append(np.empty((BLOCK, self._width), self._kind))
            part = rows[: BLOCK - place]
            self._blocks[-1][place : place + len(part)] = part
            self.size += len(part)
            rows = rows[len(part) :]

    def taken(self) -> Any:
        """One block after the other, each given up when the next one is asked for."""
        left, self.size = self.size, 0
        while left:
            block = self._blocks.popleft()[:left]
            left -= len(block)
            yield block
            del block
