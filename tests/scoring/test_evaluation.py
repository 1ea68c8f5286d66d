from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ookg.graph.statistics import GraphStatistics
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring import ranking
from ookg.scoring.link_prediction import kept_by, link_prediction, other_answers, shared_answers
from ookg.scoring.queries import Queries, test_queries
from ookg.scoring.ranking import AnswerIndex, RankCounts, RankSummary, filtered_rank_counts
from ookg.scoring.scorer import TranslationScorer
from ookg.scoring.thresholds import Thresholds, best_threshold
from ookg.types import IntArray

test_queries.__test__ = False  # type: ignore[attr-defined]


def test_ranks_and_ties_by_hand() -> None:
    counts = RankCounts(np.array([0, 2]), np.array([0, 3]))
    assert counts.ranks().tolist() == [1, 4.5]  # places 3 to 6
    assert counts.ranks("optimistic").tolist() == [1, 3]
    assert counts.ranks("pessimistic").tolist() == [1, 6]


def test_summary_by_hand() -> None:
    found = RankSummary.of(np.array([1.0, 2.0, 4.0, 20.0]))
    assert found.mrr == pytest.approx((1 + 0.5 + 0.25 + 0.05) / 4)
    assert found.mean_rank == pytest.approx(6.75)
    assert (found.hits_at_1, found.hits_at_3, found.hits_at_10) == (25, 50, 75)
    assert np.isnan(RankSummary.of(np.array([])).mrr)


def test_filtered_ranks_by_hand() -> None:
    table = torch.tensor([[0.0], [1.0], [2.0], [3.0], [2.0]])
    embedding = Embedding(TransE(1), table, torch.zeros(1, 1))
    points = torch.tensor([[0.0], [0.0]])
    # The answer of both is entity 2 at distance 2; entity 4 is as far; entities 0 and 1 are nearer.
    others = AnswerIndex(np.array([2, 1, 9]), np.array([0, 0, 3]))  # the second query: 1 is true too, 9 is unknown
    counts = filtered_rank_counts(embedding, points, np.array([2, 2]), others)
    assert counts.better.tolist() == [2, 1]
    assert counts.equal.tolist() == [1, 1]


@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_filtered_ranks_equal_a_slow_reference(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "CHUNK_NUMBERS", chunk)
    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.integers(0, 3, size=(30, 3))).double()  # small integers: many ties
    points = torch.from_numpy(rng.integers(0, 3, size=(20, 3))).double()
    answers = rng.integers(0, 30, 20)
    keys, true = np.repeat(np.arange(20), 4), rng.integers(0, 40, 80)
    others = AnswerIndex.build(np.arange(20), keys, true)
    counts = filtered_rank_counts(Embedding(TransE(3), table, torch.zeros(1, 3).double()), points, answers, others)
    for query in range(20):
        excluded = set(true[keys == query].tolist()) | {int(answers[query])}
        gaps = {e: float((points[query] - table[e]).abs().sum()) for e in range(30)}
        own = gaps[int(answers[query])]
        rivals = [gap for e, gap in gaps.items() if e not in excluded]
        assert counts.better[query] == sum(gap < own for gap in rivals)
        assert counts.equal[query] == sum(gap == own for gap in rivals)


def slow_link_prediction(
    table: torch.Tensor,
    relations: torch.Tensor,
    vectors: dict[int, torch.Tensor],
    query: tuple[int, int, int, bool],
    true: set[tuple[int, int, int]],
    candidates: int,
) -> tuple[int, int]:
    """Better and equal candidates, by the definition."""
    entity, relation, answer, asks_tail = query

    def score(e: int) -> float:
        if entity not in vectors or relation >= len(relations) or e >= len(table):
            return -np.inf
        sign = 1 if asks_tail else -1  # h + r - t, or t - r - h: equal but for rounding, and ties must stay ties
        return -float((vectors[entity] + sign * relations[relation] - table[e]).abs().sum())

    own = score(answer)
    rivals = [
        e
        for e in range(candidates)
        if e != answer and ((entity, relation, e) if asks_tail else (e, relation, entity)) not in true
    ]
    if entity not in vectors or relation >= len(relations):
        return 0, len(rivals)
    return sum(score(e) > own for e in rivals), sum(score(e) == own for e in rivals)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", ["paper", "lan"])
