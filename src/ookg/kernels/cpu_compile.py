"""What the compiled CPU kernels share: the three kinds of gap, tasks that threads share, asking memory ahead."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ookg.models.geometry import GapSum, Geometry, kernel_of
from ookg.system.compiling import compiled
from ookg.types import Array

__all__ = [
    "ABSOLUTE",
    "EUCLIDEAN",
    "MODULI",
    "TINY",
    "compiled",
    "exponential",
    "gap_kind",
    "is_done",
    "kernel_table",
    "log_one_plus",
    "next_task",
    "prefetch_row",
    "slice_gap",
    "task_done",
    "wait_for_tasks",
    "widened",
]

LINE = 64  # bytes of a cache line

# Kinds of gap: Σ|x - y|, √Σ(x - y)², and the sum of complex moduli.
ABSOLUTE, EUCLIDEAN, MODULI = 0, 1, 2

# The smallest normal float32: a square below it counts as this, so that 0 / √(it) is 0 and not NaN.
TINY = np.float32(1.1754944e-38)


def gap_kind(geometry: Geometry) -> int:
    """The kind of a gap; a model that declares no kernel is refused: kernels could run over the end of its rows."""
    return {GapSum.SIZES: ABSOLUTE, GapSum.LENGTH: EUCLIDEAN, GapSum.MODULI: MODULI}[kernel_of(geometry).gap]


# Whether the processor reads numbers of 16 bits: all ARM of 64 bits do, and x86 since 2012.
READS_HALVES = platform.machine().lower() in ("aarch64", "arm64") or llvm.get_host_cpu_features().get("f16c", False)


def kernel_table(table: Array) -> Array:
    """A table as kernels take it, C-contiguous: 16 bits as whole numbers, which `widened` reads."""
    table = np.ascontiguousarray(table)
    if table.dtype != np.float16:
        return table
    return table.view(np.uint16) if READS_HALVES else table.astype(np.float32)


def _widened(typing_context: Any, value: Any) -> Any:
    """A number of a table: one of 16 bits in 32, any other as it is."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context
        if signature.args[0] != types.uint16:
            return arguments[0]
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return (types.float32 if value == types.uint16 else value)(value), generate


widened: Callable[[Any], Any] = intrinsic(_widened)


@compiled(leaf=True, sums=True)
def slice_gap(points: Array, point: int, table: Array, row: int, kind: int, first: int, last: int) -> Any:
    """What the coordinates from first to last (-1: all) add to the gap of two rows, to its square if Euclidean."""
    total = np.float32(0)
    if kind == MODULI:
        dim = points.shape[1] // 2
        end = dim if last < 0 else last
        x, y = points[point, first:end], table[row, first:end]
        u, v = points[point, dim + first : dim + end], table[row, dim + first : dim + end]
        for k in range(len(x)):
            real, imaginary = x[k] - widened(y[k]), u[k] - widened(v[k])
            total += np.sqrt(real * real + imaginary * imaginary)
        return total
    end = points.shape[1] if last < 0 else last
    x, y = points[point, first:end], table[row, first:end]
    if kind == ABSOLUTE:
        for k in range(len(x)):
            total += abs(x[k] - widened(y[k]))
    else:
        for k in range(len(x)):
            difference = x[k] - widened(y[k])
            total += difference * difference
    return total


# Two functions for loops, where those of the C library would be called for one number at a time. Both are right to a
# few units of the last place.

LOG2_E, LOG_2, LOG_2_REST = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.1219444e-4)
# Those of Cephes, a library of such functions, for (eʳ - 1 - r) / r² where |r| is at most log(2) / 2.
POWERS = tuple(np.float32(c) for c in (1.9875691e-4, 1.3981999e-3, 8.3334519e-3, 4.16657959e-2, 1.66666655e-1, 0.5))


