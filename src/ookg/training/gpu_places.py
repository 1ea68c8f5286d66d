"""What a training step on a GPU names, sorted."""

from __future__ import annotations

import torch
from torch import Tensor


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
