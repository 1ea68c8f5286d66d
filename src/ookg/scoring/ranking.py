"""Filtered ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models.embedding import Embedding
from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

# How many distances the reference may hold at once, whatever the number of entities and queries.
CHUNK_NUMBERS = 1 << 24

TieRule = Literal["mean", "optimistic", "pessimistic"]


def refuse_unknown_ties(ties: str) -> None:
    """Refuse a name that is no rule for ties, before anything is ranked."""
    if ties not in get_args(TieRule):
        raise InputError(f"ties {ties!r}; choose {', '.join(get_args(TieRule))}")


@dataclass(frozen=True)
class RankCounts:
    """For each query, how many candidates are better than the answer, and how many others are as good; (queries,)."""

    better: IntArray
    equal: IntArray

    def ranks(self, ties: TieRule = "mean") -> FloatArray:
        """1-based ranks: among equals the first place, the last, or their mean."""
        share = {"optimistic": 0.0, "mean": 0.5, "pessimistic": 1.0}[ties]
        ranks: FloatArray = 1.0 + self.better + share * self.equal
        return ranks


@dataclass(frozen=True)
class AnswerIndex:
    """All true answers of many queries: query n has answers[offsets[n]:offsets[n + 1]].

    below: where this is known, each query's answers are distinct and below this number
    """

    answers: IntArray
    offsets: IntArray
    below: int | None = None

    @classmethod
    def build(cls, queries: IntArray, true_keys: IntArray, true_answers: IntArray) -> AnswerIndex:
        """The answers of each query key, given the keys and answers of all true triples."""
        order = np.argsort(true_keys, kind="stable")
        keys, answers = true_keys[order], true_answers[order]
        start, end = np.searchsorted(keys, queries, "left"), np.searchsorted(keys, queries, "right")
        counts = end - start
        offsets = np.concatenate([[0], np.cumsum(counts)])
        place = np.repeat(np.arange(len(queries)), counts)
        rows = np.arange(len(place)) - offsets[:-1][place] + start[place]
        return cls(answers[rows].astype(np.int64), offsets.astype(np.int64))

    def distinct_below(self, num_entities: int) -> AnswerIndex:
        """Each query's distinct answers among the first `num_entities` entities."""
        if self.below is not None and self.below <= num_entities:
            return self
        size = len(self.offsets) - 1
        query, answer = self.pairs(0, size)
        inside = answer < num_entities
        query, answer = query[inside], answer[inside]
        if self.below is None:
            query, answer = np.divmod(np.unique(query * num_entities + answer), num_entities)
        counts = np.bincount(query, minlength=size)
        return AnswerIndex(answer, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), num_entities)

    def select(self, rows: IntArray) -> AnswerIndex:
        """The answers of some of the queries, in that order."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        place = np.repeat(np.arange(len(rows)), counts)
        answers = self.answers[np.arange(len(place)) - offsets[place] + self.offsets[rows][place]]
        return AnswerIndex(answers, offsets, self.below)

    def pairs(self, start: int, end: int) -> tuple[IntArray, IntArray]:
        """(query counted from `start`, answer) for the queries from start to end."""
        counts = np.diff(self.offsets[start : end + 1])
        return np.repeat(np.arange(end - start), counts), self.answers[self.offsets[start] : self.offsets[end]]


@dataclass(frozen=True, eq=False)
class SharedAnswers:
    """The true answers of many queries, of which the equal ones share theirs.

    index: the answers to each distinct question; question: (queries,) which one each query asks
    A query's own answer is among them. Queries of one question have the same entity, relation and direction.
    """

    index: AnswerIndex
    question: IntArray

    @property
    def counts(self) -> IntArray:
        """(queries,) how many answers each query has."""
        found: IntArray = np.diff(self.index.offsets)[self.question]
        return found

    def select(self, rows: IntArray) -> SharedAnswers:
        """The answers of some of the queries, in that order."""
        return SharedAnswers(self.index, self.question[rows])

    def distinct_below(self, num_entities: int) -> SharedAnswers:
        """Each question's distinct answers among the first `num_entities` entities."""
        return SharedAnswers(self.index.distinct_below(num_entities), self.question)

    def listed(self) -> AnswerIndex:
        """The answers query by query, which may be many times as many."""
        return self.index.select(self.question)


