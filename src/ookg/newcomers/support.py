"""The known neighbours of new entities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ookg.kernels import randomness
from ookg.types import BoolArray, IntArray


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

    @cached_property
    def counts(self) -> IntArray:
        """(newcomers,) usable triples of each."""
        return np.bincount(self.newcomer, minlength=self.num_newcomers).astype(np.int64)

    @cached_property
    def offsets(self) -> IntArray:
        """(newcomers + 1,) where each one's rows start."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @property
    def links(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Known neighbour, relation and is_head, by row: what a kernel makes candidates of."""
        return self.neighbor, self.relation, self.is_head

    def rows_of(self, newcomers: IntArray) -> tuple[IntArray, IntArray]:
        """The rows of some newcomers one after the other, and for each row its place in `newcomers`."""
        if len(newcomers) == 1:
            first, last = self.offsets[newcomers[0] : newcomers[0] + 2]
            return np.arange(first, last), np.zeros(last - first, dtype=np.int64)
        counts = self.counts[newcomers]
        place = np.repeat(np.arange(len(newcomers)), counts)
        starts = np.cumsum(counts) - counts
        rows = np.arange(len(place)) - starts[place] + self.offsets[newcomers][place]
        return rows, place

    def capped(self, most: int | None, seed: int) -> Support:
        """At most `most` rows per newcomer, chosen at random by the seed."""
        if most is None or not len(self.newcomer) or int(self.counts.max()) <= most:
            return self
        return self.select(np.flatnonzero(self.ranks(seed) < most))

    def ranks(self, seed: int, first: IntArray | None = None) -> IntArray:
        """(rows,) each row's place among its newcomer's, counted from 0, in an order drawn by the seed.

        first: (rows,) smaller numbers come before larger ones; the draw decides among equals
        """
        import torch

        # By the given triple's position, so that a newcomer's choice does not depend on which others are there.
        bits = randomness.draws(randomness.stream(seed, 3), torch.from_numpy(self.triple)).numpy()
        order = np.lexsort((bits, self.newcomer) if first is None else (bits, first, self.newcomer))
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order)) - self.offsets[self.newcomer[order]]
        return ranks

    def merged(self, other: Support) -> Support:
        """The rows of both; within each newcomer those of this one come first."""
        if not len(other.newcomer):
            return self
        order = np.argsort(np.concatenate([self.newcomer, other.newcomer]), kind="stable")
        pairs = (
            (self.newcomer, other.newcomer),
            (self.relation, other.relation),
            (self.neighbor, other.neighbor),
        )
        newcomer, relation, neighbor = (np.concatenate(pair)[order] for pair in pairs)
        is_head = np.concatenate([self.is_head, other.is_head])[order]
        triple = np.concatenate([self.triple, other.triple])[order]
        return Support(newcomer, relation, neighbor, is_head, triple, self.num_newcomers)

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
    """Positions of given triples that make no vector, by reason.

    untrained_relation: over a relation without a vector
    between_newcomers: between new entities that nothing ties to the known graph
    self_loops: of a new entity with itself, which says nothing about where it is
    without_newcomer: between known entities
    """

    untrained_relation: IntArray
    between_newcomers: IntArray
    self_loops: IntArray
    without_newcomer: IntArray


def find_support(given: IntArray, num_entities: int, num_newcomers: int) -> tuple[Support, Unused]:
    """The support in given triples, (triples, 3): entities from `num_entities` on are new, relation -1 is untrained.

    Triples between newcomers are not used here: all of them are among `Unused`.
    """
    head_new, tail_new = given[:, 0] >= num_entities, given[:, 2] >= num_entities
    trained = given[:, 1] >= 0
    usable = (head_new != tail_new) & trained
    triple = np.flatnonzero(usable)
    is_head = head_new[triple]
    newcomer = np.where(is_head, given[triple, 0], given[triple, 2]) - num_entities
    order = np.argsort(newcomer, kind="stable")
    newcomer, triple, is_head = newcomer[order], triple[order].astype(np.int64), is_head[order]
    del order  # of a hundred million triples, each array takes a gigabyte
    neighbor = np.where(is_head, given[triple, 2], given[triple, 0])
    support = Support(newcomer, given[triple, 1], neighbor, is_head, triple, num_newcomers)
    both = np.flatnonzero(head_new & tail_new & trained)
    is_loop = given[both, 0] == given[both, 2]
    unused = Unused(
        untrained_relation=np.flatnonzero((head_new | tail_new) & ~trained),
        between_newcomers=both[~is_loop],
        self_loops=both[is_loop],
        without_newcomer=np.flatnonzero(~head_new & ~tail_new),
    )
    return support, unused
