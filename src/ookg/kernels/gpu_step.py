"""The Triton kernels of a training step on a GPU; `ookg.training.gpu_step` runs them around a sort, in a CUDA graph.

What a step computes is specified by `ookg.training.reference_step`. How it is computed here:

* `sample` draws the batch and its negatives, the same ones as the reference.
* `rows` handles one true triple per program. Its negatives' vectors are read once: while in registers they give their
  distances and, with a softmax that is rescaled as it grows, their part of the gradient at the triple's point.
* The (triple, entity) pairs are sorted by entity. `entities` handles one entity per program: it sums up the gradient
  from the points of all pairs of the entity, adds L2 and takes Adam's step. So no gradient table exists, nothing is
  added atomically, and the same seed gives the same bits.
* `relations` does the same for relations.

No tensor of batch × negatives × dimension exists, a step makes no host synchronisation, and the next step's batch is
drawn and sorted beside the current step's kernels: it does not depend on the tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import triton
import triton.language as tl

from ookg.kernels import randomness
from ookg.kernels.adam import EPSILON, FIRST_DECAY, SECOND_DECAY
from ookg.kernels.randomness import ATTEMPTS
from ookg.models.geometry import GapSum, Geometry, Move, kernel_of

GOLDEN = tl.constexpr(randomness.signed(randomness.GOLDEN))
FIRST = tl.constexpr(randomness.signed(randomness.FIRST))
SECOND = tl.constexpr(randomness.signed(randomness.SECOND))
DRAWS = tl.constexpr(ATTEMPTS)
BETA_1, BETA_2, EPS = tl.constexpr(FIRST_DECAY), tl.constexpr(SECOND_DECAY), tl.constexpr(EPSILON)
LOG_BETA_1, LOG_BETA_2 = tl.constexpr(math.log(FIRST_DECAY)), tl.constexpr(math.log(SECOND_DECAY))
# How the gap of two vectors is summed up.
SUM_OF_SIZES, EUCLIDEAN, SUM_OF_MODULI = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def mixed(x):
    """64 random bits of a state, as `randomness.mix`."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * FIRST
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * SECOND
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


@triton.jit
def sign(x):
    """-1, 0 or 1."""
    return tl.where(x > 0, 1.0, 0.0) - tl.where(x < 0, 1.0, 0.0)


@triton.jit
def sigmoid(x):
    """σ(x)."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def softplus(x):
    """log(1 + eˣ)."""
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def is_listed(keys_ptr, keys, wanted, first, last):
    """Whether each wanted key is among the ascending keys from first to last (which is left out): binary search."""
    low = tl.zeros_like(keys) + first
    high = tl.zeros_like(keys) + last
    left = last - first
    while left > 0:  # each round halves it
        middle = (low + high) // 2
        open_ = wanted & (low < high)
        below = tl.load(keys_ptr + middle, mask=open_, other=0) < keys
        low = tl.where(open_ & below, middle + 1, low)
        high = tl.where(open_ & (below == 0), middle, high)
        left = left // 2
    inside = wanted & (low < last)
    return inside & (tl.load(keys_ptr + low, mask=inside, other=-1) == keys)


@triton.jit
def total_weight(weights_ptr, total_ptr, batch, BLOCK: tl.constexpr):
    """The sum of a batch's weights, by one program."""
    place = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(weights_ptr + place, mask=place < batch, other=0.0), axis=0)
    for first in range(BLOCK, batch, BLOCK):
        place = first + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(weights_ptr + place, mask=place < batch, other=0.0), axis=0)
    tl.store(total_ptr, total)