@dataclass(frozen=True)
class View:
    """Some queries and the space in which their answers are looked for.

    rows: (rows,) which of the queries; embedding: the entities as they are seen there
    points: (rows, embedding.geometry.entity_width) where each answer should be
    """

    rows: IntArray
    embedding: Embedding
    points: Tensor


def views(embedding: Embedding, vectors: Tensor, queries: Queries) -> Iterator[View]:
    """The queries by the space that their relation looks at entities in; one for all if they see them as they are.

    vectors: (queries, entity_width) of the queries' entities
    """
    geometry, relations = embedding.geometry, embedding.relations
    if not geometry.projects:
        rows = relations[torch.from_numpy(queries.relation).to(relations.device)]
        points = torch.empty_like(vectors)
        asks_tail = torch.from_numpy(np.ascontiguousarray(queries.asks_tail)).to(relations.device)
        points[asks_tail] = geometry.solve_tail(vectors[asks_tail], rows[asks_tail])
        points[~asks_tail] = geometry.solve_head(rows[~asks_tail], vectors[~asks_tail])
        yield View(np.arange(len(queries)), embedding, points)
        return
    for relation in np.unique(queries.relation).tolist():
        seen, row = embedding.seen_by(relation), relations[relation]
        for solves_tail in (True, False):
            chosen = np.flatnonzero((queries.relation == relation) & (queries.asks_tail == solves_tail))
            if len(chosen):
                own = vectors[torch.from_numpy(chosen).to(vectors.device)]
                point = geometry.solve_tail(own, row) if solves_tail else geometry.solve_head(row, own)
                yield View(chosen, seen, point)


def query_rank_counts(
    embedding: Embedding, vectors: Tensor, queries: Queries, others: AnswerIndex | SharedAnswers
) -> RankCounts:
    """Compare the known answer of each query with all entities but the query's other true answers.

    vectors: (queries, entity_width) of the queries' entities; others: each query's true answers
    """
    counts = RankCounts(*np.empty((2, len(queries)), dtype=np.int64))
    for view in views(embedding, vectors, queries):
        is_all = len(view.rows) == len(queries)
        answers, rivals = queries.answer[view.rows], others if is_all else others.select(view.rows)
        ranked = _rank_counts(view.embedding, view.points, answers, rivals)
        counts.better[view.rows], counts.equal[view.rows] = ranked.better, ranked.equal
    return counts


def filtered_rank_counts(embedding: Embedding, points: Tensor, answers: IntArray, others: AnswerIndex) -> RankCounts:
    """Compare the answer of each query with all entities but the query's other true answers.

    points: (queries, entity_width) where the answer should be; answers: (queries,) entity ids
    others: each query's true answers; the asked one may be among them, ids beyond the table are passed over
    Where relations see entities differently, as under TransH and TransR, use `query_rank_counts`.
    """
    if embedding.geometry.projects:
        raise TypeError(f"{embedding.geometry.name} has no point to rank around without the relation")
    return _rank_counts(embedding, points, answers, others)


def _rank_counts(
    embedding: Embedding, points: Tensor, answers: IntArray, others: AnswerIndex | SharedAnswers
) -> RankCounts:
    """The same in the space that the points are in."""
    if isinstance(others, SharedAnswers):
        if embedding.entities.is_cuda and embedding.geometry.kernel is not None:
            with suppress(ImportError):
                return _shared_rank_counts(embedding, points, answers, others)
        others = others.listed()
    return _fastest(embedding)(embedding, points, answers, others.distinct_below(embedding.num_entities))


def _shared_rank_counts(embedding: Embedding, points: Tensor, answers: IntArray, others: SharedAnswers) -> RankCounts:
    from ookg.kernels.gpu_ranking import shared_rank_counts

    asked, question = np.unique(others.question, return_inverse=True)
    index = others.index.select(asked).distinct_below(embedding.num_entities)
    pairs = index.pairs(0, len(asked))
    return RankCounts(*shared_rank_counts(embedding, points, answers, question.ravel(), pairs))


