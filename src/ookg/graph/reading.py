"""The columns of a file or frame of triples: text, Parquet, and whatever speaks Arrow. RDF has a module of its own.

Files of names are read in the same way (`graph.names`).
"""

from __future__ import annotations

import codecs
import csv
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import types

from ookg.errors import FileError, InputError
from ookg.system.limits import LINE_BYTES, BoundedStream, check_expansion, check_line

HEADER_NAMES = (("head", "relation", "tail"), ("subject", "predicate", "object"), ("h", "r", "t"), ("s", "p", "o"))
LABEL_NAME = "label"
TRUTH_VALUES = {"1": True, "0": False, "-1": False}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
SUFFIX_COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
PARQUET_SUFFIXES = {".parquet", ".pq"}
PARQUET_MAGIC = b"PAR1"
csv.field_size_limit((1 << 31) - 1)  # a label may be long
LINE_BLOCK_BYTES = 1 << 20
BATCH_ROWS = 1 << 20  # of Parquet; with fewer, the dictionary of all of a file's labels is taken apart again and again
VALUE_BYTES = 8  # what a value takes at least: an id, or a number
ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
NO_COLUMNS = [pa.array([], ENCODED_TEXT)] * 3
LABEL_TYPES = (types.is_boolean, types.is_integer, types.is_string, types.is_large_string, types.is_string_view)
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
STANDARD_INPUT = "-"
_inputs_read: list[Any] = []  # the standard input that was read to its end, if any


@dataclass(frozen=True)
class TripleFormat:
    """How a file of triples is laid out; what is None is detected from the file.

    columns: names (with a header, or Parquet) or positions from 1, of head, relation, tail and optionally the label.
    header: whether the first line is a header. Detected: it is one if it has head, relation, tail (or subject,
        predicate, object).
    delimiter: one character. Detected: a comma for `.csv`, else a tab.
    predicates: the relations to read, as they stand in the file; all of them for None.
    literals: what becomes of RDF triples whose object is a literal; kept ones are labels as N-Triples writes them.
    """

    columns: tuple[str, ...] | None = None
    header: bool | None = None
    delimiter: str | None = None
    predicates: tuple[str, ...] | None = None
    literals: Literal["skip", "keep"] = "skip"

    def __post_init__(self) -> None:
        if self.columns is not None and len(self.columns) not in (3, 4):
            raise InputError(f"{len(self.columns)} columns selected; select head,relation,tail or also the label")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise InputError(f"columns {','.join(self.columns)} selected; each column has one part")
        if self.delimiter is not None and (len(self.delimiter) != 1 or not self.delimiter.isascii()):
            raise InputError(f"delimiter {self.delimiter!r}; it must be one ASCII character")
        if self.predicates is not None and not self.predicates:
            raise InputError("no predicate selected; name one or more, or leave the selection out")


@runtime_checkable
class ArrowStream(Protocol):
    """A frame of any library that hands its columns over by Arrow's C interface: pandas, polars, Arrow itself."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class LabelReader(Protocol):
    """Something that triples are read from."""

    def batches(self) -> Iterator[list[Any]]:
        """Columns of labels, many rows at a time: head, relation, tail and where there is one the claim's label.

        They are dictionary arrays of text whose dictionaries hold what occurs, in that order.
        """

    def find_bad_value(self) -> FileError:
        """The error that names the first empty label or wrong label value; it is in the batch that came last."""


def is_header(row: Sequence[str]) -> bool:
    """Whether a file's first row is taken for a header: it has whole words; h, r, t and s, p, o may be a triple."""
    names = {name.strip().lower() for name in row}
    return any(set(words) <= names for words in HEADER_NAMES[:2])


def is_position(text: str, columns: int) -> bool:
    """Whether a text is the number of one of the columns, from 1."""
    return text.isdecimal() and len(text) < 20 and 1 <= int(text) <= columns


def bare_name(path: Path) -> str:
    """The file's name in lower case, without the suffix of a compression."""
    name = path.name.lower()
    for suffix in SUFFIX_COMPRESSION:
        name = name.removesuffix(suffix)
    return name


def file_compression(path: Path, start: bytes) -> str | None:
    """How a file is compressed, by its first bytes; a name that says otherwise is an error."""
    compression = next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)
    if compression is None and path.suffix in SUFFIX_COMPRESSION and start:
        raise FileError(path, f"is not {SUFFIX_COMPRESSION[path.suffix]} data", "compress it again or drop the suffix")
    return compression


