"""Claims about new entities: the simulation that a judge learns in, and the judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evidence.claims import MOST_HIDDEN, ClaimEvidence, ClaimJudge, JudgedScorer, simulated
from ookg.graph.statistics import GraphStatistics
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import TranslationScorer
from ookg.types import BoolArray, FloatArray, IntArray

KNOWN, NEW, TRAIN, VALID = 120, 5, 400, 60
ENDS = {"head": (0,), "tail": (2,), "both": (0, 2)}


def traceable(position: str, seed: int = 0) -> EncodedDataset:
    """A data set in which every triple has a relation of its own, so that it can be told after entities are renumbered.

    All known entities are in train.
    """
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, KNOWN, size=(TRAIN + VALID, 2))
    ends[:KNOWN, 0] = np.arange(KNOWN)
    triples = np.stack([ends[:, 0], np.arange(TRAIN + VALID), ends[:, 1]], axis=1)
    test = rng.integers(0, KNOWN, size=(20, 3))
    test[:, ENDS[position]] = rng.integers(KNOWN, KNOWN + NEW, size=(20, len(ENDS[position])))
    aux = np.stack([np.arange(KNOWN, KNOWN + NEW), np.arange(NEW), np.arange(NEW)], axis=1)
    return EncodedDataset(
        f"toy {position}",
        "triplet-classification",
        num_known=KNOWN,
        num_entities=KNOWN + NEW,
        num_trained=TRAIN + VALID,
        num_relations=TRAIN + VALID,
        train=triples[:TRAIN],
        valid=triples[TRAIN:],
        aux=aux,
        test=test,
        valid_truth=rng.random(VALID) < 0.5,
        test_truth=np.ones(20, dtype=np.bool_),
    )


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("position", ENDS)
def test_simulated_entities_are_new(position: str, share: float) -> None:
    dataset = traceable(position)
    found = simulated(dataset, share=share)
    assert len(found.test) > 0
    assert len(found.aux) > 0
    assert found.train[:, [0, 2]].max() < found.num_known  # what is new is in no train triple
    assert found.valid[:, [0, 2]].max() < found.num_known
    assert set(np.unique(found.train[:, [0, 2]])) == set(range(found.num_known))
    assert ((found.aux[:, [0, 2]] >= found.num_known).sum(axis=1) == 1).all()  # one new and one known
    is_new = found.test[:, [0, 2]] >= found.num_known
    wanted = {"head": [True, False], "tail": [False, True], "both": [True, True]}[position]
    capped = found.num_entities - found.num_known == round(MOST_HIDDEN * KNOWN)
    if position == "both" and capped:  # not all of the drawn ends could be made new
        assert is_new.any(axis=1).all()
    else:
        assert (is_new == wanted).all()
    assert 0 < found.num_entities - found.num_known <= round(MOST_HIDDEN * KNOWN)
    assert capped == (share == 0.5)
    assert found.num_entities <= KNOWN
    for part in (found.train, found.valid, found.aux, found.test):
        assert 0 <= part.min() <= part[:, [0, 2]].max() < found.num_entities


@pytest.mark.parametrize("position", ENDS)
def test_simulated_triples_are_those_of_train_and_valid(position: str) -> None:
    dataset = traceable(position)
    assert dataset.valid_truth is not None
    found = simulated(dataset, seed=3)
    original = {relation: (head, tail) for head, relation, tail in [*dataset.train.tolist(), *dataset.valid.tolist()]}
    old: dict[int, int] = {}
    for head, relation, tail in np.concatenate([found.train, found.valid, found.aux, found.test]).tolist():
        for new, before in zip((head, tail), original[relation], strict=True):
            assert old.setdefault(new, before) == before
    assert len(set(old.values())) == len(old)
    assert (np.concatenate([found.train, found.aux])[:, 1] < TRAIN).all()
    for claims, truth in ((found.valid, found.valid_truth), (found.test, found.test_truth)):
        assert truth is not None
        assert truth.tolist() == dataset.valid_truth[claims[:, 1] - TRAIN].tolist()
    assert not set(found.valid[:, 1]) & set(found.test[:, 1])
    # All train triples without a new end are kept, and all that tie a new entity to a known one are given.
    number = {before: new for new, before in old.items()}
    for row, (head, _, tail) in enumerate(dataset.train.tolist()):
        ends = [number.get(end, found.num_known) for end in (head, tail)]
        new = sum(end >= found.num_known for end in ends)
        assert (row in found.train[:, 1]) == (new == 0)
        if row in found.aux[:, 1]:
            assert new == 1


def test_a_simulation_follows_from_its_seed() -> None:
    dataset = traceable("head")
    first, again, other = (simulated(dataset, seed) for seed in (1, 1, 2))
    for name in ("train", "valid", "aux", "test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.test.tolist() != other.test.tolist()
    assert first.name == "toy head, simulated"
    assert (first.task, first.num_trained) == (dataset.task, dataset.num_trained)


def test_both_ends_are_made_new_where_test_claims_favour_neither() -> None:
    dataset = traceable("head")
    mixed = dataset.test.copy()
    mixed[:12, 0] = 0  # the head is new in less than half of the claims, the tail in none
    found = simulated(replace(dataset, test=mixed), share=0.1)
    expected = simulated(traceable("both"), share=0.1)
    assert found.test.tolist() == expected.test.tolist()
    assert len(found.test) > 0


def test_a_simulation_without_claims_is_empty() -> None:
    dataset = traceable("head")
    found = simulated(replace(dataset, valid=dataset.valid[:0], valid_truth=np.empty(0, dtype=np.bool_)))
    assert (len(found.test), len(found.valid), len(found.aux)) == (0, 0, 0)
    assert found.train.tolist() == dataset.train.tolist()


def test_claims_without_labels_cannot_be_simulated() -> None:
    with pytest.raises(InputError, match="valid has no labels"):
        simulated(replace(traceable("head"), valid_truth=None))


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
    sizes = {"num_known": 12, "num_entities": 15, "num_trained": 3, "num_relations": 3}
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
    assert found.shape == (4, 5 * len(seeds) + 2 + 1 + 6)
    assert np.isnan(found).any(axis=1).tolist() == [False, False, True, False]
    for number, scorer in enumerate(evidence.vectors):
        np.testing.assert_allclose(found[:, 5 * number], scorer.scores(dataset.test))
    np.testing.assert_allclose(found[:, -6:], evidence.graph["paths"].of_claims(dataset.test))
    np.testing.assert_allclose(found[:, -7:-6], evidence.graph["links"].of_claims(dataset.test))
    np.testing.assert_allclose(found[:, -9:-7], evidence.graph["habits"].of_claims(dataset.test))


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
