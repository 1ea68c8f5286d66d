"""A thread that follows what other processes write: batches, and new versions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ookg.errors import OokgError

LOG = logging.getLogger("ookg.service")
POLL_SECONDS = 0.25


class Follower:
    """Calls `refresh` again and again until it is stopped; `problem` says what the last call met."""

    def __init__(self, refresh: Callable[[], bool], seconds: float = POLL_SECONDS) -> None:
        self._refresh, self._seconds = refresh, seconds
        self._stopping = threading.Event()
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="ookg follower", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._refresh()
                self.problem = None
            except (OokgError, OSError, MemoryError, RuntimeError) as error:
                if self.problem is None:
                    LOG.error("cannot follow the model directory", extra={"fields": {"problem": str(error)}})
                self.problem = str(error)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()
