"""The questions of link prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.types import BoolArray, IntArray


@dataclass(frozen=True)
class Queries:
    """(entity, relation, ?) or (?, relation, entity): which known entity stands at the open end?

    entity: the new end; answer: what the test triple has at the open end; asks_tail: the open end is the tail
    """

    entity: IntArray
    relation: IntArray
    answer: IntArray
    asks_tail: BoolArray

    def select(self, rows: BoolArray | IntArray | slice) -> Queries:
        """Some of the queries."""
        return Queries(self.entity[rows], self.relation[rows], self.answer[rows], self.asks_tail[rows])

    @property
    def triples(self) -> IntArray:
        """(queries, 3) each with its answer."""
        ends = np.stack([self.entity, self.answer], axis=1)
        head, tail = np.where(self.asks_tail[:, None], ends, ends[:, ::-1]).T
        return np.stack([head, self.relation, tail], axis=1)

    def __len__(self) -> int:
        return len(self.entity)


def both_ends(triples: IntArray) -> Queries:
    """For each triple the question for its tail, then that for its head."""
    head, relation, tail = triples.T
    ends = np.stack([head, tail], axis=1).ravel(), np.stack([tail, head], axis=1).ravel()
    return Queries(ends[0], np.repeat(relation, 2), ends[1], np.tile([True, False], len(triples)))


def test_queries(test: IntArray, num_known: int) -> Queries:
    """The queries of test triples: the end opposite a new entity is asked for.

    Where all test triples have a new head (or all a new tail), as in the published sets, only that side counts;
    otherwise a triple of two new entities is asked both ways.
    """
    head_new, tail_new = test[:, 0] >= num_known, test[:, 2] >= num_known
    if head_new.all():
        tail_new = np.zeros_like(tail_new)
    elif tail_new.all():
        head_new = np.zeros_like(head_new)
    by_head, by_tail = test[head_new], test[tail_new]
    return Queries(
        np.concatenate([by_head[:, 0], by_tail[:, 2]]),
        np.concatenate([by_head[:, 1], by_tail[:, 1]]),
        np.concatenate([by_head[:, 2], by_tail[:, 0]]),
        np.repeat([True, False], [len(by_head), len(by_tail)]),
    )
