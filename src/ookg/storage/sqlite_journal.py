"""A journal in the model directory: `journal.sqlite`, an SQLite database with a write-ahead log."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ookg.errors import InputError, ModelFileError, NoRoom, NowBusy
from ookg.storage.journal import (
    JOURNAL_FILE,
    MARK_FILE,
    WAIT_SECONDS,
    Batch,
    Journal,
    Kind,
    NewBatch,
    Result,
    Triple,
)

APPLICATION, VERSION = 0x6F6F6B67, 2  # "ookg", and the layout of the tables
MOVED = "this journal has moved to PostgreSQL"
LAYOUT = """
CREATE TABLE batches (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('add', 'remove')),
    key TEXT UNIQUE,
    author TEXT NOT NULL,
    time TEXT NOT NULL,
    asked INTEGER NOT NULL,
    request TEXT
);
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL REFERENCES batches (number),
    head TEXT NOT NULL,
    relation TEXT NOT NULL,
    tail TEXT NOT NULL
);
CREATE INDEX changes_by_triple ON changes (head, relation, tail);
CREATE INDEX changes_by_batch ON changes (batch);
"""


class _Held:
    """A connection that stays open between calls, for one of them at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._process = 0

    def connection(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        """The one that is open, if it is of this process and of the file that is there now; else a new one."""
        status = path.stat() if path.exists() else None
        file = None if status is None else (status.st_dev, status.st_ino)
        if self._connection is None or file != self._file or self._process != os.getpid():
            self.close()
            self._connection, self._process = connect(), os.getpid()
            status = path.stat()
            self._file = (status.st_dev, status.st_ino)
        return self._connection

    def close(self) -> None:
        """Let go of it; one that a forked process has inherited is left as it is."""
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None


class SqliteJournal(Journal):
    """The journal that lies in a model directory. Each call opens the file and closes it, unless it is held."""

    def __init__(self, directory: str | Path) -> None:
        self.path = Path(directory) / JOURNAL_FILE
        self.place = str(self.path)
        self._held: dict[bool, _Held] | None = None  # whoever reads does not wait for whoever writes

    def hold(self) -> None:
        """Keep the file open between calls until `close`: for a process that asks many times a second."""
        if self._held is None:
            self._held = {False: _Held(), True: _Held()}
            weakref.finalize(self, _close_all, list(self._held.values()))

    def close(self) -> None:
        """Let go of the file."""
        held, self._held = self._held, None
        _close_all(list((held or {}).values()))

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        return self.path.exists()

    def reading(self, work: Callable[[SqliteTables], Result]) -> Result:
        """Do something that reads a journal that exists."""
        with self._open() as connection:
            return work(SqliteTables(connection))

    def writing(self, work: Callable[[SqliteTables], Result]) -> Result:
        """Do something in one transaction, while no other process writes."""
        if not self.exists and self.path.with_name(MARK_FILE).exists():  # it was made after this one was opened
            problem = f"{self.path.with_name(MARK_FILE)}: the journal of this model is in PostgreSQL by now"
            raise InputError(f"{problem}; open it again with its address")
        with self._open(create=True) as connection, _transaction(connection):
            return work(SqliteTables(connection))

    def problem(self) -> str | None:
        """What is wrong with the file, or None; all of it is read."""
        if not self.exists:
            return None
        try:
            with self._open() as connection:
                (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        except ModelFileError as error:
            return str(error).removeprefix(f"{self.path}: ")
        return None if answer == "ok" else f"damaged journal ({answer})"

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        if self._held is None:
            with self._refusing(), closing(self._connect(create=create)) as connection:
                yield connection
            return
        held = self._held[create]
        with held.lock, self._refusing():
            try:
                yield held.connection(self.path, lambda: self._connect(create=create))
            except sqlite3.Error:
                held.close()
                raise

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        mode = "rwc" if create else "rw"
        address = f"{self.path.resolve().as_uri()}?mode={mode}"
        with self._refusing():
            connection = sqlite3.connect(
                address, timeout=WAIT_SECONDS, isolation_level=None, uri=True, check_same_thread=self._held is None
            )
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("PRAGMA synchronous = FULL")
                self._prepare(connection, create=create)
            except BaseException:
                connection.close()
                raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, *, create: bool) -> None:
        """Make the tables, if they are to be made, and refuse a file that is no journal."""
        if create and self._identity(connection) == (0, 0):
            connection.execute("PRAGMA journal_mode = WAL")
            with _transaction(connection):
                if self._identity(connection) == (0, 0):  # another process may have made it meanwhile
                    for statement in LAYOUT.split(";\n"):
                        if statement.strip():
                            connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
        elif create and self._identity(connection) == (APPLICATION, 1):
            with _transaction(connection):
                if self._identity(connection) == (APPLICATION, 1):
                    connection.execute("ALTER TABLE batches ADD COLUMN request TEXT")
                    connection.execute("PRAGMA user_version = 2")
        application, version = self._identity(connection)
        if application != APPLICATION:
            raise ModelFileError(f"{self.path}: not a journal of ookg; restore it, or remove it to start without one")
        if version > VERSION:
            raise ModelFileError(f"{self.path}: version {version}, and this ookg reads up to {VERSION}; upgrade ookg")

    @staticmethod
    def _identity(connection: sqlite3.Connection) -> tuple[int, int]:
        application, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        return int(application), int(version)

    def _refusal(self, error: sqlite3.Error) -> ModelFileError | InputError:
        code = getattr(error, "sqlite_errorcode", None)
        if str(error) == MOVED:
            remedy = "give its address with `journal`, or end an interrupted move with `ookg journal move`"
            return InputError(f"{self.path}: {MOVED}; {remedy}")
        if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return NowBusy(f"{self.path}: another process has been writing for {WAIT_SECONDS:.0f} s; try again")
        if code is not None and code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return InputError(f"{self.path}: cannot be written ({error}); look at the permissions of the directory")
        if code is not None and code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return NoRoom(f"{self.path}: cannot be written ({error}); nothing was added, make room and try again")
        return ModelFileError(f"{self.path}: damaged journal ({error}); restore it from a copy")


_BATCHES = (
    "SELECT batches.number, kind, key, author, time, asked, count(changes.number) FROM batches "
    "LEFT JOIN changes ON batch = batches.number {} GROUP BY batches.number ORDER BY batches.number"
)


class SqliteTables:
    """The tables of the journal, by an open connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def last(self) -> int:
        """The number of the last batch; 0 for none."""
        (number,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM batches").fetchone()
        return int(number)

    def batches(self, after: int) -> list[Batch]:
        """The batches with larger numbers than that, in order."""
        rows = self._connection.execute(_BATCHES.format("WHERE batches.number > ?"), (after,))
        return [Batch(*row) for row in rows]

    def latest(self, most: int, before: int) -> list[Batch]:
        """The last batches with smaller numbers than that, the very last one first."""
        some = "WHERE batches.number IN (SELECT number FROM batches WHERE number < ? ORDER BY number DESC LIMIT ?)"
        rows = self._connection.execute(_BATCHES.format(some), (before, most)).fetchall()
        return [Batch(*row) for row in reversed(rows)]

    def changes_of(self, entity: str, after: int) -> list[tuple[int, int]]:
        """The batches after that one that changed triples of an entity: how many each added, below 0 removed."""
        return self._connection.execute(
            "SELECT batch, sum(CASE kind WHEN 'add' THEN 1 ELSE -1 END) FROM changes JOIN batches "
            "ON batch = batches.number WHERE (head = ?1 OR tail = ?1) AND batch > ?2 GROUP BY batch ORDER BY batch",
            (entity, after),
        ).fetchall()

    def batch_with_key(self, key: str) -> Batch | None:
        """The batch with this key."""
        row = self._connection.execute(_BATCHES.format("WHERE key = ?"), (key,)).fetchone()
        return None if row is None else Batch(*row)

    def request_of(self, number: int) -> str | None:
        """The digest of what was asked for with a batch."""
        (request,) = self._connection.execute("SELECT request FROM batches WHERE number = ?", (number,)).fetchone()
        return None if request is None else str(request)

    def triples_of(self, number: int) -> list[Triple]:
        """The triples that a batch changed, in order."""
        rows = self._connection.execute(
            "SELECT head, relation, tail FROM changes WHERE batch = ? ORDER BY number", (number,)
        )
        return [(head, relation, tail) for head, relation, tail in rows]

    def changes(self, after: int, until: int | None) -> Iterable[tuple[Kind, str, str, str]]:
        """What batches after one and up to another changed, in order."""
        return self._connection.execute(
            "SELECT kind, head, relation, tail FROM changes JOIN batches ON batch = batches.number "
            "WHERE batch > ? AND batch <= coalesce(?, batch) ORDER BY changes.number",
            (after, until),
        )

    def present(self, triples: Sequence[Triple], after: int) -> dict[Triple, bool]:
        """Of the triples that batches after that one mention, whether each is there now."""
        connection = self._connection
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS named (head TEXT, relation TEXT, tail TEXT)")
        connection.execute("DELETE FROM temp.named")
        connection.executemany("INSERT INTO temp.named VALUES (?, ?, ?)", triples)
        rows = connection.execute(
            "SELECT named.head, named.relation, named.tail, kind FROM temp.named AS named "
            "JOIN changes USING (head, relation, tail) JOIN batches ON batch = batches.number "
            "WHERE batch > ? ORDER BY changes.number",
            (after,),
        )
        return {(head, relation, tail): kind == "add" for head, relation, tail, kind in rows}

    def insert(self, batch: NewBatch) -> int:
        """Write a batch; return its number."""
        row = (batch.kind, batch.key, batch.author, batch.time, batch.asked, batch.request)
        number = self._connection.execute(
            "INSERT INTO batches (kind, key, author, time, asked, request) VALUES (?, ?, ?, ?, ?, ?)", row
        ).lastrowid
        assert number is not None
        self._connection.executemany(
            "INSERT INTO changes (batch, head, relation, tail) VALUES (?, ?, ?, ?)",
            ((number, *triple) for triple in batch.triples),
        )
        return number

    def free_keys(self) -> None:
        """Let no batch have a key any more."""
        self._connection.execute("UPDATE batches SET key = NULL")

    def retire(self) -> None:
        """Let nobody write to it any more, also those that wait for this transaction to end."""
        self._connection.execute("DROP TRIGGER IF EXISTS moved")
        refuse = f"BEGIN SELECT RAISE(ABORT, '{MOVED}'); END"
        self._connection.execute(f"CREATE TRIGGER moved BEFORE INSERT ON batches {refuse}")


def _close_all(connections: Sequence[_Held]) -> None:
    for held in connections:
        with held.lock:
            held.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; no other process writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it
            connection.execute("ROLLBACK")
        raise
