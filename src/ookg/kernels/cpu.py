"""Fast paths for the CPU, compiled by Numba: a training step, ranking, vectors for new entities in bulk.

Importing this module needs `numba`. Each function equals a slower one written with PyTorch, which is its specification.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ookg.kernels import cpu_step as compute
from ookg.kernels.cpu_compile import gap_kind
from ookg.kernels.cpu_newcomers import weighted_candidates
from ookg.kernels.cpu_ranking import gap_to_all, rank_counts
from ookg.kernels.reference import FIRST_DECAY, SECOND_DECAY
from ookg.training import randomness
from ookg.training.sampling import NEGATIVES, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables

__all__ = ["NumbaStep", "gap_to_all", "rank_counts", "weighted_candidates"]

Array = np.ndarray[Any, Any]

# Parts of the backward pass, each with point gradients of its own. A constant, because the order of sums, and so the
# result to the last bit, depends on how the work is cut.
PARTS = 8


class NumbaStep:
    """The step of `ReferenceStep`: closed-form gradients, pairs sorted by entity, Adam fused with L2.

    It changes the tables in place. The same seed gives the same numbers with any number of threads.
    """

    name = "numba"

    def __init__(self, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> None:
        self.tables, self.sampler, self.settings = tables, sampler, settings
        self.geometry = settings.geometry
        self.kind = gap_kind(self.geometry)
        batch, pairs = sampler.batch, sampler.batch * (settings.negatives + 1)
        entities, width = tables.entities.shape

        def numbers(*shape: int) -> Array:
            return torch.empty(shape).numpy()  # aligned to cache lines, which NumPy's own are not

        self._ids = np.empty((batch, settings.negatives), dtype=np.int32)
        self._offsets, self._rank = np.empty(entities + 2, dtype=np.int32), np.empty(entities, dtype=np.int32)
        self._pairs = np.empty((2, pairs), dtype=np.int32)
        self._gaps, self._slopes = numbers(pairs), numbers(pairs)
        self._points, self._rest = numbers(batch, width), numbers(PARTS, batch, width)
        self._own = numbers(min(entities, pairs), width)
        self._source, self._relation = numbers(batch, width), numbers(batch, self.geometry.relation_width)
        self._no_rank = np.full(len(tables.relations), -1, dtype=np.int32)

    def __call__(self, number: int) -> Tensor:
        """Take the step with this number; return its loss (without the L2 term)."""
        rows = self.sampler.rows(number)
        triples, corrupts_head = self.sampler.triples[rows], number % 2 == 1
        head, relation, tail = (column.contiguous().numpy() for column in triples.unbind(dim=1))
        source, answer = (tail, head) if corrupts_head else (head, tail)
        sign = -1.0 if corrupts_head else 1.0
        ids, usable = self.negatives(number, triples)
        compute.sort_pairs(ids, usable, answer, self._offsets, self._pairs, self._rank)
        loss = self._find_gradients(source, relation, self.sampler.weight[rows], usable, sign)
        self._update(source, relation, number)
        return loss

    def prepare(self) -> float:
        """Compile what a step of this geometry needs, on a graph of two triples; return the seconds it took.

        They are few where the compiled code is found in Numba's cache.
        """
        start = perf_counter()
        small = {"dim": 2, "batch": 2, "negatives": 2, "placeholder_entities": 0}
        settings = self.settings.changed(small)
        triples = torch.tensor([[0, 0, 1], [1, 0, 2]])
        step = NumbaStep(Tables.initial(3, 1, settings, "cpu"), Sampler(triples, 3, 1, settings), settings)
        step(0)
        return perf_counter() - start

    def negatives(self, number: int, triples: Tensor) -> tuple[Array, Array]:
        """`Sampler.negatives` of a step: entity ids, in memory that the next step uses again, and whether usable."""
        sampler = self.sampler
        start = np.uint64(randomness.stream(self.settings.seed, NEGATIVES, number))
        head, relation, tail = triples.unbind(dim=1)
        if number % 2 == 1:
            keys, queries = self._head_keys, relation * sampler.num_entities + tail
        else:
            keys, queries = sampler.true_keys, head * sampler.num_relations + relation
        usable = compute.draw_negatives(start, queries.numpy(), keys.numpy(), sampler.num_entities, self._ids)
        return self._ids, usable

    @cached_property
    def _head_keys(self) -> Tensor:
        """The training triples' keys with the head last, sorted."""
        head, relation, tail = self.sampler.triples.unbind(dim=1)
        size = self.sampler.num_entities
        return ((relation * size + tail) * size + head).sort().values

    def _find_gradients(self, source: Array, relation: Array, weight: Tensor, usable: Array, sign: float) -> Tensor:
        """The loss; gradients of pairs to _own, those of known ends and relations by row to _source and _relation."""
        entities, settings = self.tables.entities.numpy(), self.settings
        sorted_pairs = (entities, self._points, self._offsets, self._pairs)
        turns, slope = self._turns(relation, sign)
        compute.solve_points(entities, source, turns, self._points)
        compute.pair_gaps(*sorted_pairs, self.kind, self._gaps)
        share = weight.numpy() / weight.numpy().sum() / np.float32(2)
        losses = compute.row_losses(
            self._gaps, usable, share, settings.margin, settings.temperature, self.kind, self._slopes
        )
        compute.pair_gradients(*sorted_pairs, self._slopes, self.kind, self._own, self._rest)
        compute.chain_points(self._points, self._rest, turns, slope, self._source, self._relation)
        return torch.tensor(losses.sum(dtype=np.float64), dtype=torch.float32)

    def _turns(self, relation: Array, sign: float) -> tuple[Array, float]:
        """What leads from the known end to the other, and the derivative of a translation or phase by its parameter."""
        parameters = self.tables.relations[torch.from_numpy(relation)]
        turn = sign * self.geometry.relation_vectors(parameters, self.settings.initial_range)
        if self.geometry.name != "rotate":
            return turn.numpy()[None], sign
        return torch.stack((torch.cos(turn), torch.sin(turn))).numpy(), sign * np.pi / self.settings.initial_range

    def _update(self, source: Array, relation: Array, number: int) -> None:
        tables = self.tables
        tables.updates += 1
        rate = self.settings.rate(number) / (1 - FIRST_DECAY**tables.updates)
        factors = (2.0 * self.settings.l2, rate, 1 / (1 - SECOND_DECAY**tables.updates))
        for table, mean, square, rank, gradients, ids in (
            (tables.entities, tables.entities_mean, tables.entities_square, self._rank, self._source, source),
            (tables.relations, tables.relations_mean, tables.relations_square, self._no_rank, self._relation, relation),
        ):
            offsets, order = compute.group_rows(ids, len(table))
            arrays = table.numpy(), mean.numpy(), square.numpy()
            compute.adam_rows(arrays, self._own, rank, gradients, offsets, order, factors)
