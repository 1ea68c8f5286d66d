"""What an answer that is itself new gets on top, and what its hubness takes off: the same wherever scores are made."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ookg.errors import InputError
from ookg.evidence.combined import (
    CombinedScorer,
    GraphEvidence,
    RankingWeights,
    answer_scores,
    combined_scores,
    weights_of_new,
)
from ookg.evidence.habits import Habits
from ookg.evidence.registry import HUBNESS, register
from ookg.evidence.registry import NEW as NEW_WEIGHT
from ookg.evidence.source import Asked
from ookg.graph.statistics import GraphStatistics
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import TranslationScorer
from ookg.types import IntArray

KNOWN, NEW, RELATIONS = 10, 3, 3  # the last new one has no triple
SIZE = KNOWN + NEW
SOURCES = {"vector": 1.1, "links": 2.0, "habits": 0.3, "company": 0.4}
WITH, WITHOUT = RankingWeights.alone(**SOURCES, new=-1.5), RankingWeights.alone(**SOURCES)
BOTH = RankingWeights.alone(**SOURCES, new=-1.5, hubness=0.8)


@pytest.fixture(scope="module")
def vectors() -> TranslationScorer:
    generator = torch.Generator().manual_seed(0)
    embedding = Embedding(TransE(4), *(torch.randn(size, 4, generator=generator) for size in (KNOWN, RELATIONS)))
    known, given = triples()
    graph = GraphStatistics.count(known, KNOWN, RELATIONS)
    return TranslationScorer(find_newcomers(embedding, graph, known, given, Uniform()).with_room_for(NEW))


def triples() -> tuple[IntArray, IntArray]:
    rng = np.random.default_rng(0)
    known = np.stack([rng.integers(0, high, 50) for high in (KNOWN, RELATIONS, KNOWN)], axis=1)
    return known, np.array([[KNOWN, 0, 1], [2, 1, KNOWN], [KNOWN + 1, 0, 4], [5, 2, KNOWN + 1]])


@pytest.fixture(scope="module")
def evidence() -> GraphEvidence:
    return GraphEvidence.count(*triples(), RELATIONS)


def queries() -> Queries:
    entity, relation = (part.ravel() for part in np.meshgrid([0, 3, KNOWN, KNOWN + 1], np.arange(RELATIONS)))
    return Queries(entity, relation, np.zeros(len(entity), dtype=np.int64), np.ones(len(entity), dtype=np.bool_))


def unasked(model: int) -> torch.Tensor:
    pytest.fail(f"hubness under model {model}, and it has no weight")


def test_by_hand() -> None:
    weights = RankingWeights.alone(vector=2.0, new=-0.5)
    vectors = torch.tensor([1.0, 3.0, 6.0])
    scores = combined_scores([vectors[None].clone()], 2, weights, lambda *_: pytest.fail("no source"), unasked)
    assert scores.tolist() == [[-2.0, 2.0, 7.5]]  # twice -1, 1 and 4
    assert answer_scores([vectors], 2, weights, {}, unasked).tolist() == [-2.0, 2.0, 7.5]
    assert weights_of_new(weights, np.array([0, 1, 2]), 2).tolist() == [0.0, 0.0, -0.5]


def test_hubness_by_hand() -> None:
    """Two models, of which the spreads are 1 and 2: half of 3 / 1 and 5 / 2 each is taken off."""
    weights = RankingWeights.alone(vector=2.0, hubness=0.5)
    vectors = [torch.tensor([1.0, 3.0, 6.0]), torch.tensor([1.0, 5.0, 3.0])]
    scores = answer_scores(vectors, 2, weights, {}, lambda model: torch.tensor([(3.0, 5.0)[model]]))
    assert scores.tolist() == [-2.0, 2.0, 4.0 - 0.5 * (3.0 + 2.5) / 2]


def test_a_mean_is_a_hub() -> None:
    entities = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    embedding = Embedding(TransE(8), entities, torch.zeros(1, 8))
    middle, far, missing = entities.mean(dim=0), 5 * entities[0], torch.full((8,), torch.nan)
    hubness = embedding.hubness(torch.stack([middle, far, missing]))
    assert hubness[0] > 0 > hubness[1]
    assert hubness[2] == 0
    assert embedding.hubness(entities).mean().abs() < 0.05 * embedding.mean_gap  # known ones are none on average
    alone = torch.cat([embedding.hubness(row[None]) for row in entities[:5]])
    torch.testing.assert_close(alone, embedding.hubness(entities)[:5])
    assert Embedding(TransE(8), entities[:1], torch.zeros(1, 8)).hubness(entities[:2]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("weights", [WITH, BOTH])
def test_all_that_scores_agrees(vectors: TranslationScorer, evidence: GraphEvidence, weights: RankingWeights) -> None:
    asked = queries()
    plain, weighted = (CombinedScorer([vectors], evidence, one) for one in (WITHOUT, weights))
    scores = weighted.all_answer_scores(asked, SIZE)
    before = plain.all_answer_scores(asked, SIZE)
    hubness = vectors.hubness(asked, SIZE)
    assert hubness.shape == (1, NEW)
    assert (hubness[0] != 0).tolist() == [True, True, False]
    spread = vectors.answer_scores(asked).std(dim=1, keepdim=True, correction=0)
    on_top = torch.cat([torch.zeros(len(asked), KNOWN), -1.5 - weights.hubness * hubness / spread], dim=1)
    torch.testing.assert_close(scores, before + on_top)
    assert (scores[:, -1] == -torch.inf).all()  # without a vector
    # Known answers alone are as without it.
    torch.testing.assert_close(weighted.answer_scores(asked), plain.answer_scores(asked), rtol=0, atol=0)
    for row, (entity, relation) in enumerate(zip(asked.entity.tolist(), asked.relation.tolist(), strict=True)):
        spoken = evidence.of_question(Asked(entity, relation, True), weights)
        distances = vectors.all_answer_scores(asked.select(np.array([row])), SIZE)[0]
        alone = answer_scores([distances], KNOWN, weights, spoken, lambda _: hubness[0])
        torch.testing.assert_close(alone, scores[row], rtol=1e-4, atol=1e-4)
        tails = np.arange(SIZE - 1)
        claims = np.stack([np.full(SIZE - 1, entity), np.full(SIZE - 1, relation), tails], axis=1)
        np.testing.assert_allclose(weighted.scores(claims), scores[row, :-1].numpy(), rtol=1e-4, atol=1e-4)


def test_it_is_no_source() -> None:
    assert (NEW_WEIGHT, HUBNESS) == ("new", "hubness")
    assert list(SOURCES)[1:] == [name for name, _ in BOTH.of_sources()]
    assert RankingWeights.alone(hubness=1.0).has_evidence
    assert not RankingWeights.alone().has_evidence
    assert (WITH.new, WITHOUT.new, RankingWeights().new) == (-1.5, 0.0, 0.0)
    assert "new" not in RankingWeights().to_dict()  # weights that were stored before it are the same as today's
    assert RankingWeights.from_dict(WITH.to_dict()) == WITH != WITHOUT

    class Named(Habits):
        name = "new"

    with pytest.raises(InputError, match="'new', which is taken"):
        register(Named)
