"""The figures of any scorer on a data set: the same code for a model of one's own and for every published method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evaluation.verdicts import accuracy
from ookg.scoring.link_prediction import Protocol, kept_by, link_prediction
from ookg.scoring.queries import Queries, test_queries
from ookg.scoring.ranking import RankCounts, RankSummary
from ookg.scoring.scorer import Scorer
from ookg.scoring.thresholds import Thresholds
from ookg.system.progress import Reporter
from ookg.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class JudgedClaims:
    """Scores of a data set's test claims and what they are held against, each (claims,)."""

    scores: FloatArray
    thresholds: FloatArray
    truth: BoolArray
    accuracy: float

    @property
    def right(self) -> BoolArray:
        """Whether each was judged right; one without a score counts as held false."""
        right: BoolArray = (self.scores >= self.thresholds) == self.truth
        return right

    @property
    def unscored(self) -> int:
        """How many have no score."""
        return int(np.isnan(self.scores).sum())


def queries_of(dataset: EncodedDataset, protocol: Protocol) -> Queries:
    """The questions that a protocol asks of the test triples."""
    return kept_by(protocol, test_queries(dataset.test, dataset.num_known), dataset.num_known, dataset.num_trained)


def ranked(
    scorer: Scorer, dataset: EncodedDataset, queries: Queries, protocol: Protocol, report: Reporter | None = None
) -> RankCounts:
    """How the right answers to the questions rank, other true answers left out."""
    return link_prediction(scorer, queries, dataset.true_triples, dataset.num_entities, protocol, report)


def judged_claims(scorer: Scorer, dataset: EncodedDataset) -> JudgedClaims:
    """Judge the labelled test claims: by the scorer's own threshold, or by those that the valid claims give."""
    if dataset.test_truth is None:
        raise InputError(f"data set {dataset.name}: test has no labels; triplet classification needs them")
    scores, thresholds = scorer.scores(dataset.test), _thresholds(scorer, dataset)
    right = accuracy(scores, thresholds, dataset.test_truth)
    if right is None:
        raise InputError(f"data set {dataset.name}: no test triples")
    return JudgedClaims(scores, thresholds, dataset.test_truth, right)


def fitted_thresholds(scorer: Scorer, claims: IntArray, truth: BoolArray, num_relations: int) -> Thresholds | None:
    """The thresholds that tell labelled claims apart best; None if none of them can be scored."""
    scores = scorer.scores(claims)
    scored = ~np.isnan(scores)
    if not scored.any():
        return None
    return Thresholds.fit(scores[scored], claims[scored, 1], truth[scored], num_relations)


def figures_of(scorer: Scorer, dataset: EncodedDataset, protocol: Protocol = "paper") -> dict[str, float]:
    """The figures of the data set's task, by the names of the measures; the protocol is for link prediction."""
    if dataset.task == "link-prediction":
        return link_prediction_figures(scorer, dataset, protocol)
    return classification_figures(scorer, dataset)


def link_prediction_figures(scorer: Scorer, dataset: EncodedDataset, protocol: Protocol = "paper") -> dict[str, float]:
    """Filtered ranks of the test triples' answers: mrr is 0 to 1, hits are percentages."""
    queries = queries_of(dataset, protocol)
    if not len(queries):
        raise InputError(f"data set {dataset.name}: the protocol {protocol!r} leaves no test triple; use another one")
    return RankSummary.of(ranked(scorer, dataset, queries, protocol).ranks()).to_dict()


def classification_figures(scorer: Scorer, dataset: EncodedDataset) -> dict[str, float]:
    """The percentage of test claims judged right; a claim that cannot be scored counts as held false."""
    return {"accuracy": judged_claims(scorer, dataset).accuracy}


def _thresholds(scorer: Scorer, dataset: EncodedDataset) -> FloatArray:
    """(test claims,) the score from which on each is held true; a relation without one has that of all claims."""
    if scorer.threshold is not None:
        return np.full(len(dataset.test), scorer.threshold)
    if dataset.valid_truth is None:
        raise InputError(f"data set {dataset.name}: valid has no labels; thresholds need them")
    thresholds = fitted_thresholds(scorer, dataset.valid, dataset.valid_truth, dataset.num_relations)
    if thresholds is None:
        raise InputError(f"data set {dataset.name}: no valid triple can be scored; thresholds need some that can")
    return thresholds.of(dataset.test[:, 1])
