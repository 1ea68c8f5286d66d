"""Finding and reading a data set's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ookg.datasets.dataset import PARTS, Dataset, part_files, read_also_true
from ookg.datasets.encoded import Task
from ookg.datasets.few_shot import is_few_shot
from ookg.datasets.growing import snapshot_folders
from ookg.datasets.places import data_folders
from ookg.datasets.published import published_set, published_sets
from ookg.errors import DatasetError, InputError, unknown_name
from ookg.graph.triples import Triples, read_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.system.files import remove_remains


def refuse_another_kind(folder: Path, kind: str) -> None:
    """Refuse a folder that holds a data set of another kind: "ordinary", "few-shot" or "growing"."""
    there = {
        "few-shot": is_few_shot(folder),
        "growing": bool(snapshot_folders(folder)),
        "ordinary": any(part_files(folder, part) for part in PARTS),
    }
    for name, is_there in there.items():
        if is_there and name != kind:
            raise InputError(
                f"{folder}: already holds a data set that is {name}, and this one is {kind}; choose another"
            )


def load_dataset(name_or_folder: str | Path, data: str | Path | None = None) -> Dataset:
    """Read a data set from its folder, or one of the published sets by its name.

    data: the folder that holds the published sets' folders; if not given, the environment variable OOKG_DATA, then the
    download cache. A published set's name is never taken for a folder: write ./NAME for that.
    """
    published = published_set(name_or_folder) if isinstance(name_or_folder, str) else None
    if published is not None:
        folder = find_dataset(published.name, data)
        if folder is not None:
            return replace(_read_folder(folder), name=published.name)
        if data is not None:
            remedy = f"give the folder that holds it, or run `ookg datasets fetch {published.name} --cache {data}`"
            raise InputError(f"data set {published.name} is not in {data}; {remedy}")
        remedy = f"run `ookg datasets fetch {published.name}`, or set OOKG_DATA to the folder that holds it"
        raise InputError(f"data set {published.name} is not here; {remedy}")
    if not Path(name_or_folder).exists():
        remove_remains(Path(name_or_folder).absolute())  # a killed writer may have left it beside its place
    if Path(name_or_folder).is_dir():
        return _read_folder(Path(name_or_folder))
    if isinstance(name_or_folder, Path) or Path(name_or_folder).name != name_or_folder:
        raise InputError(f"{name_or_folder}: no such folder; check the path")
    remedy = "give a folder, or a name that `ookg datasets list` shows"
    raise unknown_name("data set", name_or_folder, list(published_sets()), remedy)


def find_dataset(name: str, data: str | Path | None = None) -> Path | None:
    """The folder of a published set that holds all of its parts, or None."""
    folders = [folder / name for folder in data_folders(data)]
    return next((folder for folder in folders if all(part_files(folder, part) for part in PARTS)), None)


def _read_folder(folder: Path) -> Dataset:
    if snapshot_folders(folder):
        remedy = f"name one of its files, such as {folder / '0' / 'train.txt'}, or use it with `ookg evaluate`"
        raise DatasetError(f"{folder}: is a growing data set, a folder of snapshots; {remedy}")
    if is_few_shot(folder) and not part_files(folder, "train"):
        remedy = "use it with `ookg train`, or with `ookg evaluate --shots K`"
        raise DatasetError(f"{folder}: is a few-shot data set, with tasks of newcomers; {remedy}")
    train = read_triples(_part_file(folder, "train"), labels="refused")
    aux = read_triples(_part_file(folder, "aux"), labels="refused")
    test = read_triples(_part_file(folder, "test"), keep_duplicates=True)
    if part_files(folder, "valid"):
        valid = read_triples(_part_file(folder, "valid"), keep_duplicates=True)
    else:
        nothing = Vocabulary([])
        valid = Triples(np.empty((0, 3), np.int64), nothing, nothing, source=f"{folder} (no valid file)")
    task: Task = "link-prediction" if test.truth is None else "triplet-classification"
    dataset = Dataset(folder.resolve().name, task, train, valid, aux, test, read_also_true(folder))
    dataset.check()
    return dataset


def _part_file(folder: Path, part: str) -> Path:
    files = part_files(folder, part)
    if not files:
        endings = ".txt, .tsv or .csv (also with .gz or .zst) or .parquet"
        raise DatasetError(f"{folder}: no {part} file; give it as {part} with the ending {endings}")
    if len(files) > 1:
        names = " and ".join(path.name for path in files)
        raise DatasetError(f"{folder}: {names} are there, and only one can be the {part} file; move the others")
    return files[0]
