"""What entities have in common with the answers that a question has already: added up over lists of entities."""

from __future__ import annotations

import math

import numpy as np

from ookg.kernels.compiled_or_plain import compiled
from ookg.types import Array

# What is known of an entity: whether it has the asked relation at all, whether it is an answer already, and whether it
# has the asked relation for that alone.
HAS, STATED, ONLY_STATED = 1, 2, 3
LEAST_PART = 1e-9  # below it is rounding


@compiled()
def likeness_sums(
    lists: tuple[Array, Array],
    sizes: tuple[int, int],
    smoothing: float,
    known: Array,
    found: tuple[Array, Array, Array],
    numbers: Array,
) -> Array:
    """Over the links that answers have, add the square of what each says to all who have it; return who they are.

    lists: (links + 1,) where the list of each link starts, and those who have it, ascending
    sizes: how many answers there are, and how many entities have the asked relation at all
    known: (entities,) as `HAS`, `STATED` and `ONLY_STATED` say, else 0
    found: what is written, (entities,) of 0 before: the sums, the largest single part and its link
    numbers: what is written, (links, 2): how many of those who have it are answers, and how many have the asked
        relation at all

    An answer is looked at as if it were none: without what it adds to the counts itself.
    """
    starts, members = lists
    sums, best, speaker = found
    answers, domain = sizes
    touched = np.empty(len(members), dtype=np.int64)
    num_touched = 0
    for link in range(len(starts) - 1):
        first, last = starts[link], starts[link + 1]
        count, number = 0, 0
        for place in range(first, last):
            if place > first and members[place] == members[place - 1]:  # a triple that is stated twice
                continue
            if 0 <= members[place] < len(known):
                count += known[members[place]] >= STATED
                number += known[members[place]] >= HAS
        numbers[link, 0], numbers[link, 1] = count, number
        usual = answers / domain
        usually = math.log((count + smoothing * usual) / (number + smoothing) / usual)
        for place in range(first, last):
            entity = members[place]
            if place > first and entity == members[place - 1]:
                continue
            if entity < 0 or entity >= len(known):
                continue
            part = usually
            if known[entity] >= STATED:
                if answers == 1:
                    continue
                gone = 1 if known[entity] == ONLY_STATED else 0
                share = (answers - 1) / max(domain - gone, 1)
                left = count - 1 + smoothing * share
                part = math.log(left / (number - gone + smoothing) / share)
            if part <= LEAST_PART:
                continue
            if sums[entity] == 0:
                touched[num_touched] = entity
                num_touched += 1
            sums[entity] += part * part
            if part > best[entity]:
                best[entity], speaker[entity] = part, link
    return touched[:num_touched]
