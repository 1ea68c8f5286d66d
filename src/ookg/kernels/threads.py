"""Threads of our own for the compiled kernels, and one thread for PyTorch where its sums would depend on their number.

Not OpenMP's: its threads spin while they wait, so that one busy neighbour on the machine slows a training down a
hundredfold; a forked child dies or hangs at its first parallel loop; and Numba's other layers end the process when two
threads call at once. Here a kernel's work is cut into tasks, always in the same way. The calling thread takes one task
after the other, and helpers that wake up in time take some of them off its hands. Nobody waits for a helper that has
not begun, each task has one owner, and so the result depends neither on the number of threads nor on who came when.
Waiting for the last tasks of a phase is done awake, as it takes a fraction of a millisecond, but lets others run.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

# The first of these that is set says how many threads to use; without one, it is as many as the process has cores.
VARIABLES = ("OOKG_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
# A helper needs some 50 µs to wake up: in that time this many numbers are passed over, and fewer are not worth it.
NUMBERS_A_THREAD = 1 << 17


def _threads_at_first() -> int:
    for name in VARIABLES:
        value = os.environ.get(name, "").split(",")[0].strip()  # OpenMP's may be a list, one number per level
        if value.isascii() and value.isdigit() and int(value) > 0:
            return int(value)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class _Job:
    """A kernel call that several threads may take part in."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work, self.is_over = work, False

    def help(self) -> None:
        """Take part, unless the job is over. Whoever comes late finds no task, and does nothing."""
        if not self.is_over:
            self.work()


class _Helpers:
    """Threads that wait for jobs. They are started when first needed, and again in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()

    def offer(self, job: _Job, helpers: int) -> None:
        """Ask this many helpers to take part."""
        if len(self._threads) < helpers:
            with self._lock:
                while len(self._threads) < helpers:
                    thread = threading.Thread(target=_serve, args=(self._jobs,), name="ookg kernel", daemon=True)
                    thread.start()
                    self._threads.append(thread)
        for _ in range(helpers):
            self._jobs.put(job)

    def stop(self) -> None:
        """End the threads: the interpreter must not end while one of them is in compiled code."""
        with self._lock:
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()
            self._threads.clear()


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job.help()
        del job  # what it worked on may be freed while this thread waits


class _State:
    threads = _threads_at_first()
    helpers = _Helpers()


def get_num_threads() -> int:
    """How many threads a kernel may use."""
    return _State.threads


def set_num_threads(number: int) -> None:
    """Use this many threads from now on, in all calls of this process. It changes speed, never a result."""
    if number < 1:
        raise ValueError(f"{number} threads; it must be 1 or more")
    _State.threads = number


def run_tasks(kernel: Callable[..., None], tasks: int | Sequence[int], numbers: int, *arguments: Any) -> None:
    """Run a compiled kernel's tasks, in several threads where there is work enough.

    kernel: called as kernel(board, *arguments) by each thread; for each phase it works on `next_task(board, phase)`
        until that is -1, says `task_done` after each, and waits with `wait_for_tasks`. It raises nothing in a task
    tasks: how many there are, or how many in each phase; a phase begins when the one before is done
    numbers: about how many numbers it passes over in all
    """
    phases = (tasks,) if isinstance(tasks, int) else tasks
    board = np.zeros((len(phases), 3), dtype=np.int64)  # taken, done, and how many there are
    board[:, 2] = phases
    helpers = min(_State.threads, max(phases), 1 + numbers // NUMBERS_A_THREAD) - 1
    if helpers <= 0:
        kernel(board, *arguments)
        return
    job = _Job(lambda: kernel(board, *arguments))
    _State.helpers.offer(job, helpers)
    try:
        job.work()
    finally:
        job.is_over = True


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """PyTorch computes with one thread here.

    How it cuts a sum depends on the number of threads, and with it the last bit; where it adds up gradients by index,
    threads race.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _after_fork_in_child() -> None:
    """Threads do not come along into a forked child: ours start anew there, PyTorch's would be waited for for ever."""
    _State.helpers = _Helpers()
    torch.set_num_threads(1)


@atexit.register
def _stop_helpers() -> None:
    _State.helpers.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
