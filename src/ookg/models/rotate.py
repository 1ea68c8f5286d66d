"""RotatE: a relation is a rotation of each complex coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ookg.models.geometry import GapSum, Geometry, Kernel, Move, RelationForm


@dataclass(frozen=True)
class RotatE(Geometry):
    """D(h, r, t) = ‖h∘r - t‖ₚ over the moduli of `dim` complex coordinates.

    norm 1 (the paper's): the sum of the moduli. norm 2: the Euclidean length of the whole complex vector.
    An entity is stored as dim real parts, then dim imaginary parts; a relation as dim phases θ in radians, r = exp(iθ).
    """

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

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        """‖x - y‖ₚ over complex moduli, (..., 2·dim) and (..., 2·dim) -> (...)."""
        difference = x - y
        if self.norm == 2:
            found: Tensor = torch.linalg.vector_norm(difference, dim=-1)
            return found
        real, imaginary = difference.chunk(2, dim=-1)
        # A complex number's modulus has the subgradient 0 at 0, where a square root would give NaN.
        return torch.complex(real.contiguous(), imaginary.contiguous()).abs().sum(dim=-1)

    def gap_to_all(self, points: Tensor, table: Tensor) -> Tensor:
        """The gaps from each point to each row of a table, (points, 2·dim) and (rows, 2·dim) -> (points, rows)."""
        if self.norm == 2:
            return torch.cdist(points, table, compute_mode="donot_use_mm_for_euclid_dist")
        return super().gap_to_all(points, table)

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """The phases for the trained parameters x: θ = x·π / `initial_range`, at first uniform on the circle."""
        return parameters * (torch.pi / initial_range)

    def relation_parameters(self, vectors: Tensor, initial_range: float) -> Tensor:
        """The parameters for phases: x = θ·`initial_range` / π."""
        return vectors * (initial_range / torch.pi)

    @property
    def kernel(self) -> Kernel:
        """Rotations; with norm 2 the length of the whole complex vector."""
        return Kernel(Move.ROTATION, GapSum.LENGTH if self.norm == 2 else GapSum.MODULI)

    @property
    def linear_move(self) -> Move:
        """Rotations."""
        return Move.ROTATION

    @property
    def relation_form(self) -> RelationForm:
        """r = Σ t∘h̄ / |Σ t∘h̄| by coordinate.

        A coordinate where h and t are large counts more, as it should: there a wrong angle costs more.
        """
        return RelationForm(_turn, _phases)


def _rotated(vector: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    real, imaginary = vector.chunk(2, dim=-1)
    return torch.cat((real * cosine - imaginary * sine, real * sine + imaginary * cosine), dim=-1)


def _turn(head: Tensor, tail: Tensor) -> Tensor:
    """t∘h̄, (pairs, 2·dim)."""
    a, b = head.chunk(2, dim=-1)
    c, d = tail.chunk(2, dim=-1)
    return torch.cat((c * a + d * b, d * a - c * b), dim=-1)


def _phases(total: Tensor, count: Tensor) -> Tensor:
    """The angles of sums of turns, (relations, 2·dim) -> (relations, dim)."""
    del count
    real, imaginary = total.chunk(2, dim=-1)
    return torch.atan2(imaginary, real)
