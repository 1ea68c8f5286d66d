"""Looking for entities and relations by a part of their label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.graph.vocabulary import Vocabulary
from ookg.types import IntArray


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """The labels of a version, to be searched without regard to case; no Python object for each of them."""

    vocabulary: Vocabulary

    @cached_property
    def _lowered(self) -> Any:
        return pc.utf8_lower(self.vocabulary.labels)

    def matches(self, wanted: str) -> tuple[IntArray, IntArray]:
        """The ids of labels that begin with a text, in lower case, and of those that have it elsewhere."""
        has = pc.match_substring(self._lowered, wanted)
        places = np.flatnonzero(has.to_numpy(zero_copy_only=False))
        begins = pc.starts_with(self._lowered.take(pa.array(places)), wanted).to_numpy(zero_copy_only=False)
        begins = begins.astype(np.bool_)
        return places[begins], places[~begins]


@dataclass(frozen=True)
class Match:
    """A label that a search has brought; is_new: it is not of the version."""

    label: str
    is_new: bool


def search(index: LabelIndex, new: list[str], text: str, *, limit: int, offset: int) -> list[Match]:
    """One page of what fits: what begins with the text first; newcomers before the others."""
    wanted = text.lower()
    fresh = [label for label in new if wanted in label.lower()]
    begin = [label for label in fresh if label.lower().startswith(wanted)]
    rest = [label for label in fresh if not label.lower().startswith(wanted)]
    known_begin, known_rest = index.matches(wanted)
    page: list[Match] = []
    for labels, places in ((begin, known_begin), (rest, known_rest)):
        for part, is_new in ((labels, True), (places, False)):
            chosen = part[offset : offset + limit - len(page)]
            offset = max(0, offset - len(part))
            texts = chosen if isinstance(chosen, list) else index.vocabulary.select(chosen)
            page += [Match(label, is_new) for label in texts]
    return page
