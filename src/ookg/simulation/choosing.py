"""Choosing how questions are answered: about newcomers on hidden entities, about known ones on held-out triples.

Newcomers are answered by their number of triples.

For each of some numbers of triples, that many are given of every hidden entity, and some of its others are asked, once
with vectors of the closed form and once with fitted ones. From the default weights of the vector and of each kind of
evidence on, one weight at a time is made larger or smaller for as long as that ranks the right answers higher. (The
weights under which right answers are likeliest are others, and rank worse.) What counts is how weights that were found
on one half of the entities rank the answers about the other half, both ways together: they replace the default ones
where they are better by more than chance, fitted vectors are taken from that number of triples on from which they are
better, and evidence is left out where the vector of the closed form alone is as good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ookg.evidence.combined import RankingWeights, spread_of_known, standardised
from ookg.evidence.network import MANY_TRIPLES, AnswerNetwork
from ookg.evidence.registry import HUBNESS, NEW, VECTOR
from ookg.graph.statistics import GraphStatistics, relations_with_loops
from ookg.models.embedding import Embedding
from ookg.newcomers.reducer import Precision, Uniform
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import other_answers
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import SCORES_AT_ONCE, TranslationScorer
from ookg.simulation.hiding import Hidden
from ookg.simulation.simulated import Simulation
from ookg.simulation.ways import DEFAULT_WAYS, FITTED_RANKING, KNOWN_RANKINGS, Way, Ways
from ookg.system.progress import Reporter
from ookg.types import BoolArray, FloatArray, IntArray

KNOTS = (1, 3, 10, 30)  # numbers of triples, unless others are asked for
ASKED_EACH = 4  # questions about an entity, at most
MOST_QUESTIONS = 2000
# For known entities: scores of all questions together, which take minutes on two cores; and triples, above which
# counting evidence a second time, without what is held out, takes too much of the memory that a training has.
MOST_SCORES, MOST_TRIPLES = 4_000_000_000, 20_000_000
FEWEST_QUESTIONS = 60  # with fewer, nothing is chosen for that number of triples
LEAST_TO_FIT = 5  # with fewer triples a fitted vector was worse beside evidence than the closed form
FEATURE_NUMBERS = 1 << 24  # how many numbers the features of one number of triples may hold
# What a weight is multiplied by, what one that is 0 is set to, and what is added to that of "new", in search of better.
FACTORS, FIRST_WEIGHTS, STEPS = (0.0, 0.5, 0.7, 1.4, 2.0), (0.1, 0.3), (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
EVIDENCE = (0.0, 0.5, 1.0, 3.0)  # times the weights of all but the vector: what outranks under any is a rival
ROUNDS = 4  # over all weights, at most
LEAST_GAIN, SMALLEST_STEP = 0.001, 1e-4  # of MRR: for another choice, and for another weight on the way
HALVES = 20  # the purpose of the random stream that samples questions and halves newcomers


@dataclass(frozen=True)
class Tried:
    """What came of one number of triples and one kind of vectors.

    alone: MRR by the vector of the closed form alone; mrr: by the chosen weights, each question with weights that were
        searched on other entities
    """

    triples: int
    refine: bool
    questions: int
    alone: float
    mrr: float
    ranking: RankingWeights


def choose_ways(
    simulations: Sequence[Simulation],
    refine: Sequence[RefineSettings | None],
    triples: Sequence[int] = KNOTS,
    seed: int = 0,
    note: Callable[[Tried], None] | None = None,
) -> Ways | None:
    """The ways that answer best; None where there are too few questions for any number of triples.

    simulations: the same hidden entities with the vectors of one model, or of several that answer together
    refine: how the vectors of each are fitted; None where they cannot be: then none are
    note: told of each that is tried
    """

    def with_few(number: int) -> list[Simulation]:
        return [one.with_few(number, seed, ASKED_EACH) for one in simulations]

    return choose_ways_at(with_few, refine, triples, seed, note)


def choose_ways_at(
    given: Callable[[int], Sequence[Simulation]],
    refine: Sequence[RefineSettings | None],
    triples: Sequence[int],
    seed: int = 0,
    note: Callable[[Tried], None] | None = None,
) -> Ways | None:
    """The same. given: the simulations, one for each model, in which newcomers are given so many triples"""
    settings = [one for one in refine if one is not None]
    can_fit = len(settings) == len(refine)
    tried: list[dict[bool, Tried]] = []
    for number in sorted(set(triples)):
        some = [_some_questions(one, seed) for one in given(number)]
        if len(some[0].queries) < FEWEST_QUESTIONS or len(np.unique(some[0].queries.entity)) < 2:
            continue
        tried.append({})
        for is_fitted in (False, True) if can_fit and number >= LEAST_TO_FIT else (False,):
            one = _try(some, number, settings if is_fitted else [], seed)
            tried[-1][is_fitted] = one
            if note is not None:
                note(one)
    if not tried:
        return None
    # From which place on vectors are fitted: the one with the highest sum over all.
    gains = [each[True].mrr - each[False].mrr if True in each else -math.inf for each in tried]
    first = max(range(len(tried) + 1), key=lambda start: (sum(gains[start:]), start))
    chosen = [each[place >= first] for place, each in enumerate(tried)]
    starts = [1, *(math.ceil(math.sqrt(a.triples * b.triples)) for a, b in pairwise(chosen))]
    return Ways([Way(start, one.refine, one.ranking) for start, one in zip(starts, chosen, strict=True)])


@dataclass(frozen=True)
class KnownTried:
    """What came of evidence beside the vectors of known entities: MRR by the vector alone, and with the evidence."""

    questions: int
    alone: float
    mrr: float
    ranking: RankingWeights


def known_questions(questions: int, entities: int) -> int:
    """Of how many questions `choose_known` asks, by the number that there are and that of known entities."""
    return min(questions, MOST_QUESTIONS, MOST_SCORES // max(1, entities))


def choose_known(
    embeddings: Sequence[Embedding],
    known: IntArray,
    questions: Queries,
    num_relations: int,
    *,
    also_true: IntArray | None = None,
    num_answers: int | None = None,
    network: AnswerNetwork | None = None,
    seed: int = 0,
    report: Reporter | None = None,
) -> KnownTried | None:
    """What vectors and evidence count for in questions about known entities.

    None where there are too few questions, or very many triples.

    Direct links and likeness, unless all evidence, or none, ranks the right answers higher by more than chance. Weights
    are not searched: in every graph some true triples are missing. Evidence speaks for them most, and they count as
    wrong answers here, so that a search ends with weights that are far too low.

    embeddings: of one model, or of several that answer together, that have not learned the answers; known: (triples, 3)
    what the evidence is counted on, without them; also_true: (triples, 3) what else is held out, and no wrong answer
    num_answers: only the first so many entities are answers; None: all
    network: one that was trained on the known triples, to be tried too; report: gets the number of questions scored
    """
    if len(known) > MOST_TRIPLES:
        return None
    nothing, size = known[:0], embeddings[0].num_entities
    true = np.concatenate([known, questions.triples, known[:0] if also_true is None else also_true])
    hidden = Hidden(np.arange(size), size, num_relations, known, nothing, nothing, true, wanted=0)
    graph = GraphStatistics.count(known, size, num_relations)
    simulations = [Simulation(hidden, one, None, graph, True, nothing, questions, network) for one in embeddings]
    simulation = _some_questions(simulations[0], seed, known_questions(len(questions), size))
    queries = simulation.queries
    if len(queries) < FEWEST_QUESTIONS or len(np.unique(queries.entity)) < 2:
        return None
    loops = relations_with_loops(known, num_relations)
    scorers = [TranslationScorer(one.newcomers(Uniform()), loops) for one in simulations]
    tried = list(KNOWN_RANKINGS)
    if network is not None:
        learned = network.weights_at(MANY_TRIPLES)
        tried += [RankingWeights.alone(**(ranking.to_dict() | learned)) for ranking in KNOWN_RANKINGS]
    names = (VECTOR, *(name for name, _ in tried[-1].of_sources()))
    asked = _Asked.of(simulation, queries, scorers, tried[-1], names, num_answers, report)
    tried.append(RankingWeights.alone())
    reciprocal = [asked.reciprocal(asked.weights(one)) for one in tried]
    best, ranking, plain = reciprocal[0], tried[0], reciprocal[-1]
    for ranks, one in zip(reciprocal[1:], tried[1:], strict=True):
        if is_better(ranks, best):
            best, ranking = ranks, one
    return KnownTried(len(queries), float(plain.mean()), float(best.mean()), ranking)


def _some_questions(simulation: Simulation, seed: int, most: int = MOST_QUESTIONS) -> Simulation:
    """The simulation with as many questions as are needed, at most `most`."""
    queries, random = simulation.queries, np.random.default_rng([HALVES, seed])
    rows = np.sort(random.permutation(len(queries))[:most])
    return replace(simulation, queries=queries.select(rows))


def _try(simulations: Sequence[Simulation], number: int, refine: Sequence[RefineSettings], seed: int) -> Tried:
    """refine: how the vectors of each are fitted; none if they are not"""
    simulation = simulations[0]
    loops = relations_with_loops(simulation.hidden.known, simulation.hidden.num_relations)
    closed = [one.newcomers(Precision(residuals=one.residuals)) for one in simulations]
    fitted = [one.refined_by(how) for one, how in zip(closed, refine, strict=True)] if refine else closed
    plain_scorers, scorers = ([TranslationScorer(one, loops) for one in part] for part in (closed, fitted))
    queries = simulation.queries
    queries = queries.select(np.flatnonzero(scorers[0].answerable(queries) & scorers[0].is_answer(queries.answer)))
    ranking = FITTED_RANKING if refine else DEFAULT_WAYS.at(number).ranking
    if simulation.network is not None:
        ranking = RankingWeights.alone(**(ranking.to_dict() | simulation.network.weights_at(number)))
    asked = _Asked.of(simulation, queries, scorers, ranking)
    halves = np.random.default_rng([HALVES, seed, 1]).random(len(simulation.hidden.entities))[queries.entity] < 0.5
    start = asked.weights(ranking)
    usual, crossed = asked.reciprocal(start), asked.crossed(halves, start)
    alone = _Asked.of(simulation, queries, plain_scorers, ranking, (VECTOR,)) if refine else asked
    plain = alone.reciprocal(alone.weights(RankingWeights.alone()))
    weights, reciprocal = start, usual
    if is_better(crossed, usual):
        weights, reciprocal = asked.searched(np.ones(len(queries), dtype=np.bool_), start), crossed
    if not is_better(reciprocal, plain):
        weights = asked.weights(RankingWeights.alone())
        reciprocal = asked.reciprocal(weights)
    named = {name: round(float(weight), 4) for name, weight in zip(asked.names, weights, strict=True)}
    ranking = RankingWeights.alone(**named)
    return Tried(number, bool(refine), len(queries), float(plain.mean()), float(reciprocal.mean()), ranking)


def is_better(after: FloatArray, before: FloatArray) -> bool:
    """Whether reciprocal ranks are higher than others of the same questions by more than chance."""
    gain = after - before
    return float(gain.mean()) >= max(LEAST_GAIN, float(gain.std()) / math.sqrt(max(1, len(gain))))


@dataclass(frozen=True, eq=False)
class _Asked:
    """Questions with the features of their right answers and of rivals.

    features: (names, questions, 1 + rivals) the right answer first; left_out: (questions, 1 + rivals) no rivals
    """

    names: tuple[str, ...]
    features: Tensor
    left_out: Tensor

    @classmethod
    def of(
        cls,
        simulation: Simulation,
        queries: Queries,
        scorers: Sequence[TranslationScorer],
        ranking: RankingWeights,
        names: tuple[str, ...] | None = None,
        num_answers: int | None = None,
        report: Reporter | None = None,
    ) -> _Asked:
        """Rivals are all entities, known and hidden. Of many, they are those that come nearest to outranking the right
        answer, by the given weights or with more or less of all that is not the vector.

        num_answers: only the first so many are rivals
        """
        every = (VECTOR, *simulation.evidence.sources, NEW, HUBNESS)
        names = every if names is None else names
        size, device = len(simulation.hidden.entities), scorers[0].newcomers.embedding.device
        room = min(size, max(1, FEATURE_NUMBERS // (len(every) * max(1, len(queries)))))
        features = torch.empty(len(names), len(queries), 1 + room, device=device)
        left_out = torch.zeros(len(queries), 1 + room, dtype=torch.bool, device=device)
        more = torch.tensor([[ranking[name] * (1.0 if name == VECTOR else by) for by in EVIDENCE] for name in names])
        at_once = max(1, SCORES_AT_ONCE // (size * len(names)))
        for start in range(0, len(queries), at_once):
            rows = slice(start, start + at_once)
            part = queries.select(rows)
            vectors = [_scores(one, part, size) for one in scorers]
            values = torch.stack([_over_all(name, simulation, scorers, part, vectors) for name in names])
            answers = torch.from_numpy(part.answer).to(device)[None, :, None].expand(len(names), -1, 1)
            right = values.gather(2, answers)
            is_out = _right_answers(simulation, part, scorers[0], size).to(device) | values[0].isinf()
            if num_answers is not None:
                is_out[:, num_answers:] = True
            values.masked_fill_(is_out[None], 0.0)
            if room < size:
                lead = (values - right).permute(1, 2, 0) @ more.to(values)
                columns = lead.amax(dim=2).masked_fill_(is_out, -torch.inf).topk(room, dim=1).indices
                values = values.gather(2, columns[None].expand(len(names), -1, -1))
                is_out = is_out.gather(1, columns)
            features[:, rows, :1], features[:, rows, 1:] = right, values
            left_out[rows, 1:] = is_out
            if report is not None:
                report(start + len(part))
        return cls(names, features, left_out)

    def weights(self, ranking: RankingWeights) -> FloatArray:
        """(names,) weights by name."""
        return np.array([ranking[name] for name in self.names])

    def crossed(self, halves: BoolArray, start: FloatArray) -> FloatArray:
        """(questions,) 1/rank, each by weights that were searched on the other half."""
        crossed = np.zeros(len(halves))
        for searched_on in (halves, ~halves):
            if searched_on.any() and (~searched_on).any():
                crossed[~searched_on] = self.reciprocal(self.searched(searched_on, start))[~searched_on]
        return crossed

    def searched(self, rows: BoolArray, start: FloatArray) -> FloatArray:
        """(names,) the weights that rank the right answers to some questions highest, moving one at a time.

        The vector keeps its weight, as only the ratios matter; no evidence gets a weight below 0.
        """
        chosen = torch.from_numpy(np.flatnonzero(rows)).to(self.features.device)
        part = _Asked(self.names, self.features[:, chosen], self.left_out[chosen])
        weights, best = start, float(part.reciprocal(start).mean())
        for _ in range(ROUNDS):
            before = best
            for place, name in enumerate(self.names):
                for value in _moves(name, weights[place]):
                    moved = weights.copy()
                    moved[place] = value
                    mrr = float(part.reciprocal(moved).mean())
                    if mrr > best + SMALLEST_STEP:
                        weights, best = moved, mrr
            if best == before:
                break
        return weights

    def reciprocal(self, weights: FloatArray) -> FloatArray:
        """(questions,) 1/rank of the right answers among the rivals."""
        factors = torch.from_numpy(weights).to(self.features)
        total = torch.einsum("n,nqr->qr", factors, self.features).masked_fill_(self.left_out, -torch.inf)
        right, rivals = total[:, :1], total[:, 1:]
        better, equal = (rivals > right).sum(dim=1), (rivals == right).sum(dim=1)
        ranks = 1 + better + equal / 2
        reciprocal: FloatArray = (1 / ranks).double().cpu().numpy()
        return reciprocal


def _scores(scorer: TranslationScorer, queries: Queries, size: int) -> Tensor:
    """(queries, entities) the scores of all entities; where none is new, without a copy of the table."""
    return scorer.answer_scores(queries) if size == scorer.num_known else scorer.all_answer_scores(queries, size)


def _moves(name: str, weight: float) -> list[float]:
    """What a weight may become."""
    if name == VECTOR:
        return []
    if name == NEW:
        return [weight + step for step in STEPS]
    return [weight * factor for factor in FACTORS] if weight else list(FIRST_WEIGHTS)


def _over_all(
    name: str,
    simulation: Simulation,
    scorers: Sequence[TranslationScorer],
    queries: Queries,
    vectors: Sequence[Tensor],
) -> Tensor:
    """(queries, entities) a feature. vectors: (queries, entities) the scores of each model"""
    known, size, device = scorers[0].num_known, vectors[0].shape[1], vectors[0].device
    if name == VECTOR:
        return torch.stack([standardised(scores, known) for scores in vectors]).mean(dim=0)
    if name == NEW:
        return (torch.arange(size, device=device) >= known).float().expand(len(queries), size)
    if name == HUBNESS:
        nearer = torch.zeros(len(queries), size, device=device)
        for one, scores in zip(scorers, vectors, strict=True):
            nearer[:, known:] -= one.hubness(queries, size).to(device) / spread_of_known(scores, known) / len(scorers)
        return nearer
    return simulation.evidence.with_new(scorers[0].new_vectors)[name].of_answers(queries, size, device)


def _right_answers(simulation: Simulation, queries: Queries, scorer: TranslationScorer, size: int) -> Tensor:
    """(queries, entities) which are right answers, or the asked entity where that cannot be one."""
    itself = ~scorer.may_be_itself(queries)
    loops = np.stack([queries.entity, queries.relation, queries.entity], axis=1)[itself]
    true = np.concatenate([simulation.hidden.true, loops])
    query, answer = other_answers(queries, true, size).pairs(0, len(queries))
    is_right = torch.zeros(len(queries), size, dtype=torch.bool)
    is_right[torch.from_numpy(query), torch.from_numpy(answer)] = True
    return is_right
