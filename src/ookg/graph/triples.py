"""Triples of labels: reading them from files and frames, writing them, holding them as ids."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ookg.errors import FileError, InputError
from ookg.graph.ids import TripleIds, first_occurrences, triple_keys
from ookg.graph.rdf import RdfFile, open_rdf, rdf_syntax
from ookg.graph.reading import (
    LABEL_NAME,
    NO_COLUMNS,
    PARQUET_MAGIC,
    PARQUET_SUFFIXES,
    STANDARD_INPUT,
    SUFFIX_COMPRESSION,
    TRUTH_VALUES,
    ArrowStream,
    Frame,
    LabelReader,
    NoLines,
    ParquetFile,
    TextFile,
    TripleFormat,
    encoded_anew,
    file_compression,
    file_start,
    is_header,
    joined,
    read_pipe,
    read_standard_input,
    shown_row,
    text_delimiter,
)
from ookg.graph.vocabulary import Vocabulary, text_array
from ookg.system.display import counted
from ookg.system.files import atomic_write
from ookg.system.progress import PLAIN_SECONDS, tell
from ookg.types import BoolArray, IntArray

__all__ = [
    "Tasks",
    "TripleFormat",
    "TripleIds",
    "Triples",
    "as_triples",
    "first_occurrences",
    "read_tasks",
    "read_triples",
    "triple_keys",
    "write_tasks",
    "write_triples",
]

FEW = 1 << 12  # triples that are looked at before all are
AT_ONCE = 1 << 22  # up to this many triples, Arrow encodes all of them at once


@dataclass(frozen=True, eq=False)
class Triples:
    """A list of triples, as ids into two vocabularies of its own.

    ids: (triples, 3) head, relation, tail
    truth: (triples,) whether each triple is claimed true, where the source has a label column
    duplicates: how many repeated triples were dropped
    skipped: how many RDF triples were left out, by what their object is ("literal", "triple")
    first_alone: whether the first line of a text was taken for a triple, and shares no label with any other
    """

    ids: TripleIds
    entities: Vocabulary
    relations: Vocabulary
    truth: BoolArray | None = None
    source: str = "triples"
    duplicates: int = 0
    format: TripleFormat = field(default_factory=TripleFormat)
    skipped: Mapping[str, int] = field(default_factory=dict)
    first_alone: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        heads, relations, tails = self.columns()
        return iter(zip(heads.to_pylist(), relations.to_pylist(), tails.to_pylist(), strict=True))

    @property
    def notes(self) -> list[str]:
        """What reading left out, and what it may have misread, in words."""
        notes = [f"{counted(count, 'triple')} with a {kind} as object skipped" for kind, count in self.skipped.items()]
        if self.duplicates:
            notes.append(f"{counted(self.duplicates, 'duplicate triple')} dropped")
        if self.first_alone:
            first = ", ".join(next(iter(self.select(np.array([0])))))
            notes.append(
                f"the first triple, ({first}), shares no label with another; if it is a header, give `header=True`"
            )
        return notes

    def beside(self, entities: Vocabulary, relations: Vocabulary) -> Triples:
        """The same as triples beside a graph: one that shares a label with that one does not stand alone."""
        if not self.first_alone or (self.select(np.array([0])).encoded(entities, relations) < 0).all():
            return self
        return replace(self, first_alone=False)

    def columns(self) -> tuple[Any, Any, Any]:
        """Heads, relations and tails as Arrow arrays of labels."""
        return (
            self.entities.labels.take(pa.array(self.ids[:, 0])),
            self.relations.labels.take(pa.array(self.ids[:, 1])),
            self.entities.labels.take(pa.array(self.ids[:, 2])),
        )

    def select(self, rows: np.ndarray[Any, Any]) -> Triples:
        """Some of the triples (a mask or positions), with the vocabularies kept."""
        truth = None if self.truth is None else self.truth[rows]
        return Triples(self.ids[rows], self.entities, self.relations, truth, self.source)

    def encoded(self, entities: Vocabulary, relations: Vocabulary) -> TripleIds:
        """The triples as ids of other vocabularies, -1 where those lack a label."""
        entity_map, relation_map = entities.ids(self.entities.labels), relations.ids(self.relations.labels)
        ids = np.empty_like(self.ids)
        ids[:, 0] = entity_map[self.ids[:, 0]]
        ids[:, 1] = relation_map[self.ids[:, 1]]
        ids[:, 2] = entity_map[self.ids[:, 2]]
        return ids


TripleSource = str | Path | Triples | ArrowStream | Iterable[Sequence[str]]


def as_triples(source: TripleSource, *, keep_duplicates: bool = False, progress: bool = False) -> Triples:
    """Triples from whatever a caller has.

    A file, a `Triples`, a frame (pandas, polars, Arrow), or an iterable of (head, relation, tail[, label]).
    progress: say how far it is on standard error where it takes long
    """
    if isinstance(source, Triples):
        return source
    if isinstance(source, str | Path):
        return read_triples(source, keep_duplicates=keep_duplicates, progress=progress)
    if isinstance(source, ArrowStream):
        frame = Frame(source)
        return _from_batches(_checked(frame), frame.source, TripleFormat(), keep_duplicates, progress)
    if not hasattr(source, "__iter__"):
        remedy = "give a file, a frame of pandas, polars or Arrow (a lazy one collected), or rows"
        raise InputError(f"{type(source).__name__} is no source of triples; {remedy}")
    rows = [_row_of_text(row) for row in source]
    if not all(len(row) in (3, 4) and len(row) == len(rows[0]) for row in rows):
        raise _no_triple(next(row for row in rows if len(row) not in (3, 4) or len(row) != len(rows[0])))
    columns = [text_array(column).dictionary_encode() for column in zip(*rows, strict=True)] or NO_COLUMNS
    _check(columns, NoLines())
    return _from_batches(iter([columns]), "triples", TripleFormat(), keep_duplicates, progress)


def _row_of_text(row: Any) -> tuple[str, ...]:
    """A row that a caller gave, as text: numbers may be labels, and what is missing may not."""
    if isinstance(row, str | bytes | Mapping | Set) or not hasattr(row, "__iter__"):  # of a mapping that were its keys
        raise _no_triple(row)
    row = tuple(row)
    if not all(isinstance(value, str) or _is_there(value) for value in row):
        raise InputError(f"{shown_row(row)} has no value at one of its places; drop the row, or give a label there")
    return tuple(map(str, row))


def _is_there(value: Any) -> bool:
    """Whether a value is one: not None, NaN or what else frames have for nothing, nor bytes."""
    try:
        return value is not None and not isinstance(value, bytes) and bool(value == value)  # noqa: PLR0124 (NaN is not)
    except (TypeError, ValueError):  # pandas' NA, an array
        return False


def _no_triple(row: Any) -> InputError:
    return InputError(f"{shown_row(row)} is not a triple; give (head, relation, tail), or with a label in every row")


def read_triples(
    path: str | Path,
    form: TripleFormat | None = None,
    *,
    labels: Literal["optional", "required", "refused"] = "optional",
    keep_duplicates: bool = False,
    progress: bool = False,
) -> Triples:
    """Read triples from TSV, CSV, RDF (each plain, gzip, zstd or bzip2) or Parquet; TSV and CSV also from a pipe.

    path: the text "-" is standard input, which can be read once
    labels: whether a fourth column, the claim's label (1 true, 0 or -1 false), may, must or must not be there
    keep_duplicates: keep repeated triples, as for a list of claims; otherwise they are dropped and counted
    """
    form = form or TripleFormat()
    if path == STANDARD_INPUT:
        path = Path("standard input")
        source: LabelReader = _piped(path, read_standard_input(), form)
    else:
        path = Path(path)
        source = _open(path, form)
    batches = _checked(source)
    first = next(batches, NO_COLUMNS)
    if len(first) == 4 and labels == "refused":
        raise FileError(path, "has a label column, which has no place here", "select head,relation,tail with `columns`")
    if labels == "required" and not len(first[0]):
        raise FileError(path, "no triples", "give labelled ones: head, relation, tail and 1 or 0 (or -1)")
    if len(first) == 3 and labels == "required":
        raise FileError(path, "has no label column", "add a fourth column of 1 and 0 (or 1 and -1)")
    batches = chain([first], batches)
    if form.predicates is not None and not isinstance(source, RdfFile):  # RDF is sifted while it is read
        batches = _selected(batches, form.predicates)
    triples = _from_batches(batches, str(path), form, keep_duplicates, progress)
    if form.predicates is not None and not len(triples):  # most likely a misspelt selection
        some = ", ".join(form.predicates[:3]) + ", ..." * (len(form.predicates) > 3)
        remedy = "give predicates as they stand in the file, separated by commas, or a file with one per line"
        raise FileError(path, f"no triple has a selected predicate ({some})", remedy)
    if isinstance(source, RdfFile):
        return replace(triples, skipped=source.skipped)
    is_guess = isinstance(source, TextFile) and form.header is None and not source.header
    return replace(triples, first_alone=True) if is_guess and _first_alone(triples.ids) else triples


def _first_alone(ids: TripleIds) -> bool:
    """Whether the first triple shares no label with any other, where others share a relation."""
    (head, relation, tail), others = ids[0] if len(ids) else (0, 0, 0), ids[1:]
    for part in (others[:FEW], others):  # most have such a one among the first
        if np.isin(part[:, [0, 2]], [head, tail]).any() or (part[:, 1] == relation).any():
            return False
    return len(others) > len(np.unique(others[:FEW, 1]))


def _checked(source: LabelReader) -> Iterator[list[Any]]:
    """The batches of a source, in which no label is empty."""
    for columns in source.batches():
        _check(columns, source)
        yield columns


def _check(columns: list[Any], source: LabelReader | NoLines) -> None:
    for column in columns[:3]:
        if pc.any(pc.equal(pc.utf8_trim_whitespace(column.dictionary), "")).as_py():
            raise source.find_bad_value()
    if len(columns) == 4 and not {label.strip() for label in columns[3].dictionary.to_pylist()} <= set(TRUTH_VALUES):
        raise source.find_bad_value()


def _selected(batches: Iterator[list[Any]], predicates: tuple[str, ...]) -> Iterator[list[Any]]:
    """The rows over the selected relations."""
    wanted = pa.array(predicates, pa.string())
    for columns in batches:
        kept = pc.is_in(columns[1].dictionary, wanted).take(columns[1].indices)
        yield [encoded_anew(column.filter(kept)) for column in columns]


def write_triples(path: str | Path, triples: Triples) -> None:
    """Write triples as TSV, CSV or Parquet by the name's ending, compressed for `.gz` and `.zst`; no header in text."""
    path = Path(path)
    if rdf_syntax(path) is not None:
        raise FileError(path, "RDF is read and not written", "name it .tsv, .csv or .parquet")
    columns: list[Any] = list(triples.columns())
    names = ["head", "relation", "tail"]
    if triples.truth is not None:
        columns.append(pa.array(triples.truth.astype(np.int64)))
        names.append(LABEL_NAME)
    # Triples whose first would be read as a header get a header before it.
    header = bool(len(triples)) and is_header(next(iter(triples.select(np.array([0])))))
    if header and path.suffix not in PARQUET_SUFFIXES:
        named = zip(names, columns, strict=True)
        columns = [pa.concat_arrays([pa.array([name]), column.cast(pa.string())]) for name, column in named]
    table = pa.table(dict(zip(names, columns, strict=True)))
    with atomic_write(path) as temporary:
        if path.suffix in PARQUET_SUFFIXES:
            pq.write_table(table, temporary)
            return
        compression = SUFFIX_COMPRESSION.get(path.suffix)
        with ExitStack() as opened:
            # gzip of the standard library, with no time and no name in its header: the same triples give the same bytes
            sink: Any
            if compression == "gzip":
                sink = gzip.GzipFile("", "wb", mtime=0, fileobj=opened.enter_context(temporary.open("wb")))
            else:
                sink = pa.output_stream(str(temporary), compression=compression)
            opened.enter_context(sink)
            if text_delimiter(path) == ",":
                options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
                pa.csv.write_csv(table, sink, options)
            else:
                _write_tsv(path, table, sink)


