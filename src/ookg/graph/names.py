"""What people call the ids of a graph: names and descriptions of entities and relations.

An id is what a program uses, and stands in the triples; a name is for people, and may belong to several ids. Names are
read where they lie, as labels are (`Texts`): no Python object for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ookg.errors import FileError, InputError
from ookg.graph.rdf import rdf_syntax
from ookg.graph.rdf_names import LANGUAGES, read_rdf_names
from ookg.graph.reading import (
    PARQUET_MAGIC,
    STANDARD_INPUT,
    ArrowStream,
    Frame,
    ParquetFile,
    TextFile,
    TripleFormat,
    file_compression,
    file_start,
    read_pipe,
    read_standard_input,
    shown_row,
)
from ookg.graph.vocabulary import Texts, Vocabulary
from ookg.system.display import PREFIXES, in_full
from ookg.types import Numbers

ID, NAME, DESCRIPTION = COLUMNS = ("id", "name", "description")
TEXT = pa.large_string()
MOST_IDS = 10  # in a line
MOST_NOTES, MOST_LOOKED_UP = 5, 1000  # on labels that are names, and labels that are looked for among names


@dataclass(frozen=True, eq=False)
class Names:
    """Ids with their names and descriptions.

    ids: ascending by their bytes; names, descriptions: one for each id, a description may be empty
    order: the places of the names, ascending by the names' bytes
    """

    ids: Texts
    names: Texts
    descriptions: Texts
    order: Numbers

    @classmethod
    def of(cls, ids: Any, names: Any, descriptions: Any) -> Names:
        """From Arrow arrays, in any order; the ids are distinct."""
        ids, names, descriptions = (_whole(column) for column in (ids, names, descriptions))
        places = pc.sort_indices(ids)
        ids, names, descriptions = (column.take(places) for column in (ids, names, descriptions))
        order = np.asarray(pc.sort_indices(names), dtype=np.int64)
        return cls(Texts.of(ids), Texts.of(names), Texts.of(descriptions), order)

    @classmethod
    def none(cls) -> Names:
        """No names."""
        return cls.of(*[pa.array([], TEXT)] * 3)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<ookg.Names of {len(self):,} ids>"

    def name(self, label: str) -> str | None:
        """What an id is called; None if it has no name."""
        place = self._place(label)
        return None if place is None else self.names.text(place)

    def description(self, label: str) -> str | None:
        """What is said of an id; None if nothing is."""
        place = self._place(label)
        return None if place is None else self.descriptions.text(place) or None

    def find(self, name: str) -> list[str]:
        """The ids that are called exactly so, ascending."""
        wanted, order = _encoded(name), self.order
        if wanted is None:
            return []
        place, places = _first(wanted, len(order), lambda place: self.names[int(order[place])]), []
        while place < len(order) and self.names[int(order[place])] == wanted:
            places.append(int(order[place]))
            place += 1
        return [self.ids.text(place) for place in sorted(places)]

    def _place(self, label: str) -> int | None:
        wanted = _encoded(label)
        if wanted is None:
            return None
        place = _first(wanted, len(self), self.ids.__getitem__)
        return place if place < len(self) and self.ids[place] == wanted else None

    def among(self, labels: Sequence[str]) -> Names:
        """Those of some ids, each of which is there once; ids without a name are left out."""
        places = [place for place in map(self._place, labels) if place is not None]
        columns = ([texts.text(place) for place in places] for texts in (self.ids, self.names, self.descriptions))
        return Names.of(*(pa.array(column, TEXT) for column in columns))

    def with_more(self, more: Names) -> Names:
        """These and more; an id that is in both is called as in the later ones."""
        mine, others = ([texts.array() for texts in (one.ids, one.names, one.descriptions)] for one in (self, more))
        kept = pc.invert(pc.is_in(mine[0].cast(TEXT), others[0].cast(TEXT)))
        columns = zip((column.filter(kept).cast(TEXT) for column in mine), others, strict=True)
        return Names.of(*(pa.chunked_array([old, new.cast(TEXT)], TEXT) for old, new in columns))


def id_meant(
    text: str, kind: str, names: Names, is_there: Callable[[str], bool], prefixes: Mapping[str, str] = PREFIXES
) -> str:
    """The id that a text means: itself where it is one, else the IRI that it shortens, else the one of that name.

    What means nothing is returned as it is. kind: "entity" or "relation"; is_there: whether there is one with this id
    """
    text = in_full(text, is_there, prefixes)
    if not len(names) or is_there(text):
        return text
    ids = [label for label in names.find(text) if is_there(label)]
    if len(ids) > 1:
        some = ", ".join(map(repr, ids[:MOST_IDS])) + ", ..." * (len(ids) > MOST_IDS)
        raise InputError(f"{kind} {text!r} is the name of {len(ids):,} ids ({some}); give one of them")
    return ids[0] if ids else text


def notes_on_names(
    labels: Iterable[str], names: Names, said: Callable[[str, str], str], is_there: Callable[[str], bool] | None = None
) -> list[str]:
    """What is said of each label that is the name of other ids (label, ids in words); of many, of the first ones.

    is_there: which ids count, all by default
    """
    taken = []
    for label in islice(labels, MOST_LOOKED_UP) if len(names) else ():
        ids = [one for one in names.find(label) if one != label and (is_there is None or is_there(one))]
        if ids:
            taken.append(said(label, " or ".join(map(repr, ids[:MOST_IDS]))))
    return (
        [*taken[:MOST_NOTES], f"{len(taken) - MOST_NOTES:,} more are names too"] if len(taken) > MOST_NOTES else taken
    )


def _encoded(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no file has it
        return None


def _first(wanted: bytes, size: int, text: Any) -> int:
    """The first place among ascending texts whose text is not before the wanted one."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if text(middle) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _whole(column: Any) -> Any:
    """A column as one array of text."""
    column = column.cast(TEXT)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


