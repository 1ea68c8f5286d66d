"""What a training will take, before it starts: where its tables lie, memory, and time."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from ookg.errors import InputError
from ookg.system.machine import free_memory
from ookg.training.gpu_memory import step_bytes
from ookg.training.optimizers import OPTIMIZERS
from ookg.training.settings import COMPACT, TrainingSettings
from ookg.training.tables import Place, Room
from ookg.training.trainer import RATE_OVERFLOW, Trainer

# Where tables are to lie: by their size, or at a place.
Wanted = Literal["auto", "device", "host", "disk"]
# Of the memory that is free, so much may be taken before tables go to a slower place.
SHARE = 0.85
# Bytes for each triple: its ids, its weight, two lists of true answers, two orders, and the sort that makes them.
TRIPLE_BYTES = 24 + 4 + 2 * 8 + 2 * 8 + 40
MEASURED_SECONDS, MEASURED_STEPS = 1.0, 20
WARM_UP_STEPS = 4  # two for each side: on a GPU the first compiles, and the second is captured


@dataclass(frozen=True)
class Plan:
    """What a training will take.

    tables: where the entities' table lies, with what the optimiser keeps of it; table_bytes: how much that is
    memory_bytes: about as much memory as is needed in all; free_bytes: as much as the device has left, None where the
        system does not say
    spared_bytes: what `sparse-adam` would take more for its tables, where that is too much for a GPU and "compact-adam"
        is not; 0 else
    steps_per_second: measured over some steps; None before
    done: how many of the steps are done, where a run is resumed
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
    spared_bytes: int = 0
    steps_per_second: float | None = None
    done: int = 0

    @property
    def seconds(self) -> float | None:
        """How long the steps that are left will take."""
        if 0 < self.steps <= self.done:
            return 0.0
        return None if self.steps_per_second is None else (self.steps - self.done) / self.steps_per_second

    def lines(self) -> list[str]:
        """It in words."""
        place = {
            "device": "memory" if self.device == "CPU" else f"the memory of the {self.device}",
            "host": "memory" if self.device == "CPU" else "the machine's memory",
            "disk": "a file",
        }[self.tables]
        free = "" if self.free_bytes is None else f", {_size(self.free_bytes)} are free"
        lines = [
            f"plan: {self.model} by {self.optimizer}; tables of {_size(self.table_bytes)} in {place}; "
            f"{_size(self.memory_bytes)} of memory are needed{free}"
        ]
        if self.spared_bytes:
            instead = f"those of sparse-adam would take {_size(self.table_bytes + self.spared_bytes)}"
            lines.append(f"plan: {instead}, which the {self.device} has no memory for")
        if 0 < self.steps <= self.done:
            lines.append(f"plan: none of its {self.steps:,} steps are left")
        elif self.steps_per_second is not None and self.seconds is not None:
            rate = f"{self.steps_per_second:,.1f} steps of {self.batch:,} triples per second"
            left = f"the {self.steps - self.done:,} that are left of {self.steps:,}" if self.done else f"{self.steps:,}"
            lines.append(f"plan: {rate}, about {_time(self.seconds)} for {left} steps")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """It as plain values, for JSON."""
        return asdict(self) | {"seconds": self.seconds}


def with_optimizer(
    sizes: tuple[int, int, int], settings: TrainingSettings, device: torch.device, wanted: Wanted = "auto"
) -> TrainingSettings:
    """The settings with the optimiser that "auto" is for so many entities, relations and triples.

    Of `sparse-adam` that is the compact form where only its tables fit into a GPU's memory: a step that has to bring
    its rows takes many times as long.
    """
    resolved = settings.resolved(sizes[0])
    if settings.optimizer == "auto" and wanted in ("auto", "device") and _spared_bytes(sizes, resolved, device):
        return replace(resolved, optimizer=COMPACT)
    return resolved


def plan(
    sizes: tuple[int, int, int],
    settings: TrainingSettings,
    device: torch.device,
    wanted: Wanted = "auto",
    *,
    keeps_best: bool = False,
) -> Plan:
    """What a training of so many entities, relations and triples takes; nothing is measured yet.

    wanted: where the tables are to lie. "auto" is the memory of the device; where they do not fit, for a GPU the
        machine's memory, and else a file
    keeps_best: whether the best vectors of the validations are kept, in a copy
    """
    if wanted not in get_args(Wanted):
        raise InputError(f"tables {wanted!r}; choose {', '.join(get_args(Wanted))}")
    settings = with_optimizer(sizes, settings, device, wanted)
    copied = _vector_bytes(sizes, settings) if keeps_best else 0
    place, table_bytes = _place(sizes, settings, device, wanted, copied), _table_bytes(sizes, settings)
    free, on_gpu = free_memory(device), device.type == "cuda"
    is_elsewhere = place == "disk" or (place == "host" and on_gpu)
    others = _other_bytes(sizes, settings, device, brought=is_elsewhere)
    needed = others if is_elsewhere else others + table_bytes
    if not is_elsewhere and not (on_gpu and free is not None and needed + copied > free):
        needed += copied  # else it is in a file, or in the machine's memory beside a GPU that has none left
    batch = min(settings.batch, sizes[2])
    spared = 0
    if settings.optimizer == COMPACT and place == "device":
        spared = _spared_bytes(sizes, replace(settings, optimizer="sparse-adam"), device)
    return Plan(
        settings.model, "GPU" if on_gpu else "CPU", settings.optimizer, place, table_bytes,
        needed, free, batch, settings.steps, spared,
    )  # fmt: skip


