# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Sums of messages over the links of a graph on a GPU, without a tensor of links × width.

Links are grouped by the row that they add to, and long groups are cut into pieces, so that a hub does not hold up all
others. A group of one piece is stored; pieces of a longer one are added atomically, and their order is open: the last
bits of such a sum differ from run to run.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def summed(
    left_ptr, right_ptr, out_ptr, starts_ptr, ends_ptr, rows_ptr, alone_ptr, left_of_ptr, right_of_ptr,
    WIDTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Add left[a] · right[b] over one piece of a group's pairs (a, b) to the group's row, for one tile of the columns.

    left, right, out: (rows, WIDTH); alone: whether the piece is its whole group
    """
    piece = tl.program_id(0)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < WIDTH
    total = tl.zeros((TILE,), tl.float32)
    for place in range(tl.load(starts_ptr + piece), tl.load(ends_ptr + piece)):
        left = tl.load(left_of_ptr + place).to(tl.int64) * WIDTH + column
        right = tl.load(right_of_ptr + place).to(tl.int64) * WIDTH + column
        one = tl.load(left_ptr + left, mask=inside, other=0).to(tl.float32)
        total += one * tl.load(right_ptr + right, mask=inside, other=0).to(tl.float32)
    out = out_ptr + tl.load(rows_ptr + piece).to(tl.int64) * WIDTH + column
    if tl.load(alone_ptr + piece) != 0:
        tl.store(out, total, mask=inside)
    else:
        tl.atomic_add(out, total, mask=inside)
