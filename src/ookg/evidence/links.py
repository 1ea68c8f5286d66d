"""Direct links: one relation between two entities makes another one between them likely.

A mean over hundreds of candidates cannot hold what a single triple says: (town, located_in, TENET's country) all but
states (country, contains, town). So the confidence of such rules is counted, and the link itself is kept as evidence.

A link from a to b over relation r is the directed relation 2·r; seen from b it is 2·r + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ookg.evidence.source import Asked, Source, Spoken, Why
from ookg.graph.grown import GrownGraph, Triple, add_counts, link_code, summed
from ookg.graph.layers import Layers
from ookg.graph.linked import link_counts, link_rows
from ookg.graph.statistics import counted_together, pair_keys, pairs_gained
from ookg.scoring.queries import Queries
from ookg.types import Array, FloatArray, IntArray

# Counted as if this many more pairs had the first relation without the second: a rule seen once is no rule.
SMOOTHING = 5.0
# A rule of this confidence all but states what it speaks for; how many triples are looked at for `redundancy`.
STRONG_CONFIDENCE, SAMPLED_TRIPLES = 0.5, 2000
FEW_LINKS = 64  # which are looked up one by one
LOW_BITS = (1 << 32) - 1  # of a key of two directed relations


@dataclass(frozen=True)
class LinkRules:
    """How often entity pairs that are linked by one directed relation are linked by another.

    together: (2·relations, 2·relations) sparse counts of ordered entity pairs; on the diagonal, those of one relation;
        of pairs with very many relations only that (`counted_together`)
    """

    together: Any

    @classmethod
    def count(cls, triples: IntArray, num_relations: int) -> LinkRules:
        """The rules in triples, (triples, 3), over the first `num_relations` relations."""
        head, relation, tail = triples.T
        low, high = np.minimum(head, tail), np.maximum(head, tail)
        _, pair = np.unique(low * (int(high.max(initial=0)) + 1) + high, return_inverse=True)
        link = 2 * relation + (head != low)
        ones = np.ones(len(link), dtype=np.int64)
        size = int(pair.max(initial=-1)) + 1
        has = sparse.csr_array((ones, (pair.ravel(), link)), shape=(size, 2 * num_relations))
        has.sum_duplicates()
        has.data[:] = 1
        forward = counted_together(has)
        turned = np.arange(2 * num_relations) ^ 1
        return cls((forward + forward[turned][:, turned]).tocsr())

    def changed(self, before: LinkRules, after: LinkRules) -> LinkRules:
        """These with what some entity pairs have `after` instead of `before`."""
        together = self.together.copy()
        together.resize(after.together.shape)
        return LinkRules((together + (after.together - before.together)).tocsr())

    @cached_property
    def having(self) -> FloatArray:
        """(2·relations,) how many pairs have each directed relation."""
        return np.asarray(self.together.diagonal(), dtype=np.float64)

    def with_one(self, link: IntArray, asked: int) -> FloatArray:
        """(links,) how many pairs have each link and the asked one; 0 of relations that were not counted."""
        counts = np.zeros(self.together.shape[0])
        if asked < len(counts):
            rows = slice(self.together.indptr[asked], self.together.indptr[asked + 1])  # it is symmetric
            counts[self.together.indices[rows]] = self.together.data[rows]
        return _looked_up(counts, link)

    def with_each(self, link: IntArray, asked: IntArray) -> FloatArray:
        """(links,) how many pairs have each link and the one asked with it."""
        size = self.together.shape[0]
        is_counted = (link < size) & (asked < size)
        if not is_counted.any():
            return np.zeros(len(link))
        both = self.together[np.where(is_counted, link, 0), np.where(is_counted, asked, 0)]
        return np.where(is_counted, np.asarray(both, dtype=np.float64).ravel(), 0.0)


@dataclass(frozen=True, eq=False)
class Links(Source):
    """The confidence of the best rule that a direct link between the two ends of a triple speaks for.

    The asked triple itself is no evidence for itself.

    rules: counted in bulk; sample: some of the triples that were counted so
    change: what triples that came one by one add, by pairs of directed relations
    """

    name: ClassVar[str] = "links"
    weight: ClassVar[float] = 7.8
    closed_form_weight: ClassVar[float] = 10.2
    features: ClassVar[tuple[str, ...]] = ("links",)
    is_kept: ClassVar[bool] = True

    graph: GrownGraph
    rules: LinkRules
    sample: IntArray
    change: Layers[int, int] = field(default_factory=Layers)

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Links:
        """From known triples."""
        places = np.unique(np.linspace(0, len(triples) - 1, SAMPLED_TRIPLES).astype(np.int64))[: len(triples)]
        return cls(graph, LinkRules.count(triples, graph.index.num_relations), triples[places])

    def to_arrays(self) -> dict[str, Array]:
        """The rules, and the sample."""
        together = self.rules.together
        rows = {"starts": together.indptr, "links": together.indices, "counts": together.data}
        return rows | {"sample": self.sample}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], graph: GrownGraph) -> Links:
        """What was kept of the same triples."""
        size = 2 * graph.index.num_relations
        rows = arrays["counts"], arrays["links"], arrays["starts"]
        return cls(graph, LinkRules(sparse.csr_array(rows, shape=(size, size))), arrays["sample"])

    def with_given(self, given: IntArray, after: GrownGraph) -> Links:
        """With given triples counted in: only the entity pairs that they join are counted anew."""
        size = max(after.index.num_relations, 1 + int(given[:, 1].max(initial=-1)))
        before = self._between(given)
        change = LinkRules.count(before, size), LinkRules.count(np.concatenate([before, given]), size)
        return replace(self, graph=after, rules=self.rules.changed(*change))

    def _between(self, triples: IntArray) -> IntArray:
        """The triples of the graph between the two ends of any of some triples."""
        pairs = np.unique(triples[:, [0, 2]], axis=0)
        # Either end has all links between the two: the one with fewer is gone through, and each entity once.
        counts = link_counts(self.graph, pairs.ravel()).reshape(-1, 2)
        pairs = np.where((counts[:, 0] <= counts[:, 1])[:, None], pairs, pairs[:, ::-1])
        owners = np.unique(pairs[:, 0])
        rows = link_rows(self.graph, owners)
        wide = 1 + int(max(rows.other.max(initial=0), pairs.max(initial=0)))
        owner = owners[rows.owner]
        fits = np.isin(owner * wide + rows.other, pairs[:, 0] * wide + pairs[:, 1])
        owner, link, other = owner[fits], rows.link[fits], rows.other[fits]
        is_out = link % 2 == 0
        return np.stack([np.where(is_out, owner, other), link // 2, np.where(is_out, other, owner)], axis=1)

    def plus(self, triple: Triple, after: GrownGraph) -> Links:
        """With one more triple."""
        return replace(self, graph=after, change=summed(self.change, _pairs_changed(self.graph, triple, 1)))

    def minus(self, triple: Triple, after: GrownGraph) -> Links:
        """Without one triple."""
        return replace(self, graph=after, change=summed(self.change, _pairs_changed(after, triple, -1)))

    def confidence(self, link: IntArray, asked: IntArray | int) -> FloatArray:
        """(links,) the share of the pairs with each link that also have the asked one; 0 of a relation for itself."""
        rules = self.rules
        both = rules.with_one(link, asked) if isinstance(asked, int) else rules.with_each(link, asked)
        having = _looked_up(rules.having, link)
        if self.change:
            having = having + self._changes(link, lambda code: (code << 32) + code)
            if isinstance(asked, int):
                both = both + self._changes(link, lambda code: (code << 32) + asked)
            else:
                keys, place = np.unique(pair_keys(link, asked), return_inverse=True)
                both = both + np.array([self.change.get(key, 0) for key in keys.tolist()], dtype=np.float64)[place]
        confidence: FloatArray = np.where(link == asked, 0.0, both / (having + SMOOTHING))
        return confidence

    def _changes(self, link: IntArray, key: Callable[[int], int]) -> FloatArray:
        """(links,) by how much the count with the key of each link is larger than was counted in bulk."""
        if len(link) < FEW_LINKS:
            return np.array([self.change.get(key(code), 0) for code in link.tolist()], dtype=np.float64)
        there = np.flatnonzero(np.bincount(link))  # few, however many links
        table = np.zeros(int(there[-1]) + 1 if len(there) else 0)
        table[there] = [self.change.get(key(code), 0) for code in there.tolist()]
        return table[link]

    def redundancy(self) -> float:
        """The share of the triples (of a sample) that another link between the same two entities all but states."""
        if not len(self.sample):
            return 0.0
        return float((self.of_claims(self.sample)[:, 0] >= STRONG_CONFIDENCE).mean())

    def of_question(self, asked: Asked) -> Spoken:
        """The entities that the asked one is linked to, each with the confidence of the best link."""
        link, other = self.graph.links_of(asked.entity)
        sure = self.confidence(link, asked.code)
        speaks = np.flatnonzero(sure)
        speaks = speaks[np.argsort(other[speaks], kind="stable")]
        link, other, sure = link[speaks], other[speaks], sure[speaks]
        first = np.flatnonzero(np.diff(other, prepend=-1))  # of the links to each entity
        best = np.maximum.reduceat(sure, first) if len(first) else sure
        return _SpokenLinks(other[first], best, link, other, sure)

    def of_answers(self, queries: Queries, num_answers: int, device: torch.device | str) -> Tensor:
        """(queries, answers) the evidence for each of the first entities as the answer."""
        rows = link_rows(self.graph, queries.entity)
        rows = rows.select(rows.other < num_answers)
        asked = 2 * queries.relation + ~queries.asks_tail
        values = torch.from_numpy(self.confidence(rows.link, asked[rows.owner])).float().to(device)
        place = torch.from_numpy(rows.owner * num_answers + rows.other).to(device)
        strongest = torch.zeros(len(queries) * num_answers, device=device)
        return strongest.scatter_reduce_(0, place, values, "amax").view(len(queries), num_answers)

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 1) the evidence for each claim (head, relation, tail)."""
        strongest = np.zeros((len(claims), 1))
        known = np.flatnonzero((claims >= 0).all(axis=1))
        rows = link_rows(self.graph, claims[known, 0])
        fits = rows.other == claims[known[rows.owner], 2]
        claim, link = known[rows.owner[fits]], rows.link[fits]
        np.maximum.at(strongest[:, 0], claim, self.confidence(link, 2 * claims[claim, 1]))
        return strongest


