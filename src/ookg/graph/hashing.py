"""Hash tables over millions of labels and triples, compiled: no Python object for each. Importing it imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ookg.errors import InputError
from ookg.graph.vocabulary import Texts
from ookg.system.compiling import compiled
from ookg.types import Array, BoolArray, IntArray, Numbers

EMPTY = -1  # in a slot
SMALLEST = 1 << 12  # slots
GROWTH = 1.25  # of arrays that become too small
GROUP = 64  # what is looked for at a time: memory is asked for all of them before the first is needed
MOST_IDS = (1 << 31) - 1  # ids have 31 bits
MOST_ROWS_IN_32_BITS = 1 << 31
WIDE_TEXT = 1 << 31  # bytes of text from which on Arrow needs offsets of 64 bits


class LabelTable:
    """Distinct labels with ids in the order in which they came.

    A label takes its bytes, 8 for where it begins and 12 to 24 for its slot (a part of its hash, and its id).
    """

    def __init__(self) -> None:
        self._size = 0
        self._text = np.empty(SMALLEST, np.uint8)
        self._starts = np.zeros(SMALLEST, np.int64)
        self._slots = np.full(SMALLEST, EMPTY, np.int64)

    def __len__(self) -> int:
        return self._size

    def ids(self, labels: Any) -> Numbers:
        """The ids of an Arrow array of text, 32 bits each; labels that are not there yet are added."""
        texts = Texts.of(labels)
        self._make_room(len(labels), len(texts.data))
        ids = np.empty(len(labels), np.int32)
        starts = texts.starts.astype(np.int64, copy=False)
        self._size = _add(texts.data, starts, self._slots, self._text, self._starts, self._size, ids)
        return ids

    def _make_room(self, labels: int, size: int) -> None:
        if self._size + labels > MOST_IDS:
            raise InputError(f"more than {MOST_IDS:,} different labels; ids have 31 bits")
        _grow(self._text, int(self._starts[self._size]) + size)
        _grow(self._starts, self._size + labels + 1)
        if (self._size + labels) * 3 > len(self._slots) * 2:
            number = _power_of_two((self._size + labels) * 3 // 2 + 1)
            self._slots = np.empty(0, np.int64)  # gone before the new ones are there
            self._slots = np.full(number, EMPTY, np.int64)
            _fill(self._slots, self._text, self._starts, self._size)

    def labels(self, order: Numbers | None = None) -> Any:
        """The labels as an Arrow array, in the order of ids that is given, each once; the table is empty then."""
        self._slots = np.empty(0, np.int64)
        size = int(self._starts[self._size])
        width, kind = (np.int32, pa.StringArray) if size < WIDE_TEXT else (np.int64, pa.LargeStringArray)
        if order is None:
            text, starts = self._text[:size].copy(), self._starts[: self._size + 1].astype(width)
        else:
            text, starts = np.empty(size, np.uint8), np.empty(self._size + 1, width)
            _take(self._text, self._starts, order, text, starts)
        number = self._size
        self.__init__()  # type: ignore[misc]
        return kind.from_buffers(number, pa.py_buffer(starts), pa.py_buffer(text))


def are_first(triples: IntArray, truth: BoolArray | None = None) -> BoolArray:
    """(triples,) whether each of the triples, (triples, 3), is the first of those that equal it.

    truth: (triples,) makes triples differ too. Takes 6 to 12 bytes per triple, and one for the result.
    """
    width = np.int32 if len(triples) < MOST_ROWS_IN_32_BITS else np.int64
    slots = np.full(_power_of_two(len(triples) * 3 // 2 + 1), EMPTY, width)
    first = np.empty(len(triples), np.bool_)
    _mark_first(np.ascontiguousarray(triples), np.empty(0, np.bool_) if truth is None else truth, slots, first)
    return first


def _power_of_two(least: int) -> int:
    return max(SMALLEST, 1 << (least - 1).bit_length())


def _grow(array: Array, least: int) -> None:
    if least > len(array):
        # In place: the system moves the pages of a large array, so that it is never there twice.
        array.resize(max(least, int(len(array) * GROWTH)), refcheck=False)


@compiled(leaf=True)
def _mixed(value: Any) -> Any:
    """A 64-bit number whose every bit depends on all bits of the given one (the end of MurmurHash3)."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    return value ^ (value >> np.uint64(33))


