"""Groups are put together whatever the batches cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ookg.errors import InputError
from ookg.spark import streams
from ookg.spark.streams import LinksOfNewcomers, in_larger_batches, links_by_newcomer, starts_of_groups, whole_groups

GROUPS = {"a": 1, "b": 7, "c": 1, "d": 2, "e": 30, "f": 3}


def batches(size: int) -> list[pa.RecordBatch]:
    """A row for each link, some rows with two links and some with none."""
    labels, links, number = [], [], 0
    for label, rows in GROUPS.items():
        for row in range(rows):
            labels.append(label)
            count = (1, 2, 0)[row % 3] if rows > 1 else 1
            links.append(np.arange(number, number + count).tobytes())
            number += count
    table = pa.table({"newcomer": labels, "links": pa.array(links, pa.binary())})
    nothing = table.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return [*nothing, *table.combine_chunks().to_batches(size), *nothing]


def as_lists(parts: list[LinksOfNewcomers]) -> dict[str, list[int]]:
    made: dict[str, list[int]] = {}
    for part in parts:
        ends = np.cumsum(part.counts)
        for label, start, end in zip(part.newcomers.to_pylist(), ends - part.counts, ends, strict=True):
            assert label not in made, f"{label} is cut"
            made[label] = part.links[start:end].tolist()
    return made


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("at_once", [1, 4, 1000])
@pytest.mark.parametrize("in_memory", [2, 9, 1000])
def test_a_newcomer_is_never_cut(size: int, at_once: int, in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINKS_AT_ONCE", at_once)
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", in_memory)
    parts = list(links_by_newcomer(batches(size)))
    made = as_lists(parts)
    assert set(made) == set(GROUPS)
    assert sorted(link for links in made.values() for link in links) == list(range(sum(map(len, made.values()))))
    assert made["b"] == list(range(1, 8))
    assert made["e"] == sorted(made["e"])
    assert len(made["e"]) == 30
    for part in parts:
        is_mapped = isinstance(part.links, np.memmap)
        assert not is_mapped or (len(part.counts) == 1 and part.counts[0] > in_memory)
        assert (part.owner == np.repeat(np.arange(len(part.counts)), part.counts)).all()


def test_the_links_of_a_hub_lie_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", 9)
    (hub,) = [part for part in links_by_newcomer(batches(4)) if isinstance(part.links, np.memmap)]
    assert hub.newcomers.to_pylist() == ["e"]
    hub.links[::-1].sort()  # they can be put in order where they lie
    assert hub.links[0] == hub.links.max()


def test_nothing_comes_of_nothing() -> None:
    assert list(links_by_newcomer([])) == []
    assert list(whole_groups([], "newcomer", 5)) == []
    assert list(in_larger_batches([], 5)) == []
    assert len(starts_of_groups(pa.array([], pa.string()))) == 0


@pytest.mark.parametrize("size", [1, 3, 8, 100])
@pytest.mark.parametrize("rows", [1, 6, 1000])
def test_tables_hold_whole_groups(size: int, rows: int) -> None:
    seen: list[str] = []
    total = 0
    for table in whole_groups(batches(size), "newcomer", rows):
        labels = table["newcomer"].unique().to_pylist()
        assert not set(labels) & set(seen)
        seen += labels
        total += table.num_rows
    assert (seen, total) == (list(GROUPS), sum(GROUPS.values()))


def test_a_group_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match=r"more than 20 triples belong together, .*; leave some out"):
        list(whole_groups(batches(4), "newcomer", 2, 20))
    assert list(whole_groups(batches(4), "newcomer", 2, 30))


def test_small_batches_become_larger_ones() -> None:
    tables = list(in_larger_batches(batches(4), 10))
    assert [table.num_rows for table in tables] == [12, 12, 12, 8]
