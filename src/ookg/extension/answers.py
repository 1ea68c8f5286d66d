"""What a model answers with. All of it can be pickled and printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torch import Tensor

from ookg.simulation.trust import Trust, TrustTable
from ookg.types import IntArray


@dataclass(frozen=True)
class NewVectors:
    """Vectors of new entities.

    entities: (newcomers,) those that have a vector; vectors: (newcomers, entity_width)
    neighbors: (newcomers,) how many triples made each vector
    without_vector: new entities with no usable neighbour; notes: what was not used and why, in words
    find_trust: what `trust` asks when it is first read
    """

    entities: list[str]
    vectors: Tensor
    neighbors: IntArray
    without_vector: list[str]
    notes: list[str]
    find_trust: Callable[[], TrustTable]

    @cached_property
    def trust(self) -> TrustTable:
        """How far to trust each vector: triples, spread of the candidates, what to expect of it."""
        return self.find_trust()


@dataclass(frozen=True)
class LinkReason:
    """A triple of the asked entity that speaks for an answer.

    direction "out": the asked entity is its head; confidence: how often the asked relation goes with such a link
    via: the entity at its other end, where that is one between the asked entity and the answer; then the confidence is
        1/degree of that one
    """

    relation: str
    direction: Literal["out", "in"]
    confidence: float
    via: str | None = None


@dataclass(frozen=True)
class Answer:
    """One answer: its score is -D(h, r, t), or a weighted sum of evidence; its rank counts from 1.

    link: where all evidence counts, the direct link that speaks most for it
    """

    entity: str
    score: float
    rank: int
    is_known: bool
    is_new: bool
    link: LinkReason | None = None


@dataclass(frozen=True)
class Reason:
    """One triple that made the asked entity's vector, and its weight; direction "out": the entity is its head."""

    entity: str
    relation: str
    direction: Literal["out", "in"]
    weight: float


@dataclass(frozen=True)
class Prediction:
    """The best answers to a query, and for a new entity what its vector was made of (heaviest first).

    explanation: of a fitted vector, the triples it was fitted to, with the weights that the fit started from
    trust: how far to trust a new entity's vector; None for a known one
    """

    answers: list[Answer]
    explanation: list[Reason]
    notes: list[str]
    trust: Trust | None = None
