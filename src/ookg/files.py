"""Writing files so that a crash leaves the old one or the new one, never half of either."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from ookg.errors import InputError

WRITE_ERRORS = (OSError, SafetensorError)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; it takes the place of `path` when the block ends well."""
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} is not the name of a file; give one to write to")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: its folder cannot be made ({error.strerror}); choose another place") from error
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    except WRITE_ERRORS as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> InputError:
    """The line for a place that nothing can be written to."""
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"{path}: cannot be written ({reason}); choose another place, or make room")


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
