"""Residuals of training triples, and the estimates that are made with them, on the CPU in one pass over the vectors."""

from __future__ import annotations

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
from ookg.kernels.cpu_newcomers import AHEAD, GROUPS, group_starts, turns_of
from ookg.kernels.threads import run_tasks
from ookg.models.geometry import Geometry
from ookg.types import Array


def residual_sums(
    geometry: Geometry, tables: tuple[Array, Array], owner: Array, neighbor: Array, directed: Array, size: int
) -> Array:
    """Σ (v - c)², Σ v and Σ v² over the triples of each of `size` directed relations, (3, size, entity_width), float64.

    tables: the entities' and the relations' vectors; owner, neighbor, directed: (triples,), by ascending `directed`
    """
    entities, relations = tables
    totals = np.zeros((3, size, geometry.entity_width))
    numbers = len(directed) * geometry.entity_width
    links = owner, neighbor, group_starts(directed, size)
    run_tasks(_sum_residuals, size, numbers, kernel_table(entities), turns_of(geometry, relations), links, totals)
    return totals


def estimates(
    geometry: Geometry,
    tables: tuple[Array, Array],
    links: tuple[Array, Array, Array],
    rows: tuple[Array, Array, Array],
    typical: tuple[Array, Array, Array],
    prior: float,
    num_groups: int,
) -> Array:
    """(Σ c/s² + λ mean m/t²) / P and P = Σ 1/s² + λ mean 1/t² over each group's rows, (2, num_groups, entity_width).

    NaN and 0 for a group without rows.

    tables, links: as for `weighted_candidates`
    rows: rows of the support, their directed relations, and their groups, ascending; (rows,) each
    typical: 1/s², m and 1/t², by directed relation; prior: λ
    """
    entities, relations = tables
    chosen, directed, place = rows
    sums = np.zeros((2, num_groups, geometry.entity_width), dtype=relations.dtype)
    run_tasks(
        _sum_estimates,
        -(-num_groups // GROUPS),
        len(chosen) * geometry.entity_width,
        kernel_table(entities),
        turns_of(geometry, relations),
        links,
        (chosen, directed, group_starts(place, num_groups)),
        typical,
        np.float32(prior),
        sums,
    )
    with np.errstate(all="ignore"):
        np.divide(sums[0], sums[1], out=sums[0])
    return sums


@compiled(leaf=True)
def _set_candidate(vector: Array, turns: Array, relation: int, is_head: bool, candidate: Array) -> None:
    """solve_head or solve_tail."""
    if turns.shape[0] == 1:
        translation = turns[0, relation]
        sign = np.float32(-1 if is_head else 1)
        for k in range(len(candidate)):
            candidate[k] = widened(vector[k]) + sign * translation[k]
    else:
        cosine, sine = turns[0, relation], turns[1, relation]
        dim = len(cosine)
        other_vector, other_candidate = vector[dim:], candidate[dim:]
        sign = np.float32(-1 if is_head else 1)
        for k in range(dim):
            c, s = cosine[k], sign * sine[k]
            real, imaginary = widened(vector[k]), widened(other_vector[k])
            candidate[k] = real * c - imaginary * s
            other_candidate[k] = real * s + imaginary * c


@compiled(leaf=True)
def _add_residual(own: Array, candidate: Array, residual: Array, total: Array, square: Array) -> None:
    for k in range(len(own)):
        value = np.float64(widened(own[k]))
        off = value - candidate[k]
        residual[k] += off * off
        total[k] += value
        square[k] += value * value


@compiled()
def _sum_residuals(
    board: Array, entities: Array, turns: Array, links: tuple[Array, Array, Array], totals: Array
) -> None:
    """A task is a directed relation."""
    owner, neighbor, starts = links
    candidate = np.empty(entities.shape[1], dtype=turns.dtype)
    task = next_task(board, 0)
    while task >= 0:
        for row in range(starts[task], starts[task + 1]):
            prefetch_row(entities, owner[min(row + AHEAD, len(owner) - 1)])
            prefetch_row(entities, neighbor[min(row + AHEAD, len(owner) - 1)])
            _set_candidate(entities[neighbor[row]], turns, task // 2, task % 2 == 0, candidate)
            _add_residual(entities[owner[row]], candidate, totals[0, task], totals[1, task], totals[2, task])
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled(leaf=True)
def _add_weighted(candidate: Array, precision: Array, total: Array, certain: Array) -> None:
    for k in range(len(candidate)):
        total[k] += candidate[k] * precision[k]
        certain[k] += precision[k]


@compiled()
def _sum_estimates(
    board: Array,
    entities: Array,
    turns: Array,
    links: tuple[Array, Array, Array],
    rows: tuple[Array, Array, Array],
    typical: tuple[Array, Array, Array],
    prior: np.float32,
    sums: Array,
) -> None:
    """links: neighbor, relation and is_head by row of the support; rows: those that count, and where groups start"""
    neighbor, relation, is_head = links
    chosen, directed, starts = rows
    precision, centre, centre_precision = typical
    candidate, held = np.empty(entities.shape[1], dtype=turns.dtype), np.empty(entities.shape[1], turns.dtype)
    task = next_task(board, 0)
    while task >= 0:
        for group in range(task * GROUPS, min(sums.shape[1], (task + 1) * GROUPS)):
            share = prior / np.float32(max(1, starts[group + 1] - starts[group]))
            for number in range(starts[group], starts[group + 1]):
                prefetch_row(entities, neighbor[chosen[min(number + AHEAD, len(chosen) - 1)]])
                row, kind = chosen[number], directed[number]
                _set_candidate(entities[neighbor[row]], turns, relation[row], is_head[row], candidate)
                _add_weighted(candidate, precision[kind], sums[0, group], sums[1, group])
                if prior > 0:
                    for k in range(len(held)):
                        held[k] = share * centre_precision[kind, k]
                    _add_weighted(centre[kind], held, sums[0, group], sums[1, group])
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
