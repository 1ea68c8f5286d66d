"""Hidden entities with few triples given: as many as asked for, and no question among them."""

from __future__ import annotations

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.graph.linked import all_triples
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.simulated import Simulation, simulate
from ookg.types import IntArray


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    model = ookg.train(random_triples(0, entities=60, size=500), SMALL.changed({"steps": 1}), device="cpu")
    return simulate(model.checkpoint, HidingSettings(sample=25, seed=1))


def counts(triples: IntArray, simulation: Simulation) -> IntArray:
    """(hidden,) triples of each hidden entity."""
    owner = np.maximum(triples[:, 0], triples[:, 2]) - simulation.hidden.num_known
    return np.bincount(owner, minlength=simulation.hidden.num_hidden)


def asked_triples(simulation: Simulation) -> list[tuple[int, int, int]]:
    queries = simulation.queries
    head, tail = (np.where(queries.asks_tail == is_head, queries.entity, queries.answer) for is_head in (True, False))
    return [tuple(row) for row in np.stack([head, queries.relation, tail], axis=1).tolist()]


def rows(triples: IntArray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in triples.tolist()}


@pytest.mark.parametrize("number", [1, 3, 10])
def test_so_many_are_given_of_each_that_has_them(simulation: Simulation, number: int) -> None:
    few, hidden = simulation.with_few(number, seed=0, most=4), simulation.hidden
    own = counts(np.concatenate([hidden.given, hidden.questions]), simulation)
    assert (own < 10).any()  # some have too few
    assert counts(few.given, simulation).tolist() == np.where(own >= number, number, 0).tolist()
    assert len(rows(few.given)) == len(few.given)
    asked = np.unique(few.query_newcomer)
    assert (own[asked] >= number).all()
    assert np.bincount(few.query_newcomer).max() == 4
    assert few.hidden is hidden


def test_what_is_asked_is_true_and_not_given(simulation: Simulation) -> None:
    few, hidden = simulation.with_few(3, seed=0, most=1000), simulation.hidden
    asked = asked_triples(few)
    assert set(asked) <= rows(hidden.true)
    assert not set(asked) & rows(few.given)
    assert not set(asked) & rows(hidden.known)
    of_two = [triple for triple in asked if min(triple[0], triple[2]) >= hidden.num_known]
    assert set(of_two) <= rows(hidden.between)
    assert of_two  # an answer may be hidden itself
    own = counts(np.concatenate([hidden.given, hidden.questions]), simulation)
    expected = int(np.maximum(own - 3, 0).sum() + (own[hidden.between[:, [0, 2]] - hidden.num_known] >= 3).sum())
    assert len(asked) == expected  # with no limit, all the rest
    assert (few.queries.entity >= hidden.num_known).all()


def test_triples_of_two_hidden_entities_are_known_to_nobody(simulation: Simulation) -> None:
    hidden = simulation.hidden
    assert len(hidden.between)
    assert (hidden.between[:, [0, 2]] >= hidden.num_known).all()
    assert (hidden.between[:, 0] != hidden.between[:, 2]).all()
    assert np.isin(hidden.between[:, 1], hidden.known[:, 1]).all()
    assert rows(hidden.between) <= rows(hidden.true)
    assert not rows(hidden.between) & (rows(hidden.given) | rows(hidden.questions) | rows(hidden.known))


def test_the_seed_determines_which(simulation: Simulation) -> None:
    one, same, other = (simulation.with_few(2, seed, most=3) for seed in (5, 5, 6))
    assert one.given.tolist() == same.given.tolist()
    assert asked_triples(one) == asked_triples(same)
    assert rows(one.given) != rows(other.given)
    assert set(asked_triples(one)) != set(asked_triples(other))


def test_evidence_is_that_of_what_is_given(simulation: Simulation) -> None:
    few = simulation.with_few(1, seed=0, most=4)
    assert rows(all_triples(few.evidence.graph)) == rows(few.hidden.known) | rows(few.given)
    assert few.newcomers(ookg.Uniform()).counts.max() == 1


@pytest.mark.parametrize("most", [1, 4, 100])
def test_at_most_so_many_are_given(simulation: Simulation, most: int) -> None:
    limited = simulation.limited_to(most, seed=0)
    before, after = counts(simulation.given, simulation), counts(limited.given, simulation)
    assert after.tolist() == np.minimum(before, most).tolist()
    assert rows(limited.given) <= rows(simulation.given)
    assert limited.queries is simulation.queries
    assert limited.given.tolist() == simulation.limited_to(most, seed=0).given.tolist()
    is_other = rows(limited.given) != rows(simulation.limited_to(most, seed=1).given)
    assert is_other == (before.max() > most)
    assert is_other or limited.given.tolist() == simulation.given.tolist()  # in the same order
