"""Vectors as Parquet files: the label, a list of float32, and other columns where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from ookg.system.files import atomic_write


def write_vectors(
    path: str | Path,
    name: str,
    labels: Sequence[str] | Any,
    vectors: Tensor,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Write a Parquet file: as `vector_table`."""
    with atomic_write(path) as temporary:
        pq.write_table(vector_table(name, labels, vectors, others), temporary)


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
    return pa.table({name: labels, "vector": column, **more})


def _column(values: Any) -> Any:
    column = pa.array(values, from_pandas=True)
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column  # names, of which there are none
