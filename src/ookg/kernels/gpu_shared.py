# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The Triton kernels of a training step on a GPU whose triples share negatives, a set for every so many triples.

Each triple of a set is measured against each negative of the set, so what is read of a vector serves many distances:
the work is arithmetic, not memory. Sums of sizes and of moduli go by tiles, with the running sums in registers:

* `distances` goes over the coordinates, of vectors that are turned: a coordinate's values lie side by side.
* `pulls` goes over one side of the set, with the other side's vectors in registers: first the gradients of the points,
  then, with the sides exchanged, those of the negatives.

A Euclidean distance needs none of the two: `ookg.training.gpu_shared_step` gets it by matrix products.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ookg.kernels.gpu_step import (
    DRAWS,
    EUCLIDEAN,
    GOLDEN,
    SUM_OF_MODULI,
    SUM_OF_SIZES,
    is_listed,
    mixed,
    sigmoid,
    sign,
    softplus,
    triple_of_batch,
)


@triton.jit
def sample_sets(step_ptr, ids_ptr, stream, num_entities, size, BLOCK: tl.constexpr):
    """The negatives of all sets, (sets · negatives,)."""
    step = tl.load(step_ptr)
    slot = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    bits = mixed(slot * DRAWS * GOLDEN + mixed((stream ^ step) + GOLDEN) + GOLDEN)
    ids = (((bits >> 32) & 0xFFFFFFFF) * num_entities) >> 32
    tl.store(ids_ptr + slot, ids.to(tl.int32), mask=slot < size)


