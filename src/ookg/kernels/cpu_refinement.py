"""Refinement of new entities' vectors on the CPU.

A step is cut into rows, a newcomer and one of its triples each: a row's gradient needs nothing of the others, so one
newcomer with thirty triples keeps all cores busy as well as thirty with one. Then each newcomer adds up its rows, in
their order, and takes Adam's step. Only the gaps of a row's negatives are kept: those few that weigh in its softmax are
read again, from the cache, for their part of the gradient.

The result does not depend on the number of threads, on the other newcomers or on where the arrays lie: each sum has one
owner.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ookg.kernels import randomness
from ookg.kernels.adam import EPSILON, FIRST_DECAY, SECOND_DECAY
from ookg.kernels.cpu_compile import (
    ABSOLUTE,
    EUCLIDEAN,
    TINY,
    compiled,
    next_task,
    prefetch_row,
    slice_gap,
    task_done,
    wait_for_tasks,
)
from ookg.kernels.threads import run_tasks
from ookg.types import Array

TASKS = 64  # parts of the loop over rows, with scratch memory each
AHEAD = 6  # negatives between the one that is asked for from memory and the one that is worked on
# A negative that weighs less than this share of the nearest one's weight would not change a float32 gradient.
NEGLIGIBLE = np.float32(1e-10)
SMALLEST_LENGTH = np.float32(1e-12)  # a shorter vector is not scaled to length 1, as in `torch.nn.functional.normalize`

GOLDEN, FIRST, SECOND = np.uint64(randomness.GOLDEN), np.uint64(randomness.FIRST), np.uint64(randomness.SECOND)


def row_gradients(
    tables: tuple[Array, Array, Array],
    owners: tuple[Array, Array, Array, Array],
    links: tuple[Array, Array, Array],
    answers: tuple[Array, Array, Array],
    step: tuple[int, Any],
    loss: tuple[int, float, float, int, bool],
    gradients: Array,
) -> None:
    """What each row of a step's batch adds to its newcomer's gradient, to gradients (rows, entity_width).

    tables: known vectors, turns and new vectors; owners: keys, offsets, slots and owners of the problem
    links: relation (a row of the turns), neighbor and is_head by triple; answers: answers, first and last
    step: its number and the start of its random stream; loss: negatives, γ, α, the kind of gap, whether it is squared
    """
    numbers = gradients.size * (loss[0] + 1)
    run_tasks(_row_gradients, TASKS, numbers, tables, owners, links, answers, step, loss, gradients)


@compiled()
def _row_gradients(
    board: Array,
    tables: tuple[Array, Array, Array],
    owners: tuple[Array, Array, Array, Array],
    links: tuple[Array, Array, Array],
    answers: tuple[Array, Array, Array],
    step: tuple[int, Any],
    loss: tuple[int, float, float, int, bool],
    gradients: Array,
) -> None:
    rows = len(owners[3])
    point = np.empty((1, gradients.shape[1]), dtype=np.float32)
    total = np.empty(gradients.shape[1], dtype=np.float32)
    ids = np.empty(loss[0] + 1, dtype=np.int64)
    gaps = np.empty(loss[0] + 1, dtype=np.float32)
    scratch = (point, total, ids, gaps)
    task = next_task(board, 0)
    while task >= 0:
        for row in range(rows * task // TASKS, rows * (task + 1) // TASKS):
            _row_gradient(row, tables, owners, links, answers, step, loss, scratch, gradients[row])
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _row_gradient(
    row: int,
    tables: tuple[Array, Array, Array],
    owners: tuple[Array, Array, Array, Array],
    links: tuple[Array, Array, Array],
    answers: tuple[Array, Array, Array],
    step: tuple[int, Any],
    loss: tuple[int, float, float, int, bool],
    scratch: tuple[Array, Array, Array, Array],
    gradient: Array,
) -> None:
    """`row_gradients` of one row; scratch: a point, a sum, ids and gaps, with no meaning before and after."""
    entities, turns, vectors = tables
    keys, offsets, slots, owner = owners
    point, total, ids, gaps = scratch
    negatives, kind, newcomer = loss[0], loss[3], owner[row]
    size, slot = slots[newcomer + 1] - slots[newcomer], row - slots[newcomer]
    count = offsets[newcomer + 1] - offsets[newcomer]
    triple = offsets[newcomer] + (step[0] * size + slot) % count
    relation, is_head = links[0][triple], links[2][triple]
    _draw_negatives(step[1], keys[newcomer] + np.uint64(slot * negatives), answers, triple, len(entities), ids)
    ids[negatives] = links[1][triple]
    _turn(vectors[newcomer], turns, relation, is_head, point[0])
    _find_gaps(entities, point, ids, kind, gaps)
    _find_slopes(ids, gaps, loss, np.float32(0.5) / np.float32(size))
    _sum_gradients(entities, point[0], ids, gaps, kind, total)
    _turn_gradient(total, turns, relation, is_head, gradient)


@compiled(leaf=True)
def _draw_negatives(
    stream: Any, counter: Any, answers: tuple[Array, Array, Array], triple: int, num_entities: int, ids: Array
) -> None:
    """Known entities at random, to all of ids but the last; -1 for one that is a true answer."""
    answer, first, last = answers
    for number in range(len(ids) - 1):
        value = (counter + np.uint64(number)) * GOLDEN + (stream + GOLDEN)
        value = (value ^ (value >> np.uint64(30))) * FIRST
        value = (value ^ (value >> np.uint64(27))) * SECOND
        value = value ^ (value >> np.uint64(31))
        entity = np.int64(((value >> np.uint64(32)) * np.uint64(num_entities)) >> np.uint64(32))
        low, high = first[triple], last[triple]
        while low < high:
            middle = (low + high) // 2
            if answer[middle] < entity:
                low = middle + 1
            else:
                high = middle
        ids[number] = -1 if low < last[triple] and answer[low] == entity else entity


@compiled(leaf=True)
def _turn(vector: Array, turns: Array, relation: int, forward: bool, moved: Array) -> None:
    """The vector moved by the relation, or back."""
    sign = np.float32(1 if forward else -1)
    if turns.shape[0] == 1:
        translation = turns[0, relation]
        for k in range(len(moved)):
            moved[k] = vector[k] + sign * translation[k]
    else:
        _rotate(vector, turns, relation, sign, moved)


@compiled(leaf=True)
def _turn_gradient(vector: Array, turns: Array, relation: int, forward: bool, gradient: Array) -> None:
    """From the gradient at the moved vector to that at the vector itself: a rotation turns it back."""
    if turns.shape[0] == 1:
        for k in range(len(gradient)):
            gradient[k] = vector[k]
    else:
        _rotate(vector, turns, relation, np.float32(-1 if forward else 1), gradient)


@compiled(leaf=True)
def _rotate(vector: Array, turns: Array, relation: int, sign: Any, turned: Array) -> None:
    cosine, sine = turns[0, relation], turns[1, relation]
    dim = len(cosine)
    other_vector, other_turned = vector[dim:], turned[dim:]
    for k in range(dim):
        real, imaginary, s = vector[k], other_vector[k], sign * sine[k]
        turned[k] = real * cosine[k] - imaginary * s
        other_turned[k] = real * s + imaginary * cosine[k]


@compiled(leaf=True)
def _find_gaps(entities: Array, point: Array, ids: Array, kind: int, gaps: Array) -> None:
    """The gaps from the point to entities, not squared; ∞ for the id -1."""
    for number in range(len(ids)):
        prefetch_row(entities, max(0, ids[min(number + AHEAD, len(ids) - 1)]))
        if ids[number] < 0:
            gaps[number] = np.float32(np.inf)
            continue
        total = slice_gap(point, 0, entities, ids[number], kind, 0, -1)
        gaps[number] = np.sqrt(total) if kind == EUCLIDEAN else total


@compiled(leaf=True)
def _find_slopes(ids: Array, gaps: Array, loss: tuple[int, float, float, int, bool], share: Any) -> None:
    """Replace the gaps, the last of which is that of the true answer, by the derivatives of share · 2 · loss.

    For the Euclidean gap they are divided by it (0 where it is 0), whose gradient is (x - y) / gap.
    """
    negatives, kind, squared = loss[0], loss[3], loss[4]
    margin, temperature = np.float32(loss[1]), np.float32(loss[2])
    one, two, zero = np.float32(1), np.float32(2), np.float32(0)
    nearest = np.float32(np.inf)
    for number in range(negatives):
        nearest = min(nearest, gaps[number])
    if squared:
        nearest = nearest * nearest
    total = zero
    for number in range(negatives):
        if ids[number] >= 0:
            gap = gaps[number] * gaps[number] if squared else gaps[number]
            total += math.exp(temperature * (nearest - gap))
    for number in range(negatives + 1):
        length = gaps[number]
        gap = length * length if squared else length
        if number == negatives:
            slope = share / (one + math.exp(margin - gap))
        else:
            weight = math.exp(temperature * (nearest - gap)) if ids[number] >= 0 else zero
            slope = zero
            if weight > NEGLIGIBLE:
                slope = -share * (weight / total) / (one + math.exp(gap - margin))
        if kind == EUCLIDEAN:
            stretch = two if squared else (one / length if length > zero else zero)
        else:
            stretch = two * length if squared else one
        gaps[number] = slope * stretch if slope != zero else zero


@compiled(leaf=True)
def _sum_gradients(entities: Array, point: Array, ids: Array, slopes: Array, kind: int, total: Array) -> None:
    """Σ slope · d gap(point, entity) / d point, where the Euclidean gap's slopes are divided by it."""
    zero = np.float32(0)
    for k in range(len(total)):
        total[k] = zero
    for number in range(len(ids)):
        slope = slopes[number]
        if slope == zero:
            continue
        vector = entities[ids[number]]
        if kind == ABSOLUTE:
            for k in range(len(total)):
                difference = point[k] - vector[k]
                total[k] += slope if difference > zero else (-slope if difference < zero else zero)
        elif kind == EUCLIDEAN:
            for k in range(len(total)):
                total[k] += slope * (point[k] - vector[k])
        else:
            dim = len(total) // 2
            other_point, other_vector, other_total = point[dim:], vector[dim:], total[dim:]
            for k in range(dim):
                real, imaginary = point[k] - vector[k], other_point[k] - other_vector[k]
                factor = slope / np.sqrt(max(real * real + imaginary * imaginary, TINY))
                total[k] += factor * real
                other_total[k] += factor * imaginary


