"""Labels and their ids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError, ModelFileError, damaged_file
from ookg.graph.layers import Layers
from ookg.system.display import BLANK
from ookg.types import Array, IntArray, Numbers

SELECTED_ONE_BY_ONE = 64  # up to this many labels are read one by one, faster than making an array
FOUND_ONE_BY_ONE = 16  # up to this many are looked up one by one
LISTED_AT_ONCE = 1 << 14  # labels that are read together where all are listed
FEW, VERY_FEW = 8, 2000  # a share of the vocabulary: below it, another way to find labels is the fastest


class Vocabulary(Sequence[str]):
    """Labels numbered 0, 1, 2, ... in a fixed order. Extending it appends: an id never changes its label.

    As a sequence it is that of the labels: `list(model.entities)`, `"TENET" in model.entities`, `model.entities[0]`.
    """

    def __init__(self, labels: Sequence[str] | Any) -> None:
        self.labels = text_array(labels)
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

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and self.find(label) is not None

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), LISTED_AT_ONCE):
            yield from self.select(np.arange(start, min(start + LISTED_AT_ONCE, len(self))))

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return self.select(np.arange(len(self))[place])
        if not -len(self) <= place < len(self):
            raise IndexError(f"label {place} of {len(self)}")
        return self.label(place % len(self))

    def index(self, label: str, start: int = 0, stop: int | None = None) -> int:
        """The id of a label; a ValueError if there is none."""
        number = self.find(label)
        if number is None or number not in range(len(self))[start:stop]:
            raise ValueError(f"{label!r} is no label")
        return number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and bool(self.labels.equals(other.labels))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} labels)"

    @cached_property
    def order(self) -> Numbers:
        """The ids in the order of their labels' bytes."""
        return np.asarray(pc.sort_indices(self.labels), dtype=np.int64)

    @cached_property
    def texts(self) -> Texts:
        """The bytes of the labels."""
        return Texts.of(self.labels)

    @cached_property
    def _places(self) -> memoryview:
        return self.order.data  # several times faster than an array where one number is asked for

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_places"}  # a view of this memory

    def find(self, label: str) -> int | None:
        """The id of a label, or None."""
        try:
            wanted = label.encode()
        except UnicodeEncodeError:  # half of a surrogate pair: no file has it
            return None
        texts, order = self.texts, self._places
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if texts[int(order[middle])] < wanted:
                low = middle + 1
            else:
                high = middle
        return int(order[low]) if low < len(order) and texts[int(order[low])] == wanted else None

    def beginning(self, text: str) -> IntArray:
        """The ids of the labels that begin with a text."""
        wanted, order, texts = text.encode(), self._places, self.texts

        def first(comes_after: Callable[[bytes], bool]) -> int:
            return bisect_left(range(len(order)), True, key=lambda place: comes_after(texts[int(order[place])]))

        start = first(lambda label: label >= wanted)
        end = first(lambda label: label >= wanted and not label.startswith(wanted))
        ids = np.asarray(self.order[start:end], dtype=np.int64)
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(self):
            raise texts.damaged(f"labels are ordered by numbers beyond {len(self)}")
        return ids

    @cached_property
    def blank(self) -> IntArray:
        """The ids of RDF nodes without a name."""
        return self.beginning(BLANK)

    def label(self, number: int) -> str:
        """The label of an id."""
        return self.texts.text(int(number))

    def select(self, ids: IntArray | Sequence[int]) -> list[str]:
        """The labels of many ids."""
        if len(ids) <= SELECTED_ONE_BY_ONE:
            return [self.label(number) for number in np.asarray(ids).tolist()]
        texts: list[str] = self.labels.take(pa.array(np.asarray(ids, np.int64))).to_pylist()
        return texts

    def ids(self, labels: Any) -> IntArray:
        """The ids of many labels, -1 where a label is unknown."""
        labels = text_array(labels)
        if len(labels) <= FOUND_ONE_BY_ONE or len(labels) * VERY_FEW < len(self):
            numbers = (self.find(label) for label in labels.to_pylist())
            return np.array([-1 if number is None else number for number in numbers], dtype=np.int64)
        labels = labels.cast(self.labels.type)
        if len(labels) * FEW < len(self):
            # Few labels against a large vocabulary: hash the few, and pass over the many.
            distinct = pc.unique(labels)
            place = pc.index_in(self.labels, value_set=distinct)
            ids = np.full(len(distinct), -1, dtype=np.int64)
            known = np.flatnonzero(pc.is_valid(place).to_numpy(zero_copy_only=False))
            ids[place.take(pa.array(known)).to_numpy(zero_copy_only=False)] = known
            places: IntArray = pc.index_in(labels, value_set=distinct).to_numpy(zero_copy_only=False)
            return ids[places]
        numbers = pc.index_in(labels, value_set=self.labels)
        return np.asarray(pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False)).astype(np.int64)

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

    def beginning(self, text: str) -> IntArray:
        """The ids of the labels that begin with a text."""
        later = [number for number, label in self.later.items() if label.startswith(text)]
        return np.concatenate([self.base.beginning(text), np.array(sorted(later), dtype=np.int64)])

    def label(self, number: int) -> str:
        """The label of an id."""
        return self.base.label(number) if number < len(self.base) else self.later[int(number)]

    def select(self, ids: IntArray | Sequence[int]) -> list[str]:
        """The labels of many ids."""
        if len(ids) <= SELECTED_ONE_BY_ONE:
            return [self.label(number) for number in np.asarray(ids).tolist()]
        numbers = np.asarray(ids, np.int64)
        is_old = numbers < len(self.base)
        labels = np.empty(len(numbers), dtype=object)
        labels[is_old] = self.base.select(numbers[is_old])
        labels[~is_old] = [self.later[number] for number in numbers[~is_old].tolist()]
        return labels.tolist()

    def ids(self, labels: Any) -> IntArray:
        """The ids of many labels, -1 where a label is unknown."""
        labels = text_array(labels)
        numbers = self.base.ids(labels)
        if self.added and (numbers < 0).any():
            unknown = labels.filter(pa.array(numbers < 0)).to_pylist()
            numbers[numbers < 0] = [self.added.get(label, -1) for label in unknown]
        return numbers

    def extended(self, labels: Any) -> Vocabulary:
        """This vocabulary with the labels it lacks appended in their given order."""
        labels = text_array(labels)
        lacking = self.ids(labels) < 0
        if not lacking.any():
            return self if self.added else self.base
        fresh = dict.fromkeys(labels.filter(pa.array(lacking)).to_pylist())
        numbers = dict(zip(fresh, range(len(self), len(self) + len(fresh)), strict=True))
        later = {number: label for label, number in numbers.items()}
        return GrownVocabulary(self.base, self.added.changed(numbers), self.later.changed(later))


