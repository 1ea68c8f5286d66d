"""Why an answer is one: the triples behind a vector, how far to trust it, and what could not be used."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from ookg.extension.answers import Reason
from ookg.extension.groups import as_tuples
from ookg.extension.state import State
from ookg.graph.grown import Triple
from ookg.newcomers.notes import Findings
from ookg.newcomers.reducer import Uniform
from ookg.simulation.trust import Trust


def trust_in(state: State, entity: int, *, combine: bool) -> Trust | None:
    """How far to trust a new entity's vector; None for a known one."""
    group = state.group(entity)
    if group is None:
        return None
    if (entity, combine) not in group.trusts:  # two threads may both find it, and find the same
        place, refine = np.array([group.place(entity)]), state.preparation.refine is not None
        table = state.model.trust(group.newcomers, place, refine=refine, combine=combine)
        group.trusts[entity, combine] = next(iter(table))
    return group.trusts[entity, combine]


def explanation(state: State, entity: int, relation: int) -> list[Reason]:
    """The triples that made a new entity's vector as a question over a relation sees it, heaviest first."""
    group = state.group(entity)
    if group is None:
        return []
    newcomers = group.seen_in(state.graph.statistics)
    newcomer, query = np.array([group.place(entity)]), np.array([relation])
    if newcomers.refined is not None and newcomers.weights.needs_query:
        newcomers = replace(newcomers, weights=Uniform())  # what the fit started from
    support, together = newcomers.support, newcomers.together
    parts = [(support, support.neighbor, newcomers.row_weights(newcomer, query))]
    if together is not None:
        others = group.entities[together.ties.members[together.peers.neighbor]]
        parts.append((together.peers, others, newcomers.peer_weights(newcomer, query)))
    reasons = []
    for part, neighbor, weights in parts:
        rows, _ = part.rows_of(newcomer)
        reasons += [
            Reason(label, relation_label, "out" if is_head else "in", float(weight))
            for label, relation_label, is_head, weight in zip(
                state.entities.select(neighbor[rows]),
                state.relations.select(group.relation_ids(part.relation[rows])),
                part.is_head[rows],
                weights,
                strict=True,
            )
        ]
    return sorted(reasons, key=lambda reason: -reason.weight)


def notes(state: State) -> list[str]:
    """What the given triples have that makes no vector, and the relations that they give one, in words."""
    unused: dict[str, list[tuple[int, Triple]]] = defaultdict(list)  # by kind, with the triples' numbers
    made: list[int] = []
    lacking: list[int] = []
    for triple, number in state.graph.in_order():
        if not state.new_in(triple):
            unused["without_newcomer"].append((number, triple))
    # Ids would tell in which calls things came; the order of the triples does not.
    for group in sorted(state.groups.values(), key=lambda group: group.numbers[0]):
        for kind, rows in vars(group.newcomers.unused).items():
            unused[kind] += zip(group.numbers[rows].tolist(), as_tuples(group.triples[rows]), strict=True)
        together = group.newcomers.together
        if together is not None:
            made += group.relations[together.made].tolist()
        lacking += group.entities[~group.newcomers.representable].tolist()
    findings = Findings(
        **{kind: [state.labels(triple) for _, triple in sorted(found)] for kind, found in unused.items()},
        made_relations=state.relations.select(made),
        lacking=state.entities.select(lacking),
    )
    return list(findings.in_words(state.model.embedding.geometry, makes_relations=True))
