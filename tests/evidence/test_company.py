"""Company against counting by hand, and against a slow reference."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from ookg.evidence import around, company
from ookg.evidence.combined import GraphEvidence
from ookg.evidence.company import CompanyWhy
from ookg.evidence.source import Asked, Source
from ookg.graph.linked import graph_alone
from ookg.types import IntArray

NOTHING = np.empty((0, 3), dtype=np.int64)
NOLAN, VILLENEUVE, ENGLISH, FRENCH, LONDON = 0, 1, 2, 3, 4
BY, LANGUAGE, SHOT_IN = 0, 1, 2
NEW = 20
# Films 10 to 13 are by Nolan, 14 to 16 by Villeneuve. 13 has no language; 12 and 14 were shot in London.
FILMS = np.array(
    [[film, BY, NOLAN] for film in (10, 11, 12, 13)]
    + [[film, BY, VILLENEUVE] for film in (14, 15, 16)]
    + [[film, LANGUAGE, ENGLISH] for film in (10, 11, 14)]
    + [[film, LANGUAGE, FRENCH] for film in (12, 15)]
    + [[12, SHOT_IN, LONDON], [14, SHOT_IN, LONDON]]
)


def company_of(triples: IntArray, given: IntArray = NOTHING) -> Source:
    return GraphEvidence.count(triples, given, 3)["company"]


def values_of(source: Source, asked: Asked) -> dict[int, float]:
    said = source.of_question(asked)
    return dict(zip(said.entities.tolist(), said.values.tolist(), strict=True))


def test_films_by_hand() -> None:
    given = np.array([[NEW, BY, NOLAN], [NEW, SHOT_IN, LONDON]])
    source = company_of(FILMS, given)
    # By Nolan: 2 of the 3 films with a language are in English, 1 is in French. In London: 1 and 1 of 2. Of all five
    # films with a language 3 are in English, 2 in French.
    english = max((2 + 3 * 0.6) / (3 + 3), (1 + 3 * 0.6) / (2 + 3))
    french = max((1 + 3 * 0.4) / (3 + 3), (1 + 3 * 0.4) / (2 + 3))
    base = math.log(0.3 / 6)
    expected = {ENGLISH: math.log(english) - base, FRENCH: math.log(french) - base}
    asked = Asked(NEW, LANGUAGE, asks_tail=True)
    assert values_of(source, asked) == pytest.approx(expected)
    why = source.of_question(asked).why(np.array([ENGLISH, FRENCH, NOLAN]))
    assert why[0] == CompanyWhy(2 * BY, NOLAN, 2 / 3, 2, 3)
    assert why[1] == CompanyWhy(2 * SHOT_IN, LONDON, 0.5, 1, 2)
    assert [one.sharing for one in why if isinstance(one, CompanyWhy)] == [4, 2]
    assert why[2] is None
    nolan_only = company_of(FILMS, given[:1]).of_question(asked)
    assert nolan_only.why(np.array([FRENCH])) == [CompanyWhy(2 * BY, NOLAN, 1 / 3, 1, 3)]


def test_without_company_it_is_how_often_an_answer_occurs() -> None:
    lonely = company_of(FILMS, np.array([[NEW, SHOT_IN, 21]]))
    expected = {ENGLISH: math.log(0.6 * 6 / 0.3), FRENCH: math.log(0.4 * 6 / 0.3)}
    for entity in (NEW, 500):
        assert values_of(lonely, Asked(entity, LANGUAGE, asks_tail=True)) == pytest.approx(expected)
    assert lonely.of_question(Asked(NEW, LANGUAGE, asks_tail=True)).why(np.array([ENGLISH])) == [None]
    assert values_of(company_of(NOTHING), Asked(0, 0, asks_tail=True)) == {}


def test_the_other_end_is_asked_over_the_same_links() -> None:
    # Who is shot in London? 12 and 14 have something to do with it, and nobody shares a link of London.
    asked = Asked(LONDON, SHOT_IN, asks_tail=False)
    # Both are stated, so each is asked as if it were not: the other one is all there is.
    assert values_of(company_of(FILMS), asked) == {}
    more = np.concatenate([FILMS, [[12, SHOT_IN, 5], [12, SHOT_IN, 6]]])
    # 5 and 6 share film 12 with London, which must not speak for 12 itself; 12 has been seen twice in three other
    # triples, and 14 once: two of three have been there before.
    of_twelve = (1 - 1 / 3) * math.log(2 / 3 * 4 / 0.3)
    found = values_of(company_of(more), asked)
    assert found[12] == pytest.approx(of_twelve)
    assert found.keys() == {12}


def test_where_every_answer_occurs_once_having_been_one_says_nothing() -> None:
    once = np.concatenate([FILMS, [[NEW, LANGUAGE, 5], [17, BY, NOLAN]]])
    # Films have one language each: who is in English has had another film before, but none is in it twice.
    given = np.array([[10, LANGUAGE, NEW + 1]])
    assert values_of(company_of(once), Asked(NEW + 1, LANGUAGE, asks_tail=False)) == {}
    assert values_of(company_of(once, given), Asked(NEW + 1, LANGUAGE, asks_tail=False)) != {}  # 10 is in two
    assert values_of(company_of(once), Asked(17, LANGUAGE, asks_tail=True)) != {}


def test_the_asked_triple_is_no_evidence_for_itself() -> None:
    """What is stated already is asked as if it were not."""
    rng = np.random.default_rng(0)
    triples = np.unique(rng.integers(0, [12, 3, 12], size=(70, 3)), axis=0)
    source, compared = company_of(triples), 0
    for place, (head, relation, tail) in enumerate(triples.tolist()):
        without = company_of(np.delete(triples, place, axis=0))
        for asked, answer in ((Asked(head, relation, True), tail), (Asked(tail, relation, False), head)):
            if head == tail:
                continue
            expected = values_of(without, asked).get(answer, 0.0)
            assert values_of(source, asked).get(answer, 0.0) == pytest.approx(expected)
            compared += expected > 0
    assert compared > 50


def slow_company(triples: IntArray, asked: Asked, most: int) -> dict[int, float]:
    """The formula with dictionaries, for an entity of whom the asked relation states nothing."""
    links: dict[int, set[tuple[int, int]]] = {}
    for head, relation, tail in triples.tolist():
        links.setdefault(head, set()).add((2 * relation, tail))
        links.setdefault(tail, set()).add((2 * relation + 1, head))
    times = Counter(
        tail if asked.asks_tail else head for head, relation, tail in triples.tolist() if relation == asked.relation
    )
    total = sum(times.values())
    best: dict[int, float] = {}
    for link in links.get(asked.entity, set()):
        if link[1] == asked.entity:
            continue
        others = sorted(entity for entity in links if link in links[entity] and entity != asked.entity)
        if len(others) > most:
            others = [others[number * len(others) // most] for number in range(most)]
        has = [{other for code, other in links[entity] if code == asked.code} for entity in others]
        having = sum(1 for answers in has if answers)
        for answer, count in times.items() if having else ():
            number = sum(answer in answers for answers in has)
            best[answer] = max(best.get(answer, 0), (number + 3 * count / total) / (having + 3))
    shares = best or {answer: count / total for answer, count in times.items()}
    again = 1 - sum(count == 1 for count in times.values()) / max(1, total)
    values = {answer: again * (math.log(share) - math.log(0.3 / (total + 1))) for answer, share in shares.items()}
    return {answer: value for answer, value in values.items() if value > 0}


@pytest.mark.parametrize("most", [1000, 3])
@pytest.mark.parametrize("seed", range(3))
def test_against_a_slow_reference(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "MOST_COMPANY", most)
    rng = np.random.default_rng(seed)
    triples = np.unique(rng.integers(0, [25, 3, 25], size=(150, 3)), axis=0)
    given = np.array([[30, 0, 3], [30, 1, 4], [5, 1, 30], [31, 0, 3], [31, 2, 30], [4, 0, 31], [7, 2, 8]])
    given = given[[tuple(row) not in set(map(tuple, triples.tolist())) for row in given.tolist()]]
    together = np.concatenate([triples, given])
    graph = graph_alone(triples, 3)
    for number, triple in enumerate(given.tolist()):
        graph = graph.plus(tuple(triple), number)
    beside = GraphEvidence.count(triples, NOTHING, 3).beside(graph)["company"]
    compared = 0
    for entity in (*range(12), 30, 31):
        for relation in range(3):
            for asks_tail in (True, False):
                asked = Asked(entity, relation, asks_tail)
                if len(graph.answers(entity, relation, asks_tail=asks_tail)):
                    continue
                expected = slow_company(together, asked, most)
                assert values_of(company_of(triples, given), asked) == pytest.approx(expected)
                assert values_of(beside, asked) == pytest.approx(expected)
                compared += len(expected)
    assert compared > 50


def test_of_many_links_some_are_looked_at_and_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "MOST_LINKS", 2)
    triples = np.concatenate([FILMS, [[10, SHOT_IN, LONDON], [10, SHOT_IN, 5], [11, SHOT_IN, 5]]])
    given = np.array([[NEW, BY, NOLAN], [NEW, SHOT_IN, LONDON], [NEW, SHOT_IN, 5]])
    asked = Asked(NEW, LANGUAGE, asks_tail=True)
    some = values_of(company_of(triples, given), asked)
    assert some == values_of(company_of(triples, given[:2]), asked)  # of three links the first and the second
    assert some == values_of(company_of(triples[::-1].copy(), given[::-1].copy()), asked)
    monkeypatch.setattr(around, "MOST_LINKS", 3)
    assert some != values_of(company_of(triples, given), asked)


def test_a_triple_that_is_stated_twice_shares_no_more() -> None:
    given = np.array([[NEW, BY, NOLAN]])
    asked = Asked(NEW, LANGUAGE, asks_tail=True)
    once = company_of(FILMS, given).of_question(asked).why(np.array([ENGLISH, FRENCH]))
    repeated = np.concatenate([given, given, FILMS[:3], FILMS[7:9]])
    assert company_of(FILMS, repeated).of_question(asked).why(np.array([ENGLISH, FRENCH])) == once
