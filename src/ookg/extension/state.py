"""All that questions read, and how it changes: a triple that comes or goes prepares the groups that it touches anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from ookg.evidence.claims import ClaimEvidence
from ookg.evidence.combined import GraphEvidence
from ookg.extension.everyone import Everyone
from ookg.extension.groups import Group, Nodes, Preparation, as_tuples, prepared_group
from ookg.extension.known import KnownModel
from ookg.graph.grown import Batch, GrownGraph, Triple
from ookg.graph.layers import Layers
from ookg.graph.names import Names
from ookg.graph.vocabulary import Vocabulary
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Degree
from ookg.scoring.scorer import NewVectors, TranslationScorer
from ookg.types import IntArray

NONE = np.empty(0, dtype=np.int64)
FEW_CORRECTED = 8  # so many triples of training are counted out of the evidence one by one; for more it is counted anew


@dataclass(frozen=True, eq=False)
class State:
    """A model and what is given beside it. It is never changed.

    model: the known triples are those of training less the removed ones; removed: these, on ids
    entities, relations: labels, those of the model first; labels stay when their triples have gone (see `has_entity`)
    graph: the known triples and the given ones, on ids
    evidence: what the graph says beside the vectors; None until a question needs it
    groups: by names, which are numbers; group_of: the group of each new entity and, below 0, of each new relation
    everyone: the groups that have new entities, joined to few
    following: the number of the next triple; following_group: the name of the next group
    companions: the same given triples as the model's companions see them: their groups are their own, all else is this
        one's; without evidence
    """

    model: KnownModel
    preparation: Preparation
    entities: Vocabulary
    relations: Vocabulary
    graph: GrownGraph
    groups: Layers[int, Group] = field(default_factory=Layers)
    group_of: Layers[int, int] = field(default_factory=Layers)
    everyone: Everyone = field(default_factory=Everyone)
    following: int = 0
    following_group: int = 0
    evidence: GraphEvidence | None = None
    removed: frozenset[Triple] = frozenset()
    companions: tuple[State, ...] = ()

    @classmethod
    def nothing_given(cls, model: KnownModel, preparation: Preparation) -> State:
        """A model alone."""
        is_single = all(one.is_single for one in (preparation, *preparation.companions))
        graph = GrownGraph(model.index, model.statistics, counts_pairs=not is_single)
        alone = cls(model, preparation, model.entities, model.relations, graph)
        together = zip(model.companions, preparation.companions, strict=True)
        return replace(
            alone, companions=tuple(replace(alone, model=one, preparation=prepared) for one, prepared in together)
        )

    def find_names(self) -> Names:
        """What the ids of entities and relations are called."""
        return self.model.names

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
        return group is not None and bool(group.newcomers.counts[group.place(entity)] > 0)

    @cached_property
    def claim_evidence(self) -> ClaimEvidence:
        """What a judge looks at: the closed form by degree weights, and the graph; only of a state with evidence."""
        assert self.evidence is not None  # `ExtendedModel.verdicts` makes it before it judges
        model, given = self.model, self.graph.all_given.triples
        given = given[given[:, 1] < self.num_trained]
        newcomers = find_newcomers(model.embedding, model.statistics, model.known_triples, given, Degree())
        room = newcomers.with_room_for(len(self.entities) - self.num_known)
        return ClaimEvidence.of([TranslationScorer(room)], self.evidence, model.fitting)

    def new_vectors(self, relation: int) -> NewVectors:
        """The vectors of the new entities that have one, as a relation sees them."""
        return self._single_vectors if self.preparation.is_single else self._vectors_for(relation)

    @cached_property
    def _single_vectors(self) -> NewVectors:
        return self._vectors_for(0)

    def _vectors_for(self, relation: int) -> NewVectors:
        entities, vectors = [NONE], [torch.empty(0, self.model.embedding.geometry.entity_width)]
        for group in self.everyone:
            newcomers = group.present
            queries = None if self.preparation.is_single else np.full(len(newcomers), relation)
            entities.append(group.entities[newcomers])
            vectors.append(group.seen_in(self.graph.statistics).vectors(newcomers, queries).float().cpu())
        return NewVectors.of(np.concatenate(entities), torch.cat(vectors))

    @property
    def new_entities(self) -> IntArray:
        """The ids of the new entities, in the order in which their labels first came."""
        return _sorted_ids([group.entities[group.present] for group in self.groups.values()])

    @property
    def new_relations(self) -> IntArray:
        """The ids of the new relations, in the order in which their labels first came."""
        return _sorted_ids([group.relations for group in self.groups.values()])

    def labels(self, triple: Triple) -> tuple[str, str, str]:
        """A triple of ids in words."""
        head, relation, tail = triple
        return self.entities.label(head), self.relations.label(relation), self.entities.label(tail)


def _sorted_ids(parts: list[IntArray]) -> IntArray:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def with_triples(state: State, triples: IntArray) -> State:
    """With given triples that it does not have, (triples, 3); it has their labels."""
    graph, evidence = state.graph, state.evidence
    come = Batch(triples, np.arange(state.following, state.following + len(triples)))
    if graph.counts_anew(len(triples)):
        before = graph.all_given
        everything = Batch(
            np.concatenate([before.triples, come.triples]), np.concatenate([before.numbers, come.numbers])
        )
        graph, evidence = graph.with_batch(state.model.statistics, everything), None
    else:
        for number, triple in zip(come.numbers.tolist(), as_tuples(triples), strict=True):
            graph = graph.plus(triple, number)
            evidence = None if evidence is None else evidence.plus(triple, graph)
    grown = replace(state, graph=graph, evidence=evidence, following=state.following + len(triples))
    return _regrouped(grown, _new_nodes(state, triples), come, NONE)


def without_triples(state: State, triples: Sequence[Triple]) -> State:
    """Without some of the given triples."""
    graph, evidence = state.graph, state.evidence
    numbers = np.array([graph.number(triple) for triple in triples], dtype=np.int64)
    if graph.counts_anew(len(triples)):
        before = graph.all_given
        kept = ~np.isin(before.numbers, numbers)
        graph = graph.with_batch(state.model.statistics, Batch(before.triples[kept], before.numbers[kept]))
        evidence = None
    else:
        for triple in triples:
            graph = graph.minus(triple)
            evidence = None if evidence is None else evidence.minus(triple, graph)
    nodes = _new_nodes(state, np.array(triples, dtype=np.int64).reshape(-1, 3))
    return _regrouped(replace(state, graph=graph, evidence=evidence), nodes, Batch(), numbers)


def corrected(state: State, whole: KnownModel, gone: Sequence[Triple], back: Sequence[Triple] = ()) -> State:
    """Without some triples of training, and with some again that were removed.

    whole: the model as it was trained. What is given is prepared anew where the known end of a triple is touched.
    """
    changed = [*gone, *back]
    if not changed:
        return state
    if state.evidence is not None and 1 < len(changed) <= FEW_CORRECTED:  # what is counted is kept up one by one
        for triple in gone:
            state = corrected(state, whole, [triple])
        for triple in back:
            state = corrected(state, whole, [], [triple])
        return state
    removed = state.removed.difference(back).union(gone)
    model = whole.without(np.array(sorted(removed), dtype=np.int64).reshape(-1, 3))
    given = state.graph.all_given
    graph = replace(state.graph, index=model.index).with_batch(model.statistics, given)
    evidence = None
    if state.evidence is not None and len(changed) == 1:
        kept_up = state.evidence.minus(changed[0], graph) if gone else state.evidence.plus(changed[0], graph)
        evidence = replace(model.known_evidence.beside(graph), counted=kept_up.counted)
    touched = np.array(changed, dtype=np.int64)[:, [0, 2]]
    nodes = _new_nodes(state, given.triples[np.isin(given.triples[:, [0, 2]], touched).any(axis=1)])
    grown = replace(state, model=model, removed=removed, graph=graph, evidence=evidence)
    return _regrouped(grown, nodes, Batch(), NONE)


def with_evidence(state: State) -> State:
    """With the evidence of the known triples and the given ones."""
    if state.evidence is not None:
        return state
    return replace(state, evidence=state.model.known_evidence.beside(state.graph))


def _new_nodes(state: State, triples: IntArray) -> list[int]:
    """What is new in triples: entities, and below 0 relations."""
    nodes: list[int] = Nodes.of(triples, state.num_known, state.num_trained).nodes.tolist()
    return nodes


def _regrouped(state: State, nodes: Sequence[int], come: Batch, gone: IntArray) -> State:
    """The state with the groups of some nodes prepared; come: triples that are new; gone: the numbers of what left."""
    touched: dict[int, list[int]] = {}
    if state.group_of:
        for node in nodes:
            name = state.group_of.get(node)
            if name is not None:
                touched.setdefault(name, []).append(node)
    there = [come] if len(come) else []
    groups: dict[int, Group] = {}
    moved: list[int] = []
    for name, members in touched.items():
        group = state.groups[name]
        if group.is_crowd:
            rows = group.rows_with(np.array(members))
            there.append(Batch(group.triples[rows], group.numbers[rows]))
            groups[name] = group.without(np.array(members))
            moved += members
        else:
            there.append(Batch(group.triples, group.numbers))
            moved += group.nodes
    homes: dict[int, int] = {}
    following = state.following_group
    come_groups = list(_prepared_groups(state, _in_order(there, gone)))
    for group in come_groups:
        groups[following] = group
        homes |= dict.fromkeys(group.nodes, following)
        following += 1
    empty = [name for name in touched if name not in groups or not groups[name].nodes]
    return replace(
        state,
        groups=state.groups.changed({name: group for name, group in groups.items() if name not in empty}, empty),
        group_of=state.group_of.changed(homes, [node for node in moved if node not in homes]),
        everyone=state.everyone.changed(come_groups, np.array([node for node in moved if node >= 0], dtype=np.int64)),
        following_group=following,
        companions=tuple(
            _regrouped(_companion_of(state, one, model), nodes, come, gone)
            for one, model in zip(state.companions, state.model.companions, strict=True)
        ),
    )


def _companion_of(state: State, before: State, model: KnownModel) -> State:
    """The state of a companion with what has changed; its groups are those of before."""
    return replace(
        state,
        model=model,
        preparation=before.preparation,
        groups=before.groups,
        group_of=before.group_of,
        everyone=before.everyone,
        following_group=before.following_group,
        evidence=None,
        companions=(),
    )


def _in_order(batches: Sequence[Batch], gone: IntArray) -> Batch:
    """Triples in the order of their numbers, without some."""
    if len(batches) == 1 and not len(gone):
        return batches[0]
    triples = np.concatenate([np.empty((0, 3), dtype=np.int64), *(batch.triples for batch in batches)])
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *(batch.numbers for batch in batches)])
    order = np.argsort(numbers)
    order = order[~np.isin(numbers[order], gone)]
    return Batch(triples[order], numbers[order])


def _prepared_groups(state: State, given: Batch) -> Iterator[Group]:
    """The groups that triples make, each prepared; those that nothing ties to others as one, if they are many."""
    crowd, tied = Nodes.of(given.triples, state.num_known, state.num_trained).parts()
    for rows in [*([crowd] if len(crowd) else []), *tied]:
        preparation, refine = state.preparation, state.preparation.refine
        if refine is not None and refine.seconds is not None:  # that long for all of them together
            seconds = refine.seconds * len(rows) / (len(crowd) + sum(map(len, tied)))
            preparation = replace(preparation, refine=replace(refine, seconds=seconds))
        part = Batch(given.triples[rows], given.numbers[rows])
        yield prepared_group(state.model.embedding, state.graph.statistics, preparation, part, is_crowd=rows is crowd)