def split_lines(stream: Any, path: Path) -> Iterator[bytes]:
    """The lines of a stream of bytes, without their line feeds; one that is too long is an error."""
    number, size, rest = 1, 0, []  # the pieces of a line that is not over yet: joined once, however many there are
    while block := stream.read(LINE_BLOCK_BYTES):
        first, *others = block.split(b"\n")
        rest.append(first)
        size += len(first)
        check_line(path, size, number)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            number, size, rest = number + len(others), len(others[-1]), [others[-1]]
    if size:
        yield b"".join(rest)


def text_delimiter(path: Path) -> str:
    """What separates columns, by the file's name."""
    return "," if bare_name(path).endswith(".csv") else "\t"


def read_standard_input() -> bytes:
    """All that comes on standard input; asking twice is refused, as the second time there would be nothing."""
    place, stream = "standard input", sys.stdin
    if stream is None or stream.isatty():
        raise FileError(place, "nothing is piped in", "pipe triples in, or name a file")
    if stream in _inputs_read:
        raise FileError(place, "is read already", "give - for one input alone")
    _inputs_read[:] = [stream]
    return stream.buffer.read()


def file_start(path: Path, content: str = "triples") -> bytes:
    """The first bytes of a file, which say what it is; what is no file is refused. None are taken from a pipe.

    content: what the file should hold, for the message
    """
    if path.is_dir():
        example = ", such as train.txt" if content == "triples" else ""
        raise FileError(path, f"is a folder, not a file of {content}", f"name one file{example}")
    if path.exists() and not path.is_file() and not path.is_fifo():
        raise FileError(path, f"is a device, not a file of {content}", "give a file or a pipe")
    try:
        if path.is_fifo():
            return b""
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError:
        raise FileError(path, "no such file", "check the path") from None
    except OSError as error:
        raise unreadable(path, error) from error
    if start != PARQUET_MAGIC and path.suffix in PARQUET_SUFFIXES:
        raise FileError(path, "is not a Parquet file", "write it again, or name it for what it is (.tsv, .csv)")
    return start