def test_link_prediction_equals_a_slow_reference(seed: int, protocol: str) -> None:
    assert protocol in ("paper", "lan")
    rng = np.random.default_rng(seed)
    known = np.stack([rng.integers(0, n, 40) for n in (10, 3, 10)], axis=1)
    table = torch.from_numpy(rng.integers(0, 3, size=(10, 2))).double()
    relations = torch.from_numpy(rng.integers(0, 2, size=(3, 2))).double()
    new, old = rng.integers(10, 14, 12), rng.integers(0, 10, 12)
    relation = rng.integers(0, 4, 12)  # relation 3 is untrained
    aux = np.where(
        (rng.random(12) < 0.5)[:, None], np.stack([new, relation, old], 1), np.stack([old, relation, new], 1)
    )
    aux = aux[aux[:, 1] < 4][:8]
    test = np.stack([rng.integers(10, 15, 10), rng.integers(0, 4, 10), rng.integers(0, 10, 10)], axis=1)
    test[::2] = test[::2, ::-1]  # every other one asks for the head
    test[:2, [0, 2]] = [[10, 11], [12, 13]]  # two of two newcomers
    given_ids = aux.copy()
    given_ids[given_ids[:, 1] == 3, 1] = -1
    embedding = Embedding(TransE(2), table, relations)
    graph = GraphStatistics.count(known, 10, 3)
    newcomers = find_newcomers(embedding, graph, known, given_ids, Uniform()).with_room_for(5)
    queries = kept_by(protocol, test_queries(test, 10), 10, 3)  # type: ignore[arg-type]
    true = np.concatenate([known, aux, test])
    counts = link_prediction(TranslationScorer(newcomers), queries, true, 15, protocol)  # type: ignore[arg-type]
    made = newcomers.vectors(np.arange(5))
    vectors = {10 + n: made[n] for n in range(5) if newcomers.representable[n]}
    asked = list(
        zip(
            queries.entity.tolist(),
            queries.relation.tolist(),
            queries.answer.tolist(),
            queries.asks_tail.tolist(),
            strict=True,
        )
    )
    true_set = {tuple(row) for row in true.tolist()}
    expected = [
        slow_link_prediction(table, relations, vectors, query, true_set, 15 if protocol == "paper" else 10)
        for query in asked
    ]
    assert list(zip(counts.better.tolist(), counts.equal.tolist(), strict=True)) == expected
    assert len(asked) > 3


def test_queries_ask_for_the_end_opposite_the_new_one() -> None:
    heads = test_queries(np.array([[5, 0, 1], [6, 1, 7]]), 5)  # all heads are new: only tails are asked for
    assert heads.asks_tail.tolist() == [True, True]
    tails = test_queries(np.array([[1, 0, 5], [6, 1, 7]]), 5)
    assert (tails.asks_tail.tolist(), tails.entity.tolist(), tails.answer.tolist()) == ([False, False], [5, 7], [1, 6])
    mixed = test_queries(np.array([[1, 0, 5], [6, 1, 2], [6, 1, 7]]), 5)
    assert sorted(mixed.asks_tail.tolist()) == [False, False, True, True]


def test_thresholds_by_hand() -> None:
    scores = np.array([-1.0, -2.0, -3.0, -4.0])
    assert best_threshold(scores, np.array([True, True, False, False])) == -2.5
    assert best_threshold(scores, np.array([True, True, True, True])) == -5  # one gap below the lowest
    assert best_threshold(scores, np.array([False, False, False, False])) == 0  # one gap above the highest
    # Equal scores cannot be told apart: the threshold lies between distinct ones.
    assert best_threshold(np.array([-1.0, -1.0, -1.0, -2.0]), np.array([True, False, True, False])) == -1.5
    relations, truth = np.array([0, 0, 2, 2]), np.array([True, False, True, False])
    found = Thresholds.fit(scores, relations, truth, 4)
    assert found.by_relation[[0, 2]].tolist() == [-1.5, -3.5]
    assert np.isnan(found.by_relation[[1, 3]]).all()
    assert found.of(np.array([2, 0, 1, -1])).tolist() == [-3.5, -1.5, found.overall, found.overall]


