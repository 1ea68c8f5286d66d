"""Scores from vectors and graph together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence import combined
from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights, standard_scores, standardised
from ookg.graph.statistics import GraphStatistics
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Degree, Uniform
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.types import BoolArray, FloatArray, IntArray

KNOWN, NEW, RELATIONS = 10, 3, 3
WEIGHTS = RankingWeights(vector=1.3, links=4.0, habits=0.5)


@dataclass(frozen=True)
class World:
    """Ten known entities with random vectors, two new ones that are tied to them, and a third that is not."""

    known: IntArray
    given: IntArray
    evidence: GraphEvidence

    def scorer(self, geometry: Geometry, seed: int = 0, uniform: bool = False) -> TranslationScorer:
        generator = torch.Generator().manual_seed(seed)
        embedding = Embedding(
            geometry,
            torch.randn(KNOWN, geometry.entity_width, generator=generator),
            torch.randn(RELATIONS, geometry.relation_width, generator=generator),
        )
        graph = GraphStatistics.count(self.known, KNOWN, RELATIONS)
        weights = Uniform() if uniform else Degree()
        return TranslationScorer(find_newcomers(embedding, graph, self.known, self.given, weights).with_room_for(NEW))


@pytest.fixture(scope="module")
def world() -> World:
    rng = np.random.default_rng(0)
    known = np.stack([rng.integers(0, high, 40) for high in (KNOWN, RELATIONS, KNOWN)], axis=1)
    inverse = known[:15, ::-1].copy()
    inverse[:, 1] = (known[:15, 1] + 1) % RELATIONS
    known = np.concatenate([known, inverse])
    given = np.array([[KNOWN, 0, 1], [2, 1, KNOWN], [KNOWN, 2, 3], [KNOWN + 1, 0, 4], [5, 2, KNOWN + 1]])
    return World(known, given, GraphEvidence.count(known, given, RELATIONS))


def queries_of(entities: list[int], asks_tail: bool) -> Queries:
    """Each entity with each relation; the answers are some known entities."""
    entity, relation = (part.ravel() for part in np.meshgrid(entities, np.arange(RELATIONS)))
    answer = np.random.default_rng(1).integers(0, KNOWN, len(entity))
    return Queries(entity, relation, answer, np.full(len(entity), asks_tail))


def test_standardised_over_the_known_entities() -> None:
    scores = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = standardised(scores, 6)
    torch.testing.assert_close(found[:, :6].mean(dim=1), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(found[:, :6].std(dim=1, correction=0), torch.ones(4, dtype=torch.float64))
    assert torch.equal(found.argsort(dim=1), scores.argsort(dim=1))
    torch.testing.assert_close(standardised(7 * scores - 3, 6), found)
    by_hand = standardised(torch.tensor([[1.0, 3.0, 6.0]]), 2)
    assert by_hand.tolist() == [[-1.0, 1.0, 4.0]]


def test_standardised_without_a_spread() -> None:
    assert standardised(torch.full((2, 4), -2.0), 4).tolist() == [[0.0] * 4] * 2
    assert standardised(torch.tensor([[2.0, 5.0]]), 1).tolist() == [[0.0, 3.0]]


GEOMETRIES: list[tuple[Geometry, ...]] = [(TransE(4),), (TransE(4, 2), RotatE(3))]


@pytest.mark.parametrize("geometries", GEOMETRIES, ids=["one model", "two models"])
def test_scores_are_those_of_tails_as_answers(world: World, geometries: tuple[Geometry, ...]) -> None:
    scorers = [world.scorer(geometry) for geometry in geometries]
    scorer = CombinedScorer(scorers, world.evidence, WEIGHTS)
    queries = queries_of([0, 4, KNOWN, KNOWN + 1], asks_tail=True)
    answers = scorer.answer_scores(queries)
    assert answers.shape == (len(queries), KNOWN)
    tails = np.tile(np.arange(KNOWN), len(queries))
    triples = np.stack([np.repeat(queries.entity, KNOWN), np.repeat(queries.relation, KNOWN), tails], axis=1)
    np.testing.assert_allclose(scorer.scores(triples), answers.numpy().ravel(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("asks_tail", [True, False])
@pytest.mark.parametrize("geometries", GEOMETRIES, ids=["one model", "two models"])
def test_answers_are_weighted_sums(world: World, geometries: tuple[Geometry, ...], asks_tail: bool) -> None:
    scorers = [world.scorer(geometry) for geometry in geometries]
    queries = queries_of([1, KNOWN], asks_tail)
    parts = [scorer.answer_scores(queries).double() for scorer in scorers]
    mean = sum(
        ((part - part.mean(1, True)) / part.std(1, correction=0, keepdim=True) for part in parts), start=0 * parts[0]
    )
    expected = WEIGHTS.vector * mean / len(parts)
    expected += WEIGHTS.links * world.evidence["links"].of_answers(queries, KNOWN, "cpu")
    expected += WEIGHTS.habits * world.evidence["habits"].of_answers(queries, KNOWN, "cpu")
    found = CombinedScorer(scorers, world.evidence, WEIGHTS).answer_scores(queries)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    only = CombinedScorer(scorers, world.evidence, RankingWeights(0.0, 1.0, 0.0)).answer_scores(queries)
    torch.testing.assert_close(only, world.evidence["links"].of_answers(queries, KNOWN, "cpu"))
    assert only.max() > 0


def test_vectors_alone_rank_as_they_do_without_evidence(world: World) -> None:
    vectors = world.scorer(TransE(4))
    queries = queries_of([KNOWN, KNOWN + 1], asks_tail=True)
    alone = CombinedScorer([vectors], world.evidence, RankingWeights(2.0, 0.0, 0.0))
    true_triples = np.concatenate([world.known, world.given])
    expected = link_prediction(vectors, queries, true_triples, KNOWN + NEW).ranks()
    found = link_prediction(alone, queries, true_triples, KNOWN + NEW).ranks()
    np.testing.assert_array_equal(found, expected)
    links = CombinedScorer([vectors], world.evidence, RankingWeights(1.0, 50.0, 0.0))
    assert link_prediction(links, queries, true_triples, KNOWN + NEW).ranks().tolist() != expected.tolist()


class Unable(Scorer):
    """Cannot score an entity."""

    num_known, num_relations = KNOWN, RELATIONS

    def answerable(self, queries: Queries) -> BoolArray:
        found: BoolArray = queries.entity != 1
        return found

    def scores(self, triples: IntArray) -> FloatArray:
        return np.where(triples[:, 0] == 1, np.nan, 0.0)

    def answer_scores(self, queries: Queries) -> Tensor:
        return torch.zeros(len(queries), KNOWN)


def test_answerable_by_every_model(world: World) -> None:
    entity = np.array([0, 1, KNOWN, KNOWN + 1, KNOWN + 2, 0, 0])
    relation = np.array([0, 1, 2, 0, 0, RELATIONS, -1])
    queries = Queries(entity, relation, np.zeros(7, dtype=np.int64), np.ones(7, dtype=np.bool_))
    one = CombinedScorer([world.scorer(TransE(4))], world.evidence, WEIGHTS)
    assert one.answerable(queries).tolist() == [True, True, True, True, False, False, False]
    two = CombinedScorer([world.scorer(TransE(4)), Unable()], world.evidence, WEIGHTS)
    assert two.answerable(queries).tolist() == [True, False, True, True, False, False, False]
    scores = two.scores(np.array([[0, 0, 1], [1, 0, 1], [KNOWN + 2, 0, 1], [0, 0, KNOWN + 2]]))
    assert np.isnan(scores).tolist() == [False, True, True, True]


@pytest.mark.parametrize("asks_tail", [True, False])
def test_standing_among_the_known_entities(world: World, asks_tail: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = world.scorer(RotatE(3))
    triples = np.concatenate([world.known[:6], world.given, [[KNOWN + 2, 0, 1], [0, -1, 1]]])
    own = scorer.scores(triples)
    found = standard_scores(scorer, triples, asks_tail=asks_tail)
    for row, (head, relation, tail) in enumerate(triples.tolist()):
        if np.isnan(own[row]):
            assert np.isnan([found.position[row], found.share_better[row]]).all()
            continue
        ends = [(head, other) if asks_tail else (other, tail) for other in range(KNOWN)]
        rivals = scorer.scores(np.array([[first, relation, last] for first, last in ends]))
        assert found.position[row] == pytest.approx((own[row] - rivals.mean()) / rivals.std(), rel=1e-3, abs=1e-4)
        itself = tail if asks_tail else head
        better = (np.delete(rivals, itself) if itself < KNOWN else rivals) > own[row]
        assert better.sum() - 1e-4 < KNOWN * found.share_better[row] < better.sum() + 1e-4
    assert np.isnan(own).sum() == 2
    monkeypatch.setattr(combined, "SCORES_AT_ONCE", 2 * KNOWN)  # two triples at once
    again = standard_scores(scorer, triples, asks_tail=asks_tail)
    np.testing.assert_allclose(again.position, found.position, rtol=1e-5, atol=1e-5)


def test_evidence_is_counted_on_known_and_given_triples(world: World) -> None:
    claims = world.given[:1]
    without = GraphEvidence.count(world.known, world.given[:0], RELATIONS)
    assert world.evidence["habits"].of_claims(claims)[0, 0] == pytest.approx(np.log(2))
    assert without["habits"].of_claims(claims)[0, 0] == 0
    asked = np.array([[KNOWN, 1, 1]])  # (new, 0, 1) links them
    assert world.evidence["links"].of_claims(asked)[0, 0] > 0
    assert without["links"].of_claims(asked)[0, 0] == 0


def test_nothing_to_combine(world: World) -> None:
    with pytest.raises(InputError, match="give at least one"):
        CombinedScorer([], world.evidence, WEIGHTS)


def test_weights_as_plain_values() -> None:
    assert RankingWeights.from_dict(WEIGHTS.to_dict()) == WEIGHTS
    assert RankingWeights.from_dict({"links": 2}) == RankingWeights(links=2.0)
    assert RankingWeights.from_dict({"vector": 1.0, "links": 2.0, "habits": 3.0}) == RankingWeights(1.0, 2.0, 3.0)
    with pytest.raises(InputError, match="unknown weight 'rumours'; the weights are vector, links, habits, paths"):
        RankingWeights.from_dict({"rumours": 1.0})


@pytest.mark.parametrize(
    "wrong",
    [{"vector": np.nan}, {"habits": np.inf}, {"paths": -np.inf}, {"links": "2"}, {"links": True}, {"links": 10**400}],
)
def test_weights_that_are_no_numbers(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be a finite number"):
        RankingWeights(**wrong)
