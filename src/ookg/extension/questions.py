"""Answering questions from a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.combined import RankingWeights, answer_scores, reasons
from ookg.evidence.source import Asked, Spoken
from ookg.extension.answers import Answer, AnswerReason, Prediction, Reasons
from ookg.extension.groups import Group
from ookg.extension.lookup import entity_id, relation_id
from ookg.extension.question import Question
from ookg.extension.reasons import (
    answer_reasons,
    best_link,
    explanation,
    reasons_by_source,
    trust_in,
    what_speaks,
)
from ookg.extension.shares import RIVALS, Compared
from ookg.extension.state import State
from ookg.extension.vectors import entity_vector, relation_vector
from ookg.scoring.approximate import MEASURED_TOP, ApproximateIndex
from ookg.scoring.nearest import best_places, gaps_to_all
from ookg.simulation.likelihood import ANSWERS, Likelihood, Standings, answer_features, asked_about
from ookg.simulation.ways import Way, Ways, with_evidence
from ookg.types import BoolArray, FloatArray, IntArray, Scores

__all__ = ["AnswerKeywords", "AnswerOptions", "KnownAnswers", "Question", "Ranking", "answer_options", "answered"]

KnownAnswers = Literal["drop", "mark"]  # whether answers that training or given triples state are left out, or marked

# What a new answer to a question about a known entity loses: so much of the spread of gaps between known entities, and
# of its hubness. Few such answers are new, and a vector that is a mean lies near to whatever is asked.
HELD_BACK, HUBNESS_OFF = 1.5, 0.5
# How many questions are scored against all entities in one pass.
QUESTIONS_AT_ONCE = 64


@dataclass(frozen=True)
class AnswerOptions:
    """How answers are ranked and which are shown.

    combine: rank by the vector together with direct links and habits of relations, or by such weights; None: newcomers
        as `Model.ways` or `Model.combines` say, known entities as `Model.known_ranking` does
    top: how many; drop_known: leave out what training or given triples state; new_answers: newcomers are answers too
    min_probability: leave out answers that are less likely to be right
    blank_nodes: RDF nodes without a name are answers too
    explain: say for each answer what speaks for it against those that rank next (`Answer.shares`)
    approximate: score what this index of the model's vectors names, and not all known entities, where vectors alone
        rank, and for known entities, from which evidence is left out then: not where evidence, companions,
        `min_probability` or `explain` need more, nor for more than ten answers. What is answered by it says so
        (`Prediction.recall`), and has no probability
    """

    combine: bool | RankingWeights | None = None
    top: int = 10
    drop_known: bool = True
    new_answers: bool = True
    min_probability: float | None = None
    blank_nodes: bool = False
    explain: bool = False
    approximate: ApproximateIndex | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        top, index = cast(object, self.top), cast(object, self.approximate)  # as whoever calls has them
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
            raise InputError(f"top {top!r}; ask for 1 or more answers")
        if index is not None and not isinstance(index, ApproximateIndex):
            remedy = "give the index, which `ookg.open(directory).approximate` reads"
            raise InputError(f"approximate {index!r} is no index; {remedy}")
        least = cast(object, self.min_probability)
        if least is not None and not (isinstance(least, int | float | np.number) and 0 <= least <= 1):
            raise InputError(f"a probability of {least}; give one from 0 to 1")


class AnswerKeywords(TypedDict, total=False):
    """What `predict` and its like take by keyword: the values of `AnswerOptions`.

    known_answers: "drop" or "mark" those that training or given triples state, as `drop_known` does
    """

    combine: bool | RankingWeights | None
    top: int
    known_answers: KnownAnswers
    new_answers: bool
    min_probability: float | None
    blank_nodes: bool
    explain: bool
    approximate: ApproximateIndex | None


def answer_options(options: AnswerOptions | None = None, **changes: Unpack[AnswerKeywords]) -> AnswerOptions:
    """The options, by default those of `AnswerOptions`, with what is said by keyword instead."""
    if not isinstance(options, AnswerOptions | None):
        raise InputError(f"options {options!r}; give them by keyword, such as top=3, or as ookg.AnswerOptions(top=3)")
    values: dict[str, Any] = dict(changes)
    names = list(AnswerKeywords.__annotations__)
    for name in values:
        if name not in names and name not in AnswerOptions.__dataclass_fields__:
            raise InputError(f"unknown option {name!r}; the options of an answer are {', '.join(names)}")
    if "known_answers" in values:
        known = values.pop("known_answers")
        if known not in get_args(KnownAnswers):
            raise InputError(f"known_answers {known!r}; choose {' or '.join(get_args(KnownAnswers))}")
        values["drop_known"] = known == "drop"
    return replace(options or AnswerOptions(), **values)


@dataclass(frozen=True)
class Ranking:
    """What the answers to a question are ranked by.

    ways: by the asked newcomer's number of triples
    weights: where there are no ways, how evidence is weighed for newcomers; None if the vector alone ranks
    known: how evidence is weighed for known entities; None if their vectors alone rank
    is_said: whether the options say what counts, for all
    unmeasured: what says how likely answers are where that was not measured; None: nothing does
    """

    ways: Ways | None
    weights: RankingWeights | None = None
    known: RankingWeights | None = None
    is_said: bool = False
    unmeasured: Likelihood | None = None

    @classmethod
    def of(cls, state: State, options: AnswerOptions) -> Ranking:
        """By the preparation's ways and what is stored for known entities, unless the options say what counts."""
        model, ways, is_refined = state.model, state.preparation.ways, state.preparation.refine is not None
        if options.combine is not None:
            weights = model.ranking_weights(options.combine, is_refined)
            return cls(None, weights, weights, is_said=True)
        weights = None if ways is not None else model.ranking_weights(model.combines(is_refined), is_refined)
        return cls(ways, weights, model.known_ranking)

    @property
    def needs_evidence(self) -> bool:
        """Whether the state must have evidence."""
        ways = () if self.ways is None else tuple(way.evidence_weights for way in self.ways)
        return any(weights is not None for weights in (self.weights, self.known, *ways))

    def evidence_weights(self, state: State, entity: int) -> RankingWeights | None:
        """How evidence is weighed in questions about an entity; None if its vector alone ranks."""
        if entity < state.num_known:
            has_evidence = self.is_said or len(state.graph.links_of(entity)[0])
            return self.known if has_evidence else None  # it may have come with a vector and no triples
        way = self.way(state, entity)
        return self.weights if way is None else way.evidence_weights

    def holds_back(self, state: State, entity: int) -> bool:
        """Whether new answers to questions about an entity lose something: about a known one, where nothing is said."""
        return self.ways is not None and entity < state.num_known

    def way(self, state: State, entity: int) -> Way | None:
        """How the questions about a newcomer are answered, if that depends on its number of triples."""
        group = None if self.ways is None else state.group(entity)
        return None if group is None or self.ways is None else group.way(entity, self.ways)

    def in_words(self, state: State, entity: int, models: int) -> str | None:
        """What answers questions about an entity, where that was not said. models: how many answer together"""
        if (way := self.way(state, entity)) is not None:
            return way.in_words(models)
        has_choice = self.ways is not None or state.model.known_ranking is not None
        if self.is_said or entity >= state.num_known or not has_choice:
            return None
        trained = "trained vector" if entity < state.num_known - state.model.given_vectors else "vector"
        vector = trained if models == 1 else f"{trained}s of {models} models"
        return with_evidence(vector, self.evidence_weights(state, entity))

    def likelihood(self, state: State, entity: int, weights: RankingWeights | None, models: int) -> Likelihood | None:
        """How likely answers about an entity are right. weights: of the evidence that counts, if any does"""
        if entity < state.num_known:
            fitted = state.model.known_likelihood(weights, models=models)
            # What fits an entity is known by its triples: one that came with a vector alone was not measured.
            return fitted if fitted is not None and len(state.graph.links_of(entity)[0]) else None
        is_refined = state.preparation.refine is not None
        combine, chosen = weights is not None, self.ways is not None
        return state.model.likelihood(refine=is_refined, combine=combine, chosen=chosen, models=models)


