"""The results folder: each run's settings, figures, times and versions in one JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ookg.errors import FileError, InputError
from ookg.system.files import atomic_write

MAIN = ""  # the name of the variant that a method's main figures come from


@dataclass(frozen=True)
class Run:
    """One model of a method, trained on a data set with a seed, evaluated in one way.

    variant: the name of the way; "" is the main one
    """

    dataset: str
    method: str
    seed: int
    variant: str = MAIN

    def __str__(self) -> str:
        return f"{self.dataset}, {self.method}, seed {self.seed}{', ' if self.variant else ''}{self.variant}"


@dataclass(frozen=True)
class Result:
    """What a run came to.

    settings: all that the figures depend on, but for the versions; figures: by the names of the measures
    seconds: of "train" and "evaluate"; empty where they say nothing, as of a run that shared the GPU with many others
    device: where it was trained
    """

    dataset: str
    method: str
    seed: int
    variant: str
    settings: Mapping[str, Any]
    figures: Mapping[str, float]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    device: str
    date: str

    @property
    def run(self) -> Run:
        """Whose result it is."""
        return Run(self.dataset, self.method, self.seed, self.variant)


class ResultsFolder:
    """The results under a folder: DATASET/METHOD/seed-N.json, DATASET/METHOD/seed-N.VARIANT.json."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; name a folder for the results")

    def path_of(self, run: Run) -> Path:
        """Where a run's result is, or will be."""
        ending = f".{run.variant}" if run.variant else ""
        return self.folder / run.dataset / run.method / f"seed-{run.seed}{ending}.json"

    def find(self, run: Run) -> Result | None:
        """The result of a run, if it is there."""
        path = self.path_of(run)
        return _read(path, run) if path.exists() else None

    def seeds_of(self, dataset: str, method: str) -> list[int]:
        """The seeds that there are results of, ascending."""
        names = (path.name.split(".")[0] for path in (self.folder / dataset / method).glob("seed-*.json"))
        return sorted({int(name[5:]) for name in names if name[5:].isdecimal()})

    def write(self, result: Result) -> Path:
        """Store a result, atomically."""
        path = self.path_of(result.run)
        write_json(path, asdict(result))
        return path


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they come back from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document for people and version control to read, atomically."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8", newline="\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; one clear line where there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(document, dict):
        raise damaged(path, "not a JSON object")
    return document


def damaged(path: Path, problem: str) -> FileError:
    """The line for a result that cannot be used."""
    return FileError(path, f"damaged result ({problem})", "remove it, and the same command makes it anew")


def _read(path: Path, run: Run) -> Result:
    document = read_json(path)
    try:
        result = Result(**document)
        figures = {name: float(value) for name, value in result.figures.items()}
        seconds = {name: float(value) for name, value in result.seconds.items()}
        if not all(map(math.isfinite, (*figures.values(), *seconds.values()))):
            raise ValueError("a figure or a time that is no finite number")
        named, _, _ = result.run, dict(result.settings), dict(result.versions)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path, str(error)) from error
    if named != run:
        raise damaged(path, f"it says that it is of {named}")
    return Result(**(document | {"figures": figures, "seconds": seconds}))
