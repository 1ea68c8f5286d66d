"""Random numbers as a function of a counter: the n-th draw of a stream depends on nothing but the stream and n.

A step's batch and negatives follow from the seed and the step's number alone. So a resumed run needs no saved
generator, and every way to compute a step, on every device, draws the same. The function is SplitMix64 (Steele, Lea
and Flood 2014).
"""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK = (1 << 64) - 1
# A negative that happens to be a true triple is drawn again, at most this many times. One that is still true then
# (almost every entity is a right answer) is left out of the loss.
ATTEMPTS = 16


def mix(value: int) -> int:
    """SplitMix64's output for one 64-bit state."""
    value = (value + GOLDEN) & MASK
    value = ((value ^ (value >> 30)) * FIRST) & MASK
    value = ((value ^ (value >> 27)) * SECOND) & MASK
    return value ^ (value >> 31)


def stream(seed: int, *names: int) -> int:
    """The start of an independent stream, named by some numbers (such as purpose and step)."""
    state = mix(seed & MASK)
    for name in names:
        state = mix(state ^ (name & MASK))
    return state


def signed(value: int) -> int:
    """A 64-bit pattern as the signed number torch wants."""
    return value - (1 << 64) if value >> 63 else value


def draws(start: int, counters: Tensor) -> Tensor:
    """The draws of a stream at some counters: 64 random bits each, as int64."""
    value = counters * signed(GOLDEN) + signed((start + GOLDEN) & MASK)
    value = (value ^ _shifted(value, 30)) * signed(FIRST)
    value = (value ^ _shifted(value, 27)) * signed(SECOND)
    return value ^ _shifted(value, 31)


def below(bits: Tensor, bound: int | Tensor) -> Tensor:
    """Uniform numbers in [0, bound) from random bits; each bound is below 2³¹."""
    return (_shifted(bits, 32) * bound) >> 32


def permutation(start: int, size: int, device: torch.device | str) -> Tensor:
    """A random order of 0 .. size - 1."""
    return torch.argsort(draws(start, torch.arange(size, device=device)), stable=True)


def _shifted(value: Tensor, places: int) -> Tensor:
    """A logical shift to the right; torch's own fills up with the sign."""
    return (value >> places) & ((1 << (64 - places)) - 1)
