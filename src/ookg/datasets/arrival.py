"""Making a growing data set out of any list of triples: entities arrive over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.datasets.dataset import compact
from ookg.datasets.growing import GrowingDataset, SnapshotTriples
from ookg.datasets.splitting import check_shares, distinct_ids, first_rows
from ookg.errors import InputError
from ookg.graph.triples import TripleIds, Triples
from ookg.types import BoolArray, IntArray

MOST_SNAPSHOTS = 10_000


@dataclass(frozen=True)
class ArrivalSettings:
    """How to make a growing data set.

    snapshots: how many; test_share, valid_share: of each snapshot's triples; seed: of the order of arrival
    """

    snapshots: int = 5
    test_share: float = 0.1
    valid_share: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.snapshots <= MOST_SNAPSHOTS:
            raise InputError(f"{self.snapshots} snapshots; ask for 2 to {MOST_SNAPSHOTS:,}")
        check_shares(self.test_share, self.valid_share, "as train needs the rest")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")


def split_by_arrival(triples: Triples, settings: ArrivalSettings | None = None) -> GrowingDataset:
    """Let entities arrive one by one in random order, and cut the time so that snapshots are about equally large.

    A triple arrives with the later one of its two ends. Of each snapshot, some triples go to valid and test; a triple
    with an entity or relation that no earlier one has in train stays in train, so that all that is tested was trained.
    """
    settings = settings or ArrivalSettings()
    ids = distinct_ids(triples)
    count = settings.snapshots
    random = np.random.default_rng(settings.seed)
    arrival = random.permutation(len(triples.entities))  # (entities,) when each comes
    time = arrival[ids[:, [0, 2]]].max(axis=1) if len(ids) else np.empty(0, np.int64)  # (triples,)
    problem = f"{triples.source}: {len(ids):,} triples are too few for {count} snapshots"
    remedy = "ask for fewer snapshots or larger shares, or give more triples"
    if len(ids) < 2 * count:
        raise InputError(f"{problem}; {remedy}")
    # The times at which a new snapshot begins; all triples of one time are in one snapshot.
    begins = np.sort(time)[[len(ids) * number // count for number in range(1, count)]]
    number = np.searchsorted(begins, time, side="right")  # (triples,) the snapshot of each
    snapshots = []
    seen_entities = np.zeros(len(triples.entities), dtype=np.bool_)
    seen_relations = np.zeros(len(triples.relations), dtype=np.bool_)
    for snapshot in range(count):
        rows = random.permutation(np.flatnonzero(number == snapshot))
        if not len(rows):
            raise InputError(f"{problem}: none is left for snapshot {snapshot}; {remedy}")
        free = np.flatnonzero(_is_free(ids[rows], seen_entities, seen_relations))
        tests = max(1, round(settings.test_share * len(rows)))
        test, valid = free[:tests], free[tests : tests + round(settings.valid_share * len(rows))]
        if not len(test):
            raise InputError(f"{problem}: none can be tested on in snapshot {snapshot}; {remedy}")
        in_train = np.ones(len(rows), dtype=np.bool_)
        in_train[test] = in_train[valid] = False
        seen_entities[ids[rows][:, [0, 2]]] = True
        seen_relations[ids[rows][:, 1]] = True
        chosen = (np.sort(rows[part]) for part in (np.flatnonzero(in_train), valid, test))
        snapshots.append(SnapshotTriples(*(_selected(triples, ids, part) for part in chosen)))
    return GrowingDataset("split", tuple(snapshots))


def _is_free(shuffled: TripleIds, seen_entities: BoolArray, seen_relations: BoolArray) -> BoolArray:
    """Which triples are not the first with an entity or relation that was not seen before."""
    free = np.ones(len(shuffled) + 1, dtype=np.bool_)  # one more, for what does not occur here
    free[first_rows(shuffled[:, [0, 2]], len(seen_entities))[~seen_entities]] = False
    free[first_rows(shuffled[:, 1], len(seen_relations))[~seen_relations]] = False
    return free[:-1]


def _selected(triples: Triples, ids: TripleIds, rows: IntArray) -> Triples:
    return compact(Triples(ids[rows], triples.entities, triples.relations, source=triples.source))
