"""New entities and relations that given triples tie together, and are therefore prepared, and fitted, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ookg.graph.grown import Batch, Triple
from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, prepared
from ookg.newcomers.reducer import Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.newcomers.support import Support, Unused
from ookg.newcomers.together import Together
from ookg.simulation.trust import Trust
from ookg.simulation.ways import Way, Ways
from ookg.types import BoolArray, FloatArray, IntArray

# Entities that nothing ties together are prepared in one go if this many come at once.
FEWEST_IN_CROWD = 8


@dataclass(frozen=True)
class Preparation:
    """How newcomers get their vectors: how candidates are weighed, how many triples count, whether they are fitted.

    ways: how questions are answered by the number of triples, and from how many on vectors are fitted; None where all
        newcomers are treated alike
    companions: the same for each of the model's companions
    """

    weights: Weights
    limit: NeighborLimit | None = None
    refine: RefineSettings | None = None
    ways: Ways | None = None
    companions: tuple[Preparation, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether a newcomer has one vector, whatever relation is asked for."""
        return self.refine is not None or not self.weights.needs_query


@dataclass(frozen=True, eq=False)
class Group:
    """New entities and new relations that given triples tie together; or a crowd of entities that nothing ties.

    entities, relations: their ids, in the order in which the triples have them
    came, relations_came: (entities,), (relations,) where that is, among all that is given
    triples: (triples, 3) ids, in the order in which they came; numbers: (triples,) theirs among all given triples
    newcomers: the entities counted from 0 and the relations from behind the trained ones on, in that order: whatever
        else came, the same triples give the same numbers
    num_trained: how many relations have a trained vector
    is_crowd: whether its entities have nothing to do with each other, and are here because they came together
    is_here: (entities,) False for those that have left a crowd; None while none has
    trusts: what is known so far of an entity's trust, without and with all evidence
    hubness: that of its entities, once it was asked for; only where each has one vector for all relations
    """

    entities: IntArray
    relations: IntArray
    came: IntArray
    relations_came: IntArray
    triples: IntArray
    numbers: IntArray
    newcomers: Newcomers
    num_trained: int
    is_crowd: bool = False
    is_here: BoolArray | None = None
    trusts: dict[tuple[int, bool | None], Trust] = field(default_factory=dict)
    hubness: list[Tensor] = field(default_factory=list)

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.entities, kind="stable")

    def place(self, entity: int) -> int:
        """The number that one of its entities has among the newcomers."""
        return 0 if len(self.entities) == 1 else int(self.places(np.array([entity]))[0])

    def places(self, entities: IntArray) -> IntArray:
        """The numbers of entities among the newcomers, -1 for those of other groups."""
        order = self._order
        places = order[np.minimum(np.searchsorted(self.entities, entities, sorter=order), len(order) - 1)]
        is_mine = self.entities[places] == entities
        if self.is_here is not None:
            is_mine &= self.is_here[places]
        return np.where(is_mine, places, -1)

    def way(self, entity: int, ways: Ways) -> Way:
        """How questions about one of its entities are answered."""
        place, newcomers = self.place(entity), self.newcomers
        way = ways.at(int(newcomers.counts[place]))
        # Triples with other newcomers count among its triples, but no vector is fitted to them.
        is_fitted = way.refine and int(newcomers.fitted_to.counts[place]) >= (ways.refine_from or 1)
        return replace(way, refine=is_fitted)

    @property
    def present(self) -> IntArray:
        """The newcomers that are here."""
        return np.arange(len(self.entities)) if self.is_here is None else np.flatnonzero(self.is_here)

    @property
    def nodes(self) -> list[int]:
        """Its entities, and below 0 its relations: see `Nodes`."""
        return [*self.entities[self.present].tolist(), *(-1 - self.relations).tolist()]

    def without(self, entities: IntArray) -> Group:
        """A crowd without some of its entities; nothing is prepared anew."""
        is_here = np.ones(len(self.entities), dtype=np.bool_) if self.is_here is None else self.is_here.copy()
        is_here[self.places(entities)] = False
        return replace(self, is_here=is_here)

    def rows_with(self, entities: IntArray) -> IntArray:
        """The triples, as rows, that have some of its entities."""
        return np.flatnonzero(np.isin(self.triples[:, [0, 2]], entities).any(axis=1))

    @property
    def is_tied(self) -> bool:
        """Whether its entities were solved together."""
        return self.newcomers.together is not None

    def relation_ids(self, relations: IntArray) -> IntArray:
        """Relations as the newcomers count them, as ids."""
        return _relation_ids(relations, self.relations, self.num_trained)

    def seen_in(self, graph: GraphStatistics) -> Newcomers:
        """The newcomers with statistics in which all that is given is counted."""
        if not len(self.relations):
            return replace(self.newcomers, graph=graph)
        own = _GroupStatistics(graph.degree, graph.cooccurrence, graph.change, self.relations, self.num_trained)
        return replace(self.newcomers, graph=own)


