"""Labels and their ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError
from ookg.graph.layers import Layers
from ookg.types import IntArray

SELECTED_ONE_BY_ONE = 64  # so many labels are read faster than an array of them is made
FOUND_ONE_BY_ONE = 16  # and so many are found
FEW, VERY_FEW = 8, 2000  # a share of the vocabulary: below it, another way to find labels is the fastest


class Vocabulary:
    """Labels numbered 0, 1, 2, ... in a fixed order. Extending it appends: an id never changes its label."""

    def __init__(self, labels: Sequence[str] | Any) -> None:
        self.labels = _text_array(labels)
        counts = pc.value_counts(self.labels)
        if len(counts) != len(self.labels):
            repeated = counts.filter(pc.greater(counts.field(1), 1))[0].as_py()["values"]
            raise InputError(f"label {repeated!r} occurs twice in a vocabulary; labels are unique")

    @classmethod
    def distinct(cls, labels: Any) -> Vocabulary:
        """A vocabulary of labels that are known to be distinct; for millions of them the check takes seconds."""
        vocabulary = cls.__new__(cls)
        vocabulary.labels = labels
        return vocabulary

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: str) -> bool:
        return self.find(label) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and bool(self.labels.equals(other.labels))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} labels)"

    @cached_property
    def order(self) -> IntArray:
        """The ids in the order of their labels' bytes."""
        return np.asarray(pc.sort_indices(self.labels), dtype=np.int64)

    @cached_property
    def _texts_order(self) -> memoryview:
        return self.order.data

    @cached_property
    def _texts(self) -> _Texts:
        return _Texts(self.labels)

    def find(self, label: str) -> int | None:
        """The id of a label, or None."""
        try:
            wanted = label.encode()
        except UnicodeEncodeError:  # half of a surrogate pair: no file has it
            return None
        texts, order = self._texts, self._texts_order
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if texts[order[middle]] < wanted:
                low = middle + 1
            else:
                high = middle
        return int(order[low]) if low < len(order) and texts[order[low]] == wanted else None

    def label(self, number: int) -> str:
        """The label of an id."""
        return self._texts.text(int(number))

    def select(self, ids: IntArray | Sequence[int]) -> list[str]:
        """The labels of many ids."""
        if len(ids) <= SELECTED_ONE_BY_ONE:
            return [self.label(number) for number in np.asarray(ids).tolist()]
        texts: list[str] = self.labels.take(pa.array(np.asarray(ids, np.int64))).to_pylist()
        return texts

    def ids(self, labels: Any) -> IntArray:
        """The ids of many labels, -1 where a label is unknown."""
        labels = _text_array(labels)
        if len(labels) <= FOUND_ONE_BY_ONE or len(labels) * VERY_FEW < len(self):
            found = (self.find(label) for label in labels.to_pylist())
            return np.array([-1 if number is None else number for number in found], dtype=np.int64)
        if len(labels) * FEW < len(self):
            # Few labels against a large vocabulary: hash the few, and pass over the many.
            distinct = pc.unique(labels)
            place = pc.index_in(self.labels, value_set=distinct)
            ids = np.full(len(distinct), -1, dtype=np.int64)
            known = np.flatnonzero(pc.is_valid(place).to_numpy(zero_copy_only=False))
            ids[place.take(pa.array(known)).to_numpy(zero_copy_only=False)] = known
            places: IntArray = pc.index_in(labels, value_set=distinct).to_numpy(zero_copy_only=False)
            return ids[places]
        found = pc.index_in(labels, value_set=self.labels)
        return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False)).astype(np.int64)

    def extended(self, labels: Any) -> Vocabulary:
        """This vocabulary with the labels it lacks appended in their given order."""
        return GrownVocabulary(self, Layers(), Layers()).extended(labels)


class GrownVocabulary(Vocabulary):
    """A vocabulary and labels that came later. Growing costs what is new, however large the old one is.

    added: the later labels and their ids; later: the ids and their labels
    """

    def __init__(self, base: Vocabulary, added: Layers[str, int], later: Layers[int, str]) -> None:
        self.base, self.added, self.later = base, added, later

    @cached_property
    def labels(self) -> Any:
        """All labels as one array; only what works on all of them needs it."""
        later = [self.later[number] for number in range(len(self.base), len(self))]
        return pa.concat_arrays([self.base.labels, pa.array(later, self.base.labels.type)])

    def __len__(self) -> int:
        return len(self.base) + len(self.added)

    def find(self, label: str) -> int | None:
        """The id of a label, or None."""
        number = self.added.get(label)
        return self.base.find(label) if number is None else number

    def label(self, number: int) -> str:
        """The label of an id."""
        return self.base.label(number) if number < len(self.base) else self.later[int(number)]

    def select(self, ids: IntArray | Sequence[int]) -> list[str]:
        """The labels of many ids."""
        if len(ids) <= SELECTED_ONE_BY_ONE:
            return [self.label(number) for number in np.asarray(ids).tolist()]
        numbers = np.asarray(ids, np.int64)
        is_old = numbers < len(self.base)
        found = np.empty(len(numbers), dtype=object)
        found[is_old] = self.base.select(numbers[is_old])
        found[~is_old] = [self.later[number] for number in numbers[~is_old].tolist()]
        return found.tolist()

    def ids(self, labels: Any) -> IntArray:
        """The ids of many labels, -1 where a label is unknown."""
        labels = _text_array(labels)
        found = self.base.ids(labels)
        if self.added and (found < 0).any():
            unknown = labels.filter(pa.array(found < 0)).to_pylist()
            found[found < 0] = [self.added.get(label, -1) for label in unknown]
        return found

    def extended(self, labels: Any) -> Vocabulary:
        """This vocabulary with the labels it lacks appended in their given order."""
        labels = _text_array(labels)
        lacking = self.ids(labels) < 0
        if not lacking.any():
            return self if self.added else self.base
        fresh = dict.fromkeys(labels.filter(pa.array(lacking)).to_pylist())
        numbers = dict(zip(fresh, range(len(self), len(self) + len(fresh)), strict=True))
        later = {number: label for label, number in numbers.items()}
        return GrownVocabulary(self.base, self.added.changed(numbers), self.later.changed(later))


class _Texts:
    """Labels by their ids, read where they lie: no Python object for each."""

    def __init__(self, labels: Any) -> None:
        width = np.int64 if labels.type == pa.large_string() else np.int32
        _, offsets, data = labels.buffers()
        starts = np.frombuffer(offsets, width) if offsets is not None else np.zeros(1, width)
        # Read through a view, which is several times faster than an array where one number is asked for.
        self.starts = starts[labels.offset : labels.offset + len(labels) + 1].data
        self.data = memoryview(data) if data is not None else memoryview(b"")

    def __getitem__(self, number: Any) -> bytes:
        return self.data[self.starts[number] : self.starts[number + 1]].tobytes()

    def text(self, number: int) -> str:
        """The label of an id."""
        if number < 0:
            raise IndexError(number)
        return str(self.data[self.starts[number] : self.starts[number + 1]], "utf-8")


def _text_array(labels: Any) -> Any:
    if isinstance(labels, pa.Array):
        return labels
    labels = list(labels)
    try:
        return pa.array(labels, pa.string())
    except UnicodeEncodeError as error:
        raise InputError(f"label {error.object!r} is not Unicode text; rename it") from None