def _write_tsv(path: Path, table: Any, sink: Any) -> None:
    for batch in table.to_batches(max_chunksize=1 << 18):
        columns = [column.cast(pa.string()) for column in batch.columns]
        for column in columns:
            bad = column.filter(pc.match_substring_regex(column, r"[\t\r\n]"))
            if len(bad):
                raise FileError(
                    path, f"label {bad[0].as_py()!r} has a tab or line break", "rename it, or write .csv or .parquet"
                )
        lines = pc.binary_join_element_wise(*columns, "\t").to_pylist()
        sink.write(("\n".join(lines) + "\n").encode())


@dataclass(frozen=True, eq=False)
class Tasks:
    """Triples about newcomers, in order; newcomer: (triples,) the end that each is about, as an id of its entities."""

    newcomer: IntArray
    triples: Triples

    def __len__(self) -> int:
        return len(self.newcomer)


TASK_COLUMNS = ("1", "2", "3", "4")  # newcomer, head, relation, tail


def read_tasks(path: str | Path) -> Tasks:
    """Read rows of newcomer, head, relation and tail; the newcomer is one of both ends. Repeated triples are dropped.

    path: TSV or CSV, also compressed, or Parquet
    """
    path = Path(path)
    source = _open(path, TripleFormat(columns=TASK_COLUMNS))
    newcomers, *columns = joined(source.batches())
    if len(columns) < 3:  # an empty file
        newcomers, *columns = joined(iter([[*NO_COLUMNS, NO_COLUMNS[0]]]))
    for name, column in zip(("newcomer", "head", "relation", "tail"), (newcomers, *columns), strict=True):
        is_empty = pc.equal(pc.utf8_trim_whitespace(column.cast(pa.string())), "").to_numpy(zero_copy_only=False)
        if is_empty.any():
            problem = f"row {int(np.argmax(is_empty)) + 1:,}: empty {name}"
            raise FileError(path, problem, "give newcomer, head, relation and tail in every row")
    triples = _from_columns(columns, str(path), TripleFormat(), True)
    codes, labels = _encode(newcomers)
    newcomer: IntArray = triples.entities.ids(labels)[codes].astype(np.int64)
    strange = np.flatnonzero((newcomer < 0) | (triples.ids[:, [0, 2]] != newcomer[:, None]).all(axis=1))
    if len(strange):
        row = int(strange[0])
        label, triple = labels[int(codes[row])].as_py(), next(iter(triples.select(strange[:1])))
        problem = f"row {row + 1:,}: newcomer {label!r} is neither head nor tail of ({', '.join(triple)})"
        raise FileError(path, problem, "give newcomer, head, relation and tail in this order")
    kept = first_occurrences(triples.ids, len(triples.entities), len(triples.relations))
    if kept is None:
        return Tasks(newcomer, triples)
    chosen = replace(triples, ids=triples.ids[kept], duplicates=len(newcomer) - len(kept))
    return Tasks(newcomer[kept], chosen)


