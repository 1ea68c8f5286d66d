"""What the reducers need to know about the graph: degrees of entities, co-occurrence of relations."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ookg.graph.index import GraphIndex
from ookg.graph.layers import Layers
from ookg.types import BoolArray, FloatArray, IntArray

# What has more relations than this says little about which go together, and a list of its pairs is as long as the
# square of their number. The published sets have 50 at most.
MOST_RELATIONS = 1000
# How many pairs of relations are held, about; up to 4,096 relations this bounds nothing.
MOST_PAIRS = 1 << 24
BLOCK_PAIRS = 1 << 22  # counted at a time
DENSE_RELATIONS = 1 << 14  # up to which a number for every pair of them may be held: 1 GiB
FEW_PAIRS = 64  # correlations asked for at once, up to which those that were asked for before are remembered
MOST_SEEN = 1 << 16  # how many of these are remembered
LOOP_SHARE = 0.2  # of a relation's triples that are loops, from which on an entity can be its own answer


@dataclass(frozen=True)
class GraphStatistics:
    """Counts over a set of triples.

    degree: (entities,) how many triple ends are the entity; a self-loop counts twice
    cooccurrence: (relations, relations) sparse; in how many entities' triples both relations occur, on either side;
        on the diagonal, in how many one occurs; of entities with very many relations only that (`counted_together`)
    change: by how much the co-occurrence of some pairs is larger than that, by `pair_key`; relations may be in it that
        the table does not have
    """

    degree: IntArray
    cooccurrence: Any
    change: Layers[int, int] = field(default_factory=Layers)

    @classmethod
    def count(cls, triples: IntArray, num_entities: int, num_relations: int) -> GraphStatistics:
        """The statistics of triples, (triples, 3)."""
        degree = np.bincount(triples[:, 0], minlength=num_entities) + np.bincount(triples[:, 2], minlength=num_entities)
        has = _incidence(triples, num_entities, num_relations)
        return cls(degree, counted_together(has))

    @classmethod
    def of(cls, index: GraphIndex) -> GraphStatistics:
        """The same of the triples of an index, counted without a copy of them; for up to DENSE_RELATIONS relations."""
        from ookg.graph.large import relations_together  # takes a while to import

        counts, most = relations_together(index.offsets, index.link, index.num_relations, MOST_RELATIONS)
        if most.sum() <= MOST_PAIRS:
            together = sparse.csr_array(counts)
        else:
            together = _most_frequent_pairs(lambda block: sparse.csr_array(counts[block]), most)
        return cls(np.diff(index.offsets), together.astype(np.int64))

    def with_given(self, known: IntArray, given: IntArray, num_entities: int) -> GraphStatistics:
        """These statistics of the `known` triples with the co-occurrence counted on known and given triples together.

        Degrees stay those of the known triples. Only the entities of `given` are counted anew: entity ids from
        `num_entities` on are new ones, and triples whose relation is -1 (unknown to the model) do not count.
        """
        num_relations = self.cooccurrence.shape[0]
        given = given[given[:, 1] >= 0]
        if not len(given):
            return self
        touched, place = np.unique(given[:, [0, 2]], return_inverse=True)
        position = np.full(max(num_entities, int(touched[-1]) + 1), -1)
        position[touched] = np.arange(len(touched))
        # A few given triples against millions of known ones: leave those that share no entity with them first.
        is_touched = position >= 0
        known = known[is_touched[known[:, 0]] | is_touched[known[:, 2]]]
        ends = position[known[:, [0, 2]]]  # (known triples, 2), -1 where the entity is not touched
        pairs = [np.stack([ends[:, side], known[:, 1]], axis=1) for side in (0, 1)]
        before = pair_matrix(np.concatenate([pair[pair[:, 0] >= 0] for pair in pairs]), len(touched), num_relations)
        place = place.reshape(-1, 2)
        added = np.concatenate([np.stack([place[:, side], given[:, 1]], axis=1) for side in (0, 1)])
        after = before.maximum(pair_matrix(added, len(touched), num_relations))
        change = counted_together(after) - counted_together(before)
        return replace(self, cooccurrence=(self.cooccurrence + change).tocsr())

    def grown_by(self, index: GraphIndex, given: IntArray) -> GraphStatistics:
        """The same, but the known triples by entity, and pairs of rare relations are counted exactly: what
        `pairs_gained` gives for one given triple after the other.
        """
        if not len(given):
            return self
        num_relations = max(self.cooccurrence.shape[0], int(given[:, 1].max()) + 1)
        touched, place = np.unique(given[:, [0, 2]], return_inverse=True)
        place = place.reshape(-1, 2)
        rows, owner = index.rows_of(touched)
        known = np.stack([owner, index.links(rows).astype(np.int64) % max(1, index.num_relations)], axis=1)
        added = np.concatenate([np.stack([place[:, side], given[:, 1]], axis=1) for side in (0, 1)])
        before = pair_matrix(known, len(touched), num_relations)
        after = before.maximum(pair_matrix(added, len(touched), num_relations))
        gained = np.flatnonzero(np.diff(after.indptr) > np.diff(before.indptr))
        change = counted_together(after[gained], bounded=False) - counted_together(before[gained], bounded=False)
        table = self.cooccurrence
        if num_relations > table.shape[0]:
            table = table.copy()
            table.resize(num_relations, num_relations)
        return replace(self, cooccurrence=(table + change).tocsr())

    def without(self, left: GraphIndex, gone: IntArray) -> GraphStatistics:
        """These statistics of known triples without some of them, (triples, 3). left: the others by entity

        The same as counting the others anew, but pairs of rare relations are counted exactly.
        """
        if not len(gone):
            return self
        num_relations = self.cooccurrence.shape[0]
        touched, place = np.unique(gone[:, [0, 2]], return_inverse=True)
        place = place.reshape(-1, 2)
        rows, owner = left.rows_of(touched)
        known = np.stack([owner, left.links(rows).astype(np.int64) % max(1, num_relations)], axis=1)
        lost = np.concatenate([np.stack([place[:, side], gone[:, 1]], axis=1) for side in (0, 1)])
        after = pair_matrix(known, len(touched), num_relations)
        before = after.maximum(pair_matrix(lost, len(touched), num_relations))
        change = counted_together(before, bounded=False) - counted_together(after, bounded=False)
        cooccurrence = (self.cooccurrence - change).tocsr()
        cooccurrence.eliminate_zeros()
        degree = self.degree - np.bincount(gone[:, [0, 2]].ravel(), minlength=len(self.degree))
        return replace(self, degree=degree, cooccurrence=cooccurrence)

    def _together(self, pairs: IntArray) -> FloatArray:
        """In how many entities' triples both relations of each pair, given by `pair_keys`, occur."""
        keys, counts = _sorted_pairs(self.cooccurrence)
        both = np.zeros(len(pairs))
        if len(keys):
            place = np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)
            both = np.where(keys[place] == pairs, counts[place], 0.0)
        if self.change:
            both += np.array([self.change.get(key, 0) for key in pairs.tolist()])
        return both

    def correlation(self, relation: IntArray, query: IntArray) -> FloatArray:
        """P(relation | query) + P(query | relation), with P(b | a) = entities having both / entities having a."""
        if len(relation) > FEW_PAIRS:
            distinct, place = np.unique(pair_keys(relation, query), return_inverse=True)
            correlation: FloatArray = self._correlation(distinct)[place.ravel()]
            return correlation
        # A question asks for a few, and the next one often for the same.
        pairs, seen = pair_keys(relation, query), self._correlations_seen
        values = [seen.get(pair) for pair in pairs.tolist()]
        if None not in values:
            return np.array(values, dtype=np.float64)
        correlation = self._correlation(pairs)
        if len(seen) > MOST_SEEN:
            seen.clear()
        seen.update(zip(pairs.tolist(), correlation.tolist(), strict=True))
        return correlation

    @cached_property
    def _correlations_seen(self) -> dict[int, float]:
        return {}

    def _correlation(self, distinct: IntArray) -> FloatArray:
        """The same for pairs, given by `pair_keys`."""
        one, other = distinct >> 32, distinct & ((1 << 32) - 1)
        size = len(distinct)
        counts = self._together(np.concatenate([distinct, pair_keys(one, one), pair_keys(other, other)]))
        both, having, asked = counts[:size], counts[size : 2 * size], counts[2 * size :]
        # Where rare pairs are left out, the differences that `with_given` adds can go beyond what is possible.
        both = np.clip(both, 0, np.minimum(having, asked))
        having[having == 0], asked[asked == 0] = np.inf, np.inf  # what nothing has co-occurs with nothing
        result: FloatArray = both / asked + both / having
        return result


