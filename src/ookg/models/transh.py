"""TransH: a relation is a translation on a hyperplane of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ookg.models.projected import Projected
from ookg.models.transe import TransE


@dataclass(frozen=True)
class TransH(Projected):
    """D(h, r, t) = ‖(h - wᵀh w) + r - (t - wᵀt w)‖ₚ, so A = I - w wᵀ; w is a unit vector and r lies on its plane.

    A relation is stored as r, then w: (2·dim,) numbers.
    """

    name: ClassVar[str] = "transh"

    @property
    def relation_width(self) -> int:
        """Numbers stored for a relation: r and w."""
        return 2 * self.dim

    @property
    def space(self) -> TransE:
        """The plane keeps the entities' coordinates."""
        return TransE(self.dim, self.norm)

    def normal(self, relation: Tensor) -> Tensor:
        """w, (..., 2·dim) -> (..., dim)."""
        return relation[..., self.dim :]

    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        """e - wᵀe w."""
        w = self.normal(relation)
        return entities - (entities * w).sum(dim=-1, keepdim=True) * w

    def project_back(self, points: Tensor, relation: Tensor) -> Tensor:
        """The same: A is symmetric."""
        return self.project(points, relation)

    def displacement(self, relation: Tensor) -> Tensor:
        """The shortest step that is seen as r: r itself, which lies on the plane."""
        return self.translation(relation)

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """w to length 1, r onto its plane."""
        del initial_range
        r, w = parameters[..., : self.dim], torch.nn.functional.normalize(self.normal(parameters), dim=-1)
        return torch.cat((r - (r * w).sum(dim=-1, keepdim=True) * w, w), dim=-1)
