"""Running cases in a process of their own, which is killed and named where it hangs or dies."""

from __future__ import annotations

import io
import multiprocessing
import os
import re
import resource
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SECONDS = 20.0
MEMORY = 4 << 30  # bytes that a case may take beyond what is loaded
MOST_LINES = 3
PER_PROCESS = 1000  # inputs, so that what one leaves behind in memory does not count for ever
STRAY = "stray"
ONE_THREAD = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")  # the inputs are small
MOST_CHARACTERS = 1500
PROBLEMS = ("traceback", "hang", "crash", "exit code", "long message", "no message", "stray output")


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    problem: one of PROBLEMS, or "" for an input that was taken or refused as it should be
    text: the message on standard error, or the traceback
    """

    number: int
    kind: str
    description: str
    code: int
    problem: str
    text: str
    seconds: float

    @property
    def lines(self) -> int:
        """Lines of the message, without notes."""
        return len(message_lines(self.text))

    @property
    def place(self) -> str:
        """Where a traceback comes from: the innermost line of our own code, and the error."""
        ours = re.findall(r'File "[^"]*src/(ookg/[^"]*)", line (\d+)', self.text)
        place = ":".join(ours[-1]) if ours else ""
        return f"{self.problem}: {place} {self.text.strip().splitlines()[-1][:100] if self.text.strip() else ''}"


def message_lines(text: str) -> list[str]:
    """The lines that say why an input is refused: notes and progress of work before are no part of it."""
    lines = text.splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith("ookg: ")]
    return lines[starts[0] :] if starts else []


def run_cases(numbers: Iterable[int], sound: Path, scratch: Path) -> Iterator[Outcome]:
    """Run cases one after the other in a worker process; a new one takes its place where it hangs or dies."""
    worker: _Worker | None = None
    try:
        for done, number in enumerate(numbers, start=1):
            worker = worker or _Worker(sound, scratch)
            found = worker.run(number)
            if found.problem in ("hang", "crash") or done % PER_PROCESS == 0:
                worker.end()
                worker = None
            yield found
    finally:
        if worker is not None:
            worker.end()


class _Worker:
    """A process that runs cases; spawned, as threads of compiled code do not survive a fork."""

    def __init__(self, sound: Path, scratch: Path) -> None:
        self.scratch = scratch
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, str(sound), str(scratch)), daemon=True)
        before = {name: os.environ.get(name) for name in ONE_THREAD}
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # read when the libraries are loaded
        self.process.start()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        theirs.close()
        self.connection.recv()  # it has loaded what it needs

    def run(self, number: int) -> Outcome:
        begun = time.monotonic()
        self.connection.send(number)
        try:
            if self.connection.poll(SECONDS):
                found: Outcome = self.connection.recv()
                return found
            problem = "hang"
        except (EOFError, OSError):
            problem = "crash"
        self.process.kill()
        self.process.join()
        written = (self.scratch / STRAY).read_text(errors="replace") if (self.scratch / STRAY).exists() else ""
        text = f"{written}\nthe process ended with {self.process.exitcode}"
        return Outcome(number, _kind(number), "", -1, problem, text, time.monotonic() - begun)

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _kind(number: int) -> str:
    from fuzz.cases import kind_names

    names = kind_names()
    return names[number % len(names)]


def _serve(connection: Connection, sound: str, scratch: str) -> None:
    from fuzz import cases  # noqa: F401 (loaded before the limit)
    from ookg.simulation import (
        tuning,  # noqa: F401
    )

    _limit_memory()
    connection.send(None)
    with suppress(EOFError):
        while True:
            number = connection.recv()
            connection.send(run_case(number, Path(sound), Path(scratch)))


def _limit_memory() -> None:
    """A bomb meets a limit of this process, not of the machine."""
    loaded = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (loaded + MEMORY, loaded + MEMORY))


def run_case(number: int, sound: Path, scratch: Path) -> Outcome:
    """Run one case in this process."""
    from fuzz.cases import make_case

    folder = scratch / "case"
    shutil.rmtree(folder, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = make_case(number, sound, folder)
    begun, before = time.monotonic(), os.getcwd()
    os.chdir(folder)
    streams = sys.stdout, sys.stderr
    stray = _Stray(scratch / STRAY)
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, errors
    trace = ""
    code: Any = -1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = case.run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else -1
    except BaseException:
        trace = traceback.format_exc()
    finally:
        sys.stdout, sys.stderr = streams
        os.chdir(before)
        written = stray.end()
    text = trace or errors.buffer.getvalue().decode("utf-8", "replace")
    problem = "traceback" if trace else problem_of(code, text)
    if written and not problem:
        problem, text = "stray output", written
    return Outcome(number, case.kind, case.description, code, problem, text, time.monotonic() - begun)


class _Stray:
    """Catches what libraries write to the process's own output, past Python."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.saved = [(number, os.dup(number)) for number in (1, 2)]
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for number, _ in self.saved:
            os.dup2(file, number)
        os.close(file)

    def end(self) -> str:
        for number, copy in self.saved:
            os.dup2(copy, number)
            os.close(copy)
        return self.path.read_text(errors="replace")


def problem_of(code: int, text: str) -> str:
    """What is wrong with an exit code and what was said on standard error; "" for nothing."""
    if code not in (0, 2):
        return "exit code"
    lines = message_lines(text)
    if code == 2 and not lines:
        return "no message"
    if len(lines) > MOST_LINES or any(len(line) > MOST_CHARACTERS for line in lines):
        return "long message"
    return ""
