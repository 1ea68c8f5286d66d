"""Groups out of a stream of Arrow batches, in which a group may be cut anywhere.

Links travel packed: newcomers are dealt to a fixed number of parts by the hashes of their labels, and what a batch has
of a part is one row. A row for each triple would cost Spark more than all the rest of the work.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError
from ookg.graph.vocabulary import Texts
from ookg.kernels.cpu_compile import compiled
from ookg.spark.labels import parts_of
from ookg.types import Array, BoolArray, IntArray

LINKS_AT_ONCE = 1 << 17
MOST_BYTES = 1 << 26  # in a batch that is put together
MOST_IN_MEMORY = 1 << 20  # links of one newcomer; more lie in a temporary file until they are added up
# Links of a part in a row: how long the label of each one's newcomer is, these labels one after the other, the links.
PACKED = {"part": pa.int32(), "lengths": pa.binary(), "labels": pa.binary(), "links": pa.binary()}


def in_larger_batches(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """The same rows in tables of at least so many, or of many bytes, but for the last: Spark's batches are small."""
    held: list[Any] = []
    num_rows, size = 0, 0
    for batch in batches:
        held.append(batch)
        num_rows, size = num_rows + batch.num_rows, size + batch.nbytes
        if num_rows >= rows or size >= MOST_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, num_rows, size = [], 0, 0
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

    def select(self, chosen: BoolArray) -> LinksOfNewcomers:
        """Those of some newcomers."""
        if chosen.all():
            return self
        links = self.links[np.repeat(chosen, self.counts)]
        return LinksOfNewcomers(self.newcomers.filter(pa.array(chosen)), self.counts[chosen], links)


def packed(newcomers: Any, links: IntArray, parts: int) -> Any:
    """A batch of `PACKED`. newcomers: an Arrow array, the newcomer of each link; parts: how many there are in all"""
    part = parts_of(newcomers, parts)
    # Sixteen bits are sorted several times faster than more. Links are put in order where all of them meet.
    order = np.argsort(part.astype(np.uint16) if parts <= 1 << 16 else part, kind="stable")
    texts = Texts.of(newcomers.take(pa.array(order)))
    counts = np.bincount(part, minlength=parts)
    rows = np.flatnonzero(counts)
    ends = np.append(0, np.cumsum(counts[rows]))
    columns = [
        pa.array(rows.astype(np.int32)),
        _cut(np.diff(texts.starts).astype(np.int32), ends),
        _cut(texts.data, texts.starts[ends]),
        _cut(links[order], ends),
    ]
    return pa.RecordBatch.from_arrays(columns, list(PACKED))


def _cut(numbers: Array, ends: IntArray) -> Any:
    """An array as one binary value after the other, where it lies."""
    bounds = (ends * numbers.itemsize).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(numbers)])


def _joined(column: Any, kind: Any) -> Array:
    """All values of a binary column as one array, where it lies."""
    width = np.int64 if column.type == pa.large_binary() else np.int32
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].view(kind) if data is not None else np.empty(0, kind)


class _Hub:
    """The links of a newcomer that has very many, in a temporary file until all of them are there."""

    def __init__(self, folder: str | None) -> None:
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed in `links`)
        self.num_links = 0

    def add(self, links: IntArray) -> None:
        """Add links."""
        links.tofile(self.file)
        self.num_links += len(links)

    def links(self) -> IntArray:
        """All of them, mapped where they are too many for memory."""
        with self.file:  # what is mapped stays mapped
            self.file.flush()
            mapped: IntArray = np.memmap(self.file, dtype=np.int64, mode="r+", shape=(self.num_links,))
            return mapped if self.num_links > MOST_IN_MEMORY else np.array(mapped)


