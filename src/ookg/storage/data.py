"""The data folder of a stored model: what its files hold, how they are written, and how they are mapped or read.

Labels, their order and the index of the training triples are plain arrays that are mapped into memory: nothing is
decoded, sorted or copied when a model is opened. Files up to CHECKED_BYTES are held against what must be true of them
at once; of larger ones that is done for what is read, where it is read. Triples and co-occurrence are tables, which are
read when something needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from scipy import sparse

from ookg.errors import ModelFileError
from ookg.graph.index import GraphIndex
from ookg.graph.known import KnownGraph
from ookg.graph.statistics import GraphStatistics, loop_counts
from ookg.graph.vocabulary import StoredVocabulary, Texts, Vocabulary
from ookg.models.embedding import Embedding
from ookg.system.files import PathLock, save_tensors
from ookg.types import Array, IntArray, Numbers

VECTORS, ENTITIES, RELATIONS = "vectors.safetensors", "entities.safetensors", "relations.safetensors"
INDEX, PAIRS, TRIPLES = "index.safetensors", "cooccurrence.parquet", "triples.parquet"
# The last three are there if the training triples are.
FILES = (VECTORS, ENTITIES, RELATIONS, INDEX, PAIRS, TRIPLES)
# Version 1 has its labels, and the degrees, in tables.
OLD_ENTITIES, OLD_RELATIONS = "entities.parquet", "relations.parquet"
OLD_FILES = (VECTORS, OLD_ENTITIES, OLD_RELATIONS, PAIRS, TRIPLES)
LOOPS = "loops"  # in the index: how many triples over each relation join an entity to itself, and how many there are
CHECKED_BYTES = 1 << 24  # files up to this size are checked, by digest and content, whenever a model is opened


@dataclass(frozen=True)
class StoredData:
    """What a data folder holds beside the vectors; graph: None for a model that came without its training triples."""

    entities: Vocabulary
    relations: Vocabulary
    graph: KnownGraph | None


def write_data(folder: Path, embedding: Embedding, stored: StoredData) -> None:
    """Write all files of a data folder."""
    vectors = {"entities": embedding.entities, "relations": embedding.relations}
    save_tensors({name: table.detach().cpu().contiguous() for name, table in vectors.items()}, folder / VECTORS)
    for name, labels in ((ENTITIES, stored.entities), (RELATIONS, stored.relations)):
        texts = labels.texts
        write_arrays(folder / name, {"text": texts.data, "offsets": texts.starts, "order": narrow(labels.order)})
    graph = stored.graph
    if graph is None:
        return
    index, statistics = graph.index, graph.statistics
    arrays = {"offsets": index.offsets, "link": index.link, "other": index.other, "degree": statistics.degree}
    write_arrays(folder / INDEX, arrays | {LOOPS: graph.loop_counts.ravel()})
    pairs = statistics.cooccurrence.tocoo()
    columns = {"relation": pairs.coords[0], "other": pairs.coords[1], "entities": pairs.data}
    pq.write_table(pa.table(columns), folder / PAIRS)
    ends = zip(("head", "relation", "tail"), graph.triples.T, strict=True)
    pq.write_table(pa.table({name: narrow(ids) for name, ids in ends}), folder / TRIPLES)


def write_arrays(path: Path, arrays: dict[str, Array], metadata: dict[str, str] | None = None) -> None:
    """Write a file of arrays that can be mapped into memory."""
    # PyTorch warns of arrays that it could write to and must not.
    writable = {name: np.require(array, requirements=["C", "W"]) for name, array in arrays.items()}
    save_tensors({name: torch.from_numpy(array) for name, array in writable.items()}, path, metadata)


def narrow(ids: Numbers) -> Numbers:
    """Ids in 32 bits where they fit."""
    return ids.astype(np.int32) if not len(ids) or int(ids.max()) < 1 << 31 else ids


def map_data(folder: Path, sizes: dict[str, int], lock: PathLock | None) -> StoredData:
    """What lies in a data folder: mapped, not read. A file that cannot be what was written raises a ValueError.

    sizes: the bytes of its files; lock: what keeps the folder while something of it is in use
    """
    entities, relations = (_mapped_labels(folder / name) for name in (ENTITIES, RELATIONS))
    graph = None
    if INDEX in sizes:
        graph = StoredGraph(folder, len(entities), len(relations), sizes[INDEX] <= CHECKED_BYTES, lock)
    return StoredData(entities, relations, graph)


def read_old_data(folder: Path) -> StoredData:
    """What lies in a data folder of version 1: all of it is read."""
    entities, relations = (pq.read_table(folder / name, memory_map=True) for name in (OLD_ENTITIES, OLD_RELATIONS))
    labels = _labels(entities, "entity"), _labels(relations, "relation")
    if "degree" not in entities.column_names:
        return StoredData(*labels, None)
    sizes = len(entities), len(relations)
    triples, pairs = (pq.read_table(folder / name, memory_map=True) for name in (TRIPLES, PAIRS))
    statistics = GraphStatistics(_numbers(entities, "degree"), _cooccurrence(pairs, sizes[1]))
    return StoredData(*labels, KnownGraph(_triples(triples, *sizes), *sizes, statistics))


class StoredGraph(KnownGraph):
    """The training triples of a stored model: the index is mapped, the rest is read when it is needed."""

    def __init__(
        self, folder: Path, num_entities: int, num_relations: int, is_checked: bool, lock: PathLock | None
    ) -> None:
        """is_checked: whether the index is small enough to be checked at once."""
        self.num_entities, self.num_relations = num_entities, num_relations
        self._folder, self._lock = folder, lock
        # Open files stay there where a writer that sees no locks removes them.
        self._triples_file, self._pairs_file = (pa.memory_map(str(folder / name)) for name in (TRIPLES, PAIRS))
        arrays = mapped_arrays(folder / INDEX)
        offsets, link, other, self._degree = (
            whole_numbers(arrays, name) for name in ("offsets", "link", "other", "degree")
        )
        if not len(offsets) == len(self._degree) + 1 == num_entities + 1:
            raise ValueError(f"an index of {len(offsets) - 1} entities instead of {num_entities}")
        if len(link) != len(other):
            raise ValueError(f"an index of {len(link)} links to {len(other)} entities")
        if int(offsets[0]) != 0 or int(offsets[-1]) != len(link):
            raise ValueError(f"an index of {offsets[-1]} rows that has {len(link)}")
        self.index = GraphIndex(offsets.astype(np.int64, copy=False), link, other, num_relations, str(folder / INDEX))
        self._loops = None
        if LOOPS in arrays:  # not in directories that were written before it was counted there
            self._loops = whole_numbers(arrays, LOOPS)
            if len(self._loops) != 2 * num_relations:
                raise ValueError(f"loops of {len(self._loops) // 2} relations instead of {num_relations}")
        if is_checked:
            self.index.check()
            if (self._degree != np.diff(offsets)).any():
                raise ValueError("degrees that are not those of the index")
            self.index = replace(self.index, source=None)

    def __len__(self) -> int:
        return len(self.index.link) // 2

    def __reduce__(self) -> Any:
        # A copy, perhaps in another process, holds no lock on the files.
        return KnownGraph, (self.triples, self.num_entities, self.num_relations, self.statistics)

    @cached_property
    def triples(self) -> IntArray:
        """(triples, 3) ids, in the order of the training."""
        with damage_named(self._folder.parent):
            triples = _triples(_table(self._triples_file), self.num_entities, self.num_relations)
            if len(triples) != len(self):
                raise ValueError(f"{len(triples)} triples and an index of {len(self)}")
            return triples

    @cached_property
    def loop_counts(self) -> IntArray:
        """(2, relations) how many triples join an entity to itself, and how many there are."""
        if self._loops is None:
            return loop_counts(self.triples, self.num_relations)
        return self._loops.astype(np.int64).reshape(2, -1)

    @cached_property
    def statistics(self) -> GraphStatistics:
        """Degrees of entities and co-occurrence of relations."""
        with damage_named(self._folder.parent):
            cooccurrence = _cooccurrence(_table(self._pairs_file), self.num_relations)
            return GraphStatistics(self._degree.astype(np.int64, copy=False), cooccurrence)


@contextmanager
def damage_named(directory: Path) -> Iterator[None]:
    """Let what reading a damaged file raises be the one line that a user can act on."""
    try:
        yield
    except (SafetensorError, pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{directory}: damaged model ({reason}); restore it or train again") from error


def mapped_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file, mapped into memory: what is not touched is not read."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118 (it is no mapping)


def whole_numbers(arrays: dict[str, Array], name: str) -> Numbers:
    """One of the arrays, which is to be a list of whole numbers."""
    numbers = arrays[name]
    if numbers.ndim != 1 or numbers.dtype not in (np.int32, np.int64):
        raise ValueError(f"{name!r} is {numbers.dtype} of shape {numbers.shape}, expected a list of whole numbers")
    return numbers


def text_bytes(arrays: dict[str, Array], name: str) -> Array:
    """One of the arrays, which is to be the bytes of texts one after the other."""
    text = arrays[name]
    if text.ndim != 1 or text.dtype != np.uint8:
        raise ValueError(f"{name!r} is {text.dtype} of shape {text.shape}, expected bytes")
    return text


def _mapped_labels(path: Path) -> Vocabulary:
    """Labels where they lie; whether they are distinct is not checked, which takes seconds for millions."""
    arrays = mapped_arrays(path)
    texts = Texts(text_bytes(arrays, "text"), whole_numbers(arrays, "offsets"), str(path))
    return StoredVocabulary(texts, whole_numbers(arrays, "order"))


def _table(file: Any) -> Any:
    """A whole Parquet file. Arrow's `read_table` would load what data sets need, to open this one file."""
    return pq.ParquetFile(file).read()


