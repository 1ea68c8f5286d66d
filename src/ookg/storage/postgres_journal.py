"""A journal in PostgreSQL: the same as in the directory, for servers on several machines.

One database holds the journals of many model directories: every row says of which. The directory has a file
`journal.json` that says which journal is its own, and where it was made; a password is never written to it. Writers of
one journal wait for each other at its row in `ookg_journals`, which also has the number of its last batch.

The connection stays open between calls, and is made anew where it was lost. What was lost with it before its end is as
if it had never been asked for; only where the end itself was lost is it not known whether it was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ookg.errors import InputError, ModelFileError, NoRoom, NowBusy, OokgError
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
from ookg.system.extras import missing
from ookg.system.files import sync, unwritable

FORMAT = "ookg journal"
SCHEMES = ("postgresql://", "postgres://")
EXAMPLE = "postgresql://user@host:5432/database"
LAYOUT = 1  # of the tables
LAYOUT_LOCK = 0x6F6F6B67  # "ookg": whoever makes the tables holds it
CONNECT_SECONDS = "10"
# Whatever the server does by default: who has waited for another writer must see what that one wrote.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
TABLES = """
CREATE TABLE IF NOT EXISTS ookg_journals (
    id TEXT PRIMARY KEY,
    layout INTEGER NOT NULL,
    last BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS ookg_batches (
    journal TEXT NOT NULL REFERENCES ookg_journals (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('add', 'remove')),
    key TEXT,
    author TEXT NOT NULL,
    time TEXT NOT NULL,
    asked BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    request TEXT,
    PRIMARY KEY (journal, number)
);
CREATE TABLE IF NOT EXISTS ookg_changes (
    journal TEXT NOT NULL,
    batch BIGINT NOT NULL,
    place BIGINT NOT NULL,
    head TEXT NOT NULL,
    relation TEXT NOT NULL,
    tail TEXT NOT NULL,
    digest BIGINT NOT NULL,
    PRIMARY KEY (journal, batch, place),
    FOREIGN KEY (journal, batch) REFERENCES ookg_batches (journal, number) ON DELETE CASCADE
);
CREATE UNIQUE INDEX IF NOT EXISTS ookg_batches_by_key ON ookg_batches (journal, md5(key));
CREATE INDEX IF NOT EXISTS ookg_changes_by_triple ON ookg_changes (journal, digest);
"""


@dataclass(frozen=True)
class Address:
    """Where a database is.

    url: with all that is needed to connect; shown: the same for people, without a password
    """

    url: str
    shown: str

    @classmethod
    def of(cls, url: str) -> Address:
        """From a URL; one that is none is refused, and not repeated, as there may be a password in it."""
        if not isinstance(url, str) or not url.startswith(SCHEMES):
            raise InputError(f"the journal's address is no URL of PostgreSQL; give {EXAMPLE}, or leave it out")
        psycopg = import_psycopg()
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
            user, host, port, database = (str(parts.get(name) or "") for name in ("user", "host", "port", "dbname"))
            # A password with @ or / in it would be taken apart, and pieces of it shown.
            if "@" in user + host + database or not all(number.isdecimal() for number in port.split(",") if number):
                raise ValueError
        except (psycopg.Error, ValueError):
            remedy = f"give {EXAMPLE}, with special characters of a password as %40 (@), %2F (/), %3A (:)"
            raise InputError(f"the journal's address is no sound URL of PostgreSQL; {remedy}") from None
        place = quote(host, safe=":,") + f":{port}" * bool(port)
        return cls(url, f"postgresql://{quote(user)}{'@' * bool(user)}{place}/{quote(database)}")

    def hidden(self, text: str) -> str:
        """A message of the server or its library, without the password."""
        password = import_psycopg().conninfo.conninfo_to_dict(self.url).get("password")
        return text.replace(str(password), "***") if password else text

    # What a traceback or a log shows of it.
    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def import_psycopg() -> Any:
    """The library, which is an extra."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        raise missing("a journal in PostgreSQL", "psycopg", "postgres") from None
    return psycopg


@dataclass(frozen=True)
class Mark:
    """What a directory says of its journal in PostgreSQL: which one it is, and where it was made."""

    id: str
    address: str


def read_mark(directory: str | Path) -> Mark | None:
    """The mark of a directory; None if its journal does not lie in PostgreSQL."""
    path = Path(directory) / MARK_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        if content["version"] != LAYOUT:
            raise ModelFileError(f"{path}: version {content['version']!r}, and this ookg reads {LAYOUT}; upgrade ookg")
        mark = Mark(content["id"], content["address"])
        if not all(isinstance(text, str) and text for text in (mark.id, mark.address)):
            raise ValueError("its entries are not text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path}: damaged ({error}); restore it from a copy of the directory") from error
    return mark


def _make_mark(directory: Path, mark: Mark) -> Mark:
    """Write a mark, whole and for good, unless there is one; return the one that is there."""
    path, temporary = directory / MARK_FILE, directory / f".{MARK_FILE}.{secrets.token_hex(4)}.tmp"
    content = {"format": FORMAT, "version": LAYOUT, "id": mark.id, "address": mark.address}
    try:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        sync(temporary)
        try:
            os.link(temporary, path)  # which fails where another process was first
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)
        sync(directory)
    except OSError as error:
        raise unwritable(path, error) from error
    return read_mark(directory) or mark


