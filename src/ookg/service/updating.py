"""The process that updates a model while it is served: `python -m ookg.service.updating JOB`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ookg.errors import OokgError, TrainingInterrupted, one_line
from ookg.model.updating import update_model
from ookg.service.jobs import STOP_FILE, UpdateState
from ookg.training.continuing import UpdateSettings

POLITENESS = 10  # questions go first
SHOW_SECONDS = 0.25


class Shown:
    """Progress that the server shows, and where it may say stop."""

    def __init__(self, runtime: Path, label: str, total: int) -> None:
        self.runtime, self.total = runtime, total
        self._begun = time.monotonic()
        self._shown = 0.0

    def __enter__(self) -> Shown:
        self(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, done: int, figure: Callable[[], str] | None = None) -> None:
        """Say that `done` steps are done."""
        now = time.monotonic()
        if now - self._shown < SHOW_SECONDS and done < self.total:
            return
        self._shown, seconds = now, now - self._begun
        left = seconds * (self.total - done) / done if done else None
        UpdateState("running", done, self.total, seconds, left, pid=os.getpid()).write(self.runtime)
        if (self.runtime / STOP_FILE).exists():
            raise KeyboardInterrupt


def main(job: dict[str, Any]) -> int:
    """Update, and leave how it went where the server looks."""
    runtime, begun = Path(job["runtime"]), time.monotonic()
    with suppress(OSError, AttributeError):
        os.nice(POLITENESS)
    state = UpdateState("running", pid=os.getpid())
    try:
        updated = update_model(
            job["directory"],
            UpdateSettings(**job["settings"]),
            device=job["device"],
            progress=lambda label, total: Shown(runtime, label, total),
        )
        result = updated.to_dict()
        state = replace(state, state="done", step=updated.steps, steps=updated.steps, version=updated.version)
        state = replace(state, result=result)
    except TrainingInterrupted:
        state = replace(UpdateState.read(runtime), state="stopped", seconds_left=None)
    except KeyboardInterrupt:
        state = replace(state, state="stopped")
    except (OokgError, OSError, MemoryError, RuntimeError) as error:
        state = replace(state, state="failed", error=one_line(str(error)) or type(error).__name__)
    replace(state, seconds=round(time.monotonic() - begun, 3)).write(runtime)
    return 0 if state.state == "done" else 1


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
