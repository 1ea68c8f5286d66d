"""A trained model with its labels: represent what is new, ask about it, judge claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.dataset import Dataset
from ookg.datasets.encoded import Task
from ookg.datasets.few_shot import FewShotDataset, load_few_shot
from ookg.datasets.growing import GrowingDataset
from ookg.datasets.shots import TaskSplit
from ookg.errors import InputError
from ookg.evaluation.evaluate import LinkPredictionResult, TripletClassificationResult, evaluate
from ookg.evaluation.few_shot import FewShotFigures
from ookg.evaluation.growing import GrowthFigures
from ookg.evaluation.judging import fit_judge
from ookg.evaluation.known_links import (
    KnownLinksResult,
    choose_known_ranking,
    evaluate_known,
    fit_known_likelihood,
    held_out_triples,
)
from ookg.evaluation.task_tuning import TaskTuning, tune_on_tasks
from ookg.evaluation.verdicts import Classification, Verdict, accuracy
from ookg.evidence.claims import feature_names
from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.evidence.network import AnswerNetwork, loaded_network
from ookg.extension.answers import (
    Answer,
    AnswerReason,
    LikelyAnswers,
    LinkReason,
    Neighbors,
    NewVectors,
    Prediction,
    Reason,
)
from ookg.extension.extended import ExtendedModel
from ookg.extension.groups import Preparation
from ookg.extension.likely import End
from ookg.extension.questions import AnswerKeywords, AnswerOptions, Question, answer_options
from ookg.graph.fitting import FittingRelations
from ookg.graph.index import GraphIndex
from ookg.graph.known import KnownGraph
from ookg.graph.names import Names
from ookg.graph.statistics import GraphStatistics, often_loops
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vectors import LabelledRows, check_rows, read_vectors
from ookg.graph.vocabulary import Vocabulary
from ookg.model.embedded import new_vectors, weights_of_vectors
from ookg.model.held_out import rows_held_out_of
from ookg.model.network import network_of, store_network
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, as_limit
from ookg.newcomers.given import Given, find_given
from ookg.newcomers.prior import Residuals
from ookg.newcomers.reducer import (
    Correlation,
    Degree,
    Precision,
    Weights,
    WeightsChoice,
    as_weights,
    refuse_without_statistics,
    with_residuals,
)
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import Protocol
from ookg.scoring.ranking import TieRule
from ookg.simulation.audit import Audit, AuditSettings, audit
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.claim_thresholds import FittedThresholds
from ookg.simulation.defaults import NewcomerDefaults
from ookg.simulation.hiding import NewEnd
from ookg.simulation.judge import FittedJudge, JudgeSettings
from ookg.simulation.likelihood import Likelihood
from ookg.simulation.made_claims import made_claims
from ookg.simulation.trust import TrustTable, trust_table
from ookg.simulation.tuning import Tuning, TuningSettings, tune
from ookg.simulation.ways import DEFAULT_KNOWN, Ways
from ookg.storage.checkpoint import Checkpoint, load_checkpoint, save_newcomer_choice
from ookg.storage.companions import named, save_together
from ookg.storage.names import add_names, stored_names
from ookg.storage.network import remove_network
from ookg.system.progress import Reporter
from ookg.training.loop import choose_device
from ookg.training.network import NetworkSettings
from ookg.types import BoolArray, IntArray

__all__ = [
    "Answer",
    "AnswerReason",
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

    def __init__(self, checkpoint: Checkpoint, trained: Model | None = None) -> None:
        """trained: the model as it was trained, where this one has its vectors beside another graph or choice."""
        self.checkpoint, self._trained = checkpoint, trained
        # How new entities are treated by default; stored values that cannot be used are refused here.
        self.defaults = NewcomerDefaults.of(checkpoint)

    @classmethod
    def load(cls, directory: str | Path, device: str = "cpu") -> Model:
        """Read a model directory. device: "cpu", "cuda", or "auto", which is the GPU where there is one"""
        return cls(load_checkpoint(directory, str(choose_device(device))))

    def save(self, directory: str | Path) -> None:
        """Write a model directory, atomically, with what is chosen for new entities, its names and its companions."""
        names, home = self.names, self.checkpoint.directory
        save_together(self.checkpoint, directory)
        if len(names) and home is not None and home.resolve() != Path(directory).resolve():
            add_names(directory, names, replace=True)

    def compacted(self) -> Model:
        """This model with its entities' vectors in 16 bits each, half the room on disk and in memory, to be asked.

        Its companions too. Answers change by little, updates are refused; TransH and TransR are as well.
        """
        whole = self.checkpoint
        parts = {name: replace(one, embedding=one.embedding.compacted()) for name, one in whole.companions.items()}
        return Model(replace(whole, embedding=whole.embedding.compacted(), companions=parts))

    def save_choice(self, directory: str | Path) -> None:
        """Store only what is chosen for new entities with this same model in a directory; its vectors stay."""
        before = (self._trained or self).checkpoint.newcomers
        save_newcomer_choice(self.choice.to_dict(), directory, self.checkpoint, before)

    @property
    def choice(self) -> NewcomerChoice:
        """What is chosen for new entities, by `tune`, `audit` and `fit_judge`."""
        return self.defaults.choice

    def with_choice(self, choice: NewcomerChoice) -> Model:
        """This model with another choice for new entities, such as `tune(...).choice`; `save` keeps it."""
        return Model(replace(self.checkpoint, newcomers=choice.to_dict()), self._trained or self)

    @cached_property
    def companions(self) -> tuple[Model, ...]:
        """The models that answer questions together with this one, beside the same graph."""
        trained, graph = self._trained, self.checkpoint.graph
        if trained is not None and trained.checkpoint.companions is self.checkpoint.companions:
            return tuple(one.beside(graph) for one in trained.companions)
        return tuple(Model(one).beside(graph) for one in self.checkpoint.companions.values())

    def with_companions(self, models: Iterable[Model]) -> Model:
        """This model together with others that know the same: answers are ranked by the mean of standardised scores.

        They must have the same entity and relation labels in the same order. `save` keeps them; none: this one alone.
        """
        models = list(models)
        for one in models:
            for what, mine, other in (
                ("entities", self.entities, one.entities),
                ("relations", self.relations, one.relations),
            ):
                if mine != other:
                    problem = f"{one!r} has other {what} than {self!r}, or in another order"
                    raise InputError(f"{problem}; train both on the same triples")
            if one.embedding.device != self.embedding.device:
                problem = f"a model on {one.embedding.device} together with one on {self.embedding.device}"
                raise InputError(f"{problem}; load both on the same device")
        companions = named([one.checkpoint for one in models])
        return Model(replace(self.checkpoint, companions=companions), self._trained or self)

    def with_judge(self, judge: FittedJudge | None) -> Model:
        """This model with a judge that learned with it; `save` keeps it, `classify(..., judge=True)` uses it."""
        if judge is not None:
            judge.for_model(self.relations, self.relation_vectors, feature_names())
        return self.with_choice(replace(self.choice, judge=judge))

    @property
    def judge(self) -> FittedJudge | None:
        """The stored judge, if it fits: not one that learned with other vectors, or on evidence of an older version."""
        judge = self.choice.judge
        try:
            if judge is not None:
                judge.for_model(self.relations, self.relation_vectors, feature_names())
        except InputError:
            return None
        return judge

    def evaluate(  # noqa: PLR0913 (options by keyword)
        self,
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
        """How good this model is on a data set, or on its name or folder; `ookg.evaluate` describes the options."""
        return evaluate(
            self,
            dataset,
            task=task,
            weights=None if (said := as_weights(weights)) is None else self._with_residuals(said),
            limit=limit,
            refine=refine,
            combine=combine,
            new_relations=new_relations,
            protocol=protocol,
            ties=ties,
            shots=shots,
            tasks=tasks,
            chosen=chosen,
            progress=progress,
        )

    def evaluate_known(
        self,
        test: TripleSource,
        *,
        valid: TripleSource = (),
        combine: bool | RankingWeights = False,
        chosen: bool = False,
        ties: TieRule = "mean",
        seed: int = 0,
    ) -> KnownLinksResult:
        """Ordinary link prediction on test triples of known entities, with the rank of every question.

        valid: further true triples, which are no wrong answers; combine: rank by all evidence; seed: of the intervals
        """
        return evaluate_known(self, test, valid=valid, combine=combine, chosen=chosen, ties=ties, seed=seed)

    def tune(self, settings: TuningSettings | None = None) -> Tuning:
        """Choose power, refinement and combination on known entities made new again; `with_choice` takes the choice."""
        return tune(self.checkpoint, settings)

    def tune_on_tasks(self, dataset: FewShotDataset | str | Path, shots: Sequence[int], *, seed: int = 0) -> TaskTuning:
        """Choose how newcomers with so many given triples are answered, on the valid-tasks of a few-shot data set."""
        return tune_on_tasks(
            self, dataset if isinstance(dataset, FewShotDataset) else load_few_shot(dataset), shots, seed=seed
        )

    def audit(self, settings: AuditSettings | None = None) -> Audit:
        """What a newcomer loses against a trained entity, measured on known entities made new again."""
        return audit(self.checkpoint, settings)

    def fit_judge(self, valid: TripleSource | None = None, settings: JudgeSettings | None = None) -> FittedJudge:
        """A judge of claims about new entities that learns from labelled claims about known ones; it trains once.

        Where there are few of them, or none, it also learns from training triples and false ones made from them.
        """
        return fit_judge(self, valid, settings)

    def judge_for(self, valid: TripleSource | None = None) -> FittedJudge:
        """The judge that `classify` takes if nothing is said: the stored one, or one that learns on the own vectors.

        One that learned without labelled claims gives way to one that learns from `valid`, and one of an older version
        to one that learns as it did, where that takes seconds. Nothing is stored.
        """
        stored = self.judge
        if stored is not None and stored.serves(labelled=valid is not None):
            return stored
        return self.fit_judge(valid, JudgeSettings(new="both", retrain=False))

    @cached_property
    def usual_judge(self) -> FittedJudge | None:
        """`judge_for` without labelled claims, once for this object; None where none can learn."""
        try:
            return self.judge_for()
        except InputError:
            return None

    @property
    def claim_thresholds(self) -> FittedThresholds | None:
        """What claims about known entities are held against, if it is stored with the model.

        Not what an older version fitted to made claims: that is fitted anew.
        """
        stored = self.choice.thresholds
        return None if stored is not None and stored.is_made and stored.is_old else stored

    @cached_property
    def made_claims(self) -> Triples:
        """Labelled claims where nobody has labelled any: triples of the graph, and false ones made from them.

        The triples are those that the training held out, where it did and none has been learned since.
        """
        unseen = rows_held_out_of(self.checkpoint)
        return made_claims(self.known_triples, self.entities, self.relations, unseen=unseen)

    @property
    def was_trained_here(self) -> bool:
        """Whether it is known how it was trained, so that it can be trained again."""
        return {"model", "dim", "steps"} <= set(self.checkpoint.settings)

    def __repr__(self) -> str:
        geometry = self.checkpoint.embedding.geometry
        kind = f"{type(geometry).__name__}, dim {geometry.dim}, norm {geometry.norm}"
        if self.checkpoint.companions:
            kind += f", with {', '.join(self.checkpoint.companions)}"
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
        if self._trained is not None:
            return self._trained.names
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

    @property
    def known_triples(self) -> IntArray:
        """(triples, 3) the training triples as ids; none for a model that came without them."""
        return self.checkpoint.triples

    @cached_property
    def loops(self) -> BoolArray:
        """(relations,) over which of them an entity can be its own answer: training has enough triples like that."""
        graph, counts = self.checkpoint.graph, self.checkpoint.counts
        if graph is None:
            return np.zeros(len(self.relations), dtype=np.bool_)
        if counts is None:
            return often_loops(graph.loop_counts)
        return often_loops(counts.kept("loops", lambda: {"loops": graph.loop_counts})["loops"])

    @cached_property
    def known_evidence(self) -> GraphEvidence:
        """What the training triples say beside the vectors, counted once, when it is first asked for."""
        checkpoint = self.checkpoint
        return GraphEvidence.of_version(lambda: checkpoint.triples, self.index, checkpoint.counts, self.network)

    @cached_property
    def network(self) -> AnswerNetwork | None:
        """The graph neural network that was trained for it, if there is one; it speaks beside the other evidence."""
        trained = self._trained
        if trained is not None and trained.checkpoint.network is self.checkpoint.network:
            return trained.network
        return loaded_network(self.checkpoint.network, self.embedding)

    def train_network(
        self,
        settings: NetworkSettings | None = None,
        *,
        given: TripleSource = (),
        device: str | None = None,
        report: Reporter | None = None,
    ) -> Model:
        """This model with a graph neural network trained on its training triples; `save` and `save_network` keep it.

        given: further triples that it is trained on; those over relations that the model does not know are left out
        device: by default where this model is; report: called with the number of steps done
        """
        device = device or self.embedding.device.type
        network = network_of(self.checkpoint, settings, as_triples(given), device, report)
        return Model(replace(self.checkpoint, network=network), self._trained or self)

    def save_network(self, directory: str | Path) -> None:
        """Store only its network with this same model in a directory; or see that there is none."""
        if self.checkpoint.network is None:
            remove_network(directory)
        else:
            store_network(self.checkpoint.network, directory)

    @cached_property
    def fitting(self) -> FittingRelations:
        """Which relations fit an entity, by what entities with its relations have; counted when it is first asked."""
        return FittingRelations(self.index)

    @cached_property
    def residuals(self) -> Residuals:
        """How far candidates are off among the triples that the vectors were trained on; made when first asked for.

        Whatever was taken out of the graph since: the vectors are still the same.
        """
        if self._trained is not None:
            return self._trained.residuals
        counts = self.checkpoint.counts
        if counts is None:
            return Residuals.of(self.embedding, self.index)
        kept = counts.kept("residuals", lambda: Residuals.of(self.embedding, self.index).to_arrays())
        return Residuals.from_arrays(kept)

    def count_ahead(self) -> None:
        """Count what the first question about a newcomer needs; of a large stored model, that is kept with it."""
        self.residuals, self.known_evidence["links"]

    def without(self, triples: IntArray) -> Model:
        """The same vectors beside a graph that never had some of the training triples, (triples, 3) of its ids."""
        graph = self.checkpoint.graph
        if graph is None or not len(triples):
            return self
        return self.beside(graph.without(triples))

    def beside(self, graph: KnownGraph | None) -> Model:
        """The same vectors beside another graph of the same entities and relations."""
        return Model(replace(self.checkpoint, graph=graph), self._trained or self)

    def with_vectors(self, vectors: NewVectors | LabelledRows | str | Path) -> Model:
        """This model with further entities that have vectors already, such as `embed` made, and no triples.

        They are asked and are answers like known ones, by their vectors alone. vectors: also a file of them
        """
        if isinstance(vectors, NewVectors):
            rows = LabelledRows(vectors.entities, vectors.vectors, "vectors")
        else:
            rows = vectors if isinstance(vectors, LabelledRows) else read_vectors(vectors)
        check_rows(rows, self.entity_vectors.shape[1])
        known = [label for label in rows.labels if label in self.entities]
        if known:
            raise InputError(f"{rows.source}: {known[0]!r} is known to the model; leave it out")
        table = torch.cat([self.entity_vectors, rows.vectors.to(self.entity_vectors)])
        entities, graph = self.entities.extended(rows.labels), self.checkpoint.graph
        grown = replace(
            self.checkpoint,
            embedding=replace(self.embedding, entities=table),
            entities=entities,
            graph=None if graph is None else graph.with_room_for(len(entities)),
            companions={},
            given_vectors=self.checkpoint.given_vectors + len(rows.labels),
        )
        return Model(grown)

    @property
    def given_vectors(self) -> int:
        """How many of the entities, the last ones, were not trained but came with their vectors (`with_vectors`)."""
        return self.checkpoint.given_vectors

    def neighbors(self, entity: str, given: TripleSource = (), *, top: int = 10) -> Neighbors:
        """The entities whose vectors are nearest to that of a known or new one, the nearest first."""
        return self.extend(given).neighbors(entity, top)

    def extend(
        self,
        triples: TripleSource = (),
        *,
        weights: WeightsChoice | None = None,
        limit: NeighborLimit | int | None = None,
        refine: bool | RefineSettings | None = None,
    ) -> ExtendedModel:
        """This model together with triples about what is new to it: an object to be asked, and added to, many times.

        With neither weights nor refine, each newcomer is answered by what `ways` has for its number of triples.

        weights: correlation weights by default; limit: how many triples of an entity are used at most
        refine: fit the new vectors to their triples
        """
        extended = ExtendedModel(self, self._preparation(as_weights(weights), as_limit(limit), refine))
        extended.add(triples)
        return extended

    def _preparation(
        self, weights: Weights | None, limit: NeighborLimit | None, refine: bool | RefineSettings | None
    ) -> Preparation:
        ways = self.ways if weights is None and refine is None else None
        if ways is not None:
            weights, refine = Precision(), ways.refine_from is not None
        own = weights or self.default_weights(Correlation())
        companions = tuple(
            Preparation(
                one._with_residuals(weights or one.default_weights(Correlation())),
                limit,
                one.defaults.refinement_beside(refine or False),
                ways,
            )
            for one in self.companions
        )
        return Preparation(self._with_residuals(own), limit, self.refinement(refine or False), ways, companions)

    @property
    def ways(self) -> Ways | None:
        """How questions about newcomers are answered, by their number of triples, where nothing else is said.

        As `ookg tune` chose, or by default; None for a model that came without its training triples: then its vectors
        answer, made with uniform weights.
        """
        return self.defaults.ways

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
        weights = self._with_residuals(weights)
        return find_given(self.checkpoint, triples, weights, limit, new_relations=new_relations)

    def _with_residuals(self, weights: Weights) -> Weights:
        """Weights that this model can have; precision weights get its residuals."""
        if self.checkpoint.statistics is None:
            refuse_without_statistics(weights)
        return with_residuals(weights, lambda: self.residuals)

    def refinement(self, refine: bool | RefineSettings) -> RefineSettings | None:
        """How vectors are fitted if `refine` says so: as it says, as `ookg tune` chose, or at the model's scale."""
        return self.defaults.refinement(refine)

    def ranking_weights(self, combine: bool | RankingWeights, refined: bool) -> RankingWeights | None:
        """How evidence is weighed if `combine` says so: as it says, as `ookg tune` chose, or by default."""
        return self.defaults.ranking_weights(combine, refined)

    def combines(self, refine: bool | RefineSettings) -> bool:
        """Whether answers are ranked by all evidence by default (see `NewcomerDefaults.combines`)."""
        return self.defaults.combines(refine, lambda: self.known_evidence.redundancy)

    def trust(
        self, newcomers: Newcomers, which: IntArray, *, refine: bool, combine: bool = False, chosen: bool = False
    ) -> TrustTable:
        """How far to trust the vectors of some newcomers, counted from 0. chosen: used as `ways` has it"""
        calibration = self.defaults.calibration(refine=refine, combine=combine, chosen=chosen)
        return trust_table(newcomers, calibration, which, self.residuals)

    def likelihood(self, *, refine: bool, combine: bool, chosen: bool, models: int) -> Likelihood | None:
        """How likely answers about newcomers are right, if `tune` measured it for this way of answering."""
        return self.defaults.likelihood(refine=refine, combine=combine, chosen=chosen, models=models)

    @property
    def measured_without_network(self) -> bool:
        """Whether that was measured, but without the network that counts in answers now."""
        return self.defaults.measured_without_network

    @property
    def known_ranking(self) -> RankingWeights | None:
        """What counts in questions about known entities where nothing is said; None if the vector alone ranks."""
        return self.defaults.known_ranking

    def known_likelihood(self, weights: RankingWeights | None, *, models: int) -> Likelihood | None:
        """How likely answers about known entities are right, if `calibrated` measured it for such weights."""
        return self.defaults.known_likelihood(weights, models=models)

    def calibrated(self, held_out: TripleSource, seed: int = 0) -> Model:
        """This model with what ranks answers about known entities best, and how likely these are right.

        held_out: true triples of known entities that training did not have; `save_choice` stores the result
        """
        source = as_triples(held_out)
        triples = held_out_triples(self, source)
        tried = choose_known_ranking(self, triples, seed)
        ranking = DEFAULT_KNOWN if tried is None else tried.ranking
        network = self.defaults.network if ranking.asks_network else None
        chosen = self.with_choice(replace(self.choice, known=ranking, known_network=network))
        fitted = fit_known_likelihood(chosen, triples, source.source, seed)
        return self.with_choice(replace(chosen.choice, likelihood=self.choice.likelihood | {"known": fitted}))

    def embed(
        self,
        triples: TripleSource,
        *,
        weights: WeightsChoice | None = None,
        query_relation: str | None = None,
        limit: NeighborLimit | int | None = None,
        refine: bool | RefineSettings = False,
        report: Reporter | None = None,
    ) -> NewVectors:
        """Vectors for the entities of `triples` that the model does not know: e = Σ w(ẽ)·ẽ over their candidates ẽ.

        weights: `Uniform()`, `Degree()`, `Precision()` or `Correlation()`, or such a name ("uniform"); by default
            correlation if a query relation is given, as those weights depend on it, else degree
        limit: how many triples of an entity are used at most; a number, or `NeighborLimit` with a seed
        refine: fit the vectors to their triples from there on; known vectors do not move
        report: called with the number of steps done
        """
        own = weights_of_vectors(self, as_weights(weights), query_relation, refined=bool(refine))
        given = self.refined(self.given(triples, own, as_limit(limit), new_relations=True), refine, report)
        return new_vectors(self, given, query_relation, refined=bool(refine))

    def predict(
        self,
        given: TripleSource = (),
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        weights: WeightsChoice | None = None,
        limit: NeighborLimit | int | None = None,
        refine: bool | RefineSettings | None = None,
        options: AnswerOptions | None = None,
        **keywords: Unpack[AnswerKeywords],
    ) -> Prediction:
        """The best tails for (head, relation) or heads for (relation, tail); the given end may be known or new.

        Candidates are all known entities and the new ones of `given` (unless new_answers is False). The asked entity
        itself is one only over relations that often join an entity to itself in training (`loops`). Answers that the
        training or given triples already state are left out, or kept and marked (known_answers="mark"). RDF nodes
        without a name are answers only with blank_nodes. top: how many answers, 10 by default

        With none of weights, refine and combine, a question about a newcomer is answered by what `ways` has for its
        number of triples; `Prediction.way` says how. If one of them is given, weights are correlation weights by
        default, and:

        refine: fit the new vectors to their triples first
        combine: rank by the vector together with direct links and habits of relations; by default as `combines` says
        Scores of evidence are weighted sums instead of -D(h, r, t).

        A question about a known entity is answered by its trained vector and what `known_ranking` has, unless `combine`
        is given.

        explain: say for each answer what speaks for it against those that rank next: `Answer.shares` and `reasons`
        options: the same and more in one object; what is said by keyword goes before it
        """
        options = answer_options(options, **keywords)
        if options.combine is not None and refine is None:
            refine = False
        question = Question(relation, head, tail)
        extended = self.extend(given, weights=weights, limit=limit, refine=refine)
        prediction = extended.predict_all([question], options)[0]
        return replace(prediction, notes=extended.notes)

    def likely(
        self,
        given: TripleSource = (),
        *,
        entity: str,
        end: End = "both",
        options: AnswerOptions | None = None,
        **keywords: Unpack[AnswerKeywords],
    ) -> LikelyAnswers:
        """Everything likely about a known or new entity over all relations that fit it, the likeliest first.

        A directed relation fits that entities with its relations have. end: where the entity stands, or both
        """
        return self.extend(given).likely(entity, end, options, **keywords)

    def classify(
        self,
        claims: TripleSource,
        *,
        valid: TripleSource | None = None,
        given: TripleSource = (),
        weights: WeightsChoice | None = None,
        limit: NeighborLimit | int | None = None,
        refine: bool | RefineSettings = False,
        judge: bool | JudgeSettings | FittedJudge | None = None,
    ) -> Classification:
        """True or false for each claim: its score against its relation's threshold, fitted to labelled `valid` triples.

        Without `valid`, by what is stored with the model, or else by what training triples and false ones made from
        them teach; `Classification.thresholds` and `.judge` are what was used, for `with_choice`.

        Claims about newcomers are judged by all evidence: by the judge that is stored with the model, or by one that
        learns from `valid` on the model's own vectors; `Classification.judge` is that one, for `with_judge`. If
        weights, limit or refine say how newcomers get their vectors (degree weights by default), or judge is False,
        such claims are held against thresholds too, found on known entities that are made new again in the same way.
        A claim whose ends or relation have no vector gets no verdict.

        refine: fit the new vectors to their triples first
        judge: True: the stored one, or one that is trained without some entities, or an error that says why there can
            be none; settings: one that learns by these
        """
        says_how = weights is not None or limit is not None or bool(refine)
        if judge and says_how:
            raise InputError("the judge has its own way to weigh evidence; leave out weights, limit and refine")
        claims = as_triples(claims, keep_duplicates=True)
        labelled = None if valid is None else as_triples(valid, keep_duplicates=True)
        usual = as_weights(weights) or self.default_weights(Degree())
        extended = self.extend(given, weights=usual, limit=limit, refine=refine)
        if judge is False or (judge is None and says_how):
            return extended.classify(claims, valid=labelled)
        if isinstance(judge, FittedJudge):
            return extended.classify(claims, valid=labelled, judge=judge)
        new = extended.new_end(claims)
        if new is None:
            return extended.classify(claims, valid=labelled)
        try:
            fitted = self.judge_for(labelled) if judge is None else self._judge_by(judge, labelled, new)
        except InputError as error:
            if judge:
                raise
            by_thresholds = extended.classify(claims, valid=labelled)
            return replace(by_thresholds, notes=[*by_thresholds.notes, f"no judge: {str(error).split(';')[0]}"])
        return extended.classify(claims, valid=labelled, judge=fitted)

    def _judge_by(self, judge: bool | JudgeSettings, valid: Triples | None, new: NewEnd) -> FittedJudge:
        """The judge that is asked for: the stored one, or one that is trained. new: the end of the claims that is"""
        stored = self.choice.judge
        if stored is not None and stored.serves(labelled=valid is not None) and not isinstance(judge, JudgeSettings):
            return stored
        settings = judge if isinstance(judge, JudgeSettings) else JudgeSettings(new=new)
        return self.fit_judge(valid, settings if settings.new else replace(settings, new=new))

    def refined(self, given: Given, refine: bool | RefineSettings, report: Reporter | None = None) -> Given:
        """The given triples with the new vectors fitted, if `refine` says so."""
        return given.refined_by(self.refinement(refine), report)
