"""Memory for training on a GPU: what a step holds there, and tables in the machine's memory that the GPU reaches."""

from __future__ import annotations

import math
import mmap
import weakref

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.training.settings import TrainingSettings

# Bytes for each place of a step: its row's id as drawn and sorted, for two steps, and what the sort needs.
PLACE_BYTES = 80


def step_bytes(settings: TrainingSettings, row_bytes: int, *, host: bool) -> int:
    """About as much as a step holds on the GPU beside the tables.

    row_bytes: of a row of the entities' table and what is kept of it; host: whether these are brought for each step
    """
    width, places, batch = settings.geometry.entity_width, settings.rows_touched, settings.batch
    numbers = 2 * batch * width + places  # points and gradients at them; derivatives
    if settings.negatives_shared:
        sets = -(-batch // settings.negatives_shared)
        # Both sides of the sets also turned, the derivatives by each, and a gradient for each place.
        numbers = (3 * batch + 2 * sets * settings.negatives + places) * width + 3 * batch * settings.negatives
    numbers += batch * settings.dim  # the relations' gradients
    brought = 2 * places * row_bytes if host else 0
    return 4 * numbers + brought + PLACE_BYTES * places


def host_zeros(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros in the machine's memory, which a GPU reads and writes by itself as long as this tensor is there."""
    # Not by `pin_memory`: that takes a power of two of bytes, and makes a copy. These are pages of their own, which
    # need not be written to be zero.
    size = dtype.itemsize * math.prod(shape)
    try:
        table = torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
    except OSError as error:
        raise _no_room(size, str(error.strerror)) from error
    if torch.cuda.is_available():
        address = table.data_ptr()
        if code := int(torch.cuda.cudart().cudaHostRegister(address, size, 0)):  # type: ignore[no-untyped-call]
            raise _no_room(size, f"CUDA's error {code}")
        weakref.finalize(table, _unregister, address).atexit = False
    return table


def _no_room(size: int, why: str) -> InputError:
    problem = f"no {size / 1e9:,.1f} GB of the machine's memory for tables that a GPU reaches ({why})"
    return InputError(f'{problem}; put them in a file with `tables="disk"`, or lower `dim`')


def _unregister(address: int) -> None:
    torch.cuda.synchronize()  # nothing may still be on its way there
    torch.cuda.cudart().cudaHostUnregister(address)  # type: ignore[no-untyped-call]
