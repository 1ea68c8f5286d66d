"""How the system holds memory."""

from __future__ import annotations

import ctypes
import mmap

from ookg.types import Array


def prefer_large_pages(array: Array) -> None:
    """Ask the system to hold an array in large pages; what is not in memory yet, as of a mapped file, comes in such.

    Rows in random order come twice as fast out of large pages. It is advice: a system without them does nothing.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE") or not array.flags.c_contiguous:
        return
    start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (array.ctypes.data + array.nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
    if size > 0:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_HUGEPAGE)
