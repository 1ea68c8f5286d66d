"""The parts of a training step, compiled for the CPU.

A step compares each row's point (where the answer should be) with the row's negatives and its answer. These pairs are
sorted by entity: an entity's vector stays in the first-level cache while the points, a table far smaller than that of
the entities, pass by; and its gradient is summed up in one place, so that nothing races. No (batch, negatives,
dim) numbers are ever stored.

Where only touched rows are moved, the table is large and most entities of a step stand in one pair alone. Such a one is
done with at once: with its row's other pairs it comes from memory, gives its gap, gets its gradient and is moved. Only
the others are sorted.

Touched entities and relations have ranks, their places in ascending order of ids. All but the update of whole tables
costs what the step touches: nothing has the length of a table.

The result depends neither on the number of threads nor on where the arrays lie: work is cut by the shapes alone, each
sum has one owner, and what is stored is computed as it is written down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ookg.kernels import adagrad, randomness
from ookg.kernels.adam import EPSILON, FIRST_DECAY, SECOND_DECAY
from ookg.kernels.cpu_compile import (
    ABSOLUTE,
    EUCLIDEAN,
    TINY,
    compiled,
    exponential,
    log_one_plus,
    next_task,
    prefetch_row,
    set_bits,
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

# How parameters are moved: all rows by Adam, or touched ones by Adam or by row-wise Adagrad.
WHOLE_ADAM, TOUCHED_ADAM, TOUCHED_ADAGRAD = 0, 1, 2
DIGIT = 16  # bits that one pass of a sort tells apart
AHEAD = 4  # how many ranks before it is needed a row is asked for

GOLDEN, FIRST, SECOND = np.uint64(randomness.GOLDEN), np.uint64(randomness.FIRST), np.uint64(randomness.SECOND)


# The batch.

ROWS_AHEAD = 16  # of triples, which lie far apart


@compiled()
def gather_batch(rows: Array, triples: Array, weights: Array, batch: tuple[Array, Array, Array, Array]) -> None:
    """Heads, relations, tails and weights of some triples, to batch; weights: (triples, 1)"""
    head, relation, tail, weight = batch
    for number in range(len(rows)):
        if number + ROWS_AHEAD < len(rows):
            prefetch_row(triples, rows[number + ROWS_AHEAD])
            prefetch_row(weights, rows[number + ROWS_AHEAD])
        row = rows[number]
        head[number], relation[number], tail[number] = triples[row, 0], triples[row, 1], triples[row, 2]
        weight[number] = weights[row, 0]


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


# Which entities stand alone: those of one pair and of no row's known end. Nothing else of the step reads or moves them.
#
# Marks are pairs of words: bits of entities that were seen, and of those that do not stand alone. Entities whose ids
# end in the same bits share a mark. They count as not alone, which costs time and nothing else.


def marks_for(places: int) -> Array:
    """Marks for a step that touches at most so many entities: one in 16 of those that stand alone shares its mark."""
    return np.zeros(1 << max(1, (16 * places - 1).bit_length() - 5), dtype=np.int64)


def no_marks() -> Array:
    """Marks by which no entity stands alone."""
    return np.full(2, -1, dtype=np.int64)


@compiled(leaf=True)
def _word_of(marks: Array, entity: int) -> int:
    """Where the mark of an entity is among those that were seen; the next word is for those that are not alone."""
    return ((entity >> 6) << 1) & (len(marks) - 1)


@compiled(leaf=True)
def _bit_of(entity: int) -> Any:
    return np.int64(1) << np.int64(entity & 63)


@compiled(leaf=True)
def _is_alone(marks: Array, entity: int) -> bool:
    return bool((marks[_word_of(marks, entity) + 1] & _bit_of(entity)) == 0)


@compiled()
def _mark_rows(first: int, last: int, ids: Array, usable: Array, ends: tuple[Array, Array], marks: Array) -> None:
    """Mark the entities of some rows; ends: (batch,) answers and known ends."""
    negatives = ids.shape[1]
    for row in range(first, last):
        for number in range(negatives + 1):
            if number < negatives and not usable[row, number]:
                continue
            entity = ids[row, number] if number < negatives else ends[0][row]
            place, bit = _word_of(marks, entity), _bit_of(entity)
            if set_bits(marks, place, bit) & bit:
                set_bits(marks, place + 1, bit)
        set_bits(marks, _word_of(marks, ends[1][row]) + 1, _bit_of(ends[1][row]))


# Order: pairs by entity, rows by entity and relation.


@compiled()
def _sorted(size: int, num_ids: int, room: tuple[Array, Array]) -> int:
    """Sort the first entries of room[0][0] by their ids, stably; return which of the two rooms holds them.

    room: (2, 2, entries) two rooms for ids and what goes with each; and (2^DIGIT + 1,) counts
    """
    rooms, counts = room
    bits = 1
    while bits < 63 and (num_ids - 1) >> bits:
        bits += 1
    passes = -(-bits // DIGIT)
    digit = -(-bits // passes)
    starts, mask, now = counts[: (1 << digit) + 1], (1 << digit) - 1, 0
    for number in range(passes):
        shift, there = number * digit, 1 - now
        starts[:] = 0
        for place in range(size):
            starts[((rooms[now, 0, place] >> shift) & mask) + 1] += 1
        for value in range(1, len(starts)):
            starts[value] += starts[value - 1]
        for place in range(size):
            value = (rooms[now, 0, place] >> shift) & mask
            target = starts[value]
            starts[value] = target + 1
            rooms[there, 0, target], rooms[there, 1, target] = rooms[now, 0, place], rooms[now, 1, place]
        now = there
    return now


@compiled()
def group_rows(ids: Array, num_ids: int, room: tuple[Array, Array], groups: tuple[Array, Array, Array]) -> int:
    """Group rows by their ids; return how many ids there are.

    groups: out, ids ascending; where the rows of each begin, and the end; rows by id, ascending
    """
    touched, offsets, order = groups
    for row in range(len(ids)):
        room[0][0, 0, row], room[0][0, 1, row] = ids[row], row
    now, count = _sorted(len(ids), num_ids, room), 0
    for place in range(len(ids)):
        if place == 0 or room[0][now, 0, place] != touched[count - 1]:
            touched[count], offsets[count] = room[0][now, 0, place], place
            count += 1
        order[place] = room[0][now, 1, place]
    offsets[count] = len(ids)
    return count


@compiled()
def sort_pairs(
    ids: Array,
    usable: Array,
    marks: Array,
    ends: tuple[Array, Array],
    num_entities: int,
    room: tuple[Array, Array],
    pairs: tuple[Array, Array],
    groups: tuple[Array, Array, Array],
) -> int:
    """Sort the pairs by entity, and group rows by known end; return how many entities these are.

    Unusable negatives are skipped, and entities that stand alone.

    ends: (batch,) answers and known ends
    pairs: out, (touched + 1,) where each entity's pairs begin, and the end; and (2, batch · (negatives + 1)) a pair's
        row and its slot, counted in a (batch, negatives + 1) table whose last column is the answer
    groups: out, as for `group_rows`; some entities may have no rows, others no pairs
    """
    batch, negatives = ids.shape
    slots, all_slots = negatives + 1, batch * (negatives + 1)
    rooms, size = room[0], 0
    for row in range(batch):
        for number in range(negatives):
            if usable[row, number] and not _is_alone(marks, ids[row, number]):
                rooms[0, 0, size], rooms[0, 1, size] = ids[row, number], row * slots + number
                size += 1
        if not _is_alone(marks, ends[0][row]):
            rooms[0, 0, size], rooms[0, 1, size] = ends[0][row], row * slots + negatives
            size += 1
    for row in range(batch):  # after all slots, and so behind an entity's pairs
        rooms[0, 0, size], rooms[0, 1, size] = ends[1][row], all_slots + row
        size += 1
    now = _sorted(size, num_entities, room)
    offsets, places = pairs
    touched, row_offsets, order = groups
    count = pair = known = 0
    for place in range(size):
        entity, slot = rooms[now, 0, place], rooms[now, 1, place]
        if place == 0 or entity != touched[count - 1]:
            touched[count], offsets[count], row_offsets[count] = entity, pair, known
            count += 1
        if slot < all_slots:
            places[0, pair], places[1, pair] = slot // slots, slot
            pair += 1
        else:
            order[known] = slot - all_slots
            known += 1
    offsets[count], row_offsets[count] = pair, known
    return count


@compiled()
def _equal_parts(offsets: Array, count: int, parts: int) -> Array:
    """(parts + 1,) ranks that cut the pairs of so many entities into about equal parts."""
    cuts = np.zeros(parts + 1, dtype=np.int64)
    for part in range(1, parts):
        cuts[part] = np.searchsorted(offsets[:count], offsets[count] * part // parts)
    cuts[parts] = count
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


def pair_gaps(entities: Array, points: Array, touched: Array, pairs: tuple[Array, Array], kind: int) -> Array:
    """(batch · (negatives + 1),) the gap of each pair, by slot; unusable slots hold anything.

    touched: (touched,) ids; pairs: as for `sort_pairs`
    """
    gaps = np.empty(pairs[1].shape[1], dtype=np.float32)
    cuts = _equal_parts(pairs[0], len(touched), TASKS)
    run_tasks(_pair_gaps, TASKS, gaps.size * points.shape[1], cuts, entities, points, touched, pairs, kind, gaps)
    return gaps


@compiled()
def _pair_gaps(
    board: Array,
    cuts: Array,
    entities: Array,
    points: Array,
    touched: Array,
    pairs: tuple[Array, Array],
    kind: int,
    gaps: Array,
) -> None:
    task = next_task(board, 0)
    while task >= 0:
        _gaps_of(cuts[task], cuts[task + 1], entities, points, touched, pairs, kind, gaps)
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _gaps_of(
    first: int,
    last: int,
    entities: Array,
    points: Array,
    touched: Array,
    pairs: tuple[Array, Array],
    kind: int,
    gaps: Array,
) -> None:
    """The gaps of the pairs of some ranks."""
    offsets, places = pairs
    for rank in range(first, last):
        if rank + AHEAD < last:
            prefetch_row(entities, touched[rank + AHEAD])
        for pair in range(offsets[rank], offsets[rank + 1]):
            total = slice_gap(points, places[0, pair], entities, touched[rank], kind, 0, -1)
            gaps[places[1, pair]] = np.sqrt(total) if kind == EUCLIDEAN else total


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


@compiled()
def _fast_row_loss(
    gaps: Array, usable: Array, share: Any, settings: tuple[float, float], kind: int, slopes: Array, room: Array
) -> Any:
    """`_row_loss` by vector instructions, six times as fast. Its last bits differ: whole tables are not moved by it.

    gaps: 0 where a negative is not usable; room: (negatives,)
    """
    one, zero, gamma, alpha = np.float32(1), np.float32(0), np.float32(settings[0]), np.float32(settings[1])
    negatives = len(usable)
    nearest = np.float32(np.inf)
    for number in range(negatives):
        if usable[number]:
            nearest = min(nearest, gaps[number])
    for number in range(negatives):
        weight = exponential(alpha * (nearest - gaps[number]))
        slopes[number] = weight if usable[number] else zero
    total = _total(slopes[:negatives])
    to_one = one / total if total > zero else zero
    for number in range(negatives):
        probability, beyond = slopes[number] * to_one, gaps[number] - gamma
        small = exponential(-abs(beyond))
        room[number] = probability * (max(-beyond, zero) + log_one_plus(small))
        slopes[number] = -share * probability * (small if beyond > zero else one) / (one + small)
    beyond = gaps[negatives] - gamma
    small = exponential(-abs(beyond))
    slopes[negatives] = share * (one if beyond > zero else small) / (one + small)
    if kind == EUCLIDEAN:
        for number in range(negatives + 1):
            slopes[number] = slopes[number] / gaps[number] if gaps[number] > zero else zero
    return share * (_total(room[:negatives]) + max(beyond, zero) + log_one_plus(small))


@compiled(leaf=True, sums=True)
def _total(numbers: Array) -> Any:
    total = np.float32(0)
    for place in range(len(numbers)):
        total += numbers[place]
    return total


# Backward.


@compiled(leaf=True)
def _ask_for(tables: tuple[Array, Array, Array], row: int) -> None:
    """Ask memory for a row of a table, and for what the optimiser keeps of it."""
    for table in tables:
        prefetch_row(table, row)


@compiled(leaf=True)
def _towards(slope: Any, x: Any, y: Any) -> Any:
    """slope · sign(x - y), as two choices: these become vector instructions, one within the other would not."""
    zero = np.float32(0)
    return (slope if x > y else zero) - (slope if x < y else zero)


@compiled(leaf=True)
def _add_gradient(point: Array, vector: Array, slope: Any, kind: int, own: Array, rest: Array) -> None:
    """Add slope · d gap(point, vector) / d point to `rest`, the point's gradient, and take it from `own`."""
    if kind == ABSOLUTE:
        for k in range(len(point)):
            gradient = _towards(slope, point[k], vector[k])
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
    x, y, s, t = points[rows[0]], points[rows[1]], slopes[0], slopes[1]
    first, second = rest[rows[0]], rest[rows[1]]
    if kind == ABSOLUTE:
        for k in range(len(x)):
            a, b = _towards(s, x[k], vector[k]), _towards(t, y[k], vector[k])
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
    vector: Array,
    points: Array,
    first: int,
    last: int,
    places: Array,
    slopes: Array,
    kind: int,
    own: Array,
    rest: Array,
) -> None:
    """Set the gradient of one entity, `own`; add to those of its pairs' points, `rest` (batch, entity_width)."""
    zero = np.float32(0)
    for k in range(len(own)):
        own[k] = zero
    pair = first
    while pair < last:
        row, slope = places[0, pair], slopes[places[1, pair]]
        if pair + 1 < last and places[0, pair + 1] != row:
            rows, both = (row, places[0, pair + 1]), (slope, slopes[places[1, pair + 1]])
            if both[0] != zero or both[1] != zero:
                _add_two_gradients(points, rows, vector, both, kind, own, rest)
            pair += 2
        else:
            if slope != zero:
                _add_gradient(points[row], vector, slope, kind, own, rest[row])
            pair += 1


