"""All that questions read, and how it changes: a triple that comes or goes prepares the groups that it touches anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ookg.evidence.combined import GraphEvidence
from ookg.extension.groups import Group, Preparation, as_tuples, joined, new_nodes, prepared_group, tied_together
from ookg.extension.known import KnownModel
from ookg.graph.grown import GrownGraph, Triple
from ookg.graph.layers import Layers
from ookg.graph.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class State:
    """A model and what is given beside it. It is never changed.

    entities, relations: labels, those of the model first; labels stay when their triples have gone (see `has_entity`)
    graph: the known triples and the given ones, on ids
    evidence: what the graph says beside the vectors; None until a question needs it
    groups: by their first node; group_of: the group of each new entity and, below 0, of each new relation
    following: the number of the next triple
    """

    model: KnownModel
    preparation: Preparation
    entities: Vocabulary
    relations: Vocabulary
    graph: GrownGraph
    groups: Layers[int, Group] = field(default_factory=Layers)
    group_of: Layers[int, int] = field(default_factory=Layers)
    following: int = 0
    evidence: GraphEvidence | None = None

    @classmethod
    def nothing_given(cls, model: KnownModel, preparation: Preparation) -> State:
        """A model alone."""
        return cls(model, preparation, model.entities, model.relations, GrownGraph(model.index, model.statistics))

    @property
    def num_known(self) -> int:
        """How many entities are known: ids from there on are new ones."""
        return len(self.model.entities)

    @property
    def num_trained(self) -> int:
        """How many relations have a trained vector: ids from there on are new ones."""
        return len(self.model.relations)

    def group(self, entity: int) -> Group | None:
        """The group of a new entity; None for a known one, and if no triple has it (any more)."""
        name = self.group_of.get(entity) if entity >= self.num_known else None
        return None if name is None else self.groups[name]

    def has_entity(self, entity: int) -> bool:
        """Whether an entity is known, or a given triple has it."""
        return 0 <= entity < self.num_known or self.group(entity) is not None

    def has_relation(self, relation: int) -> bool:
        """Whether a relation is trained, or a given triple has it."""
        return relation >= 0 and (relation < self.num_trained or -1 - relation in self.group_of)

    def is_represented(self, entity: int) -> bool:
        """Whether a new entity has a vector."""
        group = self.group(entity)
        return group is not None and bool(group.newcomers.representable[group.place(entity)])

    @cached_property
    def everyone(self) -> list[Group]:
        """All groups that have new entities: those that stand alone joined to one, and those that are tied."""
        groups = [group for group in self.groups.values() if len(group.entities)]
        tied = [group for group in groups if group.is_tied]
        alone = [group for group in groups if not group.is_tied]
        return [*([joined(alone)] if alone else []), *tied]

    @property
    def new_entities(self) -> list[int]:
        """The ids of the new entities, in the order in which their labels first came."""
        return sorted(entity for group in self.groups.values() for entity in group.entities.tolist())

    @property
    def new_relations(self) -> list[int]:
        """The ids of the new relations, in the order in which their labels first came."""
        return sorted(relation for group in self.groups.values() for relation in group.relations.tolist())

    def new_in(self, triple: Triple) -> list[int]:
        """What of a triple is new: entities as they are, the relation below 0."""
        return new_nodes(triple, self.num_known, self.num_trained)

    def labels(self, triple: Triple) -> tuple[str, str, str]:
        """A triple of ids in words."""
        head, relation, tail = triple
        return self.entities.label(head), self.relations.label(relation), self.entities.label(tail)


def with_triples(state: State, triples: Sequence[Triple]) -> State:
    """With given triples that it does not have; it has their labels."""
    graph, evidence = state.graph, state.evidence
    for number, triple in enumerate(triples, start=state.following):
        graph = graph.plus(triple, number)
        evidence = None if evidence is None else evidence.plus(triple, graph)
    grown = replace(state, graph=graph, evidence=evidence, following=state.following + len(triples))
    return _regrouped(grown, triples)


def without_triples(state: State, triples: Sequence[Triple]) -> State:
    """Without some of the given triples."""
    graph, evidence = state.graph, state.evidence
    for triple in triples:
        graph = graph.minus(triple)
        evidence = None if evidence is None else evidence.minus(triple, graph)
    return _regrouped(replace(state, graph=graph, evidence=evidence), triples)


def with_evidence(state: State) -> State:
    """With the evidence of the known triples and the given ones."""
    if state.evidence is not None:
        return state
    return replace(state, evidence=state.model.known_evidence.beside(state.graph))


def _regrouped(state: State, changed: Sequence[Triple]) -> State:
    """The state with the groups prepared that changed triples are, or were, in."""
    nodes = {node for triple in changed for node in state.new_in(triple)}
    names = {state.group_of[node] for node in nodes if node in state.group_of}
    old = [state.groups[name] for name in names]
    there = {triple for group in old for triple in as_tuples(group.triples)} | set(changed)
    numbers = {triple: state.graph.triples[triple] for triple in there if triple in state.graph.triples}
    ordered = sorted(numbers, key=numbers.__getitem__)
    made: dict[int, Group] = {}
    group_of: dict[int, int] = {}
    for members in tied_together(ordered, state.new_in):
        own_numbers = np.array([numbers[triple] for triple in members])
        group = prepared_group(state.model.embedding, state.graph.statistics, state.preparation, members, own_numbers)
        name = group.nodes[0]
        made[name] = group
        group_of |= dict.fromkeys(group.nodes, name)
    before = {node for group in old for node in group.nodes}
    groups = state.groups.changed(made, [name for name in names if name not in made])
    homes = state.group_of.changed(group_of, [node for node in before if node not in group_of])
    return replace(state, groups=groups, group_of=homes)