@dataclass(frozen=True)
class _GroupStatistics(GraphStatistics):
    """Statistics for newcomers who count new relations in their own way, from `trained` on; queries come as ids."""

    new_relations: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    trained: int = 0

    def correlation(self, relation: IntArray, query: IntArray) -> FloatArray:
        """P(relation | query) + P(query | relation)."""
        return super().correlation(_relation_ids(relation, self.new_relations, self.trained), query)


def _relation_ids(relations: IntArray, new: IntArray, trained: int) -> IntArray:
    numbers = relations.copy()
    is_new = relations >= trained
    numbers[is_new] = new[relations[is_new] - trained]
    return numbers


def as_tuples(ids: IntArray) -> list[Triple]:
    """(triples, 3) ids as tuples, which can be looked up."""
    return [(head, relation, tail) for head, relation, tail in ids.tolist()]


@dataclass(frozen=True, eq=False)
class Nodes:
    """What is new in triples: entities as they are, and relations below 0.

    nodes: each once; place: (triples, 3) where the parts of each triple are among them, -1 for what is not new
    """

    nodes: IntArray
    place: IntArray

    @classmethod
    def of(cls, triples: IntArray, num_known: int, num_trained: int) -> Nodes:
        """The new entities and relations of triples."""
        is_new = triples >= [num_known, num_trained, num_known]
        place = np.full(triples.shape, -1, dtype=np.int64)
        codes = np.stack([triples[:, 0], -1 - triples[:, 1], triples[:, 2]], axis=1)
        nodes, place[is_new] = np.unique(codes[is_new], return_inverse=True)
        return cls(nodes, place)

    @cached_property
    def component(self) -> IntArray:
        """(nodes,) a number for what the triples tie together."""
        lead = self.place.max(axis=1, initial=-1, keepdims=True)
        row, side = np.nonzero((self.place >= 0) & (self.place != lead))
        size = len(self.nodes)
        if not len(row):
            return np.arange(size)
        from scipy.sparse import csgraph  # as in `together.py`

        ties = sparse.coo_array((np.ones(len(row)), (lead[row, 0], self.place[row, side])), shape=(size, size))
        component: IntArray = csgraph.connected_components(ties, directed=False)[1].astype(np.int64)
        return component

    def parts(self) -> tuple[IntArray, list[IntArray]]:
        """The triples, as rows: those of entities that nothing is tied to, and those of each component else.

        Triples in which nothing is new are in none.
        """
        lead = self.place.max(axis=1, initial=-1)
        rows = np.flatnonzero(lead >= 0)
        component = self.component[lead[rows]]
        is_alone = np.bincount(self.component) == 1
        is_alone[self.component[self.nodes < 0]] = False  # a new relation, which is no crowd's
        alone = is_alone[component]
        if is_alone.sum() < FEWEST_IN_CROWD:
            alone[:] = False
        tied = rows[~alone][np.argsort(component[~alone], kind="stable")]
        numbers = self.component[lead[tied]]
        parts = np.split(tied, np.flatnonzero(np.diff(numbers)) + 1) if len(tied) else []
        return rows[alone], parts


