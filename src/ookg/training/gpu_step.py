# mypy: allow-untyped-calls
"""A training step on a GPU: the kernels of `ookg.kernels.gpu_step` around a sort, captured in a CUDA graph."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import triton
from torch import Tensor

from ookg.errors import InputError
from ookg.kernels import gpu_step as compute
from ookg.kernels import gpu_touched as touched
from ookg.kernels import randomness
from ookg.training.gpu_host import FileRows, HostRows
from ookg.training.gpu_places import SortedPlaces
from ookg.training.sampling import NEGATIVES, ORDER, Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables

WAYS = {"sparse-adam": touched.ADAM, "compact-adam": touched.COMPACT_ADAM, "adagrad": touched.ADAGRAD}


class Draw:
    """A step's batch and negatives, and their places sorted by entity and by relation.

    All in tensors that stay where they are: a captured graph reads what another one wrote.

    ids: (batch, negatives + 2) the entities of each triple: negatives, answer, anchor
    """

    def __init__(self, sampler: Sampler, device: torch.device, *, bounded: bool) -> None:
        batch, columns = sampler.batch, sampler.settings.negatives + 2
        self.anchors, self.relations = (torch.empty(batch, dtype=torch.int32, device=device) for _ in range(2))
        self.weight, self.total = torch.empty(batch, device=device), torch.empty((), device=device)
        self.ids = torch.empty(batch, columns, dtype=torch.int32, device=device)
        self.places = SortedPlaces(batch * columns, sampler.num_entities, device, bounded=bounded)
        self.relation_places = SortedPlaces(batch, sampler.num_relations, device, bounded=bounded)

    def sort(self) -> None:
        """Order the places, and find where each entity's and each relation's begin."""
        self.places.sort(self.ids.view(-1))
        self.relation_places.sort(self.relations)


class CapturedStep(ABC):
    """A step that computes, while it already draws and sorts the next one's batch.

    The first step of each side runs kernel by kernel and compiles them; from then on a captured graph is replayed. With
    tables in a file all run kernel by kernel: the host has rows to copy.
    """

    name = "triton"

    def __init__(self, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> None:
        self.tables, self.sampler, self.settings = tables, sampler, settings
        self.rate_of: Callable[[int], float] = settings.rate
        self.device = device = sampler.triples.device
        self.on_gpu = device.type == "cuda"
        self.is_captured = self.on_gpu and tables.place != "disk"
        self.streams = [torch.cuda.Stream(device) for _ in range(2)] if self.on_gpu else []
        self.triples = sampler.triples.contiguous()
        self.weight = sampler.weight.float().contiguous()
        row_type = torch.int32 if len(self.triples) < 1 << 31 else torch.int64
        self.orders = [torch.empty(len(self.triples), dtype=row_type, device=device) for _ in range(2)]
        self.epochs: list[int | None] = [None, None]
        self.drawn: int | None = None  # the step whose draw is ready
        self.draws = [self.new_draw() for _ in range(2)]
        self.host_rows: list[HostRows] | None = None
        if tables.place != "device":
            if not tables.optimizer.is_sparse:
                problem = f"{tables.optimizer.name} moves every row, which is too slow where they are not on the GPU"
                raise InputError(f"{problem}; use `optimizer` sparse-adam, compact-adam or adagrad")
            kind = FileRows if tables.place == "disk" else HostRows
            self.host_rows = [kind((tables.entities, *tables.entity_state), draw.places) for draw in self.draws]
        self.relation_gradients = torch.empty(sampler.batch, settings.dim, device=device)
        self.losses, self.loss = torch.empty(sampler.batch, device=device), torch.empty((), device=device)
        # What a captured step reads anew each time it is replayed.
        self.next_draw = torch.zeros((), dtype=torch.int64, device=device)
        self.updates = torch.zeros((), dtype=torch.int64, device=device)
        self.rate = torch.zeros((), device=device)
        self.on_device = (0, 0.0)  # updates and rate as they are on the device
        self.graphs: list[Any] = [None, None]
        self.has_run = [False, False]

    @abstractmethod
    def new_draw(self) -> Any:
        """Room for a step's batch."""

    @abstractmethod
    def draw(self, side: int) -> None:
        """The batch and negatives of the next draw's step."""

    @abstractmethod
    def pass_rows(self, side: int) -> None:
        """Loss, and all derivatives that belong to one triple."""

    @abstractmethod
    def pass_entities(self, side: int) -> None:
        """Gradients of entities and their update."""

    def __call__(self, number: int) -> Tensor:
        """Take the step with this number; return its loss (without the L2 term), not yet read from the device."""
        side = number % 2
        if self.drawn != number:
            self._shuffle(number)
            self.next_draw.fill_(number)
            self.draw(side)
            self.sort(side)
            if self.host_rows:
                self.host_rows[side].bring()
        self._shuffle(number + 1)
        self.tables.updates += 1
        self._tell_device(self.tables.updates, self.tables.optimizer.rate(self.rate_of(number)))
        if not self.is_captured or not self.has_run[side]:
            self._run(side)
            self.has_run[side] = True
        else:
            if self.graphs[side] is None:
                self.graphs[side] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graphs[side]):
                    self._run(side)
            self.graphs[side].replay()
        if self.host_rows and self.on_gpu:
            # Whoever reads or writes the tables between two steps does so without a word to the device.
            torch.cuda.current_stream().synchronize()
        self.drawn = number + 1
        self.on_device = (self.tables.updates + 1, self.on_device[1])
        return self.loss

    def tables_changed(self) -> None:
        """Someone else wrote to the tables: rows that were read ahead are read again."""
        if self.host_rows:
            self.drawn = None

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
        """One step, and beside it the draw of the next; the relations' update runs beside the entities'.

        Rows that are not on the device are read ahead, out of the host's memory while this step computes. Those that it
        moves itself may be read before or after it writes them back: the next step takes them from here.
        """
        main = torch.cuda.current_stream() if self.on_gpu else None
        with self._beside(main, 0):
            self.draw(1 - side)
            self.sort(1 - side)
            if self.host_rows:
                self.host_rows[1 - side].bring()
        self.pass_rows(side)
        with self._beside(main, 1):
            self.pass_relations(side)
            torch.sum(self.losses, dim=0, out=self.loss)
        self.pass_entities(side)
        if self.host_rows:
            self.host_rows[side].send_back()
        self._join(main)
        if self.host_rows:
            self.host_rows[1 - side].take_from(self.host_rows[side])
        self.updates += 1

    @contextmanager
    def _beside(self, main: Any, number: int) -> Iterator[None]:
        """Another stream, which starts from where the main one is."""
        if main is None:
            yield
            return
        stream = self.streams[number]
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            yield

    def _join(self, main: Any) -> None:
        for stream in self.streams:
            main.wait_stream(stream)

    @property
    def _shape(self) -> dict[str, Any]:
        geometry, dim = self.settings.geometry, self.settings.dim
        kind = {"COMPLEX": compute.is_complex(geometry), "GAP": compute.gap_kind(geometry)}
        return {"DIM": dim, "BLOCK": triton.next_power_of_2(dim), **kind}

    def sort(self, side: int) -> None:
        """The draw's places by the entity, and by the relation, that stands there."""
        self.draws[side].sort()

    def entity_rows(self, side: int) -> tuple[Tensor, Sequence[Tensor]]:
        """The entities' rows, and what is kept beside them: all, or those that the step touches."""
        if self.host_rows:
            local = self.host_rows[side].local
            return local[0], local[1:]
        return self.tables.entities, self.tables.entity_state

    def pass_relations(self, side: int) -> None:
        """Gradients of relations and their update."""
        self.update_rows(
            self.tables.relations, self.tables.relation_state, self.relation_gradients, self.draws[side].relation_places
        )

    def update_rows(
        self, table: Tensor, state: Sequence[Tensor], gradients: Tensor, places: SortedPlaces, *, local: bool = False
    ) -> None:
        """Move the rows that places name by the sum of the places' gradients, (places, width)."""
        width, step = table.shape[1], (self.updates, self.rate, self.settings.l2)
        if not self.tables.optimizer.is_sparse:
            block = min(256, triton.next_power_of_2(width))
            compute.relations[(len(table), triton.cdiv(width, block))](
                table, *state, gradients, places.order, places.bounds, *step,
                DIM=width, BLOCK=block, TILE=8, num_warps=4,
            )  # fmt: skip
            return
        touched.touched_rows[(places.size,)](
            table, state[0], state[-1], gradients, places.sorted, places.order, *step,
            places.size, places.last_key, places.key_offset,
            WIDTH=width, BLOCK=triton.next_power_of_2(width), TILE=4, WAY=self.way, LOCAL=local, num_warps=2,
        )  # fmt: skip

    @property
    def way(self) -> int:
        """How `ookg.kernels.gpu_touched` moves rows."""
        return int(WAYS[self.tables.optimizer.name].value)