def _with_bits(typing_context: Any, bits: Any) -> Any:
    """The number of 32 bits that has these."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(bits), generate


with_bits: Callable[[Any], Any] = intrinsic(_with_bits)


@compiled(leaf=True)
def exponential(x: Any) -> Any:
    """eˣ of a number of at most 0; below -87, where it nears the smallest one, as at -87."""
    x = max(x, np.float32(-87))
    whole = np.floor(x * LOG2_E + np.float32(0.5))
    r = x - whole * LOG_2 - whole * LOG_2_REST
    total = POWERS[0]
    total = total * r + POWERS[1]
    total = total * r + POWERS[2]
    total = total * r + POWERS[3]
    total = total * r + POWERS[4]
    total = total * r + POWERS[5]
    power_of_two = with_bits(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))
    return (total * (r * r) + r + np.float32(1)) * power_of_two


@compiled(leaf=True)
def log_one_plus(x: Any) -> Any:
    """log(1 + x) of a number from 0 to 1, as 2 · artanh(x / (2 + x))."""
    z = x / (np.float32(2) + x)
    w = z * z
    series = np.float32(1 / 7) + w * (np.float32(1 / 9) + w * np.float32(1 / 11))
    return np.float32(2) * z * (np.float32(1) + w * (np.float32(1 / 3) + w * (np.float32(1 / 5) + w * series)))


# Tasks that threads share. A board has a row for each phase of the work: how many tasks are taken, how many are done,
# and how many there are.


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any, column: int) -> Any:
    """Where a board has a number of a phase."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    index = ir.IntType(64)
    place = builder.add(builder.mul(arguments[1], ir.Constant(index, 3)), ir.Constant(index, column))
    return builder.gep(array.data, [place])


def _next_task(typing_context: Any, board: Any, phase: Any) -> Any:
    """Take the next task of a phase; -1 if all are taken."""
    del typing_context, phase

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = ir.IntType(64)
        task = builder.atomic_rmw(
            "add", _pointer(context, builder, signature, arguments, 0), ir.Constant(index, 1), "monotonic"
        )
        tasks = builder.load(_pointer(context, builder, signature, arguments, 2))
        return builder.select(builder.icmp_signed("<", task, tasks), task, ir.Constant(index, -1))

    return types.intp(board, types.intp), generate


def _task_done(typing_context: Any, board: Any, phase: Any) -> Any:
    """Say that a task is done: whoever sees that also sees all that it wrote."""
    del typing_context, phase

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.atomic_rmw(
            "add", _pointer(context, builder, signature, arguments, 1), ir.Constant(ir.IntType(64), 1), "release"
        )
        return context.get_dummy_value()

    return types.void(board, types.intp), generate


def _is_done(typing_context: Any, board: Any, phase: Any) -> Any:
    """Whether all tasks of a phase are done."""
    del typing_context, phase

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        done = builder.load_atomic(_pointer(context, builder, signature, arguments, 1), "acquire", 8)
        return builder.icmp_signed(">=", done, builder.load(_pointer(context, builder, signature, arguments, 2)))

    return types.boolean(board, types.intp), generate


next_task: Callable[[Any, int], int] = intrinsic(_next_task)
task_done: Callable[[Any, int], None] = intrinsic(_task_done)
is_done: Callable[[Any, int], bool] = intrinsic(_is_done)

LOOKS = 200  # how often to look at a board before another thread is let in

_yield: Callable[[], int]
if llvm.address_of_symbol("sched_yield"):
    _yield = types.ExternalFunction("sched_yield", types.int32())
else:  # a system without that call: waiting goes on

    @compiled(leaf=True)
    def _yield() -> int:
        return 0


@compiled()
def wait_for_tasks(board: Array, phase: int) -> None:
    """Wait until all tasks of a phase are done: the rest have been taken, and need a fraction of a millisecond."""
    looks = 0
    while not is_done(board, phase):
        looks += 1
        if looks > LOOKS:
            _yield()  # lets another thread of the machine run


def _prefetch_row(typing_context: Any, table: Any, row: Any) -> Any:
    """Ask memory for a row of a C-contiguous table, without waiting for it."""
    del typing_context, row

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer, number, index = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        )
        # To read, into the second-level cache, data. The first level has room for few lines that are on their way: rows
        # that are asked for there hold up the work on the row at hand.
        options = [ir.Constant(number, value) for value in (0, 2, 1)]
        width = builder.extract_value(array.strides, 0)
        start = builder.gep(builder.bitcast(array.data, pointer), [builder.mul(arguments[1], width)])
        lines = builder.udiv(builder.add(width, ir.Constant(index, LINE - 1)), ir.Constant(index, LINE))
        with cgutils.for_range(builder, lines) as loop:
            builder.call(prefetch, [builder.gep(start, [builder.mul(loop.index, ir.Constant(index, LINE))]), *options])
        # A row that does not start at a cache line may end in one more.
        builder.call(prefetch, [builder.gep(start, [builder.sub(width, ir.Constant(index, 1))]), *options])
        return context.get_dummy_value()

    return types.void(table, types.intp), generate


prefetch_row: Callable[[Any, Any], None] = intrinsic(_prefetch_row)
