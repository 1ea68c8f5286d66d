"""The known graph with given triples beside it, on ids: never changed, and made anew at the cost of what is new.

Many triples that come or go at once are counted together, as arrays (`Batch`); what comes and goes after that is
counted in and out one by one, on top of them. Both ways give the same numbers. Whoever holds a graph reads the same
for ever, so a question that is under way is not disturbed by what comes meanwhile; and what is taken out again leaves
the numbers that were there before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ookg.graph.index import GraphIndex
from ookg.graph.layers import Layers
from ookg.graph.statistics import GraphStatistics, pairs_gained
from ookg.types import BoolArray, IntArray

Triple = tuple[int, int, int]
Side = tuple[int, int]  # a directed relation as in `link_code`, and the entity at the other end
# So many triples at once are counted as arrays, unless there are many more already that would be counted again.
MANY = 64
GONE = -1  # in place of the number of a batch's triple that was taken out later


def link_code(relation: int, *, is_head: bool) -> int:
    """A directed relation as a number that stays the same when relations are added."""
    return 2 * relation + (not is_head)


@dataclass(frozen=True, eq=False)
class Batch:
    """Given triples as arrays: (triples, 3) ids, distinct, and their numbers, (triples,) ascending."""

    triples: IntArray = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    numbers: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def _by_end(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        """For heads and for tails: the places of the triples, sorted by that end, and the sorted ends."""
        heads, tails = (np.argsort(self.triples[:, end], kind="stable") for end in (0, 2))
        return (heads, self.triples[heads, 0]), (tails, self.triples[tails, 2])

    def _places(self, entity: int, side: int) -> IntArray:
        order, ends = self._by_end[side]
        first, last = ends.searchsorted([entity, entity + 1])
        return order[first:last]

    def number(self, triple: Triple) -> int | None:
        """The number of a triple, if it is there."""
        if not len(self):
            return None
        head, relation, tail = triple
        places = self._places(head, 0)
        rows = self.triples[places]
        fits = places[(rows[:, 1] == relation) & (rows[:, 2] == tail)]
        return int(self.numbers[fits[0]]) if len(fits) else None

    def sides(self, entity: int) -> IntArray:
        """(sides, 2) what an entity's triples say of it, as `Side` has it."""
        out, back = self.triples[self._places(entity, 0)], self.triples[self._places(entity, 1)]
        codes = np.concatenate([2 * out[:, 1], 2 * back[:, 1] + 1])
        return np.stack([codes, np.concatenate([out[:, 2], back[:, 0]])], axis=1)

    def sides_of(self, entities: IntArray) -> tuple[IntArray, IntArray]:
        """The same for many: the place of each side's entity among them, and (sides, 2)."""
        owners, sides = [], []
        for (order, ends), is_tail in zip(self._by_end, (0, 1), strict=True):
            first = ends.searchsorted(entities)
            counts = ends.searchsorted(entities, "right") - first
            owner = np.repeat(np.arange(len(entities)), counts)
            rows = self.triples[order[np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner] + first[owner]]]
            owners.append(owner)
            sides.append(np.stack([2 * rows[:, 1] + is_tail, rows[:, 0 if is_tail else 2]], axis=1))
        return np.concatenate(owners), np.concatenate(sides)


