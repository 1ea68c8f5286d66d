"""The parts of a training step, compiled for the CPU.

A step compares each row's point (where the answer should be) with the row's negatives and its answer. These pairs are
sorted by entity: an entity's vector stays in the first-level cache while the points, a table far smaller than that of
the entities, pass by; and its gradient is summed up in one place, so that nothing races. No (batch, negatives,
dim) numbers are ever stored.

The result depends neither on the number of threads nor on where the arrays lie: work is cut by the shapes alone, each
sum has one owner, and what is stored is computed as it is written down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ookg.kernels import randomness
from ookg.kernels.adam import EPSILON, FIRST_DECAY, SECOND_DECAY
from ookg.kernels.cpu_compile import (
    ABSOLUTE,
    EUCLIDEAN,
    TINY,
    compiled,
    next_task,
    slice_gap,
    task_done,
    wait_for_tasks,
)
from ookg.kernels.randomness import ATTEMPTS
from ookg.kernels.threads import run_tasks
from ookg.types import Array

TASKS = 64  # parts of a loop whose results do not depend on how it is cut
# Parts of the backward pass, each with point gradients of its own. A constant, because the order of sums, and so the
# result to the last bit, depends on how the work is cut.
PARTS = 8

GOLDEN, FIRST, SECOND = np.uint64(randomness.GOLDEN), np.uint64(randomness.FIRST), np.uint64(randomness.SECOND)


# Negatives.


@compiled(leaf=True)
def _draw(start: Any, counter: Any) -> Any:
    value = counter * GOLDEN + (start + GOLDEN)
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))


def draw_negatives(
    start: Any, known: Array, relations: Array, answers: tuple[Array, Array, int], shared: int, ids: Array
) -> Array:
    """`Sampler.negatives`, written to ids (batch, negatives); returns (batch, negatives) whether each is usable.

    known, relations: (batch,) what of the triples is kept; answers: offsets and keys of `TrueAnswers`, and how many
    entities there are; shared: how many rows share a set, or 0
    """
    usable = np.empty(ids.shape, dtype=np.bool_)
    _draw_rows(0, len(ids), start, known, relations, answers, shared, ids, usable)
    return usable


@compiled(leaf=True)
def _first_from(keys: Array, low: int, high: int, key: int) -> int:
    """The first place from low to high whose key is not below this one; high if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _draw_rows(
    first: int,
    last: int,
    start: Any,
    known: Array,
    relations: Array,
    answers: tuple[Array, Array, int],
    shared: int,
    ids: Array,
    usable: Array,
) -> None:
    """`draw_negatives` of some rows."""
    offsets, keys, num_entities = answers
    negatives, attempts = ids.shape[1], 1 if shared else ATTEMPTS
    for row in range(first, last):
        base = relations[row] * num_entities
        end = offsets[known[row] + 1]
        begin = _first_from(keys, offsets[known[row]], end, base)
        end = _first_from(keys, begin, end, base + num_entities)
        drawn_as = row // shared if shared else row
        for number in range(negatives):
            counter = np.uint64((drawn_as * negatives + number) * ATTEMPTS)
            entity, is_true = np.int64(0), False
            for attempt in range(attempts):
                drawn = _draw(start, counter + np.uint64(attempt)) >> np.uint64(32)
                entity = np.int64((drawn * np.uint64(num_entities)) >> np.uint64(32))
                place = _first_from(keys, begin, end, base + entity)
                is_true = place < end and keys[place] == base + entity
                if not is_true:
                    break
            ids[row, number] = entity
            usable[row, number] = not is_true


# Order: pairs by entity, rows by entity and relation.


@compiled()
def group_rows(ids: Array, offsets: Array, order: Array) -> None:
    """Group rows by their ids: those whose id is n become order[offsets[n]:offsets[n + 1]], ascending.

    offsets: (largest id + 3,) out, the last as scratch; order: (rows,) out
    """
    # Counted two places up: the second pass moves each start to its end, which is the next one's start.
    offsets[:] = 0
    for row in range(len(ids)):
        offsets[ids[row] + 2] += 1
    for number in range(2, len(offsets)):
        offsets[number] += offsets[number - 1]
    for row in range(len(ids)):
        place = offsets[ids[row] + 1]
        order[place] = row
        offsets[ids[row] + 1] = place + 1


