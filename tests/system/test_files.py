"""What is written is whole or not there, with ordinary permissions, and what a killed writer left is removed."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ookg.errors import InputError
from ookg.graph.triples import as_triples, write_triples
from ookg.system import files
from ookg.system.files import PathLock, atomic_write, check_room, remove_remains, staged_folder

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


def listing(folder: Path) -> dict[str, str | None]:
    """All paths under a folder; the text of files."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in found}


def write(folder: Path, contents: dict[str, str]) -> None:
    with staged_folder(folder) as staging:
        for name, text in contents.items():
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_text(text)


@pytest.fixture(params=["one step", "two renames"])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to swap folders; the second one where the system has no first."""
    if request.param == "two renames":
        monkeypatch.setattr(files, "_exchange", lambda *_: False)


@pytest.mark.usefixtures("swap")
def test_a_folder_is_replaced_and_other_files_in_it_stay(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write(folder, {"a": "old", "sub/b": "old"})
    (folder / "notes").write_text("precious")
    (folder / "sub" / "notes").write_text("precious too")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("nowhere")
    folder.chmod(0o750)
    write(folder, {"a": "new", "sub/b": "new"})
    kept = {"notes": "precious", "sub/notes": "precious too", "empty": None, "link": None, "sub": None}
    assert listing(folder) == kept | {"a": "new", "sub/b": "new"}
    assert (folder / "link").is_symlink()
    assert folder.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.usefixtures("swap")
def test_a_file_that_comes_while_the_folder_is_swapped_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, exchange = tmp_path / "folder", files._exchange
    write(folder, {"a": "old"})

    def late(new: Path, old: Path) -> bool:
        (folder / "log").write_text("late")
        return exchange(new, old)

    monkeypatch.setattr(files, "_exchange", late)
    write(folder, {"a": "new"})
    assert listing(folder) == {"a": "new", "log": "late"}


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    folder = tmp_path / "folder"
    write(folder, {"a": "old"})
    (folder / "notes").write_text("precious")
    monkeypatch.setattr(os, "link", no_links)
    write(folder, {"a": "new"})
    assert listing(folder) == {"a": "new", "notes": "precious"}


def test_a_block_that_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write(folder, {"a": "old"})
    (folder / "b").mkdir()
    with pytest.raises(InputError, match=rf"{folder}: cannot be written \(b is a folder there\)"):
        write(folder, {"a": "new", "b": "new"})
    (folder / "c").write_text("no folder")
    with pytest.raises(InputError, match=rf"{folder}: cannot be written \(c is no folder there\)"):
        write(folder, {"a": "new", "c/d": "new"})
    assert listing(folder) == {"a": "old", "b": None, "c": "no folder"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "folder", {"a": "old"})
    (tmp_path / "link").symlink_to("folder")
    write(tmp_path / "link", {"a": "new"})
    assert (tmp_path / "link").is_symlink()
    assert listing(tmp_path / "folder") == {"a": "new"}


def test_the_current_folder_is_added_to_and_not_swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    number = tmp_path.stat().st_ino
    write(tmp_path, {"a": "new", "sub/b": "new"})
    assert listing(tmp_path) == {"inner": None, "a": "new", "sub": None, "sub/b": "new"}
    with pytest.raises(InputError, match=r"holds a and is the current folder, .*; run the command from another folder"):
        write(tmp_path, {"a": "newer", "c": "newer"})
    assert tmp_path.stat().st_ino == number
    assert listing(tmp_path) == {"inner": None, "a": "new", "sub": None, "sub/b": "new"}


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    names = {
        ".a.0123abcd.tmp": True,
        ".a.89abcdef.tmp": False,  # in use
        ".a.0123abcg.tmp": False,
        ".a.0123abcd.tmp2": False,
        ".b.0123abcd.tmp": False,
        "a.0123abcd.tmp": False,
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("of something")
    (tmp_path / ".a.00000000.tmp").write_text("of an older version, or not ours")
    in_use = PathLock(tmp_path / ".a.89abcdef.tmp", shared=True)
    with atomic_write(tmp_path / "a") as temporary:
        temporary.write_text("whole")
    expected = {name for name, goes in names.items() if not goes} | {"a", ".a.00000000.tmp"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    in_use.close()
    remove_remains(tmp_path / "a", alone=True)
    assert {path.name for path in tmp_path.iterdir()} == expected - {".a.89abcdef.tmp", ".a.00000000.tmp"}


def test_two_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as one, atomic_write(tmp_path / "a") as other:
        one.write_text("one")
        other.write_text("other")
    assert listing(tmp_path) == {"a": "one"}


def test_compressed_triples_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        write_triples(tmp_path / folder / "a.tsv.gz", as_triples([("a", "r", "b")]))
    one, other = (tmp_path / folder / "a.tsv.gz" for folder in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()  # the name of a temporary file is not in them


def test_a_folder_that_was_taken_for_a_remain_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.PathLock
    hits: list[Path] = []

    def late(path: Path, *, shared: bool) -> PathLock:
        lock = real(path, shared=shared)
        if shared and not hits:
            hits.append(path)
            shutil.rmtree(path)
        return lock

    monkeypatch.setattr(files, "PathLock", late)
    with atomic_write(tmp_path / "a") as temporary:
        temporary.write_text("whole")
    assert len(hits) == 1
    assert listing(tmp_path) == {"a": "whole"}


def test_a_folder_that_was_taken_out_gets_its_place_back(tmp_path: Path) -> None:
    scratch = tmp_path / ".set.0123abcd.tmp"
    write(scratch / "set", {"a": "new"})
    write(scratch / files.REPLACED, {"a": "old"})
    remove_remains(tmp_path / "set")
    assert listing(tmp_path) == {"set": None, "set/a": "old"}


def test_without_locks_nothing_is_taken_for_a_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    (tmp_path / ".a.0123abcd.tmp").mkdir()
    monkeypatch.setattr("fcntl.flock", unsupported)
    with atomic_write(tmp_path / "a") as temporary:
        temporary.write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a.0123abcd.tmp"}


def test_a_copy_of_a_lock_holds_nothing(tmp_path: Path) -> None:
    lock = PathLock(tmp_path, shared=True)
    assert lock.is_sure
    assert pickle.loads(pickle.dumps(lock)) is None
    assert copy.deepcopy(lock) is None
    with pytest.raises(BlockingIOError):
        PathLock(tmp_path, shared=False)
    del lock
    assert PathLock(tmp_path, shared=False).is_sure


def test_a_disk_without_room_is_refused(tmp_path: Path) -> None:
    check_room(tmp_path, 1000)
    check_room(tmp_path / "nowhere", 1 << 60)
    with pytest.raises(
        InputError, match=r"MB are free, and 1,000,000,000,000\.0 MB will be written; make room, or choose"
    ):
        check_room(tmp_path, 10**18)


def test_readers_and_killed_writers_find_old_or_new() -> None:
    command = [sys.executable, str(FAULTS), "--seconds", "2", "--kills", "4"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all held"), done.stdout + done.stderr
