"""Which journal a model directory has: the file in it, or one in PostgreSQL that its mark names."""

from __future__ import annotations

import os
from pathlib import Path

from ookg.errors import InputError, ModelFileError
from ookg.storage.journal import JOURNAL_FILE, MARK_FILE, Journal
from ookg.storage.postgres_journal import PostgresJournal, read_mark, refuse_two_journals
from ookg.storage.sqlite_journal import SqliteJournal

VARIABLE = "OOKG_JOURNAL"


def open_journal(directory: str | Path, address: str | None = None) -> Journal:
    """The journal of a directory.

    address: the URL of the PostgreSQL database that holds it, or is to hold it; by default what the environment
        variable OOKG_JOURNAL says, and without that the journal is a file in the directory
    """
    directory = Path(directory)
    if (directory / MARK_FILE).exists() and (directory / JOURNAL_FILE).exists():
        problem = f"two journals, {JOURNAL_FILE} and one in PostgreSQL that {MARK_FILE} names"
        raise ModelFileError(f"{directory}: {problem}; remove the file of the one that does not count")
    address = (os.environ.get(VARIABLE) or None) if address is None else address
    if address is not None:
        refuse_two_journals(directory)
        return PostgresJournal(directory, address)
    mark = read_mark(directory)
    if mark is not None:
        problem = f"{directory / MARK_FILE}: the journal of this model is in PostgreSQL, made at {mark.address}"
        raise InputError(f"{problem}; give its address with `journal` or the environment variable {VARIABLE}")
    return SqliteJournal(directory)
