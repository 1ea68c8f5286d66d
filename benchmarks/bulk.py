"""Vectors for newcomers in bulk beside what memory allows: tables of 32 and of 16 bits.

    python benchmarks/bulk.py [--known 2000000] [--newcomers 1000000] [--each 10] [--width 200] [--repeats 7]

Each newcomer has `each` triples with random known entities. Copying and the kernels take turns, and the best of all
turns counts for each. The share of copying is the bytes of the rows that are read and the vectors that are written,
in the time of a copy of as many (read and written). "by CPU" is the same by processor time, of all threads: it says
more on a machine that others use too. "rows alone" reads a number of every cache line of the same rows and computes
nothing: no kernel that reads such rows in such an order can be faster. The tables lie in huge pages where the system
gives them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

from ookg.kernels.cpu_compile import compiled, kernel_table, next_task, prefetch_row, task_done, wait_for_tasks
from ookg.kernels.cpu_newcomers import AHEAD, weighted_candidates
from ookg.kernels.threads import get_num_threads, run_tasks
from ookg.models import GEOMETRIES
from ookg.types import Array

RELATIONS = 500
TASK_ROWS = 4096


@dataclass
class Work:
    """Something that is repeated; moved: bytes that it reads and writes at least."""

    name: str
    run: Callable[[], Any]
    moved: int
    seconds: float = field(default=float("inf"))
    processor: float = field(default=float("inf"))

    def repeat(self) -> None:
        """Once more; the best counts."""
        start, used = perf_counter(), process_time()
        self.run()
        self.seconds = min(self.seconds, perf_counter() - start)
        self.processor = min(self.processor, process_time() - used)


@compiled()
def _touch(board: Array, table: Array, rows: Array, step: int, seen: Array) -> None:
    task = next_task(board, 0)
    while task >= 0:
        total = 0.0
        for number in range(task * TASK_ROWS, min(len(rows), (task + 1) * TASK_ROWS)):
            prefetch_row(table, rows[min(number + AHEAD, len(rows) - 1)])
            for place in range(0, table.shape[1], step):
                total += table[rows[number], place]
        seen[task] = total
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


def rows_alone(table: Array, rows: Array) -> None:
    """Read a number of every cache line of some rows."""
    table = kernel_table(table)
    tasks = -(-len(rows) // TASK_ROWS)
    run_tasks(_touch, tasks, len(rows) * table.shape[1], table, rows, 64 // table.itemsize, np.empty(tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", type=int, default=2_000_000)
    parser.add_argument("--newcomers", type=int, default=1_000_000)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    random, width, size = np.random.default_rng(0), arguments.width, arguments.newcomers * arguments.each
    links = random.integers(0, arguments.known, size), random.integers(0, RELATIONS, size), random.random(size) < 0.5
    place, rows, weights = (
        np.repeat(np.arange(arguments.newcomers), arguments.each),
        np.arange(size),
        random.random(size),
    )
    table = np.empty((arguments.known, width), np.float32)
    for start in range(0, len(table), 1 << 16):
        table[start : start + (1 << 16)] = random.standard_normal((min(1 << 16, len(table) - start), width))
    given, copy = torch.rand(1 << 26), torch.empty(1 << 26)
    copying = Work("copy", lambda: copy.copy_(given), 2 * given.nbytes)
    works = [copying]
    for bits, entities in ((32, table), (16, table.astype(np.float16))):
        read, written = size * width * entities.itemsize, arguments.newcomers * width * 4
        works.append(Work(f"rows alone, {bits} bits", partial(rows_alone, entities, links[0]), read))
        for name in ("transe", "rotate"):
            geometry = GEOMETRIES[name](width // 2 if name == "rotate" else width)
            relations = random.standard_normal((RELATIONS, geometry.relation_width)).astype(np.float32)

            def run(geometry: Any = geometry, tables: Any = (entities, relations)) -> Array:
                return weighted_candidates(geometry, tables, links, rows, place, weights, arguments.newcomers)

            works.append(Work(f"{name}, {bits} bits", run, read + written))
    for work in works:
        work.run()  # compiles
    for _ in range(arguments.repeats):
        for work in works:
            work.repeat()
    speed = copying.moved / copying.seconds
    print(f"{get_num_threads()} threads, load {os.getloadavg()[0]:.1f}, copy {speed / 1e9:.1f} GB/s (read and written)")
    print(f"{arguments.newcomers:,} newcomers with {arguments.each} of {arguments.known:,} known entities, d {width}")
    print(f"{'':<24} {'ms':>9} {'triples/s':>12} {'of copying':>11} {'by CPU':>8}")
    for work in works[1:]:
        share = work.moved / copying.moved * copying.seconds / work.seconds
        by_processor = work.moved / copying.moved * copying.processor / work.processor
        line = f"{work.name:<24} {work.seconds * 1e3:>9,.0f} {size / work.seconds:>12,.0f}"
        print(f"{line} {share:>11.0%} {by_processor:>8.0%}")


if __name__ == "__main__":
    main()
