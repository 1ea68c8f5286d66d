"""Counting what is in a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ookg.datasets.dataset import Dataset
from ookg.datasets.encoded import Task
from ookg.datasets.shots import EncodedFewShot, EncodedTasks
from ookg.datasets.snapshots import EncodedGrowth
from ookg.graph.triples import TripleIds


@dataclass(frozen=True)
class DatasetStatistics:
    """The numbers of a data set.

    train, valid, aux, test: lines, repeated triples included
    relations, entities: those of train
    new_entities: new entities that can be asked about: they have an aux triple, and a test triple of a trained relation
    new_entities_in_test: all new entities of test
    new_without_neighbor: those of them with no aux triple of a trained relation
    train_duplicates, aux_duplicates: repeated triples that were dropped
    aux_untrained, test_untrained: triples with a relation that does not occur in train
    """

    name: str
    task: Task
    train: int
    valid: int
    aux: int
    test: int
    relations: int
    entities: int
    new_entities: int
    new_entities_in_test: int
    new_without_neighbor: int
    train_duplicates: int
    aux_duplicates: int
    aux_untrained: int
    test_untrained: int


def statistics(dataset: Dataset) -> DatasetStatistics:
    """Count a data set's triples, entities and relations as the paper's table does, and what that table leaves out."""
    new, relations = dataset.new_entities, dataset.relations
    aux, test = dataset.aux.encoded(new, relations), dataset.test.encoded(new, relations)
    trained_aux, trained_test = aux[aux[:, 1] >= 0], test[test[:, 1] >= 0]
    in_test = _occurring(test, len(new))
    return DatasetStatistics(
        name=dataset.name,
        task=dataset.task,
        train=len(dataset.train) + dataset.train.duplicates,
        valid=len(dataset.valid) + dataset.valid.duplicates,
        aux=len(dataset.aux) + dataset.aux.duplicates,
        test=len(dataset.test) + dataset.test.duplicates,
        relations=len(relations),
        entities=len(dataset.known_entities),
        new_entities=int((_occurring(trained_test, len(new)) & _occurring(aux, len(new))).sum()),
        new_entities_in_test=int(in_test.sum()),
        new_without_neighbor=int((in_test & ~_occurring(trained_aux, len(new))).sum()),
        train_duplicates=dataset.train.duplicates,
        aux_duplicates=dataset.aux.duplicates,
        aux_untrained=len(aux) - len(trained_aux),
        test_untrained=len(test) - len(trained_test),
    )


@dataclass(frozen=True)
class SnapshotStatistics:
    """The numbers of a snapshot.

    train, valid, test: triples that arrive with it, repeated ones of train left out
    entities, relations: known by then; new_entities, new_relations: those that arrive with it
    """

    snapshot: int
    train: int
    valid: int
    test: int
    entities: int
    new_entities: int
    relations: int
    new_relations: int


def growth_statistics(growth: EncodedGrowth) -> list[SnapshotStatistics]:
    """Count what arrives with each snapshot."""
    counted = []
    entities = relations = 0
    for number, snapshot in enumerate(growth.snapshots):
        counted.append(
            SnapshotStatistics(
                snapshot=number,
                train=len(snapshot.train),
                valid=len(snapshot.valid),
                test=len(snapshot.test),
                entities=snapshot.num_entities,
                new_entities=snapshot.num_entities - entities,
                relations=snapshot.num_relations,
                new_relations=snapshot.num_relations - relations,
            )
        )
        entities, relations = snapshot.num_entities, snapshot.num_relations
    return counted


@dataclass(frozen=True)
class TaskStatistics:
    """The numbers of the tasks of a split.

    fewest, most: triples of a newcomer; new_ends: triples whose other end is not in train
    """

    newcomers: int
    triples: int
    fewest: int
    most: int
    new_ends: int


@dataclass(frozen=True)
class FewShotStatistics:
    """The numbers of a few-shot data set; train, entities, relations: what is known; also_true: triples of no part."""

    name: str
    train: int
    entities: int
    relations: int
    valid: TaskStatistics
    test: TaskStatistics
    also_true: int


def few_shot_statistics(dataset: EncodedFewShot) -> FewShotStatistics:
    """Count what is known and what the tasks are."""

    def counted(tasks: EncodedTasks) -> TaskStatistics:
        counts = np.unique(tasks.newcomer, return_counts=True)[1]
        head, _, tail = tasks.triples.T
        other = np.where(head == tasks.newcomer, tail, head)
        fewest, most = (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
        return TaskStatistics(len(counts), len(other), fewest, most, int((other >= dataset.num_known).sum()))

    sizes = len(dataset.train), dataset.num_known, dataset.num_trained
    parts = np.concatenate([dataset.train, dataset.valid.triples, dataset.test.triples])
    everything = np.concatenate([parts, dataset.also_true])
    also_true = len(np.unique(everything, axis=0)) - len(np.unique(parts, axis=0)) if len(dataset.also_true) else 0
    return FewShotStatistics(dataset.name, *sizes, counted(dataset.valid), counted(dataset.test), also_true)


def _occurring(ids: TripleIds, num_entities: int) -> np.ndarray[Any, Any]:
    """Which entities are an end of a triple; an end of -1 is none of them."""
    ends = ids[:, [0, 2]]
    occurs = np.zeros(num_entities, dtype=np.bool_)
    occurs[ends[ends >= 0]] = True
    return occurs
