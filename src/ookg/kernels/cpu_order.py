"""What of a training step belongs to one entity or relation, on the CPU: who stands alone, and the rest in order.

A step compares each row's point (where the answer should be) with the row's negatives and its answer. These are the
pairs of the row, and each has a slot in a (batch, negatives + 1) table whose last column is the answer.

Touched entities and relations have ranks, their places in ascending order of ids. All of it costs what the step
touches: nothing has the length of a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels.cpu_compile import compiled
from ookg.types import Array

DIGIT = 16  # bits that one pass of a sort tells apart

Room = tuple[Array, Array]  # to sort in, as for `_sorted`
Groups = tuple[Array, Array, Array]  # rows by id, as for `group_rows`


# Which entities stand alone: those of one pair and of no row's known end. Nothing else of the step reads or moves them.
#
# Marks are pairs of words: bits of entities that were seen, and of those that do not stand alone. Entities whose ids
# end in the same bits share a mark. They count as not alone, which costs time and nothing else.

MARK_PARTS = 2  # each has words of its own, so that two threads never write to the same one


def marks_for(places: int) -> Array:
    """Marks for a step that touches at most so many entities: one in 16 of those that stand alone shares its mark."""
    return np.zeros(max(2 * MARK_PARTS, 1 << ((16 * places - 1).bit_length() - 5)), dtype=np.int64)


@compiled()
def no_marks() -> Array:
    """Marks by which no entity stands alone."""
    return np.full(2, -1, dtype=np.int64)


@compiled(leaf=True)
def _word_of(marks: Array, entity: int) -> int:
    """Where the mark of an entity is among those that were seen; the next word is for those that are not alone."""
    return ((entity >> 6) << 1) & (len(marks) - 1)


@compiled(leaf=True)
def _bit_of(entity: int) -> Any:
    return np.int64(1) << np.int64(entity & 63)


@compiled(leaf=True)
def is_alone(marks: Array, entity: int) -> bool:
    """Whether an entity stands alone; False for some that do."""
    return bool((marks[_word_of(marks, entity) + 1] & _bit_of(entity)) == 0)


@compiled(leaf=True)
def _mark(marks: Array, part: int, entity: int, is_used: bool, more: Any) -> None:
    """Mark an entity if its words are in this part; more: bits that also count as seen before"""
    own = len(marks) // MARK_PARTS
    word, start = _word_of(marks, entity), part * own
    # Without a branch, which would be guessed wrong half the time: what is not to be marked sets no bit of some word.
    place = start + (word & (own - 1))
    bit = _bit_of(entity) if is_used and word - start == word & (own - 1) else np.int64(0)
    seen = marks[place]
    marks[place] = seen | bit
    if (seen | more) & bit:
        marks[place + 1] |= bit


@compiled(leaf=True)
def mark_part(part: int, ids: Array, usable: Array, ends: tuple[Array, Array], marks: Array) -> None:
    """Mark the entities of all rows whose words are in one of MARK_PARTS; ends: (batch,) answers and known ends."""
    none, every = np.int64(0), np.int64(-1)
    for row in range(ids.shape[0]):
        for number in range(ids.shape[1]):
            _mark(marks, part, ids[row, number], usable[row, number], none)
        _mark(marks, part, ends[0][row], True, none)
        _mark(marks, part, ends[1][row], True, every)


# The order: pairs by entity, rows by entity and relation.


@compiled()
def _sorted(size: int, num_ids: int, room: tuple[Array, Array]) -> int:
    """Sort the first entries of room[0][0] by their ids, stably; return which of the two rooms holds them.

    room: (2, 2, entries) two rooms for ids and what goes with each; and (2^DIGIT + 1,) counts
    """
    rooms, counts = room
    bits = 1
    while bits < 63 and (num_ids - 1) >> bits:
        bits += 1
    passes = -(-bits // DIGIT)
    digit = -(-bits // passes)
    starts, mask, now = counts[: (1 << digit) + 1], (1 << digit) - 1, 0
    for number in range(passes):
        shift, there = number * digit, 1 - now
        starts[:] = 0
        for place in range(size):
            starts[((rooms[now, 0, place] >> shift) & mask) + 1] += 1
        for value in range(1, len(starts)):
            starts[value] += starts[value - 1]
        for place in range(size):
            value = (rooms[now, 0, place] >> shift) & mask
            target = starts[value]
            starts[value] = target + 1
            rooms[there, 0, target], rooms[there, 1, target] = rooms[now, 0, place], rooms[now, 1, place]
        now = there
    return now


@compiled()
def group_rows(ids: Array, num_ids: int, room: tuple[Array, Array], groups: tuple[Array, Array, Array]) -> int:
    """Group rows by their ids; return how many ids there are.

    groups: out, ids ascending; where the rows of each begin, and the end; rows by id, ascending
    """
    touched, offsets, order = groups
    for row in range(len(ids)):
        room[0][0, 0, row], room[0][0, 1, row] = ids[row], row
    now, count = _sorted(len(ids), num_ids, room), 0
    for place in range(len(ids)):
        if place == 0 or room[0][now, 0, place] != touched[count - 1]:
            touched[count], offsets[count] = room[0][now, 0, place], place
            count += 1
        order[place] = room[0][now, 1, place]
    offsets[count] = len(ids)
    return count


@compiled()
def sort_pairs(
    ids: Array,
    usable: Array,
    marks: Array,
    ends: tuple[Array, Array],
    num_entities: int,
    room: tuple[Array, Array],
    pairs: tuple[Array, Array],
    groups: tuple[Array, Array, Array],
) -> int:
    """Sort the pairs by entity, and group rows by known end; return how many entities these are.

    Unusable negatives are skipped, and entities that stand alone.

    ends: (batch,) answers and known ends
    pairs: out, (touched + 1,) where each entity's pairs begin, and the end; and (2, batch · (negatives + 1)) a pair's
        row and its slot, counted in a (batch, negatives + 1) table whose last column is the answer
    groups: out, as for `group_rows`; some entities may have no rows, others no pairs
    """
    batch, negatives = ids.shape
    slots, all_slots = negatives + 1, batch * (negatives + 1)
    rooms, size = room[0], 0
    for row in range(batch):
        for number in range(negatives):
            if usable[row, number] and not is_alone(marks, ids[row, number]):
                rooms[0, 0, size], rooms[0, 1, size] = ids[row, number], row * slots + number
                size += 1
        if not is_alone(marks, ends[0][row]):
            rooms[0, 0, size], rooms[0, 1, size] = ends[0][row], row * slots + negatives
            size += 1
    for row in range(batch):  # after all slots, and so behind an entity's pairs
        rooms[0, 0, size], rooms[0, 1, size] = ends[1][row], all_slots + row
        size += 1
    now = _sorted(size, num_entities, room)
    offsets, places = pairs
    touched, row_offsets, order = groups
    count = pair = known = 0
    for place in range(size):
        entity, slot = rooms[now, 0, place], rooms[now, 1, place]
        if place == 0 or entity != touched[count - 1]:
            touched[count], offsets[count], row_offsets[count] = entity, pair, known
            count += 1
        if slot < all_slots:
            places[0, pair], places[1, pair] = slot // slots, slot
            pair += 1
        else:
            order[known] = slot - all_slots
            known += 1
    offsets[count], row_offsets[count] = pair, known
    return count


@compiled()
def equal_parts(offsets: Array, count: int, parts: int) -> Array:
    """(parts + 1,) ranks that cut the pairs of so many entities into about equal parts."""
    cuts = np.zeros(parts + 1, dtype=np.int64)
    for part in range(1, parts):
        cuts[part] = np.searchsorted(offsets[:count], offsets[count] * part // parts)
    cuts[parts] = count
    return cuts
