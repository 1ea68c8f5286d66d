"""How likely an answer is to be right, from how it stands among the others and how well the question fits.

Scores of different ways to answer cannot be compared: a distance under one model, a sum of evidence under another. A
probability can. It is fitted, for each way, to questions whose right answers are known and were hidden: all questions
over relations that fit an entity are asked, those without a right answer too, and each of the best answers is right
or not. So a probability of 0.8 says: of such answers four in five were right, that is among the hidden triples.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ookg.errors import InputError
from ookg.evidence.fitting import fit_logistic
from ookg.graph.fitting import LEAST_FIT, FittingRelations
from ookg.scoring.nearest import best_places
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import SCORES_AT_ONCE, Scorer
from ookg.types import BoolArray, FloatArray, IntArray, Scores

# Of an answer: how far its score lies above the mean of all, in standard deviations ("standing"), and that squared; how
# far behind the best answer and ahead of the next one it is, likewise; the logarithm of its place. Of the question: how
# well its relation fits the entity ("share"), and the logarithm of that; whether an answer to it is stated already; the
# logarithm of how many answers entities have that have any, and that where one is stated; the logarithm of the entity's
# number of triples. And two products: what a standing says hangs on share and triples.
FEATURES = (
    "constant", "standing", "squared", "behind", "ahead", "place", "fit", "share", "stated", "several", "more",
    "triples", "share * standing", "triples * standing",
)  # fmt: skip
LARGEST = 12.0  # standard deviations: beyond, an answer is no surer
ANSWERS = 10  # of each question that a likelihood is fitted to
MOST_QUESTIONS = 4000
FEWEST_RIGHT = 20  # answers: with fewer nothing is fitted
L2 = 1e-5
BINS = 10
DRAW = 33  # the purpose of the random stream that draws questions


@dataclass(frozen=True)
class AskedAbout:
    """What a question says about its answers before they are scored.

    fit: how well the relation fits the entity; stated: how many answers are stated; several: how many answers there
    are in the mean; triples: how many the entity has
    """

    fit: float
    stated: int
    several: float
    triples: int


def asked_about(relations: FittingRelations, codes: IntArray, asked: int) -> AskedAbout:
    """What a question over a directed relation says. codes: those of the entity, one for each of its triples"""
    size, stated = len(relations.having), int((codes == asked).sum())
    if asked >= size:  # a new relation
        return AskedAbout(0.0, stated, 1.0, len(codes))
    return AskedAbout(float(relations.fit(codes)[asked]), stated, float(relations.answers_each[asked]), len(codes))


@dataclass(frozen=True)
class Standings:
    """Scores as standard deviations above the mean of all known entities' scores."""

    mean: float
    spread: float

    @classmethod
    def of_known(cls, scores: Scores) -> Standings:
        """From the scores of all known entities."""
        known = scores.astype(np.float64)
        return cls(float(known.mean()), float(known.std()) or 1.0)

    def of(self, scores: Scores) -> FloatArray:
        """The standing of each score."""
        standing: FloatArray = (scores.astype(np.float64) - self.mean) / self.spread
        return standing


def answer_features(standing: FloatArray, about: AskedAbout) -> FloatArray:
    """(answers, features) as `FEATURES` has them. standing: (answers,) best first; the last is ahead of nothing"""
    standing = np.clip(standing, -LARGEST, LARGEST)
    following, best = np.append(standing[1:], standing[-1:]), standing[:1].sum()
    several, is_stated, triples = math.log(about.several), float(about.stated > 0), math.log(max(1, about.triples))
    of_answers = [standing, standing**2, best - standing, standing - following, np.log(np.arange(len(standing)) + 1)]
    fit, share = math.log(max(about.fit, LEAST_FIT)), about.fit
    of_question = [fit, share, is_stated, several, is_stated * several, triples]
    columns = [1.0, *of_answers, *of_question, share * standing, triples * standing]
    return np.stack([np.broadcast_to(column, len(standing)) for column in columns], axis=1)


@dataclass(frozen=True)
class ReliabilityBin:
    """Answers that were held about equally likely: how many, the mean probability, and the share that was right."""

    answers: int
    expected: float
    right: float


