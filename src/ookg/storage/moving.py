"""Moving a journal from the model directory to PostgreSQL, and back, with the numbers, times, authors and keys it has.

The old journal is held while it is copied, so that nobody writes to it. The new one is put in its place whole, and then
the old one takes no more writes: a writer that has waited is refused, and nothing that it was told is there is lost.
Whatever a crash leaves, all batches are in one of the two: at worst both are there, which every command reports.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ookg.errors import InputError
from ookg.storage.checkpoint import read_description
from ookg.storage.journal import JOURNAL_FILE, MARK_FILE, Journal, NewBatch, Tables
from ookg.storage.journals import open_journal
from ookg.storage.postgres_journal import PostgresJournal, read_mark
from ookg.storage.sqlite_journal import SqliteJournal
from ookg.system.files import sync, unwritable

MOVED_FILE = "journal-moved.sqlite"  # what is left of a file whose batches are in PostgreSQL


@dataclass(frozen=True)
class MovedJournal:
    """What was moved: how many batches, and the changes in them; place: where they are now."""

    batches: int
    changes: int
    place: str


def move_journal(directory: str | Path, to: str | None, journal: str | None = None) -> MovedJournal:
    """Move the journal of a model directory.

    to: the URL of the PostgreSQL database that is to hold it; None: a file in the directory
    journal: the URL of the database that holds it now, where it is in one; by default what OOKG_JOURNAL says
    """
    directory = Path(directory)
    read_description(directory)  # a misspelt directory gets no journal
    is_file = read_mark(directory) is None and not (directory / MARK_FILE).exists()
    source = SqliteJournal(directory) if is_file else open_journal(directory, journal)
    if not source.exists:
        remedy = "leave `journal` out" if to is None else "give `journal`"
        raise InputError(f"{directory}: its journal is empty; there is nothing to move, {remedy} from now on")
    if is_file and to is None:
        raise InputError(f'{source.path}: the journal is in the directory already; give `to="postgresql://..."`')
    if not is_file and to is not None:
        raise InputError(f"{source.place}: the journal is in PostgreSQL already; move it with `to=None` first")
    with _staging(directory) as folder:
        target = SqliteJournal(folder) if to is None else PostgresJournal(folder, to)
        try:
            moved = _copied(source, target, directory / target.path.name)
        finally:
            target.close()
            source.close()
    _put_away(directory, is_file=is_file)
    return MovedJournal(moved[0], moved[1], str(directory / JOURNAL_FILE) if to is None else target.place)


def _copied(source: Journal, target: Journal, place: Path) -> tuple[int, int]:
    """Copy all batches, put the new journal in place, and let the old one take no more; return what was copied."""

    def copy(old: Tables) -> tuple[int, int]:
        counts = target.writing(lambda new: _copy(old, new, source.place))
        target.close()  # what it has is in its file, and in none beside it
        try:
            os.link(target.path, place)  # unlike a rename, never over a journal that came meanwhile
            sync(place.parent)
        except OSError as error:
            raise unwritable(place, error) from error
        try:
            old.retire()
        except BaseException:
            place.unlink(missing_ok=True)
            raise
        return counts

    return source.writing(copy)


def _copy(old: Tables, new: Tables, place: str) -> tuple[int, int]:
    batches, changes = 0, 0
    for batch in old.batches(0):
        triples = old.triples_of(batch.number)
        row = NewBatch(
            batch.kind, batch.key, batch.author, batch.time, batch.asked, old.request_of(batch.number), triples
        )
        if new.insert(row) != batch.number:
            raise InputError(
                f"{place}: batch {batch.number} is not the one after the last; nothing is moved, try again"
            )
        batches, changes = batches + 1, changes + len(triples)
    return batches, changes


def _put_away(directory: Path, *, is_file: bool) -> None:
    """Remove what names the old journal; its file, if it was one, stays under another name."""
    try:
        if not is_file:
            (directory / MARK_FILE).unlink()
        for suffix in ("", "-wal", "-shm") if is_file else ():
            old = directory / f"{JOURNAL_FILE}{suffix}"
            if old.exists():
                os.replace(old, directory / f"{MOVED_FILE}{suffix}")
        sync(directory)
    except OSError as error:
        raise unwritable(directory, error) from error


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A folder in which the new journal is made; what a killed process leaves of it goes with the next write."""
    folder = directory / f".{MARK_FILE}.{secrets.token_hex(4)}.tmp"
    try:
        folder.mkdir()
    except OSError as error:
        raise unwritable(directory, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
