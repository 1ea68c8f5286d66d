from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ookg.datasets.splitting import Split, SplitSettings, split
from ookg.datasets.summary import statistics
from ookg.errors import InputError
from ookg.graph.triples import Triples, as_triples

MODES = ("head", "tail", "both")
TASKS = ("link-prediction", "triplet-classification")


def graph(seed: int, entities: int, relations: int, size: int) -> Triples:
    random = np.random.default_rng(seed)
    columns = [random.integers(0, limit, size) for limit in (entities, relations, entities)]
    return as_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(*columns, strict=True)])


def true_rows(triples: Triples) -> list[tuple[str, str, str]]:
    return [row for row, truth in zip(triples, _truth(triples), strict=True) if truth]


def false_rows(triples: Triples) -> list[tuple[str, str, str]]:
    return [row for row, truth in zip(triples, _truth(triples), strict=True) if not truth]


def _truth(triples: Triples) -> list[bool]:
    return [True] * len(triples) if triples.truth is None else triples.truth.tolist()


def contents(made: Split) -> dict[str, list[Any]]:
    parts = {name: getattr(made, name) for name in ("train", "valid", "aux", "test")}
    return {name: list(zip(part, _truth(part), strict=True)) for name, part in parts.items()}


def verify(triples: Triples, made: Split, chosen: SplitSettings) -> None:
    """Everything that a split promises, checked with sets."""
    made.check()
    everything = set(triples)
    train, valid, aux, test = list(made.train), true_rows(made.valid), list(made.aux), true_rows(made.test)
    placed = train + valid + aux + test
    assert set(placed) <= everything
    assert len(placed) == len(set(placed)) == len(everything) - made.left_out
    assert made.drawn == len(test)
    assert 0 < made.drawn <= made.wanted

    known = {end for head, _, tail in train for end in (head, tail)}
    relations = {relation for _, relation, _ in train}
    assert {end for head, _, tail in valid for end in (head, tail)} <= known
    assert {relation for _, relation, _ in valid + test} <= relations
    pattern = {"head": (False, True), "tail": (True, False), "both": (False, False)}[chosen.new]
    assert {(head in known, tail in known) for head, _, tail in made.test} == {pattern}
    assert {(head in known, tail in known) for head, _, tail in aux} <= {(True, False), (False, True)}
    numbers = statistics(made)
    assert (numbers.new_without_neighbor, numbers.test_untrained) == (0, 0)
    assert made.train.entities == made.known_entities

    for part in (made.valid, made.test):
        assert (part.truth is not None) == (chosen.task == "triplet-classification")
        if part.truth is not None:
            assert part.truth.tolist() == [True, False] * (len(part) // 2)
            negatives = false_rows(part)
            assert not set(negatives) & everything
            assert len(negatives) == len(set(negatives))
            for (head, relation, tail), (false_head, false_relation, false_tail) in zip(
                true_rows(part), negatives, strict=True
            ):
                assert relation == false_relation
                assert (head == false_head) != (tail == false_tail)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    entities=st.integers(3, 40),
    relations=st.integers(1, 5),
    size=st.integers(5, 200),
    new=st.sampled_from(MODES),
    task=st.sampled_from(TASKS),
    test=st.one_of(st.integers(1, 30), st.floats(0.01, 0.9)),
    valid_share=st.floats(0, 0.9),
)
def test_every_split_keeps_its_promises(seed: int, entities: int, relations: int, size: int, **options: Any) -> None:
    triples, chosen = graph(seed, entities, relations, size), SplitSettings(seed=seed, **options)
    try:
        made = split(triples, chosen)
    except InputError as error:
        assert "ask for fewer" in str(error)  # noqa: PT017  a small graph may have nothing fit
        return
    verify(triples, made, chosen)


