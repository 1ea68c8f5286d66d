"""Labels and their ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError

FEW = 8
Ids = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


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
    def _index(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels.to_pylist())}

    def find(self, label: str) -> int | None:
        """The id of a label, or None."""
        return self._index.get(label)

    def label(self, number: int) -> str:
        """The label of an id."""
        text: str = self.labels[int(number)].as_py()
        return text

    def select(self, ids: Ids | Sequence[int]) -> list[str]:
        """The labels of many ids."""
        texts: list[str] = self.labels.take(pa.array(np.asarray(ids, np.int64))).to_pylist()
        return texts

    def ids(self, labels: Any) -> Ids:
        """The ids of many labels, -1 where a label is unknown."""
        labels = _text_array(labels)
        if len(labels) * FEW < len(self):
            # Few labels against a large vocabulary: hash the few, and pass over the many.
            distinct = pc.unique(labels)
            place = pc.index_in(self.labels, value_set=distinct)
            ids = np.full(len(distinct), -1, dtype=np.int64)
            known = np.flatnonzero(pc.is_valid(place).to_numpy(zero_copy_only=False))
            ids[place.take(pa.array(known)).to_numpy(zero_copy_only=False)] = known
            places: Ids = pc.index_in(labels, value_set=distinct).to_numpy(zero_copy_only=False)
            return ids[places]
        found = pc.index_in(labels, value_set=self.labels)
        return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False)).astype(np.int64)

    def extended(self, labels: Any) -> Vocabulary:
        """This vocabulary with the labels it lacks appended in their given order."""
        labels = _text_array(labels)
        fresh = pc.unique(labels.filter(pa.array(self.ids(labels) < 0)))
        return Vocabulary.distinct(pa.concat_arrays([self.labels, fresh])) if len(fresh) else self


def _text_array(labels: Any) -> Any:
    if isinstance(labels, pa.Array):
        return labels
    labels = list(labels)
    try:
        return pa.array(labels, pa.string())
    except UnicodeEncodeError as error:
        raise InputError(f"label {error.object!r} is not Unicode text; rename it") from None