def pair_gradients(
    entities: Array, points: Array, touched: Array, pairs: tuple[Array, Array], slopes: Array, kind: int
) -> tuple[Array, Array]:
    """Gradients of the pairs' entities, (touched, entity_width) by rank, and of the points, (batch, entity_width).

    touched: (touched,) ids; pairs: as for `sort_pairs`; slopes: by slot, from row_losses
    """
    own, rest = np.empty((len(touched), points.shape[1]), np.float32), np.empty((PARTS, *points.shape), np.float32)
    cuts, groups = _equal_parts(pairs[0], len(touched), PARTS), (touched, np.zeros_like(pairs[0]), touched)
    run_tasks(
        _pair_gradients, PARTS, slopes.size * points.shape[1], cuts, entities, points, pairs, groups, slopes, kind,
        (own, rest),
    )  # fmt: skip
    return own, rest.sum(axis=0)


@compiled()
def _pair_gradients(
    board: Array,
    cuts: Array,
    entities: Array,
    points: Array,
    pairs: tuple[Array, Array],
    groups: tuple[Array, Array, Array],
    slopes: Array,
    kind: int,
    out: tuple[Array, Array],
) -> None:
    part, how = next_task(board, 0), (kind, WHOLE_ADAM, (0.0, 0.0, 0.0))
    while part >= 0:
        tables, part_out = (entities, entities, entities), (out[0], out[1][part])
        _gradients_of(part, cuts, tables, points, pairs, groups, slopes, how, part_out)
        task_done(board, 0)
        part = next_task(board, 0)
    wait_for_tasks(board, 0)


