"""Paths of two steps against counting by hand, and against a slow reference."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TypeVar

import numpy as np
import pytest

from ookg.evidence import paths
from ookg.evidence.combined import GraphEvidence
from ookg.evidence.paths import Paths, PathWhy
from ookg.evidence.source import Asked
from ookg.graph.linked import graph_alone
from ookg.types import IntArray

Row = TypeVar("Row")
NOTHING = np.empty((0, 3), dtype=np.int64)
BORN_IN, LOCATED_IN, NATIONALITY = 0, 1, 2
ENGLAND, FRANCE, LONDON, PARIS = 0, 1, 2, 3
NEW = 20
# Three people from London, two of them English and one French; one from Paris, French; one without a nationality.
PEOPLE = np.array(
    [[LONDON, LOCATED_IN, ENGLAND], [PARIS, LOCATED_IN, FRANCE]]
    + [[person, BORN_IN, LONDON] for person in (10, 11, 12)]
    + [[person, BORN_IN, PARIS] for person in (13, 14)]
    + [[10, NATIONALITY, ENGLAND], [11, NATIONALITY, ENGLAND], [12, NATIONALITY, FRANCE], [13, NATIONALITY, FRANCE]]
)


def paths_of(triples: IntArray, given: IntArray = NOTHING) -> Paths:
    source = GraphEvidence.count(triples, given, 3)["paths"]
    assert isinstance(source, Paths)
    return source


def values_of(source: Paths, asked: Asked) -> dict[int, float]:
    said = source.of_question(asked)
    return dict(zip(said.entities.tolist(), said.values.tolist(), strict=True))


def rules_of(source: Paths, code: int) -> dict[tuple[int, int], tuple[int, int]]:
    """By both steps: how many were right, and how many were reached."""
    rules = source.rules_for(code)
    first = np.repeat(np.arange(len(rules.starts) - 1), np.diff(rules.starts))
    steps, counts = zip(first.tolist(), rules.second.tolist(), strict=True), zip(rules.hits, rules.reached, strict=True)
    return {step: (int(hits), int(reached)) for step, (hits, reached) in zip(steps, counts, strict=True)}


def test_people_by_hand() -> None:
    source = paths_of(PEOPLE, np.array([[NEW, BORN_IN, PARIS]]))
    # From 10 to 13 the place of birth leads to a country each, and rightly so but for 12. People from the same place
    # lead to people, who are no right answers.
    assert rules_of(source, 2 * NATIONALITY) == {(2 * BORN_IN, 2 * LOCATED_IN): (3, 4)}
    asked = Asked(NEW, NATIONALITY, asks_tail=True)
    confidence = 3 / (4 + 5)
    assert values_of(source, asked) == pytest.approx({FRANCE: math.log(1 - math.log(1 - confidence) / 0.003)})
    why = source.of_question(asked).why(np.array([FRANCE, ENGLAND]))
    assert why == [PathWhy(2 * BORN_IN, PARIS, confidence, 2 * LOCATED_IN, 3, 4), None]


def test_several_paths_add_up_and_the_surest_is_named() -> None:
    more = np.array([[NEW, BORN_IN, PARIS], [NEW, BORN_IN, 21], [21, LOCATED_IN, FRANCE], [NEW, BORN_IN, LONDON]])
    source = paths_of(PEOPLE, more)
    one = -math.log(1 - 3 / 9)
    expected = {FRANCE: math.log(1 + 2 * one / 0.003), ENGLAND: math.log(1 + one / 0.003)}
    asked = Asked(NEW, NATIONALITY, asks_tail=True)
    assert values_of(source, asked) == pytest.approx(expected)
    (why,) = source.of_question(asked).why(np.array([FRANCE]))
    assert why is not None
    assert why.other == PARIS  # among equals the first


def test_rules_are_counted_on_known_triples_alone() -> None:
    # Newcomers whose nationality is not that of the place: as known triples they would make the rule weaker.
    given = np.array([[NEW, BORN_IN, LONDON], [NEW, NATIONALITY, FRANCE], [NEW + 1, BORN_IN, PARIS]])
    alone = paths_of(PEOPLE)
    for source in (paths_of(PEOPLE, given), alone.with_given(given, paths_of(PEOPLE, given).graph)):
        assert rules_of(source, 2 * NATIONALITY) == {(2 * BORN_IN, 2 * LOCATED_IN): (3, 4)}
    first = (NEW, BORN_IN, LONDON)
    assert alone.plus(first, alone.graph.plus(first, 0)).rules is alone.rules
    weaker = paths_of(np.concatenate([PEOPLE, given]))
    assert rules_of(weaker, 2 * NATIONALITY) == {(2 * BORN_IN, 2 * LOCATED_IN): (3, 5)}
    # A known triple that is taken out is known no more.
    corrected = alone.minus((13, NATIONALITY, FRANCE), graph_alone(PEOPLE[:-1], 3))
    assert rules_of(corrected, 2 * NATIONALITY) == {(2 * BORN_IN, 2 * LOCATED_IN): (2, 3)}


def test_no_path_goes_over_the_asked_triple_or_over_an_entity_twice() -> None:
    triples = np.concatenate([PEOPLE, [[13, BORN_IN, 13], [FRANCE, LOCATED_IN, FRANCE], [13, BORN_IN, FRANCE]]])
    for place, (head, relation, tail) in enumerate(triples.tolist()):
        without = np.delete(triples, place, axis=0)
        source = Paths(graph_alone(without, 3), graph_alone(triples, 3).index)  # the same rules, without the triple
        for asked, answer in ((Asked(head, relation, True), tail), (Asked(tail, relation, False), head)):
            stated = values_of(paths_of(triples), asked)
            assert stated.get(answer) == values_of(source, asked).get(answer)
            assert asked.entity not in stated


def slow_rules(links: dict[int, list[tuple[int, int]]], code: int) -> dict[tuple[int, int], tuple[int, int]]:
    reached: Counter[tuple[int, int]] = Counter()
    hits: Counter[tuple[int, int]] = Counter()
    having = [entity for entity in sorted(links) if code in dict(links[entity])]
    for entity in evenly(having, paths.SAMPLED_ENTITIES):
        ends = set()
        for first, between in evenly(links[entity], paths.SAMPLED_LINKS):
            for second, answer in evenly(links[between], paths.SAMPLED_STEPS):
                if len({entity, between, answer}) == 3:
                    ends.add((first, second, answer))
        for first, second, answer in ends:
            reached[first, second] += 1
            hits[first, second] += (code, answer) in links[entity]
    return {steps: (hits[steps], reached[steps]) for steps in reached if hits[steps] >= 2}


def evenly(rows: list[Row], most: int) -> list[Row]:
    return rows if len(rows) <= most else [rows[number * len(rows) // most] for number in range(most)]


def links_of(triples: IntArray) -> dict[int, list[tuple[int, int]]]:
    """In the order of the index: those that go out first."""
    links: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for head, relation, tail in triples.tolist():
        links[head].add((2 * relation, tail))
        links[tail].add((2 * relation + 1, head))
    return {entity: sorted(rows, key=lambda row: (row[0] % 2, row)) for entity, rows in links.items()}


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_against_a_slow_reference(seed: int, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        for name, most in (("SAMPLED_ENTITIES", 7), ("SAMPLED_LINKS", 6), ("SAMPLED_STEPS", 5), ("MOST_STEPS", 4)):
            monkeypatch.setattr(paths, name, most)
    rng = np.random.default_rng(seed)
    triples = np.unique(rng.integers(0, [15, 3, 15], size=(90, 3)), axis=0)
    given = np.array([[30, 0, 3], [30, 1, 4], [5, 1, 30], [31, 0, 3], [31, 2, 30], [4, 0, 31], [3, 1, 31]])
    graph = graph_alone(triples, 3)
    for number, (head, relation, tail) in enumerate(given.tolist()):
        graph = graph.plus((head, relation, tail), number)
    beside = GraphEvidence.count(triples, NOTHING, 3).beside(graph)["paths"]
    assert isinstance(beside, Paths)
    links, compared = links_of(np.concatenate([triples, given])), 0
    for code in range(6):
        rules = slow_rules(links_of(triples), code)
        assert rules_of(beside, code) == rules
        for entity in (0, 3, 4, 7, 30, 31):
            sums: dict[int, float] = defaultdict(float)
            for first, between in sorted(links[entity]):
                for second, answer in evenly(links[between], paths.MOST_STEPS):
                    if len({entity, between, answer}) == 3 and (first, second) in rules:
                        hits, reached = rules[first, second]
                        sums[answer] -= math.log(1 - hits / (reached + 5))
            expected = {answer: math.log(1 + total / 0.003) for answer, total in sums.items()}
            asked = Asked(entity, code // 2, code % 2 == 0)
            assert values_of(beside, asked) == pytest.approx(expected)
            assert values_of(paths_of(triples, given), asked) == values_of(beside, asked)
            compared += len(expected)
    assert compared > 50


def test_nothing_to_go_by() -> None:
    assert values_of(paths_of(NOTHING), Asked(0, 0, asks_tail=True)) == {}
    assert values_of(paths_of(PEOPLE), Asked(500, NATIONALITY, asks_tail=True)) == {}
    assert values_of(paths_of(PEOPLE), Asked(10, 50, asks_tail=True)) == {}  # a relation that the graph does not have


def test_what_was_right_once_is_no_rule() -> None:
    # From a place over those who were born there to their nationality: right for London once, and for Paris once.
    people, once = paths_of(PEOPLE), paths_of(PEOPLE[:-1])
    assert rules_of(people, 2 * LOCATED_IN) == {(2 * BORN_IN + 1, 2 * NATIONALITY): (2, 3)}
    assert rules_of(once, 2 * LOCATED_IN) == {}


def test_a_triple_that_is_stated_twice_is_one_step() -> None:
    given = np.array([[NEW, BORN_IN, PARIS]])
    asked = Asked(NEW, NATIONALITY, asks_tail=True)
    twice = np.concatenate([given, given, PEOPLE[:2]])
    assert values_of(paths_of(PEOPLE, twice), asked) == values_of(paths_of(PEOPLE, given), asked)