@triton.jit
def sample_triples(
    step_ptr, order_ptr, triples_ptr, offsets_ptr, keys_ptr, all_weights_ptr,
    relations_ptr, weights_ptr, ids_ptr, negatives_ptr, usable_ptr,
    num_triples, num_entities, batches, batch, shared,
    CORRUPTS_HEAD: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One true triple per program: answer, anchor, relation, weight, and which negatives of its set are false for it.

    ids: (2 · batch,) answers, then anchors; usable: (batch, COUNT)
    """
    i = tl.program_id(0).to(tl.int64)
    row, anchor, relation, answer = triple_of_batch(
        order_ptr, triples_ptr, tl.load(step_ptr), i, num_triples, batches, batch, CORRUPTS_HEAD
    )
    tl.store(ids_ptr + i, answer.to(tl.int32))
    tl.store(ids_ptr + batch + i, anchor.to(tl.int32))
    tl.store(relations_ptr + i, relation.to(tl.int32))
    tl.store(weights_ptr + i, tl.load(all_weights_ptr + row))
    first = tl.load(offsets_ptr + anchor)
    last = tl.load(offsets_ptr + anchor + 1)
    slot = tl.arange(0, BLOCK)
    wanted = slot < COUNT
    ids = tl.load(negatives_ptr + (i // shared) * COUNT + slot, mask=wanted, other=0).to(tl.int64)
    true = is_listed(keys_ptr, relation * num_entities + ids, wanted, first, last)
    tl.store(usable_ptr + i * COUNT + slot, (true == 0).to(tl.int8), mask=wanted)


@triton.jit
def point_and_gap(
    entities_ptr, parameters_ptr, ids_ptr, relations_ptr, i, column, inside, phase, batch,
    DIM: tl.constexpr, COMPLEX: tl.constexpr, CORRUPTS_HEAD: tl.constexpr,
):  # fmt: skip
    """The point of a triple, which is the anchor moved by the relation, the turn that moved it, and the answer's gap.

    Real and imaginary parts each: x, y; cosine, sine; dx, dy. Those that there are not are others again.
    """
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    answer = tl.load(ids_ptr + i).to(tl.int64)
    anchor = tl.load(ids_ptr + batch + i).to(tl.int64)
    relation = tl.load(relations_ptr + i).to(tl.int64)
    x = tl.load(entities_ptr + anchor * WIDTH + column, mask=inside, other=0.0)
    parameter = tl.load(parameters_ptr + relation * DIM + column, mask=inside, other=0.0)
    y, cosine, sine = x, x, x
    if COMPLEX:
        imaginary = tl.load(entities_ptr + anchor * WIDTH + DIM + column, mask=inside, other=0.0)
        cosine, sine = tl.cos(parameter * phase), tl.sin(parameter * phase)
        if CORRUPTS_HEAD:
            sine = -sine
        y = x * sine + imaginary * cosine
        x = x * cosine - imaginary * sine
    elif CORRUPTS_HEAD:
        x = x - parameter
    else:
        x = x + parameter
    dx = x - tl.load(entities_ptr + answer * WIDTH + column, mask=inside, other=0.0)
    dy = dx
    if COMPLEX:
        dy = y - tl.load(entities_ptr + answer * WIDTH + DIM + column, mask=inside, other=0.0)
    return x, y, cosine, sine, dx, dy


@triton.jit
def points(
    entities_ptr, parameters_ptr, ids_ptr, relations_ptr, points_ptr, positives_ptr, phase, batch,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COMPLEX: tl.constexpr, GAP: tl.constexpr, CORRUPTS_HEAD: tl.constexpr,
):  # fmt: skip
    """One true triple per program: its point, and the distance of its answer."""
    i = tl.program_id(0).to(tl.int64)
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    x, y, _, _, dx, dy = point_and_gap(
        entities_ptr, parameters_ptr, ids_ptr, relations_ptr, i, column, inside, phase, batch,
        DIM, COMPLEX, CORRUPTS_HEAD,
    )  # fmt: skip
    out = points_ptr + i * WIDTH + column
    tl.store(out, x, mask=inside)
    squares = dx * dx
    if COMPLEX:
        tl.store(out + DIM, y, mask=inside)
        squares += dy * dy
    if GAP == SUM_OF_SIZES:
        distance = tl.sum(tl.abs(dx), axis=0)
    elif GAP == EUCLIDEAN:
        distance = tl.sqrt(tl.sum(squares, axis=0))
    else:
        distance = tl.sum(tl.sqrt(squares), axis=0)
    tl.store(positives_ptr + i, distance)


@triton.jit
def distances(
    points_ptr, negatives_ptr, distances_ptr, shared,
    DIM: tl.constexpr, COUNT: tl.constexpr, POINTS: tl.constexpr, NEGATIVES: tl.constexpr, GAP: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """Some points of a set against some of its negatives.

    points: (sets, width, shared) and negatives: (sets, width, COUNT), both turned; distances: (sets, COUNT, shared)
    """
    chunk = tl.program_id(0).to(tl.int64)
    point = tl.program_id(1) * POINTS + tl.arange(0, POINTS)
    negative = tl.program_id(2) * NEGATIVES + tl.arange(0, NEGATIVES)
    has_point, has_negative = point < shared, negative < COUNT
    WIDTH: tl.constexpr = 2 * DIM if GAP == SUM_OF_MODULI else DIM
    x_ptr = points_ptr + chunk * WIDTH * shared + point
    n_ptr = negatives_ptr + chunk * WIDTH * COUNT + negative
    total = tl.zeros([NEGATIVES, POINTS], tl.float32)
    for k in tl.range(0, DIM, loop_unroll_factor=UNROLL):
        x = tl.load(x_ptr + k * shared, mask=has_point, other=0.0)
        n = tl.load(n_ptr + k * COUNT, mask=has_negative, other=0.0)
        dx = x[None, :] - n[:, None]
        if GAP == SUM_OF_SIZES:
            total += tl.abs(dx)
        else:
            y = tl.load(x_ptr + (k + DIM) * shared, mask=has_point, other=0.0)
            m = tl.load(n_ptr + (k + DIM) * COUNT, mask=has_negative, other=0.0)
            dy = y[None, :] - m[:, None]
            total += tl.sqrt(dx * dx + dy * dy)
    out = distances_ptr + (chunk * COUNT + negative[:, None]) * shared + point[None, :]
    tl.store(out, total, mask=has_negative[:, None] & has_point[None, :])


@triton.jit
def weigh(
    distances_ptr, positives_ptr, usable_ptr, weights_ptr, total_ptr,
    pulled_ptr, by_point_ptr, losses_ptr, margin, temperature, batch, shared,
    COUNT: tl.constexpr, COUNT_BLOCK: tl.constexpr, TILE: tl.constexpr, GAP: tl.constexpr,
):  # fmt: skip
    """Some triples of a set per program: the loss, and its derivative by each distance (divided by it if Euclidean).

    distances: (sets, COUNT, shared), replaced by the derivatives; by_point: (sets, shared, COUNT) the same again;
    pulled: (batch,) that of the true triple's distance
    """
    chunk = tl.program_id(0).to(tl.int64)
    within = tl.program_id(1) * TILE + tl.arange(0, TILE)
    i = chunk * shared + within
    live = (within < shared) & (i < batch)
    slot = tl.arange(0, COUNT_BLOCK)
    positive = tl.load(positives_ptr + i, mask=live, other=0.0)
    share = tl.load(weights_ptr + i, mask=live, other=0.0) / tl.load(total_ptr) / 2
    pulled = share * sigmoid(positive - margin)
    if GAP == EUCLIDEAN:
        pulled = tl.where(positive > 0, pulled / positive, 0.0)
    tl.store(pulled_ptr + i, pulled, mask=live)

    mask = (slot < COUNT)[:, None] & live[None, :]
    where = distances_ptr + (chunk * COUNT + slot[:, None]) * shared + within[None, :]
    distance = tl.load(where, mask=mask, other=0.0)
    by_point = (chunk * shared + within[None, :]) * COUNT + slot[:, None]
    usable = tl.load(usable_ptr + by_point, mask=mask, other=0) != 0
    logits = tl.where(usable, -temperature * distance, -float("inf"))
    highest = tl.max(logits, axis=0)
    highest = tl.where(highest > -float("inf"), highest, 0.0)
    chance = tl.where(usable, tl.exp(logits - highest[None, :]), 0.0)
    total = tl.sum(chance, axis=0)
    chance = chance * tl.where(total > 0, share / total, 0.0)[None, :]
    derivative = -chance * sigmoid(margin - distance)
    if GAP == EUCLIDEAN:
        derivative = tl.where(distance > 0, derivative / distance, 0.0)
    inside = (slot < COUNT)[:, None] & (within < shared)[None, :]  # of triples beyond the batch too: zeros
    tl.store(where, derivative, mask=inside)
    tl.store(by_point_ptr + by_point, derivative, mask=inside)
    loss = share * softplus(positive - margin) + tl.sum(chance * softplus(margin - distance), axis=0)
    tl.store(losses_ptr + i, loss, mask=live)


@triton.jit
def pulls(
    own_ptr, others_ptr, derivatives_ptr, gradients_ptr, own_count, others_count,
    DIM: tl.constexpr, OWN: tl.constexpr, COLUMNS: tl.constexpr, GAP: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Some columns of some vectors of a set: the gradient of the loss there, from all vectors on the set's other side.

    own: (sets, own_count, width); others: (sets, others_count, width); derivatives: (sets, others_count, own_count);
    gradients: as own
    """
    chunk = tl.program_id(0).to(tl.int64)
    own = tl.program_id(1) * OWN + tl.arange(0, OWN)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    has_own, inside = own < own_count, column < DIM
    WIDTH: tl.constexpr = 2 * DIM if GAP == SUM_OF_MODULI else DIM
    mask = has_own[:, None] & inside[None, :]
    where = (chunk * own_count + own[:, None]) * WIDTH + column[None, :]
    x = tl.load(own_ptr + where, mask=mask, other=0.0)
    gx = tl.zeros([OWN, COLUMNS], tl.float32)
    if GAP == SUM_OF_MODULI:
        y = tl.load(own_ptr + where + DIM, mask=mask, other=0.0)
        gy = tl.zeros([OWN, COLUMNS], tl.float32)
    other_ptr = others_ptr + chunk * others_count * WIDTH + column
    derivative_ptr = derivatives_ptr + chunk * others_count * own_count + own
    for j in tl.range(0, others_count, loop_unroll_factor=UNROLL):
        n = tl.load(other_ptr + j * WIDTH, mask=inside, other=0.0)[None, :]
        derivative = tl.load(derivative_ptr + j * own_count, mask=has_own, other=0.0)[:, None]
        if GAP == SUM_OF_SIZES:
            gx += tl.where(x > n, derivative, tl.where(x < n, -derivative, 0.0))
        else:
            m = tl.load(other_ptr + j * WIDTH + DIM, mask=inside, other=0.0)[None, :]
            dx, dy = x - n, y - m
            squares = dx * dx + dy * dy
            pull = tl.where(squares > 0, derivative * tl.rsqrt(squares), 0.0)
            gx += pull * dx
            gy += pull * dy
    tl.store(gradients_ptr + where, gx, mask=mask)
    if GAP == SUM_OF_MODULI:
        tl.store(gradients_ptr + where + DIM, gy, mask=mask)


@triton.jit
def ends(
    entities_ptr, parameters_ptr, ids_ptr, relations_ptr, pulled_ptr, at_points_ptr, gradients_ptr,
    relation_gradients_ptr, phase, batch,
    DIM: tl.constexpr, BLOCK: tl.constexpr, COMPLEX: tl.constexpr, GAP: tl.constexpr, CORRUPTS_HEAD: tl.constexpr,
):  # fmt: skip
    """One true triple per program: the gradients of its answer, its anchor and its relation.

    at_points: (batch, width) the negatives' part of the gradient at the points; gradients: (2 · batch, width) those of
    the answers, then of the anchors
    """
    i = tl.program_id(0).to(tl.int64)
    WIDTH: tl.constexpr = 2 * DIM if COMPLEX else DIM
    column = tl.arange(0, BLOCK)
    inside = column < DIM
    x, y, cosine, sine, dx, dy = point_and_gap(
        entities_ptr, parameters_ptr, ids_ptr, relations_ptr, i, column, inside, phase, batch,
        DIM, COMPLEX, CORRUPTS_HEAD,
    )  # fmt: skip
    pulled = tl.load(pulled_ptr + i)
    if GAP == SUM_OF_SIZES:
        dx = sign(dx)
    elif GAP == SUM_OF_MODULI:
        squares = dx * dx + dy * dy
        inverse = tl.where(squares > 0, tl.rsqrt(squares), 0.0)
        dx *= inverse
        dy *= inverse
    of_answer = gradients_ptr + i * WIDTH + column
    of_anchor = of_answer + batch * WIDTH
    at_point = at_points_ptr + i * WIDTH + column
    relation_out = relation_gradients_ptr + i * DIM + column
    gx = pulled * dx + tl.load(at_point, mask=inside, other=0.0)
    tl.store(of_answer, -pulled * dx, mask=inside)
    if COMPLEX:
        gy = pulled * dy + tl.load(at_point + DIM, mask=inside, other=0.0)
        tl.store(of_answer + DIM, -pulled * dy, mask=inside)
        tl.store(of_anchor, gx * cosine + gy * sine, mask=inside)
        tl.store(of_anchor + DIM, gy * cosine - gx * sine, mask=inside)
        turn = (x * gy - y * gx) * phase
        tl.store(relation_out, -turn if CORRUPTS_HEAD else turn, mask=inside)
    else:
        tl.store(of_anchor, gx, mask=inside)
        tl.store(relation_out, -gx if CORRUPTS_HEAD else gx, mask=inside)