@pytest.mark.parametrize("new", MODES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("test", [70, 0.05])
def test_the_count_is_reached(new: Any, task: Any, test: float) -> None:
    triples = graph(1, 600, 5, 3000)
    chosen = SplitSettings(new, test, 7, task, 0.1)
    made = split(triples, chosen)
    verify(triples, made, chosen)
    assert made.drawn == made.wanted == (70 if test == 70 else round(0.05 * len(triples)))
    assert len(made.test) == made.drawn * (2 if task == "triplet-classification" else 1)
    train_and_valid = len(made.train) + len(true_rows(made.valid))
    assert len(true_rows(made.valid)) == round(0.1 * train_and_valid)


@pytest.mark.parametrize("new", MODES)
def test_a_dense_graph_still_has_room(new: Any) -> None:
    triples = graph(2, 40, 3, 3000)
    chosen = SplitSettings(new, 200, 0, "triplet-classification")
    made = split(triples, chosen)
    verify(triples, made, chosen)
    assert made.drawn == 200


def test_the_same_seed_gives_the_same_split() -> None:
    triples = graph(3, 200, 4, 1500)
    options: dict[str, Any] = {"new": "tail", "test": 50, "task": "triplet-classification"}
    first, again, other = (split(triples, SplitSettings(seed=seed, **options)) for seed in (5, 5, 6))
    assert contents(first) == contents(again)
    assert set(true_rows(first.test)) != set(true_rows(other.test))


def test_fewer_than_asked_for_where_no_more_fit() -> None:
    # Any test triple needs one of the other two as aux and the last as train.
    triples = as_triples([("n", "r", "k"), ("n", "r", "l"), ("k", "r", "l")])
    for seed in range(10):
        made = split(triples, SplitSettings(test=2, seed=seed, valid_share=0.0))
        assert (made.wanted, made.drawn, len(made.train), len(made.aux), made.left_out) == (2, 1, 1, 1, 0)


def test_false_triples_stay_within_what_a_relation_is_seen_with() -> None:
    random = np.random.default_rng(0)
    people, cities, sports = ([f"{kind}{i}" for i in range(60)] for kind in ("person", "city", "sport"))
    rows = [(person, "lives", str(city)) for person in people for city in random.choice(cities, 5, replace=False)]
    rows += [(person, "plays", str(sport)) for person in people for sport in random.choice(sports, 5, replace=False)]
    kinds = {"lives": "city", "plays": "sport"}
    made = split(as_triples(rows), SplitSettings("head", 40, 0, "triplet-classification", 0.2))
    assert len(false_rows(made.valid)) > 20
    for head, relation, tail in false_rows(made.test) + false_rows(made.valid):
        assert head.startswith("person")
        assert tail.startswith(kinds[relation])
    both = split(as_triples(rows), SplitSettings("both", 20, 0, "triplet-classification"))
    fitting = [h.startswith("person") and t.startswith(kinds[r]) for h, r, t in false_rows(both.test)]
    assert np.mean(fitting) > 0.9  # where few new entities were seen, any new one serves


def test_without_valid() -> None:
    made = split(graph(4, 100, 3, 600), SplitSettings(test=10, valid_share=0.0))
    assert len(made.valid) == 0
    made.check()


def test_repeated_triples_count_once() -> None:
    once = graph(5, 50, 3, 300)
    twice = as_triples(list(once) * 2, keep_duplicates=True)
    assert contents(split(twice, SplitSettings(test=10))) == contents(split(once, SplitSettings(test=10)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": 0.0}, "share of 0.0 for test; it must lie between 0 and 1"),
        ({"test": 1.0}, "share of 1.0 for test"),
        ({"test": float("nan")}, "share of nan"),
        ({"test": 0}, "0 test triples; ask for at least 1"),
        ({"valid_share": 1.0}, "share of 1.0 for valid"),
        ({"valid_share": -0.1}, "share of -0.1 for valid"),
        ({"seed": -1}, "seed -1"),
        ({"new": "middle"}, "new ends 'middle'; choose head, tail or both"),
        ({"task": "guessing"}, "task 'guessing'; choose link-prediction"),
    ],
)
def test_settings_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SplitSettings(**options)


def test_settings_have_defaults() -> None:
    expected = {"new": "head", "test": 0.1, "seed": 0, "task": "link-prediction", "valid_share": 0.05}
    assert asdict(SplitSettings()) == expected


def test_too_few_triples() -> None:
    with pytest.raises(InputError, match="5 test triples of 2; give more or ask for fewer"):
        split(as_triples([("a", "r", "b"), ("b", "r", "c")]), SplitSettings(test=5))
    with pytest.raises(InputError, match="1 test triples of 0"):
        split(as_triples([]))


def test_nothing_fits() -> None:
    with pytest.raises(InputError, match="no triple is fit for test; give more triples, ask for fewer"):
        split(as_triples([("a", "r", "b"), ("c", "r", "d")]), SplitSettings(test=1))


def test_labelled_triples_are_refused() -> None:
    with pytest.raises(InputError, match="has a label column"):
        split(as_triples([("a", "r", "b", "1"), ("b", "r", "c", "0")]), SplitSettings(test=1))