def _sorted_pairs(cooccurrence: Any) -> tuple[IntArray, FloatArray]:
    """The pairs of a table of co-occurrence as sorted `pair_keys`, and their counts; sorted once for each table."""
    stored = _SORTED.get(id(cooccurrence))
    if stored is None or stored[0]() is not cooccurrence:
        pairs = cooccurrence.tocoo()
        keys = pair_keys(pairs.coords[0].astype(np.int64), pairs.coords[1].astype(np.int64))
        order = np.argsort(keys)
        name = id(cooccurrence)
        there = weakref.ref(cooccurrence, lambda _: _SORTED.pop(name, None))
        stored = _SORTED[name] = (there, keys[order], pairs.data[order].astype(np.float64))
    return stored[1], stored[2]


# By the table's id, while the table is there.
_SORTED: dict[int, tuple[Any, IntArray, FloatArray]] = {}


def pair_keys(relation: IntArray, other: IntArray) -> IntArray:
    """One number for each pair of relations, whatever their number."""
    return (relation << 32) + other


def pairs_gained(before: set[int], relation: int) -> dict[int, int]:
    """How the counts of `counted_together` change, by `pair_keys`, where something gets one more relation."""
    if relation in before:
        return {}
    changes = {(relation << 32) + relation: 1}
    if len(before) < MOST_RELATIONS:
        for other in before:
            changes[(relation << 32) + other] = changes[(other << 32) + relation] = 1
    elif len(before) == MOST_RELATIONS:  # from now on it counts on the diagonal alone
        changes |= {(one << 32) + other: -1 for one in before for other in before if one != other}
    return changes


