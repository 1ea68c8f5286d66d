"""Rules about direct links against dictionaries, and the evidence that they make."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from ookg.evidence.links import SMOOTHING, LinkEvidence, LinkRules, Links
from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

ENTITIES, RELATIONS = 9, 4
NOTHING = np.empty((0, 3), dtype=np.int64)
# (a, 0, b) always comes with (b, 1, a); relation 2 goes both ways.
INVERSE = np.array([[0, 0, 1], [1, 1, 0], [2, 0, 3], [3, 1, 2], [4, 2, 5], [5, 2, 4]])


def random_triples(seed: int, size: int = 120) -> IntArray:
    """Triples with duplicates, self-loops, inverse and symmetric relations, and relations that do not count."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.integers(0, ENTITIES, size), rng.integers(-1, RELATIONS + 2, size)], axis=1)
    found = np.column_stack([found, rng.integers(0, ENTITIES, size)])
    found[:5, 2] = found[:5, 0]  # self-loops
    inverse = found[5:20, ::-1].copy()
    inverse[:, 1] = (found[5:20, 1] + 1) % RELATIONS
    symmetric = found[20:30, ::-1]
    return np.concatenate([found, inverse, symmetric, found[:10]])


def slow_rules(triples: IntArray) -> FloatArray:
    """Counts of ordered pairs; a self-loop is a link each way, neither of which speaks for the other."""
    links: dict[tuple[int, int, bool], set[int]] = defaultdict(set)
    for head, relation, tail in triples.tolist():
        if 0 <= relation < RELATIONS:
            links[head, tail, False].add(relation)
            links[tail, head, head == tail].add(relation + RELATIONS)
    together = np.zeros((2 * RELATIONS, 2 * RELATIONS))
    for linked in links.values():
        for one in linked:
            for other in linked:
                together[one, other] += 1
    return together


def slow_evidence(triples: IntArray, claims: IntArray) -> FloatArray:
    together = slow_rules(triples)
    found = np.zeros(len(claims))
    for row, (head, asked, tail) in enumerate(claims.tolist()):
        for other_head, relation, other_tail in triples.tolist():
            if not 0 <= relation < RELATIONS:
                continue
            for ends, link in (((other_head, other_tail), relation), ((other_tail, other_head), relation + RELATIONS)):
                if ends == (head, tail) and link != asked:
                    confidence = together[link, asked] / (together[link, link] + SMOOTHING)
                    found[row] = max(found[row], confidence)
    return found


def all_claims() -> IntArray:
    grid = np.meshgrid(np.arange(ENTITIES), np.arange(RELATIONS), np.arange(ENTITIES), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(5))
def test_rules_are_counts_over_entity_pairs(seed: int) -> None:
    triples = random_triples(seed)
    rules, slow = LinkRules.count(triples, RELATIONS), slow_rules(triples)
    np.testing.assert_array_equal(rules.together.toarray(), slow)
    link, query = (part.ravel() for part in np.indices(slow.shape))
    having = np.diagonal(slow)
    expected = np.where(link == query, 0, slow[link, query] / (having[link] + SMOOTHING))
    np.testing.assert_allclose(rules.confidence(link, query), expected)


def test_confidence_by_hand() -> None:
    rules = LinkRules.count(INVERSE, 3)
    link, query = np.array([0, 1, 3, 2, 5, 0, 0, 2]), np.array([4, 3, 1, 5, 2, 0, 1, 0])
    both_ways = 2 / 7  # both pairs of 0 have 1 the other way, and 2 links its two ends in both orders: 2 / (2 + 5)
    found = rules.confidence(link, query)
    np.testing.assert_allclose(found, [both_ways, both_ways, both_ways, both_ways, both_ways, 0, 0, 0])


def test_the_same_triple_again_and_a_relation_outside_add_nothing() -> None:
    rules = LinkRules.count(INVERSE, 3)
    outside = INVERSE.copy()
    outside[:, 1] = [-1, 3, 7, -1, 3, -1]
    again = LinkRules.count(np.concatenate([INVERSE, INVERSE[:3], outside]), 3)
    np.testing.assert_array_equal(again.together.toarray(), rules.together.toarray())


