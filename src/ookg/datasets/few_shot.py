"""Few-shot data sets: folders of known triples and of tasks, the triples about newcomers of which a few are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ookg.datasets.dataset import (
    ALSO_TRUE,
    TARGETS,
    Dataset,
    compact,
    joined,
    part_files,
    read_also_true,
    with_more,
    write_also_true,
)
from ookg.datasets.encoded import encoded_also_true
from ookg.datasets.places import data_folders
from ookg.datasets.shots import TASK_SPLITS, EncodedFewShot, EncodedTasks, TaskSplit, first_of_each
from ookg.errors import DatasetError, InputError, unknown_name
from ookg.graph.triples import Tasks, Triples, TripleSource, read_tasks, read_triples, write_tasks, write_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.system.display import counted
from ookg.system.files import staged_folder
from ookg.types import BoolArray, IntArray

FEW_SHOT_FOLDER = "few-shot"  # where few-shot sets lie beside the others
KNOWN_PARTS = ("in-graph", "train-tasks")
TASK_PARTS = ("valid-tasks", "test-tasks")


@dataclass(frozen=True, eq=False)
class LabelledShots:
    """What is given about the newcomers of a split, and what is asked, as the aux and the test part of a data set.

    dataset: its valid part is what else is true: the triples of the other split
    asks_tail: (test triples,) whether the newcomer is the head, and the tail is asked for
    """

    split: TaskSplit
    shots: int
    dataset: Dataset
    asks_tail: BoolArray


@dataclass(frozen=True, eq=False)
class FewShotDataset:
    """Known triples, and triples about newcomers in an order: of each newcomer the first few are given, others asked.

    train: what is known; valid, test: about newcomers, none of which is in train
    also_true: triples that are neither learned nor asked, and no wrong answers
    """

    name: str
    train: Triples
    valid: Tasks
    test: Tasks
    also_true: Triples | None = None

    @cached_property
    def known_entities(self) -> Vocabulary:
        """The entities of train."""
        return compact(self.train).entities

    @cached_property
    def relations(self) -> Vocabulary:
        """The relations of train."""
        return compact(self.train).relations

    @property
    def notes(self) -> list[str]:
        """What reading left out, in words."""
        repeated = self.train.duplicates + self.valid.triples.duplicates + self.test.triples.duplicates
        return [f"{counted(repeated, 'duplicate triple')} dropped"] if repeated else []

    @cached_property
    def encoded(self) -> EncodedFewShot:
        """The same as ids."""
        entities, relations = self.known_entities, self.relations
        for part in (self.train, self.test.triples, self.valid.triples):
            entities, relations = entities.extended(part.entities.labels), relations.extended(part.relations.labels)

        def encoded(tasks: Tasks) -> EncodedTasks:
            newcomer = entities.ids(tasks.triples.entities.labels)[tasks.newcomer]
            return EncodedTasks(newcomer, tasks.triples.encoded(entities, relations))

        return EncodedFewShot(
            name=self.name,
            num_known=len(self.known_entities),
            num_entities=len(entities),
            num_trained=len(self.relations),
            num_relations=len(relations),
            train=self.train.encoded(entities, relations),
            valid=encoded(self.valid),
            test=encoded(self.test),
            also_true=encoded_also_true(self.also_true, entities, relations),
        )

    def with_also_true(self, *more: TripleSource) -> FewShotDataset:
        """With further true triples, which are no wrong answers; beyond that they change nothing."""
        return replace(self, also_true=with_more(self.also_true, more))

    def tasks(self, split: TaskSplit) -> Tasks:
        """The triples about newcomers of a split."""
        if split not in TASK_SPLITS:
            raise InputError(f"tasks {split!r}; choose {' or '.join(TASK_SPLITS)}")
        return self.valid if split == "valid" else self.test

    def at(self, split: TaskSplit, shots: int) -> LabelledShots:
        """The first `shots` triples of each newcomer are given, the others asked."""
        tasks, others = self.tasks(split), self.tasks("test" if split == "valid" else "valid")
        is_given = first_of_each(tasks.newcomer, shots, f"{split}-tasks of {self.name}")
        given, asked = (compact(tasks.triples.select(rows)) for rows in (is_given, ~is_given))
        dataset = Dataset(self.name, "link-prediction", self.train, others.triples, given, asked, self.also_true)
        asks_tail = tasks.triples.ids[~is_given, 0] == tasks.newcomer[~is_given]
        return LabelledShots(split, shots, dataset, asks_tail)

    def check(self) -> None:
        """Refuse a data set whose newcomers are not new."""
        if not len(self.train):
            raise DatasetError(f"{self.train.source}: no triples; give some known ones to train on")
        for tasks in (self.valid, self.test):
            labels = tasks.triples.entities.labels
            self._refuse(tasks, self.known_entities.ids(labels), "known: in-graph or train-tasks have it")
        labels = self.test.triples.entities.labels
        in_valid = self.valid.triples.entities.ids(labels)
        is_newcomer = np.zeros(len(self.valid.triples.entities) + 1, dtype=np.bool_)
        is_newcomer[self.valid.newcomer] = True
        self._refuse(self.test, np.where(is_newcomer[in_valid], in_valid, -1), "a newcomer of valid-tasks too")

    def _refuse(self, tasks: Tasks, elsewhere: IntArray, problem: str) -> None:
        """elsewhere: (entities of the tasks,) 0 or more for one that must not be a newcomer here"""
        rows = np.flatnonzero(elsewhere[tasks.newcomer] >= 0)
        if len(rows):
            label = tasks.triples.entities.label(int(tasks.newcomer[rows[0]]))
            remedy = "leave its triples out of one of them"
            raise DatasetError(f"{tasks.triples.source}: newcomer {label!r} is {problem}; {remedy}")


def load_few_shot(name_or_folder: str | Path, data: str | Path | None = None) -> FewShotDataset:
    """Read a few-shot data set from its folder, or by its name.

    data: the folder with the data sets; if not given, the one that OOKG_DATA names, then the download cache. Few-shot
    sets lie in its folder `few-shot`.
    """
    folder = find_few_shot(name_or_folder, data)
    if folder is None:
        if Path(name_or_folder).is_dir():
            remedy = "give a folder of in-graph, train-tasks, valid-tasks and test-tasks"
            raise DatasetError(f"{name_or_folder}: no {KNOWN_PARTS[0]} file; {remedy}")
        known = [path.name for path in few_shot_folders(data)]
        raise unknown_name(
            "few-shot data set", str(name_or_folder), known, "give its folder, or a name under OOKG_DATA"
        )
    train = _known_triples(folder)
    valid, test = (_tasks(folder, part) for part in TASK_PARTS)
    dataset = FewShotDataset(folder.resolve().name, train, valid, test, read_also_true(folder))
    dataset.check()
    return dataset


def find_few_shot(name_or_folder: str | Path, data: str | Path | None = None) -> Path | None:
    """The folder of a few-shot data set, by its name or as it is given; None where there is none."""
    if isinstance(name_or_folder, str) and Path(name_or_folder).name == name_or_folder:
        for folder in few_shot_folders(data):
            if folder.name.lower() == name_or_folder.lower():
                return folder
    return Path(name_or_folder) if is_few_shot(Path(name_or_folder)) else None


def few_shot_folders(data: str | Path | None = None) -> Iterator[Path]:
    """The few-shot data sets that are here, by name."""
    for place in data_folders(data):
        folder = place / FEW_SHOT_FOLDER
        if folder.is_dir():
            yield from (path for path in sorted(folder.iterdir()) if is_few_shot(path))


def is_few_shot(folder: Path) -> bool:
    """Whether a folder has the known triples of a few-shot data set."""
    return bool(part_files(folder, KNOWN_PARTS[0]))


def _part_file(folder: Path, part: str) -> Path | None:
    files = part_files(folder, part)
    if len(files) > 1:
        names = " and ".join(path.name for path in files)
        raise DatasetError(f"{folder}: {names} are there, and only one can be the {part} file; move the others")
    return files[0] if files else None


def _known_triples(folder: Path) -> Triples:
    """in-graph, and after it train-tasks where there are some."""
    files = [path for path in (_part_file(folder, part) for part in KNOWN_PARTS) if path is not None]
    return joined([read_triples(path, labels="refused", keep_duplicates=True) for path in files], str(folder))


def _tasks(folder: Path, part: str) -> Tasks:
    path = _part_file(folder, part)
    if path is not None:
        return read_tasks(path)
    if part == "test-tasks":
        raise DatasetError(f"{folder}: no {part} file; give it as {part}.txt, or with another ending")
    nothing = Vocabulary([])
    triples = Triples(np.empty((0, 3), np.int64), nothing, nothing, source=f"{folder} (no {part} file)")
    return Tasks(np.empty(0, np.int64), triples)


def write_few_shot(dataset: FewShotDataset, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write in-graph.txt, valid-tasks.txt and test-tasks.txt, and also-true.txt where there is more."""
    folder = Path(folder)
    check_few_shot_target(folder, overwrite=overwrite)
    with staged_folder(folder) as staging:
        write_triples(staging / "in-graph.txt", compact(dataset.train))
        for part, tasks in zip(TASK_PARTS, (dataset.valid, dataset.test), strict=True):
            write_tasks(staging / f"{part}.txt", tasks)
        write_also_true(dataset.also_true, staging, folder)


def check_few_shot_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that holds a data set, unless it is one that would be overwritten whole."""
    folder = Path(folder)
    written = {TARGETS[ALSO_TRUE], *(f"{part}.txt" for part in (KNOWN_PARTS[0], *TASK_PARTS))}
    there = [path.name for part in (*KNOWN_PARTS, *TASK_PARTS, ALSO_TRUE) for path in part_files(folder, part)]
    foreign = [name for name in there if name not in written]
    if foreign:
        raise InputError(f"{folder}: already holds {foreign[0]}, which would make the data set ambiguous; move it")
    if there and not overwrite:
        raise InputError(
            f"{folder}: already holds {there[0]}; choose another folder, or write over it with `overwrite=True`"
        )
