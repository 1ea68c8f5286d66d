"""Vectors for new entities: support, candidates and weights joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ookg.embedding import Embedding
from ookg.errors import InputError
from ookg.newcomers.estimator import candidates
from ookg.newcomers.reducer import Uniform, Weights, normalised
from ookg.newcomers.support import BoolArray, Support, Unused, find_support
from ookg.statistics import FloatArray, GraphStatistics, IntArray

# How many numbers the candidates of one chunk may hold, whatever the number of newcomers.
CHUNK_NUMBERS = 1 << 24


@dataclass(frozen=True)
class Newcomers:
    """New entities in given triples, ready to be represented for any query.

    graph: the statistics with the given triples counted in
    """

    embedding: Embedding
    support: Support
    unused: Unused
    graph: GraphStatistics
    weights: Weights

    @property
    def representable(self) -> BoolArray:
        """(newcomers,) whether each has a usable neighbour."""
        return self.support.counts > 0

    def has_vector(self, entities: IntArray) -> BoolArray:
        """Whether each entity, known or new, has a vector."""
        newcomer = entities - self.embedding.num_entities
        made = np.append(self.representable, False)[np.clip(newcomer, 0, len(self.representable))]
        found: BoolArray = (newcomer < 0) | made
        return found

    def with_room_for(self, num_newcomers: int) -> Newcomers:
        """The same with so many newcomers; those beyond the given triples' ones have no neighbour."""
        return replace(
            self, support=replace(self.support, num_newcomers=max(num_newcomers, self.support.num_newcomers))
        )

    def vectors(self, newcomers: IntArray, queries: IntArray | None = None) -> Tensor:
        """e = Σ w(ẽ)·ẽ over the candidates ẽ, for each newcomer (and query relation), (newcomers, entity_width).

        NaN for a newcomer without a usable neighbour: there is no vector for it, and none is made up.
        """
        rows, place = self.support.rows_of(newcomers)
        weights = self.row_weights(newcomers, queries)
        found = _fastest_sums(self.embedding)(self.embedding, self.support, rows, place, weights, len(newcomers))
        found = self.embedding.geometry.constrained(found)
        found[torch.from_numpy(~self.representable[newcomers]).to(found.device)] = torch.nan
        return found

    def entity_vectors(self, entities: IntArray, relations: IntArray) -> Tensor:
        """The vectors of known and new entities as they are seen by queries over `relations`, (entities, entity_width).

        Ids from embedding.num_entities on are newcomers; NaN where there is no vector.
        """
        table = self.embedding.entities
        is_new = entities >= len(table)
        found = table[torch.from_numpy(np.where(is_new, 0, entities)).to(table.device)]
        if not is_new.any():
            return found
        newcomers = entities[is_new] - len(table)
        queries = relations[is_new] if self.weights.needs_query else np.zeros(len(newcomers), dtype=np.int64)
        # A newcomer is often asked for many times with the same relation: solve each pair once.
        pairs, place = np.unique(np.stack([newcomers, queries], axis=1), axis=0, return_inverse=True)
        vectors = self.vectors(pairs[:, 0], pairs[:, 1] if self.weights.needs_query else None)
        found[torch.from_numpy(is_new).to(found.device)] = vectors[torch.from_numpy(place.ravel()).to(found.device)]
        return found

    def scores(self, triples: IntArray) -> FloatArray:
        """-D(h, r, t) of triples, (triples,); NaN where an end or the relation has no vector."""
        embedding, size = self.embedding, max(1, CHUNK_NUMBERS // self.embedding.geometry.entity_width)
        found = np.full(len(triples), np.nan)
        highest = embedding.num_entities + self.support.num_newcomers
        possible = (triples >= 0).all(axis=1) & (triples[:, [0, 2]] < highest).all(axis=1)
        rows = np.flatnonzero(possible & (triples[:, 1] < embedding.num_relations))
        for chunk in np.split(rows, range(size, len(rows), size)):
            head, relation, tail = triples[chunk].T
            distance = embedding.geometry.distance(
                self.entity_vectors(head, relation),
                embedding.relations[torch.from_numpy(relation.copy()).to(embedding.device)],
                self.entity_vectors(tail, relation),
            )
            found[chunk] = -distance.double().cpu().numpy()
        return found

    def row_weights(self, newcomers: IntArray, queries: IntArray | None = None) -> FloatArray:
        """The weights of the newcomers' candidates, in the order of `support.rows_of`; they add up to 1 for each."""
        rows, place = self.support.rows_of(newcomers)
        asked = None if queries is None else queries[place]
        weights = self.weights.weights(self.support, rows, asked, self.graph)
        return normalised(weights, place, len(newcomers))


Sums = Callable[[Embedding, Support, IntArray, IntArray, FloatArray, int], Tensor]


def _fastest_sums(embedding: Embedding) -> Sums:
    """The fastest weighted sums that this machine has for the embedding."""
    if embedding.entities.is_cuda or embedding.entities.dtype != torch.float32:
        return reference_sums
    try:
        from ookg.kernels.cpu_newcomers import weighted_candidates
    except ImportError:
        return reference_sums

    def sums(
        embedding: Embedding, support: Support, rows: IntArray, place: IntArray, weights: FloatArray, size: int
    ) -> Tensor:
        tables = embedding.entities.numpy(), embedding.relations.numpy()
        return torch.from_numpy(weighted_candidates(embedding.geometry, tables, support, rows, place, weights, size))

    return sums


def reference_sums(
    embedding: Embedding, support: Support, rows: IntArray, place: IntArray, weights: FloatArray, size: int
) -> Tensor:
    """Σ w · candidate over the rows of each of `size` groups, (size, entity_width), in plain PyTorch.

    rows: rows of the support; place: (rows,) their groups, ascending; weights: (rows,)
    """
    device, width = embedding.device, embedding.geometry.entity_width
    found = torch.zeros(size, width, device=device, dtype=embedding.entities.dtype)
    step = max(1, CHUNK_NUMBERS // width)
    for start in range(0, len(rows), step):
        chunk = slice(start, start + step)
        weighted = candidates(embedding, support, rows[chunk]) * torch.from_numpy(weights[chunk]).to(found)[:, None]
        found.index_add_(0, torch.from_numpy(place[chunk]).to(device), weighted)
    return found


@dataclass(frozen=True)
class NeighborLimit:
    """At most so many neighbours an entity, chosen at random by a seed."""

    most: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InputError(f"at most {self.most} neighbours; it must be 1 or more")


def find_newcomers(
    embedding: Embedding,
    graph: GraphStatistics | None,
    known: IntArray,
    given: IntArray,
    weights: Weights,
    limit: NeighborLimit | None = None,
) -> Newcomers:
    """Prepare the new entities of given triples.

    graph: the statistics of the known triples; None for a model that came without them, where uniform weights work
    known: (triples, 3) the training triples
    given: (triples, 3) entity ids from embedding.num_entities on are new ones; relation -1 has no trained vector
    """
    num_entities = embedding.num_entities
    highest = int(given[:, [0, 2]].max()) if len(given) else -1
    support, unused = find_support(given, num_entities, max(0, highest + 1 - num_entities))
    if limit is not None:
        support = support.capped(limit.most, limit.seed)
    if graph is None:
        if not isinstance(weights, Uniform):
            name = type(weights).__name__.lower()
            problem = f"{name} weights need statistics of the training triples, which this model came without"
            raise InputError(f"{problem}; import it with --triples, or choose uniform weights")
        graph = GraphStatistics.count(known, num_entities, embedding.num_relations)
    if weights.needs_query:
        graph = graph.with_given(known, given, num_entities)
    return Newcomers(embedding, support, unused, graph, weights)