def answered(state: State, questions: Sequence[Question], options: AnswerOptions, ranking: Ranking) -> list[Prediction]:
    """The answers to many questions; they pass over the entities together. ranking: as `Ranking.of` says"""
    asked = [
        Asked(entity_id(state, question.asked), relation_id(state, question.relation), question.asks_tail)
        for question in questions
    ]
    by_index = ((place, _by_index(state, one, options, ranking)) for place, one in enumerate(asked))
    by_place = {place: prediction for place, prediction in by_index if prediction is not None}
    others = [place for place in range(len(asked)) if place not in by_place]
    for start in range(0, len(others), QUESTIONS_AT_ONCE):
        places = others[start : start + QUESTIONS_AT_ONCE]
        part = [asked[place] for place in places]
        of_models = [_distance_scores(model, part, ranking) for model in (state, *state.companions)]
        for number, place in enumerate(places):
            vectors = [scores[number] for scores in of_models]
            by_place[place] = _prediction(state, asked[place], vectors, options, ranking)
    return [replace(by_place[place], question=question) for place, question in enumerate(questions)]


def _by_index(state: State, asked: Asked, options: AnswerOptions, ranking: Ranking) -> Prediction | None:
    """The best among all newcomers and what an index names; None where only all entities will do."""
    index = options.approximate
    if index is None or not _index_serves(state, options) or ranking.unmeasured is not None:
        return None
    if not ranking.is_said:  # of known entities an index knows no evidence
        ranking = replace(ranking, known=None)
    if ranking.evidence_weights(state, asked.entity) is not None:
        return None
    point = _point(state, asked)
    known = index.candidates(point)
    parts = [(known, -index.gaps(point, known)), *_newcomer_scores(state, asked, point, ranking)]
    entities, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(entities)  # among equals the first one wins, as everywhere
    entities, scores = entities[order], scores[order]
    stated = _stated(state, asked)
    for left_out in _left_out(state, asked, options, stated):
        scores[np.isin(entities, left_out)] = -np.inf
    if not options.new_answers:
        scores[entities >= state.num_known] = -np.inf
    best = best_places(scores, options.top)
    if len(best) < options.top:  # what is left out has taken too many
        return None
    places = entities[best]
    rows = zip(places.tolist(), scores[best].tolist(), state.entities.select(places), strict=True)
    known_before = set(places[np.isin(places, stated)].tolist())
    answers = [
        Answer(label, score, rank, is_known=place in known_before, is_new=place >= state.num_known)
        for rank, (place, score, label) in enumerate(rows, start=1)
    ]
    return replace(_shown(state, asked, answers, ranking), recall=index.recall)


