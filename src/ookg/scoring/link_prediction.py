"""Link prediction with new entities."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ookg.scoring.queries import Queries
from ookg.scoring.ranking import AnswerIndex, RankCounts, SharedAnswers
from ookg.scoring.scorer import Scorer
from ookg.system.progress import Reporter
from ookg.types import BoolArray, IntArray

Protocol = Literal["paper", "lan"]
PROTOCOLS: dict[Protocol, str] = {
    "paper": "the paper's code: among all ids of the data set, every test triple",
    "lan": "LAN's code: among known entities, test triples whose relation is in train",
}


def link_prediction(
    scorer: Scorer,
    queries: Queries,
    true_triples: IntArray,
    num_ids: int,
    protocol: Protocol = "paper",
    report: Reporter | None = None,
) -> RankCounts:
    """Compare each query's answer with the candidates of the protocol, other true answers left out.

    true_triples: all that is known to be true; num_ids: entities of the data set, known and new

    New entities come after all known ones. A query that cannot be scored (a relation without a trained vector, an
    entity without a usable neighbour) says nothing: all its candidates are equal.
    """
    num_known = scorer.num_known
    num_candidates = num_ids if protocol == "paper" else num_known
    others = other_answers(queries, true_triples, num_candidates)
    query, other = others.pairs(0, len(queries))
    rivals_known = num_known - np.bincount(query[other < num_known], minlength=len(queries))
    rivals_new = num_candidates - num_known - np.bincount(query[other >= num_known], minlength=len(queries))

    scored = scorer.answerable(queries)
    # What holds where the answer, or everything, is without a vector; `others` includes the answer itself.
    better = np.where(scored, rivals_known, 0)
    equal = np.where(scored, rivals_new, rivals_known + rivals_new)
    rows = np.flatnonzero(scored & (queries.answer < num_known))
    for start in range(0, len(rows), scorer.queries_at_once):
        chunk = rows[start : start + scorer.queries_at_once]
        ranked = scorer.rank_counts(queries.select(chunk), others.select(chunk))
        better[chunk], equal[chunk] = ranked.better, ranked.equal
        if report is not None:
            report(start + len(chunk))
    return RankCounts(better, equal)


def kept_by(protocol: Protocol, queries: Queries, num_known: int, num_relations: int) -> Queries:
    """The queries that a protocol asks."""
    if protocol == "paper":
        return queries
    return queries.select((queries.relation < num_relations) & (queries.answer < num_known))


def other_answers(queries: Queries, true_triples: IntArray, num_candidates: int) -> AnswerIndex:
    """Each query's true answers among the candidates, the asked one included."""
    return shared_answers(queries, true_triples, num_candidates).listed()


def shared_answers(queries: Queries, true_triples: IntArray, num_candidates: int) -> SharedAnswers:
    """The same, where there are so many queries that their answers would fill the memory."""
    size = max(int(true_triples.max()), int(queries.entity.max(initial=0)), int(queries.relation.max(initial=0))) + 1
    head, relation, tail = true_triples.T
    asked = _key(queries.entity, queries.relation, queries.asks_tail, size)
    questions, question = np.unique(asked, return_inverse=True)
    if not len(questions):  # a snapshot without a test
        return SharedAnswers(AnswerIndex(asked, np.zeros(1, dtype=np.int64), num_candidates), asked)
    keys = np.concatenate([_key(head, relation, 1, size), _key(tail, relation, 0, size), asked])
    answers = np.concatenate([tail, head, queries.answer])
    place = np.minimum(np.searchsorted(questions, keys), len(questions) - 1)
    wanted = (answers < num_candidates) & (questions[place] == keys)  # few of all triples: sort only those
    # One number for each pair sorts much faster than two columns.
    number, answer = np.divmod(np.unique(place[wanted] * num_candidates + answers[wanted]), num_candidates)
    offsets = np.searchsorted(number, np.arange(len(questions) + 1)).astype(np.int64)
    return SharedAnswers(AnswerIndex(answer, offsets, num_candidates), question.ravel())


def _key(entity: IntArray, relation: IntArray, asks_tail: BoolArray | int, size: int) -> IntArray:
    return (entity * size + relation) * 2 + asks_tail
