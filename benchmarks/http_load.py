"""A server of our own on this machine, and clients that ask it: what the benchmarks of serving share."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

STARTED = 120.0  # seconds until a server must answer


@dataclass(frozen=True)
class Served:
    """A server that runs; lines: what it has logged; started: seconds until it was ready."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str]
    started: float

    @property
    def memory(self) -> int:
        """Bytes that the process holds by itself, without the files that it has mapped."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
        return 0


@contextmanager
def served(directory: Path, *options: str, wrapper: tuple[str, ...] = ()) -> Iterator[Served]:
    """`ookg serve` on a free local port, until the block ends; wrapper: a command that runs it."""
    line = [*wrapper, sys.executable, "-m", "ookg", "serve", str(directory), "--port", "0", "--quiet", *options]
    begun = time.monotonic()
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[str] = []
    try:
        first = process.stderr.readline()
        if not first.startswith("http"):
            raise SystemExit(f"the server did not start: {first}")
        port = int(first.split()[0].rstrip("/").rpartition(":")[2])
        threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True).start()
        asyncio.run(_until_ready(port))
        yield Served(process, port, lines, time.monotonic() - begun)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


async def _until_ready(port: int) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < STARTED:
        try:
            async with Connection(port) as connection:
                if (await connection.ask("GET", "/v1/ready")).status == 200:
                    return
        except OSError:
            pass
        await asyncio.sleep(0.02)
    raise SystemExit("the server was not ready in time")


@dataclass(frozen=True)
class Reply:
    """An answer and how long it took."""

    status: int
    body: bytes
    seconds: float

    def json(self) -> Any:
        """What it says."""
        return json.loads(self.body)


class Connection:
    """One kept connection to a local server, as cheap as can be: the clients share the machine with it."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: Any = None) -> Reply:
        """Send a request and read the whole answer."""
        begun = time.perf_counter()
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        sizes = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length")]
        answer = await self._reader.readexactly(sizes[0]) if sizes else b""
        return Reply(int(lines[0].split()[1]), answer, time.perf_counter() - begun)


@dataclass
class Measured:
    """How many questions were answered in how many seconds, how long requests took, and what went wrong."""

    questions: int = 0
    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Questions per second."""
        return self.questions / max(self.seconds, 1e-9)

    def percentile(self, share: float) -> float:
        """Milliseconds that this share of the requests took at most."""
        return float(np.quantile(self.times, share)) * 1e3 if self.times else float("nan")

    def line(self) -> str:
        """For a table."""
        times = f"p50 {self.percentile(0.5):8.2f} ms   p99 {self.percentile(0.99):8.2f} ms"
        return f"{self.rate:9.1f} /s   {times}   {len(self.errors)} errors"


Work = Callable[[Connection, int, int], Awaitable[Reply]]


async def clients(port: int, number: int, seconds: float, work: Work, questions: int = 1) -> Measured:
    """So many clients, each sending one request after the other; work(connection, client, turn)."""
    measured = Measured()
    begun = time.perf_counter()

    async def run(client: int) -> None:
        async with Connection(port) as connection:
            turn = 0
            while time.perf_counter() - begun < seconds:
                reply = await work(connection, client, turn)
                turn += 1
                if reply.status != 200:
                    measured.errors.append(f"{reply.status} {reply.body[:200]!r}")
                    continue
                measured.questions += questions
                measured.times.append(reply.seconds)

    await asyncio.gather(*(run(client) for client in range(number)))
    measured.seconds = time.perf_counter() - begun
    return measured