@dataclass(frozen=True, eq=False)
class _Numbered:
    """Ids from a lowest one on, in the order in which rows have them.

    ids: each once; came: where each one comes first; rows: the rows, with them counted from the lowest id on
    """

    ids: IntArray
    came: IntArray
    rows: IntArray

    @classmethod
    def of(cls, rows: IntArray, lowest: int, numbers: IntArray) -> _Numbered:
        """rows: (rows, ids), in the order of their numbers"""
        flat, width = rows.ravel(), rows.shape[1]
        at = np.flatnonzero(flat >= lowest)
        ids, first, place = np.unique(flat[at], return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        numbered = flat.copy()
        numbered[at] = lowest + rank[place.ravel()]
        spot = at[first[order]]
        return cls(ids[order], numbers[spot // width] * width + spot % width, numbered.reshape(rows.shape))


def prepared_group(
    embedding: Embedding, graph: GraphStatistics, preparation: Preparation, given: Batch, *, is_crowd: bool
) -> Group:
    """Prepare, and fit, what some triples tie together, or a crowd."""
    trained = embedding.num_relations
    ends = _Numbered.of(given.triples[:, [0, 2]], embedding.num_entities, given.numbers)
    relations = _Numbered.of(given.triples[:, 1:2], trained, given.numbers)
    triples = np.stack([ends.rows[:, 0], relations.rows[:, 0], ends.rows[:, 1]], axis=1)
    newcomers = prepared(embedding, graph, triples, preparation.weights)
    if preparation.limit is not None:
        newcomers = _limited(newcomers, triples, given.numbers, preparation.limit)
    if preparation.ways is not None and preparation.refine is None:
        newcomers = newcomers.kept()
    if preparation.refine is not None:
        least = preparation.ways.refine_from if preparation.ways is not None else None
        newcomers = newcomers.refined_by(preparation.refine, least=least or 1)
    return Group(
        ends.ids,
        relations.ids,
        ends.came,
        relations.came,
        given.triples,
        given.numbers,
        newcomers.with_room_for(len(ends.ids)),
        trained,
        is_crowd,
    )


def _limited(newcomers: Newcomers, given: IntArray, numbers: IntArray, limit: NeighborLimit) -> Newcomers:
    """With at most `limit.most` triples for each, drawn by the triples' numbers among all, as for all at once."""
    if newcomers.together is not None:
        trained = newcomers.together.ties.embedding  # without the vectors that new relations have got meanwhile
        return prepared(trained, newcomers.graph, given, newcomers.weights, limit)
    support = replace(newcomers.support, triple=numbers[newcomers.support.triple])
    return replace(newcomers, support=support.capped(limit.most, limit.seed))


def joined(groups: Sequence[Group]) -> Group:
    """Groups as one, to be asked for vectors: nothing of one matters to another.

    All of them are tied, without new relations, or none is.
    """
    if len(groups) == 1 and groups[0].is_here is None:
        return groups[0]
    here = [group.present for group in groups]
    first = np.cumsum([0, *map(len, here)])
    support = _one_after_another([_of_those(group.newcomers.support, group.is_here) for group in groups], first)
    fitted = [
        group.newcomers.refined[torch.from_numpy(rows).to(group.newcomers.refined.device)]
        for group, rows in zip(groups, here, strict=True)
        if group.newcomers.refined is not None
    ]
    nothing = np.empty(0, dtype=np.int64)
    newcomers = replace(
        groups[0].newcomers,
        support=support,
        unused=Unused(nothing, nothing, nothing, nothing),
        refined=torch.cat(fitted) if fitted else None,
        together=_joined_ties([group.newcomers for group in groups], support, first),
    )
    entities = np.concatenate([group.entities[rows] for group, rows in zip(groups, here, strict=True)])
    came = np.concatenate([group.came[rows] for group, rows in zip(groups, here, strict=True)])
    none_given = np.empty((0, 3), dtype=np.int64)
    return Group(entities, nothing, came, nothing, none_given, nothing, newcomers, groups[0].num_trained, True)


def _one_after_another(supports: Sequence[Support], first: IntArray) -> Support:
    """Supports as one; first: where the newcomers of each begin, and how many there are in all."""
    newcomer, relation, neighbor, is_head, triple = (
        np.concatenate([getattr(part, name) for part in supports])
        for name in ("newcomer", "relation", "neighbor", "is_head", "triple")
    )
    newcomer = newcomer + np.repeat(first[:-1], [len(part.newcomer) for part in supports])
    return Support(newcomer, relation, neighbor, is_head, triple, int(first[-1]))


def _joined_ties(parts: Sequence[Newcomers], support: Support, first: IntArray) -> Together | None:
    """What ties determine in several groups without new relations."""
    solved = [part.together for part in parts if part.together is not None]
    if not solved:
        return None
    known = solved[0].embedding.num_entities
    moved = [
        one.ties.triples + np.where(one.ties.triples >= [known, np.iinfo(np.int64).max, known], start, 0)
        for one, start in zip(solved, first[:-1].tolist(), strict=True)
    ]
    member = np.cumsum([0, *(len(one.ties.members) for one in solved)])
    peers = _one_after_another(
        [
            replace(one.peers, neighbor=one.peers.neighbor + start)
            for one, start in zip(solved, member[:-1].tolist(), strict=True)
        ],
        first,
    )
    position = np.concatenate([one.ties.position for one in solved])
    ties = replace(solved[0].ties, support=support, triples=np.concatenate(moved), position=position)
    return replace(
        solved[0],
        ties=ties,
        support=support,
        peers=peers,
        vectors=torch.cat([one.vectors for one in solved]),
        makes_relation=np.concatenate([one.makes_relation for one in solved]),
    )


def _of_those(support: Support, is_here: BoolArray | None) -> Support:
    """The rows of the newcomers that are here, numbered anew."""
    if is_here is None:
        return support
    kept = support.select(np.flatnonzero(is_here[support.newcomer]))
    return replace(kept, newcomer=(np.cumsum(is_here) - 1)[kept.newcomer], num_newcomers=int(is_here.sum()))
