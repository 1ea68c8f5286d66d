"""Limits that no real graph meets, so that a small file cannot eat the machine; the environment can raise them."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ookg.errors import FileError, InputError

# What a file may always become: small files of one repeated line are harmless.
FREE_BYTES = 64 << 20


@dataclass(frozen=True)
class Limit:
    """A whole number with a name; the environment variable of that name sets another one."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit in force."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not re.fullmatch("[1-9][0-9]{0,17}", text):
            problem = f"the environment variable {self.variable} is {text[:40]!r}"
            raise InputError(f"{problem}; give a whole number from 1 on, or unset it (then it is {self.default})")
        return int(text)

    @property
    def remedy(self) -> str:
        """How to go on where the file is what it should be."""
        return f"if it is meant to be so, set the environment variable {self.variable} above {self.value}"


# The longest line of a text file. The longest lines of real graphs are literals: texts, outlines of countries.
LINE_BYTES = Limit("OOKG_MAX_LINE_BYTES", 8 << 20)
# How many times its size on disk a file may become. Compressed graphs become 5 to 50 times as large, tables of numbers
# hardly any larger; gzip could reach 1,000, and zstd, Parquet, HDF5 and tensors of one repeated number have no bound.
EXPANSION = Limit("OOKG_MAX_EXPANSION", 100)


def check_expansion(path: str | Path, stored: int, unpacked: int, what: str = "content") -> None:
    """Refuse what would become far larger than the bytes that it is stored in."""
    if unpacked > FREE_BYTES and unpacked > EXPANSION.value * stored:
        problem = (
            f"{what} of {_size(unpacked)} from a file of {_size(stored)}, more than {EXPANSION.value} times as much"
        )
        raise FileError(path, problem, EXPANSION.remedy)


def check_line(path: str | Path, size: int, number: int) -> None:
    """Refuse a line that is too long."""
    if size > LINE_BYTES.value:
        raise FileError(path, f"a line of more than {_size(LINE_BYTES.value)}", LINE_BYTES.remedy, number)


class BoundedStream(io.RawIOBase):
    """What a stream of bytes reads, up to the expansion that the file's size allows.

    size: how many bytes were read
    """

    def __init__(self, stream: Any, path: str | Path, stored: int) -> None:
        self._stream, self._path, self._stored = stream, path, stored
        self.size = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; an error once there are too many."""
        block: bytes = self._stream.read() if size is None else self._stream.read(size)
        self.size += len(block)
        check_expansion(self._path, self._stored, self.size)
        return block

    def readinto(self, buffer: Any) -> int:
        """The next bytes into a buffer."""
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        """Close the stream that is read."""
        self._stream.close()
        super().close()


def _size(count: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
