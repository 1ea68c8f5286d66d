"""What is behind an answer: the triples behind a vector, how far to trust it, and what could not be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import overload

import numpy as np

from ookg.evidence.combined import Speaks, reasons
from ookg.evidence.company import Company, CompanyWhy
from ookg.evidence.encoder import Encoder
from ookg.evidence.learned import LearnedWhy
from ookg.evidence.likeness import LikenessWhy
from ookg.evidence.paths import PathWhy
from ookg.evidence.source import Asked, Spoken, Why
from ookg.extension.answers import (
    AnswerReason,
    ByCompany,
    ByEncoder,
    ByLikeness,
    ByLink,
    ByNetwork,
    ByPath,
    LinkReason,
    Reason,
    Step,
)
from ookg.extension.groups import as_tuples
from ookg.extension.state import State
from ookg.graph.grown import Batch
from ookg.newcomers.notes import Findings
from ookg.newcomers.reducer import Uniform
from ookg.simulation.trust import Trust
from ookg.simulation.ways import DEFAULT_WAYS
from ookg.types import IntArray


def trust_in(state: State, entity: int, *, combine: bool | None) -> Trust | None:
    """How far to trust a new entity's vector; None for a known one. combine: None: as the preparation's ways have it"""
    group = state.group(entity)
    if group is None:
        return None
    if (entity, combine) not in group.trusts:  # two threads may both compute it, with the same result
        place, refine = np.array([group.place(entity)]), state.preparation.refine is not None
        chosen = combine is None and state.preparation.ways is not None
        table = state.model.trust(group.newcomers, place, refine=refine, combine=bool(combine), chosen=chosen)
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
    behind = []
    for part, neighbor, weights in parts:
        rows, _ = part.rows_of(newcomer)
        behind += [
            Reason(label, relation_label, "out" if is_head else "in", float(weight))
            for label, relation_label, is_head, weight in zip(
                state.entities.select(neighbor[rows]),
                state.relations.select(group.relation_ids(part.relation[rows])),
                part.is_head[rows],
                weights,
                strict=True,
            )
        ]
    return sorted(behind, key=lambda reason: -reason.weight)


def best_link(state: State, answer: int, speaks: Sequence[Speaks]) -> LinkReason | None:
    """The link behind what adds most to the score of an answer; None where nothing adds to it."""
    best = max((one for one in speaks if one.why.link >= 0), key=lambda one: one.worth, default=None)
    if best is None or best.worth <= 0:
        return None
    why = best.why
    step = step_of(state, why.link, why.other)
    return LinkReason(step.relation, step.direction, why.strength, None if why.other == answer else step.entity)


def answer_reasons(state: State, asked: Asked, answer: int, speaks: Sequence[Speaks]) -> tuple[AnswerReason, ...]:
    """What speaks for an answer, that which adds most to its score first; what takes away from it is left out."""
    speaks = sorted((one for one in speaks if one.worth > 0), key=lambda one: -one.worth)
    return tuple(_answer_reason(state, step_of(state, asked.code, answer), one.why) for one in speaks)


def reasons_by_source(state: State, asked: Asked, answer: int, spoken: Mapping[str, Spoken]) -> dict[str, AnswerReason]:
    """What speaks for an answer, by the name of the source that says it."""
    step, by_source = step_of(state, asked.code, answer), {}
    for name, said in spoken.items():
        (why,) = said.why(np.array([answer]))
        if why is not None:
            by_source[name] = _answer_reason(state, step, why)
    return by_source


def what_speaks(state: State, asked: Asked, answers: IntArray) -> list[tuple[AnswerReason, ...]]:
    """What the graph says for some answers, whether it counted for their rank or not; the state must have evidence."""
    assert state.evidence is not None  # `ExtendedModel` makes it before it explains
    network = state.evidence.network
    ways = DEFAULT_WAYS if network is None else DEFAULT_WAYS.with_learned(network.weights_at)
    weights, company = ways[0].ranking, state.evidence[Company.name]
    said_of_all = state.evidence.with_new(state.new_vectors).of_question(asked, weights)
    speaks = reasons(said_of_all, weights, answers)
    said = []
    for answer, mine in zip(answers.tolist(), speaks, strict=True):
        step = step_of(state, asked.code, answer)
        more = company.links_for(asked, answer) if isinstance(company, Company) else []
        counted = answer_reasons(state, asked, answer, mine)
        said.append(tuple(dict.fromkeys([*counted, *(_answer_reason(state, step, why) for why in more)])))
    return said


def _answer_reason(state: State, answer: Step, why: Why) -> AnswerReason:
    if isinstance(why, LearnedWhy):
        by = ByEncoder if why.part == Encoder.name else ByNetwork
        return by(answer, answer, why.strength, why.rank)
    if isinstance(why, LikenessWhy):
        shared, back = step_of(state, why.shared, why.end), step_of(state, why.back, why.asked)
        return ByLikeness(shared, answer, back, why.count, why.having)
    link = step_of(state, why.link, why.other)
    match why:
        case CompanyWhy():
            return ByCompany(link, answer, why.count, why.having, why.sharing)
        case PathWhy():
            second = replace(step_of(state, why.second, why.other), entity=answer.entity)
            return ByPath(link, answer, second, why.hits, why.reached)
        case _:
            return ByLink(link, answer, why.strength)


def step_of(state: State, link: int, other: int) -> Step:
    """A link, from its directed relation and other end."""
    return Step(state.relations.label(link // 2), "in" if link % 2 else "out", state.entities.label(other))


def notes(state: State) -> list[str]:
    """Which given triples make no vector, and which relations they give one, in words."""
    unused: dict[str, list[Batch]] = defaultdict(list)  # by kind
    made: list[tuple[int, int]] = []
    lacking: list[tuple[int, int]] = []
    given = state.graph.all_given
    known = (given.triples < [state.num_known, state.num_trained, state.num_known]).all(axis=1)
    unused["without_newcomer"].append(Batch(given.triples[known], given.numbers[known]))
    # Ids would give away in which calls things came; the order of the triples does not.
    for group in state.groups.values():
        for kind, rows in vars(group.newcomers.unused).items():
            here = rows
            if group.is_here is not None:
                here = rows[group.places(group.triples[rows, 0]) >= 0]  # loops: a crowd has nothing else
            if len(here):
                unused[kind].append(Batch(group.triples[here], group.numbers[here]))
        together = group.newcomers.together
        if together is not None:
            made += zip(group.relations_came[together.made], group.relations[together.made], strict=True)
        without = group.present[group.newcomers.counts[group.present] == 0]
        lacking += zip(group.came[without].tolist(), group.entities[without].tolist(), strict=True)
    findings = Findings(
        **{kind: _Labelled(state, ids) for kind, ids in unused.items()},
        made_relations=state.relations.select([number for _, number in sorted(made)]),
        lacking=state.entities.select([number for _, number in sorted(lacking)]),
    )
    return list(findings.in_words(state.model.embedding.geometry, makes_relations=True))


class _Labelled(Sequence[tuple[str, str, str]]):
    """Given triples in the order in which they came; labels are made for those that are read."""

    def __init__(self, state: State, batches: list[Batch]) -> None:
        self.state, numbers = state, np.concatenate([batch.numbers for batch in batches])
        self.triples = np.concatenate([batch.triples for batch in batches])[np.argsort(numbers)]

    def __len__(self) -> int:
        return len(self.triples)

    @overload
    def __getitem__(self, place: int) -> tuple[str, str, str]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[str, str, str]]: ...
    def __getitem__(self, place: int | slice) -> tuple[str, str, str] | list[tuple[str, str, str]]:
        if isinstance(place, slice):
            return [self.state.labels(triple) for triple in as_tuples(self.triples[place])]
        return self[place : place + 1 or None][0]
