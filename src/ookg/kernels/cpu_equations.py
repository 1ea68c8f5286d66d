"""The equations of a training step, compiled for the CPU: what is computed of one row, and how a row is moved.

The result does not depend on where the arrays lie: what is stored is computed as it is written down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ookg.kernels import adagrad
from ookg.kernels.adam import EPSILON, FIRST_DECAY, SECOND_DECAY
from ookg.kernels.cpu_compile import ABSOLUTE, EUCLIDEAN, MODULI, TINY, compiled, exponential, log_one_plus
from ookg.types import Array

# How a row is moved: by Adam, or by row-wise Adagrad.
ADAM, ADAGRAD = 0, 1


# Where the answer should be.


@compiled(leaf=True)
def solve_row(row: int, entities: Array, source: int, relation: int, turns: Array, sign: float, points: Array) -> None:
    """Where a row's answer should be, to points (batch, entity_width).

    source, relation: the known end and the relation
    turns: (1, relations, dim) the translations, which lead to the other ends by `sign`; or (2, batch, dim) cos and sin
        of the rotations that do
    """
    dim, factor = turns.shape[2], np.float32(sign)
    if turns.shape[0] == 1:
        for k in range(dim):
            points[row, k] = entities[source, k] + factor * turns[0, relation, k]
    else:
        for k in range(dim):
            real, imaginary = entities[source, k], entities[source, dim + k]
            points[row, k] = real * turns[0, row, k] - imaginary * turns[1, row, k]
            points[row, dim + k] = real * turns[1, row, k] + imaginary * turns[0, row, k]


# The loss and its derivatives.


@compiled()
def row_loss(gaps: Array, usable: Array, share: Any, settings: tuple[float, float], kind: int, slopes: Array) -> Any:
    """A row's part of the self-adversarial loss.

    gaps: (negatives + 1,) D by slot; share: w / Σw / 2; settings: γ, α
    slopes: (negatives + 1,) out, dL/dD by slot; dL/dD / D for the Euclidean gap (0 where D is 0), whose gradient is
        (x - y) / D
    """
    one, zero, gamma, alpha = np.float32(1), np.float32(0), np.float32(settings[0]), np.float32(settings[1])
    negatives = len(usable)
    nearest = np.float32(np.inf)
    for number in range(negatives):
        if usable[number]:
            nearest = min(nearest, gaps[number])
    total = zero
    for number in range(negatives):
        weight = math.exp(alpha * (nearest - gaps[number])) if usable[number] else zero
        slopes[number] = weight  # to be normalised
        total += weight
    loss = zero
    for number in range(negatives):
        if slopes[number] == zero:
            continue
        probability = slopes[number] / total
        beyond = gaps[number] - gamma
        small = math.exp(-abs(beyond))
        # -log σ(x) = max(-x, 0) + log(1 + exp(-|x|)), and σ(-x) from the same exponential
        loss += probability * (max(-beyond, zero) + math.log1p(small))
        slopes[number] = -share * probability * (small if beyond > zero else one) / (one + small)
    beyond = gaps[negatives] - gamma
    small = math.exp(-abs(beyond))
    loss += max(beyond, zero) + math.log1p(small)
    slopes[negatives] = share * (one if beyond > zero else small) / (one + small)
    if kind == EUCLIDEAN:
        for number in range(negatives + 1):
            slopes[number] = slopes[number] / gaps[number] if slopes[number] != zero and gaps[number] > zero else zero
    return share * loss


@compiled()
def fast_row_loss(
    gaps: Array, usable: Array, share: Any, settings: tuple[float, float], kind: int, slopes: Array, room: Array
) -> Any:
    """`row_loss` by vector instructions, six times as fast. Its last bits differ: whole tables are not moved by it.

    gaps: 0 where a negative is not usable; room: (negatives,)
    """
    one, zero, gamma, alpha = np.float32(1), np.float32(0), np.float32(settings[0]), np.float32(settings[1])
    negatives = len(usable)
    nearest = np.float32(np.inf)
    for number in range(negatives):
        if usable[number]:
            nearest = min(nearest, gaps[number])
    for number in range(negatives):
        weight = exponential(alpha * (nearest - gaps[number]))
        slopes[number] = weight if usable[number] else zero
    total = _total(slopes[:negatives])
    to_one = one / total if total > zero else zero
    for number in range(negatives):
        probability, beyond = slopes[number] * to_one, gaps[number] - gamma
        small = exponential(-abs(beyond))
        room[number] = probability * (max(-beyond, zero) + log_one_plus(small))
        slopes[number] = -share * probability * (small if beyond > zero else one) / (one + small)
    beyond = gaps[negatives] - gamma
    small = exponential(-abs(beyond))
    slopes[negatives] = share * (one if beyond > zero else small) / (one + small)
    if kind == EUCLIDEAN:
        for number in range(negatives + 1):
            slopes[number] = slopes[number] / gaps[number] if gaps[number] > zero else zero
    return share * (_total(room[:negatives]) + max(beyond, zero) + log_one_plus(small))


@compiled(leaf=True, sums=True)
def _total(numbers: Array) -> Any:
    total = np.float32(0)
    for place in range(len(numbers)):
        total += numbers[place]
    return total


# Gradients.


@compiled(leaf=True)
def _pull(slope: Any, x: Any, y: Any, kind: int) -> Any:
    """slope · d gap / dx of one coordinate, where each stands for itself (x - y, for a Euclidean gap's slope).

    The sign of x - y is two choices: these become vector instructions, one within the other would not.
    """
    zero = np.float32(0)
    if kind == ABSOLUTE:
        return (slope if x > y else zero) - (slope if x < y else zero)
    return slope * (x - y)


@compiled(leaf=True)
def add_gradient(point: Array, vector: Array, slope: Any, kind: int, own: Array, rest: Array) -> None:
    """Add slope · d gap(point, vector) / d point to `rest`, the point's gradient, and take it from `own`."""
    if kind != MODULI:
        for k in range(len(point)):
            gradient = _pull(slope, point[k], vector[k], kind)
            own[k] -= gradient
            rest[k] += gradient
        return
    dim = len(point) // 2
    other_point, other_vector, other_own, other_rest = point[dim:], vector[dim:], own[dim:], rest[dim:]
    for k in range(dim):
        real, imaginary = point[k] - vector[k], other_point[k] - other_vector[k]
        factor = slope / np.sqrt(max(real * real + imaginary * imaginary, TINY))
        own[k] -= factor * real
        other_own[k] -= factor * imaginary
        rest[k] += factor * real
        other_rest[k] += factor * imaginary


@compiled(leaf=True)
def add_two_gradients(
    points: Array, rows: tuple[int, int], vector: Array, slopes: tuple[Any, Any], kind: int, own: Array, rest: Array
) -> None:
    """`add_gradient` of two different points at once: the entity's gradient is read and written once for both."""
    x, y, s, t = points[rows[0]], points[rows[1]], slopes[0], slopes[1]
    first, second = rest[rows[0]], rest[rows[1]]
    if kind != MODULI:
        for k in range(len(x)):
            a, b = _pull(s, x[k], vector[k], kind), _pull(t, y[k], vector[k], kind)
            own[k] -= a + b
            first[k] += a
            second[k] += b
        return
    dim = len(x) // 2
    other_x, other_y, other_vector, other_own = x[dim:], y[dim:], vector[dim:], own[dim:]
    other_first, other_second = first[dim:], second[dim:]
    for k in range(dim):
        a, b = x[k] - vector[k], y[k] - vector[k]
        other_a, other_b = other_x[k] - other_vector[k], other_y[k] - other_vector[k]
        u = s / np.sqrt(max(a * a + other_a * other_a, TINY))
        v = t / np.sqrt(max(b * b + other_b * other_b, TINY))
        a, b, other_a, other_b = u * a, v * b, u * other_a, v * other_b
        own[k] -= a + b
        other_own[k] -= other_a + other_b
        first[k] += a
        other_first[k] += other_a
        second[k] += b
        other_second[k] += other_b


@compiled(leaf=True)
def chain_row(row: int, points: Array, turns: Array, slope: float, source: Array, relation: Array) -> None:
    """From the gradient of a row's point to those of its known end and of its relation's parameters.

    turns: as for `solve_row`; slope: the derivative of a translation or phase by its parameter
    source: (batch, entity_width) the point's gradient, out the known end's; relation: (batch, relation_width) out
    """
    dim, factor = turns.shape[2], np.float32(slope)
    if turns.shape[0] == 1:
        for k in range(dim):
            relation[row, k] = factor * source[row, k]
    else:
        for k in range(dim):
            real, imaginary = source[row, k], source[row, dim + k]
            relation[row, k] = factor * (imaginary * points[row, k] - real * points[row, dim + k])
            source[row, k] = real * turns[0, row, k] + imaginary * turns[1, row, k]
            source[row, dim + k] = imaginary * turns[0, row, k] - real * turns[1, row, k]


# The update.


@compiled(leaf=True)
def update_row(
    way: int, parameters: Array, first: Array, second: Array, gradient: Array, factors: tuple[float, float, float]
) -> None:
    """Move a row in place; factors: 2 · l2, and for Adam rate / (1 - β₁ᵗ) and 1 / (1 - β₂ᵗ), for Adagrad its rate"""
    if way == ADAM:
        adam_row(parameters, first, second, gradient, factors)
        return
    decay = np.float32(factors[0])
    rate = _adagrad_rate(first, _square(parameters, gradient, decay) / np.float32(len(gradient)), factors)
    for k in range(len(parameters)):
        parameters[k] -= rate * (gradient[k] + decay * parameters[k])


@compiled(leaf=True)
def _adagrad_rate(total: Array, mean_square: Any, factors: tuple[float, float, float]) -> Any:
    """Add the mean of a row's squared gradients to what it has summed up; return the rate that this leaves it."""
    total[0] += mean_square
    return np.float32(factors[1]) / (np.sqrt(total[0]) + np.float32(adagrad.EPSILON))


@compiled(leaf=True, sums=True)
def _square(parameters: Array, gradient: Array, decay: Any) -> Any:
    """The sum of squared gradients, those of the L2 term included."""
    total = np.float32(0)
    for k in range(len(gradient)):
        value = gradient[k] + decay * parameters[k]
        total += value * value
    return total


@compiled(leaf=True)
def settle_pair(
    way: int,
    point: Array,
    rows: tuple[Array, Array, Array],
    slope: Any,
    kind: int,
    factors: tuple[float, float, float],
    own: Array,
    rest: Array,
) -> None:
    """`add_gradient` and `update_row` of an entity that has no other gradient; own: room for it

    rows: its vector, and what the optimiser keeps of it
    """
    vector = rows[0]
    if way == ADAM or kind == MODULI:
        for k in range(len(own)):
            own[k] = np.float32(0)
        add_gradient(point, vector, slope, kind, own, rest)
        update_row(way, vector, rows[1], rows[2], own, factors)
        return
    # A gradient that costs so little is computed twice rather than stored.
    decay = np.float32(factors[0])
    square = _pair_square(point, vector, slope, kind, decay)
    rate = _adagrad_rate(rows[1], square / np.float32(len(point)), factors)
    for k in range(len(point)):
        gradient = _pull(slope, point[k], vector[k], kind)
        rest[k] += gradient
        vector[k] -= rate * (decay * vector[k] - gradient)


@compiled(leaf=True, sums=True)
def _pair_square(point: Array, vector: Array, slope: Any, kind: int, decay: Any) -> Any:
    """`_square` of a vector whose only gradient is that of one pair."""
    total = np.float32(0)
    for k in range(len(point)):
        value = decay * vector[k] - _pull(slope, point[k], vector[k], kind)
        total += value * value
    return total


@compiled(leaf=True)
def adam_row(
    parameters: Array, mean: Array, square: Array, gradient: Array, factors: tuple[float, float, float]
) -> None:
    """`update_row` by Adam."""
    decay, rate, correction = np.float32(factors[0]), np.float32(factors[1]), np.float32(factors[2])
    first, second, epsilon = np.float32(FIRST_DECAY), np.float32(SECOND_DECAY), np.float32(EPSILON)
    first_rest, second_rest = np.float32(1 - FIRST_DECAY), np.float32(1 - SECOND_DECAY)
    for k in range(len(parameters)):
        g = gradient[k] + decay * parameters[k]
        m = first * mean[k] + first_rest * g
        v = second * square[k] + second_rest * (g * g)
        mean[k], square[k] = m, v
        parameters[k] -= rate * m / (np.sqrt(v * correction) + epsilon)
