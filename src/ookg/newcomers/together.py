"""New entities that are tied to new entities, and relations that no training triple has: solved together.

What is determined comes in stages: first every newcomer that trained relations tie to the known graph, over any number
of other newcomers; then every new relation that has a triple whose two ends have vectors; then the newcomers that such
relations tie to what has a vector, and so on until nothing is added. A relation's vector is made once, in the stage in
which its first triples have two ends with vectors. In each stage all newcomers are one linear system (`system.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.newcomers.reducer import Weights
from ookg.newcomers.relations import RelationPairs, relation_vectors
from ookg.newcomers.support import Support
from ookg.newcomers.system import FixedPoints, System
from ookg.types import BoolArray, FloatArray, IntArray

# A degree weight is negative for an entity without training triples. A system needs weights above 0.
LEAST_WEIGHT = 0.01

FitRelations = Callable[[RelationPairs, Tensor], Tensor]


@dataclass(frozen=True)
class Ties:
    """Given triples that a known neighbour over a trained relation does not cover.

    embedding: the trained vectors; support: the known neighbours over trained relations
    triples: (ties, 3) between two newcomers, or over a new relation: ids from embedding.num_relations on
    position: (ties,) where they are among the given triples
    num_relations: trained and new ones
    most, seed: at most this many triples for the vector of a newcomer, drawn by the seed; None for all
    """

    embedding: Embedding
    support: Support
    triples: IntArray
    position: IntArray
    num_relations: int
    most: int | None = None
    seed: int = 0

    @cached_property
    def members(self) -> IntArray:
        """(members,) the newcomers in these triples, ascending."""
        ends = np.unique(self.triples[:, [0, 2]]) - self.embedding.num_entities
        members: IntArray = ends[ends >= 0]
        return members

    @cached_property
    def ends(self) -> IntArray:
        """(ties, 2) head and tail: ids of known entities, then from embedding.num_entities on places in `members`."""
        known, ends = self.embedding.num_entities, self.triples[:, [0, 2]]
        return np.where(ends < known, ends, known + np.searchsorted(self.members, ends - known))

    @cached_property
    def member(self) -> IntArray:
        """(ties, 2) places in `members`, -1 for known ends."""
        return np.maximum(self.ends - self.embedding.num_entities, -1)

    @cached_property
    def new_relation(self) -> IntArray:
        """(ties,) new relations counted from 0, -1 for trained ones."""
        return np.maximum(self.triples[:, 1] - self.embedding.num_relations, -1)

    @property
    def num_new_relations(self) -> int:
        """How many relations have no trained vector."""
        return self.num_relations - self.embedding.num_relations

    @cached_property
    def is_loop(self) -> BoolArray:
        """(ties,) whether both ends are the same."""
        is_loop: BoolArray = self.triples[:, 0] == self.triples[:, 2]
        return is_loop

    def rows(self, chosen: BoolArray) -> tuple[Support, Support]:
        """The chosen ties as rows of newcomers: to known neighbours, and to peers (neighbor: a place in `members`)."""
        number, side = np.nonzero((self.member >= 0) & chosen[:, None])
        owner, other = self.member[number, side], self.ends[number, 1 - side]
        is_known = other < self.embedding.num_entities
        made = []
        for place, neighbors in ((is_known, other), (~is_known, other - self.embedding.num_entities)):
            order = np.flatnonzero(place)[np.argsort(owner[place], kind="stable")]
            made.append(
                Support(
                    self.members[owner[order]],
                    self.triples[number[order], 1],
                    neighbors[order],
                    side[order] == 0,
                    self.position[number[order]],
                    self.support.num_newcomers,
                )
            )
        return made[0], made[1]

    def with_room_for(self, num_newcomers: int) -> Ties:
        """The same with this many newcomers."""
        return replace(self, support=replace(self.support, num_newcomers=num_newcomers))


@dataclass(frozen=True)
class Together:
    """What ties determine.

    embedding: the trained vectors, then those of new relations (NaN where there is none)
    support: the known neighbours over relations with a vector
    peers: newcomers as neighbours of newcomers; neighbor is a place in `ties.members`
    vectors: (members, entity_width) query-free; NaN where there is none
    made: (new relations,) whether each has a vector
    makes_relation: (ties,) whether each triple made the vector of its relation
    """

    ties: Ties
    embedding: Embedding
    support: Support
    peers: Support
    vectors: Tensor
    made: BoolArray
    makes_relation: BoolArray

    @cached_property
    def peer_embedding(self) -> Embedding:
        """The members in place of the known entities, so that a peer's candidate is like any other."""
        return Embedding(self.embedding.geometry, self.vectors, self.embedding.relations)

    def member_graph(self, graph: GraphStatistics) -> GraphStatistics:
        """The statistics with the members' degrees: the triples that their vectors are made of."""
        counts = self.support.counts[self.ties.members] + self.peers.counts[self.ties.members]
        return replace(graph, degree=counts)

    def has_relation(self, ties: IntArray) -> BoolArray:
        """Whether the relations of some ties have a vector."""
        number = self.ties.new_relation[ties]
        return np.append(self.made, True)[number]

    def with_room_for(self, num_newcomers: int) -> Together:
        """The same with this many newcomers."""
        support, peers = (replace(part, num_newcomers=num_newcomers) for part in (self.support, self.peers))
        return replace(self, ties=self.ties.with_room_for(num_newcomers), support=support, peers=peers)


