"""Data sets packed as compressed arrays of ids, for machines that have no reader for text."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from ookg.datasets.encoded import EncodedDataset, no_triples
from ookg.datasets.places import data_folders
from ookg.datasets.shots import TASK_SPLITS, EncodedFewShot, EncodedTasks
from ookg.datasets.snapshots import SNAPSHOT_PARTS, EncodedGrowth, Snapshot
from ookg.errors import FileError
from ookg.graph.ids import TripleIds
from ookg.system.files import atomic_write
from ookg.types import Array

# What the readers of archives and of NumPy's header raise where bytes are damaged, and what does not fit together.
UNPACKING_ERRORS = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RuntimeError, SyntaxError,
    TokenError, MemoryError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
DATASET_PARTS = ("train", "valid", "aux", "test")


def pack(dataset: EncodedDataset | EncodedGrowth | EncodedFewShot, folder: str | Path) -> Path:
    """Write a data set as NAME.npz, atomically; return its path.

    sizes: of an ordinary set and of a few-shot set the four numbers of entities and relations; of a growing one a row
    per snapshot, with the entities and relations known by then and the triples of train, valid and test, which lie one
    after the other. A few-shot set has the newcomers of its triples beside them.
    """
    packed: dict[str, Any]
    if isinstance(dataset, EncodedGrowth):
        last = len(dataset.snapshots) - 1
        packed = {
            "train": dataset.until(last, "train"),
            "valid": dataset.until(last, "valid"),
            "test": dataset.until(last, "test"),
        }
        rows = [[s.num_entities, s.num_relations, *map(len, (s.train, s.valid, s.test))] for s in dataset.snapshots]
        sizes = np.array(rows)
    else:
        sizes = np.array([dataset.num_known, dataset.num_entities, dataset.num_trained, dataset.num_relations])
        if isinstance(dataset, EncodedFewShot):
            packed = {"train": dataset.train, "valid": dataset.valid.triples, "test": dataset.test.triples}
            packed |= {"valid_newcomer": dataset.valid.newcomer, "test_newcomer": dataset.test.newcomer}
        else:
            packed = {part: getattr(dataset, part) for part in DATASET_PARTS}
        if len(dataset.also_true):
            packed["also_true"] = dataset.also_true
    packed = {part: ids.astype(np.int32) for part, ids in packed.items()}
    if isinstance(dataset, EncodedDataset):
        truths = {"valid_truth": dataset.valid_truth, "test_truth": dataset.test_truth}
        packed |= {part: truth for part, truth in truths.items() if truth is not None}
    path = Path(folder) / f"{dataset.name}.npz"
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, sizes=sizes, **packed)
    return path


def find_packed(name: str, data: str | Path | None = None) -> Path | None:
    """The packed data set of that name, if there is one where data sets are looked for."""
    paths = (folder / f"{name}.npz" for folder in data_folders(data))
    return next((path for path in paths if path.is_file()), None)


def read_packed(path: str | Path) -> EncodedDataset | EncodedGrowth | EncodedFewShot:
    """The data set of a file that `pack` wrote, under the file's name."""
    path = Path(path)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
        if arrays["sizes"].ndim == 2:
            return _growth(path.stem, arrays)
        return (_few_shot if "test_newcomer" in arrays else _dataset)(path.stem, arrays)
    except UNPACKING_ERRORS as error:
        remedy = "pack the data set again with benchmarks/pack.py"
        raise FileError(path, f"no packed data set ({error})", remedy) from error


def _dataset(name: str, arrays: dict[str, Array]) -> EncodedDataset:
    known, entities, trained, relations = map(int, arrays["sizes"])
    train, valid, aux, test = (_ids(arrays[part], entities, relations) for part in DATASET_PARTS)
    truths = [arrays.get(f"{part}_truth") for part in ("valid", "test")]
    for truth, part in zip(truths, (valid, test), strict=True):
        if truth is not None and (truth.dtype != np.bool_ or truth.shape != (len(part),)):
            raise ValueError("labels that do not fit the triples")
    return EncodedDataset(
        name=name,
        task="link-prediction" if truths[1] is None else "triplet-classification",
        num_known=known,
        num_entities=entities,
        num_trained=trained,
        num_relations=relations,
        train=train,
        valid=valid,
        aux=aux,
        test=test,
        valid_truth=truths[0],
        test_truth=truths[1],
        also_true=_also_true(arrays, entities, relations),
    )


def _growth(name: str, arrays: dict[str, Array]) -> EncodedGrowth:
    sizes = arrays["sizes"].astype(np.int64)  # (snapshots, 5)
    ends = np.cumsum(sizes[:, 2:], axis=0)
    parts: list[list[TripleIds]] = []
    for column, part in enumerate(SNAPSHOT_PARTS):
        if len(arrays[part]) != ends[-1, column]:
            raise ValueError(f"{len(arrays[part]):,} triples of {part}, expected {ends[-1, column]:,}")
        parts.append(np.split(arrays[part], ends[:-1, column]))
    snapshots = []
    for (entities, relations), *ids in zip(sizes[:, :2].tolist(), *parts, strict=True):
        train, valid, test = (_ids(part, entities, relations) for part in ids)
        snapshots.append(Snapshot(train, valid, test, entities, relations))
    return EncodedGrowth(name, tuple(snapshots))


def _few_shot(name: str, arrays: dict[str, Array]) -> EncodedFewShot:
    known, entities, trained, relations = map(int, arrays["sizes"])
    tasks = []
    for split in TASK_SPLITS:
        newcomer, triples = arrays[f"{split}_newcomer"], _ids(arrays[split], entities, relations)
        if newcomer.dtype.kind not in "iu" or (triples[:, [0, 2]] != newcomer[:, None]).all(axis=1).any():
            raise ValueError("newcomers that do not fit the triples")
        tasks.append(EncodedTasks(newcomer.astype(np.int64), triples))
    train = _ids(arrays["train"], known, trained)
    also_true = _also_true(arrays, entities, relations)
    return EncodedFewShot(name, known, entities, trained, relations, train, tasks[0], tasks[1], also_true)


def _also_true(arrays: dict[str, Array], entities: int, relations: int) -> TripleIds:
    """What a file has of it: most have none."""
    return _ids(arrays["also_true"], entities, relations) if "also_true" in arrays else no_triples()


def _ids(array: Array, entities: int, relations: int) -> TripleIds:
    """Triples as they are worked with; an id that is out of range is refused."""
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise ValueError(f"an array of {array.dtype} of shape {array.shape} for triples")
    ids: TripleIds = array.astype(np.int64)
    if len(ids) and (ids.min() < 0 or ids[:, [0, 2]].max() >= entities or ids[:, 1].max() >= relations):
        raise ValueError("ids out of range")
    return ids
