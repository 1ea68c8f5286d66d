"""How good a model is on a data set with new entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.dataset import Dataset, true_part
from ookg.datasets.encoded import EncodedDataset, Task, encoded_also_true
from ookg.datasets.few_shot import FewShotDataset, LabelledShots, find_few_shot, load_few_shot
from ookg.datasets.folder import load_dataset
from ookg.datasets.growing import GrowingDataset, find_growing, load_growing
from ookg.datasets.shots import Shots, TaskSplit
from ookg.errors import InputError
from ookg.evaluation.few_shot import FewShotFigures, few_shot_figures, questions_of
from ookg.evaluation.growing import GrowthFigures, GrowthTests
from ookg.evaluation.measuring import judged_claims, queries_of, ranked
from ookg.evaluation.subject import EvaluatedModel
from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights
from ookg.graph.statistics import relations_with_loops
from ookg.graph.triples import Triples
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, as_limit
from ookg.newcomers.given import Given, find_given
from ookg.newcomers.reducer import Correlation, Degree, Precision, Uniform, Weights, WeightsChoice, as_weights
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import PROTOCOLS, Protocol
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import RankSummary, TieRule, refuse_unknown_ties
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.ways import Ways, WaysScorer
from ookg.system.display import counted
from ookg.system.progress import Progress, Reporter
from ookg.types import IntArray


@dataclass(frozen=True)
class LinkPredictionResult:
    """Ranks of the test triples' answers.

    unscored: queries without a vector for their entity or relation, whose candidates are all equal
    unreachable: queries whose answer is itself new and ranks behind every known entity; where new entities are ranked
        by their vectors, those whose answer has none
    also_true: triples that were no wrong answers beside those of the parts
    """

    protocol: Protocol
    ties: TieRule
    summary: RankSummary
    unscored: int
    unreachable: int
    notes: list[str]
    also_true: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The result by the names of the command line; hits are percentages."""
        figures = {name: None if np.isnan(value) else value for name, value in self.summary.to_dict().items()}
        head = {"task": "link-prediction", "protocol": self.protocol, "ties": self.ties}
        counts = {"unscored": self.unscored, "unreachable": self.unreachable, "also_true": self.also_true}
        return head | figures | counts

    def __str__(self) -> str:
        return f"link prediction ({self.protocol}): {self.summary}"


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

    def __str__(self) -> str:
        return f"triplet classification: {self.accuracy:.1f} % of {counted(self.claims, 'claim')} judged right"