NameSource = str | Path | Names | ArrowStream | Mapping[str, str] | Iterable[Sequence[str]]


def as_names(source: NameSource) -> Names:
    """Names from whatever a caller has.

    A file, a frame (pandas, polars, Arrow), a mapping from ids to names, or rows of (id, name[, description]).
    """
    if isinstance(source, Names):
        return source
    if isinstance(source, str | Path):
        return read_names(source)
    if isinstance(source, ArrowStream):
        return _checked(_NameFrame(source))
    if not hasattr(source, "__iter__"):
        raise InputError(f"{type(source).__name__} is no source of names; give a file, a frame, a mapping or rows")
    return _checked(_NameRows(list(source.items() if isinstance(source, Mapping) else source)))


def read_names(
    path: str | Path, languages: Sequence[str] = LANGUAGES, among: Sequence[Vocabulary] | None = None
) -> Names:
    """Read names from TSV or CSV (plain, gzip, zstd or bzip2) or Parquet: id, name and perhaps a description.

    path: the text "-" is standard input. An id stands there once; neither it nor its name is empty. Of an RDF file
        `rdfs:label`, `skos:prefLabel` and `schema:name` are read.
    languages: RDF: which are preferred, the best first; among: RDF: only the ids that one of these has
    """
    if path == STANDARD_INPUT:
        return _checked(_piped(Path("standard input"), read_standard_input()))
    path = Path(path)
    start = file_start(path, "names")
    if path.is_fifo():
        return _checked(_piped(path, read_pipe(path)))
    if start == PARQUET_MAGIC:
        return _checked(_NameParquet(path, TripleFormat()))
    compression = file_compression(path, start)
    if (syntax := rdf_syntax(path)) is not None:
        return as_names(read_rdf_names(path, compression, syntax, languages, among))
    return _checked(_NameText(path, TripleFormat(), compression))


def _piped(path: Path, content: bytes) -> _NameText:
    if content[:4] == PARQUET_MAGIC:
        raise FileError(path, "a pipe brings TSV or CSV alone", "write Parquet to a file and give that")
    return _NameText(path, TripleFormat(), file_compression(path, content[:4]), content)


