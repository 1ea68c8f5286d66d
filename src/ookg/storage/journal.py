"""The journal of a model directory: every triple that was added or removed since the model was trained, in order.

It is an SQLite database, `journal.sqlite`. A batch is one transaction, written through to the disk before it is
acknowledged: a crash loses nothing that was acknowledged, and keeps nothing that was not. Batches are numbered from 1
on and never changed; a version of the model says up to which of them it has learned (`Checkpoint.journal`), and what
came later is what it is asked with.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ookg.errors import InputError, KeyTaken, ModelFileError, NoRoom, NowBusy

JOURNAL_FILE = "journal.sqlite"
# SQLite's own files beside it, while it is open or after a crash.
JOURNAL_FILES = (JOURNAL_FILE, f"{JOURNAL_FILE}-wal", f"{JOURNAL_FILE}-shm")
APPLICATION, VERSION = 0x6F6F6B67, 2  # "ookg", and the layout of the tables
WAIT_SECONDS = 60.0  # for another process that is writing
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

Kind = Literal["add", "remove"]
Triple = tuple[str, str, str]
# Which of some triples the version of the model that a batch follows knows from training.
IsKnown = Callable[[Sequence[Triple]], Sequence[bool]]


@dataclass(frozen=True)
class Batch:
    """What was added or removed in one go.

    key: chosen by the caller, so that the same batch sent twice counts once
    asked: how many triples were named; changed: how many of them were not there, or were, and now are, or are not
    """

    number: int
    kind: Kind
    key: str | None
    author: str
    time: str
    asked: int
    changed: int


@dataclass(frozen=True)
class Written:
    """A batch that is in the journal; is_repeated: it was there already, under the same key."""

    batch: Batch
    is_repeated: bool


@dataclass(frozen=True)
class Difference:
    """What the journal's later batches amount to: triples that came, and triples of training that went."""

    added: list[Triple]
    removed: list[Triple]


