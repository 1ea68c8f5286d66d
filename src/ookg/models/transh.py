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

    def normal_equations(self, relations: Tensor) -> Planes:
        """Small systems: as many unknowns as a newcomer has relations."""
        return Planes(self, relations)

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """w to length 1, r onto its plane."""
        del initial_range
        r, w = parameters[..., : self.dim], torch.nn.functional.normalize(self.normal(parameters), dim=-1)
        return torch.cat((r - (r * w).sum(dim=-1, keepdim=True) * w, w), dim=-1)

    def relation_parameters(self, vectors: Tensor, initial_range: float) -> Tensor:
        """The vectors themselves: w has length 1 and r lies on its plane already."""
        del initial_range
        return vectors


class Planes:
    """(N + λI)⁻¹ where N = Σ ω (I - w wᵀ) = I - U Uᵀ and U has a column √ω·w for each relation, m of them.

    With a = 1 + λ: (a I - U Uᵀ)⁻¹ = (I + U (a I - Uᵀ U)⁻¹ Uᵀ) / a, which solves m by m systems instead of dim by dim.
    """

    def __init__(self, geometry: TransH, relations: Tensor) -> None:
        self.ridge, self.normals = geometry.ridge, geometry.normal(relations)
        self.numbers_a_row = geometry.dim

    def solve(self, right: Tensor, group: Tensor, number: Tensor, weight: Tensor) -> Tensor:
        """right: (newcomers, dim); group, number, weight: (pairs,) the newcomer, relation and Σ ω of each pair."""
        found = torch.empty_like(right)
        counts = torch.bincount(group, minlength=len(right))
        position = torch.arange(len(group), device=group.device) - (torch.cumsum(counts, 0) - counts)[group]
        roots = weight.sqrt()[:, None] * self.normals[number]  # (pairs, dim)
        # Alike in size together, so that at most half of a padded block is padding.
        bucket = torch.ceil(torch.log2(counts.clamp(min=1).double())).long()
        for exponent in range(int(bucket.max()) + 1):
            members = (bucket == exponent).nonzero().ravel()  # none of this size: an empty block, and nothing happens
            rank = torch.full((len(right),), -1, device=group.device)
            rank[members] = torch.arange(len(members), device=group.device)
            mine = rank[group] >= 0
            block = right.new_zeros(len(members), 1 << exponent, right.shape[1])  # (members, m, dim)
            block[rank[group[mine]], position[mine]] = roots[mine]
            own = right[members, :, None]  # (members, dim, 1)
            inner = (1 + self.ridge) * torch.eye(1 << exponent, dtype=right.dtype, device=right.device)
            solved = torch.linalg.solve(inner - block @ block.mT, block @ own)
            found[members] = ((own + block.mT @ solved) / (1 + self.ridge))[..., 0]
        return found
