"""The companions of a model on disk: models with the same labels that answer together with it.

Each is a model directory of its own, `companions/NAME` in that of the model. The model's description names its version
of each by number, and so does that of an earlier version of the model. Companions are written first and keep their
earlier versions until no description names them: whoever reads a description has the companions that belong to it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ookg.errors import InputError, ModelFileError
from ookg.models import registered_name
from ookg.storage.checkpoint import (
    COMPANION_NAME,
    COMPANIONS,
    MODEL_FILE,
    STATE_FILE,
    Checkpoint,
    held_model,
    holds_model,
    naming_companions,
    read_description,
    remove_unnamed,
    version_files,
    write_checkpoint,
    write_description,
)
from ookg.storage.versions import write_version


def companion_place(directory: str | Path, name: str) -> Path:
    """The directory of a companion."""
    return Path(directory) / COMPANIONS / name


def named(checkpoints: Iterable[Checkpoint]) -> dict[str, Checkpoint]:
    """Companions by names: those of their models, numbered from the second of a kind on."""
    names = unique_names(registered_name(one.embedding.geometry) for one in checkpoints)
    return dict(zip(names, checkpoints, strict=True))


def unique_names(models: Iterable[str]) -> list[str]:
    """A name for each model, such as rotate, transe, rotate-2."""
    counts: dict[str, int] = defaultdict(int)
    names = []
    for model in models:
        counts[model] += 1
        names.append(model if counts[model] == 1 else f"{model}-{counts[model]}")
    return names


def save_together(checkpoint: Checkpoint, directory: str | Path) -> None:
    """Write a model directory, or replace the model in it; its companions first."""
    directory = Path(directory)
    with held_model(directory):
        stored = {
            name: store_companion(one, companion_place(directory, name)) for name, one in checkpoint.companions.items()
        }
        write_checkpoint(replace(checkpoint, companions=stored), directory)
        prune_companions(directory)


def store_companion(companion: Checkpoint, place: Path) -> Checkpoint:
    """Write a companion, unless it is there already; return it with its number. What is there stays as a version."""
    if companion.directory is not None and companion.directory.resolve() == place.resolve():
        return companion
    with held_model(place):
        return write_companion(companion, place)


def write_companion(companion: Checkpoint, place: Path) -> Checkpoint:
    """As `store_companion`, in a directory that the caller holds, whatever is there."""
    companion = replace(companion, companions={})
    if holds_model(place):
        return write_version(companion, place, keep=sys.maxsize)
    write_checkpoint(companion, place)
    return replace(companion, number=1)


def name_companions(directory: str | Path, names: Iterable[str]) -> None:
    """Let a stored model have companions that are in their places, and no others."""
    directory = Path(directory)
    with held_model(directory):
        numbers = {name: read_description(companion_place(directory, name)).get("number") or 1 for name in names}
        description = read_description(directory)
        if description.get(COMPANIONS, {}) != numbers:
            write_description(directory, naming_companions(description, numbers))
        prune_companions(directory)


def prune_companions(directory: Path) -> None:
    """Remove companions, and versions of them, that no version of the model names; the caller holds the directory."""
    folder = directory / COMPANIONS
    if not folder.is_dir():
        return
    kept: dict[str, set[int]] = defaultdict(set)
    try:
        for file in (MODEL_FILE, *(path.name for path in version_files(directory).values())):
            for name, number in read_description(directory, file).get(COMPANIONS, {}).items():
                kept[name].add(number)
    except ModelFileError:
        return  # a damaged description: any of the companions may be its own
    for place in folder.iterdir():
        if COMPANION_NAME.fullmatch(place.name) and place.is_dir():
            with suppress(InputError), held_model(place):  # one that another process writes is left to the next time
                _prune(place, kept[place.name])


def _prune(place: Path, numbers: set[int]) -> None:
    for number, path in version_files(place).items():
        if number not in numbers:
            path.unlink(missing_ok=True)
    if not numbers and holds_model(place):
        for name in (MODEL_FILE, STATE_FILE):
            (place / name).unlink(missing_ok=True)
    remove_unnamed(place)