def directed_cooccurrence(triples: IntArray, num_entities: int, num_relations: int) -> Any:
    """(2·relations, 2·relations) sparse: co-occurrence that keeps heads and tails apart.

    Row or column r is "is a head of r", relations + r is "is a tail of r".
    """
    heads, tails = triples[:, [0, 1]], triples[:, [2, 1]] + [0, num_relations]
    has = pair_matrix(np.concatenate([heads, tails]), num_entities, 2 * num_relations)
    return counted_together(has)


def counted_together(has: Any, *, bounded: bool = True) -> Any:
    """(columns, columns) sparse: in how many rows of `has`, which holds ones, both columns are set.

    A row with more than MOST_RELATIONS columns counts on the diagonal alone. Where more than MOST_PAIRS pairs could
    remain, each column keeps the others that it is most often together with, MOST_PAIRS / columns of them, and itself;
    all of them if it is not `bounded`.
    """
    width = np.diff(has.indptr)
    small = has if width.max(initial=0) <= MOST_RELATIONS else has[width <= MOST_RELATIONS]
    # How many others each column can have at most: all, or all the neighbours in its rows.
    most = np.minimum(small.T @ np.diff(small.indptr), has.shape[1])
    if not bounded or most.sum() <= MOST_PAIRS:
        together = small.T @ small
    else:
        owners = small.T.tocsr()
        together = _most_frequent_pairs(lambda block: (owners[block] @ small).tocsr(), most)
    if small is not has:
        large = has[width > MOST_RELATIONS]
        together = together + sparse.dia_array((large.sum(axis=0)[None], [0]), shape=together.shape)
    return together.tocsr()


def _most_frequent_pairs(pairs_of: Callable[[IntArray], Any], most: IntArray) -> Any:
    """(columns, columns) the counts of the pairs that are among the most frequent ones of either column.

    pairs_of: gives the counts of the pairs of some columns; most: (columns,) how many pairs each can have
    """
    columns = len(most)
    kept = max(1, MOST_PAIRS // columns)
    cuts = np.flatnonzero(np.diff(np.cumsum(most) // BLOCK_PAIRS)) + 1
    parts = []
    for block in np.split(np.arange(columns), cuts):
        pairs = pairs_of(block)
        pairs.sort_indices()
        row, column = (place.astype(np.int64) for place in pairs.tocoo().coords)
        # By row, in it the column itself, then the most frequent first; of equals the lower column.
        top = int(pairs.data.max(initial=0)) + 1
        rarity = top - np.where(block[row] == column, top, pairs.data)
        order = np.argsort(row * (top + 1) + rarity, kind="stable")
        rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
        chosen = order[rank <= kept]
        parts.append(sparse.csr_array((pairs.data[chosen], (row[chosen], column[chosen])), shape=pairs.shape))
    frequent = sparse.vstack(parts, format="csr")
    return frequent.maximum(frequent.T)


def relations_with_loops(triples: IntArray, num_relations: int) -> BoolArray:
    """(relations,) whether many triples over each of the first relations join an entity to itself (`LOOP_SHARE`)."""
    return often_loops(loop_counts(triples, num_relations))


def loop_counts(triples: IntArray, num_relations: int) -> IntArray:
    """(2, relations) over each of the first relations, how many triples join an entity to itself, and how many all."""
    loops = triples[triples[:, 0] == triples[:, 2], 1]
    return np.stack([np.bincount(part, minlength=num_relations)[:num_relations] for part in (loops, triples[:, 1])])


def often_loops(counts: IntArray) -> BoolArray:
    """(relations,) whether loops are common over each, by `loop_counts`: there an entity can be its own answer."""
    have, all_of = counts
    has_loops: BoolArray = (have > 0) & (have >= LOOP_SHARE * all_of)
    return has_loops


def _incidence(triples: IntArray, num_entities: int, num_relations: int) -> Any:
    pairs = np.concatenate([triples[:, [0, 1]], triples[:, [2, 1]]])
    return pair_matrix(pairs, num_entities, num_relations)


def pair_matrix(pairs: IntArray, num_entities: int, num_relations: int) -> Any:
    """(entities, relations) with 1 where the entity has the relation. int64: float counts are exact only up to 2²⁴."""
    ones = np.ones(len(pairs), dtype=np.int64)
    has = sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(num_entities, num_relations))
    has.sum_duplicates()
    has.data[:] = 1
    return has