def test_rules_of_no_triples() -> None:
    for triples in (NOTHING, np.array([[0, -1, 1], [1, RELATIONS, 2]])):
        rules = LinkRules.count(triples, RELATIONS)
        assert rules.together.shape == (2 * RELATIONS, 2 * RELATIONS)
        assert rules.together.sum() == 0
        assert rules.confidence(np.array([0, 1]), np.array([1, 5])).tolist() == [0, 0]
        assert rules.confidence(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("seed", range(3))
def test_links_of_entities(seed: int) -> None:
    triples = random_triples(seed, size=20)
    asked = np.array([4, 20, 0, 4, 7, 11, 0])  # unsorted, repeated; 11 and 20 are in no triple
    links = Links.of(asked, triples, RELATIONS)
    rows, place = links.rows_of(asked)
    assert np.all(np.diff(place) >= 0)
    for number, entity in enumerate(asked.tolist()):
        expected = [(t, r) for h, r, t in triples.tolist() if h == entity and 0 <= r < RELATIONS]
        expected += [(h, r + RELATIONS) for h, r, t in triples.tolist() if t == entity and 0 <= r < RELATIONS]
        mine = rows[place == number]
        found = list(zip(links.other[mine].tolist(), links.link[mine].tolist(), strict=True))
        assert sorted(found) == sorted(expected)
        assert bool(found) == (entity < 10)


@pytest.mark.parametrize("asked", [[], [3, 0]])
def test_links_in_no_triples(asked: list[int]) -> None:
    entities = np.array(asked, dtype=np.int64)
    rows, place = Links.of(entities, NOTHING, RELATIONS).rows_of(entities)
    assert rows.tolist() == place.tolist() == []
    rows, place = Links.of(entities[:0], random_triples(0), RELATIONS).rows_of(entities[:0])
    assert rows.tolist() == place.tolist() == []


@pytest.mark.parametrize("seed", range(2))
def test_evidence_is_the_best_rule_of_a_direct_link(seed: int) -> None:
    triples, claims = random_triples(seed, size=40), all_claims()
    evidence = LinkEvidence(LinkRules.count(triples, RELATIONS), triples)
    found = evidence.of_claims(claims)
    assert 0 < (found > 0).mean() < 1
    np.testing.assert_allclose(found, slow_evidence(triples, claims))


@pytest.mark.parametrize("num_known", [ENTITIES, ENTITIES - 3])
@pytest.mark.parametrize("asks_tail", [True, False])
def test_answers_and_claims_agree(num_known: int, asks_tail: bool) -> None:
    triples = random_triples(3, size=50)
    evidence = LinkEvidence(LinkRules.count(triples, RELATIONS), triples)
    rng = np.random.default_rng(0)
    entity, relation = rng.integers(0, ENTITIES + 2, 30), rng.integers(0, RELATIONS, 30)  # two are in no triple
    queries = Queries(entity, relation, np.full(30, -1), np.full(30, asks_tail))
    found = evidence.of_answers(queries, num_known, "cpu").numpy()
    assert found.shape == (30, num_known)
    answers = np.broadcast_to(np.arange(num_known), found.shape).ravel()
    near, asked = np.repeat(entity, num_known), np.repeat(relation, num_known)
    claims = np.stack([near, asked, answers] if asks_tail else [answers, asked, near], axis=1)
    np.testing.assert_allclose(found.ravel(), evidence.of_claims(claims), rtol=1e-6)
    assert found.max() > 0


def test_a_triple_is_no_evidence_for_itself() -> None:
    triples = np.array([[0, 0, 1], [2, 0, 3], [4, 0, 4]])
    evidence = LinkEvidence(LinkRules.count(triples, 1), triples)
    assert evidence.of_claims(np.array([[0, 0, 1], [1, 0, 0], [4, 0, 4]])).tolist() == [0, 0, 0]


def test_evidence_of_nothing() -> None:
    evidence = LinkEvidence(LinkRules.count(NOTHING, RELATIONS), NOTHING)
    empty = np.empty(0, dtype=np.int64)
    queries = Queries(np.array([0, 5]), np.array([0, 1]), np.array([-1, -1]), np.array([True, False]))
    assert evidence.of_claims(NOTHING).tolist() == []
    assert evidence.of_claims(np.array([[0, 1, 2]])).tolist() == [0]
    assert evidence.of_answers(queries, 3, "cpu").tolist() == [[0, 0, 0], [0, 0, 0]]
    assert evidence.of_answers(Queries(empty, empty, empty, empty.astype(np.bool_)), 3, "cpu").shape == (0, 3)


def test_two_entities_with_thousands_of_relations_say_nothing_of_rules() -> None:
    many = 3000
    triples = np.stack([np.zeros(many, np.int64), np.arange(many), np.ones(many, np.int64)], axis=1)
    triples = np.concatenate([triples, [[2, 0, 3], [2, 1, 3]]])
    rules = LinkRules.count(triples, many)
    # Each relation both ways, and the one rule each way that 2 and 3 make.
    assert rules.together.nnz == 2 * many + 4
    found = rules.confidence(np.array([0, 1, 2]), np.array([1, 0, 1]))
    assert found.tolist() == [1 / (2 + SMOOTHING), 1 / (2 + SMOOTHING), 0.0]
