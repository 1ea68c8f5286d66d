"""A training step that moves whole tables, compiled for the CPU.

The pairs of all rows are sorted by entity: an entity's vector stays in the first-level cache while the points, a table
far smaller than that of the entities, pass by; and its gradient is summed up in one place, so that nothing races. No
(batch, negatives, dim) numbers are ever stored.

The result depends neither on the number of threads nor on where the arrays lie: work is cut by the shapes alone, and
each sum has one owner.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels.cpu_batches import TASKS, draw_rows, first_from
from ookg.kernels.cpu_compile import (
    EUCLIDEAN,
    compiled,
    next_task,
    prefetch_row,
    slice_gap,
    task_done,
    wait_for_tasks,
)
from ookg.kernels.cpu_equations import adam_row, add_gradient, add_two_gradients, chain_row, row_loss, solve_row
from ookg.kernels.cpu_order import Groups, Room, equal_parts, group_rows, no_marks, sort_pairs
from ookg.types import Array

# Parts of the backward pass, each with point gradients of its own. A constant, because the order of sums, and so the
# result to the last bit, depends on how the work is cut.
PARTS = 8
AHEAD = 4  # how many ranks before it is needed a row is asked for

# Tasks of its phases: negatives and points; the order of pairs, and of rows; gaps; losses; gradients of the pairs;
# those of known ends and relations; the update of entities, then of relations.
PHASES = (TASKS, 2, TASKS, TASKS, PARTS, TASKS, 2 * TASKS)


@compiled()
def gaps_of(
    first: int,
    last: int,
    entities: Array,
    points: Array,
    touched: Array,
    pairs: tuple[Array, Array],
    kind: int,
    gaps: Array,
) -> None:
    """The gaps of the pairs of some ranks."""
    offsets, places = pairs
    for rank in range(first, last):
        if rank + AHEAD < last:
            prefetch_row(entities, touched[rank + AHEAD])
        for pair in range(offsets[rank], offsets[rank + 1]):
            total = slice_gap(points, places[0, pair], entities, touched[rank], kind, 0, -1)
            gaps[places[1, pair]] = np.sqrt(total) if kind == EUCLIDEAN else total


@compiled(leaf=True)
def _add_entity_gradients(
    vector: Array,
    points: Array,
    first: int,
    last: int,
    places: Array,
    slopes: Array,
    kind: int,
    own: Array,
    rest: Array,
) -> None:
    """Set the gradient of one entity, `own`; add to those of its pairs' points, `rest` (batch, entity_width)."""
    zero = np.float32(0)
    for k in range(len(own)):
        own[k] = zero
    pair = first
    while pair < last:
        row, slope = places[0, pair], slopes[places[1, pair]]
        if pair + 1 < last and places[0, pair + 1] != row:
            rows, both = (row, places[0, pair + 1]), (slope, slopes[places[1, pair + 1]])
            if both[0] != zero or both[1] != zero:
                add_two_gradients(points, rows, vector, both, kind, own, rest)
            pair += 2
        else:
            if slope != zero:
                add_gradient(points[row], vector, slope, kind, own, rest[row])
            pair += 1


@compiled()
def gradients_of(
    first: int,
    last: int,
    entities: Array,
    points: Array,
    pairs: tuple[Array, Array],
    touched: Array,
    slopes: Array,
    kind: int,
    out: tuple[Array, Array],
) -> None:
    """The gradients of the pairs of some ranks; out: own, (touched, entity_width), and rest, (batch, entity_width)"""
    offsets, places = pairs
    own, rest = out
    rest[:] = np.float32(0)
    for rank in range(first, last):
        if rank + AHEAD < last:
            prefetch_row(entities, touched[rank + AHEAD])
        begin, end = offsets[rank], offsets[rank + 1]
        if begin < end:
            _add_entity_gradients(entities[touched[rank]], points, begin, end, places, slopes, kind, own[rank], rest)


@compiled()
def _sum_parts(row: int, rest: Array, total: Array) -> None:
    """The sum over all parts of the gradient of a row's point, to total (batch, entity_width)."""
    for k in range(total.shape[1]):
        total[row, k] = rest[0, row, k]
    for part in range(1, len(rest)):
        for k in range(total.shape[1]):
            total[row, k] += rest[part, row, k]


@compiled()
def _update_rows(
    task: int,
    tables: tuple[Array, Array, Array],
    own: tuple[Array, Array],
    count: int,
    groups: tuple[Array, Array, Array],
    rows: Array,
    factors: tuple[float, float, float],
    scratch: tuple[Array, Array],
) -> None:
    """Move the rows of one of TASKS parts of a table.

    tables: the parameters, and Adam's moments
    own: gradients by rank, and where the pairs of each rank begin; a rank without has none
    count, groups: how many ids are touched, and their rows, which add to their gradients
    factors: as for `update_row`; scratch: zeros and room for a sum, both at least as wide as the table
    """
    size, width = tables[0].shape
    touched, offsets, order = groups
    none, total = scratch[0][:width], scratch[1][:width]
    first, last = size * task // TASKS, size * (task + 1) // TASKS
    rank = first_from(touched, 0, count, first)
    for row in range(first, last):
        gradient = none
        if rank < count and touched[rank] == row:
            if own[1][rank] < own[1][rank + 1]:
                gradient = own[0][rank]
            if offsets[rank] < offsets[rank + 1]:
                for k in range(width):
                    total[k] = gradient[k]
                for place in range(offsets[rank], offsets[rank + 1]):
                    for k in range(width):
                        total[k] += rows[order[place], k]
                gradient = total
            rank += 1
        adam_row(tables[0][row], tables[1][row], tables[2][row], gradient, factors)