@compiled()
def _gradients_of(
    part: int,
    cuts: Array,
    tables: tuple[Array, Array, Array],
    points: Array,
    pairs: tuple[Array, Array],
    groups: tuple[Array, Array, Array],
    slopes: Array,
    how: tuple[int, int, tuple[float, float, float]],
    out: tuple[Array, Array],
) -> None:
    """The gradients of one part's pairs, and the update of touched entities that are complete with it.

    tables: the entities and what the optimiser keeps of them
    how: the kind of gap, how parameters are moved, and the factors of `_update_row`
    out: own, and rest: (batch, entity_width) this part's. Where whole tables are moved, own has a row for each rank;
        else for entities that get more from rows, at the place of the first one, and one more for each part
    """
    entities, (offsets, places), (touched, row_offsets, _) = tables[0], pairs, groups
    kind, way, factors = how
    own, rest = out
    rest[:] = np.float32(0)
    for rank in range(cuts[part], cuts[part + 1]):
        if rank + AHEAD < cuts[part + 1]:
            if way == WHOLE_ADAM:
                prefetch_row(entities, touched[rank + AHEAD])
            else:
                _ask_for(tables, touched[rank + AHEAD])
        first, last, entity = offsets[rank], offsets[rank + 1], touched[rank]
        if first == last:
            continue
        is_complete = row_offsets[rank] == row_offsets[rank + 1]
        place = rank if way == WHOLE_ADAM else (len(own) - PARTS + part if is_complete else row_offsets[rank])
        _add_entity_gradients(entities[entity], points, first, last, places, slopes, kind, own[place], rest)
        if is_complete and way != WHOLE_ADAM:
            _update_row(way, entities[entity], tables[1][entity], tables[2][entity], own[place], factors)


