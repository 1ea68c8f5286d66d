"""The names of a model directory: `names.safetensors`, which is mapped into memory and replaced as a whole.

They belong to the directory and not to a version: an id means the same in all of them, so an update or a rollback
leaves its name alone, and a newcomer may have one before anything is said of it.

    ids.text, ids.offsets                    the ids' bytes one after the other, ascending; where each begins, the end
    names.text, names.offsets, names.order   their names; order: the places in the order of the names' bytes
    descriptions.text, descriptions.offsets  what is said of them, empty where nothing is

The file has a digest of its own. One process at a time adds to it; readers go on with the file that they have mapped.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from ookg.errors import InputError, ModelFileError
from ookg.graph.names import Names, NameSource, as_names
from ookg.graph.vocabulary import Texts
from ookg.storage.data import CHECKED_BYTES, mapped_arrays, narrow, text_bytes, whole_numbers, write_arrays
from ookg.system.files import atomic_write, unwritable
from ookg.types import Array

NAMES_FILE = "names.safetensors"
LOCK_FILE = ".names.lock"
WAIT_SECONDS = 60.0  # for another process that is writing names
FORMAT = "ookg names 1"
RESTORE = "remove it, and name the ids again with `ookg names DIR FILE`"

Stamp = tuple[int, int, int]


class _StoredTexts(Texts):
    """Texts of the file of names; what is wrong with them can be mended without the model."""

    def damaged(self, problem: str) -> ModelFileError:
        """The error for a file that holds what cannot be."""
        return _damaged(Path(self.source), problem)


def add_names(directory: str | Path, source: NameSource, *, replace: bool = False) -> Names:
    """Name ids of the model in a directory, for good; return all names that it has then.

    An id that has a name gets the new one; the others stay, unless all are to be replaced.
    """
    directory, names = Path(directory), as_names(source)
    try:
        with FileLock(directory / LOCK_FILE, timeout=WAIT_SECONDS):
            if not replace:
                names = stored_names(directory).with_more(names)
            _write(directory / NAMES_FILE, names)
    except Timeout:
        problem = f"another process has been writing names for {WAIT_SECONDS:.0f} s"
        raise InputError(f"{directory}: {problem}; try again") from None
    except OSError as error:
        raise unwritable(directory / NAMES_FILE, error) from error
    return stored_names(directory)


def _write(path: Path, names: Names) -> None:
    arrays: dict[str, Array] = {"names.order": narrow(names.order)}
    for column, texts in (("ids", names.ids), ("names", names.names), ("descriptions", names.descriptions)):
        arrays |= {f"{column}.text": texts.data, f"{column}.offsets": narrow(texts.starts)}
    with atomic_write(path) as temporary:
        # One entry: several would lie in any order, and the same names in other bytes.
        write_arrays(temporary, arrays, {"ookg": json.dumps({"format": FORMAT, "digest": _digest(arrays)})})


def _digest(arrays: dict[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {len(array)}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def stored_names(directory: str | Path) -> Names:
    """The names of a model directory, mapped and not read; a damaged file of them is refused."""
    path = Path(directory) / NAMES_FILE
    try:
        return _read(path, is_checked=path.stat().st_size <= CHECKED_BYTES)
    except FileNotFoundError:
        return Names.none()
    except OSError as error:
        raise _damaged(path, str(error.strerror)) from error


def names_problem(directory: Path) -> str | None:
    """What is wrong with the file of names, or None; all of it is read."""
    path = directory / NAMES_FILE
    try:
        _read(path, is_checked=True)
    except ModelFileError as error:
        return str(error).removeprefix(f"{path}: ").removesuffix(f"; {RESTORE}")
    return None


def _read(path: Path, *, is_checked: bool) -> Names:
    """is_checked: whether it is held against its digest, which reads all of it."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("ookg", "{}"))
        if about.get("format") != FORMAT:
            raise ValueError(f"its format is {about.get('format')!r}, expected {FORMAT!r}")
        arrays = mapped_arrays(path)
        if is_checked and about.get("digest") != _digest(arrays):
            raise ValueError("its content is not what was written")
        ids, names, descriptions = (
            _StoredTexts(text_bytes(arrays, f"{column}.text"), whole_numbers(arrays, f"{column}.offsets"), str(path))
            for column in ("ids", "names", "descriptions")
        )
        order = whole_numbers(arrays, "names.order")
        if not len(ids) == len(names) == len(descriptions) == len(order):
            raise ValueError(f"{len(ids)} ids, {len(names)} names, {len(descriptions)} descriptions")
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return Names(ids, names, descriptions, order)


def names_stamp(directory: Path) -> Stamp | None:
    """Something that changes whenever the names do; None where there are none."""
    try:
        status = (directory / NAMES_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _damaged(path: Path, problem: str) -> ModelFileError:
    return ModelFileError(f"{path}: damaged names ({problem}); {RESTORE}")
