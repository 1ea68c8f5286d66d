from __future__ import annotations

import pytest

from ookg.errors import InputError
from ookg.vocabulary import Vocabulary


def test_ids_and_labels_are_inverse() -> None:
    vocabulary = Vocabulary(["b", "a", "NA", "null", "ü ö"])
    assert vocabulary.ids(["NA", "nobody", "b"]).tolist() == [2, -1, 0]
    assert vocabulary.select([4, 3]) == ["ü ö", "null"]
    assert vocabulary.find("a") == 1
    assert vocabulary.find("c") is None
    assert vocabulary.label(1) == "a"
    assert "a" in vocabulary
    assert "c" not in vocabulary


def test_extending_appends_and_keeps_ids() -> None:
    vocabulary = Vocabulary(["b", "a"])
    longer = vocabulary.extended(["c", "a", "d", "c"])
    assert longer.select(range(4)) == ["b", "a", "c", "d"]
    assert len(vocabulary) == 2
    assert vocabulary.extended(["a"]) is vocabulary


def test_repeated_label_is_refused() -> None:
    with pytest.raises(InputError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])


def test_few_labels_against_many() -> None:
    many = Vocabulary([f"e{i}" for i in range(100)])
    assert many.ids(["e7", "nobody", "e99", "e7"]).tolist() == [7, -1, 99, 7]
    assert many.ids([]).tolist() == []
    assert many.extended(["x", "e1", "x"]).select([99, 100]) == ["e99", "x"]