@dataclass(frozen=True)
class Likelihood:
    """The probability that an answer is right: σ(Σ wᵢ xᵢ) over `FEATURES`, then as often as such answers were right.

    levels: pairs of what the first of the two gives and how often that was right, both ascending; between them it is a
        line; none: it stays as it is
    models: how many answered together where it was fitted
    bins: by groups of the probability what came of it, each entity by numbers that were fitted to other ones
    """

    weights: tuple[float, ...]
    levels: tuple[tuple[float, float], ...]
    models: int
    bins: tuple[ReliabilityBin, ...] = ()

    @property
    def error(self) -> float:
        """The mean difference of the probability to the share that was right, over answers from 10 % on.

        Most answers are hopeless, and rightly held so; they would hide what is wrong with the others.
        """
        likely = [one for one in self.bins if one.expected >= 1 / BINS]
        off = sum(one.answers * abs(one.expected - one.right) for one in likely)
        return off / max(1, sum(one.answers for one in likely))

    def of(self, features: FloatArray) -> FloatArray:
        """(answers, features) -> (answers,)."""
        logit = (features * np.array(self.weights)).sum(axis=1)
        return _levelled(1 / (1 + np.exp(-np.clip(logit, -500, 500))), self.levels)

    @classmethod
    def fit(cls, outcome: AnswerOutcomes, models: int, seed: int) -> Likelihood | None:
        """Fitted to all entities, and checked by halves; None where too few answers are right."""
        halves = np.random.default_rng([DRAW, seed, 1]).random(int(outcome.entity.max(initial=0)) + 1) < 0.5
        first, features, right = halves[outcome.entity], outcome.features, outcome.right
        if min(int(right[part].sum()) for part in (first, ~first)) < FEWEST_RIGHT:
            return None
        expected, checked = np.empty(len(right)), np.empty(len(right))
        for part in (first, ~first):
            expected[~part] = cls(_weights(features[part], right[part]), (), models).of(features[~part])
        for part in (first, ~first):
            checked[part] = _levelled(expected[part], _levels(expected[~part], right[~part]))
        return cls(_weights(features, right), _levels(expected, right), models, _reliability(checked, right))

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "weights": dict(zip(FEATURES, self.weights, strict=True)),
            "levels": [list(pair) for pair in self.levels],
            "models": self.models,
            "bins": [asdict(one) for one in self.bins],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Likelihood:
        """From plain values, each checked."""
        try:
            weights = tuple(float(values["weights"][name]) for name in FEATURES)
            levels = tuple((float(given), float(right)) for given, right in values["levels"])
            bins = tuple(
                ReliabilityBin(int(one["answers"]), float(one["expected"]), float(one["right"]))
                for one in values["bins"]
            )
            models = int(values["models"])
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InputError(f"a likelihood without or with a wrong {error}; calibrate the model again") from error
        shares = [
            *(share for pair in levels for share in pair),
            *(n for one in bins for n in (one.expected, one.right)),
        ]
        is_sound = bool(np.isfinite(weights).all()) and all(0 <= share <= 1 for share in shares)
        if not is_sound or any(list(column) != sorted(column) for column in zip(*levels, strict=True)):
            raise InputError("a likelihood with numbers that cannot be; calibrate the model again")
        return cls(weights, levels, models, bins)


# By these, everything that is likely about an entity is put in order where no likelihood was fitted: as fitted to
# newcomers of CoDEx-S. As probabilities on other graphs they would be wrong, so they are not shown.
DEFAULT_LIKELIHOOD = Likelihood(
    (-7.4, 1.34, -0.055, -0.06, 0.11, -0.16, 1.11, -2.5, -0.41, 0.78, 0.68, 0.2, 0.33, -0.1), (), models=1
)


def _weights(features: FloatArray, right: BoolArray) -> tuple[float, ...]:
    return tuple(round(weight, 6) for weight in fit_logistic(features, right, L2).tolist())


