"""Vectors for new entities in bulk, on the CPU: gather, solve and weighted sum in one pass over the known vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels.cpu_compile import (
    compiled,
    kernel_table,
    next_task,
    prefetch_row,
    task_done,
    wait_for_tasks,
    widened,
)
from ookg.kernels.threads import run_tasks
from ookg.models.geometry import Geometry, Move, kernel_of
from ookg.system.pages import prefer_large_pages
from ookg.types import Array

GROUPS = 256  # groups per task
MANY_ROWS = 1 << 16  # from which on it pays to hold the known vectors in large pages
AHEAD = 12  # rows between the one that is asked for from memory and the one that is worked on


def weighted_candidates(
    geometry: Geometry,
    tables: tuple[Array, Array],
    links: tuple[Array, Array, Array],
    rows: Array,
    place: Array,
    weights: Array,
    num_groups: int,
) -> Array:
    """Σ w · candidate over the rows of each group, (num_groups, entity_width); 0 for a group without rows.

    tables: the entities' and the relations' vectors, C-contiguous; the entities' may be a mapped file, of 16 bits too
    links: known neighbour, relation, and whether the newcomer is the head, by row of the support
    rows: rows of the support; place: (rows,) their groups, ascending; weights: (rows,) as they are, not normalised here
    """
    entities, relations = tables
    if len(rows) >= MANY_ROWS:
        prefer_large_pages(entities)
    turns = turns_of(geometry, relations)
    sums = np.empty((num_groups, geometry.entity_width), dtype=turns.dtype)
    offsets = group_starts(place, num_groups)
    run_tasks(
        _sum_groups,
        -(-num_groups // GROUPS),
        len(rows) * geometry.entity_width,
        kernel_table(entities),
        turns,
        links,
        rows,
        weights,
        offsets,
        sums,
    )
    return sums


def turns_of(geometry: Geometry, relations: Array) -> Array:
    """What moves entities: translations, (1, relations, dim); or cosines and sines of turns, (2, relations, dim)."""
    match kernel_of(geometry).move:
        case Move.TRANSLATION:
            return np.ascontiguousarray(relations)[None]
        case Move.ROTATION:
            return np.stack([np.cos(relations), np.sin(relations)])


@compiled()
def group_starts(place: Array, num_groups: int) -> Array:
    """(num_groups + 1,) where each group starts in ascending group numbers."""
    starts = np.empty(num_groups + 1, dtype=np.int64)
    number = 0
    for group in range(num_groups):
        starts[group] = number
        while number < len(place) and place[number] == group:
            number += 1
    starts[num_groups] = number
    return starts


@compiled(leaf=True)
def _add_candidate(vector: Array, turns: Array, relation: int, is_head: bool, weight: Any, total: Array) -> None:
    """Add weight · solve_head or solve_tail to the total."""
    if turns.shape[0] == 1:
        translation = turns[0, relation]
        signed = -weight if is_head else weight
        for k in range(len(total)):
            total[k] += weight * widened(vector[k]) + signed * translation[k]
    else:
        cosine, sine = turns[0, relation], turns[1, relation]
        dim = len(cosine)
        other_vector, other_total = vector[dim:], total[dim:]
        signed = -weight if is_head else weight
        for k in range(dim):
            c, s = weight * cosine[k], signed * sine[k]
            real, imaginary = widened(vector[k]), widened(other_vector[k])
            total[k] += real * c - imaginary * s
            other_total[k] += real * s + imaginary * c


@compiled(leaf=True)
def _sum_group(
    entities: Array,
    turns: Array,
    support: tuple[Array, Array, Array],
    rows: Array,
    weights: Array,
    first: int,
    last: int,
    total: Array,
) -> None:
    neighbor, relation, is_head = support
    for k in range(len(total)):
        total[k] = 0
    for number in range(first, last):
        prefetch_row(entities, neighbor[rows[min(number + AHEAD, len(rows) - 1)]])
        row, weight = rows[number], np.float32(weights[number])
        _add_candidate(entities[neighbor[row]], turns, relation[row], is_head[row], weight, total)


@compiled()
def _sum_groups(
    board: Array,
    entities: Array,
    turns: Array,
    support: tuple[Array, Array, Array],
    rows: Array,
    weights: Array,
    offsets: Array,
    sums: Array,
) -> None:
    """support: neighbor, relation and is_head by row; offsets: (groups + 1,) where each group's rows start"""
    task = next_task(board, 0)
    while task >= 0:
        for group in range(task * GROUPS, min(len(sums), (task + 1) * GROUPS)):
            _sum_group(entities, turns, support, rows, weights, offsets[group], offsets[group + 1], sums[group])
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
