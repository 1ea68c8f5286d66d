"""TransR: a relation is a translation in a space of its own, and a matrix that leads there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models.projected import Matrices, Projected
from ookg.models.transe import TransE


@dataclass(frozen=True)
class TransR(Projected):
    """D(h, r, t) = ‖M h + r - M t‖ₚ, so A = M, of shape (k, dim); r has k = `relation_dim` coordinates (0: as dim).

    A relation is stored as r, then the rows of M: (k + k·dim,) numbers.
    """

    relation_dim: int = 0
    name: ClassVar[str] = "transr"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relation_dim < 0:
            raise InputError(f"relation_dim {self.relation_dim}; it must be 1 or more, or 0 for as many as dim")

    @property
    def relation_width(self) -> int:
        """Numbers stored for a relation: r and M."""
        return self.space.dim * (1 + self.dim)

    @property
    def space(self) -> TransE:
        """TransE of k coordinates."""
        return TransE(self.relation_dim or self.dim, self.norm)

    def matrix(self, relation: Tensor) -> Tensor:
        """M, (..., k + k·dim) -> (..., k, dim)."""
        return relation[..., self.space.dim :].reshape(*relation.shape[:-1], self.space.dim, self.dim)

    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        """M e."""
        # einsum does not copy M where one relation meets many entities.
        return torch.einsum("...kd,...d->...k", self.matrix(relation), entities)

    def project_back(self, points: Tensor, relation: Tensor) -> Tensor:
        """Mᵀ x."""
        return torch.einsum("...kd,...k->...d", self.matrix(relation), points)

    def displacement(self, relation: Tensor) -> Tensor:
        """Mᵀ(M Mᵀ + λI)⁻¹ r: for small λ the shortest step that M sees as r, and never a long one for a small gain."""
        matrix, r = self.matrix(relation), self.translation(relation)
        gram = matrix @ matrix.mT + self.ridge * torch.eye(self.space.dim, dtype=matrix.dtype, device=matrix.device)
        return self.project_back(torch.linalg.solve(gram, r), relation)

    def normal_equations(self, relations: Tensor) -> Matrices:
        """The general ones, with M as it is stored."""
        return Matrices(self.matrix(relations), self.ridge)

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """r as it is; M is the identity plus its parameters: what pulls these to zero pulls the model to TransE."""
        del initial_range
        k = self.space.dim
        return torch.cat((parameters[..., :k], parameters[..., k:] + self._identity(parameters)), dim=-1)

    def relation_parameters(self, vectors: Tensor, initial_range: float) -> Tensor:
        """r as it is; M without the identity."""
        del initial_range
        k = self.space.dim
        return torch.cat((vectors[..., :k], vectors[..., k:] - self._identity(vectors)), dim=-1)

    def _identity(self, like: Tensor) -> Tensor:
        """(k·dim,) the rows of the identity."""
        return torch.eye(self.space.dim, self.dim, dtype=like.dtype, device=like.device).flatten()

    def initial_relations(self, parameters: Tensor) -> Tensor:
        """r random, M the identity."""
        parameters[..., self.space.dim :] = 0
        return parameters
