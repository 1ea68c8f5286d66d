"""The batch of a training step on the CPU: its triples, and for each the entities that make a false one of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels import randomness
from ookg.kernels.cpu_compile import compiled, prefetch_row
from ookg.kernels.randomness import ATTEMPTS
from ookg.types import Array

TASKS = 64  # parts of a loop whose results do not depend on how it is cut
TRIPLES_AHEAD = 16  # triples lie far apart, and are asked for so many before they are needed
# True answers lie far apart too, behind the offsets that say where.
OFFSETS_AHEAD, ANSWERS_AHEAD = 8, 4
FEW_ANSWERS = 256  # up to so many, all drawn entities are compared with each; among more, each is searched for

GOLDEN, FIRST, SECOND = np.uint64(randomness.GOLDEN), np.uint64(randomness.FIRST), np.uint64(randomness.SECOND)


@compiled()
def gather_batch(rows: Array, triples: Array, weights: Array, batch: tuple[Array, Array, Array, Array]) -> None:
    """Heads, relations, tails and weights of some triples, to batch."""
    head, relation, tail, weight = batch
    for number in range(len(rows)):
        if number + TRIPLES_AHEAD < len(rows):
            prefetch_row(triples, rows[number + TRIPLES_AHEAD])
            prefetch_row(weights, rows[number + TRIPLES_AHEAD])
        row = rows[number]
        head[number], relation[number], tail[number] = triples[row, 0], triples[row, 1], triples[row, 2]
        weight[number] = weights[row]


def draw_negatives(
    start: Any, known: Array, relations: Array, answers: tuple[Array, Array, int], shared: int, ids: Array
) -> Array:
    """`Sampler.negatives`, written to ids (batch, negatives); returns (batch, negatives) whether each is usable.

    known, relations: (batch,) what of the triples is kept; answers: offsets and keys of `TrueAnswers`, and how many
    entities there are; shared: how many rows share a set, or 0
    """
    usable = np.empty(ids.shape, dtype=np.bool_)
    draw_rows(0, len(ids), start, known, relations, answers, shared, ids, usable)
    return usable


@compiled(leaf=True)
def first_from(keys: Array, low: int, high: int, key: int) -> int:
    """The first place from low to high whose key is not below this one; high if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(leaf=True)
def _drawn_entity(start: Any, counter: Any, num_entities: int) -> Any:
    """The draw of a stream at a counter, as an entity."""
    value = counter * GOLDEN + (start + GOLDEN)
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    value = value ^ (value >> np.uint64(31))
    return np.int64(((value >> np.uint64(32)) * np.uint64(num_entities)) >> np.uint64(32))


@compiled(leaf=True)
def _has_one_of(ids: Array, keys: Array, base: int) -> bool:
    """Whether one of the entities is an answer; keys: those of the answers, from base on"""
    hits = 0
    for place in range(len(keys)):
        answer = np.int32(keys[place] - base)
        for number in range(len(ids)):
            hits += ids[number] == answer
    return hits > 0


@compiled(leaf=True)
def draw_rows(
    first: int,
    last: int,
    start: Any,
    known: Array,
    relations: Array,
    answers: tuple[Array, Array, int],
    shared: int,
    ids: Array,
    usable: Array,
) -> None:
    """`draw_negatives` of some rows."""
    offsets, keys, num_entities = answers
    negatives, attempts = ids.shape[1], 1 if shared else ATTEMPTS
    for row in range(first, last):
        if row + OFFSETS_AHEAD < len(known):
            prefetch_row(offsets, known[row + OFFSETS_AHEAD])
            prefetch_row(keys, offsets[known[row + ANSWERS_AHEAD]])
        base = relations[row] * num_entities
        end = offsets[known[row] + 1]
        begin = first_from(keys, offsets[known[row]], end, base)
        end = first_from(keys, begin, end, base + num_entities)
        counter = np.uint64((row // shared if shared else row) * negatives * ATTEMPTS)
        for number in range(negatives):
            ids[row, number] = _drawn_entity(start, counter + np.uint64(number * ATTEMPTS), num_entities)
            usable[row, number] = True
        if end - begin <= FEW_ANSWERS and not _has_one_of(ids[row], keys[begin:end], base):
            continue
        for number in range(negatives):
            entity, is_true = np.int64(0), False
            for attempt in range(attempts):
                entity = _drawn_entity(start, counter + np.uint64(number * ATTEMPTS + attempt), num_entities)
                place = first_from(keys, begin, end, base + entity)
                is_true = place < end and keys[place] == base + entity
                if not is_true:
                    break
            ids[row, number] = entity
            usable[row, number] = not is_true
