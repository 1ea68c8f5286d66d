"""Growing data sets: folders of snapshots 0, 1, 2, ..., each with what arrives at one time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ookg.datasets.dataset import check_target, compact, part_files
from ookg.datasets.places import data_folders
from ookg.datasets.snapshots import SNAPSHOT_PARTS, EncodedGrowth, Snapshot
from ookg.errors import DatasetError, InputError, unknown_name
from ookg.graph.triples import Triples, read_triples, write_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.system.files import staged_folder

GROWING_FOLDER = "continual"  # where growing sets lie beside the others


@dataclass(frozen=True, eq=False)
class SnapshotTriples:
    """What arrives at one time: triples to train on, to validate on and to test on."""

    train: Triples
    valid: Triples
    test: Triples

    @property
    def parts(self) -> tuple[Triples, ...]:
        """The three of them."""
        return self.train, self.valid, self.test


@dataclass(frozen=True, eq=False)
class GrowingDataset:
    """A graph that grows, snapshot by snapshot. An entity or relation arrives with the first triple it is in."""

    name: str
    snapshots: tuple[SnapshotTriples, ...]

    @property
    def entities(self) -> Vocabulary:
        """The entities in the order of arrival."""
        return self._vocabularies[-1][0]

    @property
    def relations(self) -> Vocabulary:
        """The relations in the order of arrival."""
        return self._vocabularies[-1][1]

    @cached_property
    def encoded(self) -> EncodedGrowth:
        """The same as ids."""
        snapshots = []
        for snapshot, (entities, relations) in zip(self.snapshots, self._vocabularies, strict=True):
            train, valid, test = (part.encoded(entities, relations) for part in snapshot.parts)
            snapshots.append(Snapshot(train, valid, test, len(entities), len(relations)))
        return EncodedGrowth(self.name, tuple(snapshots))

    @cached_property
    def _vocabularies(self) -> list[tuple[Vocabulary, Vocabulary]]:
        """The entities and relations known by each snapshot; those of train come before those of valid and test."""
        entities, relations = Vocabulary([]), Vocabulary([])
        known = []
        for snapshot in self.snapshots:
            for part in map(compact, snapshot.parts):
                entities, relations = entities.extended(part.entities.labels), relations.extended(part.relations.labels)
            known.append((entities, relations))
        return known


def load_growing(name_or_folder: str | Path, data: str | Path | None = None) -> GrowingDataset:
    """Read a growing data set from its folder, or by its name.

    data: the folder with the data sets; if not given, the one that OOKG_DATA names, then the download cache. Growing
    sets lie in its folder `continual`.
    """
    folder = find_growing(name_or_folder, data)
    if folder is None:
        if Path(name_or_folder).is_dir():
            remedy = "give a folder of the folders 0, 1, 2, ..., each with train, valid and test"
            raise DatasetError(f"{name_or_folder}: no snapshot 0; {remedy}")
        known = [path.name for path in growing_folders(data)]
        raise unknown_name("growing data set", str(name_or_folder), known, "give its folder, or a name under OOKG_DATA")
    numbers = sorted(int(path.name) for path in snapshot_folders(folder))
    missing = next((number for number, there in enumerate(numbers) if number != there), None)
    if missing is not None:
        raise DatasetError(f"{folder}: no snapshot {missing}, but snapshot {numbers[-1]}; number them without a gap")
    if len(numbers) < 2:
        raise DatasetError(f"{folder}: only snapshot 0; a growing data set has two snapshots or more")
    return GrowingDataset(folder.resolve().name, tuple(_read_snapshot(folder / str(number)) for number in numbers))


def find_growing(name_or_folder: str | Path, data: str | Path | None = None) -> Path | None:
    """The folder of a growing data set, by its name or as it is given; None where there is none."""
    if isinstance(name_or_folder, str) and Path(name_or_folder).name == name_or_folder:
        for folder in growing_folders(data):
            if folder.name.lower() == name_or_folder.lower():
                return folder
    return Path(name_or_folder) if snapshot_folders(Path(name_or_folder)) else None


def growing_folders(data: str | Path | None = None) -> Iterator[Path]:
    """The growing data sets that are here, by name."""
    for place in data_folders(data):
        folder = place / GROWING_FOLDER
        if folder.is_dir():
            yield from (path for path in sorted(folder.iterdir()) if snapshot_folders(path))


def snapshot_folders(folder: Path) -> list[Path]:
    """The snapshots of a folder: its folders with a number for a name. None where there is no snapshot 0."""
    if not (folder / "0").is_dir():
        return []
    # 01 is no other name for 1: each number is written in one way.
    return [path for path in folder.iterdir() if path.is_dir() and path.name.isdecimal() and _is_plain(path.name)]


def _is_plain(number: str) -> bool:
    return number.isascii() and number == str(int(number))


def _read_snapshot(folder: Path) -> SnapshotTriples:
    files = {part: part_files(folder, part) for part in SNAPSHOT_PARTS}
    expected = {path for paths in files.values() for path in paths}
    strange = [path.name for path in sorted(folder.iterdir()) if path not in expected and path.name[0] != "."]
    if strange:
        remedy = "a snapshot has train, valid and test (.txt, .tsv, .csv, also .gz or .zst, or .parquet); move it"
        raise DatasetError(f"{folder / strange[0]}: no part of a snapshot; {remedy}")
    for part, paths in files.items():
        if len(paths) > 1:
            names = " and ".join(path.name for path in paths)
            raise DatasetError(f"{folder}: {names} are there, and only one can be the {part} file; move the others")
        if not paths and part != "valid":
            raise DatasetError(f"{folder}: no {part} file; give it as {part}.txt, or with another ending")
    train = read_triples(files["train"][0], labels="refused")
    if not len(train):
        raise DatasetError(f"{train.source}: train has no triples; give some, or number the snapshots without this one")
    test = read_triples(files["test"][0], labels="refused", keep_duplicates=True)
    if files["valid"]:
        valid = read_triples(files["valid"][0], labels="refused", keep_duplicates=True)
    else:
        nothing = Vocabulary([])
        valid = Triples(np.empty((0, 3), np.int64), nothing, nothing, source=f"{folder} (no valid file)")
    return SnapshotTriples(train, valid, test)


def check_growing_target(folder: str | Path, snapshots: int, *, overwrite: bool = False) -> None:
    """Refuse a folder that holds a data set, unless it is a growing one to overwrite, of as many snapshots at most."""
    folder = Path(folder)
    check_target(folder)
    there = sorted(int(path.name) for path in snapshot_folders(folder))
    if there and not overwrite:
        raise InputError(
            f"{folder}: already holds snapshots; choose another folder, or write over it with `overwrite=True`"
        )
    if there and there[-1] >= snapshots:
        remedy = "remove it, or choose another folder"
        raise InputError(f"{folder}: already holds snapshot {there[-1]}, which would stay beside {snapshots}; {remedy}")
    for number in there:
        names = [path.name for path in (folder / str(number)).iterdir()]
        foreign = sorted(set(names) - {f"{part}.txt" for part in SNAPSHOT_PARTS})
        if foreign:
            raise InputError(f"{folder / str(number)}: already holds {foreign[0]}, which would stay; move it")


def write_growing(dataset: GrowingDataset, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write the snapshots as folders 0, 1, 2, ... of `train.txt`, `valid.txt` and `test.txt`."""
    folder = Path(folder)
    check_growing_target(folder, len(dataset.snapshots), overwrite=overwrite)
    with staged_folder(folder) as staging:
        for number, snapshot in enumerate(dataset.snapshots):
            (staging / str(number)).mkdir()
            for part, triples in zip(SNAPSHOT_PARTS, snapshot.parts, strict=True):
                write_triples(staging / str(number) / f"{part}.txt", triples)
