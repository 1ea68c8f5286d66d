from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from ookg.kernels import threads
from ookg.kernels.cpu_compile import compiled, next_task, task_done, wait_for_tasks

# What a service does: a model that was asked, and children that are forked from it. In a process of its own, because
# this one may have threads that a fork would leave behind.
AFTER_A_FORK = """
    import hashlib, multiprocessing, os, signal, sys
    from concurrent.futures import ProcessPoolExecutor
    import numpy as np
    import torch
    import ookg
    from ookg.kernels import threads

    signal.alarm(120)  # a child that hangs ends all of it
    threads.NUMBERS_A_THREAD = 1  # helpers for the smallest piece of work
    threads.set_num_threads(2)
    torch.set_num_threads(2)
    large = torch.rand(600, 600)
    (large @ large).sum(), (torch.rand(400_000) * 2).sum()  # PyTorch's own threads are there
    random = np.random.default_rng(0)
    graph = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in random.integers(0, 5, (60, 3)) * [4, 1, 3]]
    new = [("n", "r1", "e4"), ("n", "r2", "e8"), ("e12", "r1", "n")]
    settings = ookg.TrainingSettings(dim=16, steps=20, batch=16, negatives=8, margin=4.0)
    model = ookg.train(graph, settings, device="cpu")

    def work(_):
        again = ookg.train(graph, settings, device="cpu")
        found = model.predict(new, head="n", relation="r2", refine=ookg.RefineSettings(steps=10, margin=4.0))
        projected = ookg.train(graph, settings.changed({"model": "transh"}), device="cpu")
        (large @ large).sum(), (torch.rand(400_000) * 2).sum()
        parts = again.entity_vectors, model.embed(new).vectors, projected.entity_vectors
        bits = b"".join(part.numpy().tobytes() for part in parts)
        return hashlib.sha256(bits + repr(found.answers).encode()).hexdigest()

    expected = work(0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, work(0).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 64).decode() == expected
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(work, range(4)) == [expected] * 4
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(work, range(4))) == [expected] * 4
    assert work(0) == expected
    print("the same everywhere")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_forked_children_compute_what_their_parent_does(layer: str) -> None:
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer, "OOKG_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AFTER_A_FORK)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "the same everywhere\n"


def test_many_threads_may_ask_one_model(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "NUMBERS_A_THREAD", 1)
    monkeypatch.setattr(threads._State, "threads", 3)
    new = [("n", "r1", "e4"), ("n", "r2", "e8"), ("e12", "r1", "n")]

    def ask(_: int) -> bytes:
        found = model.predict(new, head="n", relation="r0", refine=True)
        return repr(found.answers).encode() + model.embed(new).vectors.numpy().tobytes()  # type: ignore[no-any-return]

    alone = ask(0)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(40))) == {alone}


class Counting:
    """A kernel in Python: takes tasks like a compiled one, and remembers which and by whom."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done: list[int] = []
        self.workers: set[int] = set()
        self.both_there = threading.Barrier(2)

    def __call__(self, board: Any, *, wait: bool = False) -> None:
        if wait:
            self.both_there.wait(60)
        while True:
            with self.lock:
                task = int(board[0, 0])
                if task >= board[0, 2]:
                    return
                board[0, 0] += 1
                board[0, 1] += 1
                self.done.append(task)
                self.workers.add(threading.get_ident())


@pytest.mark.parametrize("number", [1, 2, 5])
def test_each_task_is_done_once(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads._State, "threads", number)
    for tasks in (0, 1, 2, 7, 100):
        kernel = Counting()
        threads.run_tasks(kernel, tasks, 1 << 30)
        assert sorted(kernel.done) == list(range(tasks))


def test_a_helper_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads._State, "threads", 2)
    kernel = Counting()
    threads.run_tasks(lambda board: kernel(board, wait=True), 50, 1 << 30)  # neither goes on without the other
    assert sorted(kernel.done) == list(range(50))


def test_little_work_stays_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads._State, "threads", 8)
    kernel = Counting()
    threads.run_tasks(kernel, 50, threads.NUMBERS_A_THREAD - 1)
    assert kernel.workers == {threading.get_ident()}


@compiled()
def three_phases(board: Any, first: Any, second: Any, third: Any) -> None:
    """Each phase reads all that the one before wrote."""
    task = next_task(board, 0)
    while task >= 0:
        first[task] = task + 1
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
    task = next_task(board, 1)
    while task >= 0:
        second[task] = first.sum() + task
        task_done(board, 1)
        task = next_task(board, 1)
    wait_for_tasks(board, 1)
    if next_task(board, 2) >= 0:
        third[0] = second.sum()
        task_done(board, 2)
    wait_for_tasks(board, 2)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_phase_begins_when_the_one_before_is_done(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads._State, "threads", number)
    for _ in range(300):
        first, second, third = np.zeros(64), np.zeros(8), np.zeros(1)
        threads.run_tasks(three_phases, (64, 8, 1), 1 << 40, first, second, third)
        assert (second == 64 * 65 / 2 + np.arange(8)).all()
        assert third[0] == 8 * 64 * 65 / 2 + 28


def test_an_error_reaches_the_caller_and_the_helpers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads._State, "threads", 2)

    def broken(board: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            raise ValueError("in a kernel")

    with pytest.raises(ValueError, match="in a kernel"):
        threads.run_tasks(broken, 50, 1 << 30)
    kernel = Counting()
    threads.run_tasks(lambda board: kernel(board, wait=True), 50, 1 << 30)
    assert len(kernel.done) == 50


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OOKG_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"NUMBA_NUM_THREADS": "4"}, 4),
        ({"OMP_NUM_THREADS": "6,2"}, 6),
        ({"OMP_NUM_THREADS": "many", "NUMBA_NUM_THREADS": "0"}, None),
        ({}, None),
    ],
)
def test_the_environment_says_how_many(
    environment: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads._threads_at_first() == (expected or cores)


def test_fewer_than_one_thread_is_refused() -> None:
    with pytest.raises(ValueError, match="0 threads; it must be 1 or more"):
        threads.set_num_threads(0)


def test_torch_has_its_threads_back_after_a_block_with_one() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads.one_torch_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), threads.one_torch_thread():
            _ = 1 // 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_results_do_not_depend_on_the_number_of_torch_threads() -> None:
    from ookg.evidence.combined import standardised

    scores = torch.from_numpy(np.random.default_rng(0).random((1, 200_001), dtype=np.float32))
    before, found = torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(standardised(scores, 200_001))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
