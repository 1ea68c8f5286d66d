"""Looking for entities and relations by a part of their label or name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.extension.extended import ExtendedModel
from ookg.graph.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """The labels of a version, to be searched without regard to case; no Python object for each of them."""

    vocabulary: Vocabulary

    @cached_property
    def _lowered(self) -> Any:
        return pc.utf8_lower(self.vocabulary.labels)

    def matches(self, text: str) -> Iterator[str]:
        """Labels that begin with a text, then those that have it elsewhere; each in the order of ids."""
        wanted = text.lower()
        has = pc.match_substring(self._lowered, wanted)
        places = np.flatnonzero(has.to_numpy(zero_copy_only=False))
        begins = pc.starts_with(self._lowered.take(pa.array(places)), wanted).to_numpy(zero_copy_only=False)
        for place in (*places[begins].tolist(), *places[~begins].tolist()):
            yield self.vocabulary.label(place)


@dataclass(frozen=True)
class Match:
    """A label that a search has brought; is_new: it is not of the version."""

    label: str
    is_new: bool


def search(index: LabelIndex, new: list[str], text: str, *, limit: int, offset: int) -> list[Match]:
    """One page of what fits: newcomers first, as somebody has just added them."""
    wanted = text.lower()
    fresh = [label for label in new if wanted in label.lower()]
    fresh.sort(key=lambda label: not label.lower().startswith(wanted))
    everything = [Match(label, True) for label in fresh[: offset + limit]]
    known = (Match(label, False) for label in index.matches(text))
    return list(islice((match for part in (everything, known) for match in part), offset, offset + limit))


def new_labels(extended: ExtendedModel, kind: str) -> list[str]:
    """The labels that are new, by kind."""
    return extended.new_entities if kind == "entity" else extended.new_relations
