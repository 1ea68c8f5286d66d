"""Progress of long work: a bar with rate and time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, TextIO

PLAIN_SECONDS = 10.0
DRAW_SECONDS = 0.1


def tell(text: str) -> None:
    """A line on standard error. Where nobody takes it (its reader has gone, it is closed), the work goes on without."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let all that is still written to a broken stream go nowhere, also when Python ends."""
    with suppress(OSError, ValueError):  # one that is no file has nothing to redirect
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Reporter(Protocol):
    """What long work reports: how far it is, and how to read a figure worth showing (read only when it is shown)."""

    def __call__(self, done: int, figure: Callable[[], str] | None = None) -> None:
        """Say that `done` units are done."""


class Progress:
    """Reports on standard error; use as a context manager and call it with the number of units done."""

    def __init__(self, label: str, total: int, unit: str = "steps", start: int = 0) -> None:
        self.label, self.total, self.unit, self.start = label, total, unit, start
        self._done = start
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._begun = self._drawn = time.monotonic()
        if sys.stderr is not None and sys.stderr.isatty():
            self._bar = self._terminal_bar()
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, completed=self.start, figure="", rate="")
        return self

    def _terminal_bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figure]}"),
        )
        return RichProgress(*columns, console=Console(stderr=True))

    def __call__(self, done: int, figure: Callable[[], str] | None = None) -> None:
        """Say that `done` units are done."""
        self._done = done
        now = time.monotonic()
        wait = DRAW_SECONDS if self._bar is not None else PLAIN_SECONDS
        if now - self._drawn >= wait or done == self.total:
            self._drawn = now
            self._draw(figure() if figure else "")

    def _rate(self) -> float:
        return (self._done - self.start) / max(time.monotonic() - self._begun, 1e-9)

    def _draw(self, figure: str) -> None:
        rate = self._rate()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, figure=figure, rate=f"{rate:,.1f} {self.unit}/s")
            return
        left = (self.total - self._done) / max(rate, 1e-9)
        parts = [
            f"{self.label}: {self._done:,} of {self.total:,} {self.unit}",
            f"{rate:,.1f}/s",
            f"{_clock(left)} left",
        ]
        tell(", ".join([*parts, figure] if figure else parts))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