@compiled(leaf=True)
def _text_hash(text: Array, start: int, end: int) -> Any:
    value = np.uint64(0xCBF29CE484222325)  # FNV-1a
    for place in range(start, end):
        value = (value ^ np.uint64(text[place])) * np.uint64(0x100000001B3)
    return _mixed(value)


@compiled(leaf=True)
def _tag(value: Any) -> Any:
    """What a slot holds of a hash, above the id."""
    return np.int64(value >> np.uint64(33)) << np.int64(32)


@compiled(leaf=True)
def _is_same(text: Array, start: int, size: int, other: Array, other_start: int) -> bool:
    for place in range(size):  # noqa: SIM110 (Numba compiles this better)
        if text[start + place] != other[other_start + place]:
            return False
    return True


@compiled()
def _fill(slots: Array, text: Array, starts: Array, size: int) -> None:
    """Put distinct labels into empty slots."""
    mask = len(slots) - 1
    hashes = np.empty(GROUP, np.uint64)
    for first in range(0, size, GROUP):
        count = min(GROUP, size - first)
        for number in range(count):
            hashes[number] = _text_hash(text, starts[first + number], starts[first + number + 1])
        for number in range(count):
            slot = np.int64(hashes[number]) & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = _tag(hashes[number]) | (first + number)


@compiled()
def _add(given: Array, given_starts: Array, slots: Array, text: Array, starts: Array, size: int, ids: Array) -> int:
    """Write the ids of given labels, adding those that are new; the new number of labels."""
    mask, low = len(slots) - 1, np.int64(0xFFFFFFFF)
    hashes, seen = np.empty(GROUP, np.uint64), np.empty(GROUP, np.int64)
    touched = 0
    for first in range(0, len(ids), GROUP):
        count = min(GROUP, len(ids) - first)
        for number in range(count):
            hashes[number] = _text_hash(given, given_starts[first + number], given_starts[first + number + 1])
        for number in range(count):
            seen[number] = slots[np.int64(hashes[number]) & mask]
        for number in range(count):
            if seen[number] >= 0:
                seen[number] = starts[seen[number] & low]
        for number in range(count):
            if seen[number] >= 0:
                touched += text[seen[number]]
        for number in range(count):
            start, end = given_starts[first + number], given_starts[first + number + 1]
            tag = _tag(hashes[number])
            slot = np.int64(hashes[number]) & mask
            while True:
                entry = slots[slot]
                if entry < 0:
                    begin = starts[size]
                    for place in range(end - start):
                        text[begin + place] = given[start + place]
                    starts[size + 1] = begin + end - start
                    slots[slot] = tag | size
                    ids[first + number] = size
                    size += 1
                    break
                known = entry & low
                if (
                    entry - known == tag
                    and starts[known + 1] - starts[known] == end - start
                    and _is_same(given, start, end - start, text, starts[known])
                ):
                    ids[first + number] = known
                    break
                slot = (slot + 1) & mask
    return size + (touched < 0)  # never: what was touched must count for something


@compiled()
def _take(text: Array, starts: Array, order: Array, taken: Array, taken_starts: Array) -> None:
    """Labels in another order."""
    place = 0
    for number in range(len(order)):
        taken_starts[number] = place
        for source in range(starts[order[number]], starts[order[number] + 1]):
            taken[place] = text[source]
            place += 1
    taken_starts[len(order)] = place


@compiled()
def _mark_first(triples: Array, truth: Array, slots: Array, first: Array) -> None:
    mask = len(slots) - 1
    places = np.empty(GROUP, np.int64)
    touched = 0
    for start in range(0, len(triples), GROUP):
        count = min(GROUP, len(triples) - start)
        for number in range(count):
            row = start + number
            value = np.uint64(triples[row, 0]) * np.uint64(0x9E3779B97F4A7C15)
            value = _mixed(value ^ np.uint64(triples[row, 2])) + np.uint64(triples[row, 1])
            places[number] = np.int64(_mixed(value)) & mask
        for number in range(count):
            touched += slots[places[number]]
        for number in range(count):
            row, slot = start + number, places[number]
            first[row] = True
            while slots[slot] >= 0:
                other = slots[slot]
                if (
                    triples[other, 0] == triples[row, 0]
                    and triples[other, 1] == triples[row, 1]
                    and triples[other, 2] == triples[row, 2]
                    and (len(truth) == 0 or truth[other] == truth[row])
                ):
                    first[row] = False
                    break
                slot = (slot + 1) & mask
            if first[row]:
                slots[slot] = row
    if touched == -len(triples) * 2:  # never: what was touched must count for something
        first[:] = True
