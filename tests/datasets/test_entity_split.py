"""Data sets made by hiding entities: every triple has its place, and what is not hidden stays whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ookg.datasets.encoded import Task
from ookg.datasets.entity_splitting import EntitySplitSettings, split_by_entities
from ookg.datasets.splitting import Split
from ookg.errors import InputError
from ookg.graph.triples import Triples, as_triples


def graph(seed: int, entities: int, relations: int, size: int) -> Triples:
    random = np.random.default_rng(seed)
    columns = [random.integers(0, limit, size) for limit in (entities, relations, entities)]
    return as_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(*columns, strict=True)])


def true_rows(triples: Triples) -> list[tuple[str, str, str]]:
    return list(triples if triples.truth is None else triples.select(triples.truth))


def contents(made: Split) -> list[list[Any]]:
    return [list(part) for part in (made.train, made.valid, made.aux, made.test)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(5, 60), st.integers(1, 4), st.integers(20, 300), st.booleans())
def test_what_a_split_promises(seed: int, entities: int, relations: int, size: int, labelled: bool) -> None:
    triples = graph(seed, entities, relations, size)
    task: Task = "triplet-classification" if labelled else "link-prediction"
    try:
        made = split_by_entities(triples, EntitySplitSettings(0.2, seed, task, 0.1))
    except InputError:  # nothing can be hidden in a graph that is too small, or too dense
        return
    made.check()
    train, valid, aux, test = list(made.train), true_rows(made.valid), list(made.aux), true_rows(made.test)
    placed = train + valid + aux + test
    assert len(placed) == len(set(placed)) == len(set(triples)) - made.left_out
    assert labelled or made.left_out == 0
    everyone = {end for head, _, tail in triples for end in (head, tail)}
    known = {end for head, _, tail in train for end in (head, tail)}
    hidden = everyone - known
    assert len(hidden) == made.drawn <= made.wanted
    assert {relation for _, relation, _ in train} == {relation for _, relation, _ in triples}
    for entity in hidden:
        of_it = [sum(entity in (row[0], row[2]) for row in part) for part in (aux, test)]
        assert of_it[0] >= 1
        assert labelled or 1 <= of_it[1] <= of_it[0] <= of_it[1] + 1


def test_the_seed_decides() -> None:
    triples = graph(0, 100, 3, 600)
    first, again, other = (split_by_entities(triples, EntitySplitSettings(seed=seed)) for seed in (1, 1, 2))
    assert contents(first) == contents(again)
    assert contents(first) != contents(other)
    assert first.drawn == first.wanted == 5
    assert split_by_entities(triples, EntitySplitSettings(7)).drawn == 7


def test_an_entity_that_others_hang_on_is_never_hidden() -> None:
    star = [("hub", "r", f"leaf{n}") for n in range(9)] + [(f"leaf{n}", "s", f"leaf{n + 1}") for n in range(7)]
    for seed in range(20):  # leaf8 has one triple, with the hub
        made = split_by_entities(as_triples(star), EntitySplitSettings(3, seed))
        assert "hub" in made.known_entities


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"entities": 0}, "0 entities to hide"),
        ({"entities": 1.5}, "a share of 1.5 of the entities"),
        ({"entities": float("nan")}, "a share of nan"),
        ({"task": "guess"}, "task 'guess'"),
        ({"valid_share": 1.0}, "a share of 1.0 for valid"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        EntitySplitSettings(**options)  # type: ignore[arg-type]


def test_graphs_that_are_too_small() -> None:
    with pytest.raises(InputError, match="3 of 3 entities to hide"):
        split_by_entities(as_triples([("a", "r", "b"), ("b", "r", "c")]), EntitySplitSettings(3))
    with pytest.raises(InputError, match="no entity with 2 or more triples"):
        split_by_entities(as_triples([("a", "r", "b"), ("b", "r", "c")]), EntitySplitSettings(1))
