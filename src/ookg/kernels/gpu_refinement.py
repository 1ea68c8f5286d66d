# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Refinement of new entities' vectors on a GPU: a step of all newcomers is three Triton kernels in a CUDA graph.

What a step computes is specified by `ookg.newcomers.refinement`. A row of a step is a newcomer and one of its triples.

* `_draw` chooses the row's triple and draws its negatives, the same ones as the reference.
* `_rows` reads each negative's vector once: while it is in registers it gives its distance and, with a softmax that is
  rescaled as it grows, its part of the gradient.
* `_update` adds up a newcomer's rows, in their order, and takes Adam's step.

The device counts the steps itself, so that a step is nothing but the replay of one graph; nothing is added atomically,
and the same seed gives the same bits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ookg.kernels import randomness
from ookg.kernels.gpu import (
    BETA_1,
    BETA_2,
    EPS,
    EUCLIDEAN,
    GOLDEN,
    LOG_BETA_1,
    LOG_BETA_2,
    SUM_OF_SIZES,
    Tuning,
    _mixed,
    _sigmoid,
    _sign,
    gap_kind,
)
from ookg.models import RotatE, TransE
from ookg.models.embedding import Embedding

if TYPE_CHECKING:
    from ookg.newcomers.refinement import Problem, RefineSettings

TINY = tl.constexpr(1.1754944e-38)  # the smallest normal float32: a square below it counts as this
SMALLEST_LENGTH = tl.constexpr(1e-12)  # a shorter vector is not scaled to length 1
UPDATE_TILE, UPDATE_WARPS = 4, 4  # rows that `_update` adds up at once, and its warps a program
IN_FLIGHT = 8  # steps that may wait on the device: enough to keep it busy, few enough to stop in time


