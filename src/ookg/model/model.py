"""A trained model with its labels: represent what is new, ask about it, judge claims."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from ookg.datasets.dataset import Dataset
from ookg.datasets.encoded import Task
from ookg.datasets.growing import GrowingDataset
from ookg.errors import InputError
from ookg.evaluation.evaluate import LinkPredictionResult, TripletClassificationResult, evaluate
from ookg.evaluation.growing import GrowthFigures
from ookg.evaluation.judging import classify_judged, fit_judge
from ookg.evaluation.verdicts import Classification, Verdict, accuracy
from ookg.evidence.claims import feature_names
from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.extension.answers import (
    Answer,
    LinkReason,
    NewVectors,
    Prediction,
    Reason,
)
from ookg.extension.extended import ExtendedModel
from ookg.extension.groups import Preparation
from ookg.extension.questions import AnswerOptions, Question
from ookg.graph.index import GraphIndex
from ookg.graph.names import Names
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import TripleSource
from ookg.graph.vocabulary import Vocabulary
from ookg.model.embedded import new_vectors, weights_of_vectors
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers
from ookg.newcomers.given import Given, find_given
from ookg.newcomers.reducer import Correlation, Degree, Weights, refuse_without_statistics
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import Protocol
from ookg.scoring.ranking import TieRule
from ookg.simulation.audit import Audit, AuditSettings, audit
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.defaults import NewcomerDefaults
from ookg.simulation.judge import FittedJudge, JudgeSettings
from ookg.simulation.trust import TrustTable, trust_table
from ookg.simulation.tuning import Tuning, TuningSettings, tune
from ookg.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, save_newcomer_choice
from ookg.storage.names import add_names, stored_names
from ookg.system.progress import Reporter
from ookg.types import IntArray

__all__ = [
    "Answer",
    "Classification",
    "Given",
    "LinkReason",
    "Model",
    "NewVectors",
    "Prediction",
    "Reason",
    "TripleSource",
    "Verdict",
    "accuracy",
]


class Model:
    """A trained embedding with labels and statistics. Nothing here changes it: what is new gets vectors of its own."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        # How new entities are treated by default; stored values that cannot be used are refused here.
        self.defaults = NewcomerDefaults.of(checkpoint)

    @classmethod
    def load(cls, directory: str | Path, device: str = "cpu") -> Model:
        """Read a model directory."""
        return cls(load_checkpoint(directory, device))

    def save(self, directory: str | Path) -> None:
        """Write a model directory, atomically, with what is chosen for new entities; names go with it."""
        names, home = self.names, self.checkpoint.directory
        save_checkpoint(self.checkpoint, directory)
        if len(names) and home is not None and home.resolve() != Path(directory).resolve():
            add_names(directory, names, replace=True)

    def save_choice(self, directory: str | Path) -> None:
        """Store only what is chosen for new entities with this same model in a directory; its vectors stay."""
        save_newcomer_choice(self.choice.to_dict(), directory, self.checkpoint)

    @property
    def choice(self) -> NewcomerChoice:
        """What is chosen for new entities, by `tune`, `audit` and `fit_judge`."""
        return self.defaults.choice

    def with_choice(self, choice: NewcomerChoice) -> Model:
        """This model with another choice for new entities, such as `tune(...).choice`; `save` keeps it."""
        return Model(replace(self.checkpoint, newcomers=choice.to_dict()))

    def with_judge(self, judge: FittedJudge | None) -> Model:
        """This model with a judge that learned with it; `save` keeps it, `classify(..., judge=True)` uses it."""
        if judge is not None:
            judge.for_model(self.relations, self.relation_vectors, feature_names())
        return self.with_choice(replace(self.choice, judge=judge))

    def evaluate(  # noqa: PLR0913 (options by keyword)
        self,
        dataset: Dataset | GrowingDataset | str | Path,
        *,
        task: Task | None = None,
        weights: Weights | None = None,
        limit: NeighborLimit | None = None,
        refine: bool | RefineSettings = False,
        combine: bool | RankingWeights | None = None,
        new_relations: bool = False,
        protocol: Protocol = "paper",
        ties: TieRule = "mean",
        progress: bool = False,
    ) -> LinkPredictionResult | TripletClassificationResult | GrowthFigures:
        """How good this model is on a data set, or on its name or folder; `ookg.evaluate` describes the options."""
        return evaluate(
            self,
            dataset,
            task=task,
            weights=weights,
            limit=limit,
            refine=refine,
            combine=combine,
            new_relations=new_relations,
            protocol=protocol,
            ties=ties,
            progress=progress,
        )

    def tune(self, settings: TuningSettings | None = None) -> Tuning:
        """Choose power, refinement and combination on known entities made new again; `with_choice` takes the choice."""
        return tune(self.checkpoint, settings)

    def audit(self, settings: AuditSettings | None = None) -> Audit:
        """What a newcomer loses against a trained entity, measured on known entities made new again."""
        return audit(self.checkpoint, settings)

    def fit_judge(self, valid: TripleSource, settings: JudgeSettings | None = None) -> FittedJudge:
        """A judge of claims about new entities that learns from labelled claims about known ones; it trains once."""
        return fit_judge(self, valid, settings)

    def __repr__(self) -> str:
        geometry = self.checkpoint.embedding.geometry
        kind = f"{type(geometry).__name__}, dim {geometry.dim}, norm {geometry.norm}"
        return f"<ookg.Model {kind}: {len(self.entities):,} entities, {len(self.relations):,} relations>"

    @property
    def entities(self) -> Vocabulary:
        """The known entities."""
        return self.checkpoint.entities

    @property
    def relations(self) -> Vocabulary:
        """The relations with a trained vector."""
        return self.checkpoint.relations

    @property
    def entity_vectors(self) -> Tensor:
        """(entities, entity_width); RotatE: the real parts, then the imaginary parts."""
        return self.checkpoint.embedding.entities

    @property
    def relation_vectors(self) -> Tensor:
        """(relations, relation_width); RotatE: phases in radians."""
        return self.checkpoint.embedding.relations

    @property
    def embedding(self) -> Embedding:
        """The geometry and both tables."""
        return self.checkpoint.embedding

    @cached_property
    def names(self) -> Names:
        """What the ids of entities and relations are called: the names of the directory that the model is from."""
        home = self.checkpoint.directory
        return Names.none() if home is None else stored_names(home)

    @cached_property
    def index(self) -> GraphIndex:
        """The training triples by entity, sorted once."""
        return self.checkpoint.index

    @cached_property
    def statistics(self) -> GraphStatistics:
        """What is counted on the training triples; zeros for a model that came without them."""
        counted = self.checkpoint.statistics
        if counted is not None:
            return counted
        return GraphStatistics.count(self.checkpoint.triples, len(self.entities), len(self.relations))

    @cached_property
    def known_evidence(self) -> GraphEvidence:
        """What the training triples say beside the vectors, counted once, when it is first asked for."""
        nothing = np.empty((0, 3), dtype=np.int64)
        return GraphEvidence.count(self.checkpoint.triples, nothing, len(self.relations), self.index)

    def without(self, triples: IntArray) -> Model:
        """The same vectors beside a graph that never had some of the training triples, (triples, 3) of its ids."""
        graph = self.checkpoint.graph
        if graph is None or not len(triples):
            return self
        return Model(replace(self.checkpoint, graph=graph.without(triples)))

    def extend(
        self,
        triples: TripleSource = (),
        *,
        weights: Weights | None = None,
        limit: NeighborLimit | None = None,
        refine: bool | RefineSettings = False,
    ) -> ExtendedModel:
        """This model together with triples about what is new to it: an object to be asked, and added to, many times.

        weights: correlation weights by default; refine: fit the new vectors to their triples
        """
        weights = weights or self.default_weights(Correlation())
        if self.checkpoint.statistics is None:
            refuse_without_statistics(weights)
        extended = ExtendedModel(self, Preparation(weights, limit, self.refinement(refine)))
        extended.add(triples)
        return extended

    def default_weights(self, weights: Weights) -> Weights:
        """The usual weights of a task, with the power that `ookg tune` chose; uniform ones for a model that came
        without its training triples.
        """
        return self.defaults.weights(weights)

    def given(
        self,
        triples: TripleSource,
        weights: Weights,
        limit: NeighborLimit | None = None,
        *,
        new_relations: bool = False,
    ) -> Given:
        """Find the new entities and their neighbours in given triples.

        new_relations: whether relations that only the given triples have get vectors; the published protocols have none
        """
        return find_given(self.checkpoint, triples, weights, limit, new_relations=new_relations)

    def refinement(self, refine: bool | RefineSettings) -> RefineSettings | None:
        """How vectors are fitted if `refine` says so: as it says, as `ookg tune` chose, or at the model's scale."""
        return self.defaults.refinement(refine)

    def ranking_weights(self, combine: bool | RankingWeights, refined: bool) -> RankingWeights | None:
        """How evidence is weighed if `combine` says so: as it says, as `ookg tune` chose, or by default."""
        return self.defaults.ranking_weights(combine, refined)

    def combines(self, refine: bool | RefineSettings) -> bool:
        """Whether answers are ranked by all evidence by default (see `NewcomerDefaults.combines`)."""
        return self.defaults.combines(refine, lambda: self.known_evidence.redundancy)

    def trust(self, newcomers: Newcomers, which: IntArray, *, refine: bool, combine: bool = False) -> TrustTable:
        """How far to trust the vectors of some newcomers, counted from 0."""
        return trust_table(newcomers, self.defaults.calibration(refine=refine, combine=combine), which)

    def embed(
        self,
        triples: TripleSource,
        *,
        weights: Weights | None = None,
        query_relation: str | None = None,
        limit: NeighborLimit | None = None,
        refine: bool | RefineSettings = False,
        report: Reporter | None = None,
    ) -> NewVectors:
        """Vectors for the entities of `triples` that the model does not know: e = Σ w(ẽ)·ẽ over their candidates ẽ.

        weights: `Uniform()`, `Degree()` or `Correlation()`; by default correlation if a query relation is given, as
            those weights depend on it, else degree
        refine: fit the vectors to their triples from there on; known vectors do not move
        report: called with the number of steps done
        """
        weights = weights_of_vectors(self, weights, query_relation, refined=bool(refine))
        given = self.refined(self.given(triples, weights, limit, new_relations=True), refine, report)
        return new_vectors(self, given, query_relation, refined=bool(refine))

    def predict(  # noqa: PLR0913 (options by keyword)
        self,
        given: TripleSource = (),
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        weights: Weights | None = None,
        limit: NeighborLimit | None = None,
        refine: bool | RefineSettings = False,
        combine: bool | RankingWeights | None = None,
        top: int = 10,
        known_answers: Literal["drop", "mark"] = "drop",
        new_answers: bool = True,
    ) -> Prediction:
        """The best tails for (head, relation) or heads for (relation, tail); the given end may be known or new.

        Candidates are all known entities and the new ones of `given` (unless new_answers is False), but for the
        asked entity itself if it is new. Answers that the training or given triples already state are left out, or
        kept and marked. Weights are correlation weights by default.

        refine: fit the new vectors to their triples first
        combine: rank by the vector together with direct links and habits of relations; by default as `combines` says.
            Scores are then weighted sums instead of -D(h, r, t).
        """
        question = Question(relation, head, tail)
        options = AnswerOptions(combine, top, known_answers == "drop", new_answers)
        extended = self.extend(given, weights=weights, limit=limit, refine=refine)
        found = extended.predict_all([question], options)[0]
        return replace(found, notes=extended.notes)

    def classify(
        self,
        claims: TripleSource,
        *,
        valid: TripleSource,
        given: TripleSource = (),
        weights: Weights | None = None,
        limit: NeighborLimit | None = None,
        refine: bool | RefineSettings = False,
        judge: bool | JudgeSettings | FittedJudge = False,
    ) -> Classification:
        """True or false for each claim: its score against its relation's threshold, fitted to labelled `valid` triples.

        Weights are degree weights by default. A claim whose ends or relation have no vector gets no verdict.
        refine: fit the new vectors to their triples first
        judge: judge claims about new entities by all evidence: by the judge stored with the model, or by one that is
            fitted on `valid`, which takes a training; weights, limit and refine are then left out
        """
        if judge:
            if weights is not None or limit is not None or refine:
                raise InputError("the judge has its own way to weigh evidence; leave out weights, limit and refine")
            return classify_judged(self, claims, valid=valid, given=given, judge=judge)
        weights = weights or self.default_weights(Degree())
        return self.extend(given, weights=weights, limit=limit, refine=refine).classify(claims, valid=valid)

    def refined(self, given: Given, refine: bool | RefineSettings, report: Reporter | None = None) -> Given:
        """The given triples with the new vectors fitted, if `refine` says so."""
        return given.refined_by(self.refinement(refine), report)
