"""Row-wise Adagrad, the optimiser: its constant and, in plain PyTorch, its update."""

from __future__ import annotations

from torch import Tensor

EPSILON = 1e-10


def adagrad_update(parameter: Tensor, gradient: Tensor, total: Tensor, rate: float) -> None:
    """Adagrad in place, with one number for each row: s ← s + mean(g²), p ← p - rate · g / (√s + ε).

    parameter, gradient: (rows, width); total: (rows,) s
    """
    total.add_(gradient.square().mean(dim=1))
    parameter.addcdiv_(gradient, total.sqrt().add_(EPSILON)[:, None], value=-rate)
