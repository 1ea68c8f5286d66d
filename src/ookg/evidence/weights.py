"""What each kind of evidence counts for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from ookg.errors import InputError
from ookg.evidence.registry import CAME_LATER, HUBNESS, LEARNED, NEW, SOURCES, VECTOR

VECTOR_WEIGHT, CLOSED_FORM_VECTOR_WEIGHT = 1.73, 1.33


class RankingWeights(Mapping[str, float]):
    """What the vector and each source of evidence count for in the score of an answer, by name.

    vector: of -D, standardised over the known entities of the query, so that it fits any model's scale
    links: of the confidence of the best direct link, 0 to 1; habits: of log(1 + times seen at this end of the relation)
    paths: of what paths of two steps lead to; company: of what those have who share a link with the asked entity;
        then any other registered source
    new: what an answer that is itself new gets on top
    hubness: how much of a new answer's hubness is taken off: a vector that is a mean lies nearer to everything than a
        trained one; 1 takes off what it is nearer to known entities on average, in the unit of the vector's score
    network, encoder: of log p + 15 by the two parts of a graph neural network, where there is one
    likeness: of what answers have in common with those that are there already

    Weights are given by name, or in this order. What is not given has its default, which for all but vector, links and
    habits is 0. The defaults come from a simulation in the training triples of FB15k-Head-10; `ookg tune` fits
    them to a graph. Weights cannot be changed.
    """

    __slots__ = ("_values",)
    _values: dict[str, float]

    def __init__(self, *values: float, **named: float) -> None:
        # What is given in order means what it did before there were others.
        names = (VECTOR, *(name for name in SOURCES if name not in CAME_LATER), NEW, HUBNESS, *CAME_LATER)
        if len(values) > len(names):
            raise InputError(f"{len(values)} weights, and there are {', '.join(names)}; give weights by name")
        given: dict[str, float] = dict(zip(names, values, strict=False))
        for name, value in named.items():
            if name not in names:
                raise InputError(f"unknown weight {name!r}; the weights are {', '.join(names)}")
            if name in given:
                raise InputError(f"weight {name} is given twice; give it once")
            given[name] = value
        for name, value in given.items():
            if not _is_finite(value):
                raise InputError(f"weight {name} is {value!r}; it must be a finite number")
        defaults = {VECTOR: VECTOR_WEIGHT} | {name: source.weight for name, source in SOURCES.items()}
        defaults |= {NEW: 0.0, HUBNESS: 0.0}
        # A source without a default is as if it were not there, unless it counts: so weights that were stored before
        # there was such a source are the same as those of today.
        self._values = {
            name: float(given.get(name, default))
            for name, default in defaults.items()
            if default != 0 or given.get(name, 0) != 0
        }

    @classmethod
    def alone(cls, **named: float) -> RankingWeights:
        """Those of what is named, and of nothing else; of the vector alone if nothing is."""
        return cls(**(dict.fromkeys(SOURCES, 0.0) | {VECTOR: 0.0 if named else 1.0} | named))

    @classmethod
    def for_closed_form(cls) -> RankingWeights:
        """The defaults beside vectors of the closed form, which say less than fitted ones."""
        sources = {name: source.closed_form_weight for name, source in SOURCES.items()}
        return cls(vector=CLOSED_FORM_VECTOR_WEIGHT, **sources)

    def of_sources(self) -> list[tuple[str, float]]:
        """The sources that count, in the order in which they add up, and their weights."""
        return [(name, weight) for name, weight in self._values.items() if name in SOURCES and weight != 0]

    @property
    def asks_network(self) -> bool:
        """Whether a part of a network counts."""
        return any(name in LEARNED for name, _ in self.of_sources())

    @property
    def has_evidence(self) -> bool:
        """Whether anything counts beside the vector."""
        return bool(self.of_sources() or self[NEW] or self[HUBNESS])

    def __getitem__(self, name: str) -> float:
        if name in self._values:
            return self._values[name]
        if name in SOURCES or name in (NEW, HUBNESS):
            return 0.0
        raise KeyError(name)

    def __getattr__(self, name: str) -> float:
        if not name.startswith("_") and name in (VECTOR, NEW, HUBNESS, *SOURCES):
            return self[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __reduce__(self) -> tuple[Any, tuple[dict[str, float]]]:
        return RankingWeights.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"RankingWeights({', '.join(f'{name}={weight:g}' for name, weight in self._values.items())})"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dict(self._values)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RankingWeights:
        """From plain values; what is not there has its default."""
        return cls(**values)


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number with hundreds of digits
        return False


# For vectors of the closed form, which say less than fitted ones.
CLOSED_FORM_WEIGHTS = RankingWeights.for_closed_form()
