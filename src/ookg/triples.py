"""Triples of labels: reading them from files, writing them, holding them as ids."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ookg.errors import FileError, InputError
from ookg.files import atomic_write
from ookg.vocabulary import Vocabulary

Truth = np.ndarray[tuple[int], np.dtype[np.bool_]]
TripleIds = np.ndarray[tuple[int, int], np.dtype[np.int64]]

HEADER_NAMES = (("head", "relation", "tail"), ("subject", "predicate", "object"), ("h", "r", "t"), ("s", "p", "o"))
LABEL_NAME = "label"
TRUTH_VALUES = {"1": True, "0": False, "-1": False}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIX_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
PARQUET_SUFFIXES = {".parquet", ".pq"}


@dataclass(frozen=True)
class TripleFormat:
    """How a file of triples is laid out; what is None is found out from the file.

    columns: names (with a header, or Parquet) or positions from 1, of head, relation, tail and optionally the label.
    header: whether the first line is a header. Found out: it is one if it reads head, relation, tail or the like.
    delimiter: one character. Found out: a comma for `.csv`, else a tab.
    """

    columns: tuple[str, ...] | None = None
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and len(self.columns) not in (3, 4):
            raise InputError(f"{len(self.columns)} columns selected; select head,relation,tail or also the label")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InputError(f"delimiter {self.delimiter!r}; it must be one character")


@dataclass(frozen=True, eq=False)
class Triples:
    """A list of triples, as ids into two vocabularies of its own.

    ids: (triples, 3) head, relation, tail
    truth: (triples,) whether each triple is claimed true, where the source has a label column
    duplicates: how many repeated triples were dropped
    """

    ids: TripleIds
    entities: Vocabulary
    relations: Vocabulary
    truth: Truth | None = None
    source: str = "triples"
    duplicates: int = 0
    format: TripleFormat = field(default_factory=TripleFormat)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        heads, relations, tails = self.columns()
        return iter(zip(heads.to_pylist(), relations.to_pylist(), tails.to_pylist(), strict=True))

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


def as_triples(source: str | Path | Triples | Iterable[Sequence[str]], *, keep_duplicates: bool = False) -> Triples:
    """Triples from whatever a caller has: a file, a `Triples`, or an iterable of (head, relation, tail[, label])."""
    if isinstance(source, Triples):
        return source
    if isinstance(source, str | Path):
        return read_triples(source, keep_duplicates=keep_duplicates)
    rows = [tuple(map(str, row)) for row in source]
    widths = {len(row) for row in rows} or {3}
    if not widths <= {3, 4} or len(widths) > 1:
        bad = next(row for row in rows if len(row) not in (3, 4) or len(row) != len(rows[0]))
        raise InputError(f"{bad!r} is not a triple; give (head, relation, tail), or with a label in every row")
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)] or [pa.array([], pa.string())] * 3
    return _from_columns(columns, "triples", TripleFormat(), keep_duplicates, _NoLines())


def read_triples(
    path: str | Path,
    form: TripleFormat | None = None,
    *,
    labels: Literal["optional", "required", "refused"] = "optional",
    keep_duplicates: bool = False,
) -> Triples:
    """Read triples from TSV, CSV (plain, gzip or zstd) or Parquet.

    labels: whether a fourth column, the claim's label (1 true, 0 or -1 false), may, must or must not be there
    keep_duplicates: keep repeated triples, as for a list of claims; otherwise they are dropped and counted
    """
    path, form = Path(path), form or TripleFormat()
    source = _open(path, form)
    columns = source.read()
    if len(columns) == 4 and labels == "refused":
        raise FileError(path, "has a label column, which has no place here", "select head,relation,tail with --columns")
    if len(columns) == 3 and labels == "required":
        raise FileError(path, "has no label column", "add a fourth column of 1 and 0 (or 1 and -1)")
    return _from_columns(columns, str(path), form, keep_duplicates, source)


def write_triples(path: str | Path, triples: Triples) -> None:
    """Write triples as TSV, CSV or Parquet by the name's ending, compressed for `.gz` and `.zst`; no header in text."""
    path = Path(path)
    columns: list[Any] = list(triples.columns())
    names = ["head", "relation", "tail"]
    if triples.truth is not None:
        columns.append(pa.array(triples.truth.astype(np.int64)))
        names.append(LABEL_NAME)
    table = pa.table(dict(zip(names, columns, strict=True)))
    with atomic_write(path) as temporary:
        if path.suffix in PARQUET_SUFFIXES:
            pq.write_table(table, temporary)
            return
        compression = SUFFIX_COMPRESSION.get(path.suffix)
        # gzip of the standard library, with no time in its header: the same triples give the same bytes
        sink: Any
        if compression == "gzip":
            sink = gzip.GzipFile(temporary, "wb", mtime=0)
        else:
            sink = pa.output_stream(str(temporary), compression=compression)
        with sink:
            if _delimiter(path) == ",":
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
                raise FileError(path, f"label {bad[0].as_py()!r} has a tab or line break", "write .csv or .parquet")
        lines = pc.binary_join_element_wise(*columns, "\t").to_pylist()
        sink.write(("\n".join(lines) + "\n").encode())


