"""The graph that a model was trained on, on ids."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ookg.graph.grown import row_keys
from ookg.graph.index import GraphIndex
from ookg.graph.statistics import DENSE_RELATIONS, GraphStatistics, loop_counts
from ookg.types import IntArray

COUNTED_AT_ONCE = 1 << 22  # triples up to which counting may take 100 bytes for each


class KnownGraph:
    """The training triples, their index and what is counted on them; the last two are made when they are needed."""

    def __init__(
        self, triples: IntArray, num_entities: int, num_relations: int, statistics: GraphStatistics | None = None
    ) -> None:
        """statistics: what is counted on these triples, where it is known."""
        self._triples = triples
        self.num_entities, self.num_relations = num_entities, num_relations
        self._counted = statistics

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def triples(self) -> IntArray:
        """(triples, 3) ids, in the order of the training, by which it can be repeated."""
        return self._triples

    @cached_property
    def index(self) -> GraphIndex:
        """The triples by entity."""
        return GraphIndex.of(self.triples, self.num_entities, self.num_relations)

    @cached_property
    def statistics(self) -> GraphStatistics:
        """Degrees of entities and co-occurrence of relations."""
        if self._counted is None and len(self) > COUNTED_AT_ONCE and self.num_relations <= DENSE_RELATIONS:
            return GraphStatistics.of(self.index)
        return self._counted or GraphStatistics.count(self.triples, self.num_entities, self.num_relations)

    @cached_property
    def loop_counts(self) -> IntArray:
        """(2, relations) how many triples join an entity to itself, and how many there are."""
        return loop_counts(self.triples, self.num_relations)

    def without(self, gone: IntArray) -> KnownGraph:
        """The same without some of its triples, (triples, 3), each of them once: as if they had never been there."""
        return _LessGraph(self, gone) if len(gone) else self


class _LessGraph(KnownGraph):
    """A graph less some triples, at the cost of copying what is asked for."""

    def __init__(self, whole: KnownGraph, gone: IntArray) -> None:
        self.num_entities, self.num_relations = whole.num_entities, whole.num_relations
        self._whole, self._gone = whole, gone

    def __len__(self) -> int:
        return len(self._whole) - len(self._gone)

    def __reduce__(self) -> Any:
        return KnownGraph, (self.triples, self.num_entities, self.num_relations, self.statistics)

    @cached_property
    def triples(self) -> IntArray:
        """(triples, 3) ids, in the order of the training."""
        whole = self._whole.triples
        keys = row_keys(np.concatenate([whole, self._gone]))
        return whole[~np.isin(keys[: len(whole)], keys[len(whole) :])]

    @cached_property
    def index(self) -> GraphIndex:
        """The triples by entity."""
        return self._whole.index.without(self._gone)

    @cached_property
    def statistics(self) -> GraphStatistics:
        """Degrees of entities and co-occurrence of relations."""
        return self._whole.statistics.without(self.index, self._gone)

    @cached_property
    def loop_counts(self) -> IntArray:
        """(2, relations) how many triples join an entity to itself, and how many there are."""
        return self._whole.loop_counts - loop_counts(self._gone, self.num_relations)
