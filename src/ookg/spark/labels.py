"""Finding labels by the million: one table of hashes, made once on a machine and mapped by all who work there.

A vocabulary finds labels by bisection, or by a hash table that each call makes anew. Here batch after batch is looked
up, each small beside the vocabulary, so the table is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ookg.graph.vocabulary import Texts, Vocabulary
from ookg.kernels.cpu_compile import compiled
from ookg.system.files import atomic_write
from ookg.types import Array, IntArray, Numbers

LEAST_ROOM = 1.5  # slots per label; their number is a power of two
BLOCK = 256  # labels that are looked up together


class LabelIndex:
    """The place of each label among all of them in the order of their bytes.

    texts: the labels' bytes by id; order: (labels,) the ids in the order of these
    slots: the table of hashes: 32 bits of the hash, then the place counted from 1; 0 where it is empty
    """

    def __init__(self, texts: Texts, order: Numbers, slots: Array) -> None:
        self.texts, self.order, self.slots = texts, order, slots

    @classmethod
    def of(cls, labels: Vocabulary, file: Path | None = None) -> LabelIndex:
        """The index of a vocabulary. file: where the table lies, or is put for others to map"""
        texts, order = labels.texts, labels.order
        if file is None:
            return cls(texts, order, _filled(texts, order))
        with FileLock(f"{file}.lock"):
            if not file.exists():
                with atomic_write(file) as temporary, temporary.open("wb") as stream:
                    np.save(stream, _filled(texts, order))
        return cls(texts, order, np.load(file, mmap_mode="r"))

    def __len__(self) -> int:
        return len(self.order)

    def places(self, labels: Any) -> IntArray:
        """(labels,) the place of each label of an Arrow array without gaps; -1 where it is unknown."""
        asked = Texts.of(labels)
        places = np.empty(len(asked), dtype=np.int64)
        _find(asked.data, asked.starts, self.texts.data, self.texts.starts, self.order, self.slots, places)
        return places


def parts_of(labels: Any, parts: int) -> IntArray:
    """(labels,) the part that each label of an Arrow array without gaps is dealt to, by its hash."""
    texts = Texts.of(labels)
    dealt = np.empty(len(texts), dtype=np.int64)
    _deal(texts.data, texts.starts, parts, dealt)
    return dealt


def _filled(texts: Texts, order: Numbers) -> Array:
    size = 1 << max(4, int(np.ceil(np.log2(max(1, len(order)) * LEAST_ROOM))))
    slots = np.zeros(size, dtype=np.uint64)
    _fill(texts.data, texts.starts, order, slots)
    return slots


@compiled()
def _hash(data: Array, first: int, last: int) -> Any:
    """FNV-1a, with its bits mixed, as both its low and its high ones are used."""
    value = np.uint64(0xCBF29CE484222325)
    for k in range(first, last):
        value = (value ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@compiled()
def _deal(data: Array, starts: Array, parts: int, dealt: Array) -> None:
    for row in range(len(dealt)):
        value = _hash(data, starts[row], starts[row + 1])
        dealt[row] = ((value >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32)


@compiled()
def _fill(data: Array, starts: Array, order: Array, slots: Array) -> None:
    mask, high = np.uint64(len(slots) - 1), np.uint64(0xFFFFFFFF00000000)
    for place in range(len(order)):
        number = order[place]
        value = _hash(data, starts[number], starts[number + 1])
        slot = value & mask
        while slots[slot] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (value & high) | np.uint64(place + 1)


@compiled()
def _find(
    asked: Array, asked_starts: Array, data: Array, starts: Array, order: Array, slots: Array, places: Array
) -> None:
    mask, high = np.uint64(len(slots) - 1), np.uint64(0xFFFFFFFF00000000)
    values, contents = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.uint64)
    numbers, begins = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
    firsts = np.empty(BLOCK, dtype=np.uint8)
    for block in range(0, len(places), BLOCK):
        rows = min(BLOCK, len(places) - block)
        # What is known of many labels is asked for from memory, step by step, before the first of them is looked at.
        for k in range(rows):
            values[k] = _hash(asked, asked_starts[block + k], asked_starts[block + k + 1])
        for k in range(rows):
            contents[k] = slots[values[k] & mask]
        for k in range(rows):
            is_like = contents[k] != np.uint64(0) and (contents[k] & high) == (values[k] & high)
            numbers[k] = order[np.int64(contents[k] & ~high) - 1] if is_like else -1
        for k in range(rows):
            begins[k] = starts[numbers[k]] if numbers[k] >= 0 else -1
        for k in range(rows):
            firsts[k] = data[begins[k]] if 0 <= begins[k] < len(data) else 0
        for k in range(rows):
            row, value, content = block + k, values[k], contents[k]
            first, last, slot = asked_starts[row], asked_starts[row + 1], value & mask
            places[row] = -1
            while content != np.uint64(0) and places[row] < 0:
                if (content & high) == (value & high):
                    place = np.int64(content & ~high) - 1
                    number = order[place]
                    start = starts[number]
                    is_same = starts[number + 1] - start == last - first
                    if is_same and number == numbers[k] and last > first:
                        is_same = firsts[k] == asked[first]
                    for byte in range(last - first):
                        if not is_same:
                            break
                        is_same = data[start + byte] == asked[first + byte]
                    if is_same:
                        places[row] = place
                slot = (slot + np.uint64(1)) & mask
                content = slots[slot]
