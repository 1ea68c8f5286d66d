"""Messages of a graph neural network for one question, over the rows of the index and given links beside them.

`index` is offsets, link and other as `GraphIndex` has them. `given` is the same for some entities alone: owners,
ascending; starts, where each owner's links begin; link and other. Links of both are numbers of the index, and each
entity's are in the same order, so that a sum over both is the same however a graph came to have its links.

What a question sees is `limits`: the asked entity, of which nothing is seen; how many relations the index has; and how
many of these count. Whatever a damaged index has, nothing outside the arrays is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.kernels.compiled_or_plain import compiled
from ookg.kernels.cpu_company import first_at_least
from ookg.types import Array


@compiled(leaf=True)
def _spans(index: tuple[Array, Array, Array], given: tuple[Array, Array, Array, Array], entity: int) -> Any:
    """Where the rows of an entity begin and end in the index, and in what is given."""
    offsets, link, _ = index
    owners, starts, _, _ = given
    row, last, place, end = 0, 0, 0, 0
    if 0 <= entity < len(offsets) - 1:
        row, last = max(offsets[entity], 0), min(offsets[entity + 1], len(link))
    if len(owners):
        owner = first_at_least(owners, 0, len(owners), entity)
        if owner < len(owners) and owners[owner] == entity:
            place, end = starts[owner], starts[owner + 1]
    return row, last, place, end


@compiled()
def _links(
    index: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
    entity: int,
    limits: tuple[int, int, int],
    room: Array,
) -> int:
    """Write the directed relations and other ends of an entity that a question sees, (links, 2); how many they are.

    room: (size, 2); of too many for it nothing is written, and what is returned is below 0: the size that it takes
    """
    _, link, other = index
    _, _, given_link, given_other = given
    own, relations, counting = limits
    row, last, place, end = _spans(index, given, entity)
    number: int = max(last - row, 0) + end - place
    if number > len(room):
        return -number
    number = 0
    while row < last or place < end:
        is_known = place >= end or (
            row < last
            and (link[row] < given_link[place] or (link[row] == given_link[place] and other[row] <= given_other[place]))
        )
        if is_known:
            one, far = np.int64(link[row]), np.int64(other[row])
            row += 1
        else:
            one, far = given_link[place], given_other[place]
            place += 1
        code = 2 * one if one < relations else 2 * (one - relations) + 1
        if far != own and far >= 0 and 0 <= code < 2 * counting:
            room[number, 0], room[number, 1] = code, far
            number += 1
    return number


@compiled()
def _seen(
    index: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
    entity: int,
    limits: tuple[int, int, int],
    room: Array,
) -> Any:
    """The same in as much room as it takes: that room, and how many links are in it."""
    number = _links(index, given, entity, limits, room)
    if number < 0:
        room = np.empty((-2 * number, 2), dtype=np.int64)
        number = _links(index, given, entity, limits, room)
    return room, number


@compiled()
def reach(
    index: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
    limits: tuple[int, int, int],
    neighbours: Array,
    place: Array,
    reached: Array,
) -> int:
    """List the neighbours and what is linked to them, each once, in `reached`; return how many they are.

    place: (entities,) -1 at first; then where each one is in that list
    """
    number = 0
    for entity in neighbours:
        place[entity], reached[number] = number, entity
        number += 1
    room = np.empty((64, 2), dtype=np.int64)
    for entity in neighbours:
        room, links = _seen(index, given, entity, limits, room)
        for n in range(links):
            far = room[n, 1]
            if far < len(place) and place[far] < 0:
                place[far], reached[number] = number, far
                number += 1
    return number


@compiled()
def send(
    index: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
    limits: tuple[int, int, int],
    neighbours: Array,
    weights: Array,
    place: Array,
    arrived: Array,
) -> None:
    """Add the message of each neighbour over each of its links to what has arrived, (reached, width).

    The first rows are what the neighbours start with, in their order. weights: (links, width)
    """
    begins = arrived[: len(neighbours)].copy()
    room = np.empty((64, 2), dtype=np.int64)
    width = arrived.shape[1]
    for number in range(len(neighbours)):
        room, links = _seen(index, given, neighbours[number], limits, room)
        for n in range(links):
            if room[n, 1] < len(place):
                carries, end = room[n, 0], place[room[n, 1]]
                for k in range(width):
                    arrived[end, k] += begins[number, k] * weights[carries, k]


@compiled()
def spread(
    index: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
    limits: tuple[int, int, int],
    entities: Array,
    degree: Array,
    is_near: Array,
) -> None:
    """Count the links of each entity, (entities,), and mark all at their other ends, (all entities,)."""
    room = np.empty((64, 2), dtype=np.int64)
    for number in range(len(entities)):
        room, links = _seen(index, given, entities[number], limits, room)
        degree[number] = links
        for n in range(links):
            if room[n, 1] < len(is_near):
                is_near[room[n, 1]] = True


@compiled()
def collect(
    index: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
    limits: tuple[int, int, int],
    answers: Array,
    place: Array,
    states: Array,
    weights: Array,
    arrived: Array,
    degree: Array,
) -> None:
    """Sum up what comes to each answer over its links, (answers, width), and count these, (answers,).

    states: (1 + reached, width) the last: of all that nothing has reached
    weights: (links, width) of links towards an answer
    """
    room = np.empty((64, 2), dtype=np.int64)
    width, nobody = arrived.shape[1], len(states) - 1
    for number in range(len(answers)):
        room, links = _seen(index, given, answers[number], limits, room)
        degree[number] = links
        for n in range(links):
            carries, far = room[n, 0] ^ 1, room[n, 1]
            source = place[far] if far < len(place) and place[far] >= 0 else nobody
            for k in range(width):
                arrived[number, k] += states[source, k] * weights[carries, k]
