# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Rows of a table in the host's memory, which the device reads and writes by itself: no word from the host is needed.

As in `ookg.kernels.gpu_touched` each place has a program, and the first place of a row is at work. On the device the
row lies at that place.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ookg.kernels.gpu_touched import is_first


@triton.jit
def copy_rows(
    table_ptr, local_ptr, sorted_ptr, last_key, key_offset,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, TO_TABLE: tl.constexpr,
):  # fmt: skip
    """One place per program: its row from the table, or back to it."""
    place = tl.program_id(0).to(tl.int64)
    key = tl.load(sorted_ptr + place)
    if is_first(sorted_ptr, place, key, last_key):
        column = tl.arange(0, BLOCK)
        inside = column < WIDTH
        there = table_ptr + (key.to(tl.int64) + key_offset) * WIDTH + column
        here = local_ptr + place * WIDTH + column
        if TO_TABLE:
            tl.store(there, tl.load(here, mask=inside, other=0.0), mask=inside)
        else:
            tl.store(here, tl.load(there, mask=inside, other=0.0), mask=inside)


@triton.jit
def take_rows(
    local_ptr, sorted_ptr, others_ptr, others_sorted_ptr, places, last_key,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    """One place per program: its row from another step's rows, if that step touches it too."""
    place = tl.program_id(0).to(tl.int64)
    key = tl.load(sorted_ptr + place)
    if is_first(sorted_ptr, place, key, last_key):
        low = place * 0
        high = low + places
        for _ in range(SEARCH):
            middle = (low + high) // 2
            below = (low < high) & (tl.load(others_sorted_ptr + tl.minimum(middle, places - 1)) < key)
            high = tl.where(below, high, middle)
            low = tl.where(below, middle + 1, low)
        if (low < places) & (tl.load(others_sorted_ptr + tl.minimum(low, places - 1)) == key):
            column = tl.arange(0, BLOCK)
            inside = column < WIDTH
            row = tl.load(others_ptr + low * WIDTH + column, mask=inside, other=0.0)
            tl.store(local_ptr + place * WIDTH + column, row, mask=inside)