def read_pipe(path: Path) -> bytes:
    """All that comes through a named pipe."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> FileError:
    """The error for a file that the system does not let us read."""
    return FileError(path, f"cannot be read ({error.strerror})", "check the path and its permissions")


class NoLines:
    """Rows that a caller gave."""

    def find_bad_value(self) -> FileError:
        """The one error there can be."""
        return FileError("triples", "an empty label or a label value other than 1, 0, -1", "mend the row")


class TextFile:
    """A TSV or CSV file, read by Arrow; the exact line of an error is looked for only when there is one.

    content: what a pipe gave, which can be read only once
    row_name, row_parts: what a line is, for messages
    """

    row_name, row_parts = "triple", "head, relation and tail"

    def __init__(self, path: Path, form: TripleFormat, compression: str | None, content: bytes | None = None) -> None:
        self.path, self.compression, self.content = path, compression, content
        self.delimiter = form.delimiter or text_delimiter(path)
        # Quotes are text in TSV ("the so-called "Big" one") and have a meaning in CSV.
        self.quote = '"' if self.delimiter == "," else None
        first_line, first = self._first_row()
        self.header = self.is_header(first) if form.header is None else form.header
        self.skip = first_line if self.header else first_line - 1
        self.width = len(first)
        self.columns = self.choose(form, first) if first else []

    def is_header(self, first: list[str]) -> bool:
        """Whether the first row is a header."""
        return is_header(first)

    def _stream(self) -> Any:
        source = str(self.path) if self.content is None else pa.py_buffer(self.content)
        stream = pa.input_stream(source, compression=self.compression)
        if self.compression is None:
            return stream
        return BoundedStream(stream, self.path, self.path.stat().st_size if self.content is None else len(self.content))

    def _lines(self) -> Iterator[tuple[int, str]]:
        with self._stream() as stream:
            for number, line in enumerate(split_lines(stream, self.path), start=1):
                yield number, self._decode(line, number)

    def _decode(self, line: bytes, number: int) -> str:
        if b"\0" in line:
            if number == 1 and line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise FileError(self.path, "UTF-16 text", "convert it to UTF-8", number)
            raise FileError(self.path, "binary data, not text", "give TSV, CSV or Parquet", number)
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            value = line[error.start : error.start + 8]
            remedy = "convert it to UTF-8, or give TSV, CSV or Parquet"
            raise FileError(self.path, f"not UTF-8 text at byte {error.start}: {value!r}", remedy, number) from None
        if "\r" in text:
            place = text.index("\r")
            problem = f"a carriage return inside the line, after {text[max(0, place - 20) : place]!r}"
            raise FileError(self.path, problem, "end every line with a newline (\\n or \\r\\n)", number)
        return text

    def _split(self, number: int, line: str) -> list[str]:
        if self.quote is None:
            return line.split(self.delimiter)
        try:
            return next(csv.reader([line], delimiter=self.delimiter, strict=True), [])
        except csv.Error as error:
            if "end of data" in str(error):
                remedy = f"write each {self.row_name} on one line"
                raise FileError(self.path, "a quote that the line does not close", remedy, number) from None
        return next(csv.reader([line], delimiter=self.delimiter), [])

    def _first_row(self) -> tuple[int, list[str]]:
        try:
            return next(((number, self._split(number, line)) for number, line in self._lines() if line), (1, []))
        except OSError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> FileError:
        return FileError(self.path, f"damaged {self.compression or 'text'} data ({error})", "fetch or write it again")

    def choose(self, form: TripleFormat, first: list[str]) -> list[int]:
        """The places of the columns to read."""
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
        raise self.wrong_columns(
            first, "expected head, relation, tail (and a label); select with `columns` or set `delimiter`"
        )

    def wrong_columns(self, first: list[str], remedy: str) -> FileError:
        """The error for a first row that has too many columns, or too few."""
        name = {"\t": "tab", ",": "comma"}.get(self.delimiter, repr(self.delimiter))
        problem = f"{len(first)} column{'s' * (len(first) != 1)} separated by {name}: {shown_row(first)}"
        return FileError(self.path, problem, remedy, self.skip + (not self.header))

    def _column(self, name: str, first: list[str]) -> int:
        if self.header and name in first:
            return first.index(name)
        if is_position(name, len(first)):
            return int(name) - 1
        known = f"its columns are {', '.join(first)}" if self.header else f"it has columns 1 to {len(first)}"
        raise FileError(self.path, f"no column {name!r}", known)

    def read(self) -> list[Any]:
        """The chosen columns as dictionary arrays of text."""
        return joined(self.batches())

    def batches(self) -> Iterator[list[Any]]:
        """The same, block by block."""
        names = [f"{position}" for position in range(self.width)]
        if not names:
            yield NO_COLUMNS
            return
        chosen = [names[position] for position in self.columns]
        block_size = min(max(LINE_BYTES.default, LINE_BYTES.value), (1 << 31) - 1)  # a line has to fit into a block
        try:
            reader = pa.csv.open_csv(
                self._stream(),
                pa.csv.ReadOptions(column_names=names, skip_rows=self.skip, block_size=block_size),
                pa.csv.ParseOptions(delimiter=self.delimiter, quote_char=self.quote or False, double_quote=True),
                pa.csv.ConvertOptions(
                    include_columns=list(dict.fromkeys(chosen)),
                    column_types=dict.fromkeys(chosen, pa.string()),
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
            is_empty = True
            for batch in reader:
                is_empty = False
                columns = [_labels(batch.column(name)) for name in chosen]
                if self.quote and any(_has_line_break(column.dictionary) for column in columns):
                    raise self._find_bad_line(ValueError("a line break inside quotes"))
                yield columns
            if is_empty:
                yield NO_COLUMNS
        except (pa.ArrowInvalid, OSError) as error:
            if "Empty CSV file" not in str(error):
                raise self._find_bad_line(error) from error
            yield NO_COLUMNS

    def _find_bad_line(self, error: Exception) -> FileError:
        try:
            for number, line in self._lines():
                if number <= self.skip or not line:
                    continue
                row = self._split(number, line)
                if len(row) != self.width:
                    problem = f"{len(row)} column{'s' * (len(row) != 1)} instead of {self.width}: {shown_row(row)}"
                    remedy = f"give every line {self.row_parts}" if len(row) < self.width else "mend the line"
                    return FileError(self.path, problem, remedy, number)
        except FileError as bad_line:
            return bad_line
        except (OSError, EOFError) as damage:
            return self._damaged(damage)
        return FileError(self.path, f"cannot be parsed ({error})", "check its quoting and line ends")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The chosen columns line by line, with the lines' numbers: slow, to look for what is wrong."""
        for number, line in self._lines():
            if number > self.skip and line:
                row = self._split(number, line)
                yield number, [row[position] for position in self.columns]

    def find_bad_value(self) -> FileError:
        """The first line with one."""
        for number, row in self.rows():
            problem = _bad_value(row)
            if problem:
                return FileError(self.path, problem[0], problem[1], number)
        return FileError(self.path, "an empty label or a wrong label value", "mend the file")


