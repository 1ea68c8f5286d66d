"""The measured times of LAN and InvTransE as tables: what one file for each device holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ookg.research.reproduction.paper import TRAINING_TIME_RATIO
from ookg.research.reproduction.rendering import MISSING, Grid, Text
from ookg.research.reproduction.results import ResultsFolder, damaged, read_json
from ookg.research.reproduction.tables import Cell

TABLE = "efficiency"
DATASET = "WN11-Head-1000"  # the data set with the most training triples for triplet classification
METHODS = ("LAN", "InvTransE")

KNOWN, NEW, LAN = "InvTransE, known entity", "InvTransE, new entity", "LAN, any entity"
# What the paper says: O(d), O(md) and O(md²) as the powers of m and d.
POWERS: dict[str, tuple[int, int]] = {KNOWN: (0, 1), NEW: (1, 1), LAN: (1, 2)}


@dataclass(frozen=True)
class TrainingTime:
    """Seconds of training at one configuration; of_paper: whether it is what the paper's factor is about."""

    configuration: str
    inv_transe: float
    lan: float
    of_paper: bool

    @property
    def ratio(self) -> float:
        """How many times InvTransE's time LAN takes."""
        return self.lan / self.inv_transe


@dataclass(frozen=True)
class RepresentationTime:
    """Seconds to represent one entity with so many neighbours, in `dim` coordinates."""

    what: str
    neighbors: int
    dim: int
    seconds: float


@dataclass(frozen=True)
class Efficiency:
    """All times measured on one device.

    settings: how they were measured
    """

    settings: dict[str, Any]
    training: tuple[TrainingTime, ...]
    representation: tuple[RepresentationTime, ...]
    versions: dict[str, str]
    device: str
    date: str

    @classmethod
    def read(cls, path: Path) -> Efficiency:
        """The times of a file."""
        document = read_json(path)
        try:
            training = tuple(TrainingTime(**entry) for entry in document["training"])
            representation = tuple(RepresentationTime(**entry) for entry in document["representation"])
            found = cls(**(document | {"training": training, "representation": representation}))
            texts = [*(time.configuration for time in training), *(time.what for time in representation)]
            if not all(isinstance(text, str) for text in (*texts, found.device, found.date)):
                raise ValueError("a configuration, a device or a date that is no text")
            found.cells()  # all that is shown can be made
            found.grids()
        except (TypeError, ValueError, LookupError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise damaged(path, str(error)) from error
        return found

    def powers(self, what: str) -> tuple[float | None, float]:
        """The powers of m and d that fit the times best, least squares of the logarithms; None where m plays no part.

        log seconds = a + x·log m + y·log d
        """
        times = [time for time in self.representation if time.what == what]
        logs = np.log([[time.neighbors, time.dim, time.seconds] for time in times])
        if not np.isfinite(logs).all():  # LAPACK would say so on standard output
            raise ValueError("neighbors, dim and seconds that are not all positive numbers")
        columns = [np.ones(len(times)), logs[:, 1]] + ([logs[:, 0]] if POWERS[what][0] else [])
        fitted = np.linalg.lstsq(np.stack(columns, axis=1), logs[:, 2], rcond=None)[0]
        return (float(fitted[2]) if POWERS[what][0] else None), float(fitted[1])

    def cells(self) -> list[Cell]:
        """The ratios of the training times and the powers, against the paper's."""
        found = []
        for time in self.training:
            printed = TRAINING_TIME_RATIO if time.of_paper else None
            found.append(self._cell(f"LAN / InvTransE, {time.configuration}", "training time", printed, time.ratio))
        for what, (of_m, of_d) in POWERS.items():
            found_m, found_d = self.powers(what)
            if found_m is not None:
                found.append(self._cell(what, "power of m", of_m, found_m))
            found.append(self._cell(what, "power of d", of_d, found_d))
        return found

    def _cell(self, method: str, measure: str, printed: float | None, ours: float) -> Cell:
        return Cell(TABLE, DATASET, f"{method}, on {self.device}", measure, printed, ours, None, 1)

    def grids(self) -> list[Grid]:
        """The training times, the powers, and the times of representing one entity."""
        return [self._training_grid(), self._power_grid(), self._time_grid()]

    def _training_grid(self) -> Grid:
        rows = [
            _row(
                time.configuration,
                f"{time.inv_transe:.2f}",
                f"{time.lan:.2f}",
                f"about {TRAINING_TIME_RATIO:.0f}" if time.of_paper else MISSING,
                f"{time.ratio:.1f}",
            )
            for time in self.training
        ]
        title = f"Training for triplet classification on {DATASET}, {self.device}, {self.date}"
        columns = ("configuration", "InvTransE, s", "LAN, s", "ratio, paper", "ratio, ours")
        return Grid(title, columns, tuple(rows), 1)

    def _power_grid(self) -> Grid:
        rows = []
        for what, (of_m, of_d) in POWERS.items():
            found_m, found_d = self.powers(what)
            shown_m = MISSING if found_m is None else f"{found_m:.2f}"
            rows.append(_row(what, str(of_m), shown_m, str(of_d), f"{found_d:.2f}"))
        columns = ("represented", "power of m, paper", "measured", "power of d, paper", "measured")
        title = "How the time to represent one entity grows with m neighbours and d coordinates"
        return Grid(title, columns, tuple(rows), 1)

    def _time_grid(self) -> Grid:
        by_place = {(time.what, time.neighbors, time.dim): time.seconds for time in self.representation}
        known = {time.dim: time.seconds for time in self.representation if time.what == KNOWN}
        rows = []
        for neighbors, dim in sorted({(time.neighbors, time.dim) for time in self.representation if time.what == NEW}):
            times = (known.get(dim), by_place.get((NEW, neighbors, dim)), by_place.get((LAN, neighbors, dim)))
            rows.append(_row(str(neighbors), str(dim), *(MISSING if t is None else f"{t * 1e9:,.1f}" for t in times)))
        title = "Nanoseconds to represent one entity, many at once so that the device is busy; median"
        return Grid(title, ("m", "d", KNOWN, NEW, LAN), tuple(rows), 0)


def _row(*texts: str) -> tuple[Text, ...]:
    return tuple(Text(text) for text in texts)


def path_of(results: ResultsFolder, device: str) -> Path:
    """The file of a device."""
    return results.folder / TABLE / f"{re.sub(r'[^A-Za-z0-9]+', '-', device).strip('-')}.json"


def stored(results: ResultsFolder) -> Sequence[Efficiency]:
    """What was measured, device by device."""
    return [Efficiency.read(path) for path in sorted((results.folder / TABLE).glob("*.json"))]
