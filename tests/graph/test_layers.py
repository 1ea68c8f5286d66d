"""`Layers` beside a plain dictionary that is copied at every change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ookg.graph.layers import Layers


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_equal_a_dictionary_and_old_versions_stay(seed: int) -> None:
    random = np.random.default_rng(seed)
    layers: Layers[int, int] = Layers({number: -number for number in range(seed * 20)})
    plain = dict(layers)
    versions = [(layers, dict(plain))]
    for _ in range(300):
        changes = {int(key): int(random.integers(100)) for key in random.integers(0, 60, random.integers(0, 4))}
        gone = [int(key) for key in random.integers(0, 70, random.integers(0, 4)) if int(key) not in changes]
        layers = layers.changed(changes, gone)
        plain = {key: value for key, value in (plain | changes).items() if key not in gone}
        versions.append((layers, dict(plain)))
    for version, expected in versions:
        assert dict(version) == expected
        assert len(version) == len(expected)
        assert sorted(version) == sorted(expected)
        for key in range(70):
            assert (key in version) == (key in expected)
            assert version.get(key, "none") == expected.get(key, "none")


def test_there_are_few_layers_however_many_changes() -> None:
    layers: Layers[int, int] = Layers()
    for number in range(3000):
        layers = layers.changed({number: number})
        assert len(layers._layers) <= 1 + math.log2(number + 1)
    for number in range(2990):
        layers = layers.changed({}, [number])
    assert dict(layers) == {number: number for number in range(2990, 3000)}


def test_values_that_look_like_nothing_are_values() -> None:
    values: dict[str, object] = {"none": None, "zero": 0}
    layers = Layers(values).changed({"empty": ""})
    assert layers["empty"] == ""
    assert layers["none"] is None
    assert "none" in layers
    assert layers.get("zero", 5) == 0
    assert layers.get("absent", 5) == 5
    with pytest.raises(KeyError, match="absent"):
        layers["absent"]
    with pytest.raises(KeyError, match="zero"):
        layers.changed({}, ["zero"])["zero"]


def test_taking_out_what_is_not_there_changes_nothing() -> None:
    layers: Layers[str, int] = Layers({"a": 1})
    assert dict(layers.changed({}, ["b"])) == {"a": 1}
    assert len(layers.changed({}, ["b"])) == 1
    assert len(Layers[str, int]().changed({}, ["b"])) == 0
    assert not layers.changed({}, ["a"])
