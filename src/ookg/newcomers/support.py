"""The known neighbours of new entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ookg.statistics import IntArray
from ookg.training import randomness

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Support:
    """The usable triples of new entities: each ties one to a known entity over a relation with a trained vector.

    Rows are sorted by newcomer; newcomer n has the rows offsets[n] to offsets[n + 1].
    newcomer, relation, neighbor: (rows,) ids, newcomers counted from 0
    is_head: (rows,) whether the newcomer is the triple's head
    triple: (rows,) the row's position among the given triples
    """

    newcomer: IntArray
    relation: IntArray
    neighbor: IntArray
    is_head: BoolArray
    triple: IntArray
    num_newcomers: int

    @property
    def counts(self) -> IntArray:
        """(newcomers,) usable triples of each."""
        return np.bincount(self.newcomer, minlength=self.num_newcomers).astype(np.int64)

    @property
    def offsets(self) -> IntArray:
        """(newcomers + 1,) where each one's rows start."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    def rows_of(self, newcomers: IntArray) -> tuple[IntArray, IntArray]:
        """The rows of some newcomers one after the other, and for each row its place in `newcomers`."""
        counts = self.counts[newcomers]
        place = np.repeat(np.arange(len(newcomers)), counts)
        starts = np.cumsum(counts) - counts
        rows = np.arange(len(place)) - starts[place] + self.offsets[newcomers][place]
        return rows, place

    def capped(self, most: int | None, seed: int) -> Support:
        """At most so many rows a newcomer, chosen at random by the seed."""
        if most is None or not len(self.newcomer) or int(self.counts.max()) <= most:
            return self
        import torch

        # By the given triple's position, so that a newcomer's choice does not depend on which others are there.
        bits = randomness.draws(randomness.stream(seed, 3), torch.from_numpy(self.triple)).numpy()
        order = np.lexsort((bits, self.newcomer))
        rank = np.arange(len(order)) - self.offsets[self.newcomer[order]]
        return self.select(np.sort(order[rank < most]))

    def select(self, rows: IntArray) -> Support:
        """Some of the rows."""
        return Support(
            self.newcomer[rows],
            self.relation[rows],
            self.neighbor[rows],
            self.is_head[rows],
            self.triple[rows],
            self.num_newcomers,
        )


@dataclass(frozen=True)
class Unused:
    """Positions of given triples that make no vector, by reason."""

    untrained_relation: IntArray
    between_newcomers: IntArray
    without_newcomer: IntArray


def find_support(given: IntArray, num_entities: int, num_newcomers: int) -> tuple[Support, Unused]:
    """The support in given triples, (triples, 3): entities from `num_entities` on are new, relation -1 is untrained."""
    head_new, tail_new = given[:, 0] >= num_entities, given[:, 2] >= num_entities
    trained = given[:, 1] >= 0
    usable = (head_new != tail_new) & trained
    triple = np.flatnonzero(usable)
    is_head = head_new[triple]
    ends = given[triple]
    newcomer = np.where(is_head, ends[:, 0], ends[:, 2]) - num_entities
    neighbor = np.where(is_head, ends[:, 2], ends[:, 0])
    order = np.argsort(newcomer, kind="stable")
    support = Support(
        newcomer[order], ends[order, 1], neighbor[order], is_head[order], triple[order].astype(np.int64), num_newcomers
    )
    unused = Unused(
        untrained_relation=np.flatnonzero((head_new != tail_new) & ~trained),
        between_newcomers=np.flatnonzero(head_new & tail_new),
        without_newcomer=np.flatnonzero(~head_new & ~tail_new),
    )
    return support, unused
