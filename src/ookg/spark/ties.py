"""Newcomers and new relations that triples tie together: their vectors are solved together, so they travel together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from scipy.sparse import csgraph

from ookg.graph.vocabulary import Vocabulary
from ookg.models.geometry import Geometry
from ookg.spark.labels import LabelIndex
from ookg.spark.links import SeenTriples
from ookg.types import IntArray

ENTITY, RELATION = "e", "r"  # what a node's name begins with


def ties_of(seen: SeenTriples, geometry: Geometry) -> Any:
    """What triples that are no links tie together, as a table: each node once, and one node of its piece.

    A node is a newcomer, or a new relation under a model that makes vectors for them. One that does not solve newcomers
    together has no use for their ties, but each of them is to be met in one place.
    """
    rows = np.flatnonzero(seen.is_tie)
    nodes = [
        _nodes(ENTITY, seen.head, seen.head_is_new, rows),
        _nodes(ENTITY, seen.tail, seen.tail_is_new, rows),
        _nodes(RELATION, seen.relation, seen.relation_is_new & geometry.makes_relations, rows),
    ]
    encoded = pa.concat_arrays(nodes).dictionary_encode()
    labels = encoded.dictionary
    codes = np.asarray(pc.fill_null(encoded.indices, -1), dtype=np.int64).reshape(3, len(rows))
    roots = _roots(np.concatenate([codes[[0, 1]], codes[[1, 2]], codes[[0, 2]]], axis=1), labels)
    return pa.table({"node": labels, "other": labels.take(pa.array(roots))})


def _nodes(kind: str, labels: Any, is_new: Any, rows: IntArray) -> Any:
    """The names of nodes, with gaps for what is none."""
    labels = labels.take(pa.array(rows)).cast(pa.string())
    names = pc.binary_join_element_wise(kind, labels, "")
    return pc.if_else(pa.array(is_new[rows]), names, pa.scalar(None, pa.string()))


def _roots(edges: IntArray, labels: Any) -> IntArray:
    """(labels,) for each node the first one of its piece. edges: (2, edges) nodes, -1 for none"""
    edges = edges[:, (edges >= 0).all(axis=0)]
    size = len(labels)
    graph = sparse.coo_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), shape=(size, size))
    piece = csgraph.connected_components(graph, directed=False)[1] if size else np.empty(0, dtype=np.int64)
    roots: IntArray = np.unique(piece, return_index=True)[1][piece]
    return roots


@dataclass(frozen=True, eq=False)
class Tied:
    """Newcomers and new relations by the pieces that triples tie together.

    entities, relations: Arrow arrays of labels; the pieces of each, as numbers
    """

    entities: Any
    entity_pieces: IntArray
    relations: Any
    relation_pieces: IntArray

    @classmethod
    def of(cls, ties: Any) -> Tied:
        """From what all parts of the triples tie together: a table of nodes, each with a node of its piece."""
        both = pa.chunked_array([*ties["node"].chunks, *ties["other"].chunks], pa.string())
        encoded = both.combine_chunks().dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        labels = encoded.dictionary
        edges = np.asarray(encoded.indices, dtype=np.int64).reshape(2, ties.num_rows)
        pieces = _roots(edges, labels)
        is_entity = np.asarray(pc.starts_with(labels, ENTITY)).astype(np.bool_)
        names = pc.utf8_slice_codeunits(labels, 1)
        return cls(
            names.filter(pa.array(is_entity)),
            pieces[is_entity],
            names.filter(pa.array(~is_entity)),
            pieces[~is_entity],
        )

    def __len__(self) -> int:
        return len(self.entities) + len(self.relations)

    @cached_property
    def _indexes(self) -> tuple[LabelIndex, LabelIndex]:
        return LabelIndex.of(Vocabulary.distinct(self.entities)), LabelIndex.of(Vocabulary.distinct(self.relations))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_indexes"}

    def pieces(self, newcomers: Any) -> IntArray:
        """(newcomers,) the piece of each label, -1 for those that nothing is tied to."""
        return _pieces(self._indexes[0], self.entity_pieces, newcomers)

    def pieces_of_relations(self, relations: Any) -> IntArray:
        """(relations,) the same of relations."""
        return _pieces(self._indexes[1], self.relation_pieces, relations)


NOTHING_TIED = Tied(
    pa.array([], pa.string()), np.empty(0, dtype=np.int64), pa.array([], pa.string()), np.empty(0, dtype=np.int64)
)


def _pieces(index: LabelIndex, pieces: IntArray, labels: Any) -> IntArray:
    if not len(index):
        return np.full(len(labels), -1, dtype=np.int64)
    places = index.places(labels)
    return np.where(places < 0, -1, pieces[index.order[places]])
