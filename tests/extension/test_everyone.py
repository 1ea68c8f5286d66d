"""New entities are kept in few groups as they come and go, with the vectors that each group gives by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import ookg
from ookg.extension.state import State
from ookg.extension.vectors import entity_vector, entity_vectors
from ookg.newcomers.reducer import Correlation, Degree, Weights

WEIGHTS = [Correlation(4.0), Degree()]


def check(state: State) -> None:
    """Everyone is present once, with the vector of its own group."""
    groups = list(state.everyone)
    present = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(one.entities[one.present] for one in groups)]))
    np.testing.assert_array_equal(present, state.new_entities)
    together = entity_vectors(state, state.new_entities, 1)
    for entity, vector in zip(state.new_entities.tolist(), together, strict=True):
        torch.testing.assert_close(entity_vector(state, entity, 1)[0], vector, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_who_comes_and_goes_one_by_one(model: ookg.Model, weights: Weights) -> None:
    random, extended = np.random.default_rng(0), model.extend(weights=weights)
    there: list[tuple[str, str, str]] = []
    for turn in range(60):
        if there and random.random() < 0.3:
            row = there.pop(int(random.integers(len(there))))
            extended.remove([row])
        else:
            other = f"n{random.integers(20)}" if random.random() < 0.1 else f"e{random.integers(20)}"
            relation = "made" if random.random() < 0.05 else f"r{random.integers(4)}"
            row = (f"n{random.integers(20)}", relation, other)
            if row in there:
                continue
            there.append(row)
            extended.add([row])
        if turn % 6 == 5:
            check(extended._state)
    extended.remove(there)
    assert list(extended._state.everyone) == []


def test_there_are_few_groups_however_many_come(model: ookg.Model) -> None:
    extended = model.extend(weights=Degree())
    for number in range(50):
        extended.add([(f"n{number}", f"r{number % 4}", f"e{number % 20}")])
    state = extended._state
    assert len(state.groups) == 50
    assert len(state.everyone) <= 1 + math.log2(50)
    check(state)


def test_an_entity_that_changes_is_marked_as_gone_from_the_large_group(model: ookg.Model) -> None:
    extended = model.extend([(f"n{number}", "r0", f"e{number % 20}") for number in range(20)], weights=Degree())
    [before] = extended._state.everyone
    extended.add([("n3", "r1", "e5")])
    large, small = extended._state.everyone
    assert large.newcomers is before.newcomers  # nothing of it is made anew
    assert len(large.present) == 19
    assert extended._state.entities.select(small.entities) == ["n3"]
    check(extended._state)


def test_a_group_that_most_have_left_is_made_anew(model: ookg.Model) -> None:
    rows = [(f"n{number}", "r0", f"e{number % 20}") for number in range(20)]
    extended = model.extend(rows, weights=Degree())
    for row in rows[:11]:
        extended.remove([row])
    [left] = extended._state.everyone
    assert len(left.entities) < 20
    check(extended._state)
