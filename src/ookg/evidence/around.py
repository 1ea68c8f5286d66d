"""What is around an entity, as the compiled kernels read it: the rows of the index, and given triples as lists."""

from __future__ import annotations

import numpy as np

from ookg.errors import damaged_file
from ookg.graph.grown import GrownGraph
from ookg.graph.index import GraphIndex
from ookg.types import Array, IntArray

MOST_LINKS = 1000  # of an asked entity


def index_arrays(index: GraphIndex) -> tuple[Array, Array, Array]:
    """Offsets, links and others; plain arrays even where the index is mapped from a file."""
    return np.asarray(index.offsets), np.asarray(index.link), np.asarray(index.other)


def index_links(index: GraphIndex, codes: IntArray) -> IntArray:
    """Directed relations as the index numbers them; -1 for those that it does not have."""
    size = index.num_relations
    return np.where(codes < 2 * size, codes // 2 + (codes % 2) * size, -1)


def having(index: GraphIndex, code: int) -> tuple[IntArray, IntArray]:
    """The entities that have a directed relation, ascending, and how many links over it each has."""
    rows = np.flatnonzero(np.asarray(index.link) == index_links(index, np.array([code]))[0])
    owners = index.owners(rows)
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return owners[first], np.diff(first, append=len(owners))


def refuse_damage(index: GraphIndex, entities: IntArray) -> None:
    """Refuse an index with entities that cannot be; kernels read it without the checks that `GraphIndex` makes."""
    if len(entities) and int(entities.min()) < 0:
        raise damaged_file(index.source or "the index", f"entity {entities.min()}")


def distinct_links(entity: int, links: IntArray, others: IntArray) -> tuple[IntArray, IntArray]:
    """The links of an entity to others, each once, ascending; of very many some at even distances."""
    wide = 1 + int(others.max(initial=0))
    keys = np.unique((links * wide + others)[others != entity])
    keys = keys[even_places(len(keys), MOST_LINKS)]
    return keys // wide, keys % wide


def even_places(size: int, most: int) -> IntArray:
    """All places, or so many of them at even distances; always the same."""
    return np.arange(min(size, most)) * size // max(1, min(size, most))


def given_lists(graph: GrownGraph, entities: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """For each entity the others that given triples link it to by a directed relation, ascending.

    List n has the places starts[n] to starts[n + 1]; no starts if nothing is given.
    """
    place, sides = graph.given_sides_of(entities)
    fits = sides[:, 0] == codes[place]
    if not fits.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    starts = np.searchsorted(place[fits], np.arange(len(entities) + 1))
    return starts, np.ascontiguousarray(sides[fits, 1])