@compiled()
def _settle_rows(
    first: int,
    last: int,
    batch: tuple[Array, Array, Array],
    drawn: tuple[Array, Array, Array],
    tables: tuple[Array, Array, Array],
    forward: tuple[Array, Array, Array],
    settings: tuple[float, float],
    how: tuple[int, int, tuple[float, float, float]],
    out: tuple[Array, Array],
) -> None:
    """Gaps and losses of some rows, and for entities that stand alone the gradients and the update as well.

    So most rows of a large table come from memory once, and go back once.

    batch: (batch,) answers, shares, and losses, out; drawn: ids, usable and marks
    forward: points, and out gaps and slopes; tables, how: as for `_gradients_of`
    out: room for an entity's gradient; (batch, entity_width) what those that stand alone add to the points' gradients
    """
    answers, share, losses = batch
    ids, usable, marks = drawn
    points, gaps, slopes = forward
    entities, (kind, way, factors) = tables[0], how
    own, rest = out
    zero, negatives = np.float32(0), ids.shape[1]
    slots, room = negatives + 1, np.empty(negatives, dtype=np.float32)
    for number in range(negatives):
        prefetch_row(entities, ids[first, number])
    for row in range(first, last):
        prefetch_row(entities, answers[row])
        base = row * slots
        for number in range(slots):
            total = zero
            if number == negatives or usable[row, number]:
                entity = ids[row, number] if number < negatives else answers[row]
                prefetch_row(tables[1], entity)
                prefetch_row(tables[2], entity)
                total = slice_gap(points, row, entities, entity, kind, 0, -1)
            gaps[base + number] = np.sqrt(total) if kind == EUCLIDEAN else total
        own_slots = slice(base, base + slots)
        losses[row] = _fast_row_loss(gaps[own_slots], usable[row], share[row], settings, kind, slopes[own_slots], room)
        for k in range(rest.shape[1]):
            rest[row, k] = zero
        for number in range(slots):
            if row + 1 < last and number < negatives:
                prefetch_row(entities, ids[row + 1, number])
            entity = ids[row, number] if number < negatives else answers[row]
            if (number < negatives and not usable[row, number]) or not _is_alone(marks, entity):
                continue
            for k in range(len(own)):
                own[k] = zero
            _add_gradient(points[row], entities[entity], slopes[base + number], kind, own, rest[row])
            _update_row(way, entities[entity], tables[1][entity], tables[2][entity], own, factors)


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


