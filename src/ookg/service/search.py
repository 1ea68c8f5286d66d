"""Looking for entities and relations by a part of their label or name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.graph.names import Names
from ookg.graph.vocabulary import Vocabulary
from ookg.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """The labels of a version and their names, searched without regard to case; no Python object for each of them."""

    vocabulary: Vocabulary
    names: Names

    @cached_property
    def _labels(self) -> Any:
        return pc.utf8_lower(self.vocabulary.labels)

    @cached_property
    def _named(self) -> tuple[IntArray, Any]:
        """The ids that have a name, and these names."""
        if not len(self.names):
            return np.empty(0, dtype=np.int64), pa.array([], pa.string())
        places = self.vocabulary.ids(self.names.ids.array())
        has = places >= 0
        return places[has], pc.utf8_lower(self.names.names.array().filter(pa.array(has)))

    def matches(self, wanted: str) -> tuple[IntArray, IntArray]:
        """The ids whose label or name begins with a text, in lower case, and of those that have it elsewhere."""
        begins, has = _fitting(self._labels, wanted)
        places, names = self._named
        named_begins, named_has = (places[rows] for rows in _fitting(names, wanted))
        first = np.union1d(begins, named_begins)
        return first, np.setdiff1d(np.union1d(has, named_has), first)


def _fitting(texts: Any, wanted: str) -> tuple[IntArray, IntArray]:
    """Where a text is the beginning, and where it is there at all."""
    has = np.flatnonzero(pc.match_substring(texts, wanted).to_numpy(zero_copy_only=False))
    begins: BoolArray = pc.starts_with(texts.take(pa.array(has)), wanted).to_numpy(zero_copy_only=False)
    return has[begins.astype(np.bool_)], has


@dataclass(frozen=True)
class Match:
    """A label that a search has brought; is_new: it is not of the version."""

    label: str
    is_new: bool


def search(index: LabelIndex, new: list[str], text: str, *, limit: int, offset: int) -> list[Match]:
    """One page of what fits: the label itself, then what begins with the text; newcomers before the others."""
    wanted = text.lower()
    itself, begin, rest = [], [], []
    for label in new:
        texts = [label.lower(), (index.names.name(label) or "").lower()]
        if label == text:
            itself.append(label)
        elif any(one.startswith(wanted) for one in texts):
            begin.append(label)
        elif any(wanted in one for one in texts):
            rest.append(label)
    known_begin, known_rest = index.matches(wanted)
    known_itself = known_begin[known_begin == index.vocabulary.find(text)]
    known_begin = np.setdiff1d(known_begin, known_itself)
    page: list[Match] = []
    for labels, places in ((itself, known_itself), (begin, known_begin), (rest, known_rest)):
        for part, is_new in ((labels, True), (places, False)):
            chosen = part[offset : offset + limit - len(page)]
            offset = max(0, offset - len(part))
            texts = chosen if isinstance(chosen, list) else index.vocabulary.select(chosen)
            page += [Match(label, is_new) for label in texts]
    return page
