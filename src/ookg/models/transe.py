"""TransE: a relation is a translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ookg.models.geometry import GapSum, Geometry, Kernel, Move, RelationForm


@dataclass(frozen=True)
class TransE(Geometry):
    """D(h, r, t) = ‖h + r - t‖ₚ with p = `norm` (1 or 2); h, r, t have `dim` real coordinates.

    Two things that only models trained elsewhere have:
    squared: D is the square of that, which changes scores and never ranks
    unit_norm: entity vectors have length 1 in this norm (1 or 2), and new ones are scaled to it; 0 for any length
    """

    squared: bool = False
    unit_norm: int = 0
    name: ClassVar[str] = "transe"

    @property
    def entity_width(self) -> int:
        """Numbers stored for an entity."""
        return self.dim

    @property
    def relation_width(self) -> int:
        """Numbers stored for a relation."""
        return self.dim

    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        """The tail that fits best: t = h + r."""
        return head + relation

    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        """The head that fits best: h = t - r."""
        return tail - relation

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        """‖x - y‖ₚ of entity vectors (its square if `squared`), (..., dim) and (..., dim) -> (...)."""
        gap: Tensor = torch.linalg.vector_norm(x - y, ord=self.norm, dim=-1)
        return gap.square() if self.squared else gap

    def gap_to_all(self, points: Tensor, table: Tensor) -> Tensor:
        """The gaps from each point to each row of a table, (points, dim) and (rows, dim) -> (points, rows)."""
        # By differences, not by the product formula: equal vectors must have gap 0, and ties must stay ties.
        gaps = torch.cdist(points, table, p=self.norm, compute_mode="donot_use_mm_for_euclid_dist")
        return gaps.square() if self.squared else gaps

    def constrained(self, entities: Tensor) -> Tensor:
        """Entity vectors as the model wants them: of length 1 where `unit_norm` is set."""
        return torch.nn.functional.normalize(entities, p=self.unit_norm, dim=-1) if self.unit_norm else entities

    @property
    def kernel(self) -> Kernel | None:
        """Translations, and the norms that kernels know."""
        gaps = {1: GapSum.SIZES, 2: GapSum.LENGTH}
        if self.norm not in gaps or self.unit_norm not in (0, 1, 2):
            return None
        return Kernel(Move.TRANSLATION, gaps[self.norm], self.squared, self.unit_norm)

    @property
    def linear_move(self) -> Move:
        """Translations."""
        return Move.TRANSLATION

    @property
    def relation_form(self) -> RelationForm:
        """r = mean of t - h."""
        return RelationForm(lambda head, tail: tail - head, lambda total, count: total / count)
