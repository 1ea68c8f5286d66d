"""The page in a real browser. `make browser` runs these; without Playwright they are skipped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 600.0  # a busy machine takes its time
WIDTHS = (375, 768, 1280)
TENET = (("directed_by", "Christopher Nolan"), ("genre", "action"), ("starring", "John David Washington"))


def chromium() -> str | None:
    """Where the browser is."""
    return os.environ.get("OOKG_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def axe() -> Path | None:
    """Where `make browser` has put axe-core, which looks for what keeps people out."""
    path = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
    return path if path.is_file() else None


@contextmanager
def served(*options: str) -> Iterator[str]:
    """A server of its own for as long as it is needed; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ookg", "serve", *options, "--port", str(port), "--quiet"]
    environment = {**os.environ, "LOGNAME": "editor"}  # who adds, by what the page then says
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        _await(address, server)
        yield address
    finally:
        server.terminate()
        server.communicate(timeout=60)


def _await(address: str, server: subprocess.Popen[str]) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < START_SECONDS:
        if server.poll() is not None:
            raise RuntimeError(server.communicate()[1])
        try:
            urllib.request.urlopen(f"{address}/v1/health", timeout=5)
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):  # the last: it listens, and is not ready
            time.sleep(0.1)
    raise RuntimeError(f"no answer at {address}")