def _index_serves(state: State, options: AnswerOptions) -> bool:
    """Whether the options have an index of the model's vectors, and ask for nothing that needs all scores."""
    index = options.approximate
    if index is None or index.embedding is not state.model.embedding or state.companions:
        return False
    return not options.explain and options.top <= MEASURED_TOP and options.min_probability is None


def _distance_scores(state: State, asked: Sequence[Asked], ranking: Ranking) -> list[Scores]:
    """For each question -D with each entity, known and new, at the open end; -inf where there is no vector.

    What new answers lose is taken off.
    """
    points = [_point(state, one) for one in asked]
    all_scores = []
    for one, point, gaps in zip(asked, points, _known_gaps(state, asked, points), strict=True):
        scores = np.empty(len(state.entities), dtype=np.float32)
        np.negative(gaps, out=scores[: len(gaps)])
        scores[len(gaps) :] = -np.inf
        for newcomers, theirs in _newcomer_scores(state, one, point, ranking):
            scores[newcomers] = theirs
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


def _newcomer_scores(state: State, asked: Asked, point: Tensor, ranking: Ranking) -> Iterator[tuple[IntArray, Scores]]:
    """New entities, each once, and -D with each, less what it loses; -inf where there is no vector."""
    geometry = state.model.embedding.geometry
    stated = _stated(state, asked) if ranking.holds_back(state, asked.entity) else None
    for group in state.everyone:
        if len(group.entities) == 1 and group.entities[0] == asked.entity and not _may_be_itself(state, asked):
            continue
        relation = relation_vector(state, asked.relation)
        newcomers = group.present
        queries = np.full(len(newcomers), asked.relation) if state.preparation.weights.needs_query else None
        vectors = group.seen_in(state.graph.statistics).vectors(newcomers, queries)
        gaps = geometry.gap(point, geometry.project(vectors, relation)).float().cpu().numpy()
        if stated is not None:
            gaps += _held_back(state, group, asked.relation, stated)[newcomers].numpy()
        yield group.entities[newcomers], np.where(np.isnan(gaps), -np.inf, -gaps)


def _held_back(state: State, group: Group, relation: int, stated: IntArray) -> Tensor:
    """(entities,) what a group's entities lose as answers about known ones; nothing where that is stated."""
    embedding = state.model.embedding
    if not embedding.geometry.has_entity_gap:
        return torch.zeros(len(group.entities))
    held_back = (HELD_BACK * embedding.gap_spread + HUBNESS_OFF * _group_hubness(state, group, relation)).float()
    held_back[np.isin(group.entities, stated)] = 0.0
    return held_back


