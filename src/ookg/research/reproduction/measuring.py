"""The figures of any scorer on a data set: the same code for every method."""

from __future__ import annotations

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.model.model import accuracy
from ookg.scoring.link_prediction import Protocol, kept_by, link_prediction
from ookg.scoring.queries import test_queries
from ookg.scoring.ranking import RankSummary
from ookg.scoring.scorer import Scorer
from ookg.scoring.thresholds import Thresholds
from ookg.types import FloatArray, IntArray


def figures_of(scorer: Scorer, dataset: EncodedDataset, protocol: Protocol = "paper") -> dict[str, float]:
    """The figures of the data set's task, by the names of the measures; the protocol is for link prediction."""
    if dataset.task == "link-prediction":
        return link_prediction_figures(scorer, dataset, protocol)
    return classification_figures(scorer, dataset)


def link_prediction_figures(scorer: Scorer, dataset: EncodedDataset, protocol: Protocol = "paper") -> dict[str, float]:
    """Filtered ranks of the test triples' answers: mrr is 0 to 1, hits are percentages."""
    queries = test_queries(dataset.test, dataset.num_known)
    queries = kept_by(protocol, queries, dataset.num_known, dataset.num_trained)
    if not len(queries):
        raise InputError(f"data set {dataset.name}: the protocol {protocol!r} leaves no test triple; use another one")
    counts = link_prediction(scorer, queries, dataset.true_triples, dataset.num_entities, protocol)
    return RankSummary.of(counts.ranks()).to_dict()


def classification_figures(scorer: Scorer, dataset: EncodedDataset) -> dict[str, float]:
    """The percentage of test claims judged right; a claim that cannot be scored counts as held false."""
    if dataset.test_truth is None:
        raise InputError(f"data set {dataset.name}: test has no labels; triplet classification needs them")
    limits = _limits(scorer, dataset)
    found = accuracy(scorer.scores(dataset.test), limits, dataset.test_truth)
    if found is None:
        raise InputError(f"data set {dataset.name}: no test triples")
    return {"accuracy": found}


def _limits(scorer: Scorer, dataset: EncodedDataset) -> FloatArray:
    """(test claims,) the score from which on each is held true: the scorer's own, or by relation from valid."""
    if scorer.threshold is not None:
        return np.full(len(dataset.test), scorer.threshold)
    if dataset.valid_truth is None:
        raise InputError(f"data set {dataset.name}: valid has no labels; thresholds need them")
    scores = scorer.scores(dataset.valid)
    scored = ~np.isnan(scores)
    if not scored.any():
        raise InputError(f"data set {dataset.name}: no valid triple can be scored; thresholds need some that can")
    relations, truth = dataset.valid[scored, 1], dataset.valid_truth[scored]
    thresholds = Thresholds.fit(scores[scored], relations, truth, dataset.num_trained)
    return thresholds.of(_trained(dataset.test[:, 1], dataset.num_trained))


def _trained(relations: IntArray, num_trained: int) -> IntArray:
    """The relations, -1 where one has no threshold of its own."""
    return np.where(relations < num_trained, relations, -1)
