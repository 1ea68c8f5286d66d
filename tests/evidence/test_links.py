"""Rules about direct links against dictionaries, and the evidence that they make."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from ookg.evidence.combined import GraphEvidence
from ookg.evidence.links import SMOOTHING, LinkRules, Links
from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

ENTITIES, RELATIONS = 9, 4
NOTHING = np.empty((0, 3), dtype=np.int64)
# (a, 0, b) always comes with (b, 1, a); relation 2 goes both ways.
INVERSE = np.array([[0, 0, 1], [1, 1, 0], [2, 0, 3], [3, 1, 2], [4, 2, 5], [5, 2, 4]])


def links_of(triples: IntArray, num_relations: int = RELATIONS) -> Links:
    found = GraphEvidence.count(triples, NOTHING, num_relations)["links"]
    assert isinstance(found, Links)
    return found


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
            links[head, tail, False].add(2 * relation)
            links[tail, head, head == tail].add(2 * relation + 1)
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
            for ends, link in (((other_head, other_tail), 2 * relation), ((other_tail, other_head), 2 * relation + 1)):
                if ends == (head, tail) and link != 2 * asked:
                    confidence = together[link, 2 * asked] / (together[link, link] + SMOOTHING)
                    found[row] = max(found[row], confidence)
    return found


def all_claims() -> IntArray:
    grid = np.meshgrid(np.arange(ENTITIES), np.arange(RELATIONS), np.arange(ENTITIES), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(5))
def test_rules_are_counts_over_entity_pairs(seed: int) -> None:
    triples = random_triples(seed)
    links, slow = links_of(triples), slow_rules(triples)
    np.testing.assert_array_equal(links.rules.together.toarray(), slow)
    link, query = (part.ravel() for part in np.indices(slow.shape))
    having = np.diagonal(slow)
    expected = np.where(link == query, 0, slow[link, query] / (having[link] + SMOOTHING))
    np.testing.assert_allclose(links.confidence(link, query), expected)
    for asked in range(2 * RELATIONS):  # one for all
        np.testing.assert_array_equal(links.confidence(link, asked), links.confidence(link, np.full_like(link, asked)))


def test_confidence_by_hand() -> None:
    links = links_of(INVERSE, 3)
    link, query = np.array([0, 2, 1, 4, 5, 0, 0, 4]), np.array([3, 1, 2, 5, 4, 0, 2, 0])
    both_ways = 2 / 7  # both pairs of 0 have 1 the other way, and 2 links its two ends in both orders: 2 / (2 + 5)
    found = links.confidence(link, query)
    np.testing.assert_allclose(found, [both_ways, both_ways, both_ways, both_ways, both_ways, 0, 0, 0])


def test_the_same_triple_again_and_a_relation_outside_add_nothing() -> None:
    outside = INVERSE.copy()
    outside[:, 1] = [-1, 3, 7, -1, 3, -1]
    again = links_of(np.concatenate([INVERSE, INVERSE[:3], outside]), 3)
    np.testing.assert_array_equal(again.rules.together.toarray(), links_of(INVERSE, 3).rules.together.toarray())


def test_rules_of_no_triples() -> None:
    for triples in (NOTHING, np.array([[0, -1, 1], [1, RELATIONS, 2]])):
        links = links_of(triples)
        assert links.rules.together.shape == (2 * RELATIONS, 2 * RELATIONS)
        assert links.rules.together.sum() == 0
        assert links.confidence(np.array([0, 1]), np.array([1, 5])).tolist() == [0, 0]
        assert links.confidence(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []
        assert links.confidence(np.array([], dtype=np.int64), 1).tolist() == []


@pytest.mark.parametrize("seed", range(2))
def test_evidence_is_the_best_rule_of_a_direct_link(seed: int) -> None:
    triples, claims = random_triples(seed, size=40), all_claims()
    evidence = links_of(triples)
    found = evidence.of_claims(claims)[:, 0]
    assert 0 < (found > 0).mean() < 1
    np.testing.assert_allclose(found, slow_evidence(triples, claims))


@pytest.mark.parametrize("num_known", [ENTITIES, ENTITIES - 3])
@pytest.mark.parametrize("asks_tail", [True, False])
def test_answers_and_claims_agree(num_known: int, asks_tail: bool) -> None:
    triples = random_triples(3, size=50)
    evidence = links_of(triples)
    rng = np.random.default_rng(0)
    entity, relation = rng.integers(0, ENTITIES + 2, 30), rng.integers(0, RELATIONS, 30)  # two are in no triple
    queries = Queries(entity, relation, np.full(30, -1), np.full(30, asks_tail))
    found = evidence.of_answers(queries, num_known, "cpu").numpy()
    assert found.shape == (30, num_known)
    answers = np.broadcast_to(np.arange(num_known), found.shape).ravel()
    near, asked = np.repeat(entity, num_known), np.repeat(relation, num_known)
    claims = np.stack([near, asked, answers] if asks_tail else [answers, asked, near], axis=1)
    np.testing.assert_allclose(found.ravel(), evidence.of_claims(claims)[:, 0], rtol=1e-6)
    assert found.max() > 0


def test_a_triple_is_no_evidence_for_itself() -> None:
    triples = np.array([[0, 0, 1], [2, 0, 3], [4, 0, 4]])
    evidence = links_of(triples, 1)
    assert evidence.of_claims(np.array([[0, 0, 1], [1, 0, 0], [4, 0, 4]]))[:, 0].tolist() == [0, 0, 0]


def test_evidence_of_nothing() -> None:
    evidence = links_of(NOTHING)
    empty = np.empty(0, dtype=np.int64)
    queries = Queries(np.array([0, 5]), np.array([0, 1]), np.array([-1, -1]), np.array([True, False]))
    assert evidence.of_claims(NOTHING).shape == (0, 1)
    assert evidence.of_claims(np.array([[0, 1, 2]])).tolist() == [[0]]
    assert evidence.of_answers(queries, 3, "cpu").tolist() == [[0, 0, 0], [0, 0, 0]]
    assert evidence.of_answers(Queries(empty, empty, empty, empty.astype(np.bool_)), 3, "cpu").shape == (0, 3)


def test_two_entities_with_thousands_of_relations_say_nothing_of_rules() -> None:
    many = 3000
    triples = np.stack([np.zeros(many, np.int64), np.arange(many), np.ones(many, np.int64)], axis=1)
    triples = np.concatenate([triples, [[2, 0, 3], [2, 1, 3]]])
    links = links_of(triples, many)
    # Each relation both ways, and the one rule each way that 2 and 3 make.
    assert links.rules.together.nnz == 2 * many + 4
    found = links.confidence(np.array([0, 2, 4]), np.array([2, 0, 2]))
    assert found.tolist() == [1 / (2 + SMOOTHING), 1 / (2 + SMOOTHING), 0.0]


def test_rules_of_more_relations_than_before() -> None:
    first, then = LinkRules.count(INVERSE[:2], 2), LinkRules.count(INVERSE, 3)
    grown = first.changed(LinkRules.count(NOTHING, 3), LinkRules.count(INVERSE[2:], 3))
    np.testing.assert_array_equal(grown.together.toarray(), then.together.toarray())


def test_redundancy_is_the_share_of_triples_that_others_state() -> None:
    pairs = np.arange(40)
    twins = np.concatenate([np.stack([2 * pairs, 0 * pairs, 2 * pairs + 1], axis=1)] * 2)
    twins[40:, 1] = 1  # each pair has both relations: 40 / (40 + 5)
    alone = np.stack([100 + pairs, 2 + 0 * pairs, 200 + pairs], axis=1)
    evidence = GraphEvidence.count(np.concatenate([twins, alone]), NOTHING, 3)
    assert evidence.redundancy == pytest.approx(2 / 3)
    assert GraphEvidence.count(NOTHING, NOTHING, 3).redundancy == 0