class PostgresJournal(Journal):
    """The journal of a model directory in a database. It may be used from several threads, one at a time."""

    def __init__(self, directory: str | Path, address: str) -> None:
        self.directory, self.address = Path(directory), Address.of(address)
        self.path, self.place = self.directory / MARK_FILE, self.address.shown
        self._psycopg = import_psycopg()
        self._lock = threading.RLock()
        self._mark: Mark | None = None
        self._connection: Any = None
        self._process = 0
        # Connections of the process that this one was forked from: not ours to close.
        self._inherited: list[Any] = []
        self._finalizer: Any = None
        self._is_known = False  # whether this database is known to hold the journal

    @property
    def id(self) -> str | None:
        """Which of the database's journals it is; None until something is written."""
        if self._mark is None:
            self._mark = read_mark(self.directory)
        return None if self._mark is None else self._mark.id

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        return self.id is not None

    def reading(self, work: Callable[[PostgresTables], Result]) -> Result:
        """Do something that reads the journal; a connection that was lost is made anew once."""
        return self._done(work, is_writing=False)

    def writing(self, work: Callable[[PostgresTables], Result]) -> Result:
        """Do something in one transaction, while no other process writes to this journal."""
        with self._lock:
            if not self.exists:
                self._make()
            return self._done(work, is_writing=True)

    def problem(self) -> str | None:
        """What is wrong with it, or None; all of it is counted."""
        try:
            return self.reading(lambda tables: tables.problem()) if self.exists else None
        except OokgError as error:
            return str(error).removeprefix(f"{self.place}: ").split(";")[0]

    def close(self) -> None:
        """Let go of the connection; the next call makes one anew."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                self._finalizer.detach()
                connection.close()

    def _done(self, work: Callable[[PostgresTables], Result], *, is_writing: bool, again: bool = True) -> Result:
        with self._lock:
            connection, is_ending = self._connected(), False
            try:
                if not is_writing:
                    # One statement needs no transaction, and whoever follows a journal asks many times a second.
                    return work(PostgresTables(connection, self._known_id(connection)))
                connection.execute(BEGIN)
                tables = PostgresTables(connection, self._known_id(connection))
                tables.hold()
                result = work(tables)
                is_ending = True
                connection.execute("COMMIT")
                return result
            except self._psycopg.Error as error:
                if not connection.closed:
                    self._give_up(connection)
                    raise self._refusal(error) from error
                self.close()
                if is_writing and is_ending:
                    problem = f"the connection was lost when the batch was written ({self._said(error)})"
                    remedy = "`ookg history` says whether it is there; sent again under the same key, it counts once"
                    raise InputError(f"{self.place}: {problem}; {remedy}") from error
                if not again:
                    raise self._unreachable(error) from error
            except BaseException:
                self._give_up(connection)
                raise
            return self._done(work, is_writing=is_writing, again=False)

    def _give_up(self, connection: Any) -> None:
        """End a transaction that failed, if there is one."""
        try:
            if connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except self._psycopg.Error:
            self.close()

    def _connected(self) -> Any:
        if self._connection is not None and self._process != os.getpid():
            self._inherited.append(self._connection)
            self._connection = None
        if self._connection is not None and self._connection.closed:
            self.close()
        if self._connection is None:
            self._is_known = False
            self._connection, self._process = self._connect(), os.getpid()
            self._finalizer = weakref.finalize(self, _close, self._connection, self._process)
        return self._connection

    def _connect(self) -> Any:
        parts = self._psycopg.conninfo.conninfo_to_dict(self.address.url)
        parts.setdefault("connect_timeout", CONNECT_SECONDS)
        parts.setdefault("application_name", "ookg")
        parts["client_encoding"] = "UTF8"
        connection = None
        try:
            connection = self._psycopg.connect(**parts, autocommit=True, prepare_threshold=None)
            connection.execute(f"SET lock_timeout = '{WAIT_SECONDS:.0f}s'")
            # What is acknowledged is on the disk, whatever the server does by default.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            return connection
        except self._psycopg.Error as error:
            if connection is not None:
                connection.close()
            raise self._unreachable(error) from error

    def _known_id(self, connection: Any) -> str:
        """The id of this journal, which the database must hold: an empty one in its place would lose what was added."""
        journal = self.id
        assert journal is not None, "asked for only where it exists"
        if not self._is_known:
            row = None
            if connection.execute("SELECT to_regclass('ookg_journals')").fetchone()[0] is not None:
                row = connection.execute("SELECT layout FROM ookg_journals WHERE id = %s", (journal,)).fetchone()
            if row is None:
                made = "" if self._mark is None else f", which was made at {self._mark.address}"
                problem = f"{self.directory}: its journal{made}, is not in {self.place}"
                raise InputError(f"{problem}; give the address of the database that holds it")
            if row[0] > LAYOUT:
                raise ModelFileError(f"{self.place}: layout {row[0]}, and this ookg reads {LAYOUT}; upgrade ookg")
            self._is_known = True
        return journal

    def _make(self) -> None:
        """Make the tables where they are missing, and a journal in them; and say in the directory that it is its own.

        The journal comes first: one that no directory names does no harm, and a mark without a journal would.
        """
        refuse_two_journals(self.directory)
        mark = Mark(secrets.token_hex(16), self.place)
        connection = self._connected()
        try:
            connection.execute(BEGIN)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LAYOUT_LOCK,))
            if connection.execute("SELECT to_regclass('ookg_changes')").fetchone()[0] is None:
                connection.execute(TABLES)
            connection.execute("INSERT INTO ookg_journals VALUES (%s, %s, 0)", (mark.id, LAYOUT))
            connection.execute("COMMIT")
            self._mark = _make_mark(self.directory, mark)
            if self._mark.id != mark.id:  # another process was first
                connection.execute("DELETE FROM ookg_journals WHERE id = %s", (mark.id,))
        except self._psycopg.Error as error:
            if connection.closed:
                raise self._unreachable(error) from error
            self._give_up(connection)
            raise self._refusal(error) from error

    def _said(self, error: Exception) -> str:
        return self.address.hidden(str(error).strip() or type(error).__name__)

    def _unreachable(self, error: Exception) -> InputError:
        remedy = "start the server, or check the address, the user and the password"
        return NowBusy(f"{self.place}: not reachable ({self._said(error)}); {remedy}")

    def _refusal(self, error: Exception) -> InputError:
        errors, said = self._psycopg.errors, self._said(error)
        if isinstance(error, errors.LockNotAvailable):
            return NowBusy(f"{self.place}: another process has been writing for {WAIT_SECONDS:.0f} s; try again")
        if isinstance(error, errors.InsufficientPrivilege):
            return InputError(f"{self.place}: not allowed ({said}); let this user make and write its tables")
        if isinstance(error, errors.DiskFull):
            return NoRoom(f"{self.place}: no room left ({said}); nothing was added, make room and try again")
        if isinstance(error, self._psycopg.DataError):
            return InputError(f"{self.place}: cannot hold this text ({said}); rename it, or use a UTF-8 database")
        return InputError(f"{self.place}: refused by the server ({said}); nothing was written, mend it and try again")


def refuse_two_journals(directory: Path) -> None:
    """Refuse a journal in PostgreSQL for a directory that has one in a file."""
    path = directory / JOURNAL_FILE
    if path.exists():
        remedy = "leave `journal` and OOKG_JOURNAL out, or begin in another directory"
        raise InputError(f"{path}: this directory has its journal in a file; {remedy}")


def _close(connection: Any, process: int) -> None:
    if process == os.getpid():
        connection.close()


_BATCHES = "SELECT number, kind, key, author, time, asked, changed FROM ookg_batches WHERE journal = %s"


class PostgresTables:
    """The tables of one journal, within a transaction."""

    def __init__(self, connection: Any, journal: str) -> None:
        self._connection, self._journal = connection, journal

    def _rows(self, query: str, *values: Any) -> list[Any]:
        rows: list[Any] = self._connection.execute(query, (self._journal, *values)).fetchall()
        return rows

    def hold(self) -> None:
        """Wait until no other process writes to this journal, and let none until the transaction ends."""
        self._last("SELECT last FROM ookg_journals WHERE id = %s FOR UPDATE")

    def last(self) -> int:
        """The number of the last batch; 0 for none."""
        return self._last("SELECT last FROM ookg_journals WHERE id = %s")

    def _last(self, query: str) -> int:
        rows = self._rows(query)
        if not rows:
            raise ModelFileError(f"journal {self._journal} is gone from its database; restore it from a copy")
        return int(rows[0][0])

    def batches(self, after: int) -> list[Batch]:
        """The batches with larger numbers than that, in order."""
        return [Batch(*row) for row in self._rows(f"{_BATCHES} AND number > %s ORDER BY number", after)]

    def latest(self, most: int, before: int) -> list[Batch]:
        """The last batches with smaller numbers than that, the very last one first."""
        rows = self._rows(f"{_BATCHES} AND number < %s ORDER BY number DESC LIMIT %s", before, most)
        return [Batch(*row) for row in rows]

    def changes_of(self, entity: str, after: int) -> list[tuple[int, int]]:
        """The batches after that one that changed triples of an entity: how many each added, below 0 removed."""
        rows = self._rows(
            "SELECT batch, sum(CASE kind WHEN 'add' THEN 1 ELSE -1 END) FROM ookg_changes "
            "JOIN ookg_batches USING (journal) WHERE journal = %s AND batch = number "
            "AND (head = %s OR tail = %s) AND batch > %s GROUP BY batch ORDER BY batch",
            entity,
            entity,
            after,
        )
        return [(int(batch), int(change)) for batch, change in rows]

    def batch_with_key(self, key: str) -> Batch | None:
        """The batch with this key."""
        rows = self._rows(f"{_BATCHES} AND md5(key) = md5(%s) AND key = %s", key, key)
        return Batch(*rows[0]) if rows else None

    def request_of(self, number: int) -> str | None:
        """The digest of what was asked for with a batch."""
        ((request,),) = self._rows("SELECT request FROM ookg_batches WHERE journal = %s AND number = %s", number)
        return None if request is None else str(request)

    def triples_of(self, number: int) -> list[Triple]:
        """The triples that a batch changed, in order."""
        query = "SELECT head, relation, tail FROM ookg_changes WHERE journal = %s AND batch = %s ORDER BY place"
        return [(head, relation, tail) for head, relation, tail in self._rows(query, number)]

    def changes(self, after: int, until: int | None) -> Iterable[tuple[Kind, str, str, str]]:
        """What batches after one and up to another changed, in order."""
        return self._rows(
            "SELECT kind, head, relation, tail FROM ookg_changes JOIN ookg_batches USING (journal) "
            "WHERE journal = %s AND batch = number AND batch > %s AND batch <= coalesce(%s, batch) "
            "ORDER BY batch, place",
            after,
            until,
        )

    def present(self, triples: Sequence[Triple], after: int) -> dict[Triple, bool]:
        """Of the triples that batches after that one mention, whether each is there now."""
        rows = self._rows(
            "SELECT head, relation, tail, kind FROM ookg_changes JOIN ookg_batches USING (journal) "
            "WHERE journal = %s AND batch = number AND digest = ANY(%s::bigint[]) AND batch > %s "
            "ORDER BY batch, place",
            [_digest(triple) for triple in triples],
            after,
        )
        named = set(triples)  # digests alone may agree by chance
        later = (((head, relation, tail), kind == "add") for head, relation, tail, kind in rows)
        return {triple: is_there for triple, is_there in later if triple in named}

    def insert(self, batch: NewBatch) -> int:
        """Write a batch; return its number, the one after the last."""
        ((number,),) = self._rows("UPDATE ookg_journals SET last = last + 1 WHERE id = %s RETURNING last")
        row = (batch.kind, batch.key, batch.author, batch.time, batch.asked, len(batch.triples), batch.request)
        self._connection.execute(
            "INSERT INTO ookg_batches VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", (self._journal, number, *row)
        )
        heads, relations, tails = ([triple[end] for triple in batch.triples] for end in range(3))
        self._connection.execute(
            "INSERT INTO ookg_changes (journal, batch, place, head, relation, tail, digest) "
            "SELECT %s, %s, place, head, relation, tail, digest FROM "
            "unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) WITH ORDINALITY "
            "AS given (head, relation, tail, digest, place)",
            (self._journal, number, heads, relations, tails, [_digest(triple) for triple in batch.triples]),
        )
        return int(number)

    def free_keys(self) -> None:
        """Let no batch have a key any more."""
        self._connection.execute("UPDATE ookg_batches SET key = NULL WHERE journal = %s", (self._journal,))

    def retire(self) -> None:
        """Take it out of the database; whoever waits to write to it finds that it is gone."""
        self._connection.execute("DELETE FROM ookg_journals WHERE id = %s", (self._journal,))

    def problem(self) -> str | None:
        """What of it cannot be, or None."""
        ((last, count, highest, changed, there),) = self._rows(
            "SELECT last, (SELECT count(*) FROM ookg_batches WHERE journal = id), "
            "(SELECT coalesce(max(number), 0) FROM ookg_batches WHERE journal = id), "
            "(SELECT coalesce(sum(changed), 0) FROM ookg_batches WHERE journal = id), "
            "(SELECT count(*) FROM ookg_changes WHERE journal = id) FROM ookg_journals WHERE id = %s"
        )
        if not last == count == highest:
            return f"damaged journal ({count} batches up to number {highest}, and {last} were written)"
        return None if there == changed else f"damaged journal ({there} changes instead of {changed})"


def _digest(triple: Triple) -> int:
    """A number to find a triple by, however long its labels are: an index of the labels would have a limit."""
    text = json.dumps(triple).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)