def evaluate(  # noqa: PLR0913 (options by keyword)
    model: EvaluatedModel,
    dataset: Dataset | GrowingDataset | FewShotDataset | str | Path,
    *,
    task: Task | None = None,
    weights: WeightsChoice | None = None,
    limit: NeighborLimit | int | None = None,
    refine: bool | RefineSettings = False,
    combine: bool | RankingWeights | None = None,
    new_relations: bool = False,
    protocol: Protocol | None = None,
    ties: TieRule = "mean",
    shots: int | None = None,
    tasks: TaskSplit | None = None,
    chosen: bool | None = None,
    progress: bool = False,
) -> LinkPredictionResult | TripletClassificationResult | GrowthFigures | FewShotFigures:
    """Evaluate a model on a data set (or its name or folder), by the data set's task if none is given.

    A model with companions answers together with them, by the mean of standardised scores; claims, and the tests of a
    growing data set, are left to the model alone.

    On a growing data set: on the tests of the snapshots that the model knows. No entity is new there, so that of all
    options only `progress` has a place. On a few-shot data set: on the triples of its newcomers after the first
    `shots` ones, which are given.

    weights: by default correlation weights for link prediction, degree weights for triplet classification
    refine: fit the new vectors to their triples first
    new_relations: give relations that only the aux triples have a vector; the published protocols do not
    combine, protocol, ties: for link prediction only; combine (by default as `Model.combines` says): rank by
        vectors, direct links and habits of relations together; protocol: by default the paper's, and "all" on a
        few-shot data set
    shots, tasks: for a few-shot data set only; tasks: "valid" or "test" (the default)
    chosen: answer as `predict` does where nothing is said, by each newcomer's number of triples (`Model.ways`); by
        default on a few-shot data set, unless weights, refine or combine say otherwise. The other data sets have
        published figures, and the closed form of the paper is their default
    """
    if task is not None and task not in get_args(Task):
        raise InputError(f"task {task!r}; choose {' or '.join(get_args(Task))}")
    refuse_unknown_ties(ties)
    weights, limit = as_weights(weights), as_limit(limit)
    if isinstance(dataset, str | Path):
        dataset = _loaded(dataset)

    says_how = weights is not None or bool(refine) or combine is not None
    if chosen and says_how:
        raise InputError("chosen goes by each newcomer's number of triples; leave out weights, refine and combine")

    def options(usual: Protocol) -> RankingOptions:
        is_chosen = (usual == "all" and not says_how) if chosen is None else chosen
        ways = model.defaults.ways if is_chosen else None
        combines = model.combines(refine) if combine is None else combine
        return RankingOptions(refine, combines, protocol or usual, ties, new_relations, ways)

    if isinstance(dataset, FewShotDataset):
        if task == "triplet-classification":
            raise InputError(f"data set {dataset.name} has no labelled claims; leave the task out")
        if shots is None:
            problem = f"data set {dataset.name} has tasks of newcomers with few triples"
            raise InputError(f"{problem}; say how many of each are given, such as `shots=3`")
        asked = dataset.at(tasks or "test", shots)
        figures = evaluate_few_shot(
            model, asked, weights=weights, limit=limit, options=options("all"), progress=progress
        )
        return replace(figures, notes=[*dataset.notes, *figures.notes])
    if shots is not None or tasks is not None:
        raise InputError(f"data set {dataset.name} is no few-shot one; leave shots and tasks out")
    if isinstance(dataset, GrowingDataset):
        named = {"task": task, "weights": weights, "limit": limit, "refine": refine, "combine": combine}
        named |= {"new_relations": new_relations, "protocol": protocol not in (None, "paper"), "ties": ties != "mean"}
        named |= {"chosen": chosen}
        for name, value in named.items():
            if value:
                problem = f"data set {dataset.name} is a growing one, and {name} is for data sets with new entities"
                raise InputError(f"{problem}; leave it out")
        return evaluate_growing(model, dataset, progress=progress)
    if (task or dataset.task) == "triplet-classification":
        if dataset.also_true is not None and len(dataset.also_true):
            problem = f"data set {dataset.name} has triples that are also true, which count where answers are ranked"
            raise InputError(f"{problem}; classify without them")
        if chosen:
            raise InputError("chosen is how answers are ranked; leave it out, or evaluate link prediction")
        return evaluate_triplet_classification(
            model, dataset, weights=weights, limit=limit, refine=refine, new_relations=new_relations
        )
    return evaluate_link_prediction(
        model, dataset, weights=weights, limit=limit, options=options("paper"), progress=progress
    )


def _loaded(dataset: str | Path) -> Dataset | GrowingDataset | FewShotDataset:
    """A data set of any kind, by its name or folder."""
    if find_growing(dataset) is not None:
        return load_growing(dataset)
    return load_dataset(dataset) if find_few_shot(dataset) is None else load_few_shot(dataset)


