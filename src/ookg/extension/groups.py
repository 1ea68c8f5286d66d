"""New entities and relations that given triples tie together, and are therefore prepared, and fitted, together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from ookg.graph.grown import Triple
from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, prepared
from ookg.newcomers.reducer import Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.newcomers.support import Support, Unused
from ookg.simulation.trust import Trust
from ookg.types import FloatArray, IntArray


@dataclass(frozen=True)
class Preparation:
    """How newcomers get their vectors: how candidates are weighed, how many triples count, whether they are fitted."""

    weights: Weights
    limit: NeighborLimit | None = None
    refine: RefineSettings | None = None

    @property
    def is_single(self) -> bool:
        """Whether a newcomer has one vector, whatever relation is asked for."""
        return self.refine is not None or not self.weights.needs_query


@dataclass(frozen=True, eq=False)
class Group:
    """New entities and new relations that given triples tie together.

    entities, relations: their ids, in the order in which the triples have them
    triples: (triples, 3) ids, in the order in which they came; numbers: (triples,) theirs among all given triples
    newcomers: the entities counted from 0 and the relations from behind the trained ones on, in that order: whatever
        else came, the same triples give the same numbers
    num_trained: how many relations have a trained vector
    trusts: what was found of an entity's trust, without and with all evidence
    """

    entities: IntArray
    relations: IntArray
    triples: IntArray
    numbers: IntArray
    newcomers: Newcomers
    num_trained: int
    trusts: dict[tuple[int, bool], Trust] = field(default_factory=dict)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {entity: place for place, entity in enumerate(self.entities.tolist())}

    def place(self, entity: int) -> int:
        """The newcomer that an entity is."""
        return self._places[entity]

    def places(self, entities: IntArray) -> IntArray:
        """The newcomers that entities are, -1 for those of other groups."""
        return np.array([self._places.get(entity, -1) for entity in entities.tolist()], dtype=np.int64)

    @property
    def nodes(self) -> list[int]:
        """Its entities, and below 0 its relations: see `new_nodes`."""
        return [*self.entities.tolist(), *(-1 - self.relations).tolist()]

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
    found = relations.copy()
    is_new = relations >= trained
    found[is_new] = new[relations[is_new] - trained]
    return found


def as_tuples(ids: IntArray) -> list[Triple]:
    """(triples, 3) ids as tuples, which can be looked up."""
    return [(head, relation, tail) for head, relation, tail in ids.tolist()]


def new_nodes(triple: Triple, num_known: int, num_trained: int) -> list[int]:
    """What of a triple is new: entities as they are, the relation below 0."""
    head, relation, tail = triple
    found = [end for end in dict.fromkeys((head, tail)) if end >= num_known]
    return [*found, -1 - relation] if relation >= num_trained else found


def tied_together(triples: Sequence[Triple], nodes_of: Callable[[Triple], list[int]]) -> list[list[Triple]]:
    """Triples by what ties them together; those in which nothing is new are in none."""
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for triple in triples:
        nodes = nodes_of(triple)
        for node in nodes:
            parent.setdefault(node, node)
        for node in nodes[1:]:
            parent[root(node)] = root(nodes[0])
    found: dict[int, list[Triple]] = {}
    for triple in triples:
        nodes = nodes_of(triple)
        if nodes:
            found.setdefault(root(nodes[0]), []).append(triple)
    return list(found.values())


def prepared_group(
    embedding: Embedding, graph: GraphStatistics, preparation: Preparation, triples: list[Triple], numbers: IntArray
) -> Group:
    """Prepare, and fit, what some triples tie together."""
    first, trained = embedding.num_entities, embedding.num_relations
    ends = dict.fromkeys(end for head, _, tail in triples for end in (head, tail) if end >= first)
    used = dict.fromkeys(relation for _, relation, _ in triples if relation >= trained)
    entity_place = {end: first + place for place, end in enumerate(ends)}
    relation_place = {relation: trained + place for place, relation in enumerate(used)}
    given = np.array(
        [
            (entity_place.get(head, head), relation_place.get(relation, relation), entity_place.get(tail, tail))
            for head, relation, tail in triples
        ],
        dtype=np.int64,
    )
    newcomers = prepared(embedding, graph, given, preparation.weights)
    if preparation.limit is not None:
        newcomers = _limited(newcomers, given, numbers, preparation.limit)
    if preparation.refine is not None:
        newcomers = newcomers.refined_by(preparation.refine)
    return Group(
        np.array(list(ends), dtype=np.int64),
        np.array(list(used), dtype=np.int64),
        np.array(triples, dtype=np.int64),
        numbers,
        newcomers.with_room_for(len(ends)),
        trained,
    )


def _limited(newcomers: Newcomers, given: IntArray, numbers: IntArray, limit: NeighborLimit) -> Newcomers:
    """With at most so many triples for each: drawn by the triples' numbers among all, as for all at once."""
    if newcomers.together is not None:
        return prepared(newcomers.embedding, newcomers.graph, given, newcomers.weights, limit)
    support = replace(newcomers.support, triple=numbers[newcomers.support.triple])
    return replace(newcomers, support=support.capped(limit.most, limit.seed))


def joined(groups: Sequence[Group]) -> Group:
    """Groups that are not tied, as one: nothing of one matters to another."""
    first = np.cumsum([0, *(len(group.entities) for group in groups)])
    supports = [group.newcomers.support for group in groups]
    newcomer, relation, neighbor, is_head, triple = (
        np.concatenate([getattr(part, name) for part in supports])
        for name in ("newcomer", "relation", "neighbor", "is_head", "triple")
    )
    newcomer = newcomer + np.repeat(first[:-1], [len(part.newcomer) for part in supports])
    support = Support(newcomer, relation, neighbor, is_head, triple, int(first[-1]))
    fitted = [group.newcomers.refined for group in groups if group.newcomers.refined is not None]
    nothing = np.empty(0, dtype=np.int64)
    newcomers = replace(
        groups[0].newcomers,
        support=support,
        unused=Unused(nothing, nothing, nothing, nothing),
        refined=torch.cat(fitted) if fitted else None,
    )
    entities = np.concatenate([group.entities for group in groups])
    return Group(entities, nothing, np.empty((0, 3), dtype=np.int64), nothing, newcomers, groups[0].num_trained)
