"""A trained model with its labels: represent what is new, ask about it, judge claims."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, GraphEvidence, RankingWeights
from ookg.extension.answers import (
    Answer,
    Classification,
    LinkReason,
    NewVectors,
    Prediction,
    Reason,
    Verdict,
    accuracy,
)
from ookg.extension.extended import ExtendedModel
from ookg.extension.groups import Preparation
from ookg.extension.notes import Findings
from ookg.extension.questions import AnswerOptions, Question
from ookg.graph.index import GraphIndex
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.model.embedded import new_vectors, weights_of_vectors
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings, default_refinement
from ookg.scoring.thresholds import Thresholds
from ookg.simulation.choice import Method
from ookg.simulation.trust import TrustTable, trust_table
from ookg.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
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
# A graph in which so many triples are all but stated by another link is redundant: 73 % in FB15k-Head-10, 91 % in WN11,
# none in the film graph of the demo.
REDUNDANT_SHARE = 0.2


@dataclass(frozen=True)
class Given:
    """A set of given triples as a model sees it.

    entities: the model's entities, then the new ones; relations: the model's, then untrained ones
    triples: (triples, 3) ids of these
    """

    newcomers: Newcomers
    entities: Vocabulary
    relations: Vocabulary
    triples: IntArray
    notes: list[str]


class Model:
    """A trained embedding with labels and statistics. Nothing here changes it: what is new gets vectors of its own."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    @classmethod
    def load(cls, directory: str | Path, device: str = "cpu") -> Model:
        """Read a model directory."""
        return cls(load_checkpoint(directory, device))

    def save(self, directory: str | Path) -> None:
        """Write a model directory, atomically."""
        save_checkpoint(self.checkpoint, directory)

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
        return GraphIndex.of(self.checkpoint.triples, len(self.entities), len(self.relations))

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
        if self.checkpoint.statistics is None:
            return Uniform()
        chosen = self.checkpoint.newcomers
        if isinstance(weights, Correlation) and chosen is not None and chosen.power is not None:
            return Correlation(chosen.power)
        return weights

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
        triples, checkpoint = as_triples(triples), self.checkpoint
        if triples.truth is not None and not triples.truth.all():
            raise InputError(f"{triples.source}: it holds triples labelled false; what is given must be true")
        entities = checkpoint.entities.extended(triples.entities.labels)
        relations = checkpoint.relations.extended(triples.relations.labels)
        ids = triples.encoded(entities, relations)
        used = ids
        if not new_relations and len(relations) > len(checkpoint.relations):
            used = ids.copy()
            used[ids[:, 1] >= len(checkpoint.relations), 1] = -1
        found = find_newcomers(checkpoint.embedding, checkpoint.statistics, checkpoint.triples, used, weights, limit)
        return Given(found, entities, relations, ids, _notes(triples, found, entities, relations))

    def refinement(self, refine: bool | RefineSettings) -> RefineSettings | None:
        """How vectors are fitted if `refine` says so: as it says, as `ookg tune` chose, or at the model's scale."""
        if not refine:
            return None
        if isinstance(self.checkpoint.embedding.geometry, Projected):
            name = type(self.checkpoint.embedding.geometry).__name__
            raise InputError(f"refine is for TransE and RotatE, and this is {name}; leave it out")
        if isinstance(refine, RefineSettings):
            return refine
        chosen = self.checkpoint.newcomers
        if chosen is not None and chosen.refine is not None:
            return chosen.refine
        return default_refinement(self.checkpoint.embedding, self.checkpoint.settings.get("margin"))

    def ranking_weights(self, combine: bool | RankingWeights, refined: bool) -> RankingWeights | None:
        """How evidence is weighed if `combine` says so: as it says, as `ookg tune` chose, or by default."""
        if not combine:
            return None
        if self.checkpoint.statistics is None:
            problem = "combine needs the training triples, which this model came without"
            raise InputError(f"{problem}; import it with --triples, or leave combine out")
        if isinstance(combine, RankingWeights):
            return combine
        chosen = self.checkpoint.newcomers
        tuned = None if chosen is None else chosen.ranking.get("refined" if refined else "closed form")
        return tuned or (RankingWeights() if refined else CLOSED_FORM_WEIGHTS)

    def combines(self, refine: bool | RefineSettings) -> bool:
        """Whether answers are ranked by all evidence if nothing else is said.

        With fitted vectors, if `ookg tune` found that better, or if it did not try and the graph is redundant: direct
        links are worth little where relations do not imply one another.
        """
        if not refine or self.checkpoint.statistics is None:
            return False
        chosen = self.checkpoint.newcomers
        if chosen is not None and chosen.best is not None:
            return chosen.best == "combined"
        return self.known_evidence.redundancy >= REDUNDANT_SHARE

    def trust(self, newcomers: Newcomers, which: IntArray, *, refine: bool, combine: bool = False) -> TrustTable:
        """How far to trust the vectors of some newcomers, counted from 0."""
        method: Method = "combined" if combine else "refined" if refine else "closed form"
        can_refine = not isinstance(self.checkpoint.embedding.geometry, Projected)
        was_tried = refine or not combine or not can_refine  # "combined" was calibrated with fitted vectors
        calibrations = {} if self.checkpoint.newcomers is None else self.checkpoint.newcomers.calibration
        return trust_table(newcomers, calibrations.get(method) if was_tried else None, which)

    def graph_evidence(self, given: Given) -> GraphEvidence:
        """What the training and given triples say beside the vectors."""
        return self.known_evidence.with_given(given.triples, given.newcomers.embedding.num_relations)

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
    ) -> Classification:
        """True or false for each claim: its score against its relation's threshold, found on labelled `valid` triples.

        Weights are degree weights by default. A claim whose ends or relation have no vector gets no verdict.
        refine: fit the new vectors to their triples first
        """
        weights = weights or self.default_weights(Degree())
        return self.extend(given, weights=weights, limit=limit, refine=refine).classify(claims, valid=valid)

    def refined(self, given: Given, refine: bool | RefineSettings, report: Reporter | None = None) -> Given:
        """The given triples with the new vectors fitted, if `refine` says so."""
        settings = self.refinement(refine)
        return given if settings is None else replace(given, newcomers=given.newcomers.refined_by(settings, report))

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


def _notes(triples: Triples, found: Newcomers, entities: Vocabulary, relations: Vocabulary) -> list[str]:
    """What the given triples have that makes no vector, and relations that they give one, in words."""
    unused, together = found.unused, found.together
    made = np.empty(0, dtype=np.int64) if together is None else np.flatnonzero(together.made)
    findings = Findings(
        list(triples.select(unused.untrained_relation)),
        list(triples.select(unused.between_newcomers)),
        list(triples.select(unused.self_loops)),
        list(triples.select(unused.without_newcomer)),
        made_relations=relations.select(made + len(relations) - (0 if together is None else len(together.made))),
        lacking=entities.select(np.flatnonzero(~found.representable) + found.embedding.num_entities),
    )
    makes_relations = together is not None and together.ties.num_new_relations > 0
    return [*triples.notes, *findings.in_words(found.embedding.geometry, makes_relations=makes_relations)]
