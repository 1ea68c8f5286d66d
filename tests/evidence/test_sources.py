"""What every source of evidence must do, and one that is made here: nothing but its class is needed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import ookg
from ookg.errors import InputError
from ookg.evidence import registry
from ookg.evidence.claims import ClaimEvidence
from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights, answer_scores
from ookg.evidence.likeness import LikenessWhy
from ookg.evidence.registry import SOURCES, register
from ookg.evidence.source import NO_LINK, Asked, Source, Spoken
from ookg.extension.questions import AnswerOptions
from ookg.graph.grown import GrownGraph, Triple
from ookg.graph.linked import graph_alone, link_counts
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer
from ookg.types import BoolArray, FloatArray, IntArray

KNOWN, NEW, RELATIONS = 14, 4, 4
NOTHING = np.empty((0, 3), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Popular(Source):
    """Whoever has many links is an answer to everything: no counts of its own."""

    name: ClassVar[str] = "popular"
    features: ClassVar[tuple[str, ...]] = ("links of the head", "links of the tail")

    graph: GrownGraph

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Popular:
        del triples
        return cls(graph)

    def with_given(self, given: IntArray, after: GrownGraph) -> Popular:
        del given
        return replace(self, graph=after)

    def plus(self, triple: Triple, after: GrownGraph) -> Popular:
        del triple
        return replace(self, graph=after)

    def minus(self, triple: Triple, after: GrownGraph) -> Popular:
        del triple
        return replace(self, graph=after)

    def of_question(self, asked: Asked) -> Spoken:
        del asked
        entities = np.arange(200)
        return Spoken(entities, link_counts(self.graph, entities) / 10)

    def of_claims(self, claims: IntArray) -> FloatArray:
        return np.stack([link_counts(self.graph, claims[:, end]) / 10 for end in (0, 2)], axis=1)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        return features[:, 1 if asks_tail else 0]


@pytest.fixture(autouse=True)
def popular() -> Iterator[None]:
    register(Popular)
    yield
    del SOURCES[Popular.name]


NAMES = ("links", "habits", "paths", "company", "likeness", "popular")


def random_triples(seed: int, entities: int, size: int) -> IntArray:
    found = np.random.default_rng(seed).integers(0, [entities, RELATIONS, entities], size=(size, 3))
    inverse = found[: size // 3, ::-1].copy()
    inverse[:, 1] = (found[: size // 3, 1] + 1) % RELATIONS
    return np.unique(np.concatenate([found, inverse]), axis=0)


def world(seed: int) -> tuple[IntArray, IntArray]:
    """Known triples and others, of known and new entities."""
    known, given = random_triples(seed, KNOWN, 60), random_triples(seed + 50, KNOWN + NEW, 24)
    stated = {tuple(row) for row in known.tolist()}
    return known, np.array([row for row in given.tolist() if tuple(row) not in stated])


def all_queries() -> Queries:
    grid = np.meshgrid(np.arange(KNOWN + NEW + 1), np.arange(RELATIONS), [0, 1], indexing="ij")
    entity, relation, asks_tail = (part.ravel() for part in grid)
    return Queries(entity, relation, np.full(len(entity), -1), asks_tail == 1)


def all_asked() -> list[Asked]:
    queries = all_queries()
    columns = queries.entity.tolist(), queries.relation.tolist(), queries.asks_tail.tolist()
    return [Asked(*row) for row in zip(*columns, strict=True)]


def everything(source: Source) -> FloatArray:
    """(questions, entities) its evidence for every answer to every question, one after the other."""
    return torch.cat([source.of_question(asked).row(KNOWN + NEW) for asked in all_asked()]).double().numpy()


def grown(known: IntArray, triples: list[Triple], name: str) -> GraphEvidence:
    """Evidence that counted a source on the known triples, and was then given others one by one."""
    graph = graph_alone(known, RELATIONS)
    evidence = GraphEvidence.count(known, NOTHING, RELATIONS).beside(graph)
    assert isinstance(evidence[name], SOURCES[name])
    for number, triple in enumerate(triples):
        graph = graph.plus(triple, number)
        evidence = evidence.plus(triple, graph)
    return evidence


def as_triples(rows: IntArray) -> list[Triple]:
    return [(head, relation, tail) for head, relation, tail in rows.tolist()]


def test_the_order_in_which_sources_add_up() -> None:
    assert tuple(SOURCES) == (*NAMES[:5], "network", "encoder", *NAMES[5:])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NAMES)
def test_counted_in_bulk_one_by_one_and_together_it_is_the_same(name: str, seed: int) -> None:
    known, given = world(seed)
    claims = random_triples(9, KNOWN + NEW, 80)
    together = GraphEvidence.count(known, given, RELATIONS)[name]
    in_bulk = GraphEvidence.count(known, NOTHING, RELATIONS).with_given(given, RELATIONS)[name]
    evidence = grown(known, as_triples(given), name)
    late = GraphEvidence.count(known, NOTHING, RELATIONS).beside(evidence.graph)[name]  # first asked for in the end
    expected = everything(together)
    assert expected.max() > 0
    for found in (in_bulk, evidence[name], late):
        np.testing.assert_allclose(everything(found), expected, rtol=1e-6)
        np.testing.assert_allclose(found.of_claims(claims), together.of_claims(claims), rtol=1e-12)
    again = GraphEvidence.count(known, given[::2], RELATIONS).with_given(given[1::2], RELATIONS)[name]
    np.testing.assert_allclose(everything(again), expected, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_taking_out_is_the_exact_inverse(name: str) -> None:
    known, given = world(3)
    rows = as_triples(given)
    evidence = grown(known, rows, name)
    for place in np.random.default_rng(0).permutation(np.arange(8, len(rows))).tolist():
        after = evidence.graph.minus(rows[place])
        evidence = evidence.minus(rows[place], after)
        assert evidence[name].graph is after
    expected = grown(known, rows[:8], name)[name]
    np.testing.assert_array_equal(everything(evidence[name]), everything(expected))
    assert (everything(evidence[name]) != everything(grown(known, rows, name)[name])).any()


@pytest.mark.parametrize("num_answers", [KNOWN, KNOWN + NEW])
@pytest.mark.parametrize("name", NAMES)
def test_one_question_is_answered_as_many_are(name: str, num_answers: int) -> None:
    known, given = world(4)
    for evidence in (GraphEvidence.count(known, given, RELATIONS), grown(known, as_triples(given), name)):
        batch = evidence[name].of_answers(all_queries(), num_answers, "cpu")
        assert batch.dtype == torch.float32
        single = torch.cat([evidence[name].of_question(asked).row(num_answers) for asked in all_asked()])
        assert torch.equal(batch, single)
        for asked in all_asked()[:9]:
            entities = evidence[name].of_question(asked).entities.tolist()
            assert len(set(entities)) == len(entities)
        assert evidence[name].of_answers(all_queries().select(slice(0)), num_answers, "cpu").shape == (0, num_answers)


@pytest.mark.parametrize("name", NAMES)
def test_claims_and_answers_agree(name: str) -> None:
    known, given = world(5)
    source = GraphEvidence.count(known, given, RELATIONS)[name]
    everyone = np.arange(KNOWN + NEW)
    for asked in all_asked():
        ends = [np.full_like(everyone, asked.entity), np.full_like(everyone, asked.relation), everyone]
        claims = np.stack(ends if asked.asks_tail else ends[::-1], axis=1)
        features = source.of_claims(claims)
        assert features.shape == (len(claims), len(source.features))
        found = source.as_answers(features, asks_tail=asked.asks_tail)
        np.testing.assert_allclose(found, source.of_question(asked).row(len(everyone))[0], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_any_ids_can_be_claimed(name: str) -> None:
    known, given = world(6)
    claims = np.array([[-1, 0, 1], [0, -1, 2], [0, 1, -1], [500, 0, 1], [0, 50, 1], [KNOWN + NEW, 0, 501]])
    for evidence in (GraphEvidence.count(known, given, RELATIONS), grown(known, as_triples(given), name)):
        found = evidence[name].of_claims(claims)
        assert found.shape == (6, len(SOURCES[name].features))
        assert np.isfinite(found).all()
        assert evidence[name].of_claims(NOTHING).shape == (0, len(SOURCES[name].features))
        assert evidence[name].of_question(Asked(500, 0, True)).row(KNOWN).shape == (1, KNOWN)


def triple_of(entity: int, link: int, other: int) -> Triple:
    """The triple that a directed relation from an entity to another one is of."""
    return (entity, link // 2, other) if link % 2 == 0 else (other, link // 2, entity)


@pytest.mark.parametrize("name", NAMES)
def test_why_names_a_link_that_is_there(name: str) -> None:
    known, given = world(7)
    stated = {tuple(row) for row in np.concatenate([known, given]).tolist()}
    source = grown(known, as_triples(given), name)[name]
    answers, named = np.arange(KNOWN + NEW), 0
    for asked in all_asked():
        values = source.of_question(asked).row(len(answers))[0].tolist()
        for answer, why in enumerate(source.of_question(asked).why(answers)):
            if why is None:
                continue
            named += 1
            assert 0 < why.strength <= 1
            if isinstance(why, LikenessWhy):  # its link is one of the answer
                assert (why.link, why.other) == (NO_LINK, NO_LINK)
                assert triple_of(answer, why.shared, why.end) in stated
                assert asked.entity not in (answer, why.end)
                assert answer != why.end
                others = {other for other in range(KNOWN + NEW) if triple_of(other, why.back, why.asked) in stated}
                others -= {answer, asked.entity, why.end}
                assert why.asked == asked.entity
                assert why.count == sum(triple_of(other, why.shared, why.end) in stated for other in others)
                assert why.strength == why.count / why.having
                assert values[answer] > 0
                continue
            assert triple_of(asked.entity, why.link, why.other) in stated
            assert values[answer] >= why.strength * (1 - 1e-6)
    assert (named > 0) == (name in ("links", "paths", "company", "likeness"))


# The combined score.


class Fixed(Scorer):
    """Random scores."""

    num_known, num_relations = KNOWN, RELATIONS

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def answerable(self, queries: Queries) -> BoolArray:
        return np.ones(len(queries), dtype=np.bool_)

    def scores(self, triples: IntArray) -> FloatArray:
        return np.zeros(len(triples))

    def answer_scores(self, queries: Queries) -> Tensor:
        return -torch.rand(len(queries), KNOWN, generator=torch.Generator().manual_seed(self.seed)) * 9


@pytest.mark.parametrize("models", [1, 2, 3])
def test_the_combined_score_is_this_formula_to_the_bit(models: int) -> None:
    evidence, queries = GraphEvidence.count(*world(8), RELATIONS), all_queries()
    weights = RankingWeights(vector=1.73, links=7.8, habits=0.69)
    scorers = [Fixed(seed) for seed in range(models)]
    found = CombinedScorer(scorers, evidence, weights).answer_scores(queries)

    def standard(scores: Tensor) -> Tensor:
        return (scores - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True, correction=0)

    expected = standard(scorers[0].answer_scores(queries))
    for scorer in scorers[1:]:
        expected += standard(scorer.answer_scores(queries))
    expected *= 1.73 / models
    links, habits = (evidence[name].of_answers(queries, KNOWN, "cpu") for name in ("links", "habits"))
    expected += torch.add(links * 7.8, habits, alpha=0.69)
    assert torch.equal(found, expected)
    # One question alone has the same score: what an extended model answers is what is evaluated.
    for row, asked in list(enumerate(all_asked()))[::17]:
        vectors = [scorer.answer_scores(queries)[row] for scorer in scorers]
        said = evidence.of_question(asked, weights)
        assert list(said) == ["links", "habits"]
        assert torch.equal(answer_scores(vectors, KNOWN, weights, said, no_hubness), found[row])


def no_hubness(model: int) -> torch.Tensor:
    pytest.fail(f"hubness under model {model}, and it has no weight")


def test_what_has_no_weight_is_not_counted() -> None:
    evidence = GraphEvidence.count(*world(8), RELATIONS)
    weights = RankingWeights(vector=1.0, links=0.0, habits=2.0)
    CombinedScorer([Fixed(0)], evidence, weights).answer_scores(all_queries())
    assert list(evidence.counted) == ["habits"]


def test_every_source_can_rank() -> None:
    evidence, queries = GraphEvidence.count(*world(8), RELATIONS), all_queries()
    nothing = {"vector": 0.0, "links": 0.0, "habits": 0.0}
    for name in NAMES:
        alone = CombinedScorer([Fixed(0)], evidence, RankingWeights(**(nothing | {name: 2.0}))).answer_scores(queries)
        torch.testing.assert_close(alone, 2 * evidence[name].of_answers(queries, KNOWN, "cpu"))


# A source from outside, in a model.

GIVEN = [("a", "r0", "e1"), ("a", "r1", "e2"), ("e3", "r2", "a"), ("b", "r1", "e5"), ("b", "r2", "a")]


def test_a_new_source_ranks_in_a_model(model: ookg.Model) -> None:
    plain = ookg.RankingWeights(vector=1.0, links=0.0, habits=0.0)
    model.predict(GIVEN, head="a", relation="r3", combine=True)  # evidence is counted before the source is asked for
    for name in ("popular", "paths", "company", "likeness"):
        strong = RankingWeights(vector=0.0, links=0.0, habits=0.0, **{name: 3.0})
        found = model.predict(GIVEN, head="a", relation="r3", combine=strong, top=5)
        assert found.answers != model.predict(GIVEN, head="a", relation="r3", combine=plain, top=5).answers
        extended = model.extend(GIVEN[:2])
        extended.predict(head="a", relation="r3", options=AnswerOptions(combine=strong))
        extended.add(GIVEN[2:])  # what was counted is kept up
        living = extended.predict(head="a", relation="r3", options=AnswerOptions(combine=strong, top=5))
        assert [(a.entity, a.link) for a in living.answers] == [(a.entity, a.link) for a in found.answers]
        np.testing.assert_allclose([a.score for a in living.answers], [a.score for a in found.answers], rtol=1e-5)
        source = model.extend(GIVEN)._with_evidence(model.extend(GIVEN)._state).evidence
        assert source is not None
        best = found.answers[0]
        number = model.entities.find(best.entity)
        assert number is not None
        said = source[name].of_question(Asked(len(model.entities), 3, True)).row(len(model.entities))[0]
        assert best.score == pytest.approx(3 * said[number].item())
        assert best.score == pytest.approx(3 * said.max().item(), rel=0.5)


def test_a_path_is_shown_by_its_first_link(model: ookg.Model) -> None:
    weights = RankingWeights(vector=0.0, links=0.0, habits=0.0, paths=1.0)
    extended, options = model.extend(GIVEN), AnswerOptions(combine=weights)
    answers = [extended.predict(head="a", relation=f"r{number}", options=options).answers[0] for number in range(4)]
    best = max(answers, key=lambda answer: answer.score)
    assert best.link is not None
    assert best.link.via is not None
    ends = ("a", best.link.via) if best.link.direction == "out" else (best.link.via, "a")
    assert (ends[0], best.link.relation, ends[1]) in GIVEN


def test_judged_claims_see_a_new_source() -> None:
    evidence = GraphEvidence.count(*world(8), RELATIONS)
    names = tuple(sorted(SOURCES))
    claims = random_triples(1, KNOWN, 10)
    widths = [len(SOURCES[name].features) for name in names]
    assert ClaimEvidence((Fixed(0),), evidence, names).features(claims).shape == (len(claims), 5 + sum(widths) + 6 + 4)


# Weights and names.


def test_weights_are_a_mapping() -> None:
    weights = RankingWeights(2.0, habits=0.5, paths=1.5)
    assert dict(weights) == {"vector": 2.0, "links": 7.8, "habits": 0.5, "paths": 1.5}
    assert (weights["paths"], weights["popular"], weights.vector, weights.links, weights.paths) == (1.5, 0, 2, 7.8, 1.5)
    assert weights.of_sources() == [("links", 7.8), ("habits", 0.5), ("paths", 1.5)]
    assert pickle.loads(pickle.dumps(weights)) == weights
    assert hash(RankingWeights(paths=1.0)) == hash(RankingWeights.from_dict({"paths": 1}))
    assert repr(weights) == "RankingWeights(vector=2, links=7.8, habits=0.5, paths=1.5)"
    with pytest.raises(KeyError):
        weights["rumours"]
    with pytest.raises(AttributeError, match="rumours"):
        _ = weights.rumours


def test_weights_of_before_there_were_other_sources() -> None:
    stored = {"vector": 1.73, "links": 7.8, "habits": 0.69}
    assert RankingWeights.from_dict(stored) == RankingWeights() == RankingWeights(paths=0.0, popular=0.0)
    assert RankingWeights().to_dict() == stored
    assert RankingWeights.from_dict(stored)["paths"] == 0


def test_weights_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InputError, match="unknown weight 'rumours'; the weights are vector, links, habits, paths, company"
    ):
        RankingWeights(rumours=1.0)
    with pytest.raises(InputError, match="weight vector is given twice"):
        RankingWeights(1.0, vector=2.0)
    with pytest.raises(InputError, match="12 weights, and there are vector, links"):
        RankingWeights(*range(1, 13))
    for name in ("vector", "links", "popular", "two words"):
        monkeypatch.setattr(Popular, "name", name)
        with pytest.raises(InputError, match=f"a source named '{name}'"):
            registry.register(Popular)
