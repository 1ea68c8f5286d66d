"""Everything that is likely about an entity: the answers to all questions over relations that fit it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from ookg.errors import InputError
from ookg.extension.answers import LikelyAnswer, LikelyAnswers
from ookg.extension.lookup import entity_id
from ookg.extension.question import Question
from ookg.extension.questions import AnswerOptions, Ranking, answered, no_probability
from ookg.extension.state import State
from ookg.graph.fitting import LEAST_FIT
from ookg.simulation.likelihood import DEFAULT_LIKELIHOOD

End = Literal["head", "tail", "both"]
MOST_RELATIONS = 100  # directed ones that are asked for, those that fit best


def fitting_questions(state: State, label: str, end: End = "both") -> list[Question]:
    """The questions about an entity over the directed relations that fit it, the best fitting first.

    end: where the entity stands
    """
    fit = state.model.fitting.fit(state.graph.links_of(entity_id(state, label))[0])
    codes = np.flatnonzero(fit >= LEAST_FIT)
    if end != "both":
        codes = codes[codes % 2 == (end == "tail")]
    codes = codes[np.argsort(-fit[codes], kind="stable")][:MOST_RELATIONS]
    relations = state.relations.select(codes // 2)
    return [
        Question(relation, tail=label) if code % 2 else Question(relation, head=label)
        for code, relation in zip(codes.tolist(), relations, strict=True)
    ]


def likely_answers(state: State, label: str, options: AnswerOptions, ranking: Ranking, end: End) -> LikelyAnswers:
    """The best answers to all of these together, in order of their probability.

    Where that was not measured, they are ordered by what was measured on another graph, and have none.
    """
    if end not in get_args(End):
        raise InputError(f"end {end!r}; choose {', '.join(get_args(End))}")
    entity = entity_id(state, label)
    weights, way = ranking.evidence_weights(state, entity), ranking.way(state, entity)
    is_measured = ranking.likelihood(state, entity, weights, 1 + len(state.companions)) is not None
    if not is_measured and options.min_probability is not None:
        raise InputError(no_probability(state, entity, way))
    questions = fitting_questions(state, label, end)
    if options.min_probability is None:
        ranking = replace(ranking, unmeasured=DEFAULT_LIKELIHOOD)
    # Another likelihood is for fewer models, where a companion has no vector for the entity.
    pairs = [
        (prediction.question, answer, prediction.is_measured)
        for prediction in answered(state, questions, options, ranking)
        for answer in prediction.answers
        if prediction.question is not None
    ]
    pairs.sort(key=lambda pair: -(pair[1].probability or 0.0))
    likely: dict[tuple[str, str, str], LikelyAnswer] = {}  # a triple that answers two questions is there once
    for question, answer, is_measured in pairs:
        rank, probability = len(likely) + 1, answer.probability if is_measured else None
        one = LikelyAnswer(question, replace(answer, rank=rank, probability=probability))
        likely.setdefault(one.triple, one)
    shown = list(likely.values())[: options.top]
    notes = []
    if shown and all(one.answer.probability is None for one in shown):
        notes = [f"in an order by experience with another graph; {no_probability(state, entity, way)}"]
    return LikelyAnswers(shown, state.find_names, notes)
