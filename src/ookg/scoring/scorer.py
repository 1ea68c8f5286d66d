"""What is evaluated: anything that scores triples of known and new entities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import Newcomers
from ookg.scoring.nearest import gap_tensor
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import AnswerIndex, RankCounts, query_rank_counts, score_rank_counts, views
from ookg.types import BoolArray, FloatArray, IntArray

# How many scores a scorer may hold at once, whatever the number of entities and queries.
SCORES_AT_ONCE = 1 << 24
# How many queries' points are made and compared at once.
QUERIES_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class NewVectors:
    """Vectors of new entities.

    entities: (new,) ascending; vectors: (new, entity_width)
    """

    entities: IntArray
    vectors: Tensor

    @classmethod
    def of(cls, entities: IntArray, vectors: Tensor) -> NewVectors:
        """Of those that have one: others come as NaN."""
        order = np.argsort(entities, kind="stable")
        order = order[~vectors.isnan().any(dim=1).cpu().numpy()[order]]
        return cls(entities[order], vectors[torch.from_numpy(order).to(vectors.device)])


VectorsOfNew = Callable[[int], NewVectors]  # as a relation sees them


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

    # New entities as answers.

    def is_answer(self, entities: IntArray) -> BoolArray:
        """(entities,) whether each can be an answer; by default known ones alone."""
        known: BoolArray = entities < self.num_known
        return known

    def may_be_itself(self, queries: Queries) -> BoolArray:
        """(queries,) whether the entity that is asked about can be its own answer."""
        return np.ones(len(queries), dtype=np.bool_)

    def all_answer_scores(self, queries: Queries, num_entities: int) -> Tensor:
        """(queries, entities) the score with each of the first entities, known and new; -inf for what is no answer."""
        known = self.answer_scores(queries)
        new = known.new_full((len(queries), num_entities - self.num_known), -torch.inf)
        return torch.cat([known, new], dim=1)

    def hubness(self, queries: Queries, num_entities: int) -> Tensor:
        """(queries or 1, new entities) how much nearer new ones lie to known entities than these do to one another."""
        del queries
        return torch.zeros(1, num_entities - self.num_known)

    def new_vectors(self, relation: int) -> NewVectors:
        """The vectors of new entities as a relation sees them; by default they have none."""
        del relation
        return NewVectors(np.empty(0, dtype=np.int64), torch.empty(0, 0))

    def all_rank_counts(self, queries: Queries, others: AnswerIndex, num_entities: int) -> RankCounts:
        """Compare each answer with all of the first entities, known and new, but the query's other true answers.

        The queries are answerable, and their answers can be answers.
        """
        scores = self.all_answer_scores(queries, num_entities)
        return score_rank_counts(scores, queries.answer, others.distinct_below(num_entities))


class TranslationScorer(Scorer):
    """-D(h, r, t) of a translational model, new entities represented from their given triples.

    A new entity is seen by the asked relation, whichever end it is at: with correlation weights its vector as an answer
    is that relation's too.
    loops: (relations,) over which of them an entity can be its own answer; None for all
    """

    def __init__(self, newcomers: Newcomers, loops: BoolArray | None = None) -> None:
        self.newcomers, self.loops = newcomers, loops
        self._new_vectors: dict[int | None, NewVectors] = {}
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
        scores = torch.empty(len(queries), self.num_known, dtype=embedding.dtype, device=embedding.device)
        for view in views(embedding, self._vectors(queries), queries):
            gaps = gap_tensor(view.embedding, view.points)
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

    def is_answer(self, entities: IntArray) -> BoolArray:
        """Whether each has a vector."""
        return self.newcomers.has_vector(entities)

    def may_be_itself(self, queries: Queries) -> BoolArray:
        """Whether the relation has loops."""
        if self.loops is None:
            return super().may_be_itself(queries)
        has_loops: BoolArray = np.append(self.loops, False)[np.minimum(queries.relation, len(self.loops))]
        return has_loops

    def all_answer_scores(self, queries: Queries, num_entities: int) -> Tensor:
        """-D to each known and new entity; -inf where it has no vector."""
        embedding = self.newcomers.embedding
        scores = torch.empty(len(queries), num_entities, dtype=embedding.dtype, device=embedding.device)
        for rows, table in self._tables(queries, num_entities):
            part = queries.select(rows)
            for view in views(table, self._vectors(part), part):
                gaps = gap_tensor(view.embedding, view.points)
                scores[torch.from_numpy(rows[view.rows]).to(scores.device)] = -gaps
        return scores.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)

    def hubness(self, queries: Queries, num_entities: int) -> Tensor:
        """That of the vectors that the queries' relations see."""
        if num_entities == self.num_known:
            return super().hubness(queries, num_entities)
        hubness = torch.empty(0)
        for rows, table in self._tables(queries, num_entities):
            of_table = self.newcomers.embedding.hubness(table.entities[self.num_known :])
            if len(rows) == len(queries):
                return of_table[None]
            if not len(hubness):
                hubness = of_table.new_empty(len(queries), len(of_table))
            hubness[torch.from_numpy(rows).to(hubness.device)] = of_table
        return hubness

    def new_vectors(self, relation: int) -> NewVectors:
        """Those of the newcomers; those of the last relation are kept, where they depend on it."""
        newcomers = self.newcomers
        needs_query = newcomers.weights.needs_query and newcomers.refined is None
        key = relation if needs_query else None
        if key not in self._new_vectors:
            new = np.arange(self.num_known, self.num_known + newcomers.support.num_newcomers)
            vectors = newcomers.entity_vectors(new, np.full(len(new), relation))
            self._new_vectors = {key: NewVectors.of(new, vectors)}
        return self._new_vectors[key]

    def all_rank_counts(self, queries: Queries, others: AnswerIndex, num_entities: int) -> RankCounts:
        """Count what is nearer; what has no vector is nearer to nothing."""
        counts = RankCounts(*np.empty((2, len(queries)), dtype=np.int64))
        for rows, table in self._tables(queries, num_entities):
            part = queries.select(rows)
            ranked = query_rank_counts(table, self._vectors(part), part, others.select(rows))
            counts.better[rows], counts.equal[rows] = ranked.better, ranked.equal
        return counts

    def _tables(self, queries: Queries, num_entities: int) -> Iterator[tuple[IntArray, Embedding]]:
        """Rows of the queries, and the vectors of the first entities as their relation sees them; NaN for none.

        Where weights depend on the relation, the next table overwrites the one before.
        """
        newcomers = self.newcomers.with_room_for(num_entities - self.num_known)
        trained = newcomers.embedding
        new = np.arange(self.num_known, num_entities)
        table = torch.cat(
            [trained.entities.to(trained.dtype), trained.relations.new_empty(len(new), trained.entities.shape[1])]
        )
        needs_query = newcomers.weights.needs_query and newcomers.refined is None
        relations = np.unique(queries.relation) if needs_query else np.zeros(1, dtype=np.int64)
        for relation in relations:
            rows = np.flatnonzero(queries.relation == relation) if needs_query else np.arange(len(queries))
            table[self.num_known :] = newcomers.entity_vectors(new, np.full(len(new), relation))
            yield rows, Embedding(trained.geometry, table, trained.relations)

    def _vectors(self, queries: Queries) -> Tensor:
        """The vectors of the queries' entities, (queries, entity_width)."""
        return self.newcomers.entity_vectors(queries.entity, queries.relation)