@compiled()
def sort_pairs(ids: Array, usable: Array, answers: Array, offsets: Array, pairs: Array, rank: Array) -> None:
    """Sort the pairs by entity, skipping unusable negatives.

    offsets: (entities + 2,) out, where each entity's pairs start, and the end twice
    pairs: (2, batch · (negatives + 1)) out, a pair's row and its slot, counted in a (batch, negatives + 1) table whose
        last column is the answer
    rank: (entities,) out, the entity's place among those that have a pair, -1 for none
    """
    batch, negatives = ids.shape
    offsets[:] = 0
    for row in range(batch):
        for number in range(negatives):
            if usable[row, number]:
                offsets[ids[row, number] + 2] += 1
        offsets[answers[row] + 2] += 1
    touched = 0
    for entity in range(len(rank)):
        rank[entity] = -1
        if offsets[entity + 2] > 0:
            rank[entity] = touched
            touched += 1
        offsets[entity + 2] += offsets[entity + 1]
    for row in range(batch):
        slot = row * (negatives + 1)
        for number in range(negatives):
            if usable[row, number]:
                place = offsets[ids[row, number] + 1]
                pairs[0, place], pairs[1, place] = row, slot + number
                offsets[ids[row, number] + 1] = place + 1
        place = offsets[answers[row] + 1]
        pairs[0, place], pairs[1, place] = row, slot + negatives
        offsets[answers[row] + 1] = place + 1


