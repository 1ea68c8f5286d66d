"""Groups out of a stream of Arrow batches, in which a group may be cut anywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError
from ookg.types import IntArray

LINKS_AT_ONCE = 1 << 17
NEWCOMERS_AT_ONCE = 1 << 14
LINK_BYTES = 8
MOST_IN_MEMORY = 1 << 20  # links of one newcomer; more lie in a temporary file until they are added up


def in_larger_batches(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """The same rows in tables of at least so many, but for the last: Spark's batches are small."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= rows:
            yield pa.Table.from_batches(held).combine_chunks()
            held = []
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def starts_of_groups(keys: Any) -> IntArray:
    """Where groups begin among keys that lie together."""
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    changes = np.asarray(pc.not_equal(keys[1:], keys[:-1])).astype(np.bool_)
    return np.append(0, np.flatnonzero(changes) + 1)


def whole_groups(batches: Iterable[Any], key: str, rows: int, most: int | None = None) -> Iterator[Any]:
    """Tables of whole groups, of about so many rows or as many as the largest group has.

    key: the column by which the rows are sorted; most: a group of more rows is refused
    """
    held: list[Any] = []
    enough = rows
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) < enough:
            continue
        table = pa.Table.from_batches(held).combine_chunks()
        cut = int(starts_of_groups(table[key].combine_chunks())[-1])
        if cut:
            yield table.slice(0, cut)
        held = table.slice(cut).to_batches()
        rest = table.num_rows - cut
        if most is not None and rest > most:
            problem = f"more than {most:,} triples belong together, as those of one newcomer or of a piece of tied ones"
            raise InputError(f"{problem}; leave some out, first those between newcomers or over new relations")
        enough = max(rows, 2 * rest)  # a large group is not copied again with every batch
    if held:
        table = pa.Table.from_batches(held).combine_chunks()
        if table.num_rows:
            yield table


@dataclass(frozen=True, eq=False)
class LinksOfNewcomers:
    """All links of some newcomers.

    newcomers: an Arrow array of labels; counts: (newcomers,) how many links each has; links: of one after the other
    """

    newcomers: Any
    counts: IntArray
    links: IntArray

    @property
    def owner(self) -> IntArray:
        """(links,) the newcomer of each, counted from 0."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class _Whole:
    """Newcomers that are whole, to be handed out together."""

    def __init__(self) -> None:
        self.labels: list[Any] = []
        self.counts: list[IntArray] = []
        self.links: list[IntArray] = []
        self.num_newcomers, self.num_links = 0, 0

    def add(self, labels: Any, counts: IntArray, links: IntArray) -> None:
        """Add newcomers."""
        self.labels.append(labels)
        self.counts.append(counts)
        self.links.append(links)
        self.num_newcomers += len(labels)
        self.num_links += len(links)

    def joined(self) -> LinksOfNewcomers:
        """All of them."""
        return LinksOfNewcomers(pa.concat_arrays(self.labels), np.concatenate(self.counts), np.concatenate(self.links))


class _Open:
    """A newcomer that may have more links in the next batch; very many are put into a temporary file."""

    def __init__(self, label: Any, links: IntArray, folder: str | None) -> None:
        self.label, self.parts, self.folder = label, [links], folder
        self.num_links = len(links)
        self.file: Any = None

    def add(self, links: IntArray) -> None:
        """Add links."""
        self.parts.append(links)
        self.num_links += len(links)
        if sum(map(len, self.parts)) > MOST_IN_MEMORY:
            if self.file is None:
                self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 (closed in `links`)
            for part in self.parts:
                part.tofile(self.file)
            self.parts = []

    def links(self) -> IntArray:
        """All of them, in memory or mapped."""
        if self.file is None:
            return np.concatenate(self.parts)
        with self.file:  # what is mapped stays mapped
            for part in self.parts:
                part.tofile(self.file)
            self.file.flush()
            return np.memmap(self.file, dtype=np.int64, mode="r+", shape=(self.num_links,))


def links_by_newcomer(batches: Iterable[Any], folder: str | None = None) -> Iterator[LinksOfNewcomers]:
    """The links of whole newcomers, many at once, out of batches of newcomer and links (bytes), sorted by newcomer.

    A newcomer with very many comes alone, its links in a temporary file that is mapped into memory.

    folder: where that file is
    """
    whole, last = _Whole(), None
    for batch in batches:
        if not batch.num_rows:
            continue
        labels, counts, links = _runs(batch)
        done = 0  # runs of this batch that are dealt with
        if last is not None and labels[0] == last.label:
            last.add(links[: counts[0]])
            done = 1
        if done == len(labels):
            continue
        ends = np.cumsum(counts)
        begin, end = (int(ends[done - 1]) if done else 0), int(ends[-1] - counts[-1])
        if last is not None:
            if last.num_links > MOST_IN_MEMORY:
                yield _alone(last)
            else:
                whole.add(pa.array([last.label.as_py()], labels.type), np.array([last.num_links]), last.links())
        whole.add(labels[done:-1], counts[done:-1], links[begin:end])
        last = _Open(labels[-1], links[end:], folder)
        if whole.num_links >= LINKS_AT_ONCE or whole.num_newcomers >= NEWCOMERS_AT_ONCE:
            yield whole.joined()
            whole = _Whole()
    if whole.num_newcomers:
        yield whole.joined()
    if last is not None:
        yield _alone(last)


def _alone(newcomer: _Open) -> LinksOfNewcomers:
    return LinksOfNewcomers(pa.array([newcomer.label.as_py()]), np.array([newcomer.num_links]), newcomer.links())


def _runs(batch: Any) -> tuple[Any, IntArray, IntArray]:
    """The newcomers of a batch, each once, how many links each has, and these."""
    labels, packed = batch.column("newcomer"), batch.column("links")
    starts = starts_of_groups(labels)
    width = np.int64 if packed.type == pa.large_binary() else np.int32
    _, offsets, data = packed.buffers()
    ends = np.frombuffer(offsets, width)[packed.offset : packed.offset + len(packed) + 1] // LINK_BYTES
    links = np.frombuffer(data, np.int64)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.int64)
    counts = np.add.reduceat(np.diff(ends), starts).astype(np.int64)
    return labels.take(pa.array(starts)), counts, links
