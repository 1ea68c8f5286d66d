"""What TransH and TransR share: a relation sees entities in a space of its own, and there they are TransE."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ookg.errors import InputError
from ookg.models.transe import TransE


@dataclass(frozen=True)
class Projected(ABC):
    """D(h, r, t) = ‖A h + r - A t‖ₚ with a matrix A of the relation and p = `norm` (1 or 2); entities are (dim,).

    One triple does not determine h: what A does not see stays open. So a new entity's vector is the least-squares
    solution over its triples, held near their nearest solutions with weight `ridge` (λ in docs/transh-transr.md).
    """

    dim: int
    norm: int = 1
    ridge: float = 0.1
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not 0 < self.ridge < float("inf"):
            raise InputError(f"ridge {self.ridge}; it must be a number above 0, such as 0.1")

    @property
    def entity_width(self) -> int:
        """Numbers stored for an entity."""
        return self.dim

    @property
    @abstractmethod
    def relation_width(self) -> int:
        """Numbers stored for a relation: r, then what makes A."""

    @property
    @abstractmethod
    def space(self) -> TransE:
        """The geometry of the relation's space, where D is TransE's."""

    @abstractmethod
    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        """A e, (..., dim) and (..., relation_width) -> (..., space.dim)."""

    @abstractmethod
    def project_back(self, points: Tensor, relation: Tensor) -> Tensor:
        """Aᵀ x, (..., space.dim) and (..., relation_width) -> (..., dim)."""

    @abstractmethod
    def displacement(self, relation: Tensor) -> Tensor:
        """The shortest step that A sees as r, (relations, relation_width) -> (relations, dim)."""

    @abstractmethod
    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """The stored rows for the trained parameters."""

    def translation(self, relation: Tensor) -> Tensor:
        """r, (..., relation_width) -> (..., space.dim)."""
        return relation[..., : self.space.dim]

    def initial_relations(self, parameters: Tensor) -> Tensor:
        """What training starts from, given random parameters."""
        return parameters

    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        """Where the tail is best seen, in the relation's space: A t = A h + r."""
        return self.project(head, relation) + self.translation(relation)

    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        """Where the head is best seen, in the relation's space: A h = A t - r."""
        return self.project(tail, relation) - self.translation(relation)

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        """‖x - y‖ₚ of points of the relation's space, (..., space.dim) and (..., space.dim) -> (...)."""
        return self.space.gap(x, y)

    def gap_to_all(self, points: Tensor, table: Tensor) -> Tensor:
        """The gaps from each point to each row of a projected table, (points, rows)."""
        return self.space.gap_to_all(points, table)

    def distance(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """D(h, r, t) = ‖A h + r - A t‖ₚ."""
        return self.gap(self.solve_tail(head, relation), self.project(tail, relation))

    def constrained(self, entities: Tensor) -> Tensor:
        """Entity vectors as the model wants them: any will do."""
        return entities
