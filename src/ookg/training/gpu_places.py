# mypy: allow-untyped-calls
"""What a training step on a GPU names, sorted; and the rows of it, where the table lies in the host's memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from ookg.kernels import gpu_host as compute


class SortedPlaces:
    """The places of a step, sorted by the row of a table that each names; a place may name none, by an id beyond all.

    All in tensors that stay where they are: a captured graph reads what another one wrote.

    sorted: (places,) keys, ascending; key + key_offset is the row, and keys from last_key on name none
    order: (places,) where each of them was
    bounds: (rows + 1,) where each row's places begin, if `bounded`
    """

    def __init__(self, size: int, num_rows: int, device: torch.device, *, bounded: bool) -> None:
        # Sixteen bits sort in half the time, where they can tell the rows and "no row" apart.
        self.key_type, self.key_offset = (torch.int16, 1 << 15) if num_rows < 1 << 16 else (torch.int32, 0)
        self.size, self.last_key = size, num_rows - self.key_offset
        self.sorted = torch.empty(size, dtype=self.key_type, device=device)
        self.order = torch.empty(size, dtype=torch.int64, device=device)
        self.bounded = bounded
        if bounded:
            self.rows = (torch.arange(num_rows + 1, device=device) - self.key_offset).to(self.key_type)
            self.bounds = torch.empty(num_rows + 1, dtype=torch.int64, device=device)

    def sort(self, ids: Tensor) -> None:
        """Order the places that name these rows, (places,)."""
        keys = (ids - self.key_offset).to(self.key_type) if self.key_offset else ids
        torch.sort(keys, stable=True, out=(self.sorted, self.order))
        if self.bounded:
            torch.searchsorted(self.sorted, self.rows, out=self.bounds)

    def first_places(self) -> Tensor:
        """For each place, as it was before it was sorted, the sorted place that is the first of its row; or `size`."""
        first = torch.searchsorted(self.sorted, self.sorted).masked_fill_(self.sorted >= self.last_key, self.size)
        return torch.empty_like(first).scatter_(0, self.order, first)


class HostRows:
    """The rows that one step touches, on the device: of a table in the host's memory and of what is kept beside it.

    tables: (rows, width) or (rows,) each, in memory that the device can read
    local: the rows; that of an entity lies at the first sorted place that names it
    ids: (places,) for each place, as it was before it was sorted, where its row lies; `places.size` if it names none
    """

    def __init__(self, tables: Sequence[Tensor], places: SortedPlaces) -> None:
        self.tables, self.places = tables, places
        device = places.sorted.device
        self.local = [torch.zeros(places.size, *table.shape[1:], dtype=table.dtype, device=device) for table in tables]
        self.ids = torch.zeros(places.size, dtype=torch.int32, device=device)

    def bring(self) -> None:
        """Read the rows from the host."""
        self.ids.copy_(self.places.first_places())
        self._copy(to_table=False)

    def send_back(self) -> None:
        """Write the rows to the host."""
        self._copy(to_table=True)

    def _copy(self, *, to_table: bool) -> None:
        places = self.places
        for table, local in zip(self.tables, self.local, strict=True):
            compute.copy_rows[(places.size,)](
                table, local, places.sorted, places.last_key, places.key_offset,
                **_cut(table), TO_TABLE=to_table, num_warps=1,
            )  # fmt: skip

    def take_from(self, earlier: HostRows) -> None:
        """Take the rows that an earlier step touches too from there: it has moved them since they were brought."""
        places = self.places
        for mine, theirs in zip(self.local, earlier.local, strict=True):
            compute.take_rows[(places.size,)](
                mine, places.sorted, theirs, earlier.places.sorted, places.size, places.last_key,
                **_cut(mine), SEARCH=places.size.bit_length(), num_warps=1,
            )  # fmt: skip


def _cut(table: Tensor) -> dict[str, int]:
    width = table.shape[1] if table.ndim > 1 else 1
    return {"WIDTH": width, "BLOCK": triton.next_power_of_2(width)}


def pinned(table: Tensor) -> Tensor:
    """The same memory, from now on where the device can read and write it by itself."""
    # Not by `pin_memory`: that is a copy, and rounds its size up to a power of two.
    runtime = torch.cuda.cudart()
    error = runtime.cudaHostRegister(table.data_ptr(), table.numel() * table.element_size(), 0)
    if int(error):
        raise RuntimeError(f"CUDA cannot map {table.numel() * table.element_size():,} bytes of memory: error {error}")
    return table
