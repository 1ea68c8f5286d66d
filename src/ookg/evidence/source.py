"""What a kind of evidence is. Read this first to add one.

A *source* says what a graph has to say about answers and claims, beside the vectors. `Links`, `Habits`, `Paths`,
`Company` and `Likeness` are sources, each in a file of its own. A new one is a subclass of `Source` in a file of its
own, and its name in the list of `registry.py` (or a call of `registry.register`, from outside this package). Nothing
else is needed: it ranks once `RankingWeights` names it, and it is kept up when triples come and go.

A source is counted on known triples, and holds the graph that it speaks about: known triples by entity, and given ones
beside them (`GrownGraph`). It is never changed: `plus`, `minus` and `with_given` make another one. Directed relations
are numbers as `link_code` has them: 2·r from the head of a triple over r to its tail, 2·r + 1 the other way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from ookg.graph.grown import GrownGraph, Triple, link_code
from ookg.scoring.queries import Queries
from ookg.types import Array, FloatArray, IntArray, Scores


@dataclass(frozen=True)
class Asked:
    """One question, (entity, relation, ?) or (?, relation, entity), on ids."""

    entity: int
    relation: int
    asks_tail: bool

    @property
    def code(self) -> int:
        """The asked relation, directed from the entity that is given."""
        return link_code(self.relation, is_head=self.asks_tail)


NO_LINK = -1  # in place of a link of the asked entity, where something else speaks for an answer


@dataclass(frozen=True)
class Why:
    """A link of the asked entity that speaks for an answer.

    link: the directed relation from the asked entity, or `NO_LINK`; other: the entity at its other end, the answer
    itself or one between; strength: how far it speaks for the answer, 0 to 1
    """

    link: int
    other: int
    strength: float


@dataclass(frozen=True)
class Spoken:
    """What a source says about the answers to one question: nothing (0) about those that are not there.

    entities: (answers,) each once; values: (answers,) the evidence for each
    """

    entities: IntArray
    values: FloatArray

    def row(self, num_answers: int) -> Tensor:
        """(1, answers) the evidence for each of the first entities."""
        row = np.zeros((1, num_answers), dtype=np.float32)
        self.fill(row[0])
        return torch.from_numpy(row)

    def fill(self, row: Scores) -> None:
        """Write the evidence for each of the first entities into a row of zeros, (answers,)."""
        entities, values = self.entities, self.values
        if len(entities) and int(entities.max()) >= len(row):
            inside = entities < len(row)
            entities, values = entities[inside], values[inside]
        row[entities] = values

    def of(self, answers: IntArray) -> FloatArray:
        """(answers,) the evidence for some answers."""
        if not len(self.entities):
            return np.zeros(len(answers))
        order = np.argsort(self.entities, kind="stable")
        place = order[np.minimum(np.searchsorted(self.entities, answers, sorter=order), len(order) - 1)]
        return np.where(self.entities[place] == answers, self.values[place], 0.0)

    def why(self, answers: IntArray) -> Sequence[Why | None]:
        """For each of some answers the link that speaks most for it; None where none does. By default it has none."""
        return [None] * len(answers)


class Source(ABC):
    """One kind of evidence, counted on a graph.

    name: what weights call it
    weight, closed_form_weight: what it counts for by default, beside fitted vectors and beside those of
        the closed form; 0: nothing, unless it is asked for by name
    features: the names of what it says about a claim
    judges: whether the judge of claims looks at these
    judges_new: whether it tells one new answer from another; else they rank as if it said of them what it says of known
        ones that stand like them by all else
    known_alone: whether it counts on known triples alone, so that given ones do not change what it counted
    reads_graph: whether it counts from the graph, so that the triples need not be read for it
    is_kept: whether it takes long to count, so that `to_arrays` is kept with a stored graph
    graph: the triples that it speaks about
    """

    name: ClassVar[str]
    weight: ClassVar[float] = 0.0
    closed_form_weight: ClassVar[float] = 0.0
    features: ClassVar[tuple[str, ...]]
    judges: ClassVar[bool] = True
    judges_new: ClassVar[bool] = True
    known_alone: ClassVar[bool] = False
    reads_graph: ClassVar[bool] = False
    is_kept: ClassVar[bool] = False
    graph: GrownGraph

    # Counting.

    @classmethod
    @abstractmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Self:
        """From known triples, (triples, 3). graph: the same by entity; nothing is given beside it."""

    def to_arrays(self) -> dict[str, Array]:
        """What was counted on known triples; for sources that are kept."""
        raise NotImplementedError(f"{type(self).__name__} keeps no counts")

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], graph: GrownGraph) -> Self:
        """What `to_arrays` gave, with the same known triples."""
        raise NotImplementedError(f"{cls.__name__} keeps no counts")

    @abstractmethod
    def with_given(self, given: IntArray, after: GrownGraph) -> Self:
        """With given triples, (triples, 3), counted in at once: the same as counting all together.

        after: the graph of all; its index may have the given ones too. They may repeat known triples.
        """

    @abstractmethod
    def plus(self, triple: Triple, after: GrownGraph) -> Self:
        """With one more given triple, which `self.graph` is without and `after` has: at the cost of that triple."""

    @abstractmethod
    def minus(self, triple: Triple, after: GrownGraph) -> Self:
        """Without a given triple, which `after` is without: the numbers are those from before it came."""

    # Speaking.

    @abstractmethod
    def of_question(self, asked: Asked) -> Spoken:
        """The evidence for the answers to one question, at the cost of what it speaks about: no pass over all.

        What is returned also says why. A source that names links has a subclass of `Spoken` of its own.
        """

    def of_answers(self, queries: Queries, num_answers: int, device: torch.device | str) -> Tensor:
        """(queries, answers) the evidence for each of the first entities as the answer, in a new tensor.

        The same numbers as `of_question`, which this asks for one query after the other. Override it where many can
        be answered together.
        """
        ends = zip(queries.entity.tolist(), queries.relation.tolist(), queries.asks_tail.tolist(), strict=True)
        rows = np.zeros((len(queries), num_answers), dtype=np.float32)
        for row, end in zip(rows, ends, strict=True):
            self.of_question(Asked(*end)).fill(row)
        return torch.from_numpy(rows).to(device)

    @abstractmethod
    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, features) what it says about each claim (head, relation, tail); ids below 0 are unknown: 0."""

    def of_both_ends(self, claims: IntArray) -> FloatArray:
        """(claims, 2) the evidence for the head, and for the tail, of each claim as an answer about the other one.

        For sources that know of nothing but questions: each is asked once.
        """
        values = np.zeros((len(claims), 2))
        known = np.flatnonzero((claims >= 0).all(axis=1))
        for column, (near, far) in enumerate(((2, 0), (0, 2))):
            questions, place = np.unique(claims[known][:, [near, 1]], axis=0, return_inverse=True)
            order = np.argsort(place.ravel(), kind="stable")
            groups = np.split(known[order], np.cumsum(np.bincount(place.ravel()))[:-1])
            for (entity, relation), mine in zip(questions.tolist(), groups, strict=False):
                said = self.of_question(Asked(entity, relation, asks_tail=far == 2))
                values[mine, column] = said.of(claims[mine, far])
        return values

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """(claims,) the evidence for the tail (or head) of each claim as an answer, from its features.

        The same numbers as `of_question`. By default the first feature.
        """
        del asks_tail
        return features[:, 0]