def _stated(state: State, asked: Asked) -> IntArray:
    """The answers that training or given triples state."""
    return state.graph.answers(asked.entity, asked.relation, asks_tail=asked.asks_tail)


def _of_new(state: State, of_group: Callable[[Group], Tensor]) -> Tensor:
    """(new entities,) numbers of all groups; 0 for those that are in none."""
    numbers = torch.zeros(len(state.entities) - state.num_known, dtype=state.model.embedding.dtype)
    for group in state.everyone:
        newcomers = group.present
        numbers[group.entities[newcomers] - state.num_known] = of_group(group)[newcomers].to(numbers.dtype)
    return numbers


def _hubness(models: Sequence[State], relation: int, number: int) -> Tensor:
    """(new entities,) how much nearer than usual each lies to everything under a model; 0 without a vector."""
    state = models[number]
    return _of_new(state, lambda group: _group_hubness(state, group, relation))


def _lost(state: State, asked: Asked, ranking: Ranking) -> Tensor:
    """(new entities,) what each loses as an answer to a question, in the unit of distances."""
    if not ranking.holds_back(state, asked.entity):
        return torch.zeros(len(state.entities) - state.num_known)
    stated = _stated(state, asked)
    return _of_new(state, lambda group: _held_back(state, group, asked.relation, stated))


def _group_hubness(state: State, group: Group, relation: int) -> Tensor:
    """(entities,) that of a group's entities. Vectors that a relation sees in its own way change as statistics do."""
    if group.hubness:
        return group.hubness[0]
    is_single = state.preparation.is_single
    queries = None if is_single else np.full(len(group.entities), relation)
    vectors = group.seen_in(state.graph.statistics).vectors(np.arange(len(group.entities)), queries)
    hubness = state.model.embedding.hubness(vectors).cpu()
    if is_single:
        group.hubness.append(hubness)
    return hubness


def _may_be_itself(state: State, asked: Asked) -> bool:
    """Whether the asked entity can be its own answer: training often has it so over the relation, or it is stated."""
    if asked.relation < state.num_trained and state.model.loops[asked.relation]:
        return True
    return asked.entity in _stated(state, asked)


def _prediction(
    state: State, asked: Asked, vectors: Sequence[Scores], options: AnswerOptions, ranking: Ranking
) -> Prediction:
    """vectors: -D with each entity by the model and each companion, overwritten; NaN where one has no vector for it"""
    num_known, entity = state.num_known, asked.entity
    weights = ranking.evidence_weights(state, entity)
    spoken = _spoken(state, asked, weights)
    scores, *others = vectors
    counting = [number for number, other in enumerate(others) if not np.isnan(other[:num_known]).any()]
    together = [scores, *(others[number] for number in counting)]
    counts = RankingWeights.alone() if weights is None and len(together) > 1 else weights
    spreads = _spreads(together, num_known, counts) if options.explain else []
    if counts is not None:
        hubness = partial(_hubness, [state, *(state.companions[number] for number in counting)], asked.relation)
        scores = answer_scores([torch.from_numpy(one) for one in together], num_known, counts, spoken, hubness).numpy()
    likelihood = (measured := ranking.likelihood(state, entity, weights, len(together))) or ranking.unmeasured
    if likelihood is None and options.min_probability is not None:
        raise InputError(no_probability(state, entity, ranking.way(state, entity)))
    above = None if likelihood is None else Standings.of_known(scores[:num_known])
    if not options.new_answers:
        scores[num_known:] = -np.inf
    stated = _stated(state, asked)
    for left_out in _left_out(state, asked, options, stated):
        scores[left_out] = -np.inf
    most = options.top if likelihood is None else max(options.top, ANSWERS) + 1
    ranked = best_places(scores, most + (RIVALS if options.explain else 0))
    best = ranked[:most]
    probability: Sequence[float | None] = [None] * len(best)
    if likelihood is not None and above is not None:
        probability = _probabilities(state, asked, likelihood, above.of(scores[best]), np.isin(best, stated))
    least = options.min_probability or 0.0
    kept = [n for n, value in enumerate(probability[: options.top]) if value is None or value >= least]
    best, probability = best[kept], [probability[n] for n in kept]
    compared: Compared | None = None
    explained: Sequence[tuple[AnswerReason, ...]] = [()] * len(best)
    if options.explain:
        models = [state, *(state.companions[number] for number in counting)]
        nearer = [_hubness(models, asked.relation, number) for number in range(len(models))]
        lost = [_lost(model, asked, ranking) for model in models]
        compared = Compared(models, spreads, asked, ranked, scores[ranked], counts, spoken, nearer, lost)
        explained = what_speaks(state, asked, best)
    known = set() if options.drop_known else set(best[np.isin(best, stated)].tolist())
    speaks = reasons(spoken, weights, best) if weights is not None else [[] for _ in best]
    columns = best.tolist(), scores[best].tolist(), state.entities.select(best), speaks, probability, kept, explained
    rows = zip(*columns, strict=True)
    answers = [
        Answer(
            label,
            score,
            place_in_rank + 1,
            is_known=place in known,
            is_new=place >= num_known,
            link=best_link(state, place, mine),
            reasons=answer_reasons(state, asked, place, mine) if compared is None else said,
            probability=chance,
            shares=()
            if compared is None
            else compared.of(place_in_rank, reasons_by_source(state, asked, place, spoken)),
        )
        for place, score, label, mine, chance, place_in_rank, said in rows
    ]
    shown = _shown(state, asked, answers, ranking, models=len(together))
    return replace(shown, is_measured=measured is not None)


