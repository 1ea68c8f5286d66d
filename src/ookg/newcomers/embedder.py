"""Vectors for new entities: support, candidates and weights joined."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.graph.statistics import GraphStatistics
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.newcomers.estimator import candidates
from ookg.newcomers.least_squares import least_squares
from ookg.newcomers.prior import Residuals
from ookg.newcomers.reducer import (
    Precision,
    Uniform,
    Weights,
    normalised,
    refuse_without_statistics,
    with_residuals,
)
from ookg.newcomers.refinement import RefineSettings, refine
from ookg.newcomers.relations import RelationPairs, fitted_relation_vectors
from ookg.newcomers.support import Support, Unused, find_support
from ookg.newcomers.together import Anchors, Ties, Together, positive, solve_together
from ookg.system.progress import Reporter
from ookg.types import BoolArray, FloatArray, IntArray

# How many numbers the candidates of one chunk may hold, whatever the number of newcomers.
CHUNK_NUMBERS = 1 << 24


@dataclass(frozen=True)
class Newcomers:
    """New entities in given triples, ready to be represented for any query.

    embedding: the trained vectors, and those of new relations after them (NaN where a new relation has none)
    support: the known neighbours; graph: the statistics with the given triples counted in
    together: what triples between newcomers and over new relations determine; None where there are none
    refined: (newcomers, entity_width) vectors fitted to the triples, which then stand for every query; NaN for none
    """

    embedding: Embedding
    support: Support
    unused: Unused
    graph: GraphStatistics
    weights: Weights
    refined: Tensor | None = None
    together: Together | None = None

    @property
    def counts(self) -> IntArray:
        """(newcomers,) how many triples each one's vector is made of."""
        return self.support.counts if self.together is None else self.support.counts + self.together.peers.counts

    @property
    def fitted_to(self) -> Support:
        """What vectors are fitted to: the known neighbours over trained relations."""
        return self.support if self.together is None else self.together.ties.support

    @property
    def representable(self) -> BoolArray:
        """(newcomers,) whether each has a usable neighbour, known or itself represented."""
        return self.counts > 0

    def has_vector(self, entities: IntArray) -> BoolArray:
        """Whether each entity, known or new, has a vector."""
        newcomer = entities - self.embedding.num_entities
        made = np.append(self.representable, False)[np.clip(newcomer, 0, len(self.representable))]
        has_vector: BoolArray = (newcomer < 0) | made
        return has_vector

    def has_relation(self, relations: IntArray) -> BoolArray:
        """Whether each relation, trained or new, has a vector."""
        made = ~torch.isnan(self.embedding.relations[:, 0]).cpu().numpy()
        inside = (relations >= 0) & (relations < len(made))
        has_vector: BoolArray = inside & np.append(made, False)[np.where(inside, relations, len(made))]
        return has_vector

    def with_room_for(self, num_newcomers: int) -> Newcomers:
        """The same with this many newcomers; those that the given triples do not have get no neighbour."""
        missing = max(0, num_newcomers - self.support.num_newcomers)
        refined = self.refined
        if refined is not None and missing:
            refined = torch.cat([refined, refined.new_full((missing, refined.shape[1]), torch.nan)])
        support = replace(self.support, num_newcomers=self.support.num_newcomers + missing)
        together = None if self.together is None else self.together.with_room_for(support.num_newcomers)
        return replace(self, support=support, refined=refined, together=together)

    def kept(self) -> Newcomers:
        """The same with the vectors made now and kept, so that no question makes them anew; for query-free weights."""
        if self.weights.needs_query or self.refined is not None:
            return self
        return replace(self, refined=self.vectors(np.arange(self.support.num_newcomers)))

    def refined_by(self, settings: RefineSettings, report: Reporter | None = None, least: int = 1) -> Newcomers:
        """The same with vectors fitted to their triples, from the closed form on.

        It starts from these weights, or from uniform ones where these depend on the query. Newcomers are fitted to
        their known neighbours over trained relations. Then new relations are made anew from the fitted vectors and
        fitted themselves, and newcomers that are tied to others but not fitted themselves are solved anew.

        least: those with fewer such neighbours are not fitted
        """
        start = replace(self, weights=Uniform()) if self.weights.needs_query else self
        vectors = start.vectors(np.arange(self.support.num_newcomers))
        support = self.fitted_to
        support = support.select(np.flatnonzero(support.counts[support.newcomer] >= least))
        if self.together is None or (least > 1 and not len(support.newcomer)):
            return replace(self, refined=refine(self.embedding, support, vectors, settings, report))
        ties = self.together.ties
        if ties.num_new_relations and settings.seconds is not None:
            settings = replace(settings, seconds=settings.seconds / 2)  # entities and relations take half of it each
        refined = refine(ties.embedding, support, vectors, settings, report)
        is_fitted = support.counts > 0

        def fit(pairs: RelationPairs, closed_form: Tensor) -> Tensor:
            return fitted_relation_vectors(pairs, closed_form, settings)

        place = np.flatnonzero(is_fitted[ties.members])
        anchors = Anchors(place, refined[torch.from_numpy(ties.members[place]).to(refined.device)])
        solved = solve_together(ties, start.weights, self.graph, anchors, fit)
        refined[torch.from_numpy(ties.members).to(refined.device)] = solved.vectors
        return replace(self, embedding=solved.embedding, support=solved.support, refined=refined, together=solved)

    def vectors(self, newcomers: IntArray, queries: IntArray | None = None) -> Tensor:
        """e = Σ w(ẽ)·ẽ over the candidates ẽ, for each newcomer (and query relation), (newcomers, entity_width).

        Under precision weights, w is a weight for each coordinate, and there may be a prior (see `prior.py`); under
        TransH and TransR, and for newcomers that are tied to newcomers, one weight and no prior.
        A candidate from another newcomer is made of that one's query-free vector.
        Under TransH and TransR, where a triple does not determine a candidate, the weighted least-squares solution.
        NaN for a newcomer without a usable neighbour: there is no vector for it, and none is made up.
        """
        if self.refined is not None:
            return self.refined[torch.from_numpy(newcomers).to(self.refined.device)]
        vectors = self._sums(newcomers, queries)
        if self.together is not None:
            self._add_peers(vectors, newcomers, queries)
        vectors = self.embedding.geometry.constrained(vectors)
        made = self.counts[newcomers] > 0
        if not made.all():
            vectors[torch.from_numpy(~made).to(vectors.device)] = torch.nan
        return vectors

    def _sums(self, newcomers: IntArray, queries: IntArray | None) -> Tensor:
        """What known neighbours say, (newcomers, entity_width)."""
        rows, place = self.support.rows_of(newcomers)
        weights = self.weights
        if isinstance(weights, Precision) and not isinstance(self.embedding.geometry, Projected):
            links = self.embedding, self.support, rows, place, len(newcomers)
            return weights.of_model.estimates(*links, weights.prior).vectors
        reduce = fastest_reduction(self.embedding)
        shares = self.row_weights(newcomers, queries)
        return reduce(self.embedding, self.support, rows, place, shares, len(newcomers))

    def _add_peers(self, sums: Tensor, newcomers: IntArray, queries: IntArray | None) -> None:
        """Add to the sums over known neighbours, in place, what newcomers say about newcomers."""
        together = self.together
        if together is None:
            return
        tied = np.flatnonzero(together.peers.counts[newcomers] > 0)
        if not len(tied):
            return
        place = torch.from_numpy(tied).to(sums.device)
        if not self.weights.needs_query:
            # The mean over all candidates is what the system was solved for.
            member = np.searchsorted(together.ties.members, newcomers[tied])
            sums[place] = together.vectors[torch.from_numpy(member).to(sums.device)]
            return
        rows, group = together.peers.rows_of(newcomers[tied])
        weights = self.peer_weights(newcomers[tied], None if queries is None else queries[tied])
        table = together.peer_embedding
        sums[place] += fastest_reduction(table)(table, together.peers, rows, group, weights, len(tied))

    def entity_vectors(self, entities: IntArray, relations: IntArray) -> Tensor:
        """The vectors of known and new entities as they are seen by queries over `relations`, (entities, entity_width).

        Ids from embedding.num_entities on are newcomers; NaN where there is no vector.
        """
        table = self.embedding.entities
        is_new = entities >= len(table)
        rows = self.embedding.rows(torch.from_numpy(np.where(is_new, 0, entities)).to(table.device))
        if not is_new.any():
            return rows
        newcomers = entities[is_new] - len(table)
        queries = relations[is_new] if self.weights.needs_query else np.zeros(len(newcomers), dtype=np.int64)
        # The same newcomer and relation are often asked for many times: solve each pair once.
        pairs, place = np.unique(np.stack([newcomers, queries], axis=1), axis=0, return_inverse=True)
        vectors = self.vectors(pairs[:, 0], pairs[:, 1] if self.weights.needs_query else None)
        rows[torch.from_numpy(is_new).to(rows.device)] = vectors[torch.from_numpy(place.ravel()).to(rows.device)]
        return rows

    def scores(self, triples: IntArray) -> FloatArray:
        """-D(h, r, t) of triples, (triples,); NaN where an end or the relation has no vector."""
        embedding, geometry = self.embedding, self.embedding.geometry
        size = max(1, CHUNK_NUMBERS // max(geometry.entity_width, geometry.relation_width))
        scores = np.full(len(triples), np.nan)
        highest = embedding.num_entities + self.support.num_newcomers
        possible = (triples >= 0).all(axis=1) & (triples[:, [0, 2]] < highest).all(axis=1)
        rows = np.flatnonzero(possible & (triples[:, 1] < embedding.num_relations))
        for chunk in np.split(rows, range(size, len(rows), size)):
            head, relation, tail = triples[chunk].T
            distance = geometry.distance(
                self.entity_vectors(head, relation),
                embedding.relations[torch.from_numpy(relation.copy()).to(embedding.device)],
                self.entity_vectors(tail, relation),
            )
            scores[chunk] = -distance.double().cpu().numpy()
        return scores

    def row_weights(self, newcomers: IntArray, queries: IntArray | None = None) -> FloatArray:
        """The weights of the newcomers' candidates from known neighbours, in the order of `support.rows_of`.

        They add up to 1 for each newcomer, together with its `peer_weights`.
        """
        return self._weights(newcomers, queries)[0]

    def peer_weights(self, newcomers: IntArray, queries: IntArray | None = None) -> FloatArray:
        """The weights of the newcomers' candidates from other newcomers, in the order of `together.peers.rows_of`."""
        return self._weights(newcomers, queries)[1]

    def _weights(self, newcomers: IntArray, queries: IntArray | None) -> tuple[FloatArray, FloatArray]:
        rows, place = self.support.rows_of(newcomers)
        asked = None if queries is None else queries[place]
        weights = self.weights.weights(self.support, rows, asked, self.graph)
        if self.together is None:
            return normalised(weights, place, len(newcomers)), np.empty(0)
        peers = self.together.peers
        peer_rows, peer_place = peers.rows_of(newcomers)
        asked = None if queries is None else queries[peer_place]
        peer_weights = self.weights.weights(peers, peer_rows, asked, self._member_graph)
        if not self.weights.needs_query:
            # As in the system that made the vectors; newcomers without peers are not in it.
            has_peers = peers.counts[newcomers] > 0
            weights = np.where(has_peers[place], positive(weights), weights)
            peer_weights = positive(peer_weights)
        shares = normalised(
            np.concatenate([weights, peer_weights]), np.concatenate([place, peer_place]), len(newcomers)
        )
        return shares[: len(rows)], shares[len(rows) :]

    @cached_property
    def _member_graph(self) -> GraphStatistics:
        return self.graph if self.together is None else self.together.member_graph(self.graph)


Reduction = Callable[[Embedding, Support, IntArray, IntArray, FloatArray, int], Tensor]


def fastest_reduction(embedding: Embedding) -> Reduction:
    """How weighted rows become vectors: least squares, or the fastest weighted sums that this machine has."""
    if isinstance(embedding.geometry, Projected):
        return least_squares
    table = embedding.entities
    if table.is_cuda or embedding.dtype != torch.float32 or embedding.geometry.kernel is None:
        return reference_sums
    try:
        from ookg.kernels.cpu_newcomers import weighted_candidates
    except ImportError:
        return reference_sums

    def sums(
        embedding: Embedding, support: Support, rows: IntArray, place: IntArray, weights: FloatArray, size: int
    ) -> Tensor:
        tables = embedding.entities.numpy(), embedding.relations.numpy()
        return torch.from_numpy(
            weighted_candidates(embedding.geometry, tables, support.links, rows, place, weights, size)
        )

    return sums


def reference_sums(
    embedding: Embedding, support: Support, rows: IntArray, place: IntArray, weights: FloatArray, size: int
) -> Tensor:
    """Σ w · candidate over the rows of each of `size` groups, (size, entity_width), in plain PyTorch.

    rows: rows of the support; place: (rows,) their groups, ascending; weights: (rows,)
    """
    device, width = embedding.device, embedding.geometry.entity_width
    sums = torch.zeros(size, width, device=device, dtype=embedding.dtype)
    step = max(1, CHUNK_NUMBERS // width)
    for start in range(0, len(rows), step):
        chunk = slice(start, start + step)
        weighted = candidates(embedding, support, rows[chunk]) * torch.from_numpy(weights[chunk]).to(sums)[:, None]
        sums.index_add_(0, torch.from_numpy(place[chunk]).to(device), weighted)
    return sums


@dataclass(frozen=True)
class NeighborLimit:
    """At most `most` neighbours per entity, chosen at random by a seed."""

    most: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.most < 1 << 63:
            raise InputError(f"at most {self.most} neighbours; it must be 1 or more, and below 2^63")


def as_limit(limit: NeighborLimit | int | None) -> NeighborLimit | None:
    """The limit, which may be given as a number; None stays None."""
    if limit is None or isinstance(limit, NeighborLimit):
        return limit
    if isinstance(limit, bool) or not hasattr(limit, "__index__"):
        raise InputError(f"limit {limit!r}; give how many neighbours are used at most, or ookg.NeighborLimit")
    return NeighborLimit(operator.index(limit))


def find_newcomers(
    embedding: Embedding,
    graph: GraphStatistics | None,
    known: IntArray,
    given: IntArray,
    weights: Weights,
    limit: NeighborLimit | None = None,
) -> Newcomers:
    """Prepare the new entities, and the new relations, of given triples.

    graph: the statistics of the known triples; None for a model that came without them: then only uniform weights work
    known: (triples, 3) the training triples
    given: (triples, 3) entity ids from embedding.num_entities on are new ones; relation ids from
        embedding.num_relations on are new relations, which get vectors where the triples determine them, under models
        that make such vectors; relation -1 has no vector and gets none
    """
    num_entities = embedding.num_entities
    if graph is None:
        refuse_without_statistics(weights)
        graph = GraphStatistics.count(known, num_entities, embedding.num_relations)
    weights = with_residuals(weights, lambda: Residuals.of(embedding, known))
    if weights.needs_query:
        counted = given
        num_relations = int(given[:, 1].max(initial=-1)) + 1
        if num_relations > embedding.num_relations:
            if not embedding.geometry.makes_relations:
                counted = given[given[:, 1] < embedding.num_relations]
            else:
                cooccurrence = graph.cooccurrence.copy()
                cooccurrence.resize(num_relations, num_relations)
                graph = replace(graph, cooccurrence=cooccurrence)
        graph = graph.with_given(known, counted, num_entities)
    return prepared(embedding, graph, given, weights, limit)


def prepared(
    embedding: Embedding,
    graph: GraphStatistics,
    given: IntArray,
    weights: Weights,
    limit: NeighborLimit | None = None,
) -> Newcomers:
    """The same with statistics in which the given triples are counted already."""
    num_entities = embedding.num_entities
    highest = int(given[:, [0, 2]].max()) if len(given) else -1
    is_new_relation = given[:, 1] >= embedding.num_relations
    trained = given
    if is_new_relation.any():
        trained = given.copy()
        trained[is_new_relation, 1] = -1
    if not embedding.geometry.makes_relations:
        given, is_new_relation = trained, np.zeros_like(is_new_relation)
    support, unused = find_support(trained, num_entities, max(0, highest + 1 - num_entities))
    if limit is not None:
        support = support.capped(limit.most, limit.seed)
    is_tie = is_new_relation.copy()
    is_tie[unused.between_newcomers] = True
    if not embedding.geometry.solves_together or not is_tie.any():
        return Newcomers(embedding, support, unused, graph, weights)
    num_relations = max(embedding.num_relations, int(given[:, 1].max()) + 1)
    position = np.flatnonzero(is_tie)
    cap = (None, 0) if limit is None else (limit.most, limit.seed)
    ties = Ties(embedding, support, given[position], position, num_relations, *cap)
    together = solve_together(ties, Uniform() if weights.needs_query else weights, graph)
    unused = _unused(together, given, unused)
    return Newcomers(together.embedding, together.support, unused, graph, weights, together=together)


def _unused(together: Together, given: IntArray, without_ties: Unused) -> Unused:
    """What makes no vector although newcomers and new relations were solved together."""
    ties = together.ties
    ends = ties.triples[:, [0, 2]] >= ties.embedding.num_entities
    has_relation = together.has_relation(np.arange(len(ties.triples)))
    lost = ~has_relation & ends.any(axis=1)
    reached = np.append(~torch.isnan(together.vectors[:, 0]).cpu().numpy(), True)[ties.member].all(axis=1)
    isolated = has_relation & ~reached & ~ties.is_loop
    loops = has_relation & ties.is_loop & ~together.makes_relation
    untrained = without_ties.untrained_relation[given[without_ties.untrained_relation, 1] < 0]
    makes_relation = ties.position[together.makes_relation]
    return Unused(
        untrained_relation=np.sort(np.append(untrained, ties.position[lost])),
        between_newcomers=ties.position[isolated],
        self_loops=np.sort(np.append(without_ties.self_loops, ties.position[loops])),
        without_newcomer=np.setdiff1d(without_ties.without_newcomer, makes_relation, assume_unique=True),
    )
