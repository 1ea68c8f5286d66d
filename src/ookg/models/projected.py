"""What TransH and TransR share: a relation sees entities in a space of its own, and there they are TransE."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models.geometry import Geometry, forget
from ookg.models.transe import TransE


@dataclass(frozen=True)
class Projected(Geometry):
    """D(h, r, t) = ‖A h + r - A t‖ₚ with a matrix A of the relation and p = `norm` (1 or 2); entities are (dim,).

    One triple does not determine h: what A does not see stays open. So a new entity's vector is the least-squares
    solution over its triples, held near their nearest solutions with weight `ridge` (λ in docs/transh-transr.md).

    A model of this kind needs `project`, `space` and its widths; the rest follows, and may be said in a faster way.
    """

    ridge: float = 0.1
    can_refine: ClassVar[bool] = False  # vectors are least-squares solutions, which settle what no triple determines

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"solve_tail", "solve_head", "gap", "distance"} & vars(cls).keys():
            raise TypeError(f"{cls.__name__} is not TransE in its relations' spaces; derive it from Geometry")
        forget(cls, {"project", "translation"}, ("project_back", "displacement", "normal_equations"), Projected)

    def __post_init__(self) -> None:
        if not 0 < self.ridge < float("inf"):
            raise InputError(f"ridge {self.ridge}; it must be a number above 0, such as 0.1")

    @property
    def entity_width(self) -> int:
        """Numbers stored for an entity."""
        return self.dim

    @property
    @abstractmethod
    def space(self) -> TransE:
        """The geometry of the relation's space, where D is TransE's."""

    @abstractmethod
    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        """A e, (..., dim) and (..., relation_width) -> (..., space.dim)."""

    def translation(self, relation: Tensor) -> Tensor:
        """r, (..., relation_width) -> (..., space.dim)."""
        return relation[..., : self.space.dim]

    def project_back(self, points: Tensor, relation: Tensor) -> Tensor:
        """Aᵀ x, (..., space.dim) and (..., relation_width) -> (..., dim)."""
        return torch.einsum("...kd,...k->...d", self._matrix(relation), points)

    def displacement(self, relation: Tensor) -> Tensor:
        """Aᵀ(A Aᵀ + λI)⁻¹ r: for small λ the shortest step that A sees as r, and never a long one for a small gain.

        (relations, relation_width) -> (relations, dim)
        """
        matrix, r = self._matrix(relation), self.translation(relation)
        gram = matrix @ matrix.mT + self.ridge * torch.eye(self.space.dim, dtype=matrix.dtype, device=matrix.device)
        return self.project_back(torch.linalg.solve(gram, r), relation)

    def normal_equations(self, relations: Tensor) -> NormalEquations:
        """What solves the least squares of newcomers over some relations, (relations, relation_width)."""
        return Matrices(self._matrix(relations), self.ridge)

    def _matrix(self, relation: Tensor) -> Tensor:
        """A, (..., relation_width) -> (..., space.dim, dim): what it makes of each coordinate."""
        columns = torch.eye(self.dim, dtype=relation.dtype, device=relation.device)
        return self.project(columns, relation[..., None, :]).mT

    @final
    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        """Where the tail is best seen, in the relation's space: A t = A h + r."""
        return self.project(head, relation) + self.translation(relation)

    @final
    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        """Where the head is best seen, in the relation's space: A h = A t - r."""
        return self.project(tail, relation) - self.translation(relation)

    @final
    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        """‖x - y‖ₚ of points of the relation's space, (..., space.dim) and (..., space.dim) -> (...)."""
        return self.space.gap(x, y)

    def gap_to_all(self, points: Tensor, table: Tensor) -> Tensor:
        """The gaps from each point to each row of a projected table, (points, rows)."""
        return self.space.gap_to_all(points, table)

    def entity_gap(self, x: Tensor, y: Tensor) -> Tensor:
        """‖x - y‖ₚ of entity vectors, (..., dim) and (..., dim) -> (...)."""
        return TransE(self.dim, self.norm).gap(x, y)


class NormalEquations(Protocol):
    """(N + λI)⁻¹ of newcomers, where N = Σ ω AᵀA over each one's relations and Σ ω = 1.

    numbers_per_row: how many numbers each newcomer's relation takes
    """

    numbers_per_row: int

    def solve(self, right: Tensor, group: Tensor, number: Tensor, weight: Tensor) -> Tensor:
        """right: (newcomers, dim); group, number, weight: (pairs,) the newcomer, relation and Σ ω of each pair."""


class Matrices:
    """(N + λI)⁻¹ where N = Σ ω AᵀA; AᵀA is computed once for each relation.

    matrix: (relations, space.dim, dim)
    """

    def __init__(self, matrix: Tensor, ridge: float) -> None:
        self.ridge, self.grams = ridge, matrix.mT @ matrix  # (relations, dim, dim)
        self.numbers_per_row = matrix.shape[-1] ** 2

    def solve(self, right: Tensor, group: Tensor, number: Tensor, weight: Tensor) -> Tensor:
        """right: (newcomers, dim); group, number, weight: (pairs,) the newcomer, relation and Σ ω of each pair."""
        size, dim = right.shape
        normal = (self.ridge * torch.eye(dim, dtype=right.dtype, device=right.device)).repeat(size, 1, 1)
        normal.index_add_(0, group, weight[:, None, None] * self.grams[number])
        vectors: Tensor = torch.linalg.solve(normal, right)
        return vectors
