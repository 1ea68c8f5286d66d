"""The update in the background: a process of its own, so that questions keep their pace, and its progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from ookg.service.problems import Problem
from ookg.storage.journals import VARIABLE
from ookg.system.files import atomic_write

STATE_FILE, STOP_FILE, LOCK_FILE = "update.json", "update.stop", "update.lock"
STOP_SECONDS = 20.0  # for an update to keep its state when the server ends

Stage = Literal["idle", "running", "done", "failed", "stopped"]


@dataclass(frozen=True)
class UpdateState:
    """How far the last update is.

    step, steps: done and in all; seconds: since it began; seconds_left: as it seems
    version: that it has made; error: why it failed; result: as `ookg update --json` prints it; pid: of its process
    """

    state: Stage = "idle"
    step: int = 0
    steps: int | None = None
    seconds: float = 0.0
    seconds_left: float | None = None
    version: int | None = None
    error: str | None = None
    result: dict[str, Any] | None = None
    pid: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the process is nobody's business."""
        values = asdict(self)
        del values["pid"]
        return values

    def write(self, runtime: Path) -> None:
        """Put it where all processes of the server look."""
        with atomic_write(runtime / STATE_FILE) as temporary:
            temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, runtime: Path) -> UpdateState:
        """The state as it stands; one whose process has vanished has failed."""
        try:
            state = cls(**json.loads((runtime / STATE_FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()
        if state.state == "running" and not _is_alive(state.pid):
            return replace(
                state, state="failed", seconds_left=None, error="the update's process was ended; start it again"
            )
        return state


class Updates:
    """Starts and stops updates of a model directory.

    runtime: a folder that all processes of the server share; journal: the URL of its journal, if it has one
    """

    def __init__(self, directory: Path, runtime: Path, device: str = "cpu", journal: str | None = None) -> None:
        self.directory, self.runtime, self.device, self._journal = directory, runtime, device, journal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> UpdateState:
        """How far it is."""
        return UpdateState.read(self.runtime)

    def start(self, settings: dict[str, Any]) -> UpdateState:
        """Begin an update; settings: of `UpdateSettings`."""
        with FileLock(self.runtime / LOCK_FILE):
            if self.state.state == "running":
                raise Problem(409, "an update is running; wait for it, or stop it with DELETE /v1/update")
            (self.runtime / STOP_FILE).unlink(missing_ok=True)
            job = {"directory": str(self.directory), "runtime": str(self.runtime), "device": self.device}
            command = [sys.executable, "-m", "ookg.service.updating", json.dumps(job | {"settings": settings})]
            # A list of the processes shows their arguments, and there may be a password in the journal's address.
            environment = os.environ | ({} if self._journal is None else {VARIABLE: self._journal})
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment
            )
            state = UpdateState("running", pid=self._process.pid)
            state.write(self.runtime)
        threading.Thread(target=self._watch, args=(self._process,), name="ookg update", daemon=True).start()
        return state

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Where the process ends without a word, say so."""
        process.wait()
        state = self.state
        if state.pid == process.pid and state.state == "failed":
            state.write(self.runtime)

    def stop(self) -> UpdateState:
        """Let a running update keep its state and end; the next one goes on from there."""
        state = self.state
        if state.state == "running":
            (self.runtime / STOP_FILE).touch()
        return state

    def close(self) -> None:
        """Stop what this process has started, and wait for it."""
        if self._process is None or self._process.poll() is not None:
            return
        (self.runtime / STOP_FILE).touch()
        begun = time.monotonic()
        while self._process.poll() is None and time.monotonic() - begun < STOP_SECONDS:
            time.sleep(0.05)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _is_alive(pid: int | None) -> bool:
    if pid is None or os.name != "posix":
        return pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and only its parent has not yet looked."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False