def _place(
    sizes: tuple[int, int, int], settings: TrainingSettings, device: torch.device, wanted: Wanted, copied: int
) -> Place:
    """Where the tables lie; copied: bytes of the best vectors, which leave a GPU that has no memory for them."""
    on_gpu = device.type == "cuda"
    if wanted == "device" or (wanted == "auto" and _fits(sizes, settings, device, 0 if on_gpu else copied)):
        return "device"
    size, free = _table_bytes(sizes, settings), free_memory(torch.device("cpu"))
    if wanted == "host" and on_gpu and free is not None and size > free:
        problem = f"tables of {_size(size)} do not fit into the machine's memory, of which {_size(free)} are free"
        raise InputError(f'{problem}; use `tables="disk"`, lower `dim` or try adagrad')
    is_enough = on_gpu and (free is None or size + copied <= SHARE * free)
    return "host" if wanted == "host" or (wanted == "auto" and is_enough) else "disk"


def _table_bytes(sizes: tuple[int, int, int], settings: TrainingSettings) -> int:
    """Of the entities' table, with what the optimiser keeps of it."""
    return sizes[0] * OPTIMIZERS[settings.optimizer].row_bytes(settings.geometry.entity_width)


def _vector_bytes(sizes: tuple[int, int, int], settings: TrainingSettings) -> int:
    """Of the vectors alone."""
    geometry = settings.geometry
    return 4 * (sizes[0] * geometry.entity_width + sizes[1] * geometry.relation_width)


def _other_bytes(
    sizes: tuple[int, int, int], settings: TrainingSettings, device: torch.device, *, brought: bool
) -> int:
    """Of all else in the device's memory; brought: whether it gets the rows of the entities for each step."""
    entities, relations, triples = sizes
    geometry = settings.geometry
    size = 12 * relations * geometry.relation_width + TRIPLE_BYTES * triples + 16 * entities
    if device.type == "cuda":
        row_bytes = OPTIMIZERS[settings.optimizer].row_bytes(geometry.entity_width)
        size += step_bytes(settings, row_bytes, host=brought)
    return size


def _fits(sizes: tuple[int, int, int], settings: TrainingSettings, device: torch.device, copied: int = 0) -> bool:
    """Whether a device has memory for a training with its tables there, and so many bytes more."""
    free = free_memory(device)
    needed = copied + _table_bytes(sizes, settings) + _other_bytes(sizes, settings, device, brought=False)
    return free is None or needed <= SHARE * free


def _spared_bytes(sizes: tuple[int, int, int], settings: TrainingSettings, device: torch.device) -> int:
    """What compact tables take less than those of `sparse-adam`, where they alone fit into a GPU's memory; 0 else."""
    compact = replace(settings, optimizer=COMPACT)
    if device.type != "cuda" or settings.optimizer != "sparse-adam":
        return 0
    if _fits(sizes, settings, device) or not _fits(sizes, compact, device):
        return 0
    return _table_bytes(sizes, settings) - _table_bytes(sizes, compact)


def room_for(planned: Plan, folder: Path | None) -> Room:
    """Where the tables of a plan lie; folder: for files, or one that will be in it; None for that of temporary ones."""
    while folder is not None and not folder.is_dir():
        folder = folder.parent if folder != folder.parent else None
    return Room(planned.tables, folder)


def steps_per_second(trainer: Trainer) -> float | None:
    """How fast a trainer is that has taken no step yet, nor has it afterwards; None where it diverges at once."""
    trainer.prepare()
    try:
        for _ in range(WARM_UP_STEPS):
            trainer.step().item()
        begun = time.perf_counter()
        while trainer.step_number < WARM_UP_STEPS + MEASURED_STEPS and time.perf_counter() - begun < MEASURED_SECONDS:
            loss = trainer.step()
        loss.item()  # a GPU may be behind
        rate = (trainer.step_number - WARM_UP_STEPS) / (time.perf_counter() - begun)
    except RuntimeError as error:
        if RATE_OVERFLOW not in str(error):
            raise
        rate = None
    trainer.restart()
    return rate


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"
