"""Ranking on the CPU: nearest-neighbour counts without a table of distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels.cpu_compile import (
    EUCLIDEAN,
    MODULI,
    compiled,
    gap_kind,
    kernel_table,
    next_task,
    slice_gap,
    task_done,
    wait_for_tasks,
)
from ookg.kernels.threads import run_tasks
from ookg.models.geometry import Geometry, kernel_of
from ookg.types import Array

TILE = 64  # queries that share a pass over the entities; their points fit the second-level cache
BLOCK = 1024  # entities per task, where there are too few tiles to keep all cores busy
CHUNK = 128  # coordinates between two checks whether a gap is already too large


def rank_counts(
    geometry: Geometry, points: Array, table: Array, answers: Array, others: Array, offsets: Array
) -> tuple[Array, Array]:
    """How many rows of a table are closer to each point than the point's answer, and how many others as close.

    points: (queries, entity_width); table: (entities, entity_width), of 16 bits or more
    answers: (queries,) rows of the table
    others, offsets: rows that do not count for query n are others[offsets[n]:offsets[n + 1]], in any order
    """
    query = np.repeat(np.arange(len(answers)), np.diff(offsets))
    others = others[np.lexsort((others, query))]
    answers, offsets = np.ascontiguousarray(answers), np.ascontiguousarray(offsets)
    counts = np.zeros((-(-len(table) // BLOCK), 2, len(answers)), dtype=np.int64)
    points, table = np.ascontiguousarray(points), kernel_table(table)
    tasks = -(-len(answers) // TILE) * len(counts)
    numbers = len(answers) * table.size
    run_tasks(_count, tasks, numbers, points, table, answers, others, offsets, gap_kind(geometry), counts)
    better, equal = counts.sum(axis=0)
    return better, equal


def gap_to_all(geometry: Geometry, points: Array, table: Array) -> Array:
    """The gaps from each point to each row of a table, (points, width) and (rows, width) -> (points, rows)."""
    gaps = np.empty((len(points), len(table)), dtype=np.result_type(points, table))  # of 16 bits and 32: 32
    tasks = -(-len(points) // TILE) * -(-len(table) // BLOCK)
    arrays = np.ascontiguousarray(points), kernel_table(table)
    run_tasks(_fill_gaps, tasks, len(points) * table.size, *arrays, gap_kind(geometry), gaps)
    return np.square(gaps, out=gaps) if kernel_of(geometry).squared else gaps


def gap_to_rows(geometry: Geometry, point: Array, table: Array, rows: Array) -> Array:
    """The gaps from a point, (1, width), to some rows of a table, (rows,): the same bits as those to all of it."""
    gaps = np.empty(len(rows), dtype=np.result_type(point, table))
    arrays = np.ascontiguousarray(point), kernel_table(table), np.ascontiguousarray(rows)
    run_tasks(_fill_row_gaps, -(-len(rows) // BLOCK), len(rows) * table.shape[1], *arrays, gap_kind(geometry), gaps)
    return np.square(gaps, out=gaps) if kernel_of(geometry).squared else gaps


@compiled(leaf=True)
def _gap_within(points: Array, point: int, table: Array, row: int, kind: int, limit: Any) -> Any:
    """The gap of two rows (its square if Euclidean), or a number beyond the limit if the gap is.

    All terms are 0 or more, so a partial sum beyond the limit decides.
    """
    dim = points.shape[1] // 2 if kind == MODULI else points.shape[1]
    total = slice_gap(points, point, table, row, kind, 0, min(CHUNK, dim))
    for first in range(CHUNK, dim, CHUNK):
        if total > limit:
            break
        total += slice_gap(points, point, table, row, kind, first, min(first + CHUNK, dim))
    return total


@compiled()
def _count(
    board: Array,
    points: Array,
    table: Array,
    answers: Array,
    others: Array,
    offsets: Array,
    kind: int,
    counts: Array,
) -> None:
    """counts: (blocks of entities, 2, queries) out"""
    queries, blocks = len(answers), len(counts)
    task = next_task(board, 0)
    while task >= 0:
        tile, block = task // blocks, task % blocks
        start, end = tile * TILE, min(queries, (tile + 1) * TILE)
        first, last = block * BLOCK, min(len(table), (block + 1) * BLOCK)
        own, limit = np.empty(TILE, dtype=points.dtype), np.full(TILE, np.inf, dtype=points.dtype)
        following = np.empty(TILE, dtype=np.int64)  # the next row of `others` of each query
        for query in range(start, end):
            place = offsets[query]
            while place < offsets[query + 1] and others[place] < first:
                place += 1
            following[query - start] = place
        # The answers come first, as if they stood before the block. They pass through the same instructions as their
        # rivals: equal vectors have equal gaps to the last bit.
        for entity in range(first - 1, last):
            for query in range(start, end):
                row, number = entity, query - start
                if entity < first:
                    row = answers[query]
                else:
                    place, known = following[number], False
                    while place < offsets[query + 1] and others[place] == entity:
                        place, known = place + 1, True
                    following[number] = place
                    if known or row == answers[query]:
                        continue
                gap = _gap_within(points, query, table, row, kind, limit[number])
                if kind == EUCLIDEAN:
                    square, gap = gap, np.sqrt(gap)
                    bound = square * np.float32(1.000001)  # roots of different squares may be equal
                else:
                    bound = gap
                if entity < first:
                    own[number], limit[number] = gap, bound
                elif gap < own[number]:
                    counts[block, 0, query] += 1
                elif gap == own[number]:
                    counts[block, 1, query] += 1
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _fill_gaps(board: Array, points: Array, table: Array, kind: int, gaps: Array) -> None:
    blocks = -(-len(table) // BLOCK)
    task = next_task(board, 0)
    while task >= 0:
        tile, block = task // blocks, task % blocks
        for row in range(block * BLOCK, min(len(table), (block + 1) * BLOCK)):
            for point in range(tile * TILE, min(len(points), (tile + 1) * TILE)):
                total = _gap_within(points, point, table, row, kind, np.inf)
                gaps[point, row] = np.sqrt(total) if kind == EUCLIDEAN else total
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _fill_row_gaps(board: Array, points: Array, table: Array, rows: Array, kind: int, gaps: Array) -> None:
    block = next_task(board, 0)
    while block >= 0:
        for place in range(block * BLOCK, min(len(rows), (block + 1) * BLOCK)):
            total = _gap_within(points, 0, table, rows[place], kind, np.inf)
            gaps[place] = np.sqrt(total) if kind == EUCLIDEAN else total
        task_done(board, 0)
        block = next_task(board, 0)
    wait_for_tasks(board, 0)
