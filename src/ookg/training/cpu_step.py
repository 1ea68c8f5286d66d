"""A training step on the CPU, by the kernels of `cpu_step` and `cpu_touched`. Importing this module needs `numba`."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ookg.kernels import cpu_step, cpu_touched, randomness
from ookg.kernels.adam import FIRST_DECAY, SECOND_DECAY
from ookg.kernels.cpu_batches import TASKS, draw_negatives, gather_batch
from ookg.kernels.cpu_compile import gap_kind
from ookg.kernels.cpu_equations import ADAGRAD, ADAM
from ookg.kernels.cpu_order import DIGIT, marks_for
from ookg.kernels.threads import one_torch_thread, run_tasks
from ookg.models.geometry import Move, kernel_of
from ookg.training.optimizers import State
from ookg.training.sampling import NEGATIVES, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables
from ookg.types import Array


class NumbaStep:
    """The step of `ReferenceStep`: closed-form gradients, pairs sorted by entity, the optimiser fused with L2.

    It changes the tables in place. The same seed gives the same numbers with any number of threads.
    """

    name = "numba"

    def __init__(self, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> None:
        self.tables, self.sampler, self.settings = tables, sampler, settings
        self.rate_of: Callable[[int], float] = settings.rate
        self.geometry = settings.geometry
        self.kind = gap_kind(self.geometry)
        batch, pairs = sampler.batch, sampler.batch * (settings.negatives + 1)
        entities, width = tables.entities.shape
        touched = min(entities, pairs + batch)

        def numbers(*shape: int) -> Array:
            return torch.empty(shape).numpy()  # aligned to cache lines, which NumPy's own are not

        def integers(*shape: int) -> Array:
            return np.empty(shape, dtype=np.int32)

        def groups(ids: int) -> tuple[Array, Array, Array]:
            return integers(ids), integers(ids + 1), integers(batch)

        self._triples, self._weights = sampler.triples.contiguous().numpy(), sampler.weight.contiguous().numpy()
        ids = np.empty((3, batch), dtype=np.int64)
        self._batch = ids[0], ids[1], ids[2], numbers(batch)
        self._losses = numbers(batch)
        self._ids, self._usable = integers(batch, settings.negatives), np.empty((batch, settings.negatives), np.bool_)
        self._order = (
            *((integers(2, 2, size), integers((1 << DIGIT) + 1)) for size in (pairs + batch, batch)),
            (integers(touched + 1), integers(2, pairs)),
            np.empty(2, dtype=np.int64),
            groups(touched),
            groups(min(len(tables.relations), batch)),
        )
        self._forward = numbers(batch, width), numbers(pairs), numbers(pairs)
        self._gradients = numbers(batch, width), numbers(batch, self.geometry.relation_width)
        # What only one of the two kernels needs: how a row is moved and marks, or cuts and gradients of entities and of
        # each part of the work.
        self._more: tuple[Any, ...]
        if tables.optimizer.is_sparse:
            self._more = ADAGRAD if tables.optimizer.name == "adagrad" else ADAM, marks_for(pairs + batch)
        else:
            cuts = tuple(np.empty(size + 1, dtype=np.int64) for size in (TASKS, cpu_step.PARTS))
            self._more = cuts, (numbers(touched, width), numbers(cpu_step.PARTS, batch, width))

    @one_torch_thread()  # a second one would spin for a while after each small gather, where a helper wants to run
    def __call__(self, number: int) -> Tensor:
        """Take the step with this number; return its loss (without the L2 term)."""
        sampler, tables, settings = self.sampler, self.tables, self.settings
        corrupts_head = number % 2 == 1
        gather_batch(sampler.rows(number).numpy(), self._triples, self._weights, self._batch)
        head, relation, tail, weight = self._batch
        source, answer = (tail, head) if corrupts_head else (head, tail)
        sign = -1.0 if corrupts_head else 1.0
        turns, slope = self._turns(relation, sign)
        share = weight / weight.sum() / np.float32(2)
        tables.updates += 1
        is_sparse, numbers = tables.optimizer.is_sparse, self._ids.size * tables.entities.shape[1]
        kernel = cpu_touched if is_sparse else cpu_step
        run_tasks(
            kernel.take_step,
            kernel.PHASES,
            numbers if is_sparse else numbers + tables.entities.numel(),
            (source, answer, relation, share, self._losses),
            (*self._draws(number), self._ids, self._usable),
            self._order,
            (turns, *self._forward),
            (settings.margin, settings.temperature, self.kind, sign, slope),
            self._gradients,
            (_arrays(tables.entities, tables.entity_state), _arrays(tables.relations, tables.relation_state)),
            (self._factors(number), *self._more),
        )
        return torch.from_numpy(np.asarray(self._losses.sum(dtype=np.float64), dtype=np.float32))

    def _factors(self, number: int) -> tuple[float, float, float]:
        """What the update of a row takes."""
        updates, decay = self.tables.updates, 2.0 * self.settings.l2
        rate = self.tables.optimizer.rate(self.rate_of(number))
        if self.tables.optimizer.name == "adagrad":
            return decay, rate, 0.0
        return decay, rate / (1 - FIRST_DECAY**updates), 1 / (1 - SECOND_DECAY**updates)

    def prepare(self) -> float:
        """Compile what a step of this geometry needs, on a graph of two triples; return the seconds it took.

        They are few where the compiled code is found in Numba's cache.
        """
        start = perf_counter()
        small = {"dim": 2, "batch": 2, "negatives": 2}
        settings = self.settings.changed(small)
        triples = torch.tensor([[0, 0, 1], [1, 0, 2]])
        step = NumbaStep(Tables.initial(3, 1, settings, "cpu"), Sampler(triples, 3, 1, settings), settings)
        step(0)
        return perf_counter() - start

    def negatives(self, number: int, triples: Tensor) -> tuple[Array, Array]:
        """`Sampler.negatives` of a step: entity ids, in memory that the next step uses again, and whether usable."""
        head, relation, tail = (column.contiguous().numpy() for column in triples.unbind(dim=1))
        start, answers, shared = self._draws(number)
        known = tail if number % 2 == 1 else head
        return self._ids, draw_negatives(start, known, relation, answers, shared, self._ids)

    def _draws(self, number: int) -> tuple[Any, tuple[Array, Array, int], int]:
        """The start of a step's random stream, the true answers, and how many triples share negatives."""
        start = np.uint64(randomness.stream(self.settings.seed, NEGATIVES, number))
        true = self.sampler.heads if number % 2 == 1 else self.sampler.tails
        return start, (true.offsets.numpy(), true.keys.numpy(), true.num_entities), self.settings.negatives_shared

    def _turns(self, relation: Array, sign: float) -> tuple[Array, float]:
        """What leads from the known end to the other, and the derivative of a translation or phase by its parameter."""
        match kernel_of(self.geometry).move:
            case Move.TRANSLATION:
                return self.tables.relations.numpy()[None], sign
            case Move.ROTATION:
                parameters = self.tables.relations[torch.from_numpy(relation)]
                turn = sign * self.geometry.relation_vectors(parameters, self.settings.initial_range)
                turns = torch.stack((torch.cos(turn), torch.sin(turn))).numpy()
                return turns, sign * np.pi / self.settings.initial_range


def _arrays(table: Tensor, state: State) -> tuple[Array, Array, Array]:
    """A table and what the optimiser keeps of it: two tables of rows always, which may be the same."""
    first, second = state[0], state[-1]
    return table.numpy(), first.view(len(first), -1).numpy(), second.view(len(second), -1).numpy()
