"""The journal of a model directory: every triple that was added or removed since the model was trained, in order.

A batch is one transaction, written through to the disk before it is acknowledged: a crash loses nothing that was
acknowledged, and keeps nothing that was not. Batches are numbered from 1 on and never changed; a version of the model
says up to which of them it has learned (`Checkpoint.journal`), and what came later is what it is asked with.

This is what every journal does. Where its tables lie is the matter of `storage.sqlite_journal`, a file in the
directory, and of `storage.postgres_journal`, a database that several machines reach; `storage.journals` opens the one
that a directory has.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from ookg.errors import InputError, KeyTaken

JOURNAL_FILE = "journal.sqlite"  # in the directory, where the journal lies there
MARK_FILE = "journal.json"  # in the directory, where it lies in PostgreSQL
WAIT_SECONDS = 60.0  # for another process that is writing
NO_BATCH = 1 << 62  # larger than the number of any

Kind = Literal["add", "remove"]
Triple = tuple[str, str, str]
# Which of some triples the version of the model that a batch follows knows from training.
IsKnown = Callable[[Sequence[Triple]], Sequence[bool]]
Result = TypeVar("Result")


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


@dataclass(frozen=True)
class NewBatch:
    """A batch that is to be written: as `Batch`, with its triples and a digest of what was asked for under its key."""

    kind: Kind
    key: str | None
    author: str
    time: str
    asked: int
    request: str | None
    triples: Sequence[Triple]


class Tables(Protocol):
    """The tables of a journal within one transaction."""

    def last(self) -> int:
        """The number of the last batch; 0 for none."""

    def batches(self, after: int) -> list[Batch]:
        """The batches with larger numbers than that, in order."""

    def latest(self, most: int, before: int) -> list[Batch]:
        """The last batches with smaller numbers than that, the very last one first."""

    def changes_of(self, entity: str, after: int) -> list[tuple[int, int]]:
        """The batches after that one that changed triples of an entity: how many each added, below 0 removed."""

    def batch_with_key(self, key: str) -> Batch | None:
        """The batch with this key."""

    def request_of(self, number: int) -> str | None:
        """The digest of what was asked for with a batch."""

    def triples_of(self, number: int) -> list[Triple]:
        """The triples that a batch changed, in order."""

    def changes(self, after: int, until: int | None) -> Iterable[tuple[Kind, str, str, str]]:
        """What batches after one and up to another changed, in order: the kind of change and the triple."""

    def present(self, triples: Sequence[Triple], after: int) -> dict[Triple, bool]:
        """Of the triples that batches after that one mention, whether each is there now."""

    def insert(self, batch: NewBatch) -> int:
        """Write a batch; return its number, the one after the last."""

    def free_keys(self) -> None:
        """Let no batch have a key any more."""

    def retire(self) -> None:
        """Let nobody write to it any more: all of it is in another journal."""


class Journal(ABC):
    """The journal of one model directory.

    path: the file in the directory that it is, or that says which one it is
    place: where it lies, for messages; never with a password
    """

    path: Path
    place: str

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether anything was ever written to it."""

    @abstractmethod
    def problem(self) -> str | None:
        """What is wrong with it, or None; all of it is read."""

    @abstractmethod
    def reading(self, work: Callable[[Tables], Result]) -> Result:
        """Do something that reads a journal that exists."""

    @abstractmethod
    def writing(self, work: Callable[[Tables], Result]) -> Result:
        """Do something in one transaction, all or nothing, while no other process writes; made where it is missing.

        When it returns, what was written is on the disk.
        """

    def hold(self) -> None:
        """Keep open between calls what can be: for a process that asks many times a second."""
        return

    def close(self) -> None:
        """Let go of what is held between calls, if anything is; the next call takes it up again."""
        return

    @property
    def last(self) -> int:
        """The number of the last batch; 0 for none."""
        return self.reading(lambda tables: tables.last()) if self.exists else 0

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
        request = None if key is None else _request(kind, distinct if entity is None else entity)

        def write(tables: Tables) -> Written:
            repeated = None if key is None else self._repeated(tables, key, request)
            if repeated is not None:
                return Written(repeated, is_repeated=True)
            later = tables.present(distinct, after)
            unmentioned = [triple for triple in distinct if triple not in later]
            present = later | dict(zip(unmentioned, is_known(unmentioned) if unmentioned else (), strict=True))
            changed = [triple for triple in distinct if bool(present[triple]) == (kind == "remove")]
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            number = tables.insert(NewBatch(kind, key, author, time, len(distinct), request, changed))
            batch = Batch(number, kind, key, author, time, len(distinct), len(changed))
            return Written(batch, is_repeated=False)

        return self.writing(write)

    def free_keys(self) -> None:
        """Let every key be used again: what stood under it was said of another model."""
        if self.exists:
            self.writing(lambda tables: tables.free_keys())

    def removal_of(self, entity: str, key: str) -> Batch | None:
        """The batch that removed the triples of an entity under this key; None if there is none yet."""
        if not self.exists:
            return None
        return self.writing(lambda tables: self._repeated(tables, key, _request("remove", entity)))

    def _repeated(self, tables: Tables, key: str, request: str | None) -> Batch | None:
        """The batch with this key, which must have asked for the same."""
        batch = tables.batch_with_key(key)
        if batch is not None and tables.request_of(batch.number) != request:
            problem = f"{self.place}: key {key!r} is that of another batch (number {batch.number})"
            raise KeyTaken(f"{problem}; choose a new key for what is new")
        return batch

    def batches(self, after: int = 0) -> list[Batch]:
        """The batches with larger numbers than that, in order."""
        return self.reading(lambda tables: tables.batches(after)) if self.exists else []

    def latest(self, most: int, before: int | None = None) -> list[Batch]:
        """The last batches with smaller numbers than that, the very last one first."""
        before = NO_BATCH if before is None else before
        return self.reading(lambda tables: tables.latest(most, before)) if self.exists else []

    def bringing(self, entity: str, after: int = 0) -> Batch | None:
        """The batch, of those with larger numbers than that, by which an entity came; the last one, if it came again.

        It comes by the first of its triples, and has gone when the last of them is removed.
        """
        changes = self.reading(lambda tables: tables.changes_of(entity, after)) if self.exists else []
        number, triples = None, 0
        for batch, change in changes:
            if change > 0 and not triples:
                number = batch
            triples = max(0, triples + change)
        return None if number is None else self.latest(1, number + 1)[0]

    def triples_of(self, number: int) -> list[Triple]:
        """The triples that a batch changed, in order."""
        return self.reading(lambda tables: tables.triples_of(number))

    def difference(self, after: int = 0, until: int | None = None) -> Difference:
        """What the batches with larger numbers than that amount to; what came and went again is in neither list.

        until: the last batch that counts; None: all that are there
        Triples that came are in the order in which they (last) came.
        """
        if not self.exists:
            return Difference([], [])
        return self.reading(lambda tables: _difference(tables.changes(after, until)))


def _difference(changes: Iterable[tuple[Kind, str, str, str]]) -> Difference:
    balance: dict[Triple, int] = {}
    for kind, head, relation, tail in changes:
        total = balance.pop((head, relation, tail), 0) + (1 if kind == "add" else -1)
        if total:
            balance[head, relation, tail] = total
    added = [triple for triple, total in balance.items() if total > 0]
    return Difference(added, [triple for triple, total in balance.items() if total < 0])


def _request(kind: Kind, named: Sequence[Triple] | str) -> str:
    """A digest of what is asked for: triples in any order, or an entity."""
    text = json.dumps([kind, named if isinstance(named, str) else sorted(named)])
    return hashlib.sha256(text.encode()).hexdigest()