def test_of_equally_good_thresholds_the_highest() -> None:
    scores = np.array([-1.0, -2.0, -3.0, -4.0])
    # The cuts at -1.5 and -3.5 are right for three each, the others for two.
    assert best_threshold(scores, np.array([True, False, True, False])) == -1.5
    # The cuts at -5, -2.5 and 0 are right for two each, the others for one.
    assert best_threshold(scores, np.array([False, True, False, True])) == 0
    # Nothing tells the claims apart: accepting none is as good as accepting all.
    assert best_threshold(np.array([-2.0, -2.0]), np.array([True, False])) == -1
    # Accepting all is better than any other cut.
    assert best_threshold(np.array([-1.0, -2.0, -2.0]), np.array([False, True, True])) == -3


@given(st.lists(st.tuples(st.integers(-6, 6), st.booleans()), min_size=1, max_size=25))
@settings(max_examples=150, deadline=None)
def test_no_threshold_is_better_and_no_higher_one_as_good(claims: list[tuple[int, bool]]) -> None:
    scores = np.array([float(score) for score, _ in claims])
    truth = np.array([label for _, label in claims])

    def right(threshold: float) -> int:
        return int(((scores >= threshold) == truth).sum())

    found = best_threshold(scores, truth)
    assert right(found) == max(right(t) for t in np.arange(-7, 8, 0.25))
    # A higher one that takes other claims in is worse.
    higher = [score + 0.5 for score in scores if score >= found]
    assert all(right(t) < right(found) for t in higher)


def test_answer_index_build() -> None:
    keys: IntArray = np.array([5, 3, 5, 9])
    index = AnswerIndex.build(np.array([5, 4, 3]), keys, np.array([1, 2, 3, 4]))
    assert index.offsets.tolist() == [0, 2, 2, 3]
    assert index.answers.tolist() == [1, 3, 2]
    query, answer = index.pairs(1, 3)
    assert (query.tolist(), answer.tolist()) == ([1], [2])


def test_equal_questions_share_their_answers() -> None:
    rng = np.random.default_rng(5)
    true = rng.integers(0, 12, (60, 3))
    asked = true[rng.integers(0, 60, 40)]
    queries = Queries(asked[:, 0], asked[:, 1], asked[:, 2], np.ones(40, dtype=np.bool_))
    shared = shared_answers(queries, true, 10)
    assert len(shared.index.offsets) - 1 == len(np.unique(asked[:, :2], axis=0))
    listed = other_answers(queries, true, 10)
    assert np.diff(listed.offsets).tolist() == shared.counts.tolist()
    for number, (head, relation, _) in enumerate(asked.tolist()):
        expected = np.unique(true[(true[:, 0] == head) & (true[:, 1] == relation), 2])
        for index, place in ((listed, number), (shared.select(np.array([number])).listed(), 0)):
            found = index.answers[index.offsets[place] : index.offsets[place + 1]]
            assert found.tolist() == expected[expected < 10].tolist()


def test_answers_that_are_known_to_be_distinct_are_not_sorted_again() -> None:
    index = AnswerIndex(np.array([1, 7, 3, 0, 8]), np.array([0, 2, 3, 5]), below=9)
    assert index.distinct_below(9) is index
    fewer = index.distinct_below(5)
    assert (fewer.answers.tolist(), fewer.offsets.tolist(), fewer.below) == ([1, 3, 0], [0, 1, 2, 3], 5)
    again = AnswerIndex(index.answers, index.offsets).distinct_below(5)
    assert (again.answers.tolist(), again.offsets.tolist()) == (fewer.answers.tolist(), fewer.offsets.tolist())
    chosen = index.select(np.array([2, 0]))
    assert (chosen.answers.tolist(), chosen.below) == ([0, 8, 1, 7], 9)