def evaluate_growing(model: EvaluatedModel, dataset: GrowingDataset, *, progress: bool = False) -> GrowthFigures:
    """Rank the answers to the tests of the snapshots whose training triples have no entity or relation unknown to it.

    A test triple may have one: its answers count as the last.
    """
    known, growth = model.checkpoint, dataset.encoded
    entities, relations = known.entities.ids(dataset.entities.labels), known.relations.ids(dataset.relations.labels)
    after = -1
    for snapshot in growth.snapshots:
        if (entities[snapshot.train[:, [0, 2]]] < 0).any() or (relations[snapshot.train[:, 1]] < 0).any():
            break
        after += 1
    if after < 0:
        unknown = int((entities[np.unique(growth.snapshots[0].train[:, [0, 2]])] < 0).sum())
        problem = f"{unknown:,} entities of snapshot 0 of {dataset.name} are unknown to the model"
        if not unknown:
            problem = f"a relation of snapshot 0 of {dataset.name} is unknown to the model"
        raise InputError(f"{problem}; evaluate a model that was trained on 0/train of this data set, or on more")
    last = growth.snapshots[after]
    vectors = known.embedding
    embedding = Embedding(
        vectors.geometry,
        _rows(vectors.entities, entities[: last.num_entities]),
        _rows(vectors.relations, relations[: last.num_relations]),
    )
    tests = GrowthTests(growth)
    if not progress:
        return tests.measure(embedding, after)
    with Progress("ranking", 2 * len(growth.until(after, "test")), "queries") as report:
        return tests.measure(embedding, after, report)


def _rows(table: Tensor, ids: IntArray) -> Tensor:
    """The rows of a table in another order; NaN for an id of -1."""
    rows = table[torch.from_numpy(np.maximum(ids, 0)).to(table.device)]
    rows[torch.from_numpy(ids < 0).to(table.device)] = torch.nan
    return rows


@dataclass(frozen=True)
class RankingOptions:
    """How answers are ranked."""

    refine: bool | RefineSettings = False
    combine: bool | RankingWeights = False
    protocol: Protocol = "paper"
    ties: TieRule = "mean"
    new_relations: bool = False
    ways: Ways | None = None


def evaluate_link_prediction(
    model: EvaluatedModel,
    dataset: Dataset,
    *,
    weights: Weights | None = None,
    limit: NeighborLimit | None = None,
    options: RankingOptions | None = None,
    progress: bool = False,
) -> LinkPredictionResult:
    """Rank the answers of a data set's test triples; correlation weights by default."""
    options = options or RankingOptions()
    ready = _ready(model, dataset, weights, limit, options, progress)
    protocol, ties, scorer = options.protocol, options.ties, ready.scorer
    queries = queries_of(ready.encoded, protocol)
    unscored = ~scorer.answerable(queries)
    with _ranking(scorer, queries, progress) as report:
        counts = ranked(scorer, ready.encoded, queries, protocol, report)
    summary = RankSummary.of(counts.ranks(ties))
    unreachable = _unreachable(scorer, queries, protocol)
    notes = [*ready.notes, *_note_on_new(unreachable, protocol), *_note_on_also_true(dataset, ready.encoded)]
    also_true = len(ready.encoded.also_true)
    return LinkPredictionResult(protocol, ties, summary, int(unscored.sum()), unreachable, notes, also_true)


def evaluate_few_shot(
    model: EvaluatedModel,
    asked: LabelledShots,
    *,
    weights: Weights | None = None,
    limit: NeighborLimit | None = None,
    options: RankingOptions | None = None,
    progress: bool = False,
) -> FewShotFigures:
    """Rank the answers to what is asked about newcomers, by default among all entities, known and new."""
    options = options or RankingOptions(protocol="all")
    if options.protocol == "lan":
        raise InputError(
            'protocol "lan" asks no question with a new answer; choose all or paper for a few-shot data set'
        )
    ready = _ready(model, asked.dataset, weights, limit, options, progress)
    shots = _shots(asked, ready.encoded)
    queries = questions_of(shots)
    with _ranking(ready.scorer, queries, progress) as report:
        figures = few_shot_figures(
            ready.scorer, ready.encoded, shots, protocol=options.protocol, ties=options.ties, report=report
        )
    without = _unreachable(ready.scorer, queries, options.protocol)
    notes = [*_note_on_new(without, options.protocol), *_note_on_also_true(asked.dataset, ready.encoded)]
    return replace(figures, notes=[*ready.notes, *notes])


def encoded_shots(model: EvaluatedModel, asked: LabelledShots) -> tuple[EncodedDataset, Shots]:
    """What is given and asked on the model's ids; the train part is the model's own."""
    given = find_given(model.checkpoint, asked.dataset.aux, Uniform(), None)
    encoded = _encoded(model, asked.dataset, given, "link-prediction")
    _check_fit(model, asked.dataset, encoded.num_entities)
    return replace(encoded, train=model.checkpoint.triples), _shots(asked, encoded)


