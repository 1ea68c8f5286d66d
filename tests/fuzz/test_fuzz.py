"""A short run of the fuzzer, and that it can be relied on: sound inputs, the same case for the same number."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz.cases import SOUND_LINES, kind_names, make_case
from fuzz.inputs import Kind, kinds, write_inputs
from fuzz.runner import PROBLEMS, message_lines, problem_of, run_cases
from ookg.cli import COMMANDS, main

SHORT = 300
# Ended in a traceback or an abort once: a unit_norm beyond 64 bits, Parquet whose metadata Arrow aborts on, labels that
# are not UTF-8, a column twice.
FOUND_ONCE = (9583, 13667, 20278, 20324)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_inputs(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_damaged_inputs_are_taken_or_refused_in_a_line(sound: Path, tmp_path: Path) -> None:
    found = list(run_cases([*range(SHORT), *FOUND_ONCE], sound, tmp_path))
    assert [(outcome.number, outcome.place) for outcome in found if outcome.problem] == []
    codes = [outcome.code for outcome in found]
    assert codes.count(0) > SHORT / 10  # not all of the damage is noticed
    assert codes.count(2) > SHORT / 3


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_what_is_damaged_was_sound(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    shutil.copytree(sound / kind.folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    line = [f"{sound}/{word[1:]}" if word.startswith("@") else word for word in kind.commands[0]]
    assert main(line) == 0


def test_every_command_has_sound_options() -> None:
    assert {line[0] for line in SOUND_LINES} == set(COMMANDS) - {"demo"}  # which takes no input


def test_a_number_is_always_the_same_input(sound: Path, tmp_path: Path) -> None:
    write_inputs(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(sound)
    for number in range(len(kind_names())):
        cases = [make_case(number, sound, tmp_path / f"{number}-{turn}") for turn in range(2)]
        assert cases[0].description == cases[1].description
        assert contents(tmp_path / f"{number}-0") == contents(tmp_path / f"{number}-1")


def test_an_input_that_takes_too_long_is_named(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.runner.SECONDS", 0.0)
    [outcome] = run_cases([3], sound, tmp_path)
    assert (outcome.number, outcome.kind, outcome.problem) == (3, "triples, csv.zst", "hang")


def test_what_is_wrong_with_a_run() -> None:
    assert problem_of(0, "note: something\n") == problem_of(2, "note: something\nookg: no\n") == ""
    assert problem_of(2, "ookg: a\nb\nc\nd\n") == problem_of(2, f"ookg: {'x' * 2000}") == "long message"
    assert problem_of(2, "oh no\n") == "no message"
    assert problem_of(1, "ookg: no\n") == "exit code"
    assert message_lines("training\nookg: no\n") == ["ookg: no"]
    assert {"long message", "no message", "exit code"} <= set(PROBLEMS)