def write_tasks(path: str | Path, tasks: Tasks) -> None:
    """Write rows of newcomer, head, relation and tail as TSV."""
    path = Path(path)
    triples = tasks.triples
    columns = [triples.entities.labels.take(pa.array(tasks.newcomer)), *triples.columns()]
    names = ["newcomer", "head", "relation", "tail"]
    if len(tasks) and is_header([column[0].as_py() for column in columns]):
        columns = [
            pa.concat_arrays([pa.array([name], column.type), column])
            for name, column in zip(names, columns, strict=True)
        ]
    with atomic_write(path) as temporary, pa.output_stream(str(temporary), compression=None) as sink:
        _write_tsv(path, pa.table(dict(zip(names, columns, strict=True))), sink)


def _open(path: Path, form: TripleFormat) -> LabelReader:
    start = file_start(path)
    if path.is_fifo():
        return _piped(path, read_pipe(path), form)
    if start == PARQUET_MAGIC:
        return ParquetFile(path, form)
    compression = file_compression(path, start)
    syntax = rdf_syntax(path)
    return TextFile(path, form, compression) if syntax is None else open_rdf(path, form, compression, syntax)


def _piped(path: Path, content: bytes, form: TripleFormat) -> TextFile:
    """What came through a pipe, which can be read only once."""
    start = content[:4]
    if start == PARQUET_MAGIC or path.suffix in PARQUET_SUFFIXES or rdf_syntax(path) is not None:
        raise FileError(path, "a pipe brings TSV or CSV alone", "write Parquet or RDF to a file and give that")
    return TextFile(path, form, file_compression(path, start), content)


