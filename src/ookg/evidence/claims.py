"""Judging claims about new entities by all evidence.

A threshold that was fitted to claims about known entities is too strict or too lax for new ones: their vectors are
rougher, so their distances are larger. So the judge learns on known entities that were made new
(`ookg.simulation.judge`), and looks at how a claim stands among its rivals rather than at the distance alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evidence.combined import GraphEvidence, standard_scores
from ookg.evidence.fitting import fit_grouped_logistic
from ookg.evidence.nearness import Nearness
from ookg.evidence.registry import SOURCES
from ookg.evidence.strangers import Strangers
from ookg.graph.fitting import FittingRelations
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer
from ookg.types import BoolArray, FloatArray, IntArray

SMALLEST_SHARE = 1e-4
REGULARISATION = 2e-3
# A relation's own weights are held nearer to 0 than those that all relations share.
OWN_SCALE = 0.5
# What is looked at of each model's vectors, in the order of the columns.
VECTOR_FEATURES = ("distance", "standing of the tail", "better tails", "standing of the head", "better heads")
# Whether each end of the claim has stood at that end of its relation, and at the other one, however often.
USE_FEATURES = ("head was a head", "tail was a tail", "tail was a head", "head was a tail")


def feature_names(num_models: int = 1) -> tuple[str, ...]:
    """What is looked at, in the order of the columns.

    Of the vectors of `num_models` models, of each source of evidence, by name, nearness, and how the relation has used
    both ends.
    """
    of_sources = tuple(name for source in _sources() for name in SOURCES[source].features)
    return VECTOR_FEATURES * num_models + of_sources + Nearness.features + USE_FEATURES


def _sources() -> tuple[str, ...]:
    # Whatever order they were registered in. Judges that are stored with models name what they look at.
    return tuple(sorted(name for name, source in SOURCES.items() if source.judges))


@dataclass(frozen=True)
class ClaimEvidence:
    """All that is looked at to judge a claim: some models' vectors and the graph of known and given triples.

    sources: the names of the evidence that is looked at
    fitting: which relations fit an entity, counted on the known triples; by default on all
    """

    vectors: tuple[Scorer, ...]
    graph: GraphEvidence
    sources: tuple[str, ...]
    fitting: FittingRelations | None = None

    @classmethod
    def gather(cls, vectors: Sequence[Scorer], dataset: EncodedDataset) -> ClaimEvidence:
        """The evidence of a data set's training triples (train) and given triples (aux)."""
        return cls.of(vectors, GraphEvidence.count(dataset.train, dataset.aux, dataset.num_trained))

    @classmethod
    def of(
        cls, vectors: Sequence[Scorer], graph: GraphEvidence, fitting: FittingRelations | None = None
    ) -> ClaimEvidence:
        """Vectors and a graph, of which all is looked at that judges know."""
        return cls(tuple(vectors), graph, _sources(), fitting)

    @cached_property
    def strangers(self) -> Strangers:
        """What it says against claims that an end of them is a stranger there; no judge has learned that."""
        graph = self.graph.graph
        return Strangers(graph, self.fitting or FittingRelations(graph.index))

    @cached_property
    def nearness(self) -> Nearness:
        """How near the ends of a claim are."""
        return Nearness(self.graph.graph)

    def features(self, claims: IntArray) -> FloatArray:
        """(claims, features) as `feature_names` has them; NaN where a claim cannot be scored."""
        columns: list[FloatArray] = []
        for scorer in self.vectors:
            columns.append(scorer.scores(claims))
            for asks_tail in (True, False):
                standing = standard_scores(scorer, claims, asks_tail=asks_tail)
                columns += [standing.position, -np.log(standing.share_better + SMALLEST_SHARE)]
        return np.concatenate([np.stack(columns, axis=1), self.graph_features(claims)], axis=1)

    def graph_features(self, claims: IntArray) -> FloatArray:
        """(claims, features) those of the graph alone, which every claim has: the last columns of `features`."""
        habits = self.graph["habits"]
        uses = np.concatenate([habits.of_claims(claims), habits.of_claims(claims[:, ::-1])], axis=1) > 0
        return np.concatenate(
            [self.graph.of_claims(claims, self.sources), self.nearness.of_claims(claims), uses], axis=1
        )


