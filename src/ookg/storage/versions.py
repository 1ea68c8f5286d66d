"""The versions of a model: earlier ones are kept beside it, and one of them can be made the model again.

A version is a description and the data folder that it names. `model.json` describes the model; `version-N.json` beside
it is the same of an earlier one. A new version is written so: its data folder, then the description of the old one as
`version-N.json`, then `model.json`. A crash in between leaves the old one or the new one, and what is left over goes
with the next write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ookg.errors import InputError
from ookg.storage.checkpoint import (
    MODEL_FILE,
    Checkpoint,
    held_model,
    read_description,
    remove_unnamed,
    version_files,
    version_name,
    write_description,
    write_new_data,
)

KEPT = 3  # earlier versions, unless it is said


@dataclass(frozen=True)
class Version:
    """A version of a model.

    number: counted from 1 on, and never given twice; journal: the last batch that it has learned
    is_current: whether it is the model; provenance: where it comes from, in plain values
    """

    number: int
    journal: int
    entities: int
    relations: int
    triples: int
    is_current: bool
    provenance: dict[str, Any]


def versions(directory: str | Path) -> list[Version]:
    """The versions that are there, by number."""
    directory = Path(directory)
    current = _version(read_description(directory), is_current=True)
    others = [
        _version(read_description(directory, path.name), is_current=False)
        for number, path in version_files(directory).items()
        if number != current.number and path.is_file()
    ]
    return sorted([*others, current], key=lambda version: version.number)


def _version(description: dict[str, Any], *, is_current: bool) -> Version:
    return Version(
        description.get("number") or 1,
        description.get("journal") or 0,
        description.get("entities") or 0,
        description.get("relations") or 0,
        description.get("triples") or 0,
        is_current,
        description["provenance"],
    )


def write_version(checkpoint: Checkpoint, directory: str | Path, keep: int = KEPT) -> Checkpoint:
    """Make a model the next version in a directory, which the caller holds; return it with its number.

    keep: how many earlier versions stay
    """
    directory = Path(directory)
    if keep < 0:
        raise InputError(f"keep {keep} versions; give 0 or more")
    replaced = read_description(directory).get("number") or 1
    number = max([replaced, *version_files(directory)]) + 1
    checkpoint = replace(checkpoint, number=number)
    description = write_new_data(checkpoint, directory)
    _replace_model(directory, description)
    _prune(directory, keep, replaced)
    return checkpoint


def roll_back(directory: str | Path, number: int | None = None) -> Version:
    """Make an earlier version the model again; the one that was stays as a version.

    number: None for the one before. What the journal has after it applies again.
    """
    directory = Path(directory)
    read_description(directory)  # no lock is left where there is no model
    with held_model(directory):
        there = versions(directory)
        current = next(version for version in there if version.is_current)
        if number is None:
            # What it was made from, before one that someone went back from.
            origin = (current.provenance.get("update") or {}).get("from_version")
            earlier = [version.number for version in there if version.number < current.number]
            earlier.sort(key=lambda one: (one == origin, one))
            if not earlier:
                later = ", ".join(str(version.number) for version in there if version is not current)
                remedy = f"name one of {later}" if later else "there is nothing to go back to"
                raise InputError(f"{directory}: no version before {current.number} is kept; {remedy}")
            number = earlier[-1]
        if number == current.number:
            raise InputError(f"{directory}: version {number} is the model already; name another one")
        if number not in version_files(directory):
            kept = ", ".join(str(version.number) for version in there)
            raise InputError(f"{directory}: no version {number}; there are {kept}")
        _replace_model(directory, read_description(directory, version_name(number)))
        remove_unnamed(directory)
    return next(version for version in versions(directory) if version.is_current)


def _replace_model(directory: Path, description: dict[str, Any]) -> None:
    """Keep the model's description as that of a version, and put another one in its place."""
    replaced = read_description(directory)
    write_description(directory, replaced, version_name(replaced.get("number") or 1))
    write_description(directory, description, MODEL_FILE)


def _prune(directory: Path, keep: int, replaced: int) -> None:
    """Remove earlier versions but the last ones, of which the one just replaced is the very last."""
    files = version_files(directory)
    numbers = sorted(files, key=lambda number: (number == replaced, number))
    for number in numbers[: max(0, len(numbers) - keep)]:
        files[number].unlink(missing_ok=True)
    remove_unnamed(directory)
