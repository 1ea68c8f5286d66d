"""Paths of two steps over the rows of the index: sampled ones to count rules, and those that rules speak for.

The index comes as in `cpu_company`. Directed relations are numbers as `link_code` has them. Whatever a damaged index
has, nothing outside the arrays is read.
"""

from __future__ import annotations

import numpy as np

from ookg.kernels.compiled_or_plain import compiled
from ookg.kernels.cpu_company import is_in, rows_of_link
from ookg.types import Array


@compiled(leaf=True)
def _rows(offsets: Array, link: Array, entity: int) -> tuple[int, int]:
    """All rows of an entity."""
    if entity < 0 or entity >= len(offsets) - 1:
        return 0, 0
    start, stop = max(offsets[entity], 0), min(offsets[entity + 1], len(link))
    return start, max(start, stop)


@compiled(leaf=True)
def _code(link: int, num_relations: int) -> int:
    """A link of the index as a directed relation."""
    return 2 * link if link < num_relations else 2 * (link - num_relations) + 1


@compiled(leaf=True)
def _are_different(one: int, other: int, third: int) -> bool:
    return one != other and one != third and other != third  # noqa: PLR1714 - Numba has no `in` for these


@compiled()
def _doubled(rows: Array) -> Array:
    """Room for twice as many rows."""
    larger = np.empty((2 * len(rows), rows.shape[1]), dtype=np.int64)
    larger[: len(rows)] = rows
    return larger


@compiled()
def sampled_paths(
    index: tuple[Array, Array, Array],
    num_relations: int,
    entities: Array,
    wanted: int,
    most: tuple[int, int],
    pairs: Array,
) -> Array:
    """(paths, 3) paths from some entities: the place of the entity, the two steps, where the path ends.

    The steps are one number, the first · 2 · num_relations + the second.

    wanted: the link whose right answers are looked for; most: how many links of each entity are gone over, and how many
        of each one between; of more, so many at even distances
    pairs: only paths over these steps, ascending; if there are none, only those that end rightly
    """
    offsets, link, other = index
    paths, size = np.empty((256, 3), dtype=np.int64), 0
    for place in range(len(entities)):
        own = entities[place]
        first, last = rows_of_link(offsets, link, own, wanted)
        start, stop = _rows(offsets, link, own)
        taken = min(stop - start, most[0])
        for number in range(taken):
            row = start + (number * (stop - start)) // taken
            between = other[row]
            begin, end = _rows(offsets, link, between)
            steps = min(end - begin, most[1])
            for step in range(steps):
                second = begin + (step * (end - begin)) // steps
                answer = other[second]
                if not _are_different(own, between, answer):
                    continue
                pair = 2 * num_relations * _code(link[row], num_relations) + _code(link[second], num_relations)
                if len(pairs):
                    if not is_in(pairs, 0, len(pairs), pair):
                        continue
                elif not is_in(other, first, last, answer):
                    continue
                if size == len(paths):
                    paths = _doubled(paths)
                paths[size, 0], paths[size, 1], paths[size, 2] = place, pair, answer
                size += 1
    return paths[:size]


@compiled(leaf=True)
def _second_steps(
    index: tuple[Array, Array, Array], entity: int, given: tuple[Array, Array], first: int, last: int, chosen: Array
) -> int:
    """The links of an entity, known and given, as if they were one list; of too many, some at even distances.

    given: links and others, sorted as the index has them; the entity's are those from first to before last
    chosen: (2, most) is written: links and others. Returns how many.
    """
    offsets, link, other = index
    given_link, given_other = given
    start, stop = _rows(offsets, link, entity)
    size = stop - start
    for added in range(first, last):
        begin, end = rows_of_link(offsets, link, entity, given_link[added])
        if not is_in(other, begin, end, given_other[added]):
            size += 1
    taken: int = min(size, chosen.shape[1])
    if first == last:
        for number in range(taken):
            row = start + (number * size) // taken
            chosen[0, number], chosen[1, number] = link[row], other[row]
        return taken
    row, added, seen, number = start, first, 0, 0
    while number < taken and (row < stop or added < last):
        comes_first = added < last and (
            row == stop
            or given_link[added] < link[row]
            or (given_link[added] == link[row] and given_other[added] < other[row])
        )
        if seen == (number * size) // taken:
            chosen[0, number] = given_link[added] if comes_first else link[row]
            chosen[1, number] = given_other[added] if comes_first else other[row]
            number += 1
        seen += 1
        if comes_first:
            added += 1
        else:
            if added < last and given_link[added] == link[row] and given_other[added] == other[row]:
                added += 1
            row += 1
    return number


@compiled()
def rule_paths(
    index: tuple[Array, Array, Array],
    num_relations: int,
    own: int,
    links: tuple[Array, Array],
    given: tuple[Array, Array, Array],
    rules: tuple[Array, Array],
    most: int,
) -> Array:
    """(paths, 3) the paths from an entity that a rule speaks about: its link, the rule, where the path ends.

    own: the entity; links: its directed relations, ascending, and the entities at the other ends
    given: where the given links of each of these start, none if nothing is given; their links and others, sorted as the
        index has them
    rules: rules over directed relation n as the first step are starts[n] to starts[n + 1]; the second step of each
    most: how many links of an entity between are gone over; of more, so many at even distances
    """
    codes, ends = links
    given_starts, given_link, given_other = given
    starts, second = rules
    rule_of = np.full(max(len(starts) - 1, 2 * num_relations), -1, dtype=np.int64)
    chosen = np.empty((2, most), dtype=np.int64)
    paths, size, filled = np.empty((256, 3), dtype=np.int64), 0, -1
    for place in range(len(codes)):
        code, between = codes[place], ends[place]
        if code >= len(starts) - 1 or starts[code] == starts[code + 1]:
            continue
        if code != filled:
            if filled >= 0:
                for rule in range(starts[filled], starts[filled + 1]):
                    rule_of[second[rule]] = -1
            for rule in range(starts[code], starts[code + 1]):
                rule_of[second[rule]] = rule
            filled = code
        first, last = 0, 0
        if len(given_starts):
            first, last = given_starts[place], given_starts[place + 1]
        taken = _second_steps(index, between, (given_link, given_other), first, last, chosen)
        for step in range(taken):
            step_code, answer = _code(chosen[0, step], num_relations), chosen[1, step]
            if step_code < 0 or step_code >= len(rule_of) or rule_of[step_code] < 0:
                continue
            if not _are_different(own, between, answer):
                continue
            if step and chosen[0, step] == chosen[0, step - 1] and answer == chosen[1, step - 1]:
                continue  # a triple that is stated twice
            if size == len(paths):
                paths = _doubled(paths)
            paths[size, 0], paths[size, 1], paths[size, 2] = place, rule_of[step_code], answer
            size += 1
    return paths[:size]
