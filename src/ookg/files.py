"""Writing files so that a crash leaves the old one or the new one, never half of either."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from ookg.errors import InputError

WRITE_ERRORS = (OSError, SafetensorError)
LOCK_FILE = ".lock"


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; it takes the place of `path` when the block ends well."""
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} is not the name of a file; give one to write to")
    if path.is_symlink():
        path = path.resolve()  # the link stays, what it points to is written
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(
            f"{path}: is a device or a pipe, which cannot be replaced; give the name of a file to write to"
        )
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


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a directory for writing: whoever else wants to hold it is refused meanwhile.

    The file of the lock stays, as removing it could let two in; that of a process that was killed holds nothing.
    """
    from filelock import FileLock, Timeout  # only writers of models need it

    lock = FileLock(directory / LOCK_FILE, timeout=0)
    supported = True
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        remedy = f"wait for it, or choose another directory (if there is none, remove {LOCK_FILE})"
        raise InputError(f"{directory}: another training or tool is writing here; {remedy}") from None
    except NotImplementedError:  # a file system without locks
        supported = False
    except OSError as error:
        raise unwritable(directory, error) from error
    try:
        yield
    finally:
        if supported:
            lock.release()


def check_place(path: str | Path) -> None:
    """Refuse a place where no file can be made before any work is done for it."""
    folder = Path(path).absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{path}: {folder} is a file, not a folder; choose another place")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: nothing can be written in {folder}; choose another place")


@contextmanager
def staged_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a new folder beside `folder` to write to; when the block ends well, its files take their places there.

    A new folder appears at once, and in an existing one each file is replaced at once. If the block fails, nothing of
    `folder` has changed.
    """
    folder = Path(folder)
    whole = folder.absolute()
    staging = whole.parent / f".{whole.name}.{secrets.token_hex(4)}.tmp"
    try:
        staging.mkdir(parents=True)
        yield staging
        files = sorted(path for path in staging.rglob("*") if path.is_file())
        for path in files:
            sync(path)
        if not folder.exists():
            os.rename(staging, folder)
            return
        for path in files:
            target = folder / path.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    except InputError as error:  # of a file inside
        raise InputError(str(error).replace(str(staging), str(folder))) from error
    except WRITE_ERRORS as error:
        raise unwritable(folder, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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