def _delimiter(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    return "," if name.endswith(".csv") else "\t"


def _open(path: Path, form: TripleFormat) -> _TextFile | _ParquetFile:
    if path.is_dir():
        raise FileError(path, "is a folder, not a file of triples", "name one file, such as train.txt")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError:
        raise FileError(path, "no such file", "check the path") from None
    except OSError as error:
        raise FileError(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from error
    if start == b"PAR1":
        return _ParquetFile(path, form)
    if path.suffix in PARQUET_SUFFIXES:
        raise FileError(path, "is not a Parquet file", "write it again, or name it for what it is (.tsv, .csv)")
    compression = next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)
    if compression is None and path.suffix in SUFFIX_COMPRESSION and start:
        raise FileError(path, f"is not {SUFFIX_COMPRESSION[path.suffix]} data", "compress it again or drop the suffix")
    return _TextFile(path, form, compression)


class _NoLines:
    """Triples that come from no file: a bad value is named by its row."""

    def find_bad_value(self) -> FileError:
        return FileError("triples", "an empty label or a label value other than 1, 0, -1", "mend the row")


class _TextFile:
    """A TSV or CSV file, read by Arrow; the exact line of an error is searched only when there is one."""

    def __init__(self, path: Path, form: TripleFormat, compression: str | None) -> None:
        self.path, self.compression = path, compression
        self.delimiter = form.delimiter or _delimiter(path)
        # Quotes are text in TSV ("the so-called "Big" one") and have a meaning in CSV.
        self.quote = '"' if self.delimiter == "," else None
        first_line, first = self._first_row()
        self.header = self._is_header(first) if form.header is None else form.header
        self.skip = first_line if self.header else first_line - 1
        self.width = len(first)
        self.columns = self._choose(form, first) if first else []

    def _stream(self) -> Any:
        return pa.input_stream(str(self.path), compression=self.compression)

    def _lines(self) -> Iterator[tuple[int, str]]:
        with self._stream() as stream:
            number, rest = 0, b""
            while block := stream.read(1 << 20):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    number += 1
                    yield number, self._decode(line, number)
            if rest:
                yield number + 1, self._decode(rest, number + 1)

    def _decode(self, line: bytes, number: int) -> str:
        if b"\0" in line:
            raise FileError(self.path, "binary data, not text", "give TSV, CSV or Parquet", number)
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            value = line[error.start : error.start + 8]
            remedy = "convert it to UTF-8, or give TSV, CSV or Parquet"
            raise FileError(self.path, f"not UTF-8 text at byte {error.start}: {value!r}", remedy, number) from None

    def _split(self, line: str) -> list[str]:
        if self.quote is None:
            return line.split(self.delimiter)
        return next(csv.reader([line], delimiter=self.delimiter), [])

    def _first_row(self) -> tuple[int, list[str]]:
        try:
            return next(((number, self._split(line)) for number, line in self._lines() if line), (1, []))
        except OSError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> FileError:
        return FileError(self.path, f"damaged {self.compression or 'text'} data ({error})", "fetch or write it again")

    @staticmethod
    def _is_header(first: list[str]) -> bool:
        names = [name.strip().lower() for name in first]
        return any(set(triple) <= set(names) for triple in HEADER_NAMES)

    def _choose(self, form: TripleFormat, first: list[str]) -> list[int]:
        if form.columns is not None:
            return [self._column(name, first) for name in form.columns]
        if self.header:
            names = [name.strip().lower() for name in first]
            for triple in HEADER_NAMES:
                if set(triple) <= set(names):
                    chosen = [names.index(name) for name in triple]
                    return [*chosen, names.index(LABEL_NAME)] if LABEL_NAME in names else chosen
        if len(first) in (3, 4):
            return list(range(len(first)))
        name = {"\t": "tab", ",": "comma"}.get(self.delimiter, repr(self.delimiter))
        problem = f"{len(first)} column{'s' * (len(first) != 1)} separated by {name}: {_shown(first)}"
        remedy = "expected head, relation, tail (and a label); select with --columns or set --delimiter"
        raise FileError(self.path, problem, remedy, self.skip + (not self.header))

    def _column(self, name: str, first: list[str]) -> int:
        if self.header and name in first:
            return first.index(name)
        if name.isdecimal() and 1 <= int(name) <= len(first):
            return int(name) - 1
        known = f"its columns are {', '.join(first)}" if self.header else f"it has columns 1 to {len(first)}"
        raise FileError(self.path, f"no column {name!r}", known)

    def read(self) -> list[Any]:
        names = [f"{position}" for position in range(self.width)]
        if not names:
            return [pa.array([], pa.string())] * 3
        chosen = [names[position] for position in self.columns]
        try:
            table = pa.csv.read_csv(
                self._stream(),
                pa.csv.ReadOptions(column_names=names, skip_rows=self.skip, block_size=8 << 20),
                pa.csv.ParseOptions(delimiter=self.delimiter, quote_char=self.quote or False, double_quote=True),
                pa.csv.ConvertOptions(
                    include_columns=list(dict.fromkeys(chosen)),
                    column_types=dict.fromkeys(chosen, pa.string()),
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except (pa.ArrowInvalid, OSError) as error:
            if "Empty CSV file" in str(error):
                return [pa.array([], pa.string())] * 3
            raise self._find_bad_line(error) from error
        return [table.column(name) for name in chosen]

    def _find_bad_line(self, error: Exception) -> FileError:
        try:
            for number, line in self._lines():
                if number <= self.skip or not line:
                    continue
                row = self._split(line)
                if len(row) != self.width:
                    problem = f"{len(row)} column{'s' * (len(row) != 1)} instead of {self.width}: {_shown(row)}"
                    remedy = "give every line head, relation and tail" if len(row) < self.width else "mend the line"
                    return FileError(self.path, problem, remedy, number)
        except FileError as found:
            return found
        except (OSError, EOFError) as damage:
            return self._damaged(damage)
        return FileError(self.path, f"cannot be parsed ({error})", "check its quoting and line ends")

    def find_bad_value(self) -> FileError:
        for number, line in self._lines():
            if number <= self.skip or not line:
                continue
            row = self._split(line)
            problem = _bad_value([row[position] for position in self.columns])
            if problem:
                return FileError(self.path, problem[0], problem[1], number)
        return FileError(self.path, "an empty label or a wrong label value", "mend the file")


class _ParquetFile:
    """A Parquet file; its columns have names, and its rows count from 1."""

    def __init__(self, path: Path, form: TripleFormat) -> None:
        self.path, self.form = path, form
        self.table: Any = None

    def read(self) -> list[Any]:
        try:
            names = pq.read_schema(self.path).names
            chosen = self._choose(names)
            self.table = pq.read_table(self.path, columns=chosen)
            columns = [self._text(self.table.column(name), name) for name in chosen]
        except pa.ArrowException as error:
            raise FileError(self.path, f"damaged Parquet data ({error})", "write it again") from error
        for name, column in zip(chosen, columns, strict=True):
            if column.null_count:
                row = int(np.flatnonzero(column.is_null().to_numpy())[0]) + 1
                raise FileError(self.path, f"no value in column {name!r}", "drop or fill the row", row)
        self.columns = columns
        return columns

    def _choose(self, names: list[str]) -> list[str]:
        if self.form.columns is not None:
            chosen = []
            for name in self.form.columns:
                if name not in names and not (name.isdecimal() and 1 <= int(name) <= len(names)):
                    raise FileError(self.path, f"no column {name!r}", f"its columns are {', '.join(names)}")
                chosen.append(name if name in names else names[int(name) - 1])
            return chosen
        lowered = [name.lower() for name in names]
        for triple in HEADER_NAMES:
            if set(triple) <= set(lowered):
                wanted = [*triple, LABEL_NAME] if LABEL_NAME in lowered else triple
                return [names[lowered.index(name)] for name in wanted]
        if len(names) == 3:
            return names
        raise FileError(self.path, f"columns {', '.join(names)}", "select head, relation, tail with --columns")

    def _text(self, column: Any, name: str) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        if not any(fits(column.type) for fits in kinds):
            raise FileError(self.path, f"column {name!r} is {column.type}", "give text or whole numbers")
        return column.cast(pa.string())

    def find_bad_value(self) -> FileError:
        for number, row in enumerate(zip(*(column.to_pylist() for column in self.columns), strict=True), start=1):
            problem = _bad_value(list(row))
            if problem:
                return FileError(self.path, problem[0], problem[1], number)
        return FileError(self.path, "an empty label or a wrong label value", "mend the file")


def _bad_value(row: list[str]) -> tuple[str, str] | None:
    for name, value in zip(("head", "relation", "tail"), row, strict=False):
        if not value.strip():
            return f"empty {name} in {_shown(row)}", "give every triple a head, a relation and a tail"
    if len(row) == 4 and row[3].strip() not in TRUTH_VALUES:
        return f"label value {row[3]!r}", "use 1 for true and 0 or -1 for false"
    return None


def _shown(row: list[str]) -> str:
    text = repr(row)
    return text if len(text) <= 120 else text[:117] + "..."


def _from_columns(columns: list[Any], source: str, form: TripleFormat, keep_duplicates: bool, lines: Any) -> Triples:
    """Give local ids to the columns' labels, without a Python loop over the triples."""
    size = len(columns[0])
    ends, entity_labels = _encode(columns[0], columns[2])
    relations, relation_labels = _encode(columns[1])
    for labels in (entity_labels, relation_labels):
        if pc.any(pc.equal(pc.utf8_trim_whitespace(labels), "")).as_py():
            raise lines.find_bad_value()
    truth: Truth | None = None
    if len(columns) == 4:
        codes, values = _encode(columns[3])
        meaning = [TRUTH_VALUES.get(value.strip()) for value in values.to_pylist()]
        if None in meaning:
            raise lines.find_bad_value()
        truth = np.asarray(meaning, dtype=np.bool_)[codes]
    ids: TripleIds = np.stack([ends[:size], relations, ends[size:]], axis=1).astype(np.int64)
    kept = None if keep_duplicates else first_occurrences(ids, len(entity_labels), len(relation_labels), truth)
    dropped = 0 if kept is None else size - len(kept)
    if kept is not None:
        ids, truth = ids[kept], None if truth is None else truth[kept]
    entities, relation_names = Vocabulary.distinct(entity_labels), Vocabulary.distinct(relation_labels)
    return Triples(ids, entities, relation_names, truth, source, dropped, form)


def _encode(*columns: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """The codes of some columns, one after the other, and the distinct labels they share."""
    chunks = [chunk for column in columns for chunk in getattr(column, "chunks", [column])]
    encoded = pa.chunked_array(chunks, pa.string()).dictionary_encode()
    if encoded.num_chunks == 0:
        return np.empty(0, np.int64), pa.array([], pa.string())
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    return codes, encoded.chunk(0).dictionary  # every chunk has the same dictionary


def triple_keys(ids: TripleIds, num_entities: int, num_relations: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """One number a triple: (head · relations + relation) · entities + tail."""
    keys: np.ndarray[tuple[int], np.dtype[np.int64]] = (ids[:, 0] * num_relations + ids[:, 1]) * num_entities
    return keys + ids[:, 2]


def first_occurrences(
    ids: TripleIds, num_entities: int, num_relations: int, truth: Truth | None = None
) -> np.ndarray[Any, Any] | None:
    """Positions of each distinct triple's first occurrence, in order; None where no triple repeats."""
    keys = triple_keys(ids, max(num_entities, 1), max(num_relations, 1))
    if truth is not None:
        keys = keys * 2 + truth
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.sort(order[first])
