"""Several processes that serve one socket: started, started again when one dies, and ended together."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

from ookg.errors import OokgError

LOG = logging.getLogger("ookg.service")
EARLY_SECONDS = 10.0  # a process that dies within it has never served
AGAIN_SECONDS = 1.0  # until a process is told to end once more
MOST_EARLY = 3  # so many in a row, and the server gives up


class Workers:
    """A number of processes that run the same function; each is started anew, so that no thread comes along."""

    def __init__(self, target: Callable[..., None], arguments: tuple[object, ...], number: int) -> None:
        self._target, self._arguments, self._number = target, arguments, number
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[BaseProcess, float] = {}  # and when each began
        self._stopping = False

    def run(self) -> None:
        """Serve until told to end, and until all of them have."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._stop)
        for _ in range(self._number):
            self._start()
        early = 0
        while self._processes:
            wait([process.sentinel for process in self._processes], timeout=AGAIN_SECONDS)
            if self._stopping:
                self._terminate()  # once more: a signal that comes while a process starts may be lost
            for process in [one for one in self._processes if not one.is_alive()]:
                begun = self._processes.pop(process)
                process.join()
                if self._stopping:
                    continue
                LOG.error("a process has ended", extra={"fields": {"pid": process.pid, "code": process.exitcode}})
                early = early + 1 if time.monotonic() - begun < EARLY_SECONDS else 0
                if early >= MOST_EARLY:
                    self._stop(signal.SIGTERM, None)
                else:
                    self._start()
        if early >= MOST_EARLY:
            raise OokgError(f"{early} processes in a row ended before they could serve; the log says why")

    def _start(self) -> None:
        process = self._context.Process(target=self._target, args=self._arguments)
        process.start()
        self._processes[process] = time.monotonic()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._stopping = True
        self._terminate()

    def _terminate(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.terminate()


def end_with_parent() -> None:
    """Let this process end as if it were told to when the one that has started it is gone, however it went."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            while True:  # one that comes while it starts may be lost
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(AGAIN_SECONDS)

    threading.Thread(target=watch, name="ookg parent", daemon=True).start()
