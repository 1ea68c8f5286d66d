"""New entities as answers, on equal footing with known ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights
from ookg.graph.statistics import GraphStatistics, relations_with_loops
from ookg.models import Geometry, RotatE, TransE, TransH
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.reducer import Correlation, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import Protocol, link_prediction
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.types import BoolArray, FloatArray, IntArray

KNOWN, NEW, RELATIONS = 10, 5, 3
PROTOCOLS_COMPARED: tuple[Protocol, Protocol] = ("paper", "all")
SIZE = KNOWN + NEW  # the last new entity is in no given triple


def newcomers(geometry: Geometry, weights: Weights, seed: int) -> tuple[Newcomers, IntArray]:
    """Random vectors, random known triples, and two or more given triples for each new entity but the last."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    known = np.stack([rng.integers(0, high, 40) for high in (KNOWN, RELATIONS, KNOWN)], axis=1)
    known = known[(known[:, 0] != known[:, 2]) | (known[:, 1] == 0)]
    loops = np.stack([np.arange(KNOWN), np.zeros(KNOWN, np.int64), np.arange(KNOWN)], axis=1)
    known = np.concatenate([known, loops])  # only relation 0 has loops
    given = [[KNOWN + n, rng.integers(RELATIONS), rng.integers(KNOWN)] for n in range(NEW - 1) for _ in range(2)]
    given += [[rng.integers(KNOWN), rng.integers(RELATIONS), KNOWN + n] for n in range(NEW - 1)]
    given += [[KNOWN, 1, KNOWN + 1]]
    embedding = Embedding(
        geometry,
        torch.randn(KNOWN, geometry.entity_width, generator=generator),
        torch.randn(RELATIONS, geometry.relation_width, generator=generator),
    )
    graph = GraphStatistics.count(known, KNOWN, RELATIONS)
    ready = find_newcomers(embedding, graph, known, np.array(given), weights).with_room_for(NEW)
    return ready, np.concatenate([known, given])


def questions(answer: int) -> Queries:
    """Each new entity but the last, over each relation, both ways. All have the same answer: asked ones are true."""
    grid = np.meshgrid(np.arange(KNOWN, SIZE - 1), np.arange(RELATIONS), [True, False])
    entity, relation, asks_tail = (part.ravel() for part in grid)
    return Queries(entity, relation, np.full(len(entity), answer), asks_tail.astype(np.bool_))


def all_ranks(scorer: Scorer, true: IntArray, protocol: Protocol) -> FloatArray:
    """(answers, questions) how each entity ranks as the answer to each question."""
    ranks = [link_prediction(scorer, questions(answer), true, SIZE, protocol).ranks() for answer in range(SIZE)]
    return np.stack(ranks)


def scores_one_by_one(scorer: Scorer, queries: Queries) -> FloatArray:
    """(queries, entities) the scores of the triples that answers make; NaN without a vector."""
    columns = []
    for answer in range(SIZE):
        other = np.full(len(queries), answer)
        head, tail = (np.where(queries.asks_tail, *ends) for ends in ((queries.entity, other), (other, queries.entity)))
        columns.append(scorer.scores(np.stack([head, queries.relation, tail], axis=1)))
    return np.stack(columns, axis=1)


def slow_counts(scores: FloatArray, queries: Queries, true: IntArray, itself: BoolArray) -> list[tuple[int, int]]:
    """Better and equal candidates, by the definition."""
    stated = {tuple(row) for row in true.tolist()}
    counts = []
    for row, own_scores in enumerate(np.where(np.isnan(scores), -np.inf, scores)):
        entity, relation, answer = (int(part[row]) for part in (queries.entity, queries.relation, queries.answer))
        rivals = []
        for other in range(SIZE):
            triple = (entity, relation, other) if queries.asks_tail[row] else (other, relation, entity)
            if other != answer and triple not in stated and (other != entity or itself[row]):
                rivals.append(own_scores[other])
        own = -np.inf if answer == entity and not itself[row] else own_scores[answer]
        # Two ways to sum up a distance round differently.
        better = [score > own + 1e-5 if np.isfinite(own) else score > own for score in rivals]
        equal = [abs(score - own) <= 1e-5 if np.isfinite(own) else score == own for score in rivals]
        counts.append((sum(better), sum(equal)))
    return counts


