"""Claims about new entities: the evidence, and the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evidence.claims import ClaimEvidence, ClaimJudge, JudgedScorer
from ookg.graph.statistics import GraphStatistics
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import TranslationScorer
from ookg.types import BoolArray, FloatArray, IntArray


def planted_claims(size: int = 600) -> tuple[FloatArray, IntArray, BoolArray]:
    """A claim of relation 0 or 1 is true if its first feature is large, one of relation 2 if it is small."""
    rng = np.random.default_rng(0)
    features, relations = 100 + 20 * rng.normal(size=(size, 3)), rng.integers(0, 3, size)
    features[:, 2] = 7.0  # the same for all
    return features, relations, (features[:, 0] > 110) ^ (relations == 2)


def test_a_judge_learns_a_rule_and_its_exception() -> None:
    features, relations, truth = planted_claims()
    judge = ClaimJudge.fit(features[:400], relations[:400], truth[:400], 3)
    right = (judge.log_odds(features, relations) > 0) == truth
    for relation in range(3):
        assert right[400:][relations[400:] == relation].mean() > 0.9
    large, small = np.array([[160.0, 100.0, 7.0]]), np.array([[60.0, 100.0, 7.0]])
    for relation in (-1, 3, 1000):  # one that it has not seen is judged by what most have in common
        asked = np.array([relation])
        assert judge.log_odds(large, asked)[0] > judge.log_odds(small, asked)[0]
    exception = np.array([2])
    assert judge.log_odds(large, exception)[0] < 0 < judge.log_odds(small, exception)[0]


def test_what_cannot_be_scored_gets_no_verdict_and_teaches_nothing() -> None:
    features, relations, truth = planted_claims(200)
    judge = ClaimJudge.fit(features, relations, truth, 3)
    unknown = np.full((50, 3), 100.0)
    unknown[np.arange(50), np.arange(50) % 3] = np.nan
    more = np.concatenate([features, unknown]), np.concatenate([relations, np.zeros(50, dtype=np.int64)])
    same = ClaimJudge.fit(*more, np.append(truth, np.ones(50, dtype=np.bool_)), 3)
    np.testing.assert_array_equal(same.shared, judge.shared)
    np.testing.assert_array_equal(same.own, judge.own)
    found = judge.log_odds(*more)
    assert np.isfinite(found[:200]).all()
    assert np.isnan(found[200:]).all()


def test_a_judge_expects_as_many_true_claims_as_there_were() -> None:
    features, relations, truth = planted_claims()
    truth[np.random.default_rng(1).random(len(truth)) < 0.8] = True
    judge = ClaimJudge.fit(features, relations, truth, 3)
    chance = 1 / (1 + np.exp(-judge.log_odds(features, relations)))
    assert chance.mean() == pytest.approx(truth.mean(), abs=1e-3)  # the intercept is not held back


def test_a_judge_needs_claims_of_both_kinds() -> None:
    features, relations, truth = planted_claims(20)
    for labels in (np.ones_like(truth), np.zeros_like(truth)):
        with pytest.raises(InputError, match="no labelled claims of both kinds"):
            ClaimJudge.fit(features, relations, labels, 3)
    only_true_scored = features.copy()
    only_true_scored[~truth] = np.nan
    for few in (only_true_scored, np.full_like(features, np.nan)):
        with pytest.raises(InputError, match="no labelled claims of both kinds"):
            ClaimJudge.fit(few, relations, truth, 3)


@pytest.fixture(scope="module")
def dataset() -> EncodedDataset:
    rng = np.random.default_rng(0)
    train = np.stack([rng.integers(0, high, 60) for high in (12, 3, 12)], axis=1)
    aux = np.array([[12, 0, 1], [2, 1, 12], [13, 2, 3]])  # 14 has no triple
    test = np.array([[12, 0, 4], [13, 1, 5], [14, 0, 1], [12, 0, 1]])
    sizes: dict[str, Any] = {"num_known": 12, "num_entities": 15, "num_trained": 3, "num_relations": 3}
    truth = np.array([True, False, True, True])
    return EncodedDataset(
        "toy", "triplet-classification", **sizes, train=train, valid=train[:4], aux=aux, test=test,
        valid_truth=truth, test_truth=truth,
    )  # fmt: skip


def evidence_of(dataset: EncodedDataset, seeds: tuple[int, ...]) -> ClaimEvidence:
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    scorers = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        tables = torch.randn(dataset.num_known, 4, generator=generator), torch.randn(3, 4, generator=generator)
        found = find_newcomers(Embedding(TransE(4), *tables), graph, dataset.train, dataset.given, Uniform())
        scorers.append(TranslationScorer(found.with_room_for(dataset.num_entities - dataset.num_known)))
    return ClaimEvidence.gather(scorers, dataset)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_features_of_claims(dataset: EncodedDataset, seeds: tuple[int, ...]) -> None:
    evidence = evidence_of(dataset, seeds)
    found = evidence.features(dataset.test)
    assert found.shape == (4, 5 * len(seeds) + 2 + 1 + 6 + 4)
    assert np.isnan(found).any(axis=1).tolist() == [False, False, True, False]
    for number, scorer in enumerate(evidence.vectors):
        np.testing.assert_allclose(found[:, 5 * number], scorer.scores(dataset.test))
    np.testing.assert_allclose(found[:, -10:-4], evidence.nearness.of_claims(dataset.test))
    np.testing.assert_allclose(found[:, -11:-10], evidence.graph["links"].of_claims(dataset.test))
    np.testing.assert_allclose(found[:, -13:-11], evidence.graph["habits"].of_claims(dataset.test))
    np.testing.assert_array_equal(found[:, -13:], evidence.graph_features(dataset.test))
    # 12 has been a head of relation 0 and a tail of 1, 13 a head of 2; 14 has nothing.
    heads, tails = ([set(dataset.train[dataset.train[:, 1] == r, end]) for r in range(3)] for end in (0, 2))
    expected = [
        [1, 4 in tails[0], 4 in heads[0], 0],
        [0, 5 in tails[1], 5 in heads[1], 0],
        [0, 1, 1 in heads[0], 0],
        [1, 1, 1 in heads[0], 0],
    ]
    assert found[:, -4:].tolist() == np.array(expected, dtype=float).tolist()
    assert evidence.graph_features(np.array([[2, 1, 12], [12, 1, 2]]))[:, -4:].tolist()[0][1] == 1  # 12 as a tail of 1
    assert evidence.graph_features(np.array([[2, 1, 12], [12, 1, 2]]))[:, -4:].tolist()[1][3] == 1


def test_claims_about_what_has_no_vector_can_be_judged_by_the_graph(dataset: EncodedDataset) -> None:
    evidence = evidence_of(dataset, (0,))
    truth = np.random.default_rng(0).random(len(dataset.train)) < 0.5
    judge, by_graph = (
        ClaimJudge.fit(features, dataset.train[:, 1], truth, dataset.num_trained)
        for features in (evidence.features(dataset.train), evidence.graph_features(dataset.train))
    )
    alone, both = (JudgedScorer(evidence, judge, other).scores(dataset.test) for other in (None, by_graph))
    assert np.isnan(alone).tolist() == [False, False, True, False]
    expected = by_graph.log_odds(evidence.graph_features(dataset.test), dataset.test[:, 1])[2]
    assert both.tolist() == [alone[0], alone[1], expected, alone[3]]


def test_judged_answers_are_judged_claims(dataset: EncodedDataset) -> None:
    evidence = evidence_of(dataset, (0,))
    truth = np.random.default_rng(0).random(len(dataset.train)) < 0.5
    judge = ClaimJudge.fit(evidence.features(dataset.train), dataset.train[:, 1], truth, dataset.num_trained)
    scorer = JudgedScorer(evidence, judge)
    assert scorer.threshold == 0
    assert np.isnan(scorer.scores(dataset.test)).tolist() == [False, False, True, False]
    queries = Queries(
        np.array([12, 13, 14]), np.array([0, 2, 1]), np.zeros(3, dtype=np.int64), np.array([True, False, True])
    )
    assert scorer.answerable(queries).tolist() == [True, True, False]
    found = scorer.answer_scores(queries.select(slice(2))).numpy()
    everyone = np.arange(12)
    tails = np.stack([np.full(12, 12), np.zeros(12, dtype=np.int64), everyone], axis=1)
    heads = np.stack([everyone, np.full(12, 2), np.full(12, 13)], axis=1)
    np.testing.assert_allclose(found, [scorer.scores(tails), scorer.scores(heads)])
    assert scorer.answer_scores(queries.select(slice(0, 0))).shape == (0, 12)