# The update.


@compiled()
def _update_rows(
    task: int,
    way: int,
    tables: tuple[Array, Array, Array],
    own: tuple[Array, Array],
    count: int,
    groups: tuple[Array, Array, Array],
    rows: Array,
    factors: tuple[float, float, float],
    scratch: tuple[Array, Array],
) -> None:
    """Move the rows of one of TASKS parts of a table: all of them, or the touched ones that are not complete yet.

    tables: the parameters, and what the optimiser keeps of them
    own: gradients as `_gradients_of` leaves them, and where the pairs of each rank begin; a rank without has none
    count, groups: how many ids are touched, and their rows, which add to their gradients
    factors: as for `_update_row`; scratch: zeros and room for a sum, both at least as wide as the table
    """
    size, width = tables[0].shape
    touched, offsets, order = groups
    none, total = scratch[0][:width], scratch[1][:width]
    if way == WHOLE_ADAM:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        rank = _first_from(touched, 0, count, first)
    else:
        first, last = count * task // TASKS, count * (task + 1) // TASKS
        rank = first
    for number in range(first, last):
        if way == WHOLE_ADAM:
            row, is_touched = number, rank < count and touched[rank] == number
        else:
            _ask_for(tables, touched[min(number + AHEAD, last - 1)])
            row, rank, is_touched = touched[number], number, True
            if offsets[rank] == offsets[rank + 1]:
                continue
        gradient = none
        if is_touched:
            if own[1][rank] < own[1][rank + 1]:
                gradient = own[0][rank if way == WHOLE_ADAM else offsets[rank]]
            if offsets[rank] < offsets[rank + 1]:
                for k in range(width):
                    total[k] = gradient[k]
                for place in range(offsets[rank], offsets[rank + 1]):
                    for k in range(width):
                        total[k] += rows[order[place], k]
                gradient = total
            if way == WHOLE_ADAM:
                rank += 1
        _update_row(way, tables[0][row], tables[1][row], tables[2][row], gradient, factors)


