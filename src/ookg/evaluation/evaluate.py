"""How good a model is on a data set with new entities."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ookg.datasets import Dataset, Task, load_dataset
from ookg.errors import InputError
from ookg.evidence.combined import CombinedScorer, RankingWeights
from ookg.graph.triples import Triples
from ookg.graph.vocabulary import Vocabulary
from ookg.model.model import Given, Model, accuracy
from ookg.newcomers.embedder import NeighborLimit
from ookg.newcomers.reducer import Correlation, Degree, Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import (
    PROTOCOLS,
    Protocol,
    kept_by,
    link_prediction,
)
from ookg.scoring.queries import test_queries
from ookg.scoring.ranking import RankSummary, Ties
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.system.display import counted
from ookg.system.progress import Progress
from ookg.types import IntArray


@dataclass(frozen=True)
class LinkPredictionResult:
    """Ranks of the test triples' answers.

    unscored: queries without a vector for their entity or relation, whose candidates are all equal
    unreachable: queries whose answer is itself new, which ranks behind every known entity
    """

    protocol: Protocol
    ties: Ties
    summary: RankSummary
    unscored: int
    unreachable: int
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The result by the names of the command line; hits are percentages."""
        figures = {name: None if np.isnan(value) else value for name, value in self.summary.to_dict().items()}
        head = {"task": "link-prediction", "protocol": self.protocol, "ties": self.ties}
        return head | figures | {"unscored": self.unscored, "unreachable": self.unreachable}


@dataclass(frozen=True)
class RelationAccuracy:
    """How many of a relation's claims were judged right, in percent."""

    relation: str
    claims: int
    accuracy: float


@dataclass(frozen=True)
class TripletClassificationResult:
    """The percentage of test claims judged right. `unscored` claims had no vector; they count as held false."""

    claims: int
    accuracy: float
    unscored: int
    by_relation: list[RelationAccuracy]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The result by the names of the command line."""
        return {
            "task": "triplet-classification",
            "claims": self.claims,
            "accuracy": self.accuracy,
            "unscored": self.unscored,
            "relations": [vars(relation) for relation in self.by_relation],
        }


def evaluate(  # noqa: PLR0913 (options by keyword)
    model: Model,
    dataset: Dataset | str | Path,
    *,
    task: Task | None = None,
    weights: Weights | None = None,
    limit: NeighborLimit | None = None,
    refine: bool | RefineSettings = False,
    combine: bool | RankingWeights | None = None,
    new_relations: bool = False,
    protocol: Protocol = "paper",
    ties: Ties = "mean",
    progress: bool = False,
) -> LinkPredictionResult | TripletClassificationResult:
    """Evaluate a model on a data set (or its name or folder), by the data set's task if none is given.

    weights: by default correlation weights for link prediction, degree weights for triplet classification
    refine: fit the new vectors to their triples first
    new_relations: give relations that only the aux triples have a vector; the published protocols do not
    combine, protocol, ties: for link prediction only; combine (by default as `Model.combines` says): rank by
        vectors, direct links and habits of relations together
    """
    if not isinstance(dataset, Dataset):
        dataset = load_dataset(dataset)
    if (task or dataset.task) == "triplet-classification":
        return evaluate_triplet_classification(
            model, dataset, weights=weights, limit=limit, refine=refine, new_relations=new_relations
        )
    options = RankingOptions(
        refine, model.combines(refine) if combine is None else combine, protocol, ties, new_relations
    )
    return evaluate_link_prediction(model, dataset, weights=weights, limit=limit, options=options, progress=progress)


@dataclass(frozen=True)
class RankingOptions:
    """How answers are ranked."""

    refine: bool | RefineSettings = False
    combine: bool | RankingWeights = False
    protocol: Protocol = "paper"
    ties: Ties = "mean"
    new_relations: bool = False


def evaluate_link_prediction(
    model: Model,
    dataset: Dataset,
    *,
    weights: Weights | None = None,
    limit: NeighborLimit | None = None,
    options: RankingOptions | None = None,
    progress: bool = False,
) -> LinkPredictionResult:
    """Rank the answers of a data set's test triples; correlation weights by default."""
    options = options or RankingOptions()
    protocol, ties = options.protocol, options.ties
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol {protocol!r}; choose {' or '.join(PROTOCOLS)}")
    weights = weights or model.default_weights(Correlation())
    given = model.given(dataset.aux, weights, limit, new_relations=options.new_relations)
    given = _refined(model, given, options.refine, progress)
    splits = [_true_part(split) for split in (dataset.train, dataset.valid, dataset.aux, dataset.test)]
    entities, relations = given.entities, given.relations
    for split in splits:
        entities, relations = entities.extended(split.entities.labels), relations.extended(split.relations.labels)
    _check_fit(model, dataset, entities)
    true_triples = np.concatenate([model.checkpoint.triples, *(split.encoded(entities, relations) for split in splits)])
    scorer = _scorer(model, given, len(entities), options)
    num_known, num_relations = len(model.entities), len(model.relations)
    queries = kept_by(
        protocol, test_queries(splits[-1].encoded(entities, relations), num_known), num_known, num_relations
    )
    unscored = ~scorer.answerable(queries)
    if progress:
        with Progress("ranking", int((~unscored).sum()), "queries") as report:
            counts = link_prediction(scorer, queries, true_triples, len(entities), protocol, report)
    else:
        counts = link_prediction(scorer, queries, true_triples, len(entities), protocol)
    summary = RankSummary.of(counts.ranks(ties))
    unreachable = int((queries.answer >= num_known).sum())
    notes = list(given.notes)
    if unreachable:
        notes.append(
            f"{counted(unreachable, 'query', 'queries')} with a new entity as answer, ranked behind all known ones"
        )
    return LinkPredictionResult(protocol, ties, summary, int(unscored.sum()), unreachable, notes)


