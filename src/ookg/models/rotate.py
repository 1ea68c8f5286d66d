"""RotatE: a relation is a rotation of each complex coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

# How many numbers `gap_to_all` may hold for the differences it sums up, whatever the size of the table.
BLOCK_NUMBERS = 1 << 23


@dataclass(frozen=True)
class RotatE:
    """D(h, r, t) = ‖h∘r - t‖ₚ over the moduli of `dim` complex coordinates.

    norm 1 (the paper's): the sum of the moduli. norm 2: the Euclidean length of the whole complex vector.
    An entity is stored as dim real parts, then dim imaginary parts; a relation as dim phases θ in radians, r = exp(iθ).
    """

    dim: int
    norm: int = 1
    name: ClassVar[str] = "rotate"

    @property
    def entity_width(self) -> int:
        """Numbers stored for an entity."""
        return 2 * self.dim

    @property
    def relation_width(self) -> int:
        """Numbers stored for a relation."""
        return self.dim

    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        """The tail that fits best: t = h∘r."""
        return _rotated(head, torch.cos(relation), torch.sin(relation))

    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        """The head that fits best: h = t∘r⁻¹, and r⁻¹ is the rotation back, exp(-iθ)."""
        return _rotated(tail, torch.cos(relation), -torch.sin(relation))

    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        """Entities as a relation sees them: as they are."""
        del relation
        return entities

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        """‖x - y‖ₚ over complex moduli, (..., 2·dim) and (..., 2·dim) -> (...)."""
        difference = x - y
        if self.norm == 2:
            found: Tensor = torch.linalg.vector_norm(difference, dim=-1)
            return found
        real, imaginary = difference.chunk(2, dim=-1)
        # A complex number's modulus has the subgradient 0 at 0, where a square root would give NaN.
        return torch.complex(real.contiguous(), imaginary.contiguous()).abs().sum(dim=-1)

    def distance(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """D(h, r, t) = ‖h∘r - t‖ₚ."""
        return self.gap(self.solve_tail(head, relation), tail)

    def gap_to_all(self, points: Tensor, table: Tensor) -> Tensor:
        """The gaps from each point to each row of a table, (points, 2·dim) and (rows, 2·dim) -> (points, rows)."""
        if self.norm == 2:
            return torch.cdist(points, table, compute_mode="donot_use_mm_for_euclid_dist")
        rows = max(1, BLOCK_NUMBERS // max(1, len(points) * table.shape[-1]))
        blocks = [self.gap(points[:, None], block[None]) for block in torch.split(table, rows)]
        return torch.cat(blocks, dim=1) if blocks else points.new_empty(len(points), 0)

    def constrained(self, entities: Tensor) -> Tensor:
        """Entity vectors as the model wants them: any will do."""
        return entities

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """The phases for the trained parameters x: θ = x·π / `initial_range`, at first uniform on the circle."""
        return parameters * (torch.pi / initial_range)


def _rotated(vector: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    real, imaginary = vector.chunk(2, dim=-1)
    return torch.cat((real * cosine - imaginary * sine, real * sine + imaginary * cosine), dim=-1)
