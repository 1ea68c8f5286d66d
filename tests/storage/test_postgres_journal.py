"""A journal in PostgreSQL where it differs from one in a file: marks, passwords, lost connections, killed writers.

What both have in common is in `test_journal.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ookg.errors import ModelFileError, OokgError
from ookg.storage import postgres_journal
from ookg.storage.journal import JOURNAL_FILE, MARK_FILE, Journal, Triple
from ookg.storage.journals import VARIABLE, open_journal
from ookg.storage.postgres_journal import PostgresJournal
from postgres_server import PASSWORD, SECRET_USER, Server

pytestmark = pytest.mark.postgres
A, B, C = (("a", "r", "x"), ("b", "r", "x"), ("c", "r", "y"))


def nothing(triples: Sequence[Triple]) -> list[bool]:
    return [False] * len(triples)


def line_of(call: Any, *arguments: Any, **options: Any) -> str:
    """The one line of a refusal."""
    with pytest.raises(OokgError) as refusal:
        call(*arguments, **options)
    [line] = str(refusal.value).splitlines()
    return line


@pytest.fixture
def journal(tmp_path: Path, postgres: Server) -> PostgresJournal:
    return PostgresJournal(tmp_path, postgres.url())


@pytest.fixture
def other_database(postgres: Server) -> Iterator[str]:
    postgres.execute("CREATE DATABASE other")
    yield "other"
    postgres.execute("DROP DATABASE other WITH (FORCE)")


def backend(journal: PostgresJournal) -> int:
    return int(journal._connected().info.backend_pid)


def test_nothing_is_made_until_something_is_written(tmp_path: Path, journal: PostgresJournal) -> None:
    assert (journal.last, journal.batches(), journal.problem(), journal.exists) == (0, [], None, False)
    assert list(tmp_path.iterdir()) == []
    journal.append("add", [A], nothing)
    assert [path.name for path in tmp_path.iterdir()] == [MARK_FILE]
    mark = json.loads((tmp_path / MARK_FILE).read_text())
    assert (mark["format"], mark["version"], mark["id"]) == ("ookg journal", 1, journal.id)


def test_a_password_is_neither_stored_nor_shown(tmp_path: Path, postgres: Server) -> None:
    postgres.execute(f"GRANT ALL ON SCHEMA public TO {SECRET_USER}")
    postgres.execute("DROP TABLE IF EXISTS ookg_changes, ookg_batches, ookg_journals")
    url = postgres.url(user=SECRET_USER, password=PASSWORD)
    journal = PostgresJournal(tmp_path, url)
    journal.append("add", [A], nothing, key="k")
    shown = (tmp_path / MARK_FILE).read_text() + repr(journal.address) + journal.place
    shown += line_of(journal.append, "add", [B], nothing, key="k")
    wrong = PostgresJournal(tmp_path, postgres.url(user=SECRET_USER, password="wr0ng"))
    refused = line_of(lambda: wrong.last)
    assert "not reachable" in refused
    assert "password authentication failed" in refused
    shown += refused + line_of(open_journal, tmp_path)
    for secret in (PASSWORD, "wr0ng", "s3cret"):
        assert secret not in shown
    assert SECRET_USER in shown
    postgres.execute("DROP TABLE ookg_changes, ookg_batches, ookg_journals")


@pytest.mark.parametrize(
    "address",
    ["", "x", "sqlite:///x", "mysql://u:hush@h/d", "host=x password=hush", "postgresql://u:hush@h:port/d",
     "postgresql://u:h@hush@h/d", "postgresql://u:hush/h@h/d", "postgresql://[u:hush", "postgresql://u:hush@h/d?nosuch=hush"],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_not_repeated(tmp_path: Path, postgres: Server, address: str) -> None:
    line = line_of(open_journal, tmp_path, address)
    assert "URL of PostgreSQL; give postgresql://user@host:5432/database" in line
    assert "hush" not in line


def test_a_server_that_is_not_there(tmp_path: Path, postgres: Server) -> None:
    for url in ("postgresql://u:hush@127.0.0.1:1/d", f"postgresql:///d?host={tmp_path}", postgres.url("nosuch")):
        journal = open_journal(tmp_path, url)
        assert journal.last == 0  # there is none yet, so nobody needs to be asked
        line = line_of(journal.append, "add", [A], nothing)
        assert line.startswith("postgresql://")
        assert "not reachable (" in line
        assert line.endswith("start the server, or check the address, the user and the password")
        assert "hush" not in line
    assert list(tmp_path.iterdir()) == []


def test_a_directory_never_falls_back_to_another_journal(
    tmp_path: Path, journal: PostgresJournal, postgres: Server, other_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("add", [A], nothing)
    line = line_of(open_journal, tmp_path)
    assert line.startswith(f"{tmp_path / MARK_FILE}: the journal of this model is in PostgreSQL, made at postgresql://")
    assert line.endswith(f"give its address with `journal` or the environment variable {VARIABLE}")
    monkeypatch.setenv(VARIABLE, postgres.url())
    assert open_journal(tmp_path).last == 1
    monkeypatch.delenv(VARIABLE)
    # Another database, without tables and with tables of another journal.
    for _ in range(2):
        elsewhere = PostgresJournal(tmp_path, postgres.url(other_database))
        for call in (elsewhere.batches, lambda journal=elsewhere: journal.append("add", [B], nothing)):
            assert f"is not in {elsewhere.place}; give the address of the database that holds it" in line_of(call)
        elsewhere.close()
        (tmp_path / "sub").mkdir(exist_ok=True)
        PostgresJournal(tmp_path / "sub", postgres.url(other_database)).append("add", [C], nothing)
    assert journal.difference().added == [A]


def test_one_directory_has_one_journal(tmp_path: Path, postgres: Server) -> None:
    in_file, late = open_journal(tmp_path), open_journal(tmp_path)
    in_database = open_journal(tmp_path, postgres.url())
    in_file.append("add", [A], nothing)
    assert "this directory has its journal in a file" in line_of(open_journal, tmp_path, postgres.url())
    assert "this directory has its journal in a file" in line_of(in_database.append, "add", [B], nothing)
    assert not (tmp_path / MARK_FILE).exists()
    (tmp_path / JOURNAL_FILE).unlink()
    for name in ("wal", "shm"):
        (tmp_path / f"{JOURNAL_FILE}-{name}").unlink(missing_ok=True)
    in_database.append("add", [B], nothing)
    assert "is in PostgreSQL by now" in line_of(late.append, "add", [C], nothing)
    assert not (tmp_path / JOURNAL_FILE).exists()


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"format": "x"}', '{"format": "ookg journal", "version": 1}', "\xff"]
)
def test_a_damaged_mark_is_one_line(tmp_path: Path, postgres: Server, content: str) -> None:
    (tmp_path / MARK_FILE).write_text(content, encoding="latin-1")
    for address in (None, postgres.url()):
        with pytest.raises(ModelFileError, match=r"journal.json: damaged .*restore it") as refusal:
            _ = open_journal(tmp_path, address).last
        assert len(str(refusal.value).splitlines()) == 1


def test_what_is_newer_is_refused(tmp_path: Path, journal: PostgresJournal, postgres: Server) -> None:
    journal.append("add", [A], nothing)
    postgres.execute(f"UPDATE ookg_journals SET layout = 9 WHERE id = '{journal.id}'")
    assert "layout 9, and this ookg reads 1; upgrade ookg" in line_of(PostgresJournal(tmp_path, postgres.url()).batches)
    mark = json.loads((tmp_path / MARK_FILE).read_text())
    (tmp_path / MARK_FILE).write_text(json.dumps(mark | {"version": 9}))
    assert "version 9, and this ookg reads 1; upgrade ookg" in line_of(open_journal, tmp_path)


def test_a_journal_that_is_gone_or_damaged_is_one_line(journal: PostgresJournal, postgres: Server) -> None:
    journal.append("add", [A, B], nothing)
    postgres.execute(f"DELETE FROM ookg_changes WHERE journal = '{journal.id}' AND place = 1")
    assert journal.problem() == "damaged journal (1 changes instead of 2)"
    postgres.execute(f"UPDATE ookg_journals SET last = 7 WHERE id = '{journal.id}'")
    assert journal.problem() == "damaged journal (1 batches up to number 1, and 7 were written)"
    postgres.execute(f"DELETE FROM ookg_journals WHERE id = '{journal.id}'")
    assert "is gone from its database" in line_of(lambda: journal.last)
    assert "is gone from its database" in line_of(journal.append, "add", [C], nothing)


def test_the_server_restarts_in_between(journal: PostgresJournal, postgres: Server) -> None:
    journal.append("add", [A], nothing)
    postgres.stop()
    try:
        for call in (lambda: journal.last, lambda: journal.append("add", [B], nothing)):
            assert "not reachable (" in line_of(call)
        assert "not reachable" in str(journal.problem())
    finally:
        postgres.start()
    assert journal.last == 1
    postgres.stop()
    postgres.start()
    assert journal.append("add", [B], nothing, key="k").batch.number == 2
    assert journal.difference().added == [A, B]


def test_a_connection_that_is_lost_within_a_batch_loses_nothing(journal: PostgresJournal, postgres: Server) -> None:
    journal.append("add", [A], nothing)
    asked = list[Sequence[Triple]]()

    def lose(triples: Sequence[Triple]) -> list[bool]:
        if not asked:
            postgres.execute(f"SELECT pg_terminate_backend({backend(journal)}, 10000)")
        asked.append(triples)
        return nothing(triples)

    assert journal.append("add", [B], lose).batch.number == 2
    assert len(asked) == 2  # the second time over a new connection
    assert [batch.number for batch in journal.batches()] == [1, 2]
    assert journal.difference().added == [A, B]


def test_a_connection_that_is_lost_at_the_end_of_a_batch_is_said(
    journal: PostgresJournal, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("add", [A], nothing)
    connection = journal._connected()

    class Losing:
        """The connection, until it is to end a transaction: that is done, and never heard of."""

        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def execute(self, query: str, *values: Any) -> Any:
            answer = connection.execute(query, *values)
            if query == "COMMIT":
                connection.close()
                raise journal._psycopg.OperationalError("server closed the connection unexpectedly")
            return answer

    journal._connection = Losing()
    line = line_of(journal.append, "add", [B], nothing, key="k")
    assert "the connection was lost when the batch was written (server closed" in line
    assert "sent again under the same key, it counts once" in line
    assert journal.append("add", [B], nothing, key="k").is_repeated
    assert journal.difference().added == [A, B]


def test_who_waits_too_long_is_told(
    tmp_path: Path, journal: PostgresJournal, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("add", [A], nothing)
    monkeypatch.setattr(postgres_journal, "WAIT_SECONDS", 1.0)
    impatient = PostgresJournal(tmp_path, postgres.url())

    def meanwhile(triples: Sequence[Triple]) -> list[bool]:
        assert impatient.last == 1  # readers wait for nobody
        assert "another process has been writing for 1 s; try again" in line_of(impatient.append, "add", [C], nothing)
        return nothing(triples)

    journal.append("add", [B], meanwhile)
    assert impatient.append("add", [C], nothing).batch.number == 3


def test_the_servers_defaults_do_not_matter(tmp_path: Path, postgres: Server) -> None:
    odd = "-c default_transaction_isolation=serializable -c default_transaction_read_only=on -c synchronous_commit=off"
    url = f"{postgres.url()}&options={quote(odd)}"
    one, other = PostgresJournal(tmp_path, url), PostgresJournal(tmp_path, url)
    one.append("add", [A], nothing)
    assert one._connected().execute("SHOW synchronous_commit").fetchone() == ("on",)
    waiting = threading.Thread(target=other.append, args=("add", [B], nothing))

    def meanwhile(triples: Sequence[Triple]) -> list[bool]:
        waiting.start()
        while True:  # until the other one waits for this one
            [(count,)] = one._connected().execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()
            if count or not waiting.is_alive():
                return nothing(triples)

    one.append("add", [C], meanwhile)
    waiting.join()
    assert one.difference().added == [A, C, B]


def test_a_label_that_the_database_cannot_hold(journal: PostgresJournal) -> None:
    assert "cannot hold this text" in line_of(journal.append, "add", [("a\0", "r", "x")], nothing)
    assert journal.last == 0
    assert journal.append("add", [A], nothing).batch.number == 1


def test_a_user_who_may_make_no_tables(tmp_path: Path, postgres: Server, other_database: str) -> None:
    postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", other_database)
    journal = PostgresJournal(tmp_path, postgres.url(other_database, SECRET_USER, PASSWORD))
    assert "not allowed (permission denied" in line_of(journal.append, "add", [A], nothing)
    assert list(tmp_path.iterdir()) == []
    journal.close()


def test_threads_share_a_journal(journal: PostgresJournal) -> None:
    def write(name: str) -> None:
        for number in range(10):
            journal.append("add", [(f"{name}{number}", "r", "x")], nothing)
            assert journal.last > 0

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (journal.last, journal.problem(), len(journal.difference().added)) == (40, None, 40)


def test_a_fork_has_a_connection_of_its_own(journal: PostgresJournal) -> None:
    journal.append("add", [A], nothing)
    before = backend(journal)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            written = journal.append("add", [B], nothing).batch.number == 2
            code = 0 if written and backend(journal) != before else 1
            journal.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert backend(journal) == before
    assert journal.difference().added == [A, B]


WRITER = """
import sys
from ookg.storage.journals import open_journal
directory, url, name = sys.argv[1:]
journal = open_journal(directory, url)
for number in range(1_000_000):
    key = f"{name}-{number}"
    rows = [(key, "r", f"{row}") for row in range(20)]
    print(f"asked {key}", flush=True)
    journal.append("add", rows, lambda triples: [False] * len(triples), key=key)
    print(f"acknowledged {key}", flush=True)
