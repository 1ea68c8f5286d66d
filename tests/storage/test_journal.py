from __future__ import annotations

import multiprocessing
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from ookg.errors import InputError, ModelFileError
from ookg.storage.journal import JOURNAL_FILE, Journal, Triple
from ookg.storage.journals import open_journal
from ookg.storage.sqlite_journal import SqliteJournal

A, B, C = (("a", "r", "x"), ("b", "r", "x"), ("c", "r", "y"))


def nothing(triples: Sequence[Triple]) -> list[bool]:
    return [False] * len(triples)


def only(*known: Triple):  # type: ignore[no-untyped-def]
    return lambda triples: [triple in known for triple in triples]


class Kind:
    """Journals of one kind; url: of the database, where they lie in one."""

    def __init__(self, url: str | None) -> None:
        self.url = url

    def __call__(self, directory: Path) -> Journal:
        return open_journal(directory, self.url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(None if request.param == "sqlite" else request.getfixturevalue("postgres").url())


def test_what_is_added_is_there_and_what_is_removed_is_not(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
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


def test_triples_of_training_are_not_added_and_can_be_removed(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    assert journal.append("add", [A, B], only(A)).batch.changed == 1
    assert journal.append("remove", [A, C], only(A)).batch.changed == 1
    assert journal.difference().removed == [A]
    assert journal.append("add", [A], only(A)).batch.changed == 1  # it had gone
    assert journal.difference() == journal.difference(after=0)
    assert (journal.difference().added, journal.difference().removed) == ([B], [])


def test_a_later_version_looks_at_later_batches_alone(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    journal.append("add", [A], nothing)
    assert journal.append("add", [A], only(A), after=1).batch.changed == 0
    assert journal.append("remove", [A], only(A), after=1).batch.changed == 1
    assert journal.difference(after=1).removed == [A]
    assert journal.difference().added == []


def test_a_key_counts_once(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    first = journal.append("add", [A, B], nothing, key="k")
    again = journal.append("add", [A, B], nothing, key="k")
    assert (first.is_repeated, again.is_repeated) == (False, True)
    assert again.batch == first.batch
    assert journal.last == 1
    with pytest.raises(InputError, match="key 'k' is that of another batch"):
        journal.append("remove", [A], nothing, key="k")


def test_a_key_stands_for_its_triples_in_any_order(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    first = journal.append("add", [A, B], nothing, key="k").batch
    assert journal.append("add", [B, A, B], nothing, key="k").batch == first
    for other in ([A, C], [A, B, C], [A]):  # as many as before, too: they must not be lost in silence
        with pytest.raises(InputError, match="key 'k' is that of another batch"):
            journal.append("add", other, nothing, key="k")
    with pytest.raises(InputError, match="key '' is no name"):
        journal.append("add", [C], nothing, key="")
    assert journal.difference().added == [A, B]


def test_a_journal_of_the_first_layout_takes_keys(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    journal.append("add", [A], nothing)
    with sqlite3.connect(journal.path) as connection:
        connection.execute("ALTER TABLE batches DROP COLUMN request")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert journal.difference().added == [A]
    batch = journal.append("add", [B], nothing, key="k").batch
    assert journal.append("add", [B], nothing, key="k").batch == batch
    assert journal.difference().added == [A, B]


def test_an_error_in_a_batch_leaves_nothing_of_it(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    journal.append("add", [A], nothing)

    def fails(triples: Sequence[Triple]) -> list[bool]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        journal.append("add", [B], fails)
    assert (journal.last, journal.difference().added) == (1, [A])
    with pytest.raises(InputError, match="no triples"):
        journal.append("add", [], nothing)


def test_damage_is_refused_in_one_line(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
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
        SqliteJournal(tmp_path).difference()


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    SqliteJournal(tmp_path).append("add", [A], nothing)
    with sqlite3.connect(tmp_path / JOURNAL_FILE) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(ModelFileError, match="version 9, and this ookg reads up to 2"):
        SqliteJournal(tmp_path).append("add", [B], nothing)


def _write(directory: Path, url: str | None, name: str) -> None:
    for number in range(20):
        open_journal(directory, url).append("add", [(f"{name}{number}", "r", "x")], nothing, author=name)


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path, kind: Kind) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, kind.url, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    journal = kind(tmp_path)
    assert (journal.last, journal.problem()) == (60, None)
    assert [batch.number for batch in journal.batches()] == list(range(1, 61))
    added = journal.difference().added
    assert sorted(added) == sorted((f"{name}{number}", "r", "x") for name in "abc" for number in range(20))
    for name in "abc":
        own = [head for head, _, _ in added if head.startswith(name)]
        assert own == [f"{name}{number}" for number in range(20)]  # in the order in which each was written


def test_keys_are_free_for_another_model(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    journal.free_keys()
    assert not journal.exists
    journal.append("add", [A], nothing, key="k")
    journal.free_keys()
    assert journal.append("add", [B], nothing, key="k").batch.number == 2
    assert [batch.key for batch in journal.batches()] == [None, "k"]


def test_the_removal_of_an_entity_is_found_again(tmp_path: Path, kind: Kind) -> None:
    journal = kind(tmp_path)
    assert journal.removal_of("a", "k") is None
    journal.append("add", [A], nothing)
    removed = journal.append("remove", [A], nothing, key="k", entity="a").batch
    assert journal.removal_of("a", "k") == removed
    assert journal.removal_of("a", "other") is None
    with pytest.raises(InputError, match="key 'k' is that of another batch"):
        journal.removal_of("b", "k")


def test_odd_and_long_labels_come_back_as_they_were(tmp_path: Path, kind: Kind) -> None:
    odd = [
        ("é\U0001f600", "\x1b[0m", "'; DROP TABLE batches; --"),
        ("x" * 100_000, "%s {} \\", "\n\t"),
        ("NULL", "", "{}"),
    ]
    journal = kind(tmp_path)
    long_key = "k" * 10_000
    batch = journal.append("add", odd, nothing, key=long_key, author="Ünï").batch
    assert kind(tmp_path).triples_of(1) == odd
    assert kind(tmp_path).batches() == [batch]
    assert journal.append("add", odd, nothing, key=long_key).is_repeated
    assert journal.append("add", odd, nothing).batch.changed == 0


def test_many_triples_at_once_agree_with_sets(tmp_path: Path, kind: Kind) -> None:
    rng, journal, state = random.Random(0), kind(tmp_path), set[Triple]()
    known = {(f"{number}", "r", "t") for number in range(0, 300, 3)}
    state |= known
    for _ in range(20):
        what = rng.choice(["add", "remove"])
        rows = [(f"{rng.randrange(300)}", "r", "t") for _ in range(rng.choice([1, 30, 200]))]
        batch = journal.append("add" if what == "add" else "remove", rows, only(*known)).batch
        changed = [row for row in dict.fromkeys(rows) if (row in state) == (what == "remove")]
        assert journal.triples_of(batch.number) == changed
        assert (batch.asked, batch.changed) == (len(set(rows)), len(changed))
        state = state | set(rows) if what == "add" else state - set(rows)
    difference = journal.difference()
    assert (known - set(difference.removed)) | set(difference.added) == state
    assert journal.problem() is None


def test_several_journals_in_one_place_do_not_meet(tmp_path: Path, kind: Kind) -> None:
    folders = [tmp_path / name for name in "ab"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        for _ in range(number + 1):
            kind(folder).append("add", [A], nothing, key=f"{number} {kind(folder).last}")
    assert [kind(folder).last for folder in folders] == [1, 2]
    assert kind(folders[0]).batches(after=1) == []
    assert [batch.changed for batch in kind(folders[1]).batches()] == [1, 0]


def test_a_follower_sees_what_others_wrote(tmp_path: Path, kind: Kind) -> None:
    follower, writer = kind(tmp_path), kind(tmp_path)
    assert follower.last == 0
    writer.append("add", [A], nothing)
    assert (follower.last, follower.difference().added) == (1, [A])
    writer.append("remove", [A], nothing)
    assert (follower.last, follower.difference(after=1).removed) == (2, [A])


def test_the_latest_batches_and_the_one_that_brought_an_entity(kind: Kind, tmp_path: Path) -> None:
    journal = kind(tmp_path)
    assert journal.latest(5) == []
    assert journal.bringing("a") is None
    for triple in (A, B, C):
        journal.append("add", [triple], nothing)
    journal.append("remove", [A], nothing)
    journal.append("add", [A], nothing)
    assert [batch.number for batch in journal.latest(2)] == [5, 4]
    assert [batch.number for batch in journal.latest(2, before=4)] == [3, 2]
    assert journal.latest(9) == journal.batches()[::-1]
    assert journal.latest(9, before=1) == []
    brought = {name: journal.bringing(name) for name in ("a", "x", "y", "r", "nobody")}
    assert {name: batch and batch.number for name, batch in brought.items()} == {
        "a": 5, "x": 1, "y": 3, "r": None, "nobody": None
    }  # fmt: skip
    again = journal.bringing("a", after=1)
    assert again is not None
    assert (again.number, again.kind) == (5, "add")
