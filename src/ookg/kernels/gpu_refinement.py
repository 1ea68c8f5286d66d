# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Refinement of new entities' vectors on a GPU: a step of all newcomers is three Triton kernels in a CUDA graph.

What a step computes is specified by `ookg.newcomers.refinement`. A row of a step is a newcomer and one of its triples.

* `draw` chooses the row's triple and draws its negatives, the same ones as the reference.
* `rows` reads each negative's vector once: while it is in registers it gives its distance and, with a softmax that is
  rescaled as it grows, its part of the gradient.
* `update` adds up a newcomer's rows, in their order, and takes Adam's step.

The device counts the steps itself, so that a step is nothing but the replay of one graph; nothing is added atomically,
and the same seed gives the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ookg.kernels.gpu_step import (
    BETA_1,
    BETA_2,
    EPS,
    EUCLIDEAN,
    GOLDEN,
    LOG_BETA_1,
    LOG_BETA_2,
    SUM_OF_SIZES,
    mixed,
    sigmoid,
    sign,
)

TINY = tl.constexpr(1.1754944e-38)  # the smallest normal float32: a square below it counts as this
SMALLEST_LENGTH = tl.constexpr(1e-12)  # a shorter vector is not scaled to length 1


@triton.jit
def draw(
    step_ptr, keys_ptr, offsets_ptr, slots_ptr, owners_ptr, answers_ptr, first_ptr, last_ptr, triples_ptr, ids_ptr,
    stream, num_entities,
    COUNT: tl.constexpr, BLOCK: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    """One row per program: its triple, and the ids of its negatives; num_entities for one that is a true answer."""
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
    start = mixed((stream ^ step) + GOLDEN)
    counter = tl.load(keys_ptr + newcomer) + slot * COUNT + number
    bits = mixed(counter * GOLDEN + start + GOLDEN)
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
        dx = sign(dx)
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
def rows(
    entities_ptr, relations_ptr, vectors_ptr, owners_ptr, slots_ptr, triples_ptr, ids_ptr,
    relation_ptr, neighbor_ptr, sign_ptr, gradients_ptr,
    margin, temperature, num_entities,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COUNT: tl.constexpr, TILE: tl.constexpr,
    COMPLEX: tl.constexpr, GAP: tl.constexpr, SQUARED: tl.constexpr,
):  # fmt: skip
    """One row per program: what it adds to its newcomer's gradient, to gradients (rows, width)."""
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
        pull = shares * sigmoid(margin - distance) * _stretch(length, GAP, SQUARED)
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
    pulled = share * sigmoid(own - margin) * _stretch(own_length, GAP, SQUARED)
    pushed = tl.where(total > 0, share / total, 0.0)
    gx = tl.sum(pulled[:, None] * ax, axis=0) - pushed * gx
    out = gradients_ptr + row * WIDTH + column
    # Read once, by `update`: they are not to push the known vectors out of the cache.
    if COMPLEX:
        gy = tl.sum(pulled[:, None] * ay, axis=0) - pushed * gy
        tl.store(out, gx * cosine + gy * sine, mask=inside, eviction_policy="evict_first")
        tl.store(out + DIM, gy * cosine - gx * sine, mask=inside, eviction_policy="evict_first")
    else:
        tl.store(out, gx, mask=inside, eviction_policy="evict_first")


@triton.jit
def update(
    vectors_ptr, start_ptr, mean_ptr, square_ptr, gradients_ptr, slots_ptr, step_ptr,
    prior, lr, decay,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, UNIT_NORM: tl.constexpr,
):  # fmt: skip
    """One newcomer per program: the sum of its rows, the pull to its start, Adam's step.

    decay: how much the rate goes down in a step, as a share of lr
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
