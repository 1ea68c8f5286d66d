"""The eleven published data sets: their names, tasks, and the checksums of their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ookg.datasets.encoded import Task


@dataclass(frozen=True)
class PublishedSet:
    """A published data set.

    remote_folder: the folder that it is published in
    sums: the SHA-256 of each of its six files
    """

    name: str
    task: Task
    remote_folder: str
    sums: Mapping[str, str]


@cache
def published_sets() -> Mapping[str, PublishedSet]:
    """The published data sets by name."""
    sums: dict[str, dict[str, str]] = {}
    for line in files("ookg.datasets").joinpath("SHA256SUMS").read_text("utf-8").splitlines():
        digest, path = line.split()
        name, file = path.split("/")
        sums.setdefault(name, {})[file] = digest
    return {name: PublishedSet(name, _task(name), _remote_folder(name), sums[name]) for name in sorted(sums, key=_rank)}


def published_set(name: str) -> PublishedSet | None:
    """The published data set of that name, in whatever case it is written, or None."""
    return next((published for known, published in published_sets().items() if known.lower() == name.lower()), None)


def _task(name: str) -> Task:
    return "link-prediction" if name.startswith("FB15k") else "triplet-classification"


def _remote_folder(name: str) -> str:
    base, position, number = name.split("-")
    return f"{base}_OOKB_{position.lower()}{number}"


def _rank(name: str) -> tuple[bool, int, str]:
    """The order of the paper's table."""
    base, position, _ = name.split("-")
    return base != "FB15k", ("Head", "Tail", "Both").index(position), name
