"""Counts and times of all processes of a server, in Prometheus' format.

Each process writes a row of one table in a file that all of them map; whichever is asked adds the rows up. Nothing is
locked: a row has one writer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

STATUSES = (200, 202, 304, 400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 500, 503, 507)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
OTHER = "other"  # a path that is none of ours
GAUGES = ("requests_in_flight",)


class Metrics:
    """What a process counts; routes: the paths that requests are counted by.

    runtime: a folder that all processes of the server share; None for one process alone
    """

    def __init__(self, routes: Sequence[str], runtime: Path | None = None, workers: int = 1) -> None:
        self.routes = (*routes, OTHER)
        self._place = {route: place for place, route in enumerate(self.routes)}
        self._status = {status: place for place, status in enumerate(STATUSES)}
        counts, times = len(self.routes) * (len(STATUSES) + 1), len(self.routes) * (len(BOUNDS) + 1)
        self._parts = (counts, counts + times)
        shape = (workers, counts + times + len(GAUGES))
        self._claim: FileLock | None = None
        self.worker = 0
        self._table = np.zeros(shape) if runtime is None else self._shared(runtime, shape)
        row = self._table[self.worker]
        self._counts = row[:counts].reshape(len(self.routes), -1)
        self._times = row[counts : self._parts[1]].reshape(len(self.routes), -1)
        self._gauges = row[self._parts[1] :]
        self._gauges[:] = 0

    def _shared(self, runtime: Path, shape: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The table in a file, and a row of it that no living process has."""
        path = runtime / "metrics"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                path.write_bytes(bytes(8 * shape[0] * shape[1]))
        for worker in range(shape[0]):
            claim = FileLock(f"{path}.{worker}.lock")
            try:
                claim.acquire(timeout=0)
            except Timeout:
                continue
            self._claim, self.worker = claim, worker
            break
        return np.memmap(path, np.float64, "r+", shape=shape)

    def began(self) -> None:
        """A request has begun."""
        self._gauges[0] += 1

    def ended(self, route: str, status: int, seconds: float) -> None:
        """A request has ended."""
        self._gauges[0] -= 1
        place = self._place.get(route, len(self.routes) - 1)
        self._counts[place, self._status.get(status, len(STATUSES))] += 1
        bucket = next(number for number, bound in enumerate(BOUNDS) if seconds <= bound)
        self._times[place, bucket] += 1
        self._times[place, -1] += seconds

    def text(self, values: Mapping[str, tuple[str, float]]) -> str:
        """All of it; values: further gauges, by name, each with what it is."""
        total = np.asarray(self._table).sum(axis=0)
        counts = total[: self._parts[0]].reshape(len(self.routes), -1)
        times = total[self._parts[0] : self._parts[1]].reshape(len(self.routes), -1)
        lines = _head("ookg_requests_total", "counter", "requests, by path and status")
        for route, row in zip(self.routes, counts, strict=True):
            for status, count in zip((*map(str, STATUSES), OTHER), row.tolist(), strict=True):
                if count:
                    lines.append(f'ookg_requests_total{{path="{route}",status="{status}"}} {count:.0f}')
        lines += _head("ookg_request_seconds", "histogram", "time that requests took, by path")
        for route, row in zip(self.routes, times, strict=True):
            so_far = np.cumsum(row[:-1])
            if not so_far[-1]:
                continue
            for bound, count in zip(BOUNDS, so_far.tolist(), strict=True):
                name = "+Inf" if math.isinf(bound) else f"{bound:g}"
                lines.append(f'ookg_request_seconds_bucket{{path="{route}",le="{name}"}} {count:.0f}')
            lines.append(f'ookg_request_seconds_sum{{path="{route}"}} {row[-1]:.6f}')
            lines.append(f'ookg_request_seconds_count{{path="{route}"}} {so_far[-1]:.0f}')
        gauges = {"requests_in_flight": ("requests under way", float(total[self._parts[1]])), **values}
        for name, (meaning, value) in gauges.items():
            lines += [*_head(f"ookg_{name}", "gauge", meaning), f"ookg_{name} {value:.17g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