class TritonStep(CapturedStep):
    """The step of `ReferenceStep` with each triple's own negatives, fused."""

    draws: list[Draw]

    def __init__(
        self,
        tables: Tables,
        sampler: Sampler,
        settings: TrainingSettings,
        tuning: compute.KernelShape | None = None,
    ) -> None:
        super().__init__(tables, sampler, settings)
        self.tuning = tuning or compute.KernelShape.measured(settings.geometry)
        batch, width = sampler.batch, tables.entities.shape[1]
        self.coefficients = torch.empty(batch, settings.negatives + 2, device=self.device)
        self.points = torch.empty(2, batch, width, device=self.device)

    def new_draw(self) -> Draw:
        """Room for a step's batch."""
        return Draw(self.sampler, self.device, bounded=not self.tables.optimizer.is_sparse)

    def draw(self, side: int) -> None:
        """The batch and negatives of the next draw's step."""
        sampler, count, draw = self.sampler, self.settings.negatives, self.draws[side]
        stream = randomness.signed(randomness.stream(self.settings.seed, NEGATIVES))
        answers = sampler.heads if side == 1 else sampler.tails
        compute.sample[(sampler.batch,)](
            self.next_draw, self.orders[side], self.triples, answers.offsets, answers.keys, self.weight,
            draw.anchors, draw.relations, draw.weight, draw.ids,
            stream, len(self.triples), sampler.num_entities, sampler.batches_per_epoch, sampler.batch,
            CORRUPTS_HEAD=side == 1, COUNT=count, BLOCK=triton.next_power_of_2(count), num_warps=4,
        )  # fmt: skip
        block = min(8192, triton.next_power_of_2(sampler.batch))
        compute.total_weight[(1,)](draw.weight, draw.total, sampler.batch, BLOCK=block, num_warps=self.tuning.row_warps)
        self.next_draw += 1

    def pass_rows(self, side: int) -> None:
        """Loss, and all derivatives that belong to one triple."""
        settings, draw, count = self.settings, self.draws[side], self.settings.negatives
        table, ids, anchors, none = self.entity_rows(side)[0], draw.ids, draw.anchors, self.sampler.num_entities
        if self.host_rows:
            none = draw.places.size
            ids = self.host_rows[side].ids.view_as(draw.ids)
            anchors = ids[:, -1].contiguous()
        compute.rows[(self.sampler.batch,)](
            table, self.tables.relations, anchors, draw.relations, draw.weight, draw.total, ids,
            self.points, self.relation_gradients, self.coefficients, self.losses,
            settings.margin, settings.temperature, math.pi / settings.initial_range, none, self.sampler.batch,
            COUNT=count, COUNT_BLOCK=triton.next_power_of_2(count),
            TILE=self.tuning.row_tile, CORRUPTS_HEAD=side == 1, num_warps=self.tuning.row_warps, **self._shape,
        )  # fmt: skip

    def pass_entities(self, side: int) -> None:
        """Gradients of entities and their update."""
        places, (table, state) = self.draws[side].places, self.entity_rows(side)
        step = (self.updates, self.rate, self.settings.l2, self.sampler.batch)
        columns = self.settings.negatives + 2
        if not self.tables.optimizer.is_sparse:
            compute.entities[(len(table),)](
                table, *state, self.points, self.coefficients, places.order, places.bounds, *step,
                COLUMNS=columns, TILE=self.tuning.entity_tile, num_warps=self.tuning.entity_warps, **self._shape,
            )  # fmt: skip
            return
        touched.touched_entities[(places.size,)](
            table, state[0], state[-1], self.points, self.coefficients, places.sorted, places.order, *step,
            places.size, places.last_key, places.key_offset,
            COLUMNS=columns, TILE=self.tuning.touched_tile, WAY=self.way, LOCAL=bool(self.host_rows),
            num_warps=self.tuning.touched_warps, **self._shape,
        )  # fmt: skip