def _labels(table: Any, name: str) -> Vocabulary:
    """A column of labels; whether they are distinct is not checked, which takes seconds for millions."""
    column = table[name].combine_chunks()
    if column.type != pa.string() or column.null_count:
        raise ValueError(f"column {name!r} is {column.type} with {column.null_count} gaps, expected text")
    return Vocabulary.distinct(column)


def _triples(table: Any, num_entities: int, num_relations: int) -> IntArray:
    ends = {"head": num_entities, "relation": num_relations, "tail": num_entities}
    return np.stack([_numbers(table, name, below) for name, below in ends.items()], axis=1)


def _cooccurrence(table: Any, num_relations: int) -> Any:
    coordinates = tuple(_numbers(table, name, num_relations) for name in ("relation", "other"))
    shape = (num_relations, num_relations)
    return sparse.csr_array((_numbers(table, "entities"), coordinates), shape=shape)


def _numbers(table: Any, name: str, below: int | None = None) -> IntArray:
    """A column of whole numbers from 0 on, of ids below a number."""
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise ValueError(f"column {name!r} is {column.type} with {column.null_count} gaps, expected whole numbers")
    numbers: IntArray = column.to_numpy().astype(np.int64, copy=False)
    if len(numbers) and (numbers.min() < 0 or (below is not None and numbers.max() >= below)):
        limit = "" if below is None else f" and below {below}"
        extent = f"from {numbers.min()} to {numbers.max()}"
        raise ValueError(f"column {name!r} has numbers {extent}, expected 0 or more{limit}")
    return numbers
