"""The triples around one entity, known and given; each is put into words when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from ookg.errors import unknown_name
from ookg.extension.lookup import NOWHERE, names_to_suggest
from ookg.extension.state import State
from ookg.types import IntArray


@dataclass(frozen=True)
class StatedTriple:
    """A triple that holds; is_given: it was given, and is not one of training."""

    head: str
    relation: str
    tail: str
    is_given: bool


class Around(Sequence[StatedTriple]):
    """All triples of an entity: those of training first, then the given ones."""

    def __init__(self, state: State, label: str) -> None:
        number = state.entities.find(label)
        if number is None or not state.has_entity(number):
            names = names_to_suggest(label, state.model.entities, state.entities.select(state.new_entities))
            raise unknown_name("entity", label, names, NOWHERE)
        codes, others = state.graph.links_of(number)
        rows = state.graph.index.rows(number)
        is_given = np.arange(len(codes)) >= rows.stop - rows.start
        once = (others != number) | (codes % 2 == 0)  # a triple from an entity to itself is there from both ends
        self._state, self.entity, self.label = state, number, label
        self._codes: IntArray = codes[once]
        self._others: IntArray = others[once]
        self._is_given = is_given[once]

    @property
    def is_new(self) -> bool:
        """Whether the entity is new."""
        return self.entity >= self._state.num_known

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, place: int) -> StatedTriple: ...
    @overload
    def __getitem__(self, place: slice) -> list[StatedTriple]: ...
    def __getitem__(self, place: int | slice) -> StatedTriple | list[StatedTriple]:
        if isinstance(place, int):
            return self[place : place + 1 or None][0]
        codes, label = self._codes[place], self.label
        relations = self._state.relations.select(codes // 2)
        others = self._state.entities.select(self._others[place])
        rows = zip(codes.tolist(), relations, others, self._is_given[place].tolist(), strict=True)
        return [
            StatedTriple(other, relation, label, given) if code % 2 else StatedTriple(label, relation, other, given)
            for code, relation, other, given in rows
        ]
