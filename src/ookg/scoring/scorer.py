"""What is evaluated: anything that scores triples of known and new entities."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ookg.newcomers.embedder import Newcomers
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import AnswerIndex, RankCounts, query_rank_counts, score_rank_counts, views
from ookg.types import BoolArray, FloatArray, IntArray

# How many scores a scorer may hold at once, whatever the number of entities and queries.
SCORES_AT_ONCE = 1 << 24
# How many queries' points are made and compared at once.
QUERIES_AT_ONCE = 4096


class Scorer(ABC):
    """Scores triples: the higher, the more plausible. Entity ids from `num_known` on are new ones.

    threshold: a claim with this score or more is held true; None where thresholds are fitted to labelled claims
    """

    num_known: int
    num_relations: int
    threshold: float | None = None

    @abstractmethod
    def answerable(self, queries: Queries) -> BoolArray:
        """(queries,) whether the entity and the relation of each can be scored."""

    @abstractmethod
    def scores(self, triples: IntArray) -> FloatArray:
        """(triples,) NaN where an end or the relation cannot be scored."""

    @abstractmethod
    def answer_scores(self, queries: Queries) -> Tensor:
        """(queries, known entities) the score of each answerable query's triple with each known entity."""

    @property
    def queries_at_once(self) -> int:
        """How many queries to rank together."""
        return max(1, min(QUERIES_AT_ONCE, SCORES_AT_ONCE // max(1, self.num_known)))

    def rank_counts(self, queries: Queries, others: AnswerIndex) -> RankCounts:
        """Compare the known answer of each answerable query with all known entities but its other true answers."""
        return score_rank_counts(self.answer_scores(queries), queries.answer, others.distinct_below(self.num_known))


class TranslationScorer(Scorer):
    """-D(h, r, t) of a translational model, new entities represented from their given triples."""

    def __init__(self, newcomers: Newcomers) -> None:
        self.newcomers = newcomers
        self.num_known, self.num_relations = newcomers.embedding.num_entities, newcomers.embedding.num_relations

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether the relation and the entity have vectors."""
        answerable: BoolArray = self.newcomers.has_relation(queries.relation) & self.newcomers.has_vector(
            queries.entity
        )
        return answerable

    def scores(self, triples: IntArray) -> FloatArray:
        """-D(h, r, t)."""
        return self.newcomers.scores(triples)

    def answer_scores(self, queries: Queries) -> Tensor:
        """-D to each known entity."""
        embedding = self.newcomers.embedding
        scores = embedding.entities.new_empty(len(queries), self.num_known)
        for view in views(embedding, self._vectors(queries), queries):
            gaps = view.embedding.geometry.gap_to_all(view.points, view.embedding.entities)
            if len(view.rows) == len(queries):
                return -gaps
            scores[torch.from_numpy(view.rows).to(scores.device)] = -gaps
        return scores

    @property
    def queries_at_once(self) -> int:
        """Ranks need no table of distances, so many queries fit at once."""
        return QUERIES_AT_ONCE

    def rank_counts(self, queries: Queries, others: AnswerIndex) -> RankCounts:
        """Count what is nearer to the point where the answer should be."""
        return query_rank_counts(self.newcomers.embedding, self._vectors(queries), queries, others)

    def _vectors(self, queries: Queries) -> Tensor:
        """The vectors of the queries' entities, (queries, entity_width)."""
        return self.newcomers.entity_vectors(queries.entity, queries.relation)
