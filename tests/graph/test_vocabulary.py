from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ookg.errors import InputError
from ookg.graph.vocabulary import Vocabulary


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


LABELS = [
    "b",
    "",
    "a",
    "ab",
    "a b",
    "abc",
    "ü ö",
    "Z",
    "日本",
    "日",
    "\U0001f600",
    "\uffff",
    "e\u0301",
    "é",
    "a\x00b",
    "NA",
]


def made(kind: str) -> Vocabulary:
    """A vocabulary of LABELS over arrays of every kind that readers make."""
    if kind == "sliced":
        return Vocabulary.distinct(pa.array(["b", "zz", *LABELS, "abc"], pa.string()).slice(2, len(LABELS)))
    if kind == "grown":
        return Vocabulary(LABELS[:5]).extended(LABELS[3:9]).extended(LABELS)
    return Vocabulary(pa.array(LABELS, pa.large_string() if kind == "large" else pa.string()))


@pytest.mark.parametrize("kind", ["plain", "large", "sliced", "grown"])
def test_every_label_is_found_and_nothing_else(kind: str) -> None:
    vocabulary = made(kind)
    assert len(vocabulary) == len(LABELS)
    for number, label in enumerate(LABELS):
        assert vocabulary.find(label) == number
        assert vocabulary.label(number) == label
        for other in (label + "!", label[:-1], label + "\x00"):
            assert vocabulary.find(other) == (LABELS.index(other) if other in LABELS else None)
    for absent in ("zz", "\ud800", "a\udc80", "e"):  # halves of surrogate pairs are no text
        assert vocabulary.find(absent) is None
        assert absent not in vocabulary
    assert vocabulary.select([10, 0, 1]) == [LABELS[10], "b", ""]
    assert vocabulary.ids([*LABELS, "zz"]).tolist() == [*range(len(LABELS)), -1]
    assert vocabulary.labels.to_pylist() == LABELS
    assert vocabulary == Vocabulary(pa.array(LABELS, vocabulary.labels.type))


def test_an_empty_vocabulary_finds_nothing_and_grows() -> None:
    empty = Vocabulary([])
    assert empty.find("") is None
    assert empty.extended(["", "a"]).select([0, 1]) == ["", "a"]


@pytest.mark.parametrize("seed", range(3))
def test_growing_little_by_little_is_growing_at_once(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = [f"{number:x}" for number in random.integers(0, 300, 200)]
    base = Vocabulary(["1", "a", "ff"])
    slowly, versions = base, []
    for label in labels:
        versions.append((slowly, len(slowly)))
        slowly = slowly.extended([label])
    at_once = base.extended(labels)
    assert slowly == at_once
    assert at_once.labels.to_pylist() == list(dict.fromkeys(["1", "a", "ff", *labels]))
    for version, size in versions[::20]:  # they stay what they were
        assert version.labels.to_pylist() == at_once.labels.to_pylist()[:size]
    assert len(base) == 3


def test_many_ways_to_find_ids_agree() -> None:
    vocabulary = Vocabulary([f"e{number}" for number in range(5000)])
    for size in (1, 2, 100, 3000):
        wanted = [f"e{number * 7 % 6000}" for number in range(size)]
        expected = [int(label[1:]) if int(label[1:]) < 5000 else -1 for label in wanted]
        assert vocabulary.ids(wanted).tolist() == expected
        assert vocabulary.extended(["x"]).ids([*wanted, "x"]).tolist() == [*expected, 5000]