@compiled(leaf=True)
def _update_row(
    way: int, parameters: Array, first: Array, second: Array, gradient: Array, factors: tuple[float, float, float]
) -> None:
    """Move a row in place; factors: 2 · l2, and for Adam rate / (1 - β₁ᵗ) and 1 / (1 - β₂ᵗ), for Adagrad its rate"""
    if way != TOUCHED_ADAGRAD:
        _adam_row(parameters, first, second, gradient, factors)
        return
    decay, epsilon = np.float32(factors[0]), np.float32(adagrad.EPSILON)
    first[0] += _mean_square(parameters, gradient, decay)
    rate = np.float32(factors[1]) / (np.sqrt(first[0]) + epsilon)
    for k in range(len(parameters)):
        parameters[k] -= rate * (gradient[k] + decay * parameters[k])


@compiled(leaf=True, sums=True)
def _mean_square(parameters: Array, gradient: Array, decay: Any) -> Any:
    """The mean of squared gradients, those of the L2 term included."""
    total = np.float32(0)
    for k in range(len(gradient)):
        value = gradient[k] + decay * parameters[k]
        total += value * value
    return total / np.float32(len(gradient))


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
# those of known ends and relations; the update of entities, then of relations.
PHASES = (TASKS, 2, TASKS, TASKS, PARTS, TASKS, 2 * TASKS)
# Where only touched rows are moved, gaps and losses go with the order, by row, and with them all of what stands alone.
TOUCHED_PHASES = (TASKS, 2 + TASKS, 0, 0, PARTS, TASKS, 2 * TASKS)


