"""Likeness against counting by hand, and against a slow reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ookg.errors import InputError
from ookg.evidence import likeness
from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.evidence.likeness import LikenessWhy
from ookg.evidence.source import NO_LINK, Asked, Source
from ookg.graph.linked import graph_alone
from ookg.types import IntArray

NOTHING = np.empty((0, 3), dtype=np.int64)
UK, IRELAND, JAPAN, JORDAN = 0, 1, 2, 3
RELEASED, BY, FOLLOWS = 0, 1, 2
NEW = 20
# Films 10, 11, 12, 14 and 17 came out in the United Kingdom, 10 to 13 in Ireland, 14, 15, 16 and 18 in Japan.
FILMS = np.array(
    [[film, RELEASED, UK] for film in (10, 11, 12, 14, 17)]
    + [[film, RELEASED, IRELAND] for film in (10, 11, 12, 13)]
    + [[film, RELEASED, JAPAN] for film in (14, 15, 16, 18)]
    + [[film, BY, JORDAN] for film in (10, 17, NEW)]
)
IN_THE_UK = Asked(UK, RELEASED, asks_tail=False)


def likeness_of(triples: IntArray, given: IntArray = NOTHING) -> Source:
    return GraphEvidence.count(triples, given, 3)["likeness"]


def values_of(source: Source, asked: Asked) -> dict[int, float]:
    """What it says, without what is 0 but for rounding."""
    said = source.of_question(asked)
    found = dict(zip(said.entities.tolist(), said.values.tolist(), strict=True))
    return {entity: value for entity, value in found.items() if value > 1e-9}


def evidence(*shares: float) -> float:
    """Of links that answers have so many times more often than all."""
    return math.log1p(math.sqrt(sum(math.log(share) ** 2 for share in shares)))


def test_films_by_hand() -> None:
    # Of nine films with a country 5 came out in the United Kingdom: p = 5/9.
    # In Ireland 3 of 4: (3 + 3·5/9) / (7·5/9) = 42/35. By Jordan 2 of 2, as NEW has no country: (2 + 3·5/9) / (5·5/9)
    # = 33/25. In Japan 1 of 4: (1 + 3·5/9) / (7·5/9) = 24/35, so that says nothing.
    expected = {13: evidence(42 / 35), NEW: evidence(33 / 25)}
    # Without 10 itself p = 4/9, as it came out in Ireland too: (2 + 3·4/9) / (7·4/9) = 30/28 in Ireland, and
    # (1 + 3·4/9) / (5·4/9) = 21/20 by Jordan. 11 and 12 have Ireland alone.
    expected |= {10: evidence(30 / 28, 21 / 20), 11: evidence(30 / 28), 12: evidence(30 / 28)}
    # Without 17 there are eight films with a country, as it has no other: p = 4/8, and (1 + 3/2) / (4/2) by Jordan.
    expected[17] = evidence(5 / 4)
    source = likeness_of(FILMS)
    assert values_of(source, IN_THE_UK) == pytest.approx(expected)
    why = source.of_question(IN_THE_UK).why(np.array([13, NEW, 10, 17, 14, JAPAN]))
    assert why == [
        LikenessWhy(NO_LINK, NO_LINK, 3 / 4, 2 * RELEASED, IRELAND, 3, 4, 2 * RELEASED, UK),
        LikenessWhy(NO_LINK, NO_LINK, 1.0, 2 * BY, JORDAN, 2, 2, 2 * RELEASED, UK),
        LikenessWhy(NO_LINK, NO_LINK, 2 / 4, 2 * RELEASED, IRELAND, 2, 4, 2 * RELEASED, UK),  # 10 is not counted
        LikenessWhy(NO_LINK, NO_LINK, 1.0, 2 * BY, JORDAN, 1, 1, 2 * RELEASED, UK),  # nor is 17, at all
        None,
        None,
    ]


def test_the_tail_is_asked_over_the_same_links() -> None:
    # Where was 13 released? In Ireland, one of three countries: p = 1/3. Of the two that 10 was released in one is
    # Ireland: (1 + 3/3) / (5/3) = 6/5; so it is with 11 and with 12, and the United Kingdom has all three.
    source, asked = likeness_of(FILMS), Asked(13, RELEASED, asks_tail=True)
    assert values_of(source, asked) == pytest.approx({UK: evidence(6 / 5, 6 / 5, 6 / 5)})
    why = LikenessWhy(NO_LINK, NO_LINK, 1 / 2, 2 * RELEASED + 1, 10, 1, 2, 2 * RELEASED + 1, 13)
    assert source.of_question(asked).why(np.array([UK, IRELAND])) == [why, None]


def test_a_link_that_one_answer_alone_has() -> None:
    # log((1 + 3 p) / (4 p)) with p = 5/9: 24/20, beside the 33/25 by Jordan.
    given = np.array([[11, BY, 5], [NEW, BY, 5]])
    assert values_of(likeness_of(FILMS, given), IN_THE_UK)[NEW] == pytest.approx(evidence(24 / 20, 33 / 25))


@pytest.mark.parametrize("triples", [FILMS, NOTHING])
def test_without_a_stated_answer_there_is_no_evidence(triples: IntArray) -> None:
    source = likeness_of(triples)
    tails = [Asked(NEW, RELEASED, True), Asked(UK, FOLLOWS, True), Asked(UK, 9, True)]
    for asked in (*tails, Asked(500, RELEASED, False)):
        said = source.of_question(asked)
        assert len(said.entities) == len(said.values) == 0
        assert said.why(np.array([10, NEW])) == [None, None]
    assert len(likeness_of(FILMS).of_question(IN_THE_UK).entities)
    # Being an answer to itself is none: it would be like whoever shares its links.
    itself = np.array([[13, FOLLOWS, 13], [14, FOLLOWS, 15]])
    assert values_of(likeness_of(np.concatenate([FILMS, itself])), Asked(13, FOLLOWS, True)) == {}


@pytest.mark.parametrize(
    "more",
    [
        # 10 and 11 follow 13: that says nothing for 13, which follows itself too.
        [[10, FOLLOWS, 13], [11, FOLLOWS, 13], [13, FOLLOWS, 13]],
        # NEW follows 12, and of the answers 12 alone does, which is one of them for another reason.
        [[12, FOLLOWS, 12], [NEW, FOLLOWS, 12]],
        # 18, which is like no answer, follows what is asked about, as 12 does.
        [[12, FOLLOWS, UK], [18, FOLLOWS, UK], [18, BY, UK]],
    ],
)
def test_loops_and_links_to_the_asked_entity_are_not_used(more: list[list[int]]) -> None:
    """Whoever follows is counted with those who have that link, so what is compared is who is not among them."""
    followers = {head for head, _, tail in more if tail not in (head, UK)}
    usual = values_of(likeness_of(FILMS), IN_THE_UK)
    found = values_of(likeness_of(np.concatenate([FILMS, more])), IN_THE_UK)
    assert {entity: usual[entity] for entity in usual.keys() - followers} == pytest.approx(
        {entity: found[entity] for entity in found.keys() - followers}
    )
    assert usual.keys() == found.keys()


def test_a_loop_does_not_count_against_a_link() -> None:
    # 10 and 11 follow 12: for 15, which does too, 2 of 3. That 12 follows itself makes it no fourth one.
    more = np.array([[10, FOLLOWS, 12], [11, FOLLOWS, 12], [15, FOLLOWS, 12], [12, FOLLOWS, 12]])
    expected = evidence((2 + 3 * 5 / 9) / (6 * 5 / 9))
    assert values_of(likeness_of(np.concatenate([FILMS, more])), IN_THE_UK)[15] == pytest.approx(expected)


def test_the_asked_triple_is_no_evidence_for_itself() -> None:
    """What is stated already is asked as if it were not."""
    rng = np.random.default_rng(0)
    triples = np.unique(rng.integers(0, [12, 3, 12], size=(70, 3)), axis=0)
    source, compared = likeness_of(triples), 0
    for place, (head, relation, tail) in enumerate(triples.tolist()):
        if head == tail:
            continue
        without = likeness_of(np.delete(triples, place, axis=0))
        for asked, answer in ((Asked(head, relation, True), tail), (Asked(tail, relation, False), head)):
            expected = values_of(without, asked).get(answer, 0.0)
            assert values_of(source, asked).get(answer, 0.0) == pytest.approx(expected)
            compared += expected > 0
    assert compared > 50


def slow_likeness(triples: IntArray, asked: Asked) -> dict[int, float]:
    """The formula with dictionaries: for each candidate on the triples without the one that is asked for."""
    stated = {(head, relation, tail) for head, relation, tail in triples.tolist()}
    links: dict[int, set[tuple[int, int]]] = {}
    for head, relation, tail in stated:
        links.setdefault(head, set())
        links.setdefault(tail, set())
        if head != tail:
            links[head].add((2 * relation, tail))
            links[tail].add((2 * relation + 1, head))
    found: dict[int, float] = {}
    for candidate in links.keys() - {asked.entity}:
        ends = (asked.entity, candidate) if asked.asks_tail else (candidate, asked.entity)
        pairs = {(one[0], one[2]) for one in stated if one[1] == asked.relation} - {ends}
        if not asked.asks_tail:
            pairs = {(tail, head) for head, tail in pairs}
        answers = {other for entity, other in pairs if entity == asked.entity} - {asked.entity}
        domain = {other for _, other in pairs}
        squares = 0.0
        for link in {link for answer in answers for link in links[answer]} & links[candidate]:
            if link[1] == asked.entity:
                continue
            having = {entity for entity in domain - {asked.entity} if link in links[entity]}
            usual = len(answers) / len(domain)
            share = (len(having & answers) + 3 * usual) / ((len(having) + 3) * usual)
            squares += max(0.0, math.log(share)) ** 2
        found[candidate] = math.log1p(math.sqrt(squares))
    return {entity: value for entity, value in found.items() if value > 1e-9}


@pytest.mark.parametrize("seed", range(3))
def test_against_a_slow_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    triples = np.unique(rng.integers(0, [14, 3, 14], size=(90, 3)), axis=0)
    given = np.array([[30, 0, 3], [30, 1, 4], [5, 1, 30], [31, 0, 3], [31, 2, 30], [4, 0, 31], [7, 2, 8], [30, 2, 30]])
    given = given[[tuple(row) not in set(map(tuple, triples.tolist())) for row in given.tolist()]]
    together = np.concatenate([triples, given])
    assert (together[:, 0] == together[:, 2]).sum() >= 3  # loops are among them
    graph = graph_alone(triples, 3)
    for number, (head, relation, tail) in enumerate(given.tolist()):
        graph = graph.plus((head, relation, tail), number)
    sources = (
        likeness_of(triples, given),
        GraphEvidence.count(triples, NOTHING, 3).with_given(given, 3)["likeness"],
        GraphEvidence.count(triples, NOTHING, 3).beside(graph)["likeness"],
    )
    compared, of_new = 0, 0
    for entity in (*range(14), 30, 31):
        for relation in range(3):
            for asks_tail in (True, False):
                asked = Asked(entity, relation, asks_tail)
                expected = slow_likeness(together, asked)
                for source in sources:
                    assert values_of(source, asked) == pytest.approx(expected)
                compared += len(expected)
                of_new += len(expected.keys() & {30, 31})
    assert compared > 300
    assert of_new > 20


@pytest.mark.parametrize("repeated", [FILMS, FILMS[:5], FILMS[5:9], FILMS[-3:]])
def test_a_triple_that_is_stated_twice_counts_once(repeated: IntArray) -> None:
    once, answers = likeness_of(FILMS), np.arange(NEW + 1)
    graph = graph_alone(FILMS, 3)
    for number, (head, relation, tail) in enumerate(repeated.tolist()):
        graph = graph.plus((head, relation, tail), number)
    for twice in (likeness_of(FILMS, repeated), GraphEvidence.count(FILMS, NOTHING, 3).beside(graph)["likeness"]):
        for asked in (IN_THE_UK, Asked(JAPAN, RELEASED, False), Asked(13, RELEASED, True), Asked(JORDAN, BY, False)):
            expected = values_of(once, asked)
            assert values_of(twice, asked) == pytest.approx(expected)
            assert twice.of_question(asked).why(answers) == once.of_question(asked).why(answers)


# The limits: what is passed over is always the same.


def limited(monkeypatch: pytest.MonkeyPatch, **limits: int) -> dict[int, float]:
    """The evidence for films that came out in the United Kingdom, in whatever order the triples are."""
    for name, most in limits.items():
        monkeypatch.setattr(likeness, name, most)
    found = values_of(likeness_of(FILMS), IN_THE_UK)
    assert found == values_of(likeness_of(FILMS[::-1].copy()), IN_THE_UK)
    assert found == values_of(likeness_of(FILMS[:9], FILMS[:8:-1].copy()), IN_THE_UK)
    return found


def test_of_links_that_many_have_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = limited(monkeypatch)
    assert limited(monkeypatch, MOST_HAVING=4) == everything
    # Ireland has four films, Jordan three of which two have a country: 10 and 17 have nothing else left.
    assert limited(monkeypatch, MOST_HAVING=3) == pytest.approx(
        {NEW: evidence(33 / 25), 10: evidence(21 / 20), 17: evidence(5 / 4)}
    )
    assert likeness_of(FILMS).of_question(IN_THE_UK).why(np.array([13, 11])) == [None, None]
    assert limited(monkeypatch, MOST_HAVING=2) == {}


def test_links_that_most_answers_have_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = limited(monkeypatch)
    assert limited(monkeypatch, MOST_SHARED=2) == everything  # Ireland and Jordan; Japan says nothing
    only_ireland = {13: evidence(42 / 35)} | dict.fromkeys((10, 11, 12), evidence(30 / 28))
    assert limited(monkeypatch, MOST_SHARED=1) == pytest.approx(only_ireland)


def test_of_many_answers_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limited(monkeypatch, MOST_ANSWERS=5) == limited(monkeypatch)
    # The first of five, 10, has all the links that say something; who else has them is counted all the same.
    assert limited(monkeypatch, MOST_ANSWERS=1) == limited(monkeypatch, MOST_ANSWERS=5)


def test_of_many_links_of_the_answers_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = limited(monkeypatch)
    assert limited(monkeypatch, MOST_LINKS=15) == everything  # three of each of five answers, which none has more of
    # Two of each: that 10 is by Jordan is its third. But 17 is too, and by whom 10 is counts as before.
    assert limited(monkeypatch, MOST_LINKS=14) == everything
    # One of each, the first: that is the asked one.
    assert limited(monkeypatch, MOST_LINKS=1) == {}


# Weights of before there was likeness.


def test_stored_weights_without_it_stay_as_they_were() -> None:
    stored = {"vector": 1.0, "links": 6.0, "habits": 0.0}
    weights = RankingWeights.from_dict(stored)
    assert weights.to_dict() == stored
    assert weights.of_sources() == [("links", 6.0)]
    assert weights.likeness == 0.0
    assert weights == RankingWeights.alone(vector=1.0, links=6.0, likeness=0.0)
    assert weights != RankingWeights.alone(vector=1.0, links=6.0, likeness=1.0)


def test_weights_in_order_mean_what_they_did() -> None:
    before = {"vector": 1.0, "links": 2.0, "habits": 3.0, "paths": 4.0, "company": 5.0, "new": 6.0, "hubness": 7.0}
    assert RankingWeights(*range(1, 8)) == RankingWeights(**before)
    before |= {"network": 8.0, "encoder": 9.0}
    assert RankingWeights(*range(1, 10)) == RankingWeights(**before)
    assert RankingWeights(*range(1, 11)) == RankingWeights(**before, likeness=10.0)
    with pytest.raises(InputError, match=r"11 weights, and there are vector, .*, encoder, likeness;"):
        RankingWeights(*range(1, 12))