class NamedColumns:
    """Columns that have names: a Parquet file, or a frame."""

    def __init__(self, source: str, form: TripleFormat, row_mark: str) -> None:
        """columns: those that were read last; rows_before: how many rows came before them."""
        self.source, self.form, self.row_mark = source, form, row_mark
        self.columns: list[Any] = []
        self.rows_before = 0

    def read(self) -> list[Any]:
        """All of the chosen columns as dictionary arrays of text."""
        self.columns, self.rows_before = joined(self.batches()), 0
        return self.columns

    def batches(self) -> Iterator[list[Any]]:
        """The same, many rows at a time."""
        raise NotImplementedError

    def texts(self, batches: Iterator[Any], names: list[str]) -> Iterator[list[Any]]:
        """Columns of Arrow's batches as dictionary arrays of text; a missing value is an error."""
        self.rows_before = 0
        for batch in batches:
            self.columns = [self.text(batch.column(name), name) for name in names]
            yield self.columns
            self.rows_before += len(batch)

    def choose(self, names: list[str]) -> list[str]:
        """The names of the head, the relation, the tail and where there is one the label."""
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise FileError(self.source, f"two columns are called {repeated!r}", "rename one")
        if self.form.columns is not None:
            chosen = []
            for name in self.form.columns:
                if name not in names and not is_position(name, len(names)):
                    raise FileError(self.source, f"no column {name!r}", f"its columns are {', '.join(names)}")
                chosen.append(name if name in names else names[int(name) - 1])
            return chosen
        lowered = [name.lower() for name in names]
        for triple in HEADER_NAMES:
            if set(triple) <= set(lowered):
                wanted = [*triple, LABEL_NAME] if LABEL_NAME in lowered else triple
                return [names[lowered.index(name)] for name in wanted]
        own = [name for name in names if not PANDAS_INDEX.fullmatch(name)]
        if len(own) == 3 or (len(own) == 4 and own[3].lower() == LABEL_NAME):
            return own
        remedy = "name three of them head, relation, tail, or select them with `columns`"
        raise FileError(self.source, f"columns {', '.join(names)}", remedy)

    def text(self, column: Any, name: str) -> Any:
        """A column of a batch as a dictionary array of text."""
        if column.null_count:
            raise self._missing(column, name)
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if len(column) and not any(
            fits(kind) for fits in LABEL_TYPES
        ):  # an empty one is of no type that means anything
            raise self.wrong_type(name, column.type)
        text = _labels(column) if len(column) else pa.array([], ENCODED_TEXT)
        if text.null_count:  # of a dictionary that has one
            raise self._missing(text, name)
        return text

    def wrong_type(self, name: str, kind: Any) -> FileError:
        """The error for a column of neither text nor whole numbers."""
        return FileError(self.source, f"column {name!r} is {kind}", "give text or whole numbers")

    def _missing(self, column: Any, name: str) -> FileError:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) + 1
        return self.row_error(f"no value in column {name!r}", "drop or fill the row", row)

    def row_error(self, problem: str, remedy: str, row: int) -> FileError:
        """The error for a row, counted from 1."""
        return FileError(f"{self.source}{self.row_mark}{self.rows_before + row}", problem, remedy)

    def find_bad_value(self) -> FileError:
        """The first row with one, from 1."""
        for number, row in enumerate(zip(*self.columns, strict=True), start=1):
            problem = _bad_value([value.as_py() for value in row])
            if problem:
                return self.row_error(*problem, number)
        return FileError(self.source, "an empty label or a wrong label value", "mend the row")


def joined(batches: Iterator[list[Any]]) -> list[Any]:
    """The columns of batches, each a chunked dictionary array."""
    return [pa.chunked_array(chunks, ENCODED_TEXT) for chunks in zip(*batches, strict=True)]


def read_parquet(path: Path, columns: list[str]) -> Any:
    """Columns of a Parquet file as an Arrow table; the memory they take is bounded by the size of the file."""
    return pa.Table.from_batches(parquet_batches(path, columns))