class _Held:
    """The links of whole parts, and of one that may go on; newcomers with very many are put into files.

    folder: where these are
    """

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self.lengths: list[Array] = []
        self.labels: list[Array] = []
        self.links: list[IntArray] = []
        self.num_links, self.most = 0, MOST_IN_MEMORY
        self.hubs: dict[str, _Hub] = {}

    def add(self, rows: Any) -> None:
        """Add rows of `PACKED`."""
        self._add(
            _joined(rows["lengths"], np.int32), _joined(rows["labels"], np.uint8), _joined(rows["links"], np.int64)
        )
        if self.num_links > self.most:
            rest = self._without_hubs(max(1, MOST_IN_MEMORY // 8))
            texts = Texts.of(rest.newcomers.take(pa.array(rest.owner)))
            self._add(np.diff(texts.starts), texts.data, rest.links)
            self.most = max(MOST_IN_MEMORY, 2 * self.num_links)  # so that the same are not grouped again and again

    def _add(self, lengths: Array, labels: Array, links: IntArray) -> None:
        self.lengths.append(lengths)
        self.labels.append(labels)
        self.links.append(links)
        self.num_links += len(links)

    def _grouped(self) -> LinksOfNewcomers:
        """All that is in memory, by newcomer; nothing is held then."""
        lengths, labels, links = (np.concatenate(some) for some in (self.lengths, self.labels, self.links))
        self.lengths, self.labels, self.links, self.num_links = [], [], [], 0
        starts = np.append(0, np.cumsum(lengths, dtype=np.int64))
        texts = pa.LargeStringArray.from_buffers(len(links), pa.py_buffer(starts), pa.py_buffer(labels))
        encoded = texts.dictionary_encode()
        owner = np.asarray(encoded.indices)
        counts = np.bincount(owner, minlength=len(encoded.dictionary))
        gathered = np.empty(len(links), dtype=np.int64)
        _gather(owner, links, np.cumsum(counts) - counts, gathered)
        return LinksOfNewcomers(encoded.dictionary, counts, gathered)

    def _without_hubs(self, most: int) -> LinksOfNewcomers:
        """What is in memory, less newcomers with more links than this and those that are in files: these go there."""
        whole = self._grouped()
        is_hub = whole.counts > most
        if self.hubs:
            is_hub |= np.asarray(pc.is_in(whole.newcomers, pa.array(list(self.hubs), pa.large_string())))
        ends = np.cumsum(whole.counts)
        for number in np.flatnonzero(is_hub):
            label = whole.newcomers[number].as_py()
            if label not in self.hubs:
                self.hubs[label] = _Hub(self.folder)
            self.hubs[label].add(whole.links[ends[number] - whole.counts[number] : ends[number]])
        return whole.select(~is_hub)

    def whole(self) -> Iterator[LinksOfNewcomers]:
        """All that is held, each newcomer in one of them; nothing is held then."""
        if self.num_links:
            yield self._without_hubs(MOST_IN_MEMORY)
        for label, hub in self.hubs.items():
            yield LinksOfNewcomers(pa.array([label], pa.large_string()), np.array([hub.num_links]), hub.links())
        self.hubs, self.most = {}, MOST_IN_MEMORY


@compiled()
def _gather(owner: Array, links: Array, places: Array, gathered: Array) -> None:
    """Put each owner's links together. places: (owners,) where each one's begin, moved on"""
    for row in range(len(links)):
        gathered[places[owner[row]]] = links[row]
        places[owner[row]] += 1


def links_by_newcomer(batches: Iterable[Any], folder: str | None = None) -> Iterator[LinksOfNewcomers]:
    """The links of whole newcomers, many at once, out of batches of `PACKED`, sorted by part.

    A newcomer with very many comes alone, its links in a temporary file that is mapped into memory.

    folder: where that file is
    """
    held, last = _Held(folder), None
    for batch in batches:
        parts = np.asarray(batch["part"])
        starts = starts_of_groups(batch["part"])
        for start, end in zip(starts, np.append(starts, len(parts))[1:], strict=True):
            if parts[start] != last and held.num_links >= LINKS_AT_ONCE:
                yield from held.whole()
            held.add(batch.slice(start, end - start))
            last = parts[start]
    yield from held.whole()