@compiled()
def take_step(  # noqa: PLR0915 (phase after phase)
    board: Array,
    batch: tuple[Array, Array, Array, Array, Array],
    draws: tuple[Any, tuple[Array, Array, int], int, Array, Array, Array],
    order: tuple[tuple[Array, Array], tuple[Array, Array], tuple[Array, Array], tuple[Array, Array], Array],
    forward: tuple[Array, Array, Array, Array],
    settings: tuple[float, float, int, float, float],
    gradients: tuple[Array, Array, Array, Array],
    tables: tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]],
    update: tuple[int, tuple[Array, Array, Array], tuple[Array, Array, Array], Array, tuple[float, float, float]],
) -> None:
    """A training step, by all threads that call it with one board.

    batch: (batch,) each: the known ends, the answers, the relations, the shares w / Σw / 2, and the losses, out
    draws: start of the random stream, answers, shared, and out ids and usable, all as for `draw_negatives`; and marks,
        zeros before and after, or `no_marks` where whole tables are moved
    order: rooms to sort pairs and to sort relations in, out pairs as for `sort_pairs`, room for the cuts of gaps and of
        parts, and (2,) out how many entities and relations are touched
    forward: turns, and out points, gaps, slopes
    settings: γ, α, the kind of gap, the sign of `_solve_rows`, the derivative of a translation or phase by parameter
    gradients: out own, rest of each part (and last, where only touched rows are moved, of what stands alone), and those
        of known ends and of relations by row
    tables: those of entities and of relations with what the optimiser keeps of them
    update: how parameters are moved, out rows grouped by entity and by relation, zeros as wide as a row, and the
        factors of `_update_row`
    """
    source, answer, relation, share, losses = batch
    start, answers, shared, ids, usable, marks = draws
    room, relation_room, pairs, (gap_cuts, part_cuts), counts = order
    turns, points, gaps, slopes = forward
    margin, temperature, kind, sign, slope = settings
    own, rest, source_gradient, relation_gradient = gradients
    way, groups, relation_groups, zeros, factors = update
    entities = tables[0][0]
    size = len(source)
    scratch = (zeros, np.empty_like(zeros))
    no_pairs = np.zeros(size + 1, dtype=np.int32)
    task = next_task(board, 0)
    while task >= 0:
        first, last = size * task // TASKS, size * (task + 1) // TASKS
        _draw_rows(first, last, start, source, relation, answers, shared, ids, usable)
        _solve_rows(first, last, entities, source, relation, turns, sign, points)
        if way != WHOLE_ADAM:
            _mark_rows(first, last, ids, usable, (answer, source), marks)
        task_done(board, 0)
        task = next_task(board, 0)
    wait_for_tasks(board, 0)
    task = next_task(board, 1)
    while task >= 0:
        if task == 0:
            counts[0] = sort_pairs(ids, usable, marks, (answer, source), len(entities), room, pairs, groups)
            gap_cuts[:] = _equal_parts(pairs[0], counts[0], TASKS)
            part_cuts[:] = _equal_parts(pairs[0], counts[0], PARTS)
        elif task == 1:
            counts[1] = group_rows(relation, len(tables[1][0]), relation_room, relation_groups)
        else:
            first, last = size * (task - 2) // TASKS, size * (task - 1) // TASKS
            _settle_rows(
                first, last, (answer, share, losses), (ids, usable, marks), tables[0], (points, gaps, slopes),
                (margin, temperature), (kind, way, factors), (scratch[1][: points.shape[1]], rest[PARTS]),
            )  # fmt: skip
        task_done(board, 1)
        task = next_task(board, 1)
    wait_for_tasks(board, 1)
    task = next_task(board, 2)
    while task >= 0:
        _gaps_of(gap_cuts[task], gap_cuts[task + 1], entities, points, groups[0], pairs, kind, gaps)
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
        how, out = (kind, way, factors), (own, rest[part])
        _gradients_of(part, part_cuts, tables[0], points, pairs, groups, slopes, how, out)
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
            gradient = (own, pairs[0])
            _update_rows(task, way, tables[0], gradient, counts[0], groups, source_gradient, factors, scratch)
            if way != WHOLE_ADAM:
                marks[len(marks) * task // TASKS : len(marks) * (task + 1) // TASKS] = 0
        else:
            task, gradient = task - TASKS, (own, no_pairs)
            _update_rows(
                task, way, tables[1], gradient, counts[1], relation_groups, relation_gradient, factors, scratch
            )
        task_done(board, 6)
        task = next_task(board, 6)
    wait_for_tasks(board, 6)
