"""Adam, the optimiser: its constants and, in plain PyTorch, its update."""

from __future__ import annotations

from torch import Tensor

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8  # Adam's β₁, β₂ and ε


def adam_update(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, rate: float, updates: int) -> None:
    """Adam in place: m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², p ← p - rate · m̂ / (√v̂ + ε) with m̂ = m/(1-β₁ᵗ)."""
    mean.mul_(FIRST_DECAY).add_(gradient, alpha=1 - FIRST_DECAY)
    square.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
    root = (square / (1 - SECOND_DECAY**updates)).sqrt_().add_(EPSILON)
    parameter.addcdiv_(mean, root, value=-rate / (1 - FIRST_DECAY**updates))


def compact_adam_update(
    parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, rate: float, updates: int
) -> None:
    """Adam in place, with m in 16 bits and one v for each row: v ← β₂v + (1-β₂) mean(g²); the rest as in `adam_update`.

    A step takes m before it is rounded. v would not do in 16 bits: β₂ changes it by a thousandth, which rounding to
    nearest loses.

    parameter, gradient, mean: (rows, width), mean of bfloat16; square: (rows,)
    """
    moved = FIRST_DECAY * mean.float() + (1 - FIRST_DECAY) * gradient
    mean.copy_(moved)
    square.mul_(SECOND_DECAY).add_(gradient.square().mean(dim=1), alpha=1 - SECOND_DECAY)
    root = (square / (1 - SECOND_DECAY**updates)).sqrt_().add_(EPSILON)
    parameter.addcdiv_(moved, root[:, None], value=-rate / (1 - FIRST_DECAY**updates))
