"""A journal that moves to PostgreSQL and back has the same batches; nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import ookg
from ookg.cli import main
from ookg.errors import InputError, ModelFileError, OokgError
from ookg.storage import moving
from ookg.storage.checkpoint import save_checkpoint
from ookg.storage.journal import JOURNAL_FILE, MARK_FILE, Batch, Journal, Triple
from ookg.storage.journals import VARIABLE, open_journal
from ookg.storage.moving import MOVED_FILE, move_journal
from ookg.storage.postgres_journal import PostgresJournal
from ookg.storage.sqlite_journal import SqliteJournal
from postgres_server import Server

A, B, C = (("a", "r", "x"), ("b", "r", "x"), ("c", "r", "y"))


def nothing(triples: Sequence[Triple]) -> list[bool]:
    return [False] * len(triples)


@pytest.fixture
def directory(model: ookg.Model, tmp_path: Path) -> Path:
    save_checkpoint(model.checkpoint, tmp_path / "model")
    return tmp_path / "model"


def filled(directory: Path, address: str | None = None) -> Journal:
    journal = open_journal(directory, address)
    journal.append("add", [A, B], nothing, key="monday", author="anna")
    journal.append("remove", [B], nothing, author="ben")
    journal.append("add", [A], nothing)  # changes nothing, and is a batch
    journal.append("remove", [A], nothing, key="the end", entity="a")
    return journal


def everything(journal: Journal) -> list[tuple[Batch, list[Triple], str | None]]:
    return [
        (batch, journal.triples_of(batch.number), journal.reading(lambda tables, n=batch.number: tables.request_of(n)))  # type: ignore[misc]
        for batch in journal.batches()
    ]


def held_by(address: str, journal: str) -> int:
    """How many batches a database has of a journal."""
    import psycopg

    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT count(*) FROM ookg_batches WHERE journal = %s", (journal,)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.postgres
def test_there_and_back_again(directory: Path, postgres: Server) -> None:
    before = everything(filled(directory))
    moved = move_journal(directory, postgres.url())
    assert (moved.batches, moved.changes) == (4, 4)
    assert sorted(path.name for path in directory.glob("*journal*")) == [MOVED_FILE, MARK_FILE]
    there = PostgresJournal(directory, postgres.url())
    assert everything(there) == before
    assert there.problem() is None
    there.append("add", [C], nothing, key="tuesday")
    assert there.append("add", [A, B], nothing, key="monday").is_repeated  # keys count as before
    later = everything(there)
    there.close()
    assert move_journal(directory, None, postgres.url()).batches == 5
    assert sorted(path.name for path in directory.glob("*journal*")) == [MOVED_FILE, JOURNAL_FILE]
    assert everything(open_journal(directory)) == later
    assert there.id is not None
    assert held_by(postgres.url(), there.id) == 0


@pytest.mark.postgres
def test_a_writer_that_waits_for_the_move_is_refused(
    directory: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(directory)
    waiting, refusals = SqliteJournal(directory), list[str]()
    begun = threading.Event()

    def write() -> None:
        begun.set()
        try:
            waiting.append("add", [C], nothing)
        except OokgError as error:
            refusals.append(str(error))

    writer, copy = threading.Thread(target=write), moving._copy

    def copy_while_another_waits(*arguments: object) -> tuple[int, int]:
        writer.start()
        begun.wait()
        return copy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(moving, "_copy", copy_while_another_waits)
    move_journal(directory, postgres.url())
    writer.join()
    # Whether it had opened the file already or not, it is refused, and told where the journal is.
    assert len(refusals) == 1
    assert "PostgreSQL" in refusals[0]
    assert open_journal(directory, postgres.url()).last == 4


@pytest.mark.postgres
def test_a_move_that_fails_leaves_the_journal_as_it_was(
    directory: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = filled(directory)
    before, files = everything(journal), sorted(directory.iterdir())

    def fail(*_: object) -> None:
        raise InputError("no")

    monkeypatch.setattr(moving, "_copy", fail)
    with pytest.raises(InputError):
        move_journal(directory, postgres.url())
    assert sorted(directory.iterdir()) == files
    assert everything(journal) == before
    journal.append("add", [C], nothing)


@pytest.mark.postgres
def test_a_journal_in_a_database_moves_to_a_file_alone(
    directory: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    filled(directory, postgres.url())
    with pytest.raises(InputError, match="`to=None` first"):
        move_journal(directory, postgres.url("other"), postgres.url())
    with pytest.raises(InputError, match="`journal`"):
        move_journal(directory, None)
    assert open_journal(directory, postgres.url()).last == 4


@pytest.mark.postgres
def test_the_command(directory: Path, postgres: Server, capsys: pytest.CaptureFixture[str]) -> None:
    filled(directory)
    assert main(["journal", "move", str(directory), "--to", postgres.url()]) == 0
    assert capsys.readouterr().out.startswith("4 batches with 4 changes moved to postgresql://")
    assert main(["journal", "move", str(directory), "--to", "file", "--journal", postgres.url(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "batches": 4, "changes": 4, "place": str(directory / JOURNAL_FILE)
    }  # fmt: skip
    assert main(["journal", "move", str(directory), "--to", "file"]) == 2
    assert "in the directory already" in capsys.readouterr().err


def test_what_cannot_be_moved(directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(InputError, match="nothing to move"):
        move_journal(directory, None)
    filled(directory)
    with pytest.raises(InputError, match="in the directory already"):
        move_journal(directory, None)
    with pytest.raises(ModelFileError, match="no model here"):
        move_journal(tmp_path / "other", None)
    assert not (tmp_path / "other").exists()


def test_a_file_that_has_moved_takes_no_batch(directory: Path) -> None:
    journal = filled(directory)
    before = everything(journal)
    journal.writing(lambda tables: tables.retire())
    with pytest.raises(InputError, match="has moved to PostgreSQL; give its address"):
        journal.append("add", [C], nothing)
    assert everything(journal) == before
    with sqlite3.connect(directory / JOURNAL_FILE) as connection:  # an interrupted move begins anew
        assert connection.execute("SELECT count(*) FROM batches").fetchone() == (4,)
    connection.close()
    journal.writing(lambda tables: tables.retire())
