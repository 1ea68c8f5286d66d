"""A journal that is kept open between calls answers as one that is not."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ookg.errors import ModelFileError
from ookg.storage.journal import Triple
from ookg.storage.sqlite_journal import SqliteJournal


def nothing(triples: Sequence[Triple]) -> list[bool]:
    return [False] * len(triples)


@pytest.fixture
def held(tmp_path: Path) -> SqliteJournal:
    journal = SqliteJournal(tmp_path)
    journal.hold()
    return journal


def append(journal: SqliteJournal, name: str) -> int:
    return journal.append("add", [(name, "r", "e")], nothing).batch.number


def test_it_sees_what_others_write_and_they_see_it(held: SqliteJournal, tmp_path: Path) -> None:
    other = SqliteJournal(tmp_path)
    assert held.last == 0
    for number in range(1, 6):
        assert append(held if number % 2 else other, f"n{number}") == number
        assert held.last == other.last == number
    assert held.batches() == other.batches()
    held.close()
    assert held.last == 5
    assert not (tmp_path / "journal.sqlite-wal").exists()


def test_reading_waits_for_no_writer(held: SqliteJournal) -> None:
    append(held, "a")
    inside, go_on, found = threading.Event(), threading.Event(), list[int]()

    def known(triples: Sequence[Triple]) -> list[bool]:
        inside.set()
        assert go_on.wait(60)
        return nothing(triples)

    writer = threading.Thread(target=held.append, args=("add", [("b", "r", "e")], known))
    writer.start()
    assert inside.wait(60)
    found.append(held.last)  # while the writer is in its transaction
    go_on.set()
    writer.join()
    assert (found, held.last) == ([1], 2)


def test_a_file_that_is_replaced_is_read_anew(held: SqliteJournal, tmp_path: Path) -> None:
    for name in "abc":
        append(held, name)
    (tmp_path / "other").mkdir()
    other = SqliteJournal(tmp_path / "other")
    append(other, "z")
    held.close()
    held.hold()
    assert held.last == 3
    for path in tmp_path.glob("journal.sqlite*"):
        path.unlink()
    assert held.last == 0
    shutil.copy(tmp_path / "other" / "journal.sqlite", tmp_path / "journal.sqlite")
    assert held.triples_of(held.last) == [("z", "r", "e")]


def test_a_damaged_file_is_refused_and_then_mended(held: SqliteJournal, tmp_path: Path) -> None:
    append(held, "a")
    held.close()
    held.hold()
    sound = held.path.read_bytes()
    held.path.unlink()
    held.path.write_bytes(b"x" * 4096)
    with pytest.raises(ModelFileError, match="journal"):
        held.last  # noqa: B018
    held.path.unlink()
    held.path.write_bytes(sound)
    assert held.last == 1


def test_what_fails_leaves_no_transaction_open(held: SqliteJournal) -> None:
    append(held, "a")

    def fail(_: Sequence[Triple]) -> list[bool]:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        held.append("add", [("b", "r", "e")], fail)
    assert append(held, "c") == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_opens_its_own(held: SqliteJournal) -> None:
    append(held, "a")
    child = os.fork()
    if child == 0:
        os._exit(0 if append(held, "b") == 2 and held.last == 2 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert append(held, "c") == 3