def _shots(asked: LabelledShots, encoded: EncodedDataset) -> Shots:
    newcomer = np.where(asked.asks_tail, encoded.test[:, 0], encoded.test[:, 2])
    return Shots(asked.split, asked.shots, encoded.aux, encoded.test, newcomer)


@dataclass(frozen=True)
class _Ready:
    """What ranking needs: the data set on the model's ids, and what scores its answers."""

    scorer: Scorer
    encoded: EncodedDataset
    notes: list[str]


def _ready(
    model: EvaluatedModel,
    dataset: Dataset,
    weights: Weights | None,
    limit: NeighborLimit | None,
    options: RankingOptions,
    progress: bool,
) -> _Ready:
    if options.protocol not in PROTOCOLS:
        raise InputError(f"protocol {options.protocol!r}; choose {' or '.join(PROTOCOLS)}")
    ways = options.ways
    refine = options.refine if ways is None else ways.refine_from is not None
    least = 1 if ways is None else ways.refine_from or 1

    def given_to(one: EvaluatedModel, weights: Weights | None, settings: RefineSettings | None) -> Given:
        weights = weights or (one.defaults.weights(Correlation()) if ways is None else Precision())
        given = find_given(one.checkpoint, dataset.aux, weights, limit, new_relations=options.new_relations)
        return _refined(given, settings, progress, least)

    given = given_to(model, weights, model.defaults.refinement(refine))
    # Precision weights have the residuals of the model by now; a companion has its own.
    own = replace(weights, residuals=None) if isinstance(weights, Precision) else weights
    others = [given_to(one, own, one.defaults.refinement_beside(refine)) for one in model.companions]
    encoded = _encoded(model, dataset, given, "link-prediction")
    _check_fit(model, dataset, encoded.num_entities)
    return _Ready(_scorer(model, [given, *others], encoded, options), encoded, list(given.notes))


@contextmanager
def _ranking(scorer: Scorer, queries: Queries, progress: bool) -> Iterator[Reporter | None]:
    """The progress of ranking, if it is to be shown."""
    if not progress:
        yield None
        return
    with Progress("ranking", int(scorer.answerable(queries).sum()), "queries") as report:
        yield report


def _unreachable(scorer: Scorer, queries: Queries, protocol: Protocol) -> int:
    """How many queries have a new answer that ranks behind all that has a vector."""
    if protocol == "all":
        return int((~scorer.is_answer(queries.answer)).sum())
    return int((queries.answer >= scorer.num_known).sum())


def _note_on_new(unreachable: int, protocol: Protocol) -> list[str]:
    if not unreachable:
        return []
    asked = counted(unreachable, "query", "queries")
    if protocol == "all":
        return [f"{asked} with a new entity without a vector as answer, ranked behind all others"]
    return [f"{asked} with a new entity as answer, ranked behind all known ones"]


def _note_on_also_true(dataset: Dataset, encoded: EncodedDataset) -> list[str]:
    """How much of what else is true counts."""
    named, used = 0 if dataset.also_true is None else len(dataset.also_true), len(encoded.also_true)
    if not named:
        return []
    passed = f"; {named - used:,} with an entity or a relation of no other part passed over" if named > used else ""
    return [f"{counted(used, 'triple')} that {'is' if used == 1 else 'are'} also true, no wrong answers{passed}"]


def _refined(given: Given, settings: RefineSettings | None, progress: bool, least: int) -> Given:
    if settings is None or not progress:
        return given.refined_by(settings, least=least)
    with Progress("fitting new entities", settings.steps) as report:
        return given.refined_by(settings, report, least)


