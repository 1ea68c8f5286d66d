# mypy: allow-untyped-calls
"""A training step on a GPU: the kernels of `ookg.kernels.gpu_step` around a sort, captured in a CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
from torch import Tensor

from ookg.kernels import gpu_step as compute
from ookg.kernels import randomness
from ookg.training.sampling import NEGATIVES, ORDER, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables


class Draw:
    """A step's batch and negatives, and their places sorted by entity and by relation.

    All in tensors that stay where they are: a captured graph reads what another one wrote.
    """

    def __init__(self, sampler: Sampler, device: torch.device) -> None:
        def empty(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        batch, columns = sampler.batch, sampler.settings.negatives + 2
        self.anchors, self.relations = empty(batch), empty(batch)
        self.weight = empty(batch, dtype=torch.float32)
        self.ids = empty(batch, columns)
        # Sixteen bits sort in half the time, where they can tell the entities and "no entity" apart.
        self.key_type = torch.int16 if sampler.num_entities < 1 << 16 else torch.int32
        self.entity_ids = self.keys(torch.arange(sampler.num_entities + 1, device=device))
        self.relation_ids = torch.arange(sampler.num_relations + 1, dtype=torch.int32, device=device)
        self.sorted, self.order = empty(batch * columns, dtype=self.key_type), empty(batch * columns, dtype=torch.int64)
        self.bounds = empty(len(self.entity_ids), dtype=torch.int64)
        self.sorted_relations, self.relation_order = empty(batch), empty(batch, dtype=torch.int64)
        self.relation_bounds = empty(len(self.relation_ids), dtype=torch.int64)

    def keys(self, ids: Tensor) -> Tensor:
        """Entity ids as numbers that sort alike."""
        return (ids - (1 << 15)).to(torch.int16) if self.key_type == torch.int16 else ids.to(torch.int32)

    def sort(self) -> None:
        """Order the places, and find where each entity's and each relation's begin."""
        torch.sort(self.keys(self.ids.view(-1)), stable=True, out=(self.sorted, self.order))
        torch.searchsorted(self.sorted, self.entity_ids, out=self.bounds)
        torch.sort(self.relations, stable=True, out=(self.sorted_relations, self.relation_order))
        torch.searchsorted(self.sorted_relations, self.relation_ids, out=self.relation_bounds)


class TritonStep:
    """The step of `ReferenceStep`, fused. While it computes one step, it already draws and sorts the next one's batch.

    The first step of each side runs kernel by kernel and compiles them; from then on a captured graph is replayed.
    """

    name = "triton"

    def __init__(
        self, tables: Tables, sampler: Sampler, settings: TrainingSettings, tuning: compute.KernelShape | None = None
    ) -> None:
        self.tables, self.sampler, self.settings = tables, sampler, settings
        self.rate_of: Callable[[int], float] = settings.rate
        self.tuning = tuning or compute.KernelShape.measured(settings.geometry)
        device, batch, width = tables.entities.device, sampler.batch, tables.entities.shape[1]
        self.on_gpu = device.type == "cuda"
        self.triples = sampler.triples.contiguous()
        self.weight = sampler.weight.float().contiguous()
        self.orders = [torch.empty(len(self.triples), dtype=torch.int64, device=device) for _ in range(2)]
        self.epochs: list[int | None] = [None, None]
        self.draws = [Draw(sampler, device) for _ in range(2)]
        self.drawn: int | None = None  # the step whose draw is ready
        self.coefficients = torch.empty(batch, settings.negatives + 2, device=device)
        self.points = torch.empty(2, batch, width, device=device)
        self.relation_gradients = torch.empty(batch, settings.dim, device=device)
        self.losses, self.loss = torch.empty(batch, device=device), torch.empty((), device=device)
        # What a captured step reads anew each time it is replayed.
        self.next_draw = torch.zeros((), dtype=torch.int64, device=device)
        self.updates = torch.zeros((), dtype=torch.int64, device=device)
        self.rate = torch.zeros((), device=device)
        self.on_device = (0, 0.0)  # updates and rate as they are on the device
        self.graphs: list[Any] = [None, None]
        self.has_run = [False, False]

    def __call__(self, number: int) -> Tensor:
        """Take the step with this number; return its loss (without the L2 term), not yet read from the device."""
        side = number % 2
        if self.drawn != number:
            self._shuffle(number)
            self.next_draw.fill_(number)
            self.draw(side)
            self.sort(side)
        self._shuffle(number + 1)
        self.tables.updates += 1
        self._tell_device(self.tables.updates, self.rate_of(number))
        if not self.on_gpu or not self.has_run[side]:
            self._run(side)
            self.has_run[side] = True
        else:
            if self.graphs[side] is None:
                self.graphs[side] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graphs[side]):
                    self._run(side)
            self.graphs[side].replay()
        self.drawn = number + 1
        self.on_device = (self.tables.updates + 1, self.on_device[1])
        return self.loss

    def _shuffle(self, number: int) -> None:
        side, epoch = number % 2, number // 2 // self.sampler.batches_per_epoch
        if self.epochs[side] != epoch:
            start = randomness.stream(self.settings.seed, ORDER, side, epoch)
            order = randomness.permutation(start, len(self.triples), self.triples.device)
            self.orders[side].copy_(order)
            self.epochs[side] = epoch

    def _tell_device(self, updates: int, rate: float) -> None:
        """Write what the device does not know yet: it counts updates on by itself."""
        for tensor, value, known in zip((self.updates, self.rate), (updates, rate), self.on_device, strict=True):
            if value != known:
                tensor.fill_(value)
        self.on_device = (updates, rate)

    def _run(self, side: int) -> None:
        """One step, and beside it the draw of the next; the relations' update runs beside the entities'."""
        main = torch.cuda.current_stream() if self.on_gpu else None
        with self._beside(main):
            self.draw(1 - side)
            self.sort(1 - side)
        self.pass_rows(side)
        with self._beside(main):
            self.pass_relations(side)
            torch.sum(self.losses, dim=0, out=self.loss)
        self.pass_entities(side)
        self._join(main)
        self.updates += 1

    @contextmanager
    def _beside(self, main: Any) -> Iterator[None]:
        """A second stream that starts from where the main one is."""
        if main is None:
            yield
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(main)
        self.beside = [*getattr(self, "beside", []), stream]
        with torch.cuda.stream(stream):
            yield

    def _join(self, main: Any) -> None:
        if main is not None:
            for stream in self.beside:
                main.wait_stream(stream)
            self.beside = []

    @property
    def _shape(self) -> dict[str, Any]:
        geometry, dim = self.settings.geometry, self.settings.dim
        kind = {"COMPLEX": compute.is_complex(geometry), "GAP": compute.gap_kind(geometry)}
        return {"DIM": dim, "BLOCK": triton.next_power_of_2(dim), **kind}

    def draw(self, side: int) -> None:
        """The batch and negatives of the next draw's step."""
        sampler, count, draw = self.sampler, self.settings.negatives, self.draws[side]
        stream = randomness.signed(randomness.stream(self.settings.seed, NEGATIVES))
        compute.sample[(sampler.batch,)](
            self.next_draw, self.orders[side], self.triples, sampler.true_keys, self.weight,
            draw.anchors, draw.relations, draw.weight, draw.ids,
            stream, len(self.triples), sampler.num_entities, sampler.num_relations,
            sampler.batches_per_epoch, sampler.batch,
            CORRUPTS_HEAD=side == 1, COUNT=count, BLOCK=triton.next_power_of_2(count),
            SEARCH=len(self.triples).bit_length(), num_warps=4,
        )  # fmt: skip
        self.next_draw += 1

    def sort(self, side: int) -> None:
        """The draw's places by the entity, and by the relation, that stands there."""
        self.draws[side].sort()

    def pass_rows(self, side: int) -> None:
        """Loss, and all derivatives that belong to one triple."""
        settings, tables, draw = self.settings, self.tables, self.draws[side]
        batch, count = self.sampler.batch, settings.negatives
        compute.rows[(batch,)](
            tables.entities, tables.relations, draw.anchors, draw.relations, draw.weight, draw.ids,
            self.points, self.relation_gradients, self.coefficients, self.losses,
            settings.margin, settings.temperature, math.pi / settings.initial_range, len(tables.entities), batch,
            COUNT=count, COUNT_BLOCK=triton.next_power_of_2(count), BATCH_BLOCK=triton.next_power_of_2(batch),
            TILE=self.tuning.row_tile, CORRUPTS_HEAD=side == 1, num_warps=self.tuning.row_warps, **self._shape,
        )  # fmt: skip

    def pass_entities(self, side: int) -> None:
        """Gradients of entities and their update."""
        tables, draw = self.tables, self.draws[side]
        compute.entities[(len(tables.entities),)](
            tables.entities, *tables.entity_state, self.points, self.coefficients,
            draw.order, draw.bounds, self.updates, self.rate, self.settings.l2, self.sampler.batch,
            COLUMNS=self.settings.negatives + 2, TILE=self.tuning.entity_tile, num_warps=self.tuning.entity_warps,
            **self._shape,
        )  # fmt: skip

    def pass_relations(self, side: int) -> None:
        """Gradients of relations and their update."""
        tables, draw, dim = self.tables, self.draws[side], self.settings.dim
        block = min(256, triton.next_power_of_2(dim))
        compute.relations[(len(tables.relations), triton.cdiv(dim, block))](
            tables.relations, *tables.relation_state, self.relation_gradients,
            draw.relation_order, draw.relation_bounds, self.updates, self.rate, self.settings.l2,
            DIM=dim, BLOCK=block, TILE=8, num_warps=4,
        )  # fmt: skip
