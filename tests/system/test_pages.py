from __future__ import annotations

import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from ookg.system.pages import prefer_large_pages
from ookg.types import Array


def advised(array: Array) -> bool:
    """Whether the mapping that holds the middle of an array is to have large pages."""
    middle = array.ctypes.data + array.nbytes // 2
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        place = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
        if place is not None:
            inside = int(place[1], 16) <= middle < int(place[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise AssertionError("no mapping holds the array")


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="a system without such advice")
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="a kernel without large pages")
def test_a_mapped_table_is_to_come_in_large_pages(tmp_path: Path) -> None:
    path = tmp_path / "table"
    np.arange(1 << 20, dtype=np.float32).tofile(path)
    table = np.memmap(
        path, dtype=np.float32, mode="r", offset=64
    )  # its rows do not begin at a page, as in a model's file
    assert not advised(table)
    prefer_large_pages(table)
    assert advised(table)
    assert table[:3].tolist() == [16, 17, 18]


def test_small_and_strided_arrays_are_left_alone() -> None:
    for array in (np.arange(3), np.empty((0, 4)), np.arange(1 << 16)[::2]):
        before = array.copy()
        prefer_large_pages(array)
        assert np.array_equal(array, before)