@dataclass(frozen=True)
class _SpokenLinks(Spoken):
    """link, other, sure: the links that speak for the entities, sorted by these, and their confidence"""

    link: IntArray
    other: IntArray
    sure: FloatArray

    def why(self, answers: IntArray) -> list[Why | None]:
        """The direct link that speaks most for each answer; among equals the first one."""
        start, stop = np.searchsorted(self.other, answers), np.searchsorted(self.other, answers, side="right")
        reasons: list[Why | None] = [None] * len(answers)
        for number in np.flatnonzero(start < stop).tolist():
            best = int(start[number]) + int(np.argmax(self.sure[start[number] : stop[number]]))
            reasons[number] = Why(int(self.link[best]), int(self.other[best]), float(self.sure[best]))
        return reasons


def _pairs_changed(others: GrownGraph, triple: Triple, sign: int) -> dict[int, int]:
    """How the counts of `LinkRules` change with a triple, or without it. others: the triples without this one"""
    head, relation, tail = triple
    low, high = min(head, tail), max(head, tail)
    code = link_code(relation, is_head=head == low)
    there = others.links_between(low, high)
    if low == high:
        there = {link for link in there if link % 2 == 0}  # a loop stands in both directions, and counts in one
    change: dict[int, int] = {}
    for key, count in pairs_gained(there, code).items():
        add_counts(change, {key: sign * count})
        one, other = key >> 32, key & LOW_BITS
        add_counts(change, {((one ^ 1) << 32) + (other ^ 1): sign * count})  # as seen from the other end
    return change


def _looked_up(counts: FloatArray, place: IntArray) -> FloatArray:
    """The counts at some places; 0 beyond them."""
    if len(place) and int(place.max()) >= len(counts):
        counts = np.append(counts, np.zeros(int(place.max()) + 1 - len(counts)))
    return counts[place]
