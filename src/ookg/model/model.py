"""A trained model with its labels: represent what is new, ask about it, judge claims."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.dataset import Dataset
from ookg.datasets.encoded import Task
from ookg.datasets.growing import GrowingDataset
from ookg.errors import InputError, unknown_name
from ookg.evaluation.evaluate import LinkPredictionResult, TripletClassificationResult, evaluate
from ookg.evaluation.growing import GrowthFigures
from ookg.evaluation.judging import classify_judged, fit_judge
from ookg.evaluation.verdicts import Classification, Verdict, accuracy
from ookg.evidence.claims import feature_names
from ookg.evidence.combined import GraphEvidence, RankingWeights, standardised
from ookg.extension.answers import (
    Answer,
    LinkReason,
    NewVectors,
    Prediction,
    Reason,
)
from ookg.extension.extended import ExtendedModel
from ookg.extension.groups import Preparation
from ookg.graph.index import GraphIndex
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers
from ookg.newcomers.given import Given, find_given
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import Protocol
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import Ties
from ookg.scoring.thresholds import Thresholds
from ookg.simulation.audit import Audit, AuditSettings, audit
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.defaults import NewcomerDefaults
from ookg.simulation.judge import FittedJudge, JudgeSettings
from ookg.simulation.trust import TrustTable, trust_table
from ookg.simulation.tuning import Tuning, TuningSettings, tune
from ookg.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, save_newcomer_choice
from ookg.system.display import counted
from ookg.system.progress import Reporter
from ookg.types import FloatArray, IntArray

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
NEWCOMERS_AT_ONCE = 1 << 16


class Model:
    """A trained embedding with labels and statistics. Nothing here changes it: what is new gets vectors of its own."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        # How new entities are treated if nothing else is said; stored values that cannot be used are refused here.
        self.defaults = NewcomerDefaults.of(checkpoint)
        self._known_evidence: dict[int, GraphEvidence] = {}  # of the training triples, by number of relations

    @classmethod
    def load(cls, directory: str | Path, device: str = "cpu") -> Model:
        """Read a model directory."""
        return cls(load_checkpoint(directory, device))

    def save(self, directory: str | Path) -> None:
        """Write a model directory, atomically, with what is chosen for new entities."""
        save_checkpoint(self.checkpoint, directory)

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
        ties: Ties = "mean",
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
    def known_evidence(self) -> GraphEvidence:
        """What the training triples say beside the vectors, counted once."""
        return self._evidence_of_training(len(self.relations))

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
        if self.checkpoint.statistics is None and not isinstance(weights, Uniform):
            name = type(weights).__name__.lower()
            problem = f"{name} weights need statistics of the training triples, which this model came without"
            raise InputError(f"{problem}; import it with --triples, or choose uniform weights")
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
        """Whether answers are ranked by all evidence if nothing else is said (see `NewcomerDefaults.combines`)."""
        return self.defaults.combines(refine, lambda: self.known_evidence.links.redundancy)

    def trust(self, newcomers: Newcomers, which: IntArray, *, refine: bool, combine: bool = False) -> TrustTable:
        """How far to trust the vectors of some newcomers, counted from 0."""
        return trust_table(newcomers, self.defaults.calibration(refine=refine, combine=combine), which)

    def graph_evidence(self, given: Given) -> GraphEvidence:
        """What the training and given triples say beside the vectors."""
        known = self._evidence_of_training(given.newcomers.embedding.num_relations)
        return known.with_given(given.triples, len(self.entities))

    def _evidence_of_training(self, num_relations: int) -> GraphEvidence:
        """What the training triples say, counted once."""
        if num_relations not in self._known_evidence:
            nothing = np.empty((0, 3), dtype=np.int64)
            self._known_evidence[num_relations] = GraphEvidence.count(self.checkpoint.triples, nothing, num_relations)
        return self._known_evidence[num_relations]

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
        refine: fit the vectors to their triples from there on; known vectors do not move. `report` tells the steps.
        """
        if refine and query_relation is not None:
            raise InputError("a query relation with refine, whose vectors serve every query; leave one of them out")
        if weights is None and self.checkpoint.statistics is None and query_relation is not None:
            weights = Correlation()  # refused with the reason
        weights = weights or self.default_weights(Correlation() if query_relation is not None else Degree())
        if query_relation is not None and not weights.needs_query:
            name = type(weights).__name__.lower()
            raise InputError(
                f"a query relation with {name} weights, which do not look at it; choose correlation weights"
            )
        if weights.needs_query and query_relation is None:
            raise InputError(
                "correlation weights depend on the relation that is asked for, so there is no single vector; "
                "give a query relation, or choose uniform or degree weights"
            )
        given = self.refined(self.given(triples, weights, limit, new_relations=True), refine, report)
        newcomers, first = given.newcomers, len(self.entities)
        queries = None
        if query_relation is not None:
            queries = np.full(newcomers.support.num_newcomers, self._relation(query_relation, given))
        vectors = newcomers.vectors(np.arange(newcomers.support.num_newcomers), queries)
        made = newcomers.representable
        return NewVectors(
            given.entities.select(np.flatnonzero(made) + first),
            vectors[torch.from_numpy(made)],
            newcomers.counts[made],
            given.entities.select(np.flatnonzero(~made) + first),
            given.notes,
            lambda: self.trust(newcomers, np.flatnonzero(made), refine=bool(refine)),
        )

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
        if (head is None) == (tail is None):
            raise InputError("give either a head or a tail; the other one is what is asked for")
        if top < 1:
            raise InputError(f"top {top}; ask for 1 or more answers")
        chosen_weights = weights or self.default_weights(Correlation())
        found = self.refined(self.given(given, chosen_weights, limit, new_relations=True), refine)
        combine = self.combines(refine) if combine is None else combine
        evidence_weights = self.ranking_weights(combine, bool(refine))
        asked, asks_tail = (head, True) if head is not None else (str(tail), False)
        query = self._relation(relation, found)
        entity = self._entity(asked, found)
        scores = -self._gaps(found, entity, query, asks_tail)  # (known and new entities,)
        evidence = None if evidence_weights is None else self.graph_evidence(found)
        if evidence is not None and evidence_weights is not None:
            scores = self._with_evidence(scores, evidence, evidence_weights, (entity, query, asks_tail))
        if not new_answers:
            scores[len(self.entities) :] = np.nan
        if entity >= len(self.entities):
            scores[entity] = np.nan

        stated = self._stated_answers(found, entity, query, asks_tail)
        if known_answers == "drop":
            scores[stated] = np.nan
        order = np.argsort(-scores, kind="stable")[: min(top, int(np.isfinite(scores).sum()))]
        marked = np.isin(order, stated)
        is_new = order >= len(self.entities)
        labels = found.entities.select(order)
        links: list[LinkReason | None] = [None] * len(order)
        if evidence is not None:
            links = self._link_reasons(found, evidence, (entity, query, asks_tail), order)
        answers = [
            Answer(label, float(scores[place]), rank, bool(known), bool(new), link)
            for rank, (label, place, known, new, link) in enumerate(
                zip(labels, order, marked, is_new, links, strict=True), start=1
            )
        ]
        trust = None
        if entity >= len(self.entities):
            own = np.array([entity - len(self.entities)])
            trust = next(iter(self.trust(found.newcomers, own, refine=bool(refine), combine=bool(combine))))
        return Prediction(answers, self._explanation(found, entity, query), found.notes, trust)

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
        """True or false for each claim: its score against its relation's threshold, found on labelled `valid` triples.

        Weights are degree weights by default. A claim whose ends or relation have no vector gets no verdict.
        refine: fit the new vectors to their triples first
        judge: judge claims about new entities by all evidence: by the judge stored with the model, or by one that is
            fitted on `valid`, which takes a training; weights, limit and refine are then left out
        """
        if judge:
            if weights is not None or limit is not None or refine:
                raise InputError("the judge has its own way to weigh evidence; leave out weights, limit and refine")
            return classify_judged(self, claims, valid=valid, given=given, judge=judge)
        chosen_weights = weights or self.default_weights(Degree())
        found = self.refined(self.given(given, chosen_weights, limit, new_relations=True), refine)
        claims, valid = as_triples(claims, keep_duplicates=True), as_triples(valid, keep_duplicates=True)
        thresholds = self.thresholds(valid, found)
        ids = claims.encoded(found.entities, found.relations)
        scores, limits = found.newcomers.scores(ids), thresholds.of(ids[:, 1])
        scored = ~np.isnan(scores)
        verdicts = [
            Verdict(*triple, score if known else None, limit, score >= limit if known else None)
            for triple, score, limit, known in zip(
                claims, scores.tolist(), limits.tolist(), scored.tolist(), strict=True
            )
        ]
        notes = [*found.notes, *claims.notes, *valid.notes]
        if not scored.all():
            missing = f"{int((~scored).sum()):,} of {counted(len(scored), 'claim')} without a verdict"
            notes.append(f"{missing}: an entity or the relation has no vector")
        asked = np.unique(ids[:, [0, 2]][ids[:, [0, 2]] >= len(self.entities)])
        asked = asked[found.newcomers.has_vector(asked)]
        trusts = self.trust(found.newcomers, asked - len(self.entities), refine=bool(refine))
        trust = dict(zip(found.entities.select(asked), trusts, strict=True))
        return Classification(verdicts, accuracy(scores, limits, claims.truth), notes, trust)

    def refined(self, given: Given, refine: bool | RefineSettings, report: Reporter | None = None) -> Given:
        """The given triples with the new vectors fitted, if `refine` says so."""
        return given.refined_by(self.refinement(refine), report)

    def thresholds(self, valid: Triples, given: Given) -> Thresholds:
        """Thresholds that tell the labelled triples of `valid` apart best."""
        if valid.truth is None:
            raise InputError(f"{valid.source}: no label column; thresholds need triples labelled 1 and 0")
        ids = valid.encoded(given.entities, given.relations)
        scores = given.newcomers.scores(ids)
        scored = ~np.isnan(scores)
        if not scored.any():
            remedy = "give triples of known entities and relations"
            raise InputError(f"{valid.source}: none of its {len(ids)} triples can be scored; {remedy}")
        return Thresholds.fit(scores[scored], ids[scored, 1], valid.truth[scored], len(given.relations))

    def _relation(self, label: str, given: Given) -> int:
        number = given.relations.find(label)
        if number is None:
            known = given.relations.labels.to_pylist()
            raise unknown_name("relation", label, known, "it is in no training triple and in none of the given ones")
        if not given.newcomers.has_relation(np.array([number]))[0]:
            geometry = self.checkpoint.embedding.geometry
            if not geometry.makes_relations:
                remedy = f"{type(geometry).__name__} gives vectors to new entities alone; ask for a trained relation"
            else:
                remedy = "give a triple of it whose two ends are known"
            raise InputError(f"relation {label!r} is new and has no vector; {remedy}")
        return number

    def _entity(self, label: str, given: Given) -> int:
        number = given.entities.find(label)
        if number is None:
            known = given.entities.labels.to_pylist()
            raise unknown_name("entity", label, known, "it is in no training triple and in none of the given ones")
        newcomer = number - len(self.entities)
        if newcomer >= 0 and not given.newcomers.representable[newcomer]:
            problem = f"entity {label!r} is new and has no usable neighbour"
            raise InputError(f"{problem}; give a triple that ties it to a known entity over a trained relation")
        return number

    def _gaps(self, given: Given, entity: int, relation: int, asks_tail: bool) -> FloatArray:
        """The distance of the query's triple with each entity, known and new, at the open end."""
        newcomers = given.newcomers
        embedding = newcomers.embedding
        vector = newcomers.entity_vectors(np.array([entity]), np.array([relation]))
        moved = embedding.relations[relation][None]
        geometry = embedding.geometry
        point = geometry.solve_tail(vector, moved) if asks_tail else geometry.solve_head(moved, vector)
        known = geometry.gap_to_all(point, geometry.project(embedding.entities, moved))[0]
        gaps = [known]
        for start in range(0, newcomers.support.num_newcomers, NEWCOMERS_AT_ONCE):
            others = np.arange(start, min(start + NEWCOMERS_AT_ONCE, newcomers.support.num_newcomers))
            vectors = newcomers.vectors(others, np.full(len(others), relation))
            gaps.append(geometry.gap(point, geometry.project(vectors, moved)))
        return torch.cat(gaps).double().cpu().numpy()

    def _link_reasons(
        self, given: Given, evidence: GraphEvidence, asked: tuple[int, int, bool], answers: IntArray
    ) -> list[LinkReason | None]:
        """The direct link that speaks most for each answer to one query."""
        entity, relation, asks_tail = asked
        size = evidence.links.rules.num_relations
        links, confidence = evidence.links.best_links(entity, relation + (0 if asks_tail else size), answers)
        return [
            None
            if link < 0
            else LinkReason(given.relations.label(link % size), "out" if link < size else "in", float(sure))
            for link, sure in zip(links.tolist(), confidence, strict=True)
        ]

    def _with_evidence(
        self, scores: FloatArray, evidence: GraphEvidence, weights: RankingWeights, asked: tuple[int, int, bool]
    ) -> FloatArray:
        """-D of all entities as answers to one query, joined with what the graph says."""
        entity, relation, asks_tail = asked
        query = Queries(np.array([entity]), np.array([relation]), np.array([-1]), np.array([asks_tail]))
        position = standardised(torch.from_numpy(scores)[None], len(self.entities))[0]
        added = evidence.of_answers(query, len(scores), weights, "cpu")[0]
        return (weights.vector * position + added).numpy()

    def _stated_answers(self, given: Given, entity: int, relation: int, asks_tail: bool) -> IntArray:
        """The answers that training and given triples state."""
        near, far = (0, 2) if asks_tail else (2, 0)
        found = [
            triples[(triples[:, near] == entity) & (triples[:, 1] == relation), far]
            for triples in (self.checkpoint.triples, given.triples)
        ]
        return np.unique(np.concatenate(found))

    def _explanation(self, given: Given, entity: int, relation: int) -> list[Reason]:
        newcomer, query = np.array([entity - len(self.entities)]), np.array([relation])
        if newcomer[0] < 0:
            return []
        newcomers, together = given.newcomers, given.newcomers.together
        if newcomers.refined is not None and newcomers.weights.needs_query:
            newcomers = replace(newcomers, weights=Uniform())  # what the fit started from
        support = newcomers.support
        parts = [(support, support.neighbor, newcomers.row_weights(newcomer, query))]
        if together is not None:
            others = len(self.entities) + together.ties.members[together.peers.neighbor]
            parts.append((together.peers, others, newcomers.peer_weights(newcomer, query)))
        reasons = []
        for part, neighbor, weights in parts:
            rows, _ = part.rows_of(newcomer)
            reasons += [
                Reason(
                    given.entities.label(neighbor[row]),
                    given.relations.label(part.relation[row]),
                    "out" if part.is_head[row] else "in",
                    float(weight),
                )
                for row, weight in zip(rows, weights, strict=True)
            ]
        return sorted(reasons, key=lambda reason: -reason.weight)