def _left_out(state: State, asked: Asked, options: AnswerOptions, stated: IntArray) -> list[IntArray]:
    """The entities that are no answers: RDF nodes without a name, the asked one itself, what is stated."""
    left_out = [] if options.blank_nodes else [state.entities.blank]
    if not _may_be_itself(state, asked):
        left_out.append(np.array([asked.entity]))
    return [*left_out, stated] if options.drop_known else left_out


def _shown(state: State, asked: Asked, answers: list[Answer], ranking: Ranking, models: int = 1) -> Prediction:
    """Answers with what is known of the asked entity's vector. models: how many answered together"""
    shown = Prediction(answers, [], [], way=ranking.in_words(state, asked.entity, models), find_names=state.find_names)
    if asked.entity < state.num_known:
        return shown
    made_of = Reasons(partial(explanation, state, asked.entity, asked.relation))
    by_way = ranking.way(state, asked.entity) is not None
    trust = trust_in(state, asked.entity, combine=None if by_way else ranking.weights is not None)
    return replace(shown, explanation=made_of, trust=trust)


def _spreads(vectors: Sequence[Scores], num_known: int, weights: RankingWeights | None) -> list[float]:
    """What each model's distances are divided by before they are weighed."""
    if weights is None:
        return [1.0] * len(vectors)
    return [float(np.std(one[:num_known], dtype=np.float64)) if num_known > 1 else 1.0 for one in vectors]


def _probabilities(
    state: State, asked: Asked, likelihood: Likelihood, standing: FloatArray, stated: BoolArray
) -> list[float]:
    """(answers,) how likely each is right, best first; 1 for what is stated."""
    about = asked_about(state.model.fitting, state.graph.links_of(asked.entity)[0], asked.code)
    probability = np.ones(len(standing))
    probability[~stated] = likelihood.of(answer_features(standing[~stated], about))
    return list(probability.tolist())


def no_probability(state: State, entity: int, way: Way | None) -> str:
    """Why answers about an entity have no probability, and how to get one. way: by which it is answered, if by any"""
    kind = "new" if entity >= state.num_known else "known"
    problem = f"how likely answers about {kind} entities such as {state.entities.label(entity)!r} are was"
    if kind == "known":
        if state.model.known_likelihood(state.model.known_ranking, models=1 + len(state.companions)) is not None:
            return f"{problem} measured for another way of answering; leave out what says how answers are ranked"
        return f"{problem} not measured with this model; `ookg calibrate DIR HELD_OUT --save` does it"
    if way is not None and state.model.measured_without_network:
        return f"{problem} measured without the network; `ookg network DIR --remove` goes back to answers without it"
    return f"{problem} not measured with this model; `ookg tune --save` does it, by simulation (see docs/asking.md)"


def _spoken(state: State, asked: Asked, weights: RankingWeights | None) -> dict[str, Spoken]:
    """What the graph says about the answers; nothing if the vector alone ranks."""
    if weights is None:
        return {}
    assert state.evidence is not None  # `answered` with weights is asked of a state with evidence
    return state.evidence.with_new(state.new_vectors).of_question(asked, weights)
