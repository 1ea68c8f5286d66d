"""The numbers that training moves, and where they lie."""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Literal

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.system.pages import prefer_large_pages
from ookg.training.gpu_memory import host_zeros
from ookg.training.optimizers import Optimizer, State, optimizer_for
from ookg.training.settings import TrainingSettings

# Where the entities' table and what the optimiser keeps of it lie while they are trained: in the memory of the device
# that trains, in that of the machine, or in a file that is mapped into memory. On a CPU the first two are the same. It
# never changes a result.
Place = Literal["device", "host", "disk"]
# Initial values for a GPU are drawn on the CPU, so many at a time. For larger tables than the second number a GPU draws
# them itself, others than a CPU would: one core would be at it for longer than a short training takes.
DRAWN_NUMBERS, DRAWN_BY_GPU = 1 << 24, 1 << 31
LARGE_BYTES = 1 << 26


@dataclass(frozen=True)
class Room:
    """Where large tables lie; folder: for files, None for that of temporary ones."""

    place: Place = "device"
    folder: Path | None = None

    def zeros(self, shape: tuple[int, ...], device: torch.device | str, dtype: torch.dtype = torch.float32) -> Tensor:
        """A table of zeros."""
        if self.place == "disk":
            return _mapped_zeros(shape, dtype, self.folder or Path(gettempdir()))
        if torch.device(device).type == "cuda":
            is_there = self.place == "device"
            return torch.zeros(shape, dtype=dtype, device=device) if is_there else host_zeros(shape, dtype)
        return _in_large_pages(torch.empty(shape, dtype=dtype)).zero_()


def _in_large_pages(tensor: Tensor) -> Tensor:
    """Ask for large pages, before the first use: rows are far apart, and each would need a page of its own."""
    if tensor.nbytes >= LARGE_BYTES:
        prefer_large_pages(tensor.view(torch.uint8).numpy())  # as bytes: NumPy does not know every type
    return tensor


def _mapped_zeros(shape: tuple[int, ...], dtype: torch.dtype, folder: Path) -> Tensor:
    """Zeros in a file without a name, which is gone when nobody uses it any more, however the process ends."""
    size = dtype.itemsize * math.prod(shape)
    try:
        with TemporaryFile(dir=folder) as file:
            # All of it is taken now: a disk that is full later would end the process without a word.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        problem = f"{folder}: no file for tables of {size / 1e9:,.1f} GB ({error.strerror})"
        raise InputError(f"{problem}; make room, choose another `out`, or lower `dim`") from error
    if hasattr(mmap, "MADV_RANDOM"):  # rows are far apart: what lies behind one is not read ahead
        mapped.madvise(mmap.MADV_RANDOM)
    return torch.frombuffer(mapped, dtype=dtype).view(shape)


@dataclass
class Tables:
    """Two tables of parameters with what the optimiser keeps beside them, and how many updates that has seen.

    entities: (entities, entity_width); relations: (relations, relation_width)
    entity_state, relation_state: what the optimiser keeps, in the order of `Optimizer.keeps`
    place: where the entities lie, and what is kept of them
    """

    entities: Tensor
    relations: Tensor
    optimizer: Optimizer
    entity_state: State
    relation_state: State
    updates: int = 0
    place: Place = "device"

    @classmethod
    def initial(
        cls,
        num_entities: int,
        num_relations: int,
        settings: TrainingSettings,
        device: torch.device | str,
        room: Room | None = None,
    ) -> Tables:
        """Parameters uniform in ±(γ + 2)/d (or what the model makes of them), the optimiser's state zero.

        room: where the entities lie, and what is kept of them
        """
        geometry, room = settings.geometry, room or Room()
        optimizer = optimizer_for(settings, num_entities)
        sizes = (num_entities, geometry.entity_width), (num_relations, geometry.relation_width)

        def state(size: tuple[int, int], where: Room) -> State:
            return tuple(where.zeros(kept.shape(*size), device, kept.dtype) for kept in optimizer.keeps)

        try:
            tables = cls(
                room.zeros(sizes[0], device),
                Room().zeros(sizes[1], device),
                optimizer,
                state(sizes[0], room),
                state(sizes[1], Room()),
                place=room.place,
            )
            tables.draw(settings)
            return tables
        except RuntimeError as error:  # what PyTorch raises when it cannot allocate, on the CPU and on a GPU
            larger = max(sizes, key=lambda size: size[0] * size[1])
            problem = f"no memory for tables of {larger[0]:,} × {larger[1]:,} numbers"
            raise InputError(f'{problem}; lower `dim`, or put them in a file with `tables="disk"`') from error

    def draw(self, settings: TrainingSettings) -> None:
        """Begin anew: initial values in place of the parameters, and nothing that the optimiser remembers."""
        # Drawn on the CPU: the same seed gives the same initial values on every device, and one after the other they
        # are the same however many are drawn at a time.
        generator = torch.Generator().manual_seed(settings.seed)
        bound, device = settings.initial_range, self.relations.device  # the one that trains

        def fill(table: Tensor) -> None:
            source = generator
            if device.type == "cuda" and table.numel() >= DRAWN_BY_GPU:
                source = torch.Generator(device).manual_seed(settings.seed)
            if table.device.type == "cpu" == source.device.type:
                table.uniform_(-bound, bound, generator=generator)
                return
            for rows in torch.split(table, max(1, DRAWN_NUMBERS // max(1, table.shape[1]))):
                rows.copy_(torch.empty(rows.shape, device=source.device).uniform_(-bound, bound, generator=source))

        fill(self.entities)
        fill(self.relations)
        self.relations.copy_(settings.geometry.initial_relations(self.relations.clone()))
        if self.updates:
            for kept in (*self.entity_state, *self.relation_state):
                kept.zero_()
        self.updates = 0

    def restart_adam(self) -> None:
        """Forget Adam's moments, where the learning rate drops. What Adagrad has summed up stays."""
        if not self.optimizer.starts_afresh:
            return
        for kept in (*self.entity_state, *self.relation_state):
            kept.zero_()
        self.updates = 0

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        tensors = {"entities": self.entities, "relations": self.relations}
        for table, state in (("entities", self.entity_state), ("relations", self.relation_state)):
            tensors |= {f"{table}_{kept.name}": part for kept, part in zip(self.optimizer.keeps, state, strict=True)}
        return tensors
