"""One thread writes, others ask: nobody waits, and everybody sees a whole state."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError
from ookg.model.living import LivingModel
from ookg.model.model import Model
from ookg.training.continuing import UpdateSettings


@pytest.fixture
def living(tmp_path: Path) -> LivingModel:
    ookg.train(random_triples(0), SMALL, device="cpu").save(tmp_path / "model")
    return ookg.open(tmp_path / "model")


def test_asking_waits_for_no_writer(living: LivingModel) -> None:
    living.add([("n", "r0", "e1")])
    living.predict(head="n", relation="r1")
    answered = threading.Event()

    def ask() -> None:
        living.predict(head="n", relation="r1")
        living.follow()
        living.trust("n")
        assert living.names.name("n") is None
        answered.set()

    with living._writing:  # as while somebody writes
        thread = threading.Thread(target=ask)
        thread.start()
        assert answered.wait(60)
        thread.join()


def test_a_new_version_is_loaded_beside_the_old_one(living: LivingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    living.add([("n", "r0", "e1")])
    living.predict(head="n", relation="r1")
    ookg.open(living.directory).update(UpdateSettings(steps=2))
    extend = Model.extend
    during: list[Any] = []

    def slow(self: Model, *args: Any, **options: Any) -> Any:
        during.append((living.model.checkpoint.number, living.predict(head="n", relation="r1").trust))
        return extend(self, *args, **options)

    monkeypatch.setattr(Model, "extend", slow)
    assert living.refresh()
    assert [number for number, _ in during] == [1]
    assert during[0][1] is not None  # a newcomer until the new version is there
    assert living.model.checkpoint.number == 2
    assert living.predict(head="n", relation="r1").trust is None
    assert not living.refresh()


def test_following_takes_batches_and_leaves_versions(living: LivingModel) -> None:
    other = ookg.open(living.directory)
    living.predict(head="e0", relation="r0")
    other.add([("n", "r0", "e1")])
    assert living.follow()
    assert not living.follow()
    assert living.position == 1
    other.update(UpdateSettings(steps=2))
    assert not living.follow()
    assert living.model.checkpoint.number == 1
    assert living.refresh()
    assert (living.model.checkpoint.number, living.position) == (2, 1)


def test_many_ask_while_one_writes_and_one_updates(living: LivingModel) -> None:
    stop, failures = threading.Event(), list[BaseException]()
    living.add([("n", "r0", "e1")])

    def ask() -> None:
        while not stop.is_set():
            try:
                assert living.predict(head="n", relation="r1").answers
                assert len(living.extended.around("e1")) > 0
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(20):
        living.add([(f"m{number}", f"r{number % 4}", f"e{number % 5}")])
        if number % 3 == 0:
            living.remove(entity=f"m{number}")
        if number == 10:
            living.update(UpdateSettings(steps=2))
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    fresh = ookg.open(living.directory)
    assert len(fresh.new_entities) == len(living.new_entities)
    assert living.position == fresh.position
    for name in ("n", "m1", "m19"):
        assert living.predict(head=name, relation="r1").answers == fresh.predict(head=name, relation="r1").answers
    with pytest.raises(InputError):
        living.predict(head="m0", relation="r1")


def test_two_threads_write(living: LivingModel) -> None:
    def write(name: str) -> None:
        for number in range(10):
            living.add([(f"{name}{number}", "r0", "e1")])

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(living.new_entities) == 20
    assert living.journal.last == living.position == 20
