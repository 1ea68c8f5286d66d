# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The updates of a training step on a GPU where only the rows that it touches move.

The places of a step (a place names one entity, or one relation) are sorted by what they name. Each place has a program.
One that is the first of its row sums up the gradients of all places of that row, in the order of the places, and moves
the row; the others end at once. So the work is that of the places, however long the table is, nothing is added
atomically, and the same seed gives the same bits. No list of the touched rows is made, so a step needs no word from the
device and can be captured.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ookg.kernels import adagrad as plain_adagrad
from ookg.kernels.gpu_step import BETA_1, BETA_2, EPS, LOG_BETA_1, LOG_BETA_2, adam, with_pairs

ADAGRAD_EPS = tl.constexpr(plain_adagrad.EPSILON)
# How rows are moved.
ADAM, COMPACT_ADAM, ADAGRAD = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def is_first(sorted_ptr, place, key, last_key):
    """Whether a place is the first that names its row, and names one: a key of last_key or more names nothing."""
    before = tl.load(sorted_ptr + place - 1, mask=place > 0, other=0)
    return ((place == 0) | (before != key)) & (key < last_key)


@triton.jit
def tile_of_row(sorted_ptr, start, key, places, TILE: tl.constexpr):
    """Some sorted places from start on, and which of them name the row of a key."""
    place = start + tl.arange(0, TILE)
    live = place < places
    return place, live & (tl.load(sorted_ptr + place, mask=live, other=0) == key)


@triton.jit
def row_total(total_ptr, row, total, squares, WIDTH: tl.constexpr, WAY: tl.constexpr):
    """The one number that is kept of a row, with this update's g² in it; it is stored.

    total: the number before; squares: the sum of g² over the row
    """
    if WAY == ADAGRAD:
        total += squares / WIDTH
    else:
        total = BETA_2 * total + (1 - BETA_2) * squares / WIDTH
    tl.store(total_ptr + row, total)
    return total


@triton.jit
def moved(
    table_ptr, first_ptr, second_ptr, row, column, inside, value, gradient, total, rate, updates_ptr,
    WIDTH: tl.constexpr, WAY: tl.constexpr,
):  # fmt: skip
    """Move some numbers of a row, in place.

    first, second: Adam's moments; total: what is kept of the row as one number, this update's g² in it
    """
    where = row * WIDTH + column
    if WAY == ADAGRAD:
        step = rate * gradient / (tl.sqrt(total) + ADAGRAD_EPS)
        tl.store(table_ptr + where, value - step, mask=inside)
    else:
        updates = tl.load(updates_ptr).to(tl.float64)
        correction_1 = (1.0 - tl.exp(updates * LOG_BETA_1)).to(tl.float32)
        correction_2 = (1.0 - tl.exp(updates * LOG_BETA_2)).to(tl.float32)
        if WAY == COMPACT_ADAM:
            mean = BETA_1 * tl.load(first_ptr + where, mask=inside, other=0.0).to(tl.float32) + (1 - BETA_1) * gradient
            tl.store(first_ptr + where, mean.to(tl.bfloat16), mask=inside)
            step = (rate / correction_1) * mean / (tl.sqrt(total / correction_2) + EPS)
            tl.store(table_ptr + where, value - step, mask=inside)
        else:
            adam(table_ptr, first_ptr, second_ptr, where, inside, value, gradient, rate, correction_1, correction_2)


