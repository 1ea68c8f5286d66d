# mypy: allow-untyped-calls
"""A training step on a GPU whose triples share negatives: the kernels of `ookg.kernels.gpu_shared`."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
from torch import Tensor

from ookg.kernels import gpu_shared as compute
from ookg.kernels import randomness
from ookg.kernels.gpu_step import EUCLIDEAN, gap_kind, total_weight
from ookg.training.gpu_places import SortedPlaces
from ookg.training.gpu_step import CapturedStep
from ookg.training.sampling import NEGATIVES, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables

# How the kernels are cut, as it was fastest on an H200: points and negatives that a program of `distances` holds;
# vectors and columns of `pulls`; distances of `weigh`.
POINTS, SET_NEGATIVES, OWN, COLUMNS, WEIGHED = 32, 64, 32, 32, 4096


class SharedDraw:
    """A step's batch and sets of negatives, and their places sorted by entity and by relation.

    ids: (2 · batch + sets · negatives,) the entities: answers, anchors, and the sets one after the other
    usable: (sets, shared, negatives) which of its set's negatives are false for each triple; of none beyond the batch
    """

    def __init__(self, sampler: Sampler, shared: int, device: torch.device, *, bounded: bool) -> None:
        batch, count = sampler.batch, sampler.settings.negatives
        sets = -(-batch // shared)
        self.batch = batch
        self.relations = torch.empty(batch, dtype=torch.int32, device=device)
        self.weight, self.total = torch.empty(batch, device=device), torch.empty((), device=device)
        self.ids = torch.empty(2 * batch + sets * count, dtype=torch.int32, device=device)
        self.usable = torch.zeros(sets, shared, count, dtype=torch.int8, device=device)
        self.places = SortedPlaces(len(self.ids), sampler.num_entities, device, bounded=bounded)
        self.relation_places = SortedPlaces(batch, sampler.num_relations, device, bounded=bounded)

    @property
    def negatives(self) -> Tensor:
        """The sets' part of the ids."""
        return self.ids[2 * self.batch :]

    def sort(self) -> None:
        """Order the places; a negative that no triple of its set can use names nothing."""
        touched = self.usable.amax(dim=1).view(-1)
        none = self.places.last_key + self.places.key_offset
        negatives = torch.where(touched != 0, self.negatives, none)
        self.places.sort(torch.cat([self.ids[: 2 * self.batch], negatives.to(torch.int32)]))
        self.relation_places.sort(self.relations)