@pytest.mark.parametrize("weights", [Uniform(), Correlation(2)], ids=["uniform", "correlation"])
@pytest.mark.parametrize(
    ("geometry", "refined"),
    [(TransE(4), False), (TransE(4), True), (RotatE(3), False), (TransH(4), False)],
    ids=["TransE", "TransE refined", "RotatE", "TransH"],
)
@pytest.mark.parametrize("has_rule", [False, True], ids=["any may be itself", "by loops"])
def test_ranks_are_those_of_the_scores_of_triples(
    geometry: Geometry, weights: Weights, refined: bool, has_rule: bool
) -> None:
    ready, true = newcomers(geometry, weights, 1)
    if refined:
        ready = ready.refined_by(RefineSettings(steps=3))
    loops = relations_with_loops(true, RELATIONS) if has_rule else None
    scorer = TranslationScorer(ready, loops)
    for answer in range(SIZE):
        queries = questions(answer)
        itself = queries.relation == 0 if has_rule else np.ones(len(queries), dtype=np.bool_)
        np.testing.assert_array_equal(scorer.may_be_itself(queries), itself)
        scores = scores_one_by_one(scorer, queries)
        counts = link_prediction(scorer, queries, true, SIZE, "all")
        expected = slow_counts(scores, queries, true, itself)
        assert list(zip(counts.better.tolist(), counts.equal.tolist(), strict=True)) == expected
    table = scorer.all_answer_scores(queries, SIZE).numpy()
    np.testing.assert_allclose(table, np.where(np.isnan(scores), -np.inf, scores), rtol=1e-4, atol=1e-5)


def test_known_answers_compete_with_new_ones_and_new_ones_are_found() -> None:
    ready, true = newcomers(TransE(4), Uniform(), 2)
    before, after = (all_ranks(TranslationScorer(ready), true, protocol) for protocol in PROTOCOLS_COMPARED)
    assert (after[:KNOWN] >= before[:KNOWN]).all()
    assert (after[:KNOWN] > before[:KNOWN]).any()
    assert after[KNOWN : SIZE - 1].mean() < before[KNOWN : SIZE - 1].mean()
    assert (after[KNOWN : SIZE - 1] == 1).any()
    assert (after[SIZE - 1] > after[: SIZE - 1].max(axis=0)).all()  # no vector: behind all others


def test_evidence_counts_for_new_answers_too() -> None:
    ready, true = newcomers(TransE(4), Uniform(), 3)
    known, given = true[: -3 * (NEW - 1) - 1], true[-3 * (NEW - 1) - 1 :]
    evidence = GraphEvidence.count(known, given, RELATIONS)
    vectors = TranslationScorer(ready, relations_with_loops(known, RELATIONS))
    scorer = CombinedScorer([vectors], evidence, RankingWeights(1.0, 3.0, 0.5))
    for answer in range(SIZE):
        queries = questions(answer)
        combined = scorer.all_answer_scores(queries, SIZE)
        torch.testing.assert_close(combined[:, :KNOWN], scorer.answer_scores(queries), rtol=1e-4, atol=1e-4)
        plain = vectors.all_answer_scores(queries, SIZE)
        mean, spread = plain[:, :KNOWN].mean(1, True), plain[:, :KNOWN].std(1, correction=0, keepdim=True)
        expected = (plain - mean) / spread + 3 * evidence["links"].of_answers(queries, SIZE, "cpu")
        expected += 0.5 * evidence["habits"].of_answers(queries, SIZE, "cpu")
        torch.testing.assert_close(combined, expected, rtol=1e-4, atol=1e-4)
        assert (evidence["habits"].of_answers(queries, SIZE, "cpu")[:, KNOWN:] > 0).any()
        counts = link_prediction(scorer, queries, true, SIZE, "all")
        expected_counts = slow_counts(expected.numpy(), queries, true, queries.relation == 0)
        assert list(zip(counts.better.tolist(), counts.equal.tolist(), strict=True)) == expected_counts


class KnownOnly(Scorer):
    """Says nothing about new answers."""

    num_known, num_relations = KNOWN, RELATIONS

    def answerable(self, queries: Queries) -> BoolArray:
        return np.ones(len(queries), dtype=np.bool_)

    def scores(self, triples: IntArray) -> FloatArray:
        raise NotImplementedError

    def answer_scores(self, queries: Queries) -> torch.Tensor:
        return torch.arange(KNOWN).float().repeat(len(queries), 1)


@pytest.mark.parametrize("protocol", ["paper", "all"])
def test_what_scores_known_answers_alone_has_new_ones_behind_them(protocol: Protocol) -> None:
    true = np.array([[0, 0, 0]])
    ranks = all_ranks(KnownOnly(), true, protocol)
    by_hand = [KNOWN - answer for answer in range(KNOWN)] + [KNOWN + (NEW + 1) / 2] * NEW
    assert ranks.T.tolist() == [by_hand] * ranks.shape[1]
