# mypy: allow-untyped-calls
"""Tables in the host's memory, or in a file, for a training step on a GPU: the rows that it touches are brought there.

They are read ahead of the step, and written back when they have moved. What the step before it touches too is handed
over on the device, so the numbers are those of a table on the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from ookg.kernels import gpu_host as compute
from ookg.training.gpu_places import SortedPlaces


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


class FileRows(HostRows):
    """The same for tables that the device cannot read, since they are mapped from a file: the host copies the rows.

    It waits for the device to say which, and takes them in the order in which they lie in the file.
    """

    def bring(self) -> None:
        """Read the rows from the file."""
        keys = self.places.sorted.cpu()
        is_first = keys < self.places.last_key
        is_first[1:] &= keys[1:] != keys[:-1]
        self.rows = keys[is_first].long() + self.places.key_offset
        self.here = is_first.nonzero().flatten().to(self.ids.device)
        super().bring()

    def _copy(self, *, to_table: bool) -> None:
        for table, local in zip(self.tables, self.local, strict=True):
            if to_table:
                table.index_copy_(0, self.rows, local.index_select(0, self.here).to(table.device))
            else:
                local.index_copy_(0, self.here, table.index_select(0, self.rows).to(local.device))


def _cut(table: Tensor) -> dict[str, int]:
    width = table.shape[1] if table.ndim > 1 else 1
    return {"WIDTH": width, "BLOCK": triton.next_power_of_2(width)}