def _from_batches(
    batches: Iterator[list[Any]], source: str, form: TripleFormat, keep_duplicates: bool, progress: bool
) -> Triples:
    """Give local ids to labels, without a Python object for any of them."""
    held: list[list[Any]] = []
    for columns in batches:
        held.append(columns)
        if sum(len(columns[0]) for columns in held) > AT_ONCE:
            return _from_many(chain(held, batches), source, form, keep_duplicates, progress)
    return _from_columns(joined(iter(held or [NO_COLUMNS])), source, form, keep_duplicates)


def _from_many(
    batches: Iterator[list[Any]], source: str, form: TripleFormat, keep_duplicates: bool, progress: bool
) -> Triples:
    """The same with no more in memory than the ids and each label once."""
    from ookg.graph.encoding import TripleEncoder  # takes a while to import

    encoder, begun = TripleEncoder(), time.monotonic()
    reported = begun
    for columns in batches:
        encoder.add(columns[:3], None if len(columns) == 3 else _truth(columns[3].indices, columns[3].dictionary))
        now = time.monotonic()
        if progress and now - reported >= PLAIN_SECONDS:
            reported = now
            rate = len(encoder) / (now - begun)
            tell(
                f"reading {source}: {len(encoder):,} triples, {encoder.num_entities:,} entities, {rate:,.0f} triples/s"
            )
    encoded = encoder.finish(keep_duplicates=keep_duplicates)
    entities, relations = Vocabulary.distinct(encoded.entities), Vocabulary.distinct(encoded.relations)
    return Triples(encoded.ids, entities, relations, encoded.truth, source, encoded.duplicates, form)


