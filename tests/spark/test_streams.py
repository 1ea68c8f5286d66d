"""Groups are put together whatever the batches cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ookg.errors import InputError
from ookg.spark import streams
from ookg.spark.streams import (
    LinksOfNewcomers,
    in_larger_batches,
    links_by_newcomer,
    packed,
    starts_of_groups,
    whole_groups,
)

GROUPS = {"a": 1, "b": 7, "c": 1, "d": 2, "e": 30, "f": 3}


def rows_of_groups(size: int) -> list[pa.RecordBatch]:
    """A row for each of a group, in batches."""
    table = pa.table({"group": [label for label, rows in GROUPS.items() for _ in range(rows)]})
    return _with_empty_ones(table, size)


def batches(size: int, each: int, parts: int = 3) -> list[pa.RecordBatch]:
    """Links of newcomers, numbered one after the other, packed so many at a time, sorted by part, in batches."""
    labels = pa.array([label for label, count in GROUPS.items() for _ in range(count)])
    links = np.arange(len(labels))
    cuts = range(0, len(labels), each)
    made = [packed(labels[start : start + each], links[start : start + each], parts) for start in cuts]
    return _with_empty_ones(pa.Table.from_batches(made).sort_by("part"), size)


def _with_empty_ones(table: pa.Table, size: int) -> list[pa.RecordBatch]:
    nothing = [pa.RecordBatch.from_pylist([], table.schema)]
    return [*nothing, *table.combine_chunks().to_batches(size), *nothing]


def as_lists(parts: list[LinksOfNewcomers]) -> dict[str, list[int]]:
    made: dict[str, list[int]] = {}
    for part in parts:
        ends = np.cumsum(part.counts)
        for label, start, end in zip(part.newcomers.to_pylist(), ends - part.counts, ends, strict=True):
            assert label not in made, f"{label} is cut"
            made[label] = part.links[start:end].tolist()
    return made


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("each", [1, 4, 100])
@pytest.mark.parametrize("at_once", [1, 4, 1000])
@pytest.mark.parametrize("in_memory", [2, 9, 20, 1000])
def test_a_newcomer_is_never_cut(
    size: int, each: int, at_once: int, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LINKS_AT_ONCE", at_once)
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", in_memory)
    parts = list(links_by_newcomer(batches(size, each)))
    made = as_lists(parts)
    number = 0
    for label, count in GROUPS.items():
        assert sorted(made.pop(label)) == list(range(number, number + count))
        number += count
    assert not made
    for part in parts:
        is_mapped = isinstance(part.links, np.memmap)
        assert not is_mapped or (len(part.counts) == 1 and part.counts[0] > in_memory)
        assert (part.owner == np.repeat(np.arange(len(part.counts)), part.counts)).all()


def test_the_links_of_a_hub_lie_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", 9)
    (hub,) = [part for part in links_by_newcomer(batches(4, 4)) if isinstance(part.links, np.memmap)]
    assert hub.newcomers.to_pylist() == ["e"]
    hub.links[::-1].sort()  # they can be put in order where they lie
    assert hub.links[0] == hub.links.max()


def test_memory_is_bounded_by_what_a_part_has_without_its_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", 100)
    held: list[int] = []
    add = streams._Held.add

    def noted(self: streams._Held, rows: pa.RecordBatch) -> None:
        add(self, rows)
        held.append(self.num_links)

    monkeypatch.setattr(streams._Held, "add", noted)
    random = np.random.default_rng(0)
    labels = pa.array(["hub" if number % 2 else f"n{number % 14}" for number in random.integers(0, 1000, 4000)])
    made = [packed(labels[start : start + 20], np.arange(start, start + 20), 1) for start in range(0, 4000, 20)]
    counts = {part.newcomers[0].as_py(): len(part.links) for part in links_by_newcomer(made) if len(part.counts) == 1}
    few = np.array([text != "hub" for text in labels.to_pylist()]).cumsum()[19::20]
    assert counts["hub"] == 4000 - few[-1]
    assert (np.array(held) <= np.maximum(100, 2 * few) + 20).all()


@pytest.mark.parametrize("parts", [1, 3, 1 << 17])
def test_a_newcomer_is_always_dealt_to_the_same_part(parts: int) -> None:
    labels = pa.array(["a", "bb", "", "\0", "bb\n", "a", "bb"] * 3)
    rows = packed(labels, np.arange(len(labels)), parts).to_pylist()
    where: dict[bytes, set[int]] = {}
    for row in rows:
        assert 0 <= row["part"] < parts
        ends = np.cumsum(np.frombuffer(row["lengths"], np.int32))
        texts = [row["labels"][start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        assert texts == [labels[link].as_py().encode() for link in np.frombuffer(row["links"], np.int64)]
        for text in texts:
            where.setdefault(text, set()).add(row["part"])
    assert len(where) == 5
    assert all(len(those) == 1 for those in where.values())
    assert packed(labels[:0], np.arange(0), parts).num_rows == 0


def test_nothing_comes_of_nothing() -> None:
    assert list(links_by_newcomer([])) == []
    assert list(whole_groups([], "group", 5)) == []
    assert list(in_larger_batches([], 5)) == []
    assert len(starts_of_groups(pa.array([], pa.string()))) == 0


@pytest.mark.parametrize("size", [1, 3, 8, 100])
@pytest.mark.parametrize("rows", [1, 6, 1000])
def test_tables_hold_whole_groups(size: int, rows: int) -> None:
    seen: list[str] = []
    total = 0
    for table in whole_groups(rows_of_groups(size), "group", rows):
        labels = table["group"].unique().to_pylist()
        assert not set(labels) & set(seen)
        seen += labels
        total += table.num_rows
    assert (seen, total) == (list(GROUPS), sum(GROUPS.values()))


def test_a_group_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match=r"more than 20 triples belong together, .*; leave some out"):
        list(whole_groups(rows_of_groups(4), "group", 2, 20))
    assert list(whole_groups(rows_of_groups(4), "group", 2, 30))


def test_small_batches_become_larger_ones() -> None:
    tables = list(in_larger_batches(rows_of_groups(4), 10))
    assert [table.num_rows for table in tables] == [12, 12, 12, 8]


def test_batches_of_many_bytes_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_BYTES", 1)
    assert [table.num_rows for table in in_larger_batches(rows_of_groups(20)[1:-1], 1000)] == [20, 20, 4]
