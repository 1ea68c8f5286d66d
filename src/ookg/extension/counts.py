"""How often directed relations go together, and entities stand at ends of relations, in known and given triples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ookg.evidence.combined import GraphEvidence
from ookg.evidence.links import SMOOTHING
from ookg.graph.grown import GrownGraph, Triple, add_counts, link_code, summed
from ookg.graph.layers import Layers
from ookg.graph.statistics import pairs_gained
from ookg.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Counts:
    """How often directed relations go together between two entities, and entities stand at ends of relations.

    base: counted on the known triples; rules, habits: what the given ones add, by pairs of directed relations and by
    end and entity
    """

    base: GraphEvidence
    rules: Layers[int, int] = field(default_factory=Layers)
    habits: Layers[int, Layers[int, int]] = field(default_factory=Layers)

    def plus(self, before: GrownGraph, triple: Triple) -> Counts:
        """With one more triple than there were."""
        return self._with(before, triple, 1)

    def minus(self, after: GrownGraph, triple: Triple) -> Counts:
        """With one triple less; after: what is left."""
        return self._with(after, triple, -1)

    def _with(self, others: GrownGraph, triple: Triple, sign: int) -> Counts:
        """others: the triples without this one"""
        head, relation, tail = triple
        low, high = min(head, tail), max(head, tail)
        code = link_code(relation, is_head=head == low)
        there = others.links_between(low, high)
        if low == high:
            there = {link for link in there if link % 2 == 0}  # a loop stands in both directions, and counts in one
        change: dict[int, int] = {}
        for key, count in pairs_gained(there, code).items():
            add_counts(change, {key: sign * count})
            one, other = key >> 32, key & ((1 << 32) - 1)
            add_counts(change, {((one ^ 1) << 32) + (other ^ 1): sign * count})  # as seen from the other end
        ends = {}
        for end, entity in ((2 * relation, tail), (2 * relation + 1, head)):
            seen: Layers[int, int] = self.habits.get(end) or Layers()
            ends[end] = summed(seen, {entity: sign})
        return replace(self, rules=summed(self.rules, change), habits=self.habits.changed(ends))

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


def counts_of(graph: GrownGraph, base: GraphEvidence) -> Counts:
    """The counts of a graph; base: those of its known triples."""
    so_far, counts = GrownGraph(graph.index, graph.statistics, counts_pairs=False), Counts(base)
    given = graph.all_given
    for triple, number in zip(map(tuple, given.triples.tolist()), given.numbers.tolist(), strict=True):
        counts = counts.plus(so_far, triple)
        so_far = so_far.plus(triple, number)
    return counts
