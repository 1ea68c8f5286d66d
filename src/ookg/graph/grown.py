"""The known graph with given triples beside it, on ids: never changed, and made anew at the cost of what is new.

Triples are counted in and out one by one. Whoever holds one reads the same for ever, so a question that is under
way is not disturbed by what comes meanwhile; and what is taken out again leaves the numbers that were there before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ookg.graph.index import GraphIndex
from ookg.graph.layers import Layers
from ookg.graph.statistics import GraphStatistics, pairs_gained
from ookg.types import IntArray

Triple = tuple[int, int, int]
Side = tuple[int, int]  # a directed relation as in `link_code`, and the entity at the other end


def link_code(relation: int, *, is_head: bool) -> int:
    """A directed relation as a number that stays the same when relations are added."""
    return 2 * relation + (not is_head)


@dataclass(frozen=True, eq=False)
class GrownGraph:
    """Given triples beside the known graph.

    index: the known triples; statistics: what is counted on them and the given ones
    triples: the given triples and their numbers, in the order in which they came
    sides: the given triples by entity, known or new
    """

    index: GraphIndex
    statistics: GraphStatistics
    triples: Layers[Triple, int] = field(default_factory=Layers)
    sides: Layers[int, Layers[Side, int]] = field(default_factory=Layers)

    def plus(self, triple: Triple, number: int) -> GrownGraph:
        """With one more triple."""
        head, relation, tail = triple
        change: dict[int, int] = {}
        for end in {head, tail}:
            add_counts(change, pairs_gained(self.relations_of(end), relation))
        statistics = self.statistics
        if change:
            statistics = replace(statistics, change=summed(statistics.change, change))
        ends: dict[int, Layers[Side, int]] = {}
        for end, side in ((head, (link_code(relation, is_head=True), tail)), (tail, (2 * relation + 1, head))):
            ends[end] = (ends.get(end) or self.sides.get(end) or Layers()).changed({side: number})
        triples = self.triples.changed({triple: number})
        return replace(self, statistics=statistics, triples=triples, sides=self.sides.changed(ends))

    def minus(self, triple: Triple) -> GrownGraph:
        """Without one of the triples: `plus` of the same triple gives this one again."""
        head, relation, tail = triple
        gone: list[int] = []
        ends: dict[int, Layers[Side, int]] = {}
        for end, side in ((head, (link_code(relation, is_head=True), tail)), (tail, (2 * relation + 1, head))):
            ends[end] = (ends.get(end) or self.sides[end]).changed({}, [side])
        for end in [end for end, left in ends.items() if not left]:
            del ends[end]
            gone.append(end)
        left = replace(self, triples=self.triples.changed({}, [triple]), sides=self.sides.changed(ends, gone))
        change: dict[int, int] = {}
        for end in {head, tail}:
            gained = pairs_gained(left.relations_of(end), relation)
            add_counts(change, {key: -count for key, count in gained.items()})
        if not change:
            return left
        return replace(left, statistics=replace(left.statistics, change=summed(left.statistics.change, change)))

    def relations_of(self, entity: int) -> set[int]:
        """The relations of an entity's triples, known and given."""
        rows, size = self.index.rows(entity), max(1, self.index.num_relations)
        found = set((np.unique(self.index.links(rows)) % size).tolist()) if rows.stop > rows.start else set()
        return found | {code // 2 for code, _ in self.sides.get(entity, ())}

    def links_between(self, one: int, other: int) -> set[int]:
        """The directed relations from one entity to another, known and given."""
        rows, size = self.index.rows(one), self.index.num_relations
        known = self.index.links(rows)[self.index.others(rows) == other].tolist()
        found = {2 * link if link < size else 2 * (link - size) + 1 for link in known}
        return found | {code for code, end in self.sides.get(one, ()) if end == other}

    def links_of(self, entity: int) -> tuple[IntArray, IntArray]:
        """The directed relations of an entity and the entities at their other ends, known first, then given."""
        rows, size = self.index.rows(entity), self.index.num_relations
        link = self.index.links(rows).astype(np.int64)
        code = np.where(link < size, 2 * link, 2 * (link - size) + 1)
        given = np.array(list(self.sides.get(entity, ())), dtype=np.int64).reshape(-1, 2)
        other = self.index.others(rows).astype(np.int64)
        return np.concatenate([code, given[:, 0]]), np.concatenate([other, given[:, 1]])

    def answers(self, entity: int, relation: int, *, asks_tail: bool) -> IntArray:
        """The answers that known and given triples state."""
        size, wanted = self.index.num_relations, link_code(relation, is_head=asks_tail)
        link = relation if asks_tail else size + relation
        known = self.index.answers(entity, link).astype(np.int64) if relation < size else np.empty(0, dtype=np.int64)
        given = [other for code, other in self.sides.get(entity, ()) if code == wanted]
        return np.unique(np.concatenate([known, np.array(given, dtype=np.int64)])) if given else known

    def in_order(self) -> list[tuple[Triple, int]]:
        """The given triples and their numbers, first come first."""
        return sorted(self.triples.items(), key=lambda item: item[1])


def add_counts(total: dict[int, int], changes: dict[int, int]) -> None:
    """Add changes to counts, in place."""
    for key, count in changes.items():
        total[key] = total.get(key, 0) + count


def summed(counts: Layers[int, int], changes: dict[int, int]) -> Layers[int, int]:
    """The counts with some changed; what is 0 then is not kept, as if it had never been there."""
    sums: dict[int, Any] = {key: counts.get(key, 0) + change for key, change in changes.items()}
    zero = [key for key, count in sums.items() if count == 0]
    return counts.changed({key: count for key, count in sums.items() if count}, zero)