def _fastest(embedding: Embedding) -> Compare:
    """The fastest comparison that this machine has for the embedding's model and device."""
    if embedding.geometry.kernel is None:
        return reference_rank_counts
    try:
        if embedding.entities.is_cuda:
            from ookg.kernels import gpu_ranking

            def compare(embedding: Embedding, points: Tensor, answers: IntArray, others: AnswerIndex) -> RankCounts:
                return RankCounts(*gpu_ranking.rank_counts(embedding, points, answers, others.pairs(0, len(answers))))

            return compare
        from ookg.kernels import cpu_ranking

        def compare(embedding: Embedding, points: Tensor, answers: IntArray, others: AnswerIndex) -> RankCounts:
            arrays = points.numpy(), embedding.entities.numpy(), answers, others.answers, others.offsets
            return RankCounts(*cpu_ranking.rank_counts(embedding.geometry, *arrays))

        return compare
    except ImportError:
        return reference_rank_counts


def reference_rank_counts(embedding: Embedding, points: Tensor, answers: IntArray, others: AnswerIndex) -> RankCounts:
    """The comparison in plain PyTorch: the specification that the fast ones are tested against."""
    embedding, counts = embedding.widened(), np.empty((2, len(answers)), dtype=np.int64)
    size = max(1, CHUNK_NUMBERS // max(1, embedding.num_entities))
    for start in range(0, len(answers), size):
        end = min(start + size, len(answers))
        gaps = embedding.geometry.gap_to_all(points[start:end], embedding.entities)  # (chunk, entities)
        offsets = others.offsets[start : end + 1]
        chunk = AnswerIndex(others.answers[offsets[0] : offsets[-1]], offsets - offsets[0])
        ranked = score_rank_counts(-gaps, answers[start:end], chunk)
        counts[0, start:end], counts[1, start:end] = ranked.better, ranked.equal
    return RankCounts(counts[0], counts[1])


def score_rank_counts(scores: Tensor, answers: IntArray, others: AnswerIndex) -> RankCounts:
    """Compare each query's answer with all entities but its other true answers, (queries, entities) scores given.

    The scores are overwritten. others: ids below the number of entities
    """
    asked = torch.from_numpy(answers).to(scores.device)[:, None]
    own = scores.gather(1, asked)
    query, other = (torch.from_numpy(part).to(scores.device) for part in others.pairs(0, len(answers)))
    scores[query, other] = -torch.inf
    scores.scatter_(1, asked, -torch.inf)  # the answer is not its own rival
    better, equal = (scores > own).sum(dim=1), (scores == own).sum(dim=1)
    return RankCounts(better.cpu().numpy(), equal.cpu().numpy())


Compare = Callable[[Embedding, Tensor, IntArray, AnswerIndex], RankCounts]


@dataclass(frozen=True)
class RankSummary:
    """Mean reciprocal rank (0 to 1), mean rank, and the percentage of answers in the first 1, 3 and 10 places."""

    queries: int
    mrr: float
    mean_rank: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float

    @classmethod
    def of(cls, ranks: FloatArray) -> RankSummary:
        """The summary of some ranks; NaN figures for none."""
        if not len(ranks):
            return cls(0, *[float("nan")] * 5)
        hits = [float((ranks <= k).mean() * 100) for k in (1, 3, 10)]
        return cls(len(ranks), float((1 / ranks).mean()), float(ranks.mean()), *hits)

    def __str__(self) -> str:
        hits = f"Hits@1 {self.hits_at_1:.1f} %, Hits@3 {self.hits_at_3:.1f} %, Hits@10 {self.hits_at_10:.1f} %"
        return f"MRR {self.mrr:.3f}, {hits}, mean rank {self.mean_rank:.1f} of {self.queries:,} queries"

    def to_dict(self) -> dict[str, Any]:
        """The figures by the names of the command line."""
        return {
            "queries": self.queries,
            "mrr": self.mrr,
            "mean_rank": self.mean_rank,
            "hits@1": self.hits_at_1,
            "hits@3": self.hits_at_3,
            "hits@10": self.hits_at_10,
        }