def _from_columns(columns: list[Any], source: str, form: TripleFormat, keep_duplicates: bool) -> Triples:
    """The same of few triples, by Arrow alone."""
    size = len(columns[0])
    ends, entity_labels = _encode(columns[0], columns[2])
    relations, relation_labels = _encode(columns[1])
    truth = None if len(columns) == 3 else _truth(*_encode(columns[3]))
    ids: TripleIds = np.stack([ends[:size], relations, ends[size:]], axis=1).astype(np.int64)
    kept = None if keep_duplicates else first_occurrences(ids, len(entity_labels), len(relation_labels), truth)
    dropped = 0 if kept is None else size - len(kept)
    if kept is not None:
        ids, truth = ids[kept], None if truth is None else truth[kept]
    entities, relation_names = Vocabulary.distinct(entity_labels), Vocabulary.distinct(relation_labels)
    return Triples(ids, entities, relation_names, truth, source, dropped, form)


def _truth(codes: Any, values: Any) -> BoolArray:
    meaning = np.array([TRUTH_VALUES[value.strip()] for value in values.to_pylist()], dtype=np.bool_)
    truth: BoolArray = meaning[np.asarray(codes)]
    return truth


def _encode(*columns: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """The codes of some columns, one after the other, and the distinct labels they share."""
    encoded = pa.chunked_array([chunk for column in columns for chunk in column.chunks]).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    return codes, encoded.chunk(0).dictionary  # every chunk has the same dictionary
