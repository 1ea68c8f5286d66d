"""Link prediction with new entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ookg.evaluation.ranking import QUERIES_AT_ONCE, AnswerIndex, RankCounts, filtered_rank_counts
from ookg.newcomers.embedder import Newcomers
from ookg.newcomers.support import BoolArray
from ookg.progress import Reporter
from ookg.statistics import IntArray

Protocol = Literal["paper", "lan"]
PROTOCOLS: dict[Protocol, str] = {
    "paper": "the paper's code: among all ids of the data set, every test triple",
    "lan": "LAN's code: among known entities, test triples whose relation is in train",
}


@dataclass(frozen=True)
class Queries:
    """(entity, relation, ?) or (?, relation, entity): which known entity stands at the open end?

    entity: the new end; answer: what the test triple has at the open end; asks_tail: the open end is the tail
    """

    entity: IntArray
    relation: IntArray
    answer: IntArray
    asks_tail: BoolArray

    def select(self, rows: BoolArray | IntArray) -> Queries:
        """Some of the queries."""
        return Queries(self.entity[rows], self.relation[rows], self.answer[rows], self.asks_tail[rows])

    def __len__(self) -> int:
        return len(self.entity)


def test_queries(test: IntArray, num_known: int) -> Queries:
    """The queries of test triples: the end opposite a new entity is asked for.

    Where all test triples have a new head (or all a new tail), as in the published sets, only that side counts;
    otherwise a triple of two new entities is asked both ways.
    """
    head_new, tail_new = test[:, 0] >= num_known, test[:, 2] >= num_known
    if head_new.all():
        tail_new = np.zeros_like(tail_new)
    elif tail_new.all():
        head_new = np.zeros_like(head_new)
    by_head, by_tail = test[head_new], test[tail_new]
    return Queries(
        np.concatenate([by_head[:, 0], by_tail[:, 2]]),
        np.concatenate([by_head[:, 1], by_tail[:, 1]]),
        np.concatenate([by_head[:, 2], by_tail[:, 0]]),
        np.repeat([True, False], [len(by_head), len(by_tail)]),
    )


def link_prediction(
    newcomers: Newcomers,
    queries: Queries,
    true_triples: IntArray,
    num_ids: int,
    protocol: Protocol = "paper",
    report: Reporter | None = None,
) -> RankCounts:
    """Compare each query's answer with the candidates of the protocol, other true answers left out.

    true_triples: all that is known to be true; num_ids: entities of the data set, known and new

    Entities without a trained vector come after all that have one. A query that cannot be scored (a relation without
    a trained vector, an entity without a usable neighbour) tells nothing: all its candidates are equal.
    """
    num_known = newcomers.embedding.num_entities
    num_candidates = num_ids if protocol == "paper" else num_known
    others = _other_answers(queries, true_triples, num_candidates)
    query, other = others.pairs(0, len(queries))
    rivals_known = num_known - np.bincount(query[other < num_known], minlength=len(queries))
    rivals_new = num_candidates - num_known - np.bincount(query[other >= num_known], minlength=len(queries))

    trained = queries.relation < newcomers.embedding.num_relations
    scored = trained & newcomers.has_vector(queries.entity)
    # What holds where the answer, or everything, is without a vector; `others` includes the answer itself.
    better = np.where(scored, rivals_known, 0)
    equal = np.where(scored, rivals_new, rivals_known + rivals_new)
    rows = np.flatnonzero(scored & (queries.answer < num_known))
    for start in range(0, len(rows), QUERIES_AT_ONCE):
        chunk = rows[start : start + QUERIES_AT_ONCE]
        points = _points(newcomers, queries.select(chunk))
        ranked = filtered_rank_counts(newcomers.embedding, points, queries.answer[chunk], _rows(others, chunk))
        better[chunk], equal[chunk] = ranked.better, ranked.equal
        if report is not None:
            report(start + len(chunk))
    return RankCounts(better, equal)


def kept_by(protocol: Protocol, queries: Queries, num_known: int, num_relations: int) -> Queries:
    """The queries that a protocol asks."""
    if protocol == "paper":
        return queries
    return queries.select((queries.relation < num_relations) & (queries.answer < num_known))


def _points(newcomers: Newcomers, queries: Queries) -> Tensor:
    """Where each query's answer should be, (queries, entity_width)."""
    embedding = newcomers.embedding
    vectors = newcomers.entity_vectors(queries.entity, queries.relation)
    relations = embedding.relations[torch.from_numpy(queries.relation).to(embedding.device)]
    points = torch.empty_like(vectors)
    asks_tail = torch.from_numpy(queries.asks_tail).to(embedding.device)
    points[asks_tail] = embedding.geometry.solve_tail(vectors[asks_tail], relations[asks_tail])
    points[~asks_tail] = embedding.geometry.solve_head(relations[~asks_tail], vectors[~asks_tail])
    return points


def _other_answers(queries: Queries, true_triples: IntArray, num_candidates: int) -> AnswerIndex:
    """Each query's true answers among the candidates, the asked one included."""
    size = max(int(true_triples.max()), int(queries.entity.max(initial=0)), int(queries.relation.max(initial=0))) + 1
    head, relation, tail = true_triples.T
    asked = _key(queries.entity, queries.relation, queries.asks_tail, size)
    keys = np.concatenate([_key(head, relation, 1, size), _key(tail, relation, 0, size), asked])
    answers = np.concatenate([tail, head, queries.answer])
    wanted = np.isin(keys, np.unique(asked)) & (answers < num_candidates)  # few of all triples: sort only those
    pairs = np.unique(np.stack([keys[wanted], answers[wanted]], axis=1), axis=0)
    return AnswerIndex.build(asked, pairs[:, 0], pairs[:, 1])


def _key(entity: IntArray, relation: IntArray, asks_tail: BoolArray | int, size: int) -> IntArray:
    return (entity * size + relation) * 2 + asks_tail


def _rows(others: AnswerIndex, rows: IntArray) -> AnswerIndex:
    """The answers of some of the queries."""
    counts = np.diff(others.offsets)
    keep = np.zeros(len(counts), dtype=np.bool_)
    keep[rows] = True
    offsets = np.concatenate([[0], np.cumsum(counts[rows])])
    return AnswerIndex(others.answers[np.repeat(keep, counts)], offsets)
