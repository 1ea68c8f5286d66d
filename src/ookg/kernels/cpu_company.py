"""Whom an entity shares its links with, and what these have for a relation: counted over the rows of the index.

Arrays of the index come as `GraphIndex` has them: `offsets`, `link` and `other`. Given triples come beside them as
lists: list n has the places starts[n] to starts[n + 1]; no starts at all: nothing is given. Whatever a damaged index
has, nothing outside the arrays is read.
"""

from __future__ import annotations

import numpy as np

from ookg.kernels.compiled_or_plain import compiled
from ookg.types import Array


@compiled(leaf=True)
def first_at_least(values: Array, start: int, stop: int, wanted: int) -> int:
    """The first place from start on, of ascending values, that is not below the wanted one; stop if all are."""
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(leaf=True)
def rows_of_link(offsets: Array, link: Array, entity: int, wanted: int) -> tuple[int, int]:
    """The rows of an entity over one link, from the first to before the last; none of what is not there."""
    if wanted < 0 or entity < 0 or entity >= len(offsets) - 1:
        return 0, 0
    start, stop = max(offsets[entity], 0), min(offsets[entity + 1], len(link))
    if start >= stop:
        return 0, 0
    first = first_at_least(link, start, stop, wanted)
    return first, first_at_least(link, first, stop, wanted + 1)


@compiled(leaf=True)
def _around(values: Array, start: int, stop: int, wanted: int) -> tuple[int, int]:
    """The places of one value among ascending ones, from the first to before the last."""
    first = first_at_least(values, start, stop, wanted)
    return first, first_at_least(values, first, stop, wanted + 1)


@compiled(leaf=True)
def is_in(values: Array, start: int, stop: int, wanted: int) -> bool:
    """Whether ascending values have one, from start to before stop."""
    place = first_at_least(values, start, stop, wanted)
    return bool(place < stop and values[place] == wanted)


@compiled(leaf=True)
def _merge(rows: tuple[Array, int, int], added: tuple[Array, int, int], own: int, size: int, chosen: Array) -> None:
    """Two ascending lists as one, without an entity; some at even distances of its `size` are chosen."""
    known, row, last = rows
    given, place, end = added
    seen, number = 0, 0
    while number < len(chosen) and (row < last or place < end):
        if place < end and (row == last or given[place] < known[row]):
            entity = given[place]
        else:
            entity = known[row]
            row += 1
        while place < end and given[place] == entity:
            place += 1
        if entity == own:
            continue
        if seen == (number * size) // len(chosen):
            chosen[number] = entity
            number += 1
        seen += 1


@compiled()
def company_sizes(
    index: tuple[Array, Array, Array], own: int, ends: Array, wanted: Array, given: tuple[Array, Array]
) -> Array:
    """For each link of an entity how many others have it too, (links,). The arguments are those of `companions`."""
    offsets, link, other = index
    given_starts, given_others = given
    sizes = np.zeros(len(ends), dtype=np.int64)
    for place in range(len(ends)):
        first, last = rows_of_link(offsets, link, ends[place], wanted[place])
        before, after = _around(other, first, last, own)
        sizes[place] = last - first - (after - before)
        if len(given_starts):
            for added in range(given_starts[place], given_starts[place + 1]):
                entity = given_others[added]
                if entity != own and not is_in(other, first, last, entity):
                    sizes[place] += 1
    return sizes


@compiled()
def companions(
    index: tuple[Array, Array, Array],
    own: int,
    ends: Array,
    wanted: Array,
    given: tuple[Array, Array],
    most: int,
) -> tuple[Array, Array]:
    """For each link of an entity those that have it too: (links + 1,) where each link's start, and all of them.

    They are ascending, without the entity itself; of more than `most`, so many at even distances.

    own: the entity; ends: (links,) the entities at the other ends; wanted: (links,) the link back from there
    given: lists of those that given triples add, by link, ascending
    """
    offsets, link, other = index
    given_starts, given_others = given
    starts = np.zeros(len(ends) + 1, dtype=np.int64)
    sizes = company_sizes(index, own, ends, wanted, given)
    for place in range(len(ends)):
        starts[place + 1] = starts[place] + min(sizes[place], most)
    members = np.zeros(starts[len(ends)], dtype=np.int64)
    for place in range(len(ends)):
        first, last = rows_of_link(offsets, link, ends[place], wanted[place])
        size, taken = sizes[place], starts[place + 1] - starts[place]
        if not len(given_starts) or given_starts[place] == given_starts[place + 1]:
            before, after = _around(other, first, last, own)
            for number in range(taken):
                row = first + (number * size) // taken
                members[starts[place] + number] = other[row if row < before else row + after - before]
            continue
        lists = given_others, given_starts[place], given_starts[place + 1]
        _merge((other, first, last), lists, own, size, members[starts[place] : starts[place + 1]])
    return starts, members


@compiled(leaf=True)
def _count_one(candidates: Array, entity: int, count: Array, touched: Array, num_touched: int) -> int:
    """Count an answer; returns how many different ones have been counted."""
    at = first_at_least(candidates, 0, len(candidates), entity)
    if at == len(candidates) or candidates[at] != entity:
        return num_touched
    count[at] += 1
    if count[at] == 1:
        touched[num_touched] = at
        return num_touched + 1
    return num_touched


@compiled()
def company_shares(
    index: tuple[Array, Array, Array],
    wanted: int,
    company: tuple[Array, Array],
    given: tuple[Array, Array],
    answers: tuple[Array, Array],
    itself: Array,
    smoothing: float,
    counted: tuple[Array, Array, Array],
) -> None:
    """What those who share a link have for one relation.

    wanted: the link of the asked relation; company: those who share each link, as `companions` has them
    given: lists of the answers that given triples add for each of them
    answers: all that are counted, ascending, and the share p of each; itself: (links,) the place of the answer that the
        link states itself, and so must not speak for, or -1; smoothing: m
    counted: what is written: (answers,) 0 before, then the largest (n + m·p) / (N + m) over the links that speak for
        it; (answers, 2) the link that has it, and its n, how many of those who share that link have the answer;
        (links,) N, how many of those who share each link have any answer
    """
    offsets, link, other = index
    starts, members = company
    given_starts, given_others = given
    candidates, shares = answers
    best, speaker, having = counted
    count, touched = np.zeros(len(candidates), dtype=np.int64), np.empty(len(candidates), dtype=np.int64)
    for place in range(len(starts) - 1):
        num_touched, num_having = 0, 0
        for number in range(starts[place], starts[place + 1]):
            if number > starts[place] and members[number] == members[number - 1]:  # a triple that is stated twice
                continue
            first, last = rows_of_link(offsets, link, members[number], wanted)
            added, end = 0, 0
            if len(given_starts):
                added, end = given_starts[number], given_starts[number + 1]
            if first < last or added < end:
                num_having += 1
            for row in range(first, last):
                if row == first or other[row] != other[row - 1]:
                    num_touched = _count_one(candidates, other[row], count, touched, num_touched)
            for row in range(added, end):
                if not is_in(other, first, last, given_others[row]):
                    num_touched = _count_one(candidates, given_others[row], count, touched, num_touched)
        having[place] = num_having
        for number in range(num_touched):
            at = touched[number]
            share = (count[at] + smoothing * shares[at]) / (num_having + smoothing)
            if share > best[at] and at != itself[place]:
                best[at], speaker[at, 0], speaker[at, 1] = share, place, count[at]
            count[at] = 0
