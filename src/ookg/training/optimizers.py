"""The optimisers: what each keeps beside a table, and how it moves rows.

    adam         over whole tables, as in the paper: a row without a gradient moves on, by what its moments remember
    sparse-adam  the same on the rows that a step touches: the moments of a row decay and move it only then. They are
                 corrected for their start at 0 by the number of all updates, as if each had touched the row
    compact-adam the same in half the room: the first moments in 16 bits, and one second moment for each row
    adagrad      row-wise Adagrad on those rows: one number for each row, the sum over its updates of the mean of g²

Adam over whole tables moves a row that is touched in a share p of the steps by about √p of the learning rate at each
step; on touched rows alone it would be p. So there it takes 1/√p of the learning rate, at most MOST_FACTOR times as
much, with p the share of entities that a step touches. docs/scale.md has what was measured.

A step touches the rows of the entities in its triples and in their usable negatives, and those of its relations. The L2
term is that of the rows that are moved: with a sparse optimiser a row is pulled to 0 only when it is touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ookg.kernels.adagrad import adagrad_update
from ookg.kernels.adam import adam_update, compact_adam_update
from ookg.training.settings import TrainingSettings

MOST_FACTOR = 4.0

State = tuple[Tensor, ...]  # what an optimiser keeps beside a table, in the order of `Optimizer.keeps`


@dataclass(frozen=True)
class Kept:
    """Something that an optimiser keeps beside a table, and that begins at 0.

    by_row: one number for each row; else one for each number of the table
    """

    name: str
    by_row: bool = False
    dtype: torch.dtype = torch.float32

    def shape(self, rows: int, width: int) -> tuple[int, ...]:
        """Its shape beside a table."""
        return (rows,) if self.by_row else (rows, width)


@dataclass(frozen=True)
class Optimizer:
    """One way to move parameters.

    keeps: what it keeps beside a table
    is_sparse: moves only the rows that a step touches
    starts_afresh: forgets all it has kept where the learning rate drops
    rate_factor: times the learning rate of the settings, which is Adam's
    update: changes rows and what is kept of them in place: (rows, gradient, state, rate, updates)
    """

    name: str
    keeps: tuple[Kept, ...]
    is_sparse: bool
    starts_afresh: bool
    rate_factor: float
    update: Callable[[Tensor, Tensor, State, float, int], None]

    def row_bytes(self, width: int) -> int:
        """Of a row of a table with what is kept of it."""
        return 4 * width + sum(kept.dtype.itemsize * (1 if kept.by_row else width) for kept in self.keeps)

    def rate(self, rate: float) -> float:
        """Its learning rate where the settings' is so much."""
        return self.rate_factor * rate


def _adam(rows: Tensor, gradient: Tensor, state: State, rate: float, updates: int) -> None:
    adam_update(rows, gradient, state[0], state[1], rate, updates)


def _compact_adam(rows: Tensor, gradient: Tensor, state: State, rate: float, updates: int) -> None:
    compact_adam_update(rows, gradient, state[0], state[1], rate, updates)


def _adagrad(rows: Tensor, gradient: Tensor, state: State, rate: float, updates: int) -> None:
    del updates
    adagrad_update(rows, gradient, state[0], rate)


MOMENTS = Kept("mean"), Kept("square")
COMPACT_MOMENTS = Kept("mean", dtype=torch.bfloat16), Kept("square", by_row=True)
OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("adam", MOMENTS, False, True, 1.0, _adam),
        Optimizer("sparse-adam", MOMENTS, True, True, 1.0, _adam),
        Optimizer("compact-adam", COMPACT_MOMENTS, True, True, 1.0, _compact_adam),
        Optimizer("adagrad", (Kept("sum", by_row=True),), True, False, 300.0, _adagrad),
    )
}


def optimizer_for(settings: TrainingSettings, num_entities: int) -> Optimizer:
    """The optimiser of a training with so many entities."""
    optimizer = OPTIMIZERS[settings.resolved(num_entities).optimizer]
    if not (optimizer.is_sparse and optimizer.starts_afresh):  # no Adam on touched rows
        return optimizer
    share = -math.expm1(-settings.rows_touched / max(1, num_entities))
    return replace(optimizer, rate_factor=min(MOST_FACTOR, share**-0.5))