@compiled()
def update_vectors(
    tables: tuple[Array, Array, Array, Array],
    gradients: Array,
    slots: Array,
    factors: tuple[float, float, float],
    unit_norm: int,
) -> None:
    """Adam in place for each newcomer, whose gradient is the sum of its rows and the pull to its start.

    Not in parallel: the negatives take all the time, and waking the other threads takes longer than a small update.

    tables: vectors, start, and Adam's mean and square, each (newcomers, entity_width)
    factors: 2λ, rate / (1 - β₁ᵗ), 1 / (1 - β₂ᵗ); unit_norm: vectors are scaled to length 1 in this norm, 0 for any
    """
    for newcomer in range(len(tables[0])):
        first, last = slots[newcomer], slots[newcomer + 1]
        gradient = gradients[first]  # added up in the first row's place
        for row in range(first + 1, last):
            for k in range(len(gradient)):
                gradient[k] += gradients[row, k]
        _adam(tables, newcomer, gradient, factors)
        vector = tables[0][newcomer]
        if unit_norm != 0:
            length = max(_length(vector, unit_norm), SMALLEST_LENGTH)
            for k in range(len(vector)):
                vector[k] /= length


@compiled(leaf=True, sums=True)
def _length(vector: Array, norm: int) -> Any:
    total = np.float32(0)
    for k in range(len(vector)):
        total += abs(vector[k]) if norm == 1 else vector[k] * vector[k]
    return total if norm == 1 else np.sqrt(total)


@compiled(leaf=True)
def _adam(
    tables: tuple[Array, Array, Array, Array], newcomer: int, gradient: Array, factors: tuple[float, float, float]
) -> None:
    vector, start, mean, square = (
        tables[0][newcomer],
        tables[1][newcomer],
        tables[2][newcomer],
        tables[3][newcomer],
    )
    pull, rate, correction = np.float32(factors[0]), np.float32(factors[1]), np.float32(factors[2])
    first, second, epsilon = np.float32(FIRST_DECAY), np.float32(SECOND_DECAY), np.float32(EPSILON)
    first_rest, second_rest = np.float32(1 - FIRST_DECAY), np.float32(1 - SECOND_DECAY)
    for k in range(len(vector)):
        g = gradient[k] + pull * (vector[k] - start[k])
        m = first * mean[k] + first_rest * g
        v = second * square[k] + second_rest * (g * g)
        mean[k], square[k] = m, v
        vector[k] -= rate * m / (np.sqrt(v * correction) + epsilon)