"""


def test_killed_writers_leave_whole_batches_and_no_lock(
    tmp_path: Path, postgres: Server, journal: PostgresJournal
) -> None:
    asked, acknowledged = set[str](), set[str]()
    for turn in range(4):
        command = [sys.executable, "-c", WRITER, str(tmp_path), postgres.url(), f"{turn}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(3 + 10 * turn + turn % 2)]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        for line in lines:
            what, key = line.split()
            (asked if what == "asked" else acknowledged).add(key)
    assert journal.append("add", [A], nothing, key="after").batch.number == journal.last
    batches = [batch for batch in journal.batches() if batch.key != "after"]
    assert [batch.number for batch in batches] == list(range(1, len(batches) + 1))
    there = {str(batch.key) for batch in batches}
    assert acknowledged <= there <= asked
    assert len(acknowledged) >= 10
    assert all(len(journal.triples_of(batch.number)) == batch.changed == 20 for batch in batches)
    assert journal.problem() is None


def test_processes_that_begin_at_once_have_one_journal(tmp_path: Path, postgres: Server) -> None:
    code = (
        "import sys; from ookg.storage.journals import open_journal; journal = open_journal(*sys.argv[1:3]); "
        "sys.stdin.read(1); journal.append('add', [(sys.argv[3], 'r', 'x')], lambda rows: [False] * len(rows))"
    )
    command = [sys.executable, "-c", code, str(tmp_path), postgres.url()]
    writers = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in "abc"]
    for writer in writers:
        writer.communicate(b".", timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    journal: Journal = open_journal(tmp_path, postgres.url())
    assert sorted(head for head, _, _ in journal.difference().added) == ["a", "b", "c"]
    assert [path.name for path in tmp_path.iterdir()] == [MARK_FILE]