def _levels(expected: FloatArray, right: BoolArray) -> tuple[tuple[float, float], ...]:
    """How often answers of each tenth were right; tenths of which the later was right less often are taken together."""
    bins = _reliability(expected, right)
    pools: list[list[ReliabilityBin]] = []
    for one in bins:
        pools.append([one])
        while len(pools) > 1 and _share(pools[-2]) >= _share(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    shares = (round(_share(pool), 6) for pool in pools for _ in pool)
    return tuple((one.expected, share) for one, share in zip(bins, shares, strict=True))


def _share(bins: list[ReliabilityBin]) -> float:
    return sum(one.answers * one.right for one in bins) / sum(one.answers for one in bins)


def _levelled(expected: FloatArray, levels: tuple[tuple[float, float], ...]) -> FloatArray:
    if not levels:
        return expected
    given, right = zip(*levels, strict=True)
    return np.asarray(np.interp(expected, (0.0, *given), (0.0, *right)))


def _reliability(expected: FloatArray, right: BoolArray) -> tuple[ReliabilityBin, ...]:
    """By tenths of the probability; those that no answer has are left out."""
    place = np.minimum((expected * BINS).astype(np.int64), BINS - 1)
    parts = (place == number for number in np.unique(place))
    return tuple(
        ReliabilityBin(int(part.sum()), round(float(expected[part].mean()), 6), round(float(right[part].mean()), 6))
        for part in parts
    )


@dataclass(frozen=True, eq=False)
class AnswerOutcomes:
    """Answers and whether each was right: entity (answers,) which was asked about; features (answers, features)."""

    entity: IntArray
    features: FloatArray
    right: BoolArray

    @classmethod
    def joined(cls, parts: list[AnswerOutcomes]) -> AnswerOutcomes:
        """All of some."""
        columns = ([getattr(part, name) for part in parts] for name in ("entity", "features", "right"))
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True, eq=False)
class HiddenAnswers:
    """What the answers to questions about some entities are held against.

    entities: those that are asked about; stated: (triples, 3) what is known and given; true: (triples, 3) all that
    holds; relations: which fit
    """

    entities: IntArray
    stated: IntArray
    true: IntArray
    relations: FittingRelations

    def outcomes(self, scorer: Scorer, num_entities: int, seed: int, most: int = MOST_QUESTIONS) -> AnswerOutcomes:
        """Ask about all that fits, and see which of the best answers are right; of very many questions some are asked.

        num_entities: the first so many can be answers; most: how many questions are asked
        """
        questions, about = self._questions(seed, most)
        kept = scorer.answerable(questions)
        questions, about = questions.select(kept), [one for one, is_kept in zip(about, kept, strict=True) if is_kept]
        stated, true = (_Answers.of(part) for part in (self.stated, self.true))
        entity, features, right = [], [], []
        at_once = max(1, SCORES_AT_ONCE // max(1, num_entities))
        for start in range(0, len(questions), at_once):
            part = questions.select(slice(start, start + at_once))
            for place, row in enumerate(scorer.all_answer_scores(part, num_entities).float().cpu().numpy()):
                code, asked = _code(part, place), int(part.entity[place])
                above = Standings.of_known(row[: scorer.num_known])
                row[stated.to(asked, code)] = -np.inf
                row[asked] = -np.inf
                best = best_places(row, ANSWERS + 1)  # the last one has a next one to be ahead of
                features.append(answer_features(above.of(row[best]), about[start + place])[:ANSWERS])
                best = best[:ANSWERS]
                right.append(np.isin(best, true.to(asked, code)))
                entity.append(np.full(len(best), asked))
        if not entity:
            return AnswerOutcomes(np.empty(0, np.int64), np.empty((0, len(FEATURES))), np.empty(0, np.bool_))
        return AnswerOutcomes(np.concatenate(entity), np.concatenate(features), np.concatenate(right))

    def _questions(self, seed: int, most: int) -> tuple[Queries, list[AskedAbout]]:
        """The questions over all relations that fit; the answers of `Queries` have no meaning here."""
        stated = _Answers.of(self.stated)
        asked: list[tuple[int, int]] = []
        about: list[AskedAbout] = []
        for entity in self.entities.tolist():
            codes = stated.codes(entity)
            fit = self.relations.fit(codes)
            for code in np.flatnonzero(fit >= LEAST_FIT).tolist():
                asked.append((entity, code))
                count = int((codes == code).sum())
                several = float(self.relations.answers_each[code])
                about.append(AskedAbout(float(fit[code]), count, several, len(codes)))
        order = np.random.default_rng([DRAW, seed]).permutation(len(asked))[:most]
        rows = np.array(asked, dtype=np.int64).reshape(-1, 2)[order]
        queries = Queries(rows[:, 0], rows[:, 1] // 2, np.zeros(len(rows), np.int64), rows[:, 1] % 2 == 0)
        return queries, [about[place] for place in order.tolist()]


def _code(queries: Queries, place: int) -> int:
    return 2 * int(queries.relation[place]) + (not queries.asks_tail[place])


@dataclass(frozen=True, eq=False)
class _Answers:
    """Triples by entity and directed relation: (rows, 3) entity, code, other end, sorted."""

    rows: IntArray

    @classmethod
    def of(cls, triples: IntArray) -> _Answers:
        head, relation, tail = triples.T
        forward = np.stack([head, 2 * relation, tail], axis=1)
        rows = np.concatenate([forward, np.stack([tail, 2 * relation + 1, head], axis=1)])
        return cls(rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))])

    def codes(self, entity: int) -> IntArray:
        """The directed relations of an entity, one for each triple."""
        return self._of(entity)[:, 1]

    def to(self, entity: int, code: int) -> IntArray:
        """The entities that a directed relation leads to."""
        mine = self._of(entity)
        first, last = np.searchsorted(mine[:, 1], [code, code + 1])
        return mine[first:last, 2]

    def _of(self, entity: int) -> IntArray:
        first, last = np.searchsorted(self.rows[:, 0], [entity, entity + 1])
        return self.rows[first:last]