@dataclass(frozen=True)
class Anchors:
    """Newcomers whose vectors stay as they are: places in `Ties.members`, ascending, and (anchors, entity_width)."""

    place: IntArray
    vectors: Tensor


def solve_together(
    ties: Ties,
    weights: Weights,
    graph: GraphStatistics,
    anchors: Anchors | None = None,
    fit: FitRelations | None = None,
) -> Together:
    """Vectors for all newcomers and new relations that the ties determine.

    weights: they must not depend on a query
    anchors: newcomers that have their vectors already
    fit: what is done to the closed form of new relations before anything is made of them
    """
    trained = ties.embedding
    rows = trained.relations.new_full((ties.num_new_relations, trained.geometry.relation_width), torch.nan)
    extended = replace(trained, relations=torch.cat([trained.relations, rows])) if len(rows) else trained
    nothing, unmade = np.zeros(len(ties.triples), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    empty = torch.empty(0, trained.geometry.entity_width, dtype=trained.dtype, device=trained.device)
    if anchors is None:
        anchors = Anchors(np.empty(0, dtype=np.int64), empty)
    state = Together(ties, extended, ties.support, ties.rows(nothing)[1], empty, unmade, nothing)
    while True:
        state = _with_entities(state, weights, graph, anchors)
        following = _with_relations(state, fit)
        if following is None:
            return state
        state = following


def _with_entities(state: Together, weights: Weights, graph: GraphStatistics, anchors: Anchors) -> Together:
    """The state with vectors for all newcomers that the relations with a vector tie to the known graph."""
    ties, embedding = state.ties, state.embedding
    usable = _candidates(state)
    depth = _depths(ties, usable, anchors)
    reached = depth < np.inf
    both = np.append(reached, True)[ties.member].all(axis=1)
    extra, peers = _within_limit(ties, *ties.rows(usable & both), depth)
    state = replace(state, support=ties.support.merged(extra), peers=peers)
    device = embedding.device
    shape = len(ties.members), embedding.geometry.entity_width
    vectors = torch.full(shape, torch.nan, dtype=embedding.dtype, device=device)
    vectors[torch.from_numpy(anchors.place).to(device)] = anchors.vectors
    is_unknown = reached.copy()
    is_unknown[anchors.place] = False
    unknown = np.flatnonzero(is_unknown)
    if len(unknown):
        solved = _system(state, unknown, anchors, weights, graph).solution()
        vectors[torch.from_numpy(unknown).to(device)] = embedding.geometry.constrained(solved)
    return replace(state, vectors=vectors)


def _candidates(state: Together) -> BoolArray:
    """(ties,) whether each makes candidates: its relation has a vector, which is not made of this triple alone."""
    ties = state.ties
    number = ties.new_relation
    makers = np.bincount(number[state.makes_relation], minlength=len(state.made) + 1)
    alone = state.makes_relation & (makers[number] == 1)
    makes: BoolArray = np.append(state.made, True)[number] & ~alone & ~ties.is_loop
    return makes


def _depths(ties: Ties, usable: BoolArray, anchors: Anchors) -> FloatArray:
    """(members,) how many triples away each is from a vector that is fixed; infinity where nothing leads to one."""
    size = len(ties.members)
    member = np.where(ties.member < 0, size, ties.member)[usable]  # what is fixed is one node, the last
    near = np.append(np.flatnonzero(ties.support.counts[ties.members] > 0), anchors.place)
    heads, tails = np.append(member[:, 0], near), np.append(member[:, 1], np.full(len(near), size))
    graph = sparse.csr_array((np.ones(len(heads)), (heads, tails)), shape=(size + 1, size + 1))
    from scipy.sparse import csgraph  # a tenth of a second of a start, and few newcomers are tied to each other

    depths: FloatArray = csgraph.dijkstra(graph, directed=False, indices=size, unweighted=True)[:size]
    return depths


def _within_limit(ties: Ties, extra: Support, peers: Support, depth: FloatArray) -> tuple[Support, Support]:
    """At most `ties.most` rows per newcomer: known neighbours first, then the peers nearest to the known graph.

    A triple between two newcomers stays if one of the two keeps it: a mean that only one side takes part in would
    make the two vectors disagree. So a newcomer always keeps a way to the known graph.
    """
    if ties.most is None:
        return extra, peers
    room = ties.most - ties.support.counts
    extra = extra.select(np.flatnonzero(extra.ranks(ties.seed) < room[extra.newcomer]))
    room = room - extra.counts
    nearest = peers.ranks(ties.seed, depth[peers.neighbor].astype(np.int64))
    kept = peers.triple[nearest < room[peers.newcomer]]
    return extra, peers.select(np.flatnonzero(np.isin(peers.triple, kept)))


def _system(state: Together, unknown: IntArray, anchors: Anchors, weights: Weights, graph: GraphStatistics) -> System:
    """The linear system for the members at some places."""
    ties, support, peers = state.ties, state.support, state.peers
    known_rows, known_owner = support.rows_of(ties.members[unknown])
    peer_rows, peer_owner = peers.rows_of(ties.members[unknown])
    known_ids, known_point = np.unique(support.neighbor[known_rows], return_inverse=True)
    point = np.empty(len(ties.members), dtype=np.int64)  # where each member is among unknown and fixed points
    point[unknown] = np.arange(len(unknown))
    point[anchors.place] = len(unknown) + len(known_ids) + np.arange(len(anchors.place))
    member_graph = state.member_graph(graph)
    own = positive(weights.weights(_themselves(ties), np.arange(len(ties.members)), None, member_graph))
    strength = (
        positive(weights.weights(support, known_rows, None, graph)),
        positive(weights.weights(peers, peer_rows, None, member_graph)),
    )
    owner = np.concatenate([known_owner, peer_owner])
    return System(
        FixedPoints(state.embedding, known_ids, anchors.vectors),
        owner,
        np.concatenate([len(unknown) + known_point.ravel(), point[peers.neighbor[peer_rows]]]),
        np.concatenate([support.relation[known_rows], peers.relation[peer_rows]]),
        np.concatenate([support.is_head[known_rows], peers.is_head[peer_rows]]),
        # Times the owner's own weight, which does not change its mean: so both rows of a triple have the same strength.
        np.concatenate(strength) * own[unknown][owner],
        len(unknown),
    )


def _themselves(ties: Ties) -> Support:
    """Each member as a neighbour, to ask for its weight as one."""
    place = np.arange(len(ties.members))
    return Support(place, np.zeros_like(place), place, np.zeros(len(place), dtype=np.bool_), place, len(place))


def positive(weights: FloatArray) -> FloatArray:
    """Weights that are all above 0, as a system needs them."""
    raised: FloatArray = np.maximum(weights, LEAST_WEIGHT)
    return raised


def _with_relations(state: Together, fit: FitRelations | None) -> Together | None:
    """The state with vectors for new relations that have triples with two vectors now; None if there are none."""
    ties = state.ties
    has_vector = np.append(~torch.isnan(state.vectors[:, 0]).cpu().numpy(), True)[ties.member].all(axis=1)
    makes = (ties.new_relation >= 0) & ~np.append(state.made, True)[ties.new_relation] & has_vector
    if not makes.any():
        return None
    numbers, relation = np.unique(ties.new_relation[makes], return_inverse=True)
    head, tail = ties.ends[makes].T
    pairs = RelationPairs(ties.embedding, state.vectors, relation.ravel(), head.copy(), tail.copy())
    vectors = relation_vectors(pairs, len(numbers))
    if fit is not None:
        vectors = fit(pairs, vectors)
    relations = state.embedding.relations.clone()
    relations[torch.from_numpy(ties.embedding.num_relations + numbers).to(relations.device)] = vectors
    made = state.made.copy()
    made[numbers] = True
    embedding = replace(state.embedding, relations=relations)
    return replace(state, embedding=embedding, made=made, makes_relation=state.makes_relation | makes)