@compiled()
def _equal_parts(offsets: Array, parts: int) -> Array:
    """(parts + 1,) entities that cut the pairs into about equal parts."""
    entities = len(offsets) - 2
    cuts = np.zeros(parts + 1, dtype=np.int64)
    for part in range(1, parts):
        cuts[part] = np.searchsorted(offsets[:-1], offsets[entities] * part // parts)
    cuts[parts] = entities
    return cuts


# Forward.


@compiled()
def _solve_rows(
    first: int, last: int, entities: Array, sources: Array, relations: Array, turns: Array, sign: float, points: Array
) -> None:
    """Where some rows' answers should be, to points (batch, entity_width).

    sources, relations: (batch,) the known ends and the relations
    turns: (1, relations, dim) the translations, which lead to the other ends by `sign`; or (2, batch, dim) cos and sin
        of the rotations that do
    """
    dim, factor = turns.shape[2], np.float32(sign)
    for row in range(first, last):
        source, relation = sources[row], relations[row]
        if turns.shape[0] == 1:
            for k in range(dim):
                points[row, k] = entities[source, k] + factor * turns[0, relation, k]
        else:
            for k in range(dim):
                real, imaginary = entities[source, k], entities[source, dim + k]
                points[row, k] = real * turns[0, row, k] - imaginary * turns[1, row, k]
                points[row, dim + k] = real * turns[1, row, k] + imaginary * turns[0, row, k]


def pair_gaps(entities: Array, points: Array, offsets: Array, pairs: Array, kind: int, gaps: Array) -> None:
    """The gap of each pair, to gaps (batch · (negatives + 1),) by slot; unusable slots are left alone."""
    cuts = _equal_parts(offsets, TASKS)
    run_tasks(_pair_gaps, TASKS, pairs.size * points.shape[1], cuts, entities, points, offsets, pairs, kind, gaps)


@compiled()
def _pair_gaps(
    board: Array, cuts: Array, entities: Array, points: Array, offsets: Array, pairs: Array, kind: int, gaps: Array
) -> None:
    task = next_task(board, 0)
    while task >= 0:
        _gaps_of(cuts[task], cuts[task + 1], entities, points, offsets, pairs, kind, gaps)
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _gaps_of(
    first: int, last: int, entities: Array, points: Array, offsets: Array, pairs: Array, kind: int, gaps: Array
) -> None:
    """The gaps of the pairs of some entities."""
    for entity in range(first, last):
        for pair in range(offsets[entity], offsets[entity + 1]):
            total = slice_gap(points, pairs[0, pair], entities, entity, kind, 0, -1)
            gaps[pairs[1, pair]] = np.sqrt(total) if kind == EUCLIDEAN else total


# The loss and its derivatives.


def row_losses(
    gaps: Array, usable: Array, share: Array, margin: float, temperature: float, kind: int, slopes: Array
) -> Array:
    """Each row's part of the self-adversarial loss, (batch,).

    gaps: (batch · (negatives + 1),) D by slot; share: (batch,) w / Σw / 2
    slopes: (batch · (negatives + 1),) out, dL/dD by slot; dL/dD / D for the Euclidean gap (0 where D is 0), whose
        gradient is (x - y) / D
    """
    losses = np.empty(len(usable), dtype=np.float32)
    _losses_of(0, len(usable), gaps, usable, share, (margin, temperature), kind, slopes, losses)
    return losses


@compiled()
def _losses_of(
    first: int,
    last: int,
    gaps: Array,
    usable: Array,
    share: Array,
    settings: tuple[float, float],
    kind: int,
    slopes: Array,
    losses: Array,
) -> None:
    """`row_losses` of some rows."""
    slots = usable.shape[1] + 1
    for row in range(first, last):
        own = slice(row * slots, (row + 1) * slots)
        losses[row] = _row_loss(gaps[own], usable[row], share[row], settings, kind, slopes[own])


@compiled()
def _row_loss(gaps: Array, usable: Array, share: Any, settings: tuple[float, float], kind: int, slopes: Array) -> Any:
    """`row_losses` of one row; gaps, slopes: (negatives + 1,)"""
    one, zero, gamma, alpha = np.float32(1), np.float32(0), np.float32(settings[0]), np.float32(settings[1])
    negatives = len(usable)
    nearest = np.float32(np.inf)
    for number in range(negatives):
        if usable[number]:
            nearest = min(nearest, gaps[number])
    total = zero
    for number in range(negatives):
        weight = math.exp(alpha * (nearest - gaps[number])) if usable[number] else zero
        slopes[number] = weight  # to be normalised
        total += weight
    loss = zero
    for number in range(negatives):
        if slopes[number] == zero:
            continue
        probability = slopes[number] / total
        beyond = gaps[number] - gamma
        small = math.exp(-abs(beyond))
        # -log σ(x) = max(-x, 0) + log(1 + exp(-|x|)), and σ(-x) from the same exponential
        loss += probability * (max(-beyond, zero) + math.log1p(small))
        slopes[number] = -share * probability * (small if beyond > zero else one) / (one + small)
    beyond = gaps[negatives] - gamma
    small = math.exp(-abs(beyond))
    loss += max(beyond, zero) + math.log1p(small)
    slopes[negatives] = share * (one if beyond > zero else small) / (one + small)
    if kind == EUCLIDEAN:
        for number in range(negatives + 1):
            slopes[number] = slopes[number] / gaps[number] if slopes[number] != zero and gaps[number] > zero else zero
    return share * loss


# Backward.


@compiled(leaf=True)
def _add_gradient(point: Array, vector: Array, slope: Any, kind: int, own: Array, rest: Array) -> None:
    """Add slope · d gap(point, vector) / d point to `rest`, the point's gradient, and take it from `own`."""
    zero = np.float32(0)
    if kind == ABSOLUTE:
        for k in range(len(point)):
            difference = point[k] - vector[k]
            gradient = slope if difference > zero else (-slope if difference < zero else zero)
            own[k] -= gradient
            rest[k] += gradient
    elif kind == EUCLIDEAN:
        for k in range(len(point)):
            gradient = slope * (point[k] - vector[k])
            own[k] -= gradient
            rest[k] += gradient
    else:
        dim = len(point) // 2
        other_point, other_vector, other_own, other_rest = point[dim:], vector[dim:], own[dim:], rest[dim:]
        for k in range(dim):
            real, imaginary = point[k] - vector[k], other_point[k] - other_vector[k]
            factor = slope / np.sqrt(max(real * real + imaginary * imaginary, TINY))
            own[k] -= factor * real
            other_own[k] -= factor * imaginary
            rest[k] += factor * real
            other_rest[k] += factor * imaginary


@compiled(leaf=True)
def _add_two_gradients(
    points: Array, rows: tuple[int, int], vector: Array, slopes: tuple[Any, Any], kind: int, own: Array, rest: Array
) -> None:
    """`_add_gradient` of two different points at once: the entity's gradient is read and written once for both."""
    zero, x, y, s, t = np.float32(0), points[rows[0]], points[rows[1]], slopes[0], slopes[1]
    first, second = rest[rows[0]], rest[rows[1]]
    if kind == ABSOLUTE:
        for k in range(len(x)):
            a, b = x[k] - vector[k], y[k] - vector[k]
            a = s if a > zero else (-s if a < zero else zero)
            b = t if b > zero else (-t if b < zero else zero)
            own[k] -= a + b
            first[k] += a
            second[k] += b
    elif kind == EUCLIDEAN:
        for k in range(len(x)):
            a, b = s * (x[k] - vector[k]), t * (y[k] - vector[k])
            own[k] -= a + b
            first[k] += a
            second[k] += b
    else:
        dim = len(x) // 2
        other_x, other_y, other_vector, other_own = x[dim:], y[dim:], vector[dim:], own[dim:]
        other_first, other_second = first[dim:], second[dim:]
        for k in range(dim):
            a, b = x[k] - vector[k], y[k] - vector[k]
            other_a, other_b = other_x[k] - other_vector[k], other_y[k] - other_vector[k]
            u = s / np.sqrt(max(a * a + other_a * other_a, TINY))
            v = t / np.sqrt(max(b * b + other_b * other_b, TINY))
            a, b, other_a, other_b = u * a, v * b, u * other_a, v * other_b
            own[k] -= a + b
            other_own[k] -= other_a + other_b
            first[k] += a
            other_first[k] += other_a
            second[k] += b
            other_second[k] += other_b


@compiled(leaf=True)
def _add_entity_gradients(
    entities: Array,
    entity: int,
    points: Array,
    offsets: Array,
    pairs: Array,
    slopes: Array,
    kind: int,
    own: Array,
    rest: Array,
) -> None:
    """Set the gradient of one entity, `own`; add to those of its pairs' points, `rest` (batch, entity_width)."""
    zero = np.float32(0)
    for k in range(len(own)):
        own[k] = zero
    pair, end = offsets[entity], offsets[entity + 1]
    while pair < end:
        row, slope = pairs[0, pair], slopes[pairs[1, pair]]
        if pair + 1 < end and pairs[0, pair + 1] != row:
            rows, both = (row, pairs[0, pair + 1]), (slope, slopes[pairs[1, pair + 1]])
            if both[0] != zero or both[1] != zero:
                _add_two_gradients(points, rows, entities[entity], both, kind, own, rest)
            pair += 2
        else:
            if slope != zero:
                _add_gradient(points[row], entities[entity], slope, kind, own, rest[row])
            pair += 1


def pair_gradients(
    entities: Array,
    points: Array,
    offsets: Array,
    pairs: Array,
    slopes: Array,
    kind: int,
    own: Array,
    rest: Array,
) -> None:
    """Gradients of the pairs' entities and points.

    slopes: by slot, from row_losses
    own: (touched entities, entity_width) out, by the entity's rank
    rest: (parts, batch, entity_width) out, the points' gradients in parts to be added up
    """
    cuts = _equal_parts(offsets, len(rest))
    parts, tables = (cuts, _first_ranks(offsets, cuts)), (entities, points)
    numbers = pairs.size * points.shape[1]
    run_tasks(_pair_gradients, len(rest), numbers, parts, tables, offsets, pairs, slopes, kind, own, rest)


@compiled()
def _first_ranks(offsets: Array, cuts: Array) -> Array:
    """(parts,) the rank of the first entity with a pair in each part."""
    ranks = np.zeros(len(cuts) - 1, dtype=np.int64)
    for part in range(1, len(ranks)):
        ranks[part] = ranks[part - 1]
        for entity in range(cuts[part - 1], cuts[part]):
            ranks[part] += offsets[entity + 1] > offsets[entity]
    return ranks


@compiled()
def _pair_gradients(
    board: Array,
    parts: tuple[Array, Array],
    tables: tuple[Array, Array],
    offsets: Array,
    pairs: Array,
    slopes: Array,
    kind: int,
    own: Array,
    rest: Array,
) -> None:
    """parts: the entities that cut the pairs, and the rank of each part's first; tables: entities and points"""
    part = next_task(board, 0)
    while part >= 0:
        _gradients_of(part, parts, tables, offsets, pairs, slopes, kind, own, rest[part])
        task_done(board, 0)
        part = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _gradients_of(
    part: int,
    parts: tuple[Array, Array],
    tables: tuple[Array, Array],
    offsets: Array,
    pairs: Array,
    slopes: Array,
    kind: int,
    own: Array,
    rest: Array,
) -> None:
    """The gradients of one part's pairs; rest: (batch, entity_width) this part's"""
    cuts, ranks = parts
    entities, points = tables
    rest[:] = np.float32(0)
    rank = ranks[part]
    for entity in range(cuts[part], cuts[part + 1]):
        if offsets[entity] == offsets[entity + 1]:
            continue
        _add_entity_gradients(entities, entity, points, offsets, pairs, slopes, kind, own[rank], rest)
        rank += 1


@compiled()
def _chain_rows(
    first: int,
    last: int,
    points: Array,
    rest: Array,
    turns: Array,
    slope: float,
    source: Array,
    relation: Array,
) -> None:
    """From the points' gradients to those of the known ends and the relation parameters, of some rows.

    turns: as for _solve_rows; slope: the derivative of a translation or phase by its parameter
    source: (batch, entity_width) out; relation: (batch, relation_width) out
    """
    parts, dim, factor = len(rest), turns.shape[2], np.float32(slope)
    for row in range(first, last):
        for k in range(source.shape[1]):
            source[row, k] = rest[0, row, k]
        for part in range(1, parts):
            for k in range(source.shape[1]):
                source[row, k] += rest[part, row, k]
        if turns.shape[0] == 1:
            for k in range(dim):
                relation[row, k] = factor * source[row, k]
        else:
            for k in range(dim):
                real, imaginary = source[row, k], source[row, dim + k]
                relation[row, k] = factor * (imaginary * points[row, k] - real * points[row, dim + k])
                source[row, k] = real * turns[0, row, k] + imaginary * turns[1, row, k]
                source[row, dim + k] = imaginary * turns[0, row, k] - real * turns[1, row, k]


# Adam.


@compiled()
def _adam_rows(
    task: int,
    tables: tuple[Array, Array, Array],
    own: Array,
    rank: Array,
    rows: Array,
    groups: tuple[Array, Array],
    factors: tuple[float, float, float],
    scratch: tuple[Array, Array],
) -> None:
    """Adam with L2 in place, on every row of one of TASKS parts of a table.

    tables: the parameters, and Adam's mean and square of them
    A row's gradient is own[rank] where rank is not -1, plus the sum of rows[order[offsets[row]:offsets[row + 1]]].
    groups: these offsets and that order; factors: 2 · l2, rate / (1 - β₁ᵗ), 1 / (1 - β₂ᵗ)
    scratch: zeros and room for a sum, both at least as wide as the table
    """
    size, width = tables[0].shape
    offsets, order = groups
    none, total = scratch[0][:width], scratch[1][:width]
    for row in range(size * task // TASKS, size * (task + 1) // TASKS):
        gradient = own[rank[row]] if rank[row] >= 0 else none
        if offsets[row] < offsets[row + 1]:
            for k in range(width):
                total[k] = gradient[k]
            for place in range(offsets[row], offsets[row + 1]):
                for k in range(width):
                    total[k] += rows[order[place], k]
            gradient = total
        _adam_row(tables[0][row], tables[1][row], tables[2][row], gradient, factors)


@compiled(leaf=True)
def _adam_row(
    parameters: Array, mean: Array, square: Array, gradient: Array, factors: tuple[float, float, float]
) -> None:
    decay, rate, correction = np.float32(factors[0]), np.float32(factors[1]), np.float32(factors[2])
    first, second, epsilon = np.float32(FIRST_DECAY), np.float32(SECOND_DECAY), np.float32(EPSILON)
    first_rest, second_rest = np.float32(1 - FIRST_DECAY), np.float32(1 - SECOND_DECAY)
    for k in range(len(parameters)):
        g = gradient[k] + decay * parameters[k]
        m = first * mean[k] + first_rest * g
        v = second * square[k] + second_rest * (g * g)
        mean[k], square[k] = m, v
        parameters[k] -= rate * m / (np.sqrt(v * correction) + epsilon)


# The whole step.

# Tasks of its phases: negatives and points; the order of pairs, and of rows; gaps; losses; gradients of the pairs;
# those of known ends and relations; Adam on entities, then on relations.
PHASES = (TASKS, 2, TASKS, TASKS, PARTS, TASKS, 2 * TASKS)


@compiled()
def take_step(  # noqa: PLR0915 (phase after phase)
    board: Array,
    batch: tuple[Array, Array, Array, Array, Array],
    draws: tuple[Any, tuple[Array, Array, int], int, Array, Array],
    order: tuple[Array, Array, Array, Array, Array, Array],
    forward: tuple[Array, Array, Array, Array, Array],
    settings: tuple[float, float, int, float, float],
    gradients: tuple[Array, Array, Array, Array],
    tables: tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]],
    update: tuple[tuple[Array, Array], tuple[Array, Array], Array, tuple[float, float, float]],
) -> None:
    """A training step, by all threads that call it with one board.

    batch: (batch,) each: the known ends, the answers, the relations, the shares w / Σw / 2, and the losses, out
    draws: start of the random stream, answers, shared, and out ids and usable, all as for `draw_negatives`
    order: out offsets, pairs, rank as for `sort_pairs`, then room for the cuts of gaps and of parts, and ranks of parts
    forward: turns, and out points, gaps, slopes; the last is the table of no ranks of the relations
    settings: γ, α, the kind of gap, the sign of `_solve_rows`, the derivative of a translation or phase by parameter
    gradients: out own, rest, and those of known ends and of relations by row
    tables: those of entities and of relations with Adam's moments
    update: out rows grouped by entity and by relation, zeros as wide as a row, Adam's factors
    """
    source, answer, relation, share, losses = batch
    start, answers, shared, ids, usable = draws
    offsets, pairs, rank, gap_cuts, part_cuts, part_ranks = order
    turns, points, gaps, slopes, no_rank = forward
    margin, temperature, kind, sign, slope = settings
    own, rest, source_gradient, relation_gradient = gradients
    entities = tables[0][0]
    size = len(source)
    scratch = (update[2], np.empty_like(update[2]))
    task = next_task(board, 0)
    while task >= 0:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        _draw_rows(first, last, start, source, relation, answers, shared, ids, usable)
        _solve_rows(first, last, entities, source, relation, turns, sign, points)
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
    task = next_task(board, 1)
    while task >= 0:
        if task == 0:
            sort_pairs(ids, usable, answer, offsets, pairs, rank)
            gap_cuts[:] = _equal_parts(offsets, TASKS)
            part_cuts[:] = _equal_parts(offsets, PARTS)
            part_ranks[:] = _first_ranks(offsets, part_cuts)
        else:
            group_rows(source, update[0][0], update[0][1])
            group_rows(relation, update[1][0], update[1][1])
        task_done(board, 1)
        task = next_task(board, 1)
    wait_for_tasks(board, 1)
    task = next_task(board, 2)
    while task >= 0:
        _gaps_of(gap_cuts[task], gap_cuts[task + 1], entities, points, offsets, pairs, kind, gaps)
        task_done(board, 2)
        task = next_task(board, 2)
    wait_for_tasks(board, 2)
    task = next_task(board, 3)
    while task >= 0:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        _losses_of(first, last, gaps, usable, share, (margin, temperature), kind, slopes, losses)
        task_done(board, 3)
        task = next_task(board, 3)
    wait_for_tasks(board, 3)
    part = next_task(board, 4)
    while part >= 0:
        cuts = (part_cuts, part_ranks)
        _gradients_of(part, cuts, (entities, points), offsets, pairs, slopes, kind, own, rest[part])
        task_done(board, 4)
        part = next_task(board, 4)
    wait_for_tasks(board, 4)
    task = next_task(board, 5)
    while task >= 0:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        _chain_rows(first, last, points, rest, turns, slope, source_gradient, relation_gradient)
        task_done(board, 5)
        task = next_task(board, 5)
    wait_for_tasks(board, 5)
    task = next_task(board, 6)
    while task >= 0:
        if task < TASKS:
            _adam_rows(task, tables[0], own, rank, source_gradient, update[0], update[3], scratch)
        else:
            _adam_rows(task - TASKS, tables[1], own, no_rank, relation_gradient, update[1], update[3], scratch)
        task_done(board, 6)
        task = next_task(board, 6)
    wait_for_tasks(board, 6)
