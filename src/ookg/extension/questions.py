"""Answering questions from a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.combined import RankingWeights, answer_scores, reasons
from ookg.evidence.source import Asked, Spoken
from ookg.extension.answers import Answer, AnswerReason, Prediction, Reasons
from ookg.extension.lookup import entity_id, relation_id
from ookg.extension.reasons import (
    answer_reasons,
    explanation,
    first_link,
    reasons_by_source,
    trust_in,
    what_speaks,
)
from ookg.extension.shares import RIVALS, Compared
from ookg.extension.state import State
from ookg.extension.vectors import entity_vector, relation_vector
from ookg.scoring.nearest import best_places, gaps_to_all
from ookg.simulation.ways import Way, Ways
from ookg.types import Scores

# How many questions are scored against all entities in one pass.
QUESTIONS_AT_ONCE = 64


@dataclass(frozen=True)
class Question:
    """(head, relation, ?) or (?, relation, tail)."""

    relation: str
    head: str | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
        if (self.head is None) == (self.tail is None):
            raise InputError("give either a head or a tail; the other one is what is asked for")

    @property
    def asked(self) -> str:
        """The end that is given."""
        return self.head if self.head is not None else str(self.tail)

    @property
    def asks_tail(self) -> bool:
        """Whether the tail is the open end."""
        return self.head is not None


@dataclass(frozen=True)
class AnswerOptions:
    """How answers are ranked and which are shown.

    combine: rank by the vector together with direct links and habits of relations; None: as `Model.combines` says
    top: how many; drop_known: leave out what training or given triples state; new_answers: newcomers are answers too
    explain: say for each answer what speaks for it against those that rank next (`Answer.shares`)
    """

    combine: bool | RankingWeights | None = None
    top: int = 10
    drop_known: bool = True
    new_answers: bool = True
    explain: bool = False

    def __post_init__(self) -> None:
        if self.top < 1:
            raise InputError(f"top {self.top}; ask for 1 or more answers")


@dataclass(frozen=True)
class Ranking:
    """What the answers to a question are ranked by.

    ways: by the asked newcomer's number of triples; known entities answer by their vectors
    weights: where there are no ways, how evidence is weighed; None if the vector alone ranks
    """

    ways: Ways | None
    weights: RankingWeights | None = None

    @classmethod
    def of(cls, state: State, options: AnswerOptions) -> Ranking:
        """By the preparation's ways, unless the options say whether evidence counts."""
        is_refined = state.preparation.refine is not None
        if options.combine is None and state.preparation.ways is not None:
            return cls(state.preparation.ways)
        combine = state.model.combines(is_refined) if options.combine is None else options.combine
        return cls(None, state.model.ranking_weights(combine, is_refined))

    @property
    def needs_evidence(self) -> bool:
        """Whether the state must have evidence."""
        if self.ways is None:
            return self.weights is not None
        return any(way.evidence_weights is not None for way in self.ways)

    def way(self, state: State, entity: int) -> Way | None:
        """How the questions about a newcomer are answered, if that depends on its number of triples."""
        group = None if self.ways is None else state.group(entity)
        return None if group is None or self.ways is None else group.way(entity, self.ways)


def answered(state: State, questions: Sequence[Question], options: AnswerOptions, ranking: Ranking) -> list[Prediction]:
    """The answers to many questions; they pass over the entities together. ranking: as `Ranking.of` says"""
    asked = [
        Asked(entity_id(state, question.asked), relation_id(state, question.relation), question.asks_tail)
        for question in questions
    ]
    answers = []
    for start in range(0, len(asked), QUESTIONS_AT_ONCE):
        part = asked[start : start + QUESTIONS_AT_ONCE]
        of_models = [_distance_scores(model, part) for model in (state, *state.companions)]
        for place, one in enumerate(part):
            vectors = [scores[place] for scores in of_models]
            answers.append(_prediction(state, one, vectors, options, ranking))
    return answers


def _distance_scores(state: State, asked: Sequence[Asked]) -> list[Scores]:
    """For each question -D with each entity, known and new, at the open end; -inf where there is no vector."""
    points = [_point(state, one) for one in asked]
    all_scores = []
    for one, point, gaps in zip(asked, points, _known_gaps(state, asked, points), strict=True):
        scores = np.empty(len(state.entities), dtype=np.float32)
        np.negative(gaps, out=scores[: len(gaps)])
        scores[len(gaps) :] = -np.inf
        _score_newcomers(state, one, point, scores)
        all_scores.append(scores)
    return all_scores


def _point(state: State, asked: Asked) -> Tensor:
    """(1, space) where the answer should be."""
    geometry, relation = state.model.embedding.geometry, relation_vector(state, asked.relation)
    vector = entity_vector(state, asked.entity, asked.relation)
    return geometry.solve_tail(vector, relation) if asked.asks_tail else geometry.solve_head(relation, vector)


