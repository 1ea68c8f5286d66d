"""The names of a model directory: stored for good, mapped, replaced as a whole."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from pathlib import Path

import pytest

import ookg
from ookg.errors import InputError, ModelFileError
from ookg.graph.names import as_names
from ookg.storage import names as storage
from ookg.storage.checkpoint import check_model
from ookg.storage.names import NAMES_FILE, add_names, names_stamp, stored_names

GRAPH = [(f"{number}", "next", f"{number + 1}") for number in range(20)]
SETTINGS = ookg.TrainingSettings(dim=4, steps=3, batch=8, negatives=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names") / "model"
    ookg.train(GRAPH, SETTINGS, out=place, device="cpu")
    return place


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "model"))


def test_names_stay_and_are_added_to(model: Path) -> None:
    assert len(stored_names(model)) == 0
    add_names(model, {"1": "one", "2": "two"})
    assert len(add_names(model, [("2", "zwei", "German"), ("next", "comes before")])) == 3
    names = ookg.load(model).names
    assert [names.name(label) for label in ("1", "2", "next", "3")] == ["one", "zwei", "comes before", None]
    assert (names.description("2"), names.description("1"), names.find("zwei")) == ("German", None, ["2"])
    assert len(add_names(model, {"3": "three"}, replace=True)) == 1
    assert not [path for path in model.iterdir() if path.name.endswith(".tmp")]


def test_the_same_names_are_the_same_bytes(model: Path) -> None:
    add_names(model, {"1": "one", "2": "two"})
    before = (model / NAMES_FILE).read_bytes()
    for source in ({"2": "two"}, {"2": "two", "1": "one"}, {"1": "one"}):
        add_names(model, source)
        assert (model / NAMES_FILE).read_bytes() == before


def test_a_model_without_a_directory_has_no_names(model: Path, tmp_path: Path) -> None:
    assert len(ookg.train(GRAPH, SETTINGS, device="cpu").names) == 0
    add_names(model, {"1": "one"})
    ookg.load(model).save(tmp_path / "copy")
    assert ookg.load(tmp_path / "copy").names.name("1") == "one"
    ookg.load(model).save(model)
    assert ookg.load(model).names.name("1") == "one"


def test_a_living_model_follows_names_of_others(model: Path) -> None:
    living = ookg.open(model)
    assert living.names.name("1") is None
    add_names(model, {"1": "one", "new": "a newcomer"})
    assert living.names.name("1") == "one"
    before = living.names
    assert living.names is before
    living.add([("new", "next", "3")])
    living.update(ookg.UpdateSettings(steps=2))
    assert living.names.name("new") == "a newcomer"
    living.add_names({"1": "eins"})
    living.rollback()
    assert (living.names.name("1"), living.names.name("new")) == ("eins", "a newcomer")
    (model / NAMES_FILE).unlink()
    assert len(living.names) == 0
    assert before.name("1") == "one"  # a reader goes on with what it has mapped


@pytest.mark.parametrize("part", ["start", "middle", "end", "cut", "empty", "folder"])
def test_damage_is_one_line_and_mended_by_new_names(model: Path, part: str) -> None:
    add_names(model, {f"{number}": f"name {number}" for number in range(50)})
    path, content = model / NAMES_FILE, (model / NAMES_FILE).read_bytes()
    place = {"start": 2, "middle": len(content) // 2, "end": len(content) - 3}.get(part)
    if place is not None:
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
    elif part == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content[: len(content) // 2] if part == "cut" else b"")
    with pytest.raises(ModelFileError, match=NAMES_FILE) as refusal:
        _ = ookg.load(model).names
    assert len(str(refusal.value).splitlines()) == 1
    assert "ookg names DIR FILE" in str(refusal.value)
    if part == "folder":
        return
    [check] = [check for check in check_model(model) if check.name == NAMES_FILE]
    assert check.problem is not None
    assert "damaged names" in check.problem
    with pytest.raises(ModelFileError):
        add_names(model, {"1": "one"})
    assert len(add_names(model, {"1": "one"}, replace=True)) == 1
    assert all(check.problem is None for check in check_model(model))


def test_damage_to_large_names_is_noticed_where_it_is_read(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_names(model, {f"{number:03}": f"é{number}" for number in range(100)})
    monkeypatch.setattr(storage, "CHECKED_BYTES", 10)
    path = model / NAMES_FILE
    path.write_bytes(path.read_bytes().replace("é50".encode(), b"\xff\xffx0"[:4]))
    names = ookg.load(model).names
    assert names.name("051") == "é51"
    with pytest.raises(ModelFileError, match=r"damaged names.*not Unicode") as refusal:
        names.name("050")
    assert "ookg names" in str(refusal.value)
    assert any(check.problem for check in check_model(model))


def test_what_cannot_be_written_leaves_the_old_names(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_names(model, {"1": "one"})
    stamp = names_stamp(model)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write_arrays", full)
    with pytest.raises(InputError, match=r"names.safetensors: cannot be written \(No space left"):
        add_names(model, {"2": "two"})
    assert names_stamp(model) == stamp
    assert ookg.load(model).names.name("1") == "one"


def _write_some(directory: Path, first: int) -> None:
    for number in range(first, first + 5):
        add_names(directory, {f"{number}": f"name {number}"})


def test_processes_that_name_at_once_lose_nothing(model: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_some, args=(model, first)) for first in (0, 100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(stored_names(model)) == 15


def test_names_can_be_sent_to_another_process(model: Path) -> None:
    names = add_names(model, {"1": "one"})
    assert pickle.loads(pickle.dumps(names)).name("1") == "one"
    assert pickle.loads(pickle.dumps(as_names({"2": "two"}))).find("two") == ["2"]
