"""Sorting and counting hundreds of millions of triples in little memory, compiled. Importing it imports Numba."""

from __future__ import annotations

import numpy as np

from ookg.system.compiling import compiled
from ookg.types import Array, IntArray, Numbers

FEW = 24  # rows that are sorted by insertion


def rows_by_entity(
    triples: IntArray, num_entities: int, num_relations: int
) -> tuple[IntArray, tuple[Numbers, Numbers]]:
    """The offsets of a `GraphIndex` and its links and others, 32 bits each: 16 bytes per triple and 8 per entity.

    triples: (triples, 3) ids below 2³¹, and twice as many relations below it too
    """
    offsets = np.zeros(num_entities + 1, np.int64)
    link, other = np.empty(2 * len(triples), np.int32), np.empty(2 * len(triples), np.int32)
    _count(triples, offsets)
    np.cumsum(offsets, out=offsets)
    # Filling moves the start of each entity to its end, which is the start of the next.
    _fill(triples, num_relations, offsets, link, other)
    offsets[1:] = offsets[:-1]
    offsets[0] = 0
    _sort(offsets, link, other)
    return offsets, (link, other)


def relations_together(
    offsets: IntArray, link: Numbers, num_relations: int, most_relations: int
) -> tuple[Numbers, IntArray]:
    """(relations, relations) in how many entities' rows both occur; (relations,) how many pairs each can have at most.

    offsets, link: of a `GraphIndex`. An entity with more than `most_relations` counts on the diagonal alone, and makes
    no pairs. Takes 4 bytes for every pair of relations that could be.
    """
    counts = np.zeros((num_relations, num_relations), np.int32)
    pairs = np.zeros(num_relations, np.int64)
    _count_together(offsets, link, most_relations, counts, pairs)
    return counts, np.minimum(pairs, num_relations)


@compiled()
def _count_together(offsets: Array, link: Array, most_relations: int, counts: Array, pairs: Array) -> None:
    last_seen, own = np.full(len(counts), -1, np.int64), np.empty(len(counts), np.int64)
    for entity in range(len(offsets) - 1):
        size = 0
        for row in range(offsets[entity], offsets[entity + 1]):
            relation = link[row] % len(counts)
            if last_seen[relation] != entity:
                last_seen[relation] = entity
                own[size] = relation
                size += 1
        for place in range(size):
            if size > most_relations:
                counts[own[place], own[place]] += 1
                continue
            pairs[own[place]] += size
            for other in range(size):
                counts[own[place], own[other]] += 1


@compiled()
def _count(triples: Array, counts: Array) -> None:
    """counts: (entities + 1,) one place later, so that their sums are where each begins"""
    for row in range(len(triples)):
        counts[triples[row, 0] + 1] += 1
        counts[triples[row, 2] + 1] += 1


@compiled()
def _fill(triples: Array, num_relations: int, starts: Array, link: Array, other: Array) -> None:
    for row in range(len(triples)):
        head, relation, tail = triples[row, 0], triples[row, 1], triples[row, 2]
        place = starts[head]
        link[place], other[place] = relation, tail
        starts[head] = place + 1
        place = starts[tail]
        link[place], other[place] = relation + num_relations, head
        starts[tail] = place + 1


@compiled()
def _sort(offsets: Array, link: Array, other: Array) -> None:
    """Sort the rows of each entity by link, then by the other end."""
    for entity in range(len(offsets) - 1):
        first, last = offsets[entity], offsets[entity + 1]
        if last - first > FEW:
            keys = (link[first:last].astype(np.int64) << 32) | other[first:last].astype(np.int64)
            keys.sort()
            for place in range(last - first):
                link[first + place] = keys[place] >> 32
                other[first + place] = keys[place] & 0xFFFFFFFF
            continue
        for row in range(first + 1, last):
            its_link, its_other = link[row], other[row]
            place = row
            while place > first and (
                link[place - 1] > its_link or (link[place - 1] == its_link and other[place - 1] > its_other)
            ):
                link[place], other[place] = link[place - 1], other[place - 1]
                place -= 1
            link[place], other[place] = its_link, its_other
