"""Writing files so that a crash leaves the old one or the new one, never half of either.

What is not yet complete lies beside its target in a folder `.NAME.XXXXXXXX.tmp`, which its writer locks. Such a folder
that nobody locks is what a killed process left; the next write of NAME removes it.

Files have the permissions that the umask gives to any new file.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from ookg.errors import InputError

if sys.platform != "win32":  # which does not let go of an open file anyway
    import fcntl

if TYPE_CHECKING:
    from torch import Tensor

WRITE_ERRORS = (OSError, SafetensorError)
LOCK_FILE = ".lock"
REPLACED = "replaced"  # a folder on its way out, where two cannot be swapped in one step


class PathLock:
    """A lock on a file or folder, for as long as this object lives. A killed process holds nothing.

    is_sure: False where the file system has no locks: then nothing is held, and others go unnoticed
    """

    def __init__(self, path: Path, *, shared: bool) -> None:
        """Take the lock; BlockingIOError if somebody else holds it, FileNotFoundError if the path does not exist."""
        self.is_sure, self._descriptor = False, -1
        if sys.platform == "win32":
            return
        # Over a network an exclusive lock needs a file that is open for writing.
        writable = not shared and not path.is_dir()
        self._descriptor = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            self.is_sure = True
        except BlockingIOError:
            self.close()
            raise
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy, perhaps in another process, holds nothing and is None


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it takes the place of `path` when the block ends well."""
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
    try:
        with _scratch_folder(path) as folder:
            temporary = folder / path.name
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
    except WRITE_ERRORS as error:
        raise unwritable(path, error) from error


@contextmanager
def staged_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a new folder to write to; when the block ends well, it takes the place of `folder` in one step.

    Other files that lie in `folder` are in the new one too. If the block fails or is killed, `folder` is as it was.
    """
    folder = Path(folder)
    whole = folder.resolve()  # a link stays, the folder it points to is replaced
    staging = whole
    try:
        whole.parent.mkdir(parents=True, exist_ok=True)
        with _scratch_folder(whole) as scratch:
            staging = scratch / whole.name
            staging.mkdir()
            yield staging
            for path in (*staging.rglob("*"), staging):
                if path.is_file() or path.is_dir():
                    sync(path)
            _put_in_place(staging, whole, scratch / REPLACED)
    except InputError as error:  # of a file inside
        raise InputError(str(error).replace(str(staging), str(folder))) from error
    except WRITE_ERRORS as error:
        raise unwritable(folder, error) from error


def remove_remains(target: Path, *, alone: bool = False) -> None:
    """Remove what killed writers of `target` left beside it.

    Where one was killed between taking a folder out and putting the new one in, the old one gets its place back.
    alone: nobody else writes here, so that files of older versions, which hold no lock, are remains too
    """
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):  # what cannot be listed or removed does not keep anybody from writing
        for path in list(target.parent.iterdir()):
            if not pattern.fullmatch(path.name) or path.is_symlink():
                continue
            if path.is_dir():
                _remove_unless_held(path, target, alone)
            elif path.is_file() and alone:
                path.unlink(missing_ok=True)


def _remove_unless_held(scratch: Path, target: Path, alone: bool) -> None:
    with suppress(OSError):  # in use, or gone meanwhile
        lock = PathLock(scratch, shared=False)
        if lock.is_sure or alone:
            if (scratch / REPLACED).exists() and not target.exists():
                os.rename(scratch / REPLACED, target)
            shutil.rmtree(scratch, ignore_errors=True)
        lock.close()


@contextmanager
def _scratch_folder(target: Path) -> Iterator[Path]:
    """A new folder beside `target`, locked while it is in use."""
    remove_remains(target)
    while True:
        folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        folder.mkdir()
        # Another writer may take it for a remain before it is locked.
        with suppress(BlockingIOError, FileNotFoundError):
            lock = PathLock(folder, shared=True)
            if folder.exists():
                break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _put_in_place(new: Path, folder: Path, aside: Path) -> None:
    """Let the folder `new` take the place of `folder`, and keep the other files that are there."""
    if not os.path.lexists(folder):
        os.rename(new, folder)
        return
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if _is_current(folder):  # whoever stands in it would be left in a folder that is no more
        _add_to_current(new, folder)
        return
    new.chmod(stat.S_IMODE(folder.stat().st_mode))
    _carry_over(folder, new)
    if _exchange(new, folder):
        aside = new
    else:
        os.rename(folder, aside)
        try:
            os.rename(new, folder)
        except OSError:
            os.rename(aside, folder)
            raise
    _carry_over(aside, folder)  # what came while it was swapped


def _is_current(folder: Path) -> bool:
    try:
        current = Path.cwd().resolve()
    except OSError:
        return False
    return folder in (current, *current.parents)


def _add_to_current(new: Path, folder: Path) -> None:
    files = [path.relative_to(new) for path in sorted(new.rglob("*")) if not path.is_dir()]
    held = [name for name in files if os.path.lexists(folder / name)]
    if held:
        problem = f"{folder}: holds {held[0]} and is the current folder, which cannot be swapped for a new one"
        raise InputError(f"{problem}; run the command from another folder")
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / name, folder / name)


def _carry_over(source: Path, target: Path) -> None:
    """Give to `target` all of `source` that it lacks; files are linked, so that both have them."""
    for path in source.iterdir():
        place = target / path.name
        if path.is_dir() and not path.is_symlink():
            if os.path.ismount(path):
                raise OSError(errno.EBUSY, f"a disk is mounted at {path.name}")
            if not os.path.lexists(place):
                place.mkdir()
                shutil.copymode(path, place)
            elif not place.is_dir():
                raise IsADirectoryError(errno.EISDIR, f"{path.name} is a folder there")
            _carry_over(path, place)
        elif place.is_dir() and not place.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, f"{path.name} is no folder there")
        elif not os.path.lexists(place):
            try:
                os.link(path, place, follow_symlinks=False)
            except (OSError, NotImplementedError):  # a file system without links, or a file of somebody else
                shutil.copy2(path, place, follow_symlinks=False)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    if sys.platform != "linux":
        return False
    at_current_folder, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(at_current_folder, os.fsencode(one), at_current_folder, os.fsencode(other), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number))


@contextmanager
def held(directory: Path) -> Iterator[bool]:
    """Hold a directory for writing: whoever else wants to hold it is refused meanwhile.

    The file of the lock stays, as removing it could let two in; that of a killed process holds nothing.
    False is yielded where the file system has no locks, so that others may be writing too.
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
        yield supported
    finally:
        if supported:
            lock.release()


def check_place(path: str | Path) -> None:
    """Refuse a place where no file can be made, before any work is done for it."""
    folder = Path(path).absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{path}: {folder} is a file, not a folder; choose another place")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: nothing can be written in {folder}; choose another place")


def check_room(directory: Path, size: int) -> None:
    """Refuse a disk that does not have this many bytes free, before any work is done for them."""
    try:
        free = shutil.disk_usage(directory).free
    except OSError:  # a file system that does not say
        return
    if free < size:
        problem = f"{_megabytes(free)} are free, and {_megabytes(size)} will be written"
        raise InputError(f"{directory}: {problem}; make room, or choose another place")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, with the permissions of other files: the library lets only its owner read it."""
    from safetensors.torch import save_file

    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    save_file(dict(tensors), path, metadata)
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def digest(path: Path) -> str:
    """The SHA-256 of a file: of what the standard library has, the fastest on CPUs with instructions for it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