class Journal:
    """The journal of one model directory. Each call opens the file and closes it: nothing is held in between."""

    def __init__(self, directory: str | Path) -> None:
        self.path = Path(directory) / JOURNAL_FILE

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        return self.path.exists()

    @property
    def last(self) -> int:
        """The number of the last batch; 0 for none."""
        if not self.exists:
            return 0
        with self._open() as connection:
            (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM batches").fetchone()
            return int(number)

    def append(
        self,
        kind: Kind,
        triples: Sequence[Triple],
        is_known: IsKnown,
        *,
        after: int = 0,
        key: str | None = None,
        author: str = "",
        entity: str | None = None,
    ) -> Written:
        """Write a batch of what changes: triples to add that are not there, or to remove that are.

        after: the last batch that the model has learned; is_known: asked about what later batches do not mention
        key: if a batch with this key is there, that one is returned and nothing is written
        entity: if the triples are those of an entity, its name: under a key, the same name asks for the same
        """
        if not triples:
            raise InputError("no triples; name at least one")
        if key is not None and not (isinstance(key, str) and key.strip()):
            raise InputError(f"key {key!r} is no name; give some text, or leave it out")
        distinct = list(dict.fromkeys(triples))
        with self._open(create=True) as connection, _transaction(connection):
            request = None if key is None else _request(kind, distinct if entity is None else entity)
            repeated = None if request is None else self._repeated(connection, key, request)
            if repeated is not None:
                return Written(repeated, is_repeated=True)
            later = _present(connection, distinct, after)
            unmentioned = [triple for triple in distinct if triple not in later]
            present = later | dict(zip(unmentioned, is_known(unmentioned) if unmentioned else (), strict=True))
            changed = [triple for triple in distinct if bool(present[triple]) == (kind == "remove")]
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            row = (kind, key, author, time, len(distinct), request)
            number = connection.execute(
                "INSERT INTO batches (kind, key, author, time, asked, request) VALUES (?, ?, ?, ?, ?, ?)", row
            ).lastrowid
            assert number is not None
            connection.executemany(
                "INSERT INTO changes (batch, head, relation, tail) VALUES (?, ?, ?, ?)",
                ((number, *triple) for triple in changed),
            )
            batch = Batch(number, kind, key, author, time, len(distinct), len(changed))
        return Written(batch, is_repeated=False)

    def free_keys(self) -> None:
        """Let every key be used again: what stood under it was said of another model."""
        if self.exists:
            with self._open() as connection, _transaction(connection):
                connection.execute("UPDATE batches SET key = NULL")

    def removal_of(self, entity: str, key: str) -> Batch | None:
        """The batch that removed the triples of an entity under this key; None if there is none yet."""
        if not self.exists:
            return None
        with self._open(create=True) as connection:
            return self._repeated(connection, key, _request("remove", entity))

    def _repeated(self, connection: sqlite3.Connection, key: str | None, request: str) -> Batch | None:
        """The batch with this key, which must have asked for the same."""
        row = connection.execute(_BATCHES.format("WHERE key = ?"), (key,)).fetchone()
        if row is None:
            return None
        batch = Batch(*row)
        (before,) = connection.execute("SELECT request FROM batches WHERE number = ?", (batch.number,)).fetchone()
        if before != request:
            problem = f"{self.path}: key {key!r} is that of another batch (number {batch.number})"
            raise KeyTaken(f"{problem}; choose a new key for what is new")
        return batch

    def batches(self, after: int = 0) -> list[Batch]:
        """The batches with larger numbers than that, in order."""
        if not self.exists:
            return []
        with self._open() as connection:
            rows = connection.execute(_BATCHES.format("WHERE batches.number > ?"), (after,)).fetchall()
            return [Batch(*row) for row in rows]

    def latest(self, most: int, before: int | None = None) -> list[Batch]:
        """The last batches with smaller numbers than that, the very last one first."""
        if not self.exists:
            return []
        with self._open() as connection:
            chosen = (
                "WHERE batches.number IN (SELECT number FROM batches WHERE number < ? ORDER BY number DESC LIMIT ?)"
            )
            rows = connection.execute(_BATCHES.format(chosen), (before or 1 << 62, most)).fetchall()
            return [Batch(*row) for row in reversed(rows)]

    def bringing(self, entity: str, after: int = 0) -> Batch | None:
        """The first batch, of those with larger numbers than that, that added a triple of an entity."""
        if not self.exists:
            return None
        with self._open() as connection:
            chosen = (
                "WHERE batches.number = (SELECT min(batch) FROM changes JOIN batches ON batch = batches.number "
                "WHERE (head = ?1 OR tail = ?1) AND batch > ?2 AND kind = 'add')"
            )
            row = connection.execute(_BATCHES.format(chosen), (entity, after)).fetchone()
            return None if row is None else Batch(*row)

    def triples_of(self, number: int) -> list[Triple]:
        """The triples that a batch changed, in order."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT head, relation, tail FROM changes WHERE batch = ? ORDER BY number", (number,)
            )
            return [(head, relation, tail) for head, relation, tail in rows]

    def difference(self, after: int = 0, until: int | None = None) -> Difference:
        """What the batches with larger numbers than that amount to; what came and went again is in neither list.

        until: the last batch that counts; None: all that are there
        Triples that came are in the order in which they (last) came.
        """
        if not self.exists:
            return Difference([], [])
        balance: dict[Triple, int] = {}
        with self._open() as connection:
            rows = connection.execute(
                "SELECT kind, head, relation, tail FROM changes JOIN batches ON batch = batches.number "
                "WHERE batch > ? AND batch <= coalesce(?, batch) ORDER BY changes.number",
                (after, until),
            )
            for kind, *triple in rows:
                head, relation, tail = triple
                change = 1 if kind == "add" else -1
                total = balance.pop((head, relation, tail), 0) + change
                if total:
                    balance[head, relation, tail] = total
        added = [triple for triple, total in balance.items() if total > 0]
        return Difference(added, [triple for triple, total in balance.items() if total < 0])

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
        connection: sqlite3.Connection | None = None
        try:
            mode = "rwc" if create else "rw"
            address = f"{self.path.resolve().as_uri()}?mode={mode}"
            connection = sqlite3.connect(address, timeout=WAIT_SECONDS, isolation_level=None, uri=True)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            self._prepare(connection, create=create)
            yield connection
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        finally:
            if connection is not None:
                connection.close()

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


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; no other process writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _request(kind: Kind, named: Sequence[Triple] | str) -> str:
    """A digest of what is asked for: triples in any order, or an entity."""
    text = json.dumps([kind, named if isinstance(named, str) else sorted(named)])
    return hashlib.sha256(text.encode()).hexdigest()


def _present(connection: sqlite3.Connection, triples: Sequence[Triple], after: int) -> dict[Triple, bool]:
    """Of the triples that batches after that one mention, whether each is there now."""
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