@compiled()
def take_step(  # noqa: PLR0915 (phase after phase)
    board: Array,
    batch: tuple[Array, Array, Array, Array, Array],
    draws: tuple[Any, tuple[Array, Array, int], int, Array, Array],
    order: tuple[Room, Room, tuple[Array, Array], Array, Groups, Groups],
    forward: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, int, float, float],
    gradients: tuple[Array, Array],
    tables: tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]],
    update: tuple[tuple[float, float, float], tuple[Array, Array], tuple[Array, Array]],
) -> None:
    """A training step, by all threads that call it with one board.

    batch: (batch,) each: the known ends, the answers, the relations, the shares w / Σw / 2, and the losses, out
    draws: start of the random stream, answers, shared, and out ids and usable, all as for `draw_negatives`
    order: rooms to sort pairs and to sort relations in, and out pairs as for `sort_pairs`, (2,) how many entities and
        relations are sorted, and rows grouped by each
    forward: turns, and out points, gaps, slopes
    settings: γ, α, the kind of gap, the sign of `solve_row`, the derivative of a translation or phase by parameter
    gradients: out those of known ends and of relations, by row
    tables: those of entities and of relations with what the optimiser keeps of them
    update: the factors of `update_row`; out the cuts of gaps and of parts; out gradients of entities by rank, and of
        points by part
    """
    source, answer, relation, share, losses = batch
    start, answers, shared, ids, usable = draws
    room, relation_room, pairs, counts, groups, relation_groups = order
    turns, points, gaps, slopes = forward
    margin, temperature, kind, sign, slope = settings
    source_gradient, relation_gradient = gradients
    factors, (gap_cuts, part_cuts), (own, rest) = update
    entities, size, slots = tables[0][0], len(source), ids.shape[1] + 1
    zeros = np.zeros(max(points.shape[1], relation_gradient.shape[1]), dtype=np.float32)
    scratch = (zeros, np.empty_like(zeros))
    no_pairs, marks = np.zeros(size + 1, dtype=np.int32), no_marks()
    task = next_task(board, 0)
    while task >= 0:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        draw_rows(first, last, start, source, relation, answers, shared, ids, usable)
        for row in range(first, last):
            solve_row(row, entities, source[row], relation[row], turns, sign, points)
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
    task = next_task(board, 1)
    while task >= 0:
        if task == 0:
            counts[0] = sort_pairs(ids, usable, marks, (answer, source), len(entities), room, pairs, groups)
            gap_cuts[:] = equal_parts(pairs[0], counts[0], TASKS)
            part_cuts[:] = equal_parts(pairs[0], counts[0], PARTS)
        else:
            counts[1] = group_rows(relation, len(tables[1][0]), relation_room, relation_groups)
        task_done(board, 1)
        task = next_task(board, 1)
    wait_for_tasks(board, 1)
    task = next_task(board, 2)
    while task >= 0:
        gaps_of(gap_cuts[task], gap_cuts[task + 1], entities, points, groups[0], pairs, kind, gaps)
        task_done(board, 2)
        task = next_task(board, 2)
    wait_for_tasks(board, 2)
    task = next_task(board, 3)
    while task >= 0:
        for row in range(size * task // TASKS, size * (task + 1) // TASKS):
            own_slots = slice(row * slots, (row + 1) * slots)
            losses[row] = row_loss(
                gaps[own_slots], usable[row], share[row], (margin, temperature), kind, slopes[own_slots]
            )
        task_done(board, 3)
        task = next_task(board, 3)
    wait_for_tasks(board, 3)
    part = next_task(board, 4)
    while part >= 0:
        first, last = part_cuts[part], part_cuts[part + 1]
        gradients_of(first, last, entities, points, pairs, groups[0], slopes, kind, (own, rest[part]))
        task_done(board, 4)
        part = next_task(board, 4)
    wait_for_tasks(board, 4)
    task = next_task(board, 5)
    while task >= 0:
        for row in range(size * task // TASKS, size * (task + 1) // TASKS):
            _sum_parts(row, rest, source_gradient)
            chain_row(row, points, turns, slope, source_gradient, relation_gradient)
        task_done(board, 5)
        task = next_task(board, 5)
    wait_for_tasks(board, 5)
    task = next_task(board, 6)
    while task >= 0:
        if task < TASKS:
            own_gradients = (own, pairs[0])
            _update_rows(task, tables[0], own_gradients, counts[0], groups, source_gradient, factors, scratch)
        else:
            own_gradients = (own, no_pairs)
            _update_rows(
                task - TASKS, tables[1], own_gradients, counts[1], relation_groups, relation_gradient, factors, scratch
            )
        task_done(board, 6)
        task = next_task(board, 6)
    wait_for_tasks(board, 6)