class _Rows(Protocol):
    """Something that names are read from."""

    def read(self) -> list[Any]:
        """Arrow columns: id, name and where there is one description."""

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The same row by row, with the numbers of lines or rows: slow, to look for what is wrong."""

    def row_error(self, problem: str, remedy: str, row: int) -> FileError:
        """The error for one of them."""


def _checked(source: _Rows) -> Names:
    columns = [_whole(column) for column in source.read()[:3]]
    ids, names = columns[:2]
    is_empty = any(pc.any(pc.equal(pc.utf8_trim_whitespace(column), "")).as_py() for column in (ids, names))
    if is_empty or pc.count_distinct(ids).as_py() != len(ids):
        raise _bad_row(source)
    return Names.of(*columns, *([pa.array([""] * len(ids), TEXT)] if len(columns) == 2 else []))


def _bad_row(source: _Rows) -> FileError:
    """The first row that is wrong."""
    seen: dict[str, int] = {}
    for number, (label, name, *_) in source.rows():
        if not label.strip():
            return source.row_error(f"no id for the name {name!r}", "give it one, or leave the line out", number)
        if not name.strip():
            return source.row_error(f"an empty name for {label!r}", "give it one, or leave the line out", number)
        if label in seen:
            return source.row_error(f"{label!r} has a name in {seen[label]} already", "give each id once", number)
        seen[label] = number
    return source.row_error("an id twice, or an empty one", "mend the file", 1)


class _NameText(TextFile):
    """A TSV or CSV file of names."""

    row_name, row_parts = "name", "as many columns as the first, with an empty description where there is none"

    def is_header(self, first: list[str]) -> bool:
        """Whether the first row is a header: it has the words id and name."""
        return {ID, NAME} <= {name.strip().lower() for name in first}

    def choose(self, form: TripleFormat, first: list[str]) -> list[int]:
        """By their names, or two or three in order."""
        names = [name.strip().lower() for name in first]
        if self.header:
            return [names.index(name) for name in COLUMNS if name in names]
        if len(first) not in (2, 3):
            raise self.wrong_columns(first, "expected id, name (and description), or a header with these words")
        return list(range(len(first)))

    def row_error(self, problem: str, remedy: str, row: int) -> FileError:
        """The error for a line."""
        return FileError(self.path, problem, remedy, row)


class _NamedNames:
    """What a Parquet file and a frame of names have in common."""

    source: str
    columns: list[Any]

    def choose(self, names: list[str]) -> list[str]:
        """The columns by their names, in any case."""
        lowered = [name.lower() for name in names]
        chosen = [names[lowered.index(name)] for name in COLUMNS if name in lowered]
        if not {ID, NAME} <= set(lowered) or len(set(lowered)) < len(lowered):
            raise FileError(
                self.source, f"columns {', '.join(names)}", "name them id, name (and description), each once"
            )
        return chosen

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Row by row, from 1."""
        yield from enumerate(zip(*(column.to_pylist() for column in self.columns), strict=True), start=1)


class _NameParquet(_NamedNames, ParquetFile):
    """A Parquet file of names."""

    def text(self, column: Any, name: str) -> Any:
        """A column as text; a description may be missing."""
        return super().text(_filled(column) if name.lower() == DESCRIPTION else column, name)


class _NameFrame(_NamedNames, Frame):
    """A frame of names."""

    def text(self, column: Any, name: str) -> Any:
        """A column as text; a description may be missing."""
        return super().text(_filled(column) if name.lower() == DESCRIPTION else column, name)


def _filled(column: Any) -> Any:
    """A column with empty text where there is none."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_null(column.type) or types.is_string_view(column.type):
        column = column.cast(pa.string())
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    return pc.fill_null(column, "") if is_text else column


@dataclass(frozen=True)
class _NameRows:
    """Rows that a caller gave."""

    given: list[Any]

    def read(self) -> list[Any]:
        """The rows as columns."""
        for row in self.given:
            is_row = isinstance(row, Sequence) and not isinstance(row, str) and len(row) in (2, 3)
            if not is_row or not all(isinstance(value, str) for value in row):
                raise InputError(f"{shown_row(row)} names nothing; give (id, name) or (id, name, description), as text")
        columns = zip(*((*row, "")[:3] for row in self.given), strict=True)
        try:
            return [pa.array(column, TEXT) for column in columns] or [pa.array([], TEXT)] * 3
        except UnicodeEncodeError as error:
            raise InputError(f"name {error.object!r} is not Unicode text; rename it") from None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Row by row, from 1."""
        yield from enumerate(self.given, start=1)

    def row_error(self, problem: str, remedy: str, row: int) -> FileError:
        """The error for one of them."""
        return FileError(f"names, row {row}", problem, remedy)
