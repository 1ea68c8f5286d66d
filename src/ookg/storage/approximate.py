"""The approximate index of a model directory: `approximate.safetensors`, replaced as a whole.

    centres    (lists, entity_width) float32
    offsets    (lists + 1,) where each list begins among the members, and the end
    members    (entities,) the ids, list by list
    metadata   a format, a digest of the arrays, the fingerprint and the version of the vectors that it was made of, how
               many lists a question looks into, and what was measured

It is for the vectors of one version. Whoever reads it holds the fingerprint against that of the vectors that it is to
be used with: after an update it is of no use until it is made anew, and after a rollback it may be again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ookg.errors import ModelFileError
from ookg.storage.data import mapped_arrays, narrow, write_arrays
from ookg.system.files import atomic_write
from ookg.types import Array

INDEX_FILE = "approximate.safetensors"
FORMAT = "ookg approximate index 1"

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class StoredIndex:
    """What the file holds; about: plain values, of which `fingerprint` and `version` name the vectors."""

    arrays: dict[str, Array]
    about: dict[str, Any]


def write_index(directory: str | Path, index: StoredIndex) -> Path:
    """Write an index into a model directory, atomically; return the file."""
    arrays = {name: narrow(array) if array.dtype.kind == "i" else array for name, array in index.arrays.items()}
    about = index.about | {"format": FORMAT, "digest": _digest(arrays, index.about)}
    path = Path(directory) / INDEX_FILE
    with atomic_write(path) as temporary:
        write_arrays(temporary, arrays, {"ookg": json.dumps(about)})
    return path


def read_index(directory: str | Path) -> StoredIndex | None:
    """The index of a model directory, held against its digest; None if there is none."""
    path = Path(directory) / INDEX_FILE
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("ookg", "{}"))
        if about.pop("format", None) != FORMAT:
            raise ValueError(f"it is no file of the format {FORMAT!r}")
        arrays, digest = mapped_arrays(path), about.pop("digest", None)
        if digest != _digest(arrays, about):
            raise ValueError("its content is not what was written")
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise damaged_index(directory, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return StoredIndex(arrays, about)


def damaged_index(directory: str | Path, problem: str) -> ModelFileError:
    """The error for a file that holds what cannot be."""
    path = Path(directory) / INDEX_FILE
    return ModelFileError(f"{path}: damaged index ({problem}); make it anew with `ookg index {directory}`")


def index_problem(directory: Path) -> str | None:
    """What is wrong with the file of the index, or None; one of other vectors is sound."""
    try:
        read_index(directory)
    except ModelFileError as error:
        return str(error).removeprefix(f"{directory / INDEX_FILE}: ")
    return None


def index_stamp(directory: str | Path) -> Stamp | None:
    """Something that changes whenever the index does; None where there is none."""
    try:
        status = (Path(directory) / INDEX_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _digest(arrays: dict[str, Array], about: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
