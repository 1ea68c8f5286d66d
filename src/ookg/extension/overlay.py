"""What given triples add to the known graph, on ids: never changed, and made anew at the cost of what is new.

`Overlay` counts triples in and out one by one. Whoever holds one reads the same for ever, so a question that is under
way is not disturbed by what comes meanwhile; and what is taken out again leaves the numbers that were there before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ookg.evidence.combined import GraphEvidence
from ookg.evidence.links import SMOOTHING
from ookg.extension.index import GraphIndex
from ookg.layers import Layers
from ookg.statistics import FloatArray, GraphStatistics, IntArray, pairs_gained

Triple = tuple[int, int, int]
Side = tuple[int, int]  # a directed relation as in `link_code`, and the entity at the other end


def link_code(relation: int, *, is_head: bool) -> int:
    """A directed relation as a number that stays the same when relations are added."""
    return 2 * relation + (not is_head)


@dataclass(frozen=True, eq=False)
class Overlay:
    """Given triples beside the known graph.

    index: the known graph; graph: its statistics, with the given triples counted in
    triples: the given triples and their numbers, in the order in which they came
    sides: the given triples by entity, known or new
    evidence: counts of links and habits with the given triples; None until a question needs them
    """

    index: GraphIndex
    graph: GraphStatistics
    triples: Layers[Triple, int] = field(default_factory=Layers)
    sides: Layers[int, Layers[Side, int]] = field(default_factory=Layers)
    evidence: Counts | None = None

    def plus(self, triple: Triple, number: int) -> Overlay:
        """With one more triple."""
        head, relation, tail = triple
        change: dict[int, int] = {}
        for end in {head, tail}:
            _add(change, pairs_gained(self.relations_of(end), relation))
        graph = self.graph if not change else replace(self.graph, change=_summed(self.graph.change, change))
        evidence = None if self.evidence is None else self.evidence.plus(self, triple)
        ends: dict[int, Layers[Side, int]] = {}
        for end, side in ((head, (link_code(relation, is_head=True), tail)), (tail, (2 * relation + 1, head))):
            ends[end] = (ends.get(end) or self.sides.get(end) or Layers()).changed({side: number})
        triples = self.triples.changed({triple: number})
        return replace(self, graph=graph, evidence=evidence, triples=triples, sides=self.sides.changed(ends))

    def minus(self, triple: Triple) -> Overlay:
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
            _add(change, {key: -count for key, count in gained.items()})
        graph = left.graph if not change else replace(left.graph, change=_summed(left.graph.change, change))
        evidence = None if left.evidence is None else left.evidence.minus(left, triple)
        return replace(left, graph=graph, evidence=evidence)

    def relations_of(self, entity: int) -> set[int]:
        """The relations of an entity's triples, known and given."""
        rows, size = self.index.rows(entity), max(1, self.index.num_relations)
        found = set((np.unique(self.index.link[rows]) % size).tolist()) if rows.stop > rows.start else set()
        return found | {code // 2 for code, _ in self.sides.get(entity, ())}

    def links_between(self, one: int, other: int) -> set[int]:
        """The directed relations from one entity to another, known and given."""
        rows, size = self.index.rows(one), self.index.num_relations
        known = self.index.link[rows][self.index.other[rows] == other].tolist()
        found = {2 * link if link < size else 2 * (link - size) + 1 for link in known}
        return found | {code for code, end in self.sides.get(one, ()) if end == other}

    def links_of(self, entity: int) -> tuple[IntArray, IntArray]:
        """The directed relations of an entity and the entities at their other ends, known first, then given."""
        rows, size = self.index.rows(entity), self.index.num_relations
        link = self.index.link[rows].astype(np.int64)
        code = np.where(link < size, 2 * link, 2 * (link - size) + 1)
        given = np.array(list(self.sides.get(entity, ())), dtype=np.int64).reshape(-1, 2)
        other = self.index.other[rows].astype(np.int64)
        return np.concatenate([code, given[:, 0]]), np.concatenate([other, given[:, 1]])

    def answers(self, entity: int, relation: int, *, asks_tail: bool) -> IntArray:
        """The answers that known and given triples state."""
        size, wanted = self.index.num_relations, link_code(relation, is_head=asks_tail)
        link = relation if asks_tail else size + relation
        known = self.index.answers(entity, link).astype(np.int64) if relation < size else np.empty(0, dtype=np.int64)
        given = [other for code, other in self.sides.get(entity, ()) if code == wanted]
        return np.unique(np.concatenate([known, np.array(given, dtype=np.int64)])) if given else known

    def with_evidence(self, base: GraphEvidence) -> Overlay:
        """With counts of links and habits; base: those of the known triples."""
        if self.evidence is not None:
            return self
        empty = replace(self, triples=Layers(), sides=Layers(), evidence=Counts(base))
        for triple, number in self.in_order():
            empty = empty.plus(triple, number)
        return replace(self, evidence=empty.evidence)

    def in_order(self) -> list[tuple[Triple, int]]:
        """The given triples and their numbers, first come first."""
        return sorted(self.triples.items(), key=lambda item: item[1])


@dataclass(frozen=True, eq=False)
class Counts:
    """How often directed relations go together between two entities, and entities stand at ends of relations.

    base: counted on the known triples; rules, habits: what the given ones add, by pairs of directed relations and by
    end and entity
    """

    base: GraphEvidence
    rules: Layers[int, int] = field(default_factory=Layers)
    habits: Layers[int, Layers[int, int]] = field(default_factory=Layers)

    def plus(self, before: Overlay, triple: Triple) -> Counts:
        """With one more triple than there were."""
        return self._with(before, triple, 1)

    def minus(self, after: Overlay, triple: Triple) -> Counts:
        """With one triple less; after: what is left."""
        return self._with(after, triple, -1)

    def _with(self, others: Overlay, triple: Triple, sign: int) -> Counts:
        """others: the triples without this one"""
        head, relation, tail = triple
        low, high = min(head, tail), max(head, tail)
        code = link_code(relation, is_head=head == low)
        there = others.links_between(low, high)
        if low == high:
            there = {link for link in there if link % 2 == 0}  # a loop stands in both directions, and counts in one
        change: dict[int, int] = {}
        for key, count in pairs_gained(there, code).items():
            _add(change, {key: sign * count})
            one, other = key >> 32, key & ((1 << 32) - 1)
            _add(change, {((one ^ 1) << 32) + (other ^ 1): sign * count})  # as seen from the other end
        ends = {}
        for end, entity in ((2 * relation, tail), (2 * relation + 1, head)):
            seen: Layers[int, int] = self.habits.get(end) or Layers()
            ends[end] = _summed(seen, {entity: sign})
        return replace(self, rules=_summed(self.rules, change), habits=self.habits.changed(ends))

    def confidence(self, links: IntArray, asked: int) -> FloatArray:
        """(links,) the share of the pairs with each link that also have the asked one; 0 of a relation for itself."""
        distinct, place = np.unique(links, return_inverse=True)
        both, having = self._together(distinct, asked), self._together(distinct, None)
        found: FloatArray = np.where(distinct == asked, 0.0, both / (having + SMOOTHING))
        return found[place.ravel()]

    def _together(self, links: IntArray, asked: int | None) -> FloatArray:
        """How many pairs of entities have each link and the asked one; each link alone if that is None."""
        rules = self.base.links.rules
        size = rules.num_relations
        known = (links // 2) < size
        row = np.where(known, links // 2 + (links % 2) * size, 0)
        if asked is None:
            found = np.where(known, rules.having[row], 0.0) if size else np.zeros(len(links))
        elif asked // 2 < size:
            found = np.where(known, rules.column(asked // 2 + (asked % 2) * size)[row], 0.0)
        else:
            found = np.zeros(len(links))
        if self.rules:
            others = links.tolist() if asked is None else [asked] * len(links)
            keys = zip(links.tolist(), others, strict=True)
            found = found + np.array([self.rules.get((one << 32) + other, 0) for one, other in keys], dtype=np.float64)
        return found

    def seen_at(self, end: int) -> tuple[IntArray, FloatArray]:
        """The entities that have stood at an end (2·relation: its tails, 2·relation + 1: its heads), and how often."""
        entities, counts = self.base.habits.at(end // 2, is_tail=end % 2 == 0)
        added = self.habits.get(end)
        if not added:
            return entities, counts.astype(np.float64)
        ids, more = np.array(list(added)), np.array(list(added.values()), dtype=np.float64)
        both, place = np.unique(np.concatenate([entities, ids]), return_inverse=True)
        total = np.bincount(place.ravel(), np.concatenate([counts, more]), minlength=len(both))
        return both, total.astype(np.float64)


def _add(total: dict[int, int], changes: dict[int, int]) -> None:
    for key, count in changes.items():
        total[key] = total.get(key, 0) + count


def _summed(counts: Layers[int, int], changes: dict[int, int]) -> Layers[int, int]:
    """The counts with some changed; what is 0 then is not kept, as if it had never been there."""
    sums: dict[int, Any] = {key: counts.get(key, 0) + change for key, change in changes.items()}
    zero = [key for key, count in sums.items() if count == 0]
    return counts.changed({key: count for key, count in sums.items() if count}, zero)


def counted_in(overlay: Overlay, triples: Iterable[Triple], first: int) -> Overlay:
    """An overlay with triples that it does not have, numbered from `first` on."""
    for number, triple in enumerate(triples, start=first):
        overlay = overlay.plus(triple, number)
    return overlay
