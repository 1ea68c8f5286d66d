"""Tables of results as files: Parquet, CSV, TSV or JSON lines, as the name of the file says."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import types

from ookg.errors import FileError, InputError
from ookg.graph.reading import file_start, read_parquet
from ookg.system.files import atomic_write
from ookg.system.limits import check_line

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ENDINGS = (".parquet", *DELIMITERS, ".jsonl")
ROWS_AT_ONCE = 1 << 14


def table_ending(path: str | Path) -> str:
    """The ending that says what a file is, in small letters; another one is refused."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{path}: the name's ending says what it is; end it with {' or '.join(ENDINGS)}")
    return ending


def write_table(path: str | Path, table: Any) -> None:
    """Write an Arrow table as the name says. CSV and TSV get a column for each number of a list of fixed length."""
    ending = table_ending(path)
    with atomic_write(path) as temporary:
        if ending == ".parquet":
            pq.write_table(table, temporary)
        elif ending == ".jsonl":
            _write_json_lines(temporary, table)
        else:
            form = pa.csv.WriteOptions(delimiter=DELIMITERS[ending], quoting_style="needed")
            pa.csv.write_csv(_flat(table, path), temporary, form)


def _write_json_lines(path: Path, table: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(ROWS_AT_ONCE):
            for row in batch.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _flat(table: Any, path: str | Path) -> Any:
    """The table with `vector_1`, `vector_2`, ... in place of a column of lists that all have the same length."""
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if not types.is_list(column.type) and not types.is_large_list(column.type):
            columns[name] = column
            continue
        width, values = len(column[0]) if len(column) else 0, column.flatten()
        if len(set(pc.list_value_length(column).to_pylist())) > 1:
            raise InputError(f"{path}: lists of different lengths in column {name}; write .parquet or .jsonl")
        for place in range(width):
            columns[f"{name}_{place + 1}"] = values.take(pa.array(range(place, len(values), width)))
    return pa.table(columns)


def column_names(path: str | Path) -> list[str]:
    """The names of a file's columns; of JSON lines those of the first."""
    path = Path(path)
    file_start(path, "rows")
    ending = table_ending(path)
    try:
        if ending == ".parquet":
            return list(pq.read_schema(path).names)
        with path.open(encoding="utf-8-sig", newline="") as file:
            if ending == ".jsonl":
                first = json.loads(next(_bounded(path, file), "{}"))
                return list(first) if isinstance(first, dict) else []
            return next(csv.reader(_bounded(path, file), delimiter=DELIMITERS[ending], strict=True), [])
    except (pa.ArrowException, OSError, ValueError, KeyError, RecursionError, csv.Error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(path, f"cannot be read as {ending[1:]} ({reason})", "write it again") from error


def read_table(path: str | Path, columns: Sequence[str], optional: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Columns of a table file by their names, as plain values; text files give text, and None for an empty field.

    optional: columns that may be missing; then they are not in the result
    """
    path = Path(path)
    file_start(path, "rows")
    ending = table_ending(path)
    wanted = (*columns, *optional)
    try:
        if ending == ".parquet":
            names = _present(path, pq.read_schema(path).names, columns, optional)
            table = read_parquet(path, names)
            return {name: table.column(name).to_pylist() for name in names}
        with path.open(encoding="utf-8-sig", newline="") as file:
            if ending == ".jsonl":
                return _read_json_lines(path, file, columns, optional)
            rows = csv.reader(_bounded(path, file), delimiter=DELIMITERS[ending], strict=True)
            header = next(rows, [])
            names = _present(path, header, columns, optional)
            places = {name: header.index(name) for name in wanted if name in names}
            values: dict[str, list[Any]] = {name: [] for name in places}
            for row in rows:
                if row and len(row) != len(header):
                    problem = f"{len(row)} columns where the header has {len(header)}"
                    raise FileError(path, problem, "mend the line", rows.line_num)
                for name, place in places.items():
                    if row:
                        values[name].append(row[place] or None)
            return values
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, csv.Error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(path, f"cannot be read as {ending[1:]} ({reason})", "write it again") from error


def _bounded(path: Path, file: io.TextIOBase) -> Iterator[str]:
    """Lines, of which none is too long."""
    for number, line in enumerate(file, start=1):
        check_line(path, len(line), number)
        yield line


def _present(path: Path, there: list[str], columns: Sequence[str], optional: Sequence[str]) -> list[str]:
    """The wanted columns that a file has; those that it must have are missed."""
    lacking = [name for name in columns if name not in there]
    if lacking:
        shown = ", ".join(there[:20]) or "none"
        raise FileError(
            path, f"no column {lacking[0]} (there are: {shown[:200]})", f"name columns {', '.join(columns)}"
        )
    names = [name for name in (*columns, *optional) if name in there]
    for name in names:
        if there.count(name) > 1:
            raise FileError(path, f"column {name} is there twice", "give each column a name of its own")
    return names


def _read_json_lines(
    path: Path, file: io.TextIOBase, columns: Sequence[str], optional: Sequence[str]
) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {name: [] for name in (*columns, *optional)}
    for number, line in enumerate(_bounded(path, file), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(path, f"no JSON ({error})", "give one JSON object per line", number) from None
        if not isinstance(row, dict) or any(name not in row for name in columns):
            named = f" with {', '.join(columns)}" if columns else ""
            raise FileError(path, f"not a JSON object{named}", "give one on each line", number)
        for name, column in values.items():
            column.append(row.get(name))
    return values