def parquet_batches(path: Path, columns: list[str], *, encoded: bool = False) -> Iterator[Any]:
    """Columns of a Parquet file, many rows at a time; one batch of no rows if there are none.

    encoded: text as dictionary arrays, so that a label that is repeated takes no room again
    """
    stored, unpacked, is_empty = path.stat().st_size, 0, True
    with pq.ParquetFile(path, read_dictionary=columns if encoded else None) as file:
        values = _count_values(file, columns)
        check_expansion(path, stored, values * VALUE_BYTES, f"{values:,} values")
        for batch in file.iter_batches(BATCH_ROWS, columns=columns):
            unpacked += batch.nbytes
            check_expansion(path, stored, unpacked)
            yield batch
            is_empty = False
        if is_empty:
            yield pa.RecordBatch.from_pylist([], pa.schema([file.schema_arrow.field(name) for name in columns]))


def _count_values(file: Any, columns: list[str]) -> int:
    """How many values some columns have, those in lists counted one by one."""
    metadata, schema = file.metadata, file.schema_arrow
    if not any(types.is_nested(schema.field(name).type) for name in columns):
        # Without a look at the columns' own descriptions: Arrow ends the process where one of them is damaged.
        return int(metadata.num_rows) * len(columns)
    chunks = (
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    )
    return sum(
        chunk.num_values
        for chunk in chunks
        if any(chunk.path_in_schema == name or chunk.path_in_schema.startswith(f"{name}.") for name in columns)
    )


class ParquetFile(NamedColumns):
    """A Parquet file; its rows count from 1."""

    def __init__(self, path: Path, form: TripleFormat) -> None:
        super().__init__(str(path), form, ":")
        self.path = path

    def batches(self) -> Iterator[list[Any]]:
        """Only the chosen columns."""
        try:
            schema = pq.read_schema(self.path)
            chosen = self.choose(schema.names)
            for name in chosen:
                if types.is_nested(schema.field(name).type):  # a row of it can be of any size: it is not even read
                    raise self.wrong_type(name, schema.field(name).type)
            yield from self.texts(parquet_batches(self.path, chosen, encoded=True), chosen)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: names of columns
            reason = str(error).splitlines()[0]
            raise FileError(self.path, f"damaged Parquet data ({reason})", "write it again") from error


class Frame(NamedColumns):
    """A pandas or polars frame, an Arrow table, or anything else with `__arrow_c_stream__`."""

    def __init__(self, frame: ArrowStream) -> None:
        super().__init__(type(frame).__name__, TripleFormat(), ", row ")
        self.frame = frame

    def batches(self) -> Iterator[list[Any]]:
        """The frame's columns as Arrow sees them."""
        try:
            reader = pa.RecordBatchReader.from_stream(self.frame)
            names, is_empty = self.choose(reader.schema.names), True
            for columns in self.texts(reader, names):
                yield columns
                is_empty = False
            if is_empty:
                yield [pa.array([], ENCODED_TEXT)] * len(names)
        except FileError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise FileError(
                self.source, f"cannot be read ({reason})", "give columns of text or whole numbers"
            ) from error


def encoded_anew(column: Any) -> Any:
    """A dictionary array with just the labels that it uses, each once, in the order in which they first occur."""
    used = column.indices.dictionary_encode()
    labels = _as_text(column.dictionary).take(used.dictionary).dictionary_encode()
    return pa.DictionaryArray.from_arrays(labels.indices.take(used.indices), labels.dictionary)


def _labels(chunk: Any) -> Any:
    """Text or whole numbers of any kind as a dictionary array of text."""
    if types.is_dictionary(chunk.type):
        return encoded_anew(chunk)
    return _as_text(chunk).dictionary_encode()


def _as_text(labels: Any) -> Any:
    return (labels.cast(pa.int8()) if types.is_boolean(labels.type) else labels).cast(pa.string())


def _has_line_break(labels: Any) -> bool:
    return bool(pc.any(pc.match_substring_regex(labels, r"[\r\n]")).as_py())


def _bad_value(row: list[str]) -> tuple[str, str] | None:
    for name, value in zip(("head", "relation", "tail"), row, strict=False):
        if not value.strip():
            return f"empty {name} in {shown_row(row)}", "give every triple a head, a relation and a tail"
    if len(row) == 4 and row[3].strip() not in TRUTH_VALUES:
        return f"label value {row[3]!r}", "use 1 for true and 0 or -1 for false"
    return None


def shown_row(row: Any) -> str:
    """A row in a message, cut where it is long."""
    text = repr(row)
    return text if len(text) <= 120 else text[:117] + "..."
