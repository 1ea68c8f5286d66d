"""Hiding entities: what is known, given and asked fits together, by the seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import random_triples
from ookg.errors import InputError
from ookg.simulation.hiding import DrawBy, Hidden, HidingSettings, hide
from ookg.types import IntArray

TRIPLES = random_triples(3, entities=60, relations=5, size=400)
SIZES = len(TRIPLES.entities), len(TRIPLES.relations)


def hidden(**changes: Any) -> Hidden:
    return hide(TRIPLES.ids, *SIZES, HidingSettings(**{"sample": 12} | changes))


def rows(triples: IntArray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in triples.tolist()}


@pytest.mark.parametrize("draw", ["entity", "triple"])
@pytest.mark.parametrize("new", ["both", "head", "tail"])
def test_every_hidden_entity_is_given_and_asked_over_known_ends_and_relations(draw: str, new: str) -> None:
    found = hidden(draw=draw, new=new)
    first = found.num_known
    assert (found.known[:, [0, 2]] < first).all()
    assert set(np.unique(found.known[:, [0, 2]])) == set(range(first))
    for part in (found.given, found.questions):
        assert ((part[:, [0, 2]] >= first).sum(axis=1) == 1).all()
        assert np.isin(part[:, 1], found.known[:, 1]).all()
        assert set(part[:, [0, 2]].max(axis=1)) == set(range(first, len(found.entities)))
    if new != "both":
        assert (found.questions[:, 0 if new == "head" else 2] >= first).all()


def test_the_parts_are_triples_of_the_graph_and_no_triple_is_in_two() -> None:
    found = hidden()
    parts = [found.known, found.given, found.questions]
    back = [np.stack([found.entities[p[:, 0]], p[:, 1], found.entities[p[:, 2]]], axis=1) for p in parts]
    union = rows(np.concatenate(back))
    assert union <= rows(TRIPLES.ids)
    assert len(union) == sum(map(len, parts))
    # What is left out is between two hidden entities, or tied to an entity that only hidden ones were tied to.
    position = {entity: place for place, entity in enumerate(found.entities.tolist())}
    for head, _, tail in rows(TRIPLES.ids) - union:
        ends = [position.get(head, -1), position.get(tail, -1)]
        assert min(ends) == -1 or min(ends) >= found.num_known or max(ends) >= found.num_known


def test_a_quarter_of_an_entitys_triples_is_asked() -> None:
    found = hidden(share=0.25, most=3)
    asked = np.bincount(found.questions[:, [0, 2]].max(axis=1), minlength=len(found.entities))[found.num_known :]
    given = np.bincount(found.given[:, [0, 2]].max(axis=1), minlength=len(found.entities))[found.num_known :]
    assert asked.tolist() == [min(3, max(1, round(0.25 * total))) for total in (asked + given).tolist()]


def test_the_seed_decides() -> None:
    one, same, other = hidden(seed=1), hidden(seed=1), hidden(seed=2)
    assert (one.entities == same.entities).all()
    assert (one.questions == same.questions).all()
    assert set(one.entities[one.num_known :]) != set(other.entities[other.num_known :])


def test_drawing_by_triples_favours_hubs() -> None:
    ring = [(leaf, 1, leaf % 100 + step) for leaf in range(1, 101) for step in (1, 2) if leaf % 100 + step <= 100]
    graph = np.array([(0, 0, leaf) for leaf in range(1, 101)] + [(1, 0, 2), *ring])

    def times_hidden(draw: DrawBy) -> int:
        settings = [HidingSettings(sample=5, draw=draw, seed=seed) for seed in range(30)]
        found = [hide(graph, 101, 2, each) for each in settings]
        return sum(bool((each.entities[each.num_known :] == 0).any()) for each in found)

    # A quarter of all ends are the hub's: among five draws it is mostly there; else one time in twenty.
    assert times_hidden("triple") > 15
    assert times_hidden("entity") < 8


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sample": 0}, "1 entity or more"),
        ({"sample": 31}, "at most half"),
        ({"draw": "other"}, "choose entity or triple"),
        ({"new": "left"}, "choose both, head or tail"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"most": 0}, "1 or more"),
        ({"seed": -1}, "not be negative"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        hidden(**changes)


def test_a_graph_in_which_nothing_can_be_hidden_is_refused() -> None:
    with pytest.raises(InputError, match="two triples or more"):
        hide(np.array([[0, 0, 1], [2, 0, 3]]), 4, 1, HidingSettings(sample=1))
