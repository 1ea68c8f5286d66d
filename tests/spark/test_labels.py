"""Labels by the million: the table of hashes finds what bisection finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ookg.graph.vocabulary import Vocabulary
from ookg.spark.labels import LabelIndex

LABELS = ["b", "a", "", "été", "a" * 40, "ab", "日本", "a\x00", *map(str, range(300))]


@pytest.fixture(params=[False, True], ids=["in memory", "mapped"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> LabelIndex:
    return LabelIndex.of(Vocabulary(LABELS), tmp_path / "table.npy" if request.param else None)


def test_a_place_is_that_in_the_order_of_bytes(index: LabelIndex) -> None:
    ordered = sorted(LABELS)
    assert index.places(pa.array(ordered)).tolist() == list(range(len(LABELS)))
    assert [LABELS[number] for number in index.order] == ordered


def test_what_is_not_there_has_no_place(index: LabelIndex) -> None:
    assert (index.places(pa.array(["c", "A", "a" * 41, "300", "日"])) == -1).all()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_part_of_a_longer_array_is_read_where_it_lies(index: LabelIndex, kind: pa.DataType) -> None:
    labels = pa.array(["nowhere", *sorted(LABELS), "nowhere"], kind)
    assert index.places(labels[1:-1]).tolist() == list(range(len(LABELS)))


def test_no_labels_are_found_among_none() -> None:
    index = LabelIndex.of(Vocabulary([]))
    assert index.places(pa.array(["a"])).tolist() == [-1]
    assert len(index.places(pa.array([], pa.string()))) == 0


def test_the_table_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LabelIndex.of(Vocabulary(LABELS), tmp_path / "table.npy")
    monkeypatch.setattr("ookg.spark.labels._filled", None)
    again = LabelIndex.of(Vocabulary(LABELS), tmp_path / "table.npy")
    assert isinstance(again.slots, np.memmap)
    assert again.places(pa.array([""])).tolist() == [0]
