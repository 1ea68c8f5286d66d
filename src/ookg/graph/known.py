"""The graph that a model was trained on, on ids."""

from __future__ import annotations

from functools import cached_property

from ookg.graph.index import GraphIndex
from ookg.graph.statistics import GraphStatistics
from ookg.types import IntArray


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
        return self._counted or GraphStatistics.count(self.triples, self.num_entities, self.num_relations)