def _known_gaps(state: State, asked: Sequence[Asked], points: Sequence[Tensor]) -> list[Scores]:
    """For each question the gaps from its point to all known entities."""
    embedding = state.model.embedding
    geometry = embedding.geometry
    if not geometry.projects:
        return list(gaps_to_all(embedding, torch.cat(list(points))))
    gaps = []
    for one, point in zip(asked, points, strict=True):
        seen = geometry.project(embedding.entities, relation_vector(state, one.relation))
        gaps.append(geometry.gap_to_all(point, seen)[0].float().cpu().numpy())
    return gaps


def _score_newcomers(state: State, asked: Asked, point: Tensor, scores: Scores) -> None:
    """Write -D with each new entity into the scores."""
    geometry = state.model.embedding.geometry
    for group in state.everyone:
        if len(group.entities) == 1 and group.entities[0] == asked.entity and not _may_be_itself(state, asked):
            continue
        relation = relation_vector(state, asked.relation)
        newcomers = np.arange(len(group.entities))
        queries = np.full(len(newcomers), asked.relation) if state.preparation.weights.needs_query else None
        vectors = group.seen_in(state.graph.statistics).vectors(newcomers, queries)
        gaps = geometry.gap(point, geometry.project(vectors, relation)).float().cpu().numpy()
        scores[group.entities] = np.where(np.isnan(gaps), -np.inf, -gaps)


def _may_be_itself(state: State, asked: Asked) -> bool:
    """Whether the asked entity can be its own answer: training often has it so over the relation, or it is stated."""
    if asked.relation < state.num_trained and state.model.loops[asked.relation]:
        return True
    return asked.entity in state.graph.answers(asked.entity, asked.relation, asks_tail=asked.asks_tail)


def _prediction(
    state: State, asked: Asked, vectors: Sequence[Scores], options: AnswerOptions, ranking: Ranking
) -> Prediction:
    """vectors: -D with each entity by the model and each companion, overwritten; NaN where one has no vector for it"""
    num_known, entity = state.num_known, asked.entity
    way = ranking.way(state, entity)
    weights = ranking.weights if way is None else way.evidence_weights
    spoken = _spoken(state, asked, weights)
    scores, *others = vectors
    counting = [number for number, other in enumerate(others) if not np.isnan(other[:num_known]).any()]
    together = [scores, *(others[number] for number in counting)]
    counts = RankingWeights.alone() if weights is None and len(together) > 1 else weights
    spreads = _spreads(together, num_known, counts) if options.explain else []
    if counts is not None:
        scores = answer_scores([torch.from_numpy(one) for one in together], num_known, counts, spoken).numpy()
    if not options.new_answers:
        scores[num_known:] = -np.inf
    stated = state.graph.answers(entity, asked.relation, asks_tail=asked.asks_tail)
    if not _may_be_itself(state, asked):
        scores[entity] = -np.inf
    if options.drop_known:
        scores[stated] = -np.inf
    best = best_places(scores, options.top + (RIVALS if options.explain else 0))
    explained: Sequence[tuple[AnswerReason, ...]] = ()
    compared: Compared | None = None
    if options.explain:
        compared = Compared(
            [state, *(state.companions[number] for number in counting)],
            spreads,
            asked,
            best,
            scores[best],
            counts,
            spoken,
        )
        explained = what_speaks(state, asked, best[: options.top])
        best = best[: options.top]
    known = set() if options.drop_known else set(best[np.isin(best, stated)].tolist())
    speaks = reasons(spoken, weights, best) if weights is not None else [[] for _ in best]
    rows = zip(best.tolist(), scores[best].tolist(), state.entities.select(best), speaks, strict=True)
    answers = [
        Answer(
            label,
            score,
            rank,
            is_known=place in known,
            is_new=place >= num_known,
            link=first_link(state, place, mine),
            reasons=explained[rank - 1] if compared is not None else answer_reasons(state, asked, place, mine),
            shares=() if compared is None else compared.of(rank - 1, reasons_by_source(state, asked, place, spoken)),
        )
        for rank, (place, score, label, mine) in enumerate(rows, start=1)
    ]
    if entity < num_known:
        return Prediction(answers, [], [], None)
    made_of = Reasons(partial(explanation, state, entity, asked.relation))
    trust = trust_in(state, entity, combine=weights is not None if way is None else None)
    return Prediction(answers, made_of, [], trust, None if way is None else way.in_words(len(together)))


def _spreads(vectors: Sequence[Scores], num_known: int, weights: RankingWeights | None) -> list[float]:
    """What each model's distances are divided by before they are weighed."""
    if weights is None:
        return [1.0] * len(vectors)
    return [float(np.std(one[:num_known], dtype=np.float64)) if num_known > 1 else 1.0 for one in vectors]


def _spoken(state: State, asked: Asked, weights: RankingWeights | None) -> dict[str, Spoken]:
    """What the graph says about the answers; nothing if the vector alone ranks."""
    if weights is None:
        return {}
    assert state.evidence is not None  # `answered` with weights is asked of a state with evidence
    return state.evidence.of_question(asked, weights)