@dataclass(frozen=True, eq=False)
class GrownGraph:
    """Given triples beside the known graph.

    index: the known triples; statistics: what is counted on them and the given ones
    batch: given triples that came together
    changes: what came or went since: triples and their numbers, `GONE` for one of the batch that was taken out
    sides: the same by entity, known or new
    counts_pairs: whether relations that occur together are counted; only correlation weights ask for that
    """

    index: GraphIndex
    statistics: GraphStatistics
    batch: Batch = field(default_factory=Batch)
    changes: Layers[Triple, int] = field(default_factory=Layers)
    sides: Layers[int, Layers[Side, int]] = field(default_factory=Layers)
    counts_pairs: bool = True

    def counts_anew(self, changed: int) -> bool:
        """Whether so many triples that come or go are counted together with all that is there."""
        return changed >= MANY and changed * MANY >= len(self.batch) + len(self.changes)

    def with_batch(self, known: GraphStatistics, batch: Batch) -> GrownGraph:
        """The known graph with these given triples alone; known: the statistics of the known triples."""
        statistics = known.grown_by(self.index, batch.triples) if self.counts_pairs else known
        return replace(self, statistics=statistics, batch=batch, changes=Layers(), sides=Layers())

    def plus(self, triple: Triple, number: int) -> GrownGraph:
        """With one more triple."""
        statistics = self._counted(triple, 1)
        changes, sides = self.changes.changed({triple: number}), self._sides_with(triple, number)
        return replace(self, statistics=statistics, changes=changes, sides=sides)

    def minus(self, triple: Triple) -> GrownGraph:
        """Without one of the triples: `plus` of the same triple gives this one again."""
        if self.batch.number(triple) is not None:
            left = replace(self, changes=self.changes.changed({triple: GONE}), sides=self._sides_with(triple, GONE))
        else:
            changes = self.changes.changed({}, [triple])
            left = replace(self, changes=changes, sides=self._sides_with(triple, None))
        return replace(left, statistics=left._counted(triple, -1))

    def _counted(self, triple: Triple, sign: int) -> GraphStatistics:
        """The statistics with a triple that is not there counted in, or out."""
        if not self.counts_pairs:
            return self.statistics
        head, relation, tail = triple
        change: dict[int, int] = {}
        for end in {head, tail}:
            add_counts(change, pairs_gained(self.relations_of(end), relation), sign)
        if not change:
            return self.statistics
        return replace(self.statistics, change=summed(self.statistics.change, change))

    def _sides_with(self, triple: Triple, number: int | None) -> Layers[int, Layers[Side, int]]:
        """The sides with a number for both ends of a triple; without them if it is None."""
        head, relation, tail = triple
        ends: dict[int, Layers[Side, int]] = {}
        for end, side in ((head, (2 * relation, tail)), (tail, (2 * relation + 1, head))):
            there = ends[end] if end in ends else self.sides.get(end) or Layers()
            ends[end] = there.changed({}, [side]) if number is None else there.changed({side: number})
        empty = [end for end, left in ends.items() if not left]
        return self.sides.changed({end: left for end, left in ends.items() if left}, empty)

    def __len__(self) -> int:
        return len(self.batch) if not self.changes else len(self.all_given)

    def number(self, triple: Triple) -> int | None:
        """The number of a given triple; None if it is not given."""
        number: int | None = self.changes.get(triple)
        if number is None:
            return self.batch.number(triple)
        return None if number == GONE else number

    def has(self, triples: IntArray) -> BoolArray:
        """(triples,) whether each is given."""
        if not self.changes and not len(self.batch):
            return np.zeros(len(triples), dtype=np.bool_)
        if len(triples) < MANY:
            return np.array([self.number((h, r, t)) is not None for h, r, t in triples.tolist()], dtype=np.bool_)
        keys = row_keys(np.concatenate([triples, self.all_given.triples]))
        found: BoolArray = np.isin(keys[: len(triples)], keys[len(triples) :])
        return found

    @cached_property
    def all_given(self) -> Batch:
        """The given triples, first come first."""
        if not self.changes:
            return self.batch
        batch, later = self.batch, [(number, triple) for triple, number in self.changes.items() if number != GONE]
        kept = np.ones(len(batch), dtype=np.bool_)
        for triple in self.changes if len(batch) else ():
            number = batch.number(triple)
            if number is not None:
                kept[batch.numbers.searchsorted(number)] = False
        later.sort()
        numbers = np.array([number for number, _ in later], dtype=np.int64)
        triples = np.array([triple for _, triple in later], dtype=np.int64).reshape(-1, 3)
        if not len(batch):
            return Batch(triples, numbers)
        # What comes one by one comes after the batch.
        return Batch(np.concatenate([batch.triples[kept], triples]), np.concatenate([batch.numbers[kept], numbers]))

    def given_sides(self, entity: int) -> IntArray:
        """(sides, 2) the given triples of an entity as `Side` has them, ascending."""
        later: Layers[Side, int] | None = self.sides.get(entity)
        if not len(self.batch):
            return np.array(sorted(later or ()), dtype=np.int64).reshape(-1, 2)
        found = self.batch.sides(entity)
        if later:
            there = {(code, other) for code, other in found.tolist()} - set(later)
            there |= {side for side, number in later.items() if number != GONE}
            return np.array(sorted(there), dtype=np.int64).reshape(-1, 2)
        return found[np.lexsort((found[:, 1], found[:, 0]))]

    def given_sides_of(self, entities: IntArray) -> tuple[IntArray, IntArray]:
        """The same for many entities: the place of each side's entity among them, ascending, and (sides, 2)."""
        if not len(self.batch) and not self.sides:
            return np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64)
        if len(self.sides) < len(entities):
            changed = np.flatnonzero(np.isin(entities, np.array(list(self.sides), dtype=np.int64))).tolist()
        else:
            changed = [place for place, entity in enumerate(entities.tolist()) if entity in self.sides]
        parts = [self.given_sides(entity) for entity in entities[changed].tolist()]
        owners = [np.repeat(changed, [len(part) for part in parts]).astype(np.int64)]
        if len(self.batch):
            others = np.delete(np.arange(len(entities)), changed)
            place, sides = self.batch.sides_of(entities[others])
            owners, parts = [others[place], *owners], [sides, *parts]
        owner, found = np.concatenate(owners), np.concatenate([np.empty((0, 2), dtype=np.int64), *parts])
        order = np.lexsort((found[:, 1], found[:, 0], owner))
        return owner[order], found[order]

    def relations_of(self, entity: int) -> set[int]:
        """The relations of an entity's triples, known and given."""
        rows, size = self.index.rows(entity), max(1, self.index.num_relations)
        found = set((self.index.links(rows) % size).tolist()) if rows.stop > rows.start else set()
        if not len(self.batch):
            return found | {code // 2 for code, _ in self.sides.get(entity, ())}
        return found | set((self.given_sides(entity)[:, 0] // 2).tolist())

    def links_between(self, one: int, other: int) -> set[int]:
        """The directed relations from one entity to another, known and given."""
        rows, size = self.index.rows(one), self.index.num_relations
        known = self.index.links(rows)[self.index.others(rows) == other].tolist()
        found = {2 * link if link < size else 2 * (link - size) + 1 for link in known}
        if not len(self.batch):
            return found | {code for code, end in self.sides.get(one, ()) if end == other}
        given = self.given_sides(one)
        return found | set(given[given[:, 1] == other, 0].tolist())

    def links_of(self, entity: int) -> tuple[IntArray, IntArray]:
        """The directed relations of an entity and the entities at their other ends, known first, then given."""
        rows, size = self.index.rows(entity), self.index.num_relations
        link = self.index.links(rows).astype(np.int64)
        code = np.where(link < size, 2 * link, 2 * (link - size) + 1)
        given = self.given_sides(entity)
        other = self.index.others(rows).astype(np.int64)
        return np.concatenate([code, given[:, 0]]), np.concatenate([other, given[:, 1]])

    def answers(self, entity: int, relation: int, *, asks_tail: bool) -> IntArray:
        """The answers that known and given triples state, ascending."""
        size, wanted = self.index.num_relations, link_code(relation, is_head=asks_tail)
        link = relation if asks_tail else size + relation
        known = self.index.answers(entity, link).astype(np.int64) if relation < size else np.empty(0, dtype=np.int64)
        if not len(self.batch):
            given = [other for code, other in self.sides.get(entity, ()) if code == wanted]
        else:
            sides = self.given_sides(entity)
            given = sides[sides[:, 0] == wanted, 1].tolist()
        return np.unique(np.concatenate([known, np.array(given, dtype=np.int64)])) if given else known


def row_keys(triples: IntArray) -> IntArray:
    """(triples,) a number for each, the same for the same triple, however large the ids are."""
    ends, place = np.unique(triples[:, [0, 2]], return_inverse=True)
    place = place.reshape(-1, 2)
    highest = int(triples[:, 1].max(initial=0)) + 1
    found: IntArray = (place[:, 0] * highest + triples[:, 1]) * len(ends) + place[:, 1]
    return found


def add_counts(total: dict[int, int], changes: dict[int, int], sign: int = 1) -> None:
    """Add changes to counts, in place; or take them away."""
    for key, count in changes.items():
        total[key] = total.get(key, 0) + sign * count


def summed(counts: Layers[int, int], changes: dict[int, int]) -> Layers[int, int]:
    """The counts with some changed; what is 0 then is not kept, as if it had never been there."""
    sums: dict[int, Any] = {key: counts.get(key, 0) + change for key, change in changes.items()}
    zero = [key for key, count in sums.items() if count == 0]
    return counts.changed({key: count for key, count in sums.items() if count}, zero)
