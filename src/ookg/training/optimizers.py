"""The optimisers: what each keeps beside a table, and how it moves rows.

    adam         over whole tables, as in the paper: a row without a gradient moves on, by what its moments remember
    sparse-adam  the same on the rows that a step touches: the moments of a row decay and move it only then. They are
                 corrected for their start at 0 by the number of all updates, as if each had touched the row
    adagrad      row-wise Adagrad on those rows: one number for each row, the sum over its updates of the mean of g²

A step touches the rows of the entities in its triples and in their usable negatives, and those of its relations. The L2
term is that of the rows that are moved: with a sparse optimiser a row is pulled to 0 only when it is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ookg.kernels.adagrad import adagrad_update
from ookg.kernels.adam import adam_update

State = tuple[Tensor, ...]  # what an optimiser keeps beside a table, in the order of `Optimizer.keeps`


@dataclass(frozen=True)
class Optimizer:
    """One way to move parameters.

    keeps: the names of what it keeps beside a table, which begin at 0
    keeps_rows: one number for each row of that; else one for each number of the table
    is_sparse: moves only the rows that a step touches
    starts_afresh: forgets all it has kept where the learning rate drops
    rate_factor: times the learning rate of the settings, which is Adam's
    update: changes rows and what is kept of them in place: (rows, gradient, state, rate, updates)
    """

    name: str
    keeps: tuple[str, ...]
    keeps_rows: bool
    is_sparse: bool
    starts_afresh: bool
    rate_factor: float
    update: Callable[[Tensor, Tensor, State, float, int], None]

    def shape(self, rows: int, width: int) -> tuple[int, ...]:
        """The shape of each thing that it keeps beside a table."""
        return (rows,) if self.keeps_rows else (rows, width)

    def rate(self, rate: float) -> float:
        """Its learning rate where the settings' is so much."""
        return self.rate_factor * rate


def _adam(rows: Tensor, gradient: Tensor, state: State, rate: float, updates: int) -> None:
    adam_update(rows, gradient, state[0], state[1], rate, updates)


def _adagrad(rows: Tensor, gradient: Tensor, state: State, rate: float, updates: int) -> None:
    del updates
    adagrad_update(rows, gradient, state[0], rate)


OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("adam", ("mean", "square"), False, False, True, 1.0, _adam),
        Optimizer("sparse-adam", ("mean", "square"), False, True, True, 1.0, _adam),
        Optimizer("adagrad", ("sum",), True, True, False, 100.0, _adagrad),
    )
}
