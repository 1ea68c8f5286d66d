# mypy: allow-untyped-calls
"""Refinement of new entities' vectors on a GPU: a step is three kernels of `ookg.kernels.gpu_refinement` in a graph."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor

from ookg.kernels import gpu_refinement as compute
from ookg.kernels import randomness
from ookg.kernels.gpu_step import KernelShape, gap_kind, is_complex
from ookg.models.embedding import Embedding
from ookg.models.geometry import kernel_of

if TYPE_CHECKING:
    from ookg.newcomers.refinement import Problem, RefineSettings

UPDATE_TILE, UPDATE_WARPS = 4, 4  # rows that the update adds up at once, and its warps per program
IN_FLIGHT = 8  # steps that may wait on the device: enough to keep it busy, few enough to stop in time


class TritonRefinement:
    """The steps of `ookg.newcomers.refinement.ReferenceRefinement`, fused.

    The first step runs kernel by kernel and compiles them; from then on a captured graph is replayed.
    """

    name = "triton"

    def __init__(
        self,
        embedding: Embedding,
        problem: Problem,
        start: Tensor,
        settings: RefineSettings,
        tuning: KernelShape | None = None,
    ) -> None:
        device = embedding.device
        self.geometry, self.settings = embedding.geometry, settings
        self.tuning = tuning or KernelShape.measured(embedding.geometry)
        self.entities, self.relations = embedding.entities.contiguous(), embedding.relations.contiguous()
        self.start, self.vectors = start.contiguous(), start.clone().contiguous()
        self.mean, self.square = torch.zeros_like(self.vectors), torch.zeros_like(self.vectors)
        self.keys, self.offsets, self.slots, self.owners, self.answers, self.first, self.last = (
            torch.from_numpy(array).to(device)
            for array in (
                problem.keys, problem.offsets, problem.slots, problem.owners, problem.answers, problem.first,
                problem.last,
            )
        )  # fmt: skip
        self.relation, self.neighbor = (
            torch.from_numpy(array).to(device) for array in (problem.relation, problem.neighbor)
        )
        self.sign = (
            torch.from_numpy(problem.is_head).to(device).float() * 2 - 1
        )  # whether the relation is followed forwards (1) or back (-1)
        self.search = int((problem.last - problem.first).max()).bit_length()
        self.stream = randomness.signed(problem.stream)
        rows = len(problem.owners)
        self.triples = torch.empty(rows, dtype=torch.int64, device=device)
        self.ids = torch.empty(rows, settings.negatives, dtype=torch.int32, device=device)
        self.gradients = torch.empty(rows, self.vectors.shape[1], device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.graph: Any = None
        self.in_flight: deque[Any] = deque()

    def __call__(self, step: int) -> None:
        """Take the step with this number; it may still be under way on the device when this returns."""
        if not self.vectors.is_cuda or step == 0:
            self._run()
            return
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._run()
        self.graph.replay()
        done = torch.cuda.Event()
        done.record()
        self.in_flight.append(done)
        if len(self.in_flight) > IN_FLIGHT:
            self.in_flight.popleft().synchronize()

    def _run(self) -> None:
        self.draw()
        self.pass_rows()
        self.update()
        self.step += 1

    def draw(self) -> None:
        """The step's triples and negatives, by row."""
        compute.draw[(len(self.owners),)](
            self.step, self.keys, self.offsets, self.slots, self.owners, self.answers, self.first, self.last,
            self.triples, self.ids, self.stream, len(self.entities),
            COUNT=self.settings.negatives, BLOCK=triton.next_power_of_2(self.settings.negatives), SEARCH=self.search,
            num_warps=2,
        )  # fmt: skip

    def pass_rows(self) -> None:
        """The gradients of all rows."""
        geometry, settings = self.geometry, self.settings
        compute.rows[(len(self.owners),)](
            self.entities, self.relations, self.vectors, self.owners, self.slots, self.triples, self.ids,
            self.relation, self.neighbor, self.sign, self.gradients,
            settings.margin, settings.temperature, len(self.entities),
            DIM=geometry.dim, BLOCK=triton.next_power_of_2(geometry.dim), COUNT=settings.negatives,
            TILE=self.tuning.row_tile, COMPLEX=is_complex(geometry), GAP=gap_kind(geometry),
            SQUARED=kernel_of(geometry).squared, num_warps=self.tuning.row_warps,
        )  # fmt: skip

    def update(self) -> None:
        """The sums of the newcomers' rows and Adam's step."""
        settings, width = self.settings, self.vectors.shape[1]
        compute.update[(len(self.vectors),)](
            self.vectors, self.start, self.mean, self.square, self.gradients, self.slots, self.step,
            settings.prior, settings.lr, 1 / settings.steps if settings.decay else 0.0,
            WIDTH=width, BLOCK=triton.next_power_of_2(width), TILE=UPDATE_TILE,
            UNIT_NORM=kernel_of(self.geometry).unit_norm, num_warps=UPDATE_WARPS,
        )  # fmt: skip