@triton.jit
def triple_of_batch(
    order_ptr, triples_ptr, step, i, num_triples, batches, batch, CORRUPTS_HEAD: tl.constexpr
):  # fmt: skip
    """The i-th true triple of a step: its row, its anchor, its relation and its answer."""
    place = (step // 2) % batches
    row = tl.load(order_ptr + (place * batch + i) % num_triples).to(tl.int64)
    head = tl.load(triples_ptr + row * 3).to(tl.int64)
    relation = tl.load(triples_ptr + row * 3 + 1).to(tl.int64)
    tail = tl.load(triples_ptr + row * 3 + 2).to(tl.int64)
    if CORRUPTS_HEAD:
        anchor, answer = tail, head
    else:
        anchor, answer = head, tail
    return row, anchor, relation, answer


@triton.jit
def sample(
    step_ptr, order_ptr, triples_ptr, offsets_ptr, keys_ptr, all_weights_ptr,
    anchors_ptr, relations_ptr, weights_ptr, ids_ptr,
    stream, num_triples, num_entities, batches, batch,
    CORRUPTS_HEAD: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One true triple per program: its anchor, relation, weight, and the ids of negatives, answer and anchor.

    offsets, keys: the true answers by anchor, a `TrueAnswers` of `ookg.training.sampling`
    """
    i = tl.program_id(0).to(tl.int64)
    step = tl.load(step_ptr)
    row, anchor, relation, answer = triple_of_batch(
        order_ptr, triples_ptr, step, i, num_triples, batches, batch, CORRUPTS_HEAD
    )
    tl.store(anchors_ptr + i, anchor.to(tl.int32))
    tl.store(relations_ptr + i, relation.to(tl.int32))
    tl.store(weights_ptr + i, tl.load(all_weights_ptr + row))

    first = tl.load(offsets_ptr + anchor)
    last = tl.load(offsets_ptr + anchor + 1)
    start = mixed((stream ^ step) + GOLDEN)
    slot = tl.arange(0, BLOCK)
    counter = (i * COUNT + slot) * DRAWS
    pending = slot < COUNT
    ids = tl.zeros_like(counter)
    attempt = 0
    left = COUNT
    while (left > 0) & (attempt < DRAWS):
        bits = mixed((counter + attempt) * GOLDEN + start + GOLDEN)
        ids = tl.where(pending, (((bits >> 32) & 0xFFFFFFFF) * num_entities) >> 32, ids)
        pending = is_listed(keys_ptr, relation * num_entities + ids, pending, first, last)
        left = tl.sum(pending.to(tl.int32), axis=0)
        attempt += 1
    # What is still a true triple is nobody's negative: an id beyond all entities.
    ids = tl.where(pending, num_entities, ids)
    base = ids_ptr + i * (COUNT + 2)
    tl.store(base + slot, ids.to(tl.int32), mask=slot < COUNT)
    tl.store(base + COUNT, answer.to(tl.int32))
    tl.store(base + COUNT + 1, anchor.to(tl.int32))


@triton.jit
def rows(
    entities_ptr, parameters_ptr, anchors_ptr, relations_ptr, weights_ptr, total_ptr, ids_ptr,
    points_ptr, relation_gradients_ptr, coefficients_ptr, losses_ptr,
    margin, temperature, phase, num_entities, batch,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COUNT: tl.constexpr, COUNT_BLOCK: tl.constexpr,
    TILE: tl.constexpr, COMPLEX: tl.constexpr, GAP: tl.constexpr, CORRUPTS_HEAD: tl.constexpr,
):  # fmt: skip
    """One true triple per program: its point, the loss, and the gradients at its anchor and relation.

    points: (2, batch, width): the points, then the gradients at the anchors
    coefficients: (batch, COUNT + 2): the derivative of the loss by each distance (divided by it where the gap is
    Euclidean), and 1 for the anchor; while the program runs, the distances themselves
    """
    i = tl.program_id(0).to(tl.int64)
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    anchor = tl.load(anchors_ptr + i).to(tl.int64)
    relation = tl.load(relations_ptr + i).to(tl.int64)
    x = tl.load(entities_ptr + anchor * WIDTH + column, mask=inside, other=0.0)
    parameter = tl.load(parameters_ptr + relation * DIM + column, mask=inside, other=0.0)
    if COMPLEX:
        real = x
        imaginary = tl.load(entities_ptr + anchor * WIDTH + DIM + column, mask=inside, other=0.0)
        cosine, sine = tl.cos(parameter * phase), tl.sin(parameter * phase)
        if CORRUPTS_HEAD:
            sine = -sine
        x = real * cosine - imaginary * sine
        y = real * sine + imaginary * cosine
    elif CORRUPTS_HEAD:
        x = x - parameter
    else:
        x = x + parameter

    # The true triple.
    base = i * (COUNT + 2)
    answer = tl.load(ids_ptr + base + COUNT).to(tl.int64)
    px = x - tl.load(entities_ptr + answer * WIDTH + column, mask=inside, other=0.0)
    if COMPLEX:
        py = y - tl.load(entities_ptr + answer * WIDTH + DIM + column, mask=inside, other=0.0)
    if GAP == SUM_OF_SIZES:
        positive = tl.sum(tl.abs(px), axis=0)
        px = sign(px)
    elif GAP == EUCLIDEAN:
        own_squares = px * px
        if COMPLEX:
            own_squares += py * py
        positive = tl.sqrt(tl.sum(own_squares, axis=0))
    else:
        own_moduli = tl.sqrt(px * px + py * py)
        positive = tl.sum(own_moduli, axis=0)
        own_inverse = tl.where(own_moduli > 0, 1.0 / own_moduli, 0.0)
        px *= own_inverse
        py *= own_inverse

    # The negatives, some at a time. `highest` is the highest logit so far; sums are relative to it.
    highest = -float("inf")
    total = 0.0
    gx = tl.zeros([BLOCK], tl.float32)
    if COMPLEX:
        gy = tl.zeros([BLOCK], tl.float32)
    for first in range(0, COUNT, TILE):
        slot = first + tl.arange(0, TILE)
        ids = tl.load(ids_ptr + base + slot, mask=slot < COUNT, other=num_entities).to(tl.int64)
        usable = ids < num_entities
        where = ids[:, None] * WIDTH + column[None, :]
        mask = usable[:, None] & inside[None, :]
        dx = x[None, :] - tl.load(entities_ptr + where, mask=mask, other=0.0)
        if COMPLEX:
            dy = y[None, :] - tl.load(entities_ptr + where + DIM, mask=mask, other=0.0)
        if GAP == SUM_OF_SIZES:
            distance = tl.sum(tl.abs(dx), axis=1)
            dx = sign(dx)
        elif GAP == EUCLIDEAN:
            squares = dx * dx
            if COMPLEX:
                squares += dy * dy
            distance = tl.sqrt(tl.sum(squares, axis=1))
            inverse = tl.where(distance > 0, 1.0 / distance, 0.0)
            dx *= inverse[:, None]
            if COMPLEX:
                dy *= inverse[:, None]
        else:
            moduli = tl.sqrt(dx * dx + dy * dy)
            distance = tl.sum(moduli, axis=1)
            inverse = tl.where(moduli > 0, 1.0 / moduli, 0.0)
            dx *= inverse
            dy *= inverse
        tl.store(coefficients_ptr + base + slot, distance, mask=slot < COUNT)
        logits = tl.where(usable, -temperature * distance, -float("inf"))
        higher = tl.maximum(highest, tl.max(logits, axis=0))
        finite = higher > -float("inf")
        rescale = tl.where(finite, tl.exp(highest - higher), 1.0)
        shares = tl.where(usable, tl.exp(logits - higher), 0.0)
        pull = shares * sigmoid(margin - distance)
        total = total * rescale + tl.sum(shares, axis=0)
        gx = gx * rescale + tl.sum(pull[:, None] * dx, axis=0)
        if COMPLEX:
            gy = gy * rescale + tl.sum(pull[:, None] * dy, axis=0)
        highest = higher

    # This triple's share of the loss, and from it the gradient at the point.
    share = tl.load(weights_ptr + i) / tl.load(total_ptr) / 2
    pulled = share * sigmoid(positive - margin)
    if GAP == EUCLIDEAN:
        pulled = tl.where(positive > 0, pulled / positive, 0.0)
    pushed = tl.where(total > 0, share / total, 0.0)
    gx = pulled * px - pushed * gx
    out = points_ptr + i * WIDTH + column
    tl.store(out, x, mask=inside)
    gradient_out = out + batch * WIDTH
    relation_out = relation_gradients_ptr + i * DIM + column
    if COMPLEX:
        gy = pulled * py - pushed * gy
        tl.store(out + DIM, y, mask=inside)
        tl.store(gradient_out, gx * cosine + gy * sine, mask=inside)
        tl.store(gradient_out + DIM, gy * cosine - gx * sine, mask=inside)
        turn = (x * gy - y * gx) * phase
        tl.store(relation_out, -turn if CORRUPTS_HEAD else turn, mask=inside)
    else:
        tl.store(gradient_out, gx, mask=inside)
        tl.store(relation_out, -gx if CORRUPTS_HEAD else gx, mask=inside)

    tl.debug_barrier()  # the distances were stored by other threads of this program
    slot = tl.arange(0, COUNT_BLOCK)
    ids = tl.load(ids_ptr + base + slot, mask=slot < COUNT, other=num_entities)
    usable = ids < num_entities
    distance = tl.load(coefficients_ptr + base + slot, mask=usable, other=0.0)
    shares = tl.where(usable, tl.exp(-temperature * distance - highest), 0.0) * pushed
    derivative = -shares * sigmoid(margin - distance)
    if GAP == EUCLIDEAN:
        derivative = tl.where(distance > 0, derivative / distance, 0.0)
    tl.debug_barrier()
    tl.store(coefficients_ptr + base + slot, derivative, mask=slot < COUNT)
    tl.store(coefficients_ptr + base + COUNT, pulled)
    tl.store(coefficients_ptr + base + COUNT + 1, 1.0)
    loss = share * softplus(positive - margin) + tl.sum(shares * softplus(margin - distance), axis=0)
    tl.store(losses_ptr + i, loss)


@triton.jit
def adam(table_ptr, mean_ptr, square_ptr, where, mask, value, gradient, rate, correction_1, correction_2):
    """Adam's step of some numbers of a table, in place."""
    mean = BETA_1 * tl.load(mean_ptr + where, mask=mask, other=0.0) + (1 - BETA_1) * gradient
    square = BETA_2 * tl.load(square_ptr + where, mask=mask, other=0.0) + (1 - BETA_2) * gradient * gradient
    tl.store(mean_ptr + where, mean, mask=mask)
    tl.store(square_ptr + where, square, mask=mask)
    step = (rate / correction_1) * mean / (tl.sqrt(square / correction_2) + EPS)
    tl.store(table_ptr + where, value - step, mask=mask)


@triton.jit
def with_pairs(
    gx, gy, points_ptr, coefficients_ptr, order_ptr, place, live, x, y, column, inside, batch,
    DIM: tl.constexpr, COLUMNS: tl.constexpr, COMPLEX: tl.constexpr, GAP: tl.constexpr,
):  # fmt: skip
    """The gradient of an entity, real and imaginary parts, with what a tile of its pairs adds to it.

    place, live: the pairs' places in the order, and which of them are this entity's
    x, y: the entity's vector; y and gy are used only where it is complex
    """
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    pair = tl.load(order_ptr + place, mask=live, other=0)
    triple = pair // COLUMNS
    is_anchor = (pair - triple * COLUMNS) == COLUMNS - 1
    coefficient = tl.load(coefficients_ptr + pair, mask=live, other=0.0)
    source = (is_anchor.to(tl.int64) * batch + triple)[:, None] * WIDTH + column[None, :]
    mask = live[:, None] & inside[None, :]
    px = tl.load(points_ptr + source, mask=mask, other=0.0)
    if COMPLEX:
        py = tl.load(points_ptr + source + DIM, mask=mask, other=0.0)
    dx = x[None, :] - px
    if GAP == SUM_OF_SIZES:
        dx = sign(dx)
    elif GAP == SUM_OF_MODULI:
        dy = y[None, :] - py
        moduli = tl.sqrt(dx * dx + dy * dy)
        inverse = tl.where(moduli > 0, 1.0 / moduli, 0.0)
        dx *= inverse
        dy *= inverse
    elif COMPLEX:
        dy = y[None, :] - py
    gx += tl.sum(tl.where(is_anchor[:, None], px, coefficient[:, None] * dx), axis=0)
    if COMPLEX:
        gy += tl.sum(tl.where(is_anchor[:, None], py, coefficient[:, None] * dy), axis=0)
    return gx, gy


@triton.jit
def entities(
    table_ptr, mean_ptr, square_ptr, points_ptr, coefficients_ptr, order_ptr, bounds_ptr, updates_ptr, rate_ptr,
    l2, batch,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, TILE: tl.constexpr,
    COMPLEX: tl.constexpr, GAP: tl.constexpr,
):  # fmt: skip
    """One entity per program: its gradient, from the points of the triples it stands in, and Adam's step."""
    entity = tl.program_id(0).to(tl.int64)
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    where = entity * WIDTH + column
    x = tl.load(table_ptr + where, mask=inside, other=0.0)
    gx = 2 * l2 * x
    y, gy = x, gx
    if COMPLEX:
        y = tl.load(table_ptr + where + DIM, mask=inside, other=0.0)
        gy = 2 * l2 * y
    first = tl.load(bounds_ptr + entity)
    last = tl.load(bounds_ptr + entity + 1)
    for start in range(first, last, TILE):
        place = start + tl.arange(0, TILE)
        live = place < last
        gx, gy = with_pairs(
            gx, gy, points_ptr, coefficients_ptr, order_ptr, place, live, x, y, column, inside, batch,
            DIM, COLUMNS, COMPLEX, GAP,
        )  # fmt: skip
    updates = tl.load(updates_ptr).to(tl.float64)
    correction_1 = (1.0 - tl.exp(updates * LOG_BETA_1)).to(tl.float32)
    correction_2 = (1.0 - tl.exp(updates * LOG_BETA_2)).to(tl.float32)
    rate = tl.load(rate_ptr)
    adam(table_ptr, mean_ptr, square_ptr, where, inside, x, gx, rate, correction_1, correction_2)
    if COMPLEX:
        adam(table_ptr, mean_ptr, square_ptr, where + DIM, inside, y, gy, rate, correction_1, correction_2)


@triton.jit
def relations(
    table_ptr, mean_ptr, square_ptr, gradients_ptr, order_ptr, bounds_ptr, updates_ptr, rate_ptr, l2,
    DIM: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Some columns of one relation per program: the sum of its triples' gradients, and Adam's step."""
    relation = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < DIM
    where = relation * DIM + column
    x = tl.load(table_ptr + where, mask=inside, other=0.0)
    gradient = 2 * l2 * x
    first = tl.load(bounds_ptr + relation)
    last = tl.load(bounds_ptr + relation + 1)
    for start in range(first, last, TILE):
        place = start + tl.arange(0, TILE)
        live = place < last
        triple = tl.load(order_ptr + place, mask=live, other=0)
        source = triple[:, None] * DIM + column[None, :]
        gradient += tl.sum(tl.load(gradients_ptr + source, mask=live[:, None] & inside[None, :], other=0.0), axis=0)
    updates = tl.load(updates_ptr).to(tl.float64)
    correction_1 = (1.0 - tl.exp(updates * LOG_BETA_1)).to(tl.float32)
    correction_2 = (1.0 - tl.exp(updates * LOG_BETA_2)).to(tl.float32)
    rate = tl.load(rate_ptr)
    adam(table_ptr, mean_ptr, square_ptr, where, inside, x, gradient, rate, correction_1, correction_2)


@dataclass(frozen=True)
class KernelShape:
    """How the kernels are cut: vectors held at once, and warps per program."""

    row_tile: int
    row_warps: int
    entity_tile: int
    entity_warps: int
    touched_tile: int = 1
    touched_warps: int = 1

    @classmethod
    def measured(cls, geometry: Geometry) -> KernelShape:
        """The fastest cut on an H200 (`benchmarks/gpu.py --tune`) at dimension 300 and 1000."""
        large = geometry.dim > 512
        if is_complex(geometry):
            return cls(4, 2, 1, 2) if large else cls(4, 1, 1, 1)
        return cls(4, 1, 4, 2) if large else cls(4, 1, 4, 1)


def gap_kind(geometry: Geometry) -> int:
    """How the geometry's gap is summed up; a model that declares no kernel is refused."""
    kinds = {GapSum.SIZES: SUM_OF_SIZES, GapSum.LENGTH: EUCLIDEAN, GapSum.MODULI: SUM_OF_MODULI}
    return int(kinds[kernel_of(geometry).gap].value)


def is_complex(geometry: Geometry) -> bool:
    """Whether relations turn complex coordinates, or else translate; a model that declares no kernel is refused."""
    return {Move.TRANSLATION: False, Move.ROTATION: True}[kernel_of(geometry).move]