@dataclass(frozen=True)
class ClaimJudge:
    """A logistic regression: weights that all relations share, and each relation's own on top.

    centre, scale: (features,) of the claims it was fitted on
    shared: (1 + features,) the constant first; own: (relations, 1 + features)
    """

    centre: FloatArray
    scale: FloatArray
    shared: FloatArray
    own: FloatArray

    @classmethod
    def fit(cls, features: FloatArray, relations: IntArray, truth: BoolArray, num_relations: int) -> ClaimJudge:
        """Learn from labelled claims; those that cannot be scored are left out."""
        usable = np.isfinite(features).all(axis=1)
        cls.check(truth[usable])
        features, relations, truth = features[usable], relations[usable], truth[usable]
        spread = features.std(axis=0)
        centre, scale = features.mean(axis=0), np.where(spread > 0, spread, 1.0)
        columns = _with_constant((features - centre) / scale)
        shared, own = fit_grouped_logistic(columns, relations, truth, num_relations, REGULARISATION, OWN_SCALE)
        return cls(centre, scale, shared, own)

    @staticmethod
    def check(truth: BoolArray) -> None:
        """Refuse claims that nothing can be learned from: none, or all true, or all false."""
        if truth.all() or not truth.any():
            problem = "no labelled claims of both kinds that can be scored"
            raise InputError(f"{problem}; give more claims about known entities")

    def log_odds(self, features: FloatArray, relations: IntArray) -> FloatArray:
        """(claims,) of being true; NaN where a claim cannot be scored."""
        columns = _with_constant((features - self.centre) / self.scale)
        covered = (relations >= 0) & (relations < len(self.own))
        own = np.where(covered[:, None], self.own[np.where(covered, relations, 0)], 0.0)
        log_odds: FloatArray = (columns * (self.shared + own)).sum(axis=1)
        return log_odds


def _with_constant(values: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(values), 1)), values], axis=1)


class JudgedScorer(Scorer):
    """Log-odds of claims; a claim is held true from 0 on.

    by_graph: a judge of the graph's features alone, for claims about what has no vector; None: they get no verdict
    """

    threshold = 0.0

    def __init__(self, evidence: ClaimEvidence, judge: ClaimJudge, by_graph: ClaimJudge | None = None) -> None:
        self.evidence, self.judge, self.by_graph = evidence, judge, by_graph
        first = evidence.vectors[0]
        self.num_known, self.num_relations = first.num_known, first.num_relations

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether every model can score it."""
        answerable: BoolArray = np.logical_and.reduce([scorer.answerable(queries) for scorer in self.evidence.vectors])
        return answerable

    def scores(self, triples: IntArray) -> FloatArray:
        """The log-odds of each."""
        features = self.evidence.features(triples)
        log_odds = self.judge.log_odds(features[:, : len(self.judge.centre)], triples[:, 1])  # an older one has fewer
        if self.by_graph is None:
            return log_odds
        of_graph = features[:, len(VECTOR_FEATURES) * len(self.evidence.vectors) :]
        return np.where(np.isnan(log_odds), self.by_graph.log_odds(of_graph, triples[:, 1]), log_odds)

    def answer_scores(self, queries: Queries) -> Tensor:
        """The log-odds of each query's triple with each known entity: one claim for each, so for few queries only."""
        everyone = np.arange(self.num_known)
        rows = []
        for entity, relation, asks_tail in zip(queries.entity, queries.relation, queries.asks_tail, strict=True):
            ends = (
                (np.full_like(everyone, entity), everyone) if asks_tail else (everyone, np.full_like(everyone, entity))
            )
            rows.append(self.scores(np.stack([ends[0], np.full_like(everyone, relation), ends[1]], axis=1)))
        return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, self.num_known)
