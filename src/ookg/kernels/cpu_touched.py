"""A training step that moves only the rows it touches, compiled for the CPU.

Where the table is large, most entities of a step stand in one pair alone. Such a one is done with at once: with its
row's other pairs it comes from memory, gives its gap, gets its gradient and is moved. Only the others are sorted, and
moved when all rows are through.

The result depends neither on the number of threads nor on where the arrays lie: each sum has one owner.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels.cpu_batches import TASKS, draw_rows
from ookg.kernels.cpu_compile import (
    EUCLIDEAN,
    compiled,
    next_task,
    prefetch_row,
    slice_gap,
    task_done,
    wait_for_tasks,
)
from ookg.kernels.cpu_equations import ADAM, add_gradient, chain_row, fast_row_loss, settle_pair, solve_row, update_row
from ookg.kernels.cpu_order import MARK_PARTS, Groups, Room, group_rows, is_alone, mark_part, sort_pairs
from ookg.types import Array

AHEAD = 8  # how many ranks before it is needed a row is asked for

Pairs = tuple[tuple[Array, Array], Array, Array]  # as of `sort_pairs`, the points and the slopes

# Tasks of its phases: negatives; who stands alone, and the order of relations; all that rows do, and the order of
# entities that do not stand alone; the update of these, and of relations.
PHASES = (TASKS, 1 + MARK_PARTS, 1 + TASKS, 2 * TASKS)


@compiled(leaf=True)
def _settle_rows(
    first: int,
    last: int,
    batch: tuple[Array, Array, Array, Array, Array],
    drawn: tuple[Array, Array, Array],
    tables: tuple[Array, Array, Array],
    forward: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, int, float, float],
    how: tuple[int, tuple[float, float, float]],
    out: tuple[Array, Array, tuple[Array, Array, Array]],
) -> None:
    """Gaps, losses and gradients of some rows, and the update of entities that stand alone.

    So most rows of a large table come from memory once, and go back once.

    batch, forward, settings: as for `take_step`; drawn: ids, usable and marks; tables: those of entities
    how: how a row is moved, and the factors of `update_row`
    out: the gradients of known ends and of relations, by row; and room for an entity's gradient, for one that is not
        needed and for a row's losses
    """
    sources, answers, relations, share, losses = batch
    ids, usable, marks = drawn
    turns, points, gaps, slopes = forward
    margin, temperature, kind, sign, slope = settings
    entities, (way, factors) = tables[0], how
    source_gradient, relation_gradient, (own, unused, room) = out
    zero, width, negatives = np.float32(0), points.shape[1], ids.shape[1]
    slots = negatives + 1
    for row in range(first, min(first + 1, last)):
        prefetch_row(entities, sources[row])
        prefetch_row(entities, answers[row])
        for number in range(negatives):
            prefetch_row(entities, ids[row, number])
    for row in range(first, last):
        solve_row(row, entities, sources[row], relations[row], turns, sign, points)
        base, rest = row * slots, source_gradient[row]
        for number in range(slots):
            total = zero
            if number == negatives or usable[row, number]:
                entity = ids[row, number] if number < negatives else answers[row]
                prefetch_row(tables[1], entity)
                if way == ADAM:
                    prefetch_row(tables[2], entity)
                total = slice_gap(points, row, entities, entity, kind, 0, -1)
            gaps[base + number] = np.sqrt(total) if kind == EUCLIDEAN else total
        losses[row] = fast_row_loss(
            gaps[base : base + slots], usable[row], share[row], (margin, temperature), kind,
            slopes[base : base + slots], room,
        )  # fmt: skip
        for k in range(width):
            rest[k] = zero
        if row + 1 < last:
            prefetch_row(entities, sources[row + 1])
            prefetch_row(entities, answers[row + 1])
        for number in range(slots):
            if row + 1 < last and number < negatives:
                prefetch_row(entities, ids[row + 1, number])
            if number < negatives and not usable[row, number]:
                continue
            entity = ids[row, number] if number < negatives else answers[row]
            if is_alone(marks, entity):
                rows = (entities[entity], tables[1][entity], tables[2][entity])
                settle_pair(way, points[row], rows, slopes[base + number], kind, factors, own[:width], rest)
            else:
                add_gradient(points[row], entities[entity], slopes[base + number], kind, unused, rest)
        chain_row(row, points, turns, slope, source_gradient, relation_gradient)


@compiled(leaf=True)
def _ask_for(rank: int, tables: tuple[Array, Array, Array], pairs: Pairs, groups: Groups, gradient: Array) -> None:
    """Ask memory for all that `_move_rows` needs of a rank."""
    (offsets, places), points, _ = pairs
    touched, row_offsets, order = groups
    for table in tables:
        prefetch_row(table, touched[rank])
    for pair in range(offsets[rank], offsets[rank + 1]):
        prefetch_row(points, places[0, pair])
    for place in range(row_offsets[rank], row_offsets[rank + 1]):
        prefetch_row(gradient, order[place])


@compiled(leaf=True)
def _move_rows(
    first: int,
    last: int,
    tables: tuple[Array, Array, Array],
    pairs: Pairs,
    groups: Groups,
    gradient: Array,
    how: tuple[int, int, tuple[float, float, float]],
    scratch: tuple[Array, Array, Array],
) -> None:
    """Sum up the gradients of some ranks, and move them.

    tables: a table, and what the optimiser keeps of it
    groups: the rows of each rank, whose gradients are part of its own; gradient: those, by row
    how: the kind of gap, how a row is moved, and the factors of `update_row`
    scratch: as of `_settle_rows`
    """
    (offsets, places), points, slopes = pairs
    touched, row_offsets, order = groups
    kind, way, factors = how
    width, own, unused = gradient.shape[1], scratch[0], scratch[1]
    for rank in range(first, min(first + AHEAD, last)):
        _ask_for(rank, tables, pairs, groups, gradient)
    for rank in range(first, last):
        if rank + AHEAD < last:
            _ask_for(rank + AHEAD, tables, pairs, groups, gradient)
        vector = tables[0][touched[rank]]
        for k in range(width):
            own[k] = np.float32(0)
        for pair in range(offsets[rank], offsets[rank + 1]):
            add_gradient(points[places[0, pair]], vector, slopes[places[1, pair]], kind, own, unused)
        for place in range(row_offsets[rank], row_offsets[rank + 1]):
            for k in range(width):
                own[k] += gradient[order[place], k]
        update_row(way, vector, tables[1][touched[rank]], tables[2][touched[rank]], own[:width], factors)


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
    update: tuple[tuple[float, float, float], int, Array],
) -> None:
    """A training step, by all threads that call it with one board; its arguments are those of `cpu_step.take_step`.

    update: the factors of `update_row`, how a row is moved, and marks, zeros before and after
    """
    source, answer, relation, _, _ = batch
    start, answers, shared, ids, usable = draws
    room, relation_room, pairs, counts, groups, relation_groups = order
    _, points, _, slopes = forward
    source_gradient, relation_gradient = gradients
    factors, way, marks = update
    size, width = len(source), max(points.shape[1], relation_gradient.shape[1])
    both = np.zeros((2, width), dtype=np.float32)
    scratch = both[0], both[1], np.empty(ids.shape[1], dtype=np.float32)
    no_pairs = np.zeros(size + 1, dtype=np.int32)
    task = next_task(board, 0)
    while task >= 0:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        draw_rows(first, last, start, source, relation, answers, shared, ids, usable)
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
    task = next_task(board, 1)
    while task >= 0:
        if task == 0:
            counts[1] = group_rows(relation, len(tables[1][0]), relation_room, relation_groups)
        else:
            mark_part(task - 1, ids, usable, (answer, source), marks)
        task_done(board, 1)
        task = next_task(board, 1)
    wait_for_tasks(board, 1)
    task = next_task(board, 2)
    while task >= 0:
        if task == 0:
            counts[0] = sort_pairs(ids, usable, marks, (answer, source), len(tables[0][0]), room, pairs, groups)
        else:
            first, last = size * (task - 1) // TASKS, size * task // TASKS
            _settle_rows(
                first, last, batch, (ids, usable, marks), tables[0], forward, settings, (way, factors),
                (source_gradient, relation_gradient, scratch),
            )  # fmt: skip
        task_done(board, 2)
        task = next_task(board, 2)
    wait_for_tasks(board, 2)
    how = (settings[2], way, factors)
    task = next_task(board, 3)
    while task >= 0:
        if task < TASKS:
            first, last = counts[0] * task // TASKS, counts[0] * (task + 1) // TASKS
            all_pairs = (pairs, points, slopes)
            _move_rows(first, last, tables[0], all_pairs, groups, source_gradient, how, scratch)
            marks[len(marks) * task // TASKS : len(marks) * (task + 1) // TASKS] = 0
        else:
            first, last = counts[1] * (task - TASKS) // TASKS, counts[1] * (task - TASKS + 1) // TASKS
            all_pairs = ((no_pairs, pairs[1]), points, slopes)
            _move_rows(first, last, tables[1], all_pairs, relation_groups, relation_gradient, how, scratch)
        task_done(board, 3)
        task = next_task(board, 3)
    wait_for_tasks(board, 3)
