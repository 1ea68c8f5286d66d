"""The links of many entities at once, in a known graph with given triples beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.graph.grown import GrownGraph
from ookg.graph.index import GraphIndex
from ookg.graph.statistics import GraphStatistics
from ookg.types import IntArray


@dataclass(frozen=True)
class LinkRows:
    """Links one after the other: owner[n] is the place of link n's entity among those asked for.

    link: directed relations as in `link_code`; other: the entities at the other ends
    """

    owner: IntArray
    link: IntArray
    other: IntArray

    def select(self, rows: IntArray | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> LinkRows:
        """Some of the links."""
        return LinkRows(self.owner[rows], self.link[rows], self.other[rows])


def link_rows(graph: GrownGraph, entities: IntArray, most: int | None = None) -> LinkRows:
    """The links of some entities: for each the known ones, and at the end the given ones.

    most: of more known links of an entity, so many at even distances
    """
    rows, owner = graph.index.rows_of(entities, most)
    links = LinkRows(owner, _codes(graph.index, rows), graph.index.others(rows).astype(np.int64))
    place, sides = graph.given_sides_of(entities)
    if not len(place):
        return links
    return LinkRows(
        np.concatenate([owner, place]),
        np.concatenate([links.link, sides[:, 0]]),
        np.concatenate([links.other, sides[:, 1]]),
    )


def link_counts(graph: GrownGraph, entities: IntArray) -> IntArray:
    """(entities,) how many links each of them has."""
    known = (entities >= 0) & (entities < graph.index.num_entities)
    row, offsets = np.where(known, entities, 0), graph.index.offsets
    counts = np.where(known, offsets[row + 1] - offsets[row], 0)
    given: IntArray = np.bincount(graph.given_sides_of(entities)[0], minlength=len(entities))
    return counts + given


def known_links(index: GraphIndex) -> LinkRows:
    """The links of all entities that an index has; owners are the entities themselves."""
    rows, owner = index.rows_of(np.arange(index.num_entities))
    return LinkRows(owner, _codes(index, rows), index.others(rows).astype(np.int64))


def all_triples(graph: GrownGraph) -> IntArray:
    """(triples, 3) the known triples, by head, and the given ones."""
    links = known_links(graph.index)
    out = links.select(links.link % 2 == 0)
    return np.concatenate([np.stack([out.owner, out.link // 2, out.other], axis=1), graph.all_given.triples])


def graph_alone(triples: IntArray, num_relations: int, index: GraphIndex | None = None) -> GrownGraph:
    """The graph of triples, (triples, 3), with nothing given and no statistics: for what only reads links.

    index: of the triples, if it is there already
    """
    if index is None:
        index = GraphIndex.of(triples, 1 + int(triples[:, [0, 2]].max(initial=0)), num_relations)
    return GrownGraph(index, GraphStatistics.count(np.empty((0, 3), dtype=np.int64), 0, 0), counts_pairs=False)


def _codes(index: GraphIndex, rows: IntArray) -> IntArray:
    link, size = index.links(rows).astype(np.int64), index.num_relations
    return np.where(link < size, 2 * link, 2 * (link - size) + 1)