@triton.jit
def _draw(
    step_ptr, keys_ptr, offsets_ptr, slots_ptr, owners_ptr, answers_ptr, first_ptr, last_ptr, triples_ptr, ids_ptr,
    stream, num_entities,
    COUNT: tl.constexpr, BLOCK: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    """One row a program: its triple, and the ids of its negatives; num_entities for one that is a true answer."""
    row = tl.program_id(0).to(tl.int64)
    step = tl.load(step_ptr)
    newcomer = tl.load(owners_ptr + row)
    first_slot = tl.load(slots_ptr + newcomer)
    size = tl.load(slots_ptr + newcomer + 1) - first_slot
    first_triple = tl.load(offsets_ptr + newcomer)
    num_triples = tl.load(offsets_ptr + newcomer + 1) - first_triple
    slot = row - first_slot
    triple = first_triple + (step * size + slot) % num_triples
    tl.store(triples_ptr + row, triple)

    number = tl.arange(0, BLOCK)
    start = _mixed((stream ^ step) + GOLDEN)
    counter = tl.load(keys_ptr + newcomer) + slot * COUNT + number
    bits = _mixed(counter * GOLDEN + start + GOLDEN)
    ids = (((bits >> 32) & 0xFFFFFFFF) * num_entities) >> 32
    low = tl.zeros_like(ids) + tl.load(first_ptr + triple)
    end = tl.zeros_like(ids) + tl.load(last_ptr + triple)
    high = end
    for _ in range(SEARCH):
        middle = (low + high) // 2
        open_ = low < high
        below = tl.load(answers_ptr + middle, mask=open_, other=0) < ids
        low = tl.where(open_ & below, middle + 1, low)
        high = tl.where(open_ & (below == 0), middle, high)
    is_true = tl.load(answers_ptr + low, mask=low < end, other=-1) == ids
    ids = tl.where(is_true, num_entities, ids)
    tl.store(ids_ptr + row * COUNT + number, ids.to(tl.int32), mask=number < COUNT)


@triton.jit
def _lengths(dx, dy, GAP: tl.constexpr, COMPLEX: tl.constexpr):
    """How long differences are, (tile, dim) -> (tile,), not squared; and the gradients, but for `_stretch`."""
    if GAP == SUM_OF_SIZES:
        length = tl.sum(tl.abs(dx), axis=1)
        dx = _sign(dx)
    else:
        squares = dx * dx
        if COMPLEX:
            squares += dy * dy
        if GAP == EUCLIDEAN:
            length = tl.sqrt(tl.sum(squares, axis=1))
        else:
            inverse = tl.rsqrt(tl.maximum(squares, TINY))
            length = tl.sum(squares * inverse, axis=1)
            dx *= inverse
            dy *= inverse
    return length, dx, dy


@triton.jit
def _stretch(length, GAP: tl.constexpr, SQUARED: tl.constexpr):
    """What `_lengths`' gradients are to be multiplied by, to be those of the gap."""
    if GAP == EUCLIDEAN:
        stretch = tl.zeros_like(length) + 2.0 if SQUARED else tl.where(length > 0, 1.0 / length, 0.0)
    else:
        stretch = 2.0 * length if SQUARED else tl.zeros_like(length) + 1.0
    return stretch


@triton.jit
def _rows(
    entities_ptr, relations_ptr, vectors_ptr, owners_ptr, slots_ptr, triples_ptr, ids_ptr,
    relation_ptr, neighbor_ptr, sign_ptr, gradients_ptr,
    margin, temperature, num_entities,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COUNT: tl.constexpr, TILE: tl.constexpr,
    COMPLEX: tl.constexpr, GAP: tl.constexpr, SQUARED: tl.constexpr,
):  # fmt: skip
    """One row a program: what it adds to its newcomer's gradient, to gradients (rows, width)."""
    row = tl.program_id(0).to(tl.int64)
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    newcomer = tl.load(owners_ptr + row)
    triple = tl.load(triples_ptr + row)
    sign = tl.load(sign_ptr + triple)
    x = tl.load(vectors_ptr + newcomer * WIDTH + column, mask=inside, other=0.0)
    turn = tl.load(relations_ptr + tl.load(relation_ptr + triple) * DIM + column, mask=inside, other=0.0)
    if COMPLEX:
        real = x
        imaginary = tl.load(vectors_ptr + newcomer * WIDTH + DIM + column, mask=inside, other=0.0)
        cosine, sine = tl.cos(turn), sign * tl.sin(turn)
        x = real * cosine - imaginary * sine
        y = real * sine + imaginary * cosine
    else:
        x += sign * turn
        y = x

    # The negatives, some at a time. `highest` is the highest logit so far; sums are relative to it.
    highest = -float("inf")
    total = 0.0
    gx = tl.zeros([BLOCK], tl.float32)
    gy = tl.zeros([BLOCK], tl.float32)
    for first in range(0, COUNT, TILE):
        number = first + tl.arange(0, TILE)
        ids = tl.load(ids_ptr + row * COUNT + number, mask=number < COUNT, other=num_entities).to(tl.int64)
        usable = ids < num_entities
        where = ids[:, None] * WIDTH + column[None, :]
        mask = usable[:, None] & inside[None, :]
        dx = x[None, :] - tl.load(entities_ptr + where, mask=mask, other=0.0)
        dy = dx
        if COMPLEX:
            dy = y[None, :] - tl.load(entities_ptr + where + DIM, mask=mask, other=0.0)
        length, dx, dy = _lengths(dx, dy, GAP, COMPLEX)
        distance = length * length if SQUARED else length
        logits = tl.where(usable, -temperature * distance, -float("inf"))
        higher = tl.maximum(highest, tl.max(logits, axis=0))
        rescale = tl.where(higher > -float("inf"), tl.exp(highest - higher), 1.0)
        shares = tl.where(usable, tl.exp(logits - higher), 0.0)
        pull = shares * _sigmoid(margin - distance) * _stretch(length, GAP, SQUARED)
        total = total * rescale + tl.sum(shares, axis=0)
        gx = gx * rescale + tl.sum(pull[:, None] * dx, axis=0)
        if COMPLEX:
            gy = gy * rescale + tl.sum(pull[:, None] * dy, axis=0)
        highest = higher

    # The true answer, last: until here its difference would only take up registers.
    answer = tl.load(neighbor_ptr + triple) * WIDTH + column
    ax = (x - tl.load(entities_ptr + answer, mask=inside, other=0.0))[None, :]
    ay = ax
    if COMPLEX:
        ay = (y - tl.load(entities_ptr + answer + DIM, mask=inside, other=0.0))[None, :]
    own_length, ax, ay = _lengths(ax, ay, GAP, COMPLEX)
    own = own_length * own_length if SQUARED else own_length
    first_slot = tl.load(slots_ptr + newcomer)
    share = 0.5 / (tl.load(slots_ptr + newcomer + 1) - first_slot).to(tl.float32)
    pulled = share * _sigmoid(own - margin) * _stretch(own_length, GAP, SQUARED)
    pushed = tl.where(total > 0, share / total, 0.0)
    gx = tl.sum(pulled[:, None] * ax, axis=0) - pushed * gx
    out = gradients_ptr + row * WIDTH + column
    # Read once, by `_update`: they are not to push the known vectors out of the cache.
    if COMPLEX:
        gy = tl.sum(pulled[:, None] * ay, axis=0) - pushed * gy
        tl.store(out, gx * cosine + gy * sine, mask=inside, eviction_policy="evict_first")
        tl.store(out + DIM, gy * cosine - gx * sine, mask=inside, eviction_policy="evict_first")
    else:
        tl.store(out, gx, mask=inside, eviction_policy="evict_first")


@triton.jit
def _update(
    vectors_ptr, start_ptr, mean_ptr, square_ptr, gradients_ptr, slots_ptr, step_ptr,
    prior, lr, decay,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, UNIT_NORM: tl.constexpr,
):  # fmt: skip
    """One newcomer a program: the sum of its rows, the pull to its start, Adam's step.

    decay: what the rate goes down by in a step, as a share of lr
    """
    newcomer = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    where = newcomer * WIDTH + column
    vector = tl.load(vectors_ptr + where, mask=inside, other=0.0)
    gradient = 2 * prior * (vector - tl.load(start_ptr + where, mask=inside, other=0.0))
    last = tl.load(slots_ptr + newcomer + 1)
    for first in range(tl.load(slots_ptr + newcomer), last, TILE):
        row = first + tl.arange(0, TILE)
        mask = (row < last)[:, None] & inside[None, :]
        source = gradients_ptr + row[:, None] * WIDTH + column[None, :]
        gradient += tl.sum(tl.load(source, mask=mask, other=0.0, eviction_policy="evict_first"), axis=0)
    step = tl.load(step_ptr)
    updates = (step + 1).to(tl.float64)
    correction_1 = (1.0 - tl.exp(updates * LOG_BETA_1)).to(tl.float32)
    correction_2 = (1.0 - tl.exp(updates * LOG_BETA_2)).to(tl.float32)
    rate = lr * (1.0 - decay * step.to(tl.float32))
    mean = BETA_1 * tl.load(mean_ptr + where, mask=inside, other=0.0) + (1 - BETA_1) * gradient
    square = BETA_2 * tl.load(square_ptr + where, mask=inside, other=0.0) + (1 - BETA_2) * gradient * gradient
    tl.store(mean_ptr + where, mean, mask=inside)
    tl.store(square_ptr + where, square, mask=inside)
    vector -= (rate / correction_1) * mean / (tl.sqrt(square / correction_2) + EPS)
    if UNIT_NORM == 1:
        vector /= tl.maximum(tl.sum(tl.abs(vector), axis=0), SMALLEST_LENGTH)
    elif UNIT_NORM == 2:
        vector /= tl.maximum(tl.sqrt(tl.sum(vector * vector, axis=0)), SMALLEST_LENGTH)
    tl.store(vectors_ptr + where, vector, mask=inside)


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
        tuning: Tuning | None = None,
    ) -> None:
        device = embedding.device
        self.geometry, self.settings = embedding.geometry, settings
        self.tuning = tuning or Tuning.measured(embedding.geometry)
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
        self.sign = torch.from_numpy(problem.is_head).to(device).float() * 2 - 1  # the way the relation is gone
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
        _draw[(len(self.owners),)](
            self.step, self.keys, self.offsets, self.slots, self.owners, self.answers, self.first, self.last,
            self.triples, self.ids, self.stream, len(self.entities),
            COUNT=self.settings.negatives, BLOCK=triton.next_power_of_2(self.settings.negatives), SEARCH=self.search,
            num_warps=2,
        )  # fmt: skip

    def pass_rows(self) -> None:
        """The gradients of all rows."""
        geometry, settings = self.geometry, self.settings
        _rows[(len(self.owners),)](
            self.entities, self.relations, self.vectors, self.owners, self.slots, self.triples, self.ids,
            self.relation, self.neighbor, self.sign, self.gradients,
            settings.margin, settings.temperature, len(self.entities),
            DIM=geometry.dim, BLOCK=triton.next_power_of_2(geometry.dim), COUNT=settings.negatives,
            TILE=self.tuning.row_tile, COMPLEX=isinstance(geometry, RotatE), GAP=gap_kind(geometry),
            SQUARED=isinstance(geometry, TransE) and geometry.squared, num_warps=self.tuning.row_warps,
        )  # fmt: skip

    def update(self) -> None:
        """The sums of the newcomers' rows and Adam's step."""
        settings, width = self.settings, self.vectors.shape[1]
        _update[(len(self.vectors),)](
            self.vectors, self.start, self.mean, self.square, self.gradients, self.slots, self.step,
            settings.prior, settings.lr, 1 / settings.steps if settings.decay else 0.0,
            WIDTH=width, BLOCK=triton.next_power_of_2(width), TILE=UPDATE_TILE,
            UNIT_NORM=self.geometry.unit_norm if isinstance(self.geometry, TransE) else 0, num_warps=UPDATE_WARPS,
        )  # fmt: skip
