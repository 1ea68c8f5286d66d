"""A growing data set as arrays of ids, in the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.graph.ids import TripleIds

SNAPSHOT_PARTS = ("train", "valid", "test")
SnapshotPart = Literal["train", "valid", "test"]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What arrives at one time.

    train, valid, test: (triples, 3)
    num_entities, num_relations: how many are known by then, those of earlier snapshots included
    """

    train: TripleIds
    valid: TripleIds
    test: TripleIds
    num_entities: int
    num_relations: int


@dataclass(frozen=True, eq=False)
class EncodedGrowth:
    """A growing data set as ids: what is known by a snapshot has lower ids than what arrives later."""

    name: str
    snapshots: tuple[Snapshot, ...]

    def until(self, last: int, part: SnapshotPart) -> TripleIds:
        """One part of the snapshots 0 to `last`, one after the other."""
        return np.concatenate([getattr(snapshot, part) for snapshot in self.snapshots[: last + 1]])

    def true_until(self, last: int) -> TripleIds:
        """All triples that are known to be true by a snapshot."""
        parts: tuple[SnapshotPart, ...] = ("train", "valid", "test")
        return np.concatenate([self.until(last, part) for part in parts])

    def dataset_of(self, last: int) -> EncodedDataset:
        """All that is known by a snapshot, as a data set without new entities."""
        snapshot = self.snapshots[last]
        return EncodedDataset(
            name=f"{self.name}-{last}",
            task="link-prediction",
            num_known=snapshot.num_entities,
            num_entities=snapshot.num_entities,
            num_trained=snapshot.num_relations,
            num_relations=snapshot.num_relations,
            train=self.until(last, "train"),
            valid=self.until(last, "valid"),
            aux=np.empty((0, 3), np.int64),
            test=self.until(last, "test"),
        )
