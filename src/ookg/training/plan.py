"""What a training will take, before it starts: where its tables lie, memory, and time."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from ookg.errors import InputError
from ookg.system.machine import free_memory
from ookg.training.optimizers import OPTIMIZERS
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Place, Room
from ookg.training.trainer import Trainer

# Where tables are to lie: by their size, or at a place.
Wanted = Literal["auto", "device", "host", "disk"]
# Of the memory that is free, so much may be taken before tables go to a slower place.
SHARE = 0.85
# Bytes for each triple: its ids, its weight, two lists of true answers, two orders, and the sort that makes them.
TRIPLE_BYTES = 24 + 4 + 2 * 8 + 2 * 8 + 40
MEASURED_SECONDS, MEASURED_STEPS = 1.0, 20


@dataclass(frozen=True)
class Plan:
    """What a training will take.

    tables: where the entities' table lies, with what the optimiser keeps of it; table_bytes: how much that is
    memory_bytes: about as much memory as is needed in all; free_bytes: as much as the device has left, None where the
        system does not say
    steps_per_second: measured over some steps; None before
    """

    model: str
    device: str
    optimizer: str
    tables: Place
    table_bytes: int
    memory_bytes: int
    free_bytes: int | None
    batch: int
    steps: int
    steps_per_second: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long all steps will take."""
        return None if self.steps_per_second is None else self.steps / self.steps_per_second

    def lines(self) -> list[str]:
        """It in words."""
        place = {
            "device": "memory" if self.device == "CPU" else f"the memory of the {self.device}",
            "host": "memory",
            "disk": "a file",
        }[self.tables]
        free = "" if self.free_bytes is None else f", {_size(self.free_bytes)} are free"
        lines = [
            f"plan: {self.model} by {self.optimizer}; tables of {_size(self.table_bytes)} in {place}; "
            f"{_size(self.memory_bytes)} of memory are needed{free}"
        ]
        if self.steps_per_second is not None and self.seconds is not None:
            rate = f"{self.steps_per_second:,.1f} steps of {self.batch:,} triples per second"
            lines.append(f"plan: {rate}, about {_time(self.seconds)} for {self.steps:,} steps")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """It as plain values, for JSON."""
        return asdict(self) | {"seconds": self.seconds}


def plan(
    sizes: tuple[int, int, int], settings: TrainingSettings, device: torch.device, wanted: Wanted = "auto"
) -> Plan:
    """What a training of so many entities, relations and triples takes; nothing is measured yet.

    wanted: where the tables are to lie. "auto" is the memory of the device, or where they do not fit a file
    """
    if wanted not in get_args(Wanted):
        raise InputError(f"tables {wanted!r}; choose {', '.join(get_args(Wanted))}")
    entities, relations, triples = sizes
    settings = settings.resolved(entities)
    geometry, optimizer = settings.geometry, OPTIMIZERS[settings.optimizer]
    row = geometry.entity_width + len(optimizer.keeps) * (1 if optimizer.keeps_rows else geometry.entity_width)
    table_bytes = 4 * entities * row
    others = 12 * relations * geometry.relation_width + TRIPLE_BYTES * triples + 16 * entities
    free = free_memory(device)
    place: Place = "disk"
    if wanted != "auto":
        place = wanted
    elif free is None or table_bytes + others <= SHARE * free:
        place = "device"
    needed = others if place == "disk" else others + table_bytes
    batch = min(settings.batch, triples)
    kind = "GPU" if device.type == "cuda" else "CPU"
    return Plan(
        settings.model, kind, settings.optimizer, place, table_bytes, needed, free, batch, settings.steps
    )  # fmt: skip


def room_for(planned: Plan, folder: Path | None) -> Room:
    """Where the tables of a plan lie; folder: for files, or one that will be in it; None for that of temporary ones."""
    while folder is not None and not folder.is_dir():
        folder = folder.parent if folder != folder.parent else None
    return Room(planned.tables, folder)


def steps_per_second(trainer: Trainer) -> float:
    """How fast a trainer is that has taken no step yet; it has taken none afterwards."""
    trainer.prepare()
    for _ in range(2):  # one for each side: what is made at the first use
        trainer.step()
    begun = time.perf_counter()
    while trainer.step_number < 2 + MEASURED_STEPS and time.perf_counter() - begun < MEASURED_SECONDS:
        loss = trainer.step()
    loss.item()  # a GPU may be behind
    rate = (trainer.step_number - 2) / (time.perf_counter() - begun)
    trainer.restart()
    return rate


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"