class StoredVocabulary(Vocabulary):
    """A vocabulary that lies in a file, sorted when it was written: what is asked for is read, and checked."""

    def __init__(self, texts: Texts, order: Numbers) -> None:
        if len(order) != len(texts):
            raise ValueError(f"{len(order)} places in the order of {len(texts)} labels")
        self.texts, self.order = texts, order

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def labels(self) -> Any:
        """All labels as one array, where they lie; reads them all once to see that they can be."""
        return self.texts.array()

    def label(self, number: int) -> str:
        """The label of an id."""
        if not 0 <= int(number) < len(self):
            raise IndexError(f"label {number} of {len(self)}")
        return self.texts.text(int(number))

    def select(self, ids: IntArray | Sequence[int]) -> list[str]:
        """The labels of many ids."""
        if len(ids) * FEW < len(self):
            return [self.label(number) for number in np.asarray(ids, np.int64).tolist()]
        return super().select(ids)


class Texts:
    """The bytes of labels by their ids, read where they lie: no Python object for each.

    data: all of them, as bytes; starts: (labels + 1,) where each begins, and where the last one ends
    source: the file that they are mapped from, for the message where it is damaged
    """

    def __init__(self, data: Array, starts: Numbers, source: str = "") -> None:
        if not len(starts) or int(starts[0]) != 0 or int(starts[-1]) != len(data):
            raise ValueError(f"labels that do not fill the {len(data)} bytes of their text")
        self.data, self.starts, self.source = data, starts, source
        # Read through views, which are several times faster than arrays where one number is asked for.
        self._bytes, self._starts = data.data, starts.data

    @classmethod
    def of(cls, labels: Any) -> Texts:
        """Those of an Arrow array."""
        width = np.int64 if labels.type == pa.large_string() else np.int32
        if not len(labels):
            return cls(np.empty(0, np.uint8), np.zeros(1, width))
        _, offsets, data = labels.buffers()
        starts = np.frombuffer(offsets, width)[labels.offset : labels.offset + len(labels) + 1]
        first, last = int(starts[0]), int(starts[-1])
        whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(whole[first:last], starts - first if first else starts)

    def __reduce__(self) -> tuple[type[Texts], tuple[Array, Numbers, str]]:
        return Texts, (self.data, self.starts, self.source)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> bytes:
        if 0 <= number < len(self._starts) - 1:
            start, end = self._starts[number], self._starts[number + 1]
            if 0 <= start <= end <= len(self._bytes):
                return self._bytes[start:end].tobytes()
        raise self.damaged(f"label {number} is not in it")

    def damaged(self, problem: str) -> ModelFileError:
        """The error for a file that holds what cannot be."""
        return damaged_file(self.source, problem)

    def array(self) -> Any:
        """All of them as an Arrow array, where they lie; reads them once to see that they can be."""
        kind = pa.LargeStringArray if self.starts.dtype == np.int64 else pa.StringArray
        labels = kind.from_buffers(len(self), pa.py_buffer(self.starts), pa.py_buffer(self.data))
        try:
            labels.validate(full=True)
        except pa.ArrowException as error:
            raise self.damaged(str(error)) from error
        return labels

    def text(self, number: int) -> str:
        """The label of an id."""
        try:
            return self[number].decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"label {number} is not Unicode text") from error


def text_array(labels: Any) -> Any:
    """Labels as an Arrow array; what is not Unicode text is refused."""
    if isinstance(labels, pa.Array):
        return labels
    labels = list(labels)
    try:
        return pa.array(labels, pa.string())
    except UnicodeEncodeError as error:
        raise InputError(f"label {error.object!r} is not Unicode text; rename it") from None
