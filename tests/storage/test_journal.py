from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from ookg.errors import InputError, ModelFileError
from ookg.storage.journal import JOURNAL_FILE, Journal, Triple

A, B, C = (("a", "r", "x"), ("b", "r", "x"), ("c", "r", "y"))


def nothing(triples: Sequence[Triple]) -> list[bool]:
    return [False] * len(triples)


def only(*known: Triple):  # type: ignore[no-untyped-def]
    return lambda triples: [triple in known for triple in triples]


def test_what_is_added_is_there_and_what_is_removed_is_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert (journal.last, journal.batches(), journal.difference().added) == (0, [], [])
    assert not journal.exists  # asking makes no file
    first = journal.append("add", [A, B, A], nothing, author="me").batch
    assert (first.number, first.kind, first.asked, first.changed, first.author) == (1, "add", 2, 2, "me")
    assert journal.append("add", [B, C], nothing).batch.changed == 1
    assert journal.append("remove", [A], nothing).batch.changed == 1
    assert journal.difference().added == [B, C]
    assert journal.difference().removed == []
    assert journal.difference(after=2).removed == [A]
    assert [batch.number for batch in journal.batches(after=1)] == [2, 3]
    assert journal.triples_of(2) == [C]
    assert journal.append("add", [A], nothing).batch.changed == 1
    assert journal.difference().added == [B, C, A]  # A came last


def test_triples_of_training_are_not_added_and_can_be_removed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.append("add", [A, B], only(A)).batch.changed == 1
    assert journal.append("remove", [A, C], only(A)).batch.changed == 1
    assert journal.difference().removed == [A]
    assert journal.append("add", [A], only(A)).batch.changed == 1  # it had gone
    assert journal.difference() == journal.difference(after=0)
    assert (journal.difference().added, journal.difference().removed) == ([B], [])


def test_a_later_version_looks_at_later_batches_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append("add", [A], nothing)
    assert journal.append("add", [A], only(A), after=1).batch.changed == 0
    assert journal.append("remove", [A], only(A), after=1).batch.changed == 1
    assert journal.difference(after=1).removed == [A]
    assert journal.difference().added == []


def test_a_key_counts_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = journal.append("add", [A, B], nothing, key="k")
    again = journal.append("add", [A, B], nothing, key="k")
    assert (first.is_repeated, again.is_repeated) == (False, True)
    assert again.batch == first.batch
    assert journal.last == 1
    with pytest.raises(InputError, match="key 'k' is that of another batch"):
        journal.append("remove", [A], nothing, key="k")


def test_a_key_stands_for_its_triples_in_any_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = journal.append("add", [A, B], nothing, key="k").batch
    assert journal.append("add", [B, A, B], nothing, key="k").batch == first
    for other in ([A, C], [A, B, C], [A]):  # as many as before, too: they must not be lost in silence
        with pytest.raises(InputError, match="key 'k' is that of another batch"):
            journal.append("add", other, nothing, key="k")
    with pytest.raises(InputError, match="key '' is no name"):
        journal.append("add", [C], nothing, key="")
    assert journal.difference().added == [A, B]


def test_a_journal_of_the_first_layout_takes_keys(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append("add", [A], nothing)
    with sqlite3.connect(journal.path) as connection:
        connection.execute("ALTER TABLE batches DROP COLUMN request")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert journal.difference().added == [A]
    batch = journal.append("add", [B], nothing, key="k").batch
    assert journal.append("add", [B], nothing, key="k").batch == batch
    assert journal.difference().added == [A, B]


def test_an_error_in_a_batch_leaves_nothing_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append("add", [A], nothing)

    def fails(triples: Sequence[Triple]) -> list[bool]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        journal.append("add", [B], fails)
    assert (journal.last, journal.difference().added) == (1, [A])
    with pytest.raises(InputError, match="no triples"):
        journal.append("add", [], nothing)


def test_damage_is_refused_in_one_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append("add", [(f"e{number}", "r", "x") for number in range(2000)], nothing)
    assert journal.problem() is None
    path = tmp_path / JOURNAL_FILE
    whole = path.read_bytes()
    for damaged in (
        b"",
        b"not a database at all, and longer than a header" * 50,
        whole[:100],
        whole[: len(whole) // 2],
    ):
        path.write_bytes(damaged)
        for file in tmp_path.glob(f"{JOURNAL_FILE}-*"):
            file.unlink()
        assert journal.problem() is not None
        with pytest.raises(ModelFileError, match=JOURNAL_FILE) as refusal:
            journal.difference()
        assert "\n" not in str(refusal.value)


def test_another_program_s_database_is_no_journal(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / JOURNAL_FILE) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(ModelFileError, match="not a journal of ookg"):
        Journal(tmp_path).difference()


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path).append("add", [A], nothing)
    with sqlite3.connect(tmp_path / JOURNAL_FILE) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(ModelFileError, match="version 9, and this ookg reads up to 2"):
        Journal(tmp_path).append("add", [B], nothing)


def _write(directory: Path, name: str) -> None:
    for number in range(20):
        Journal(directory).append("add", [(f"{name}{number}", "r", "x")], nothing, author=name)


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert Journal(tmp_path).last == 60
    added = Journal(tmp_path).difference().added
    assert sorted(added) == sorted((f"{name}{number}", "r", "x") for name in "abc" for number in range(20))
    for name in "abc":
        own = [head for head, _, _ in added if head.startswith(name)]
        assert own == [f"{name}{number}" for number in range(20)]  # in the order in which each was written