def _encoded(model: EvaluatedModel, dataset: Dataset, given: Given, task: Task) -> EncodedDataset:
    """The data set on the ids of the model and of what is given; of labelled triples, the true ones are ranked."""
    parts = [dataset.train, dataset.valid, dataset.aux, dataset.test]
    if task == "link-prediction":
        parts = [true_part(part) for part in parts]
    entities, relations, checkpoint = given.entities, given.relations, model.checkpoint
    for part in parts:
        entities, relations = entities.extended(part.entities.labels), relations.extended(part.relations.labels)
    train, valid, aux, test = (part.encoded(entities, relations) for part in parts)
    is_labelled = task == "triplet-classification"
    return EncodedDataset(
        name=dataset.name,
        task=task,
        num_known=len(checkpoint.entities),
        num_entities=len(entities),
        num_trained=len(checkpoint.relations),
        num_relations=len(relations),
        train=np.concatenate([checkpoint.triples, train]),
        valid=valid,
        aux=aux,
        test=test,
        valid_truth=dataset.valid.truth if is_labelled else None,
        test_truth=dataset.test.truth if is_labelled else None,
        also_true=encoded_also_true(dataset.also_true, entities, relations),
    )


def _scorer(
    model: EvaluatedModel, given_to: Sequence[Given], encoded: EncodedDataset, options: RankingOptions
) -> Scorer:
    """given_to: what is given as the model and each of its companions see it"""
    given, vectors = given_to[0], [_vectors(given, encoded) for given in given_to]
    weights = model.defaults.ranking_weights(options.combine, bool(options.refine))
    if weights is None and options.ways is None and len(vectors) == 1:
        return vectors[0]
    size = given.newcomers.embedding.num_relations
    if size == encoded.num_trained:
        evidence = model.known_evidence.with_given(given.triples, size)
    else:  # new relations have vectors, and evidence with them
        network = model.known_evidence.network
        evidence = GraphEvidence.count(model.checkpoint.triples, given.triples, size, network=network)
    if options.ways is not None:
        return WaysScorer(vectors, evidence, options.ways, vectors[0].newcomers.counts)
    return CombinedScorer(vectors, evidence, RankingWeights.alone() if weights is None else weights)


def _vectors(given: Given, encoded: EncodedDataset) -> TranslationScorer:
    newcomers = given.newcomers.with_room_for(encoded.num_entities - encoded.num_known)
    return TranslationScorer(newcomers, relations_with_loops(encoded.train, encoded.num_trained))


def evaluate_triplet_classification(
    model: EvaluatedModel,
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
            raise InputError(f'{problem}; triplet classification needs one, use `task="link-prediction"`')
    weights = weights or model.defaults.weights(Degree())
    given = find_given(model.checkpoint, dataset.aux, weights, limit, new_relations=new_relations)
    given = given.refined_by(model.defaults.refinement(refine))
    _check_fit(model, dataset, len(given.entities))
    encoded = _encoded(model, dataset, given, "triplet-classification")
    judged = judged_claims(_vectors(given, encoded), encoded)
    by_relation = _by_relation(dataset.test, judged.right)
    alone = ["claims are judged by the model alone, without its companions"] if model.companions else []
    notes = [*given.notes, *alone]
    return TripletClassificationResult(len(judged.truth), judged.accuracy, judged.unscored, by_relation, notes)


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


def _check_fit(model: EvaluatedModel, dataset: Dataset, num_entities: int) -> None:
    """Refuse a model that was not trained on the data set's train part: its result would mean nothing."""
    known = model.checkpoint.entities
    leaked = known.ids(dataset.new_entities.labels) >= 0
    if leaked.any():
        example = dataset.new_entities.label(int(np.flatnonzero(leaked)[0]))
        problem = f"{int(leaked.sum()):,} new entities of {dataset.name} are known to the model, such as {example!r}"
        raise InputError(f"{problem}; take a model that was trained on the train part of this data set")
    if not num_entities > len(known):
        raise InputError(f"data set {dataset.name}: no new entities; make some with `ookg datasets split`")
    unknown = int((known.ids(dataset.known_entities.labels) < 0).sum())
    if unknown:
        problem = f"{unknown:,} known entities of {dataset.name} are unknown to the model"
        raise InputError(f"{problem}; take a model that was trained on the train part of this data set")
