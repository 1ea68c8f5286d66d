"""Vectors as tables and files: the label, a list of float32, and other columns where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ookg.errors import FileError, InputError
from ookg.graph.tables import column_names, read_table, write_table

VECTOR = "vector"


def write_vectors(
    path: str | Path,
    name: str,
    labels: Sequence[str] | Any,
    vectors: Tensor,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Write a file of what `vector_table` has, as its name says (`write_table`)."""
    write_table(path, vector_table(name, labels, vectors, others))


def vector_table(
    name: str, labels: Sequence[str] | Any, vectors: Tensor, others: Mapping[str, Any] | None = None
) -> pa.Table:
    """Labels (column `name`), vectors, (labels, width) (column `vector`), and other columns; NaN becomes null."""
    flat = pa.array(vectors.detach().float().cpu().contiguous().numpy().ravel())
    offsets = pa.array(range(0, vectors.numel() + 1, max(1, vectors.shape[1])), pa.int64())
    if vectors.numel() < 1 << 31:
        column = pa.ListArray.from_arrays(offsets.cast(pa.int32()), flat)
    else:
        column = pa.LargeListArray.from_arrays(offsets, flat)
    more = {key: _column(values) for key, values in (others or {}).items()}
    return pa.table({name: labels, VECTOR: column, **more})


def _column(values: Any) -> Any:
    column = pa.array(values, from_pandas=True)
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column  # names, of which there are none


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Vectors by label, (labels, width), and where they are from."""

    labels: list[str]
    vectors: Tensor
    source: str


def read_vectors(path: str | Path, name: str = "entity") -> LabelledRows:
    """Read what `write_vectors` wrote: labels in the column `name`, and `vector`, or `vector_1`, `vector_2`, ..."""
    there = column_names(path)
    numbered = [f"{VECTOR}_{place}" for place in range(1, len(there) + 1) if f"{VECTOR}_{place}" in there]
    columns = read_table(path, (name, *(numbered or (VECTOR,))))
    labels = columns[name]
    rows = list(zip(*(columns[column] for column in numbered), strict=True)) if numbered else columns[VECTOR]
    for row, label in enumerate(labels, start=1):
        if not isinstance(label, str) or not label:
            raise FileError(path, f"row {row} has no {name}", "give each vector its label, as text")
    try:
        array = np.array(rows, dtype=np.float32).reshape(len(labels), -1)
    except (TypeError, ValueError, OverflowError):
        problem = "vectors that are no lists of numbers, or of different lengths"
        raise FileError(path, problem, "give each as many numbers as the model has") from None
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0]) + 1
        raise FileError(path, f"row {row} has numbers that are not finite", "leave it out, or mend it")
    return LabelledRows(labels, torch.from_numpy(array), str(path))


def check_rows(rows: LabelledRows, width: int) -> None:
    """Refuse vectors of another width, and labels that are there twice."""
    if len(rows.labels) != len(rows.vectors):
        raise InputError(f"{rows.source}: {len(rows.labels)} labels for {len(rows.vectors)} vectors; give one for each")
    if len(rows.labels) and rows.vectors.shape[1] != width:
        problem = f"{rows.source}: vectors of {rows.vectors.shape[1]} numbers, and the model's have {width}"
        raise InputError(f"{problem}; give vectors that this model made")
    if len(set(rows.labels)) < len(rows.labels):
        repeated = next(label for place, label in enumerate(rows.labels) if label in rows.labels[:place])
        raise InputError(f"{rows.source}: {repeated!r} has two vectors; give each entity one")
