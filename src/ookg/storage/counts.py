"""What was counted on a large version, kept in its data folder: the next process does not count it again.

    counted-NAME.safetensors   arrays, and in the metadata a format and a digest of them

Nothing else names these files. Whoever has counted writes them, if the folder can be written; one that is missing,
damaged, or of another format is as good as none, and is counted and written anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from ookg.errors import InputError
from ookg.graph.known import KnownGraph
from ookg.models.embedding import Embedding
from ookg.system.files import atomic_write
from ookg.types import Array

FORMAT = "ookg counts 1"
COUNTED = "counted-*.safetensors"
KEPT_FROM = 1 << 16  # triples: what is counted on fewer takes no longer than reading it
UNREADABLE = (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of a stored version. folder: where they lie; embedding, graph: what they were counted on."""

    folder: Path
    embedding: Embedding
    graph: KnownGraph

    def path(self, name: str) -> Path:
        """The file of one kind of counts."""
        return self.folder / COUNTED.replace("*", name)

    def kept(self, name: str, count: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """The arrays of one kind: those that are kept, or those that are counted now, and kept from then on."""
        if len(self.graph) < KEPT_FROM or self.embedding.entities.is_cuda:  # a GPU rounds otherwise
            return count()
        path = self.path(name)
        with suppress(*UNREADABLE):
            return read_counts(path)
        arrays = count()
        with suppress(InputError, OSError):  # where it cannot be written, it is counted each time
            if self.folder.is_dir():  # a version that was replaced is gone, and its folder does not come back
                _write(path, arrays)
        return arrays


def read_counts(path: Path) -> dict[str, Array]:
    """The arrays of a file, which is held against its digest; one that is not what was written raises a ValueError."""
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {}).get("ookg", "{}"))
    if about.get("format") != FORMAT:
        raise ValueError(f"its format is {about.get('format')!r}, expected {FORMAT!r}")
    from ookg.storage.data import mapped_arrays  # a machine that only computes cannot read the rest of it

    arrays = mapped_arrays(path)
    if about.get("digest") != _digest(arrays):
        raise ValueError("its content is not what was written")
    return arrays


def counts_problem(path: Path) -> str | None:
    """What is wrong with a file of counts, or None."""
    try:
        read_counts(path)
    except UNREADABLE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"damaged counts ({reason}); remove it, and it is counted anew"
    return None


def _write(path: Path, arrays: dict[str, Array]) -> None:
    from ookg.storage.data import write_arrays

    with atomic_write(path) as temporary:
        write_arrays(temporary, arrays, {"ookg": json.dumps({"format": FORMAT, "digest": _digest(arrays)})})


def _digest(arrays: dict[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