@triton.jit
def touched_entities(
    table_ptr, first_ptr, second_ptr, points_ptr, coefficients_ptr, sorted_ptr, order_ptr, updates_ptr, rate_ptr,
    l2, batch, places, last_key, key_offset,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, TILE: tl.constexpr,
    COMPLEX: tl.constexpr, GAP: tl.constexpr, WAY: tl.constexpr, LOCAL: tl.constexpr,
):  # fmt: skip
    """One place per program, the first of each entity at work: `ookg.kernels.gpu_step.entities` for what is touched.

    key_offset: added to a key it gives the entity
    LOCAL: the table and what is kept beside it hold the row of a first place at that place, not all entities' rows
    """
    first = tl.program_id(0).to(tl.int64)
    key = tl.load(sorted_ptr + first)
    if is_first(sorted_ptr, first, key, last_key):
        row = first if LOCAL else key.to(tl.int64) + key_offset
        WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
        column = tl.arange(0, BLOCK)
        inside = column < DIM
        x = tl.load(table_ptr + row * WIDTH + column, mask=inside, other=0.0)
        total = 0.0
        if WAY != ADAM:  # read before sums that all threads wait for: one of them stores it anew
            total = tl.load(second_ptr + row)
        gx = 2 * l2 * x
        y, gy = x, gx
        if COMPLEX:
            y = tl.load(table_ptr + row * WIDTH + DIM + column, mask=inside, other=0.0)
            gy = 2 * l2 * y
        start = first
        count = TILE
        while count == TILE:
            place, live = tile_of_row(sorted_ptr, start, key, places, TILE)
            gx, gy = with_pairs(
                gx, gy, points_ptr, coefficients_ptr, order_ptr, place, live, x, y, column, inside, batch,
                DIM, COLUMNS, COMPLEX, GAP,
            )  # fmt: skip
            count = tl.sum(live.to(tl.int32), axis=0)
            start += TILE
        rate = tl.load(rate_ptr)
        if WAY != ADAM:
            squares = gx * gx
            if COMPLEX:
                squares += gy * gy
            total = row_total(second_ptr, row, total, tl.sum(squares, axis=0), WIDTH, WAY)
        moved(
            table_ptr, first_ptr, second_ptr, row, column, inside, x, gx, total, rate, updates_ptr,
            WIDTH=WIDTH, WAY=WAY,
        )  # fmt: skip
        if COMPLEX:
            moved(
                table_ptr, first_ptr, second_ptr, row, DIM + column, inside, y, gy, total, rate, updates_ptr,
                WIDTH=WIDTH, WAY=WAY,
            )  # fmt: skip


@triton.jit
def touched_rows(
    table_ptr, first_ptr, second_ptr, gradients_ptr, sorted_ptr, order_ptr, updates_ptr, rate_ptr,
    l2, places, last_key, key_offset,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, WAY: tl.constexpr, LOCAL: tl.constexpr,
):  # fmt: skip
    """One place per program, the first of each row at work: the sum of its places' gradients, and the row's move.

    gradients: (places, WIDTH), by the places before they were sorted
    """
    first = tl.program_id(0).to(tl.int64)
    key = tl.load(sorted_ptr + first)
    if is_first(sorted_ptr, first, key, last_key):
        row = first if LOCAL else key.to(tl.int64) + key_offset
        column = tl.arange(0, BLOCK)
        inside = column < WIDTH
        x = tl.load(table_ptr + row * WIDTH + column, mask=inside, other=0.0)
        total = 0.0
        if WAY != ADAM:
            total = tl.load(second_ptr + row)
        gradient = 2 * l2 * x
        start = first
        count = TILE
        while count == TILE:
            place, live = tile_of_row(sorted_ptr, start, key, places, TILE)
            source = tl.load(order_ptr + place, mask=live, other=0)[:, None] * WIDTH + column[None, :]
            gradient += tl.sum(tl.load(gradients_ptr + source, mask=live[:, None] & inside[None, :], other=0.0), axis=0)
            count = tl.sum(live.to(tl.int32), axis=0)
            start += TILE
        if WAY != ADAM:
            total = row_total(second_ptr, row, total, tl.sum(gradient * gradient, axis=0), WIDTH, WAY)
        moved(
            table_ptr, first_ptr, second_ptr, row, column, inside, x, gradient, total, tl.load(rate_ptr), updates_ptr,
            WIDTH=WIDTH, WAY=WAY,
        )  # fmt: skip
