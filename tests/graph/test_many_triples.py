"""Triples that are read batch by batch become the same as those that are read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ookg.errors import FileError
from ookg.graph import encoding, ids, reading, triples
from ookg.graph.hashing import LabelTable, are_first
from ookg.graph.triples import TripleFormat, Triples, as_triples, read_triples, write_triples
from ookg.model.train import _digest
from ookg.system.limits import Limit

SUFFIXES = ["tsv", "csv", "tsv.gz", "tsv.zst", "parquet"]


def random_rows(seed: int, size: int = 400) -> list[tuple[str, ...]]:
    """Triples of labels of different lengths, some of them twice, some entities only heads or only tails."""
    random = np.random.default_rng(seed)
    heads, tails = random.integers(0, 60, size), random.integers(30, 120, size)
    relations = random.integers(0, 5, size)
    return [("é" * (h % 4) + f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(heads, relations, tails, strict=True)]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triples, "AT_ONCE", 100)
    monkeypatch.setattr(reading, "BATCH_ROWS", 37)
    monkeypatch.setattr(encoding, "BLOCK", 64)
    monkeypatch.setattr("ookg.graph.reading.LINE_BYTES", Limit("OOKG_MAX_LINE_BYTES", 700))  # the size of a block


def assert_same(one: Triples, other: Triples) -> None:
    assert one.ids.dtype == other.ids.dtype == np.int64
    assert one.ids.tolist() == other.ids.tolist()
    assert one.entities == other.entities
    assert one.relations == other.relations
    assert (one.duplicates, one.notes) == (other.duplicates, other.notes)
    assert (one.truth is None) == (other.truth is None)
    if one.truth is not None and other.truth is not None:
        assert one.truth.tolist() == other.truth.tolist()
    assert _digest(one) == _digest(other)  # a run goes on, however its triples are read


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("keep_duplicates", [False, True])
def test_every_format(
    tmp_path: Path, suffix: str, labelled: bool, keep_duplicates: bool, request: pytest.FixtureRequest
) -> None:
    rows = random_rows(0)
    if labelled:
        rows = [(*row, str(number % 3 // 2)) for number, row in enumerate(rows)]
    path = tmp_path / f"a.{suffix}"
    write_triples(path, as_triples(rows, keep_duplicates=True))
    at_once = read_triples(path, keep_duplicates=keep_duplicates)
    assert at_once.duplicates > 0 or keep_duplicates
    request.getfixturevalue("small_batches")
    assert_same(read_triples(path, keep_duplicates=keep_duplicates), at_once)


@pytest.mark.parametrize("predicates", [("r1",), ("r1", "r4", "other")])
@pytest.mark.parametrize("suffix", ["tsv", "parquet"])
def test_some_predicates(
    tmp_path: Path, predicates: tuple[str, ...], suffix: str, request: pytest.FixtureRequest
) -> None:
    path, form = tmp_path / f"a.{suffix}", TripleFormat(predicates=predicates)
    write_triples(path, as_triples(random_rows(1, 900)))
    at_once = read_triples(path, form)
    request.getfixturevalue("small_batches")
    assert_same(read_triples(path, form), at_once)
    with pytest.raises(FileError, match=r"no triple has a selected predicate \(nothing\)"):
        read_triples(path, TripleFormat(predicates=("nothing",)))


def test_frames(request: pytest.FixtureRequest) -> None:
    rows = random_rows(2)
    frame = pa.table(dict(zip(("head", "relation", "tail"), zip(*rows, strict=True), strict=True)))
    at_once = as_triples(frame)
    request.getfixturevalue("small_batches")
    pieces = pa.Table.from_batches(frame.to_batches(50))
    assert_same(as_triples(pieces), at_once)
    assert_same(as_triples(rows), at_once)


@pytest.mark.usefixtures("small_batches")
def test_a_bad_row_is_named_however_late_it_comes(tmp_path: Path) -> None:
    rows = random_rows(3)
    rows[351] = ("a", " ", "b")
    text = tmp_path / "a.tsv"
    text.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(FileError, match=r"a\.tsv:352: empty relation"):
        read_triples(text)
    rows[351] = ("a", "r", "b")
    text.write_text("".join("\t".join(row) + "\n" for row in rows) + "one\ttwo\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"a\.tsv:401: 2 columns instead of 3"):
        read_triples(text)
    table = tmp_path / "a.parquet"
    for tail, problem in (("", r"a\.parquet:352: empty tail"), (None, r"a\.parquet:352: no value in column 'tail'")):
        columns = [list(column) for column in zip(*rows, strict=True)]
        columns[2][351] = tail
        pq.write_table(pa.table(dict(zip(("head", "relation", "tail"), columns, strict=True))), table)
        with pytest.raises(FileError, match=problem):
            read_triples(table)


@pytest.mark.usefixtures("small_batches")
def test_a_long_read_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_triples(path := tmp_path / "a.tsv", as_triples(random_rows(4)))
    monkeypatch.setattr(triples, "PLAIN_SECONDS", 0.0)
    read_triples(path)
    assert not capsys.readouterr().err
    read_triples(path, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 3
    assert f"reading {path}: " in lines[0]
    assert " triples, " in lines[0]


def test_a_table_of_labels_equals_a_dictionary() -> None:
    random, table, expected = np.random.default_rng(0), LabelTable(), dict[str, int]()
    for _ in range(12):
        labels = [str(number) for number in random.integers(0, 9000, 2000)] + ["", "é", "日本"]
        assert table.ids(pa.array(labels)).tolist() == [expected.setdefault(label, len(expected)) for label in labels]
    assert len(table) == len(expected)
    order, names = random.permutation(len(expected)), list(expected)
    labels = table.labels(order)
    labels.validate(full=True)
    assert labels.to_pylist() == [names[number] for number in order]


def test_labels_whose_hashes_share_a_slot_stay_apart() -> None:
    """With as many labels as slots allow, most slots are taken by another when a label comes."""
    table = LabelTable()
    labels = pa.array([f"{number:x}" for number in range(2730)])  # 2/3 of the smallest table
    assert table.ids(labels).tolist() == list(range(2730))
    assert table.ids(labels.take(pa.array(range(2729, -1, -1)))).tolist() == list(range(2729, -1, -1))


@pytest.mark.parametrize("labelled", [False, True])
def test_the_first_of_equal_triples(labelled: bool) -> None:
    random = np.random.default_rng(1)
    rows, truth = random.integers(0, 12, (3000, 3)), random.random(3000) < 0.5 if labelled else None
    first = are_first(rows, truth)
    kept = ids.first_occurrences(rows, 12, 12, truth)
    assert kept is not None
    assert np.flatnonzero(first).tolist() == kept.tolist()


def test_triples_of_more_ids_than_64_bits_can_tell_apart() -> None:
    rows = np.array([[86_000_000, 14_000, 5], [5, 14_000, 86_000_000], [86_000_000, 14_000, 5]])
    kept = ids.first_occurrences(rows, 86_000_001, 14_824)
    assert kept is not None
    assert kept.tolist() == [0, 1]
    assert ids.first_occurrences(rows[:2], 86_000_001, 14_824) is None