class SharedTritonStep(CapturedStep):
    """The step of `ReferenceStep` where every so many triples of a batch share a set of negatives."""

    draws: list[SharedDraw]

    def __init__(self, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> None:
        self.shared = min(settings.negatives_shared, sampler.batch)
        super().__init__(tables, sampler, settings)
        batch, count, width = sampler.batch, settings.negatives, tables.entities.shape[1]
        self.sets = -(-batch // self.shared)

        def zeros(*shape: int) -> Tensor:
            # What belongs to triples beyond the batch is never written, and must be numbers.
            return torch.zeros(shape, device=self.device)

        self.gap = gap_kind(settings.geometry)
        self.positives, self.pulled = zeros(batch), zeros(batch)
        self.points, self.at_points = zeros(self.sets, self.shared, width), zeros(self.sets, self.shared, width)
        self.negatives = zeros(self.sets, count, width)
        if self.gap != EUCLIDEAN.value:
            self.turned_points = zeros(self.sets, width, self.shared)
            self.turned_negatives = zeros(self.sets, width, count)
        self.by_negative, self.by_point = zeros(self.sets, count, self.shared), zeros(self.sets, self.shared, count)
        self.gradients = zeros(2 * batch + self.sets * count, width)

    def new_draw(self) -> SharedDraw:
        """Room for a step's batch."""
        return SharedDraw(self.sampler, self.shared, self.device, bounded=not self.tables.optimizer.is_sparse)

    def draw(self, side: int) -> None:
        """The batch and negatives of the next draw's step."""
        sampler, count, draw = self.sampler, self.settings.negatives, self.draws[side]
        stream = randomness.signed(randomness.stream(self.settings.seed, NEGATIVES))
        answers, size = sampler.heads if side == 1 else sampler.tails, self.sets * count
        compute.sample_sets[(triton.cdiv(size, 256),)](
            self.next_draw, draw.negatives, stream, sampler.num_entities, size, BLOCK=256
        )
        compute.sample_triples[(sampler.batch,)](
            self.next_draw, self.orders[side], self.triples, answers.offsets, answers.keys, self.weight,
            draw.relations, draw.weight, draw.ids, draw.negatives, draw.usable,
            len(self.triples), sampler.num_entities, sampler.batches_per_epoch, sampler.batch, self.shared,
            CORRUPTS_HEAD=side == 1, COUNT=count, BLOCK=triton.next_power_of_2(count), num_warps=1,
        )  # fmt: skip
        total_weight[(1,)](draw.weight, draw.total, sampler.batch, BLOCK=1024, num_warps=4)
        self.next_draw += 1

    def pass_rows(self, side: int) -> None:
        """Loss, and the gradients of all places and of each triple's relation."""
        settings, draw, batch = self.settings, self.draws[side], self.sampler.batch
        count, phase = settings.negatives, math.pi / settings.initial_range
        (table, _), ids = self.entity_rows(side), draw.ids
        negatives = draw.negatives
        if self.host_rows:
            ids = self.host_rows[side].ids
            negatives = ids[2 * batch :].clamp(max=len(ids) - 1)  # what names nothing weighs nothing
        torch.index_select(table, 0, negatives, out=self.negatives.view(-1, table.shape[1]))
        triple = {**self._shape, "CORRUPTS_HEAD": side == 1, "num_warps": 1}
        compute.points[(batch,)](
            table, self.tables.relations, ids, draw.relations, self.points, self.positives, phase, batch, **triple
        )
        self._measure()
        slots = triton.next_power_of_2(count)
        tile = max(1, WEIGHED // slots)
        compute.weigh[(self.sets, triton.cdiv(self.shared, tile))](
            self.by_negative, self.positives, draw.usable, draw.weight, draw.total,
            self.pulled, self.by_point, self.losses, settings.margin, settings.temperature, batch, self.shared,
            COUNT=count, COUNT_BLOCK=slots, TILE=tile, GAP=self.gap, num_warps=4,
        )  # fmt: skip
        self._pull()
        compute.ends[(batch,)](
            table, self.tables.relations, ids, draw.relations, self.pulled, self.at_points, self.gradients,
            self.relation_gradients, phase, batch, **triple,
        )  # fmt: skip

    def _measure(self) -> None:
        """The distances of each set's triples and negatives."""
        count = self.settings.negatives
        if self.gap == EUCLIDEAN.value:
            squares = self.negatives.square().sum(dim=2)[:, :, None] + self.points.square().sum(dim=2)[:, None, :]
            torch.baddbmm(squares, self.negatives, self.points.mT, alpha=-2, out=self.by_negative)
            self.by_negative.clamp_(min=0).sqrt_()
            return
        self.turned_points.copy_(self.points.mT)
        self.turned_negatives.copy_(self.negatives.mT)
        grid = (self.sets, triton.cdiv(self.shared, POINTS), triton.cdiv(count, SET_NEGATIVES))
        compute.distances[grid](
            self.turned_points, self.turned_negatives, self.by_negative, self.shared,
            COUNT=count, POINTS=POINTS, NEGATIVES=SET_NEGATIVES, UNROLL=4, **self._coordinates,
        )  # fmt: skip

    def _pull(self) -> None:
        """The gradients at the points, as far as they come from negatives, and at the negatives."""
        of_negatives = self.gradients[2 * self.sampler.batch :].view_as(self.negatives)
        if self.gap == EUCLIDEAN.value:
            # Σ d (x - n) = x Σ d - Σ d n, where d is the derivative divided by the distance.
            for own, others, derivatives, out in (
                (self.points, self.negatives, self.by_point, self.at_points),
                (self.negatives, self.points, self.by_negative, of_negatives),
            ):
                torch.mul(own, derivatives.sum(dim=2, keepdim=True), out=out)
                torch.baddbmm(out, derivatives, others, alpha=-1, out=out)
            return
        for own, others, derivatives, out, unroll in (
            (self.points, self.negatives, self.by_negative, self.at_points, 8),
            (self.negatives, self.points, self.by_point, of_negatives, 1),
        ):
            grid = (self.sets, triton.cdiv(own.shape[1], OWN), triton.cdiv(self.settings.dim, COLUMNS))
            compute.pulls[grid](
                own, others, derivatives, out, own.shape[1], others.shape[1],
                OWN=OWN, COLUMNS=COLUMNS, UNROLL=unroll, **self._coordinates,
            )  # fmt: skip

    @property
    def _coordinates(self) -> dict[str, Any]:
        """What the kernels go over, all numbers of a vector or the pairs of which moduli are taken; and by how many."""
        return {"DIM": self.settings.dim, "GAP": self.gap, "num_warps": 2}

    def pass_entities(self, side: int) -> None:
        """The update of entities."""
        table, state = self.entity_rows(side)
        self.update_rows(table, state, self.gradients, self.draws[side].places, local=bool(self.host_rows))
