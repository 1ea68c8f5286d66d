"""How good a baseline is on known entities, as it is now."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.research.baselines.sampling import predicted_sides
from ookg.research.baselines.scorer import TrainedBaseline
from ookg.research.baselines.settings import BaselineSettings
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import RankSummary
from ookg.scoring.thresholds import Thresholds

# Validation triples that are ranked: enough to tell states apart, few enough to take no time.
SAMPLE = 500

Validation = Callable[[TrainedBaseline], float]


def validation_of(dataset: EncodedDataset, settings: BaselineSettings) -> Validation:
    """A function from a baseline to its figure on the valid part: the higher, the better."""
    return _ranking(dataset, settings) if settings.task == "link-prediction" else _classification(dataset)


def _ranking(dataset: EncodedDataset, settings: BaselineSettings) -> Validation:
    """MRR of the same sample each time: the predicted sides among known entities, filtered by train and valid."""
    valid = dataset.valid if dataset.valid_truth is None else dataset.valid[dataset.valid_truth]
    true_triples = np.concatenate([dataset.train, valid])
    asked = valid[valid[:, 1] < dataset.num_trained]
    asked = asked[np.random.default_rng(0).permutation(len(asked))[:SAMPLE]]
    sides = predicted_sides(dataset, settings)
    head, relation, tail = asked.T
    queries = Queries(
        np.concatenate([head if asks_tail else tail for asks_tail in sides]),
        np.tile(relation, len(sides)),
        np.concatenate([tail if asks_tail else head for asks_tail in sides]),
        np.repeat(sides, len(asked)),
    )
    touched = np.isin(true_triples[:, [0, 2]], queries.entity).any(axis=1)
    true_triples = true_triples[touched]  # the others filter nothing

    def figure(baseline: TrainedBaseline) -> float:
        counts = link_prediction(baseline, queries, true_triples, dataset.num_known, "lan")
        return RankSummary.of(counts.ranks()).mrr

    return figure


def _classification(dataset: EncodedDataset) -> Validation:
    """Accuracy in percent of the valid claims, by thresholds that are fitted on them."""
    assert dataset.valid_truth is not None  # checked by `train_baseline`
    trained = dataset.valid[:, 1] < dataset.num_trained
    claims, truth = dataset.valid[trained], dataset.valid_truth[trained]

    def figure(baseline: TrainedBaseline) -> float:
        scores = baseline.scores(claims)
        scored = ~np.isnan(scores)
        relations = claims[scored, 1]
        thresholds = Thresholds.fit(scores[scored], relations, truth[scored], dataset.num_trained)
        return float(((scores[scored] >= thresholds.of(relations)) == truth[scored]).mean() * 100)

    return figure