def _refined(model: Model, given: Given, refine: bool | RefineSettings, progress: bool) -> Given:
    settings = model.refinement(refine)
    if settings is None or not progress:
        return model.refined(given, refine)
    with Progress("fitting new entities", settings.steps) as report:
        return model.refined(given, settings, report)


def _scorer(model: Model, given: Given, num_entities: int, options: RankingOptions) -> Scorer:
    vectors = TranslationScorer(given.newcomers.with_room_for(num_entities - len(model.entities)))
    weights = model.ranking_weights(options.combine, bool(options.refine))
    if weights is None:
        return vectors
    return CombinedScorer([vectors], model.graph_evidence(given), weights)


def evaluate_triplet_classification(
    model: Model,
    dataset: Dataset,
    *,
    weights: Weights | None = None,
    limit: NeighborLimit | None = None,
    refine: bool | RefineSettings = False,
    new_relations: bool = False,
) -> TripletClassificationResult:
    """Judge a data set's labelled test triples; degree weights by default, thresholds from its validation triples."""
    for name, split in (("valid", dataset.valid), ("test", dataset.test)):
        if split.truth is None:
            problem = f"data set {dataset.name}: {name} has no label column"
            raise InputError(f"{problem}; triplet classification needs one, use --task link-prediction")
    weights = weights or model.default_weights(Degree())
    given = model.refined(model.given(dataset.aux, weights, limit, new_relations=new_relations), refine)
    _check_fit(model, dataset, given.entities)
    thresholds = model.thresholds(dataset.valid, given)
    truth = dataset.test.truth
    assert truth is not None  # checked above
    ids = dataset.test.encoded(given.entities, given.relations)
    scores = given.newcomers.scores(ids)
    limits = thresholds.of(ids[:, 1])
    overall = accuracy(scores, limits, truth)
    if overall is None:
        raise InputError(f"data set {dataset.name}: no test triples")
    right = (scores >= limits) == truth
    return TripletClassificationResult(
        len(truth), overall, int(np.isnan(scores).sum()), _by_relation(dataset.test, right), given.notes
    )


def _by_relation(test: Triples, right: np.ndarray[Any, Any]) -> list[RelationAccuracy]:
    relation = test.ids[:, 1]
    claims = np.bincount(relation, minlength=len(test.relations))
    correct = np.bincount(relation, right, minlength=len(test.relations))
    order: IntArray = np.argsort(-claims, kind="stable")
    return [
        RelationAccuracy(
            test.relations.label(number), int(claims[number]), float(100 * correct[number] / claims[number])
        )
        for number in order[claims[order] > 0]
    ]


def _true_part(triples: Triples) -> Triples:
    return triples if triples.truth is None else triples.select(triples.truth)


def _check_fit(model: Model, dataset: Dataset, entities: Vocabulary) -> None:
    """Refuse a model that was not trained on the data set's train part: its result would mean nothing."""
    leaked = model.entities.ids(dataset.new_entities.labels) >= 0
    if leaked.any():
        example = dataset.new_entities.label(int(np.flatnonzero(leaked)[0]))
        problem = f"{int(leaked.sum()):,} new entities of {dataset.name} are known to the model, such as {example!r}"
        raise InputError(f"{problem}; evaluate a model that was trained on the train part of this data set")
    if not len(entities) > len(model.entities):
        raise InputError(f"data set {dataset.name}: no new entities; make some with `ookg datasets split`")
    unknown = int((model.entities.ids(dataset.known_entities.labels) < 0).sum())
    if unknown:
        problem = f"{unknown:,} known entities of {dataset.name} are unknown to the model"
        raise InputError(f"{problem}; evaluate a model that was trained on the train part of this data set")
