"""Making a data set by hiding some entities of a graph: whatever is not theirs stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.datasets.encoded import Task
from ookg.datasets.negatives import Corruptor
from ookg.datasets.splitting import TASKS, Split, distinct_ids, draw_valid, part_of
from ookg.errors import InputError
from ookg.graph.hiding import mask
from ookg.graph.index import GraphIndex
from ookg.graph.triples import TripleIds, Triples
from ookg.types import BoolArray, IntArray

FEWEST = 2  # triples of a hidden entity: one is given, one is asked


@dataclass(frozen=True)
class EntitySplitSettings:
    """How to hide entities.

    entities: how many: a whole number, or as a float the share of all entities
    task: for triplet classification, each true triple of valid and test gets a false one after it
    valid_share: the share of the train triples that go to valid, as far as train keeps all its entities and relations
    """

    entities: int | float = 0.05
    seed: int = 0
    task: Task = "link-prediction"
    valid_share: float = 0.05

    def __post_init__(self) -> None:
        if isinstance(self.entities, float) and not 0 < self.entities < 1:
            raise InputError(f"a share of {self.entities} of the entities; it must lie between 0 and 1")
        if self.entities <= 0:
            raise InputError(f"{self.entities} entities to hide; ask for at least 1")
        if self.task not in TASKS:
            raise InputError(f"task {self.task!r}; choose {' or '.join(TASKS)}")
        if not 0 <= self.valid_share < 1:
            raise InputError(f"a share of {self.valid_share} for valid; it must be at least 0 and less than 1")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")


def split_by_entities(triples: Triples, settings: EntitySplitSettings | None = None) -> Split:
    """Hide entities, drawn at random; half of their triples, at least one, are given (aux), the others asked (test).

    An entity is passed over where hiding it would take more than itself out of the graph: it is tied to one that is
    hidden, or to one that has no other triple, or it has the last triples of a relation. So every triple has its
    place, and all other entities and relations stay in train.
    """
    settings = settings or EntitySplitSettings()
    ids = distinct_ids(triples)
    size = len(triples.entities)
    share = settings.entities
    wanted = max(1, round(share * size)) if isinstance(share, float) else share
    if wanted >= size:
        raise InputError(f"{triples.source}: {wanted:,} of {size:,} entities to hide; ask for fewer")
    random = np.random.default_rng(settings.seed)
    new = _hidden(ids, size, len(triples.relations), wanted, random)
    if not new.any():
        problem = f"no entity with {FEWEST} or more triples can be hidden without taking others out of the graph"
        raise InputError(f"{triples.source}: {problem}; give more triples")
    is_new_head, is_new_tail = new[ids[:, 0]], new[ids[:, 2]]
    stays = ~is_new_head & ~is_new_tail
    asked = _asked(np.where(is_new_head, ids[:, 0], ids[:, 2]), np.flatnonzero(~stays), random)
    valid, test = draw_valid(ids, np.flatnonzero(stays), settings.valid_share, random), np.flatnonzero(asked)
    false_valid = false_test = None
    if settings.task == "triplet-classification":
        corruptor = Corruptor(ids, size, len(triples.relations), random)
        known, train = np.flatnonzero(mask(ids[stays][:, [0, 2]], size)), ids[stays]
        false_valid, has_false = corruptor.corrupt(ids[valid], [0, 2], known, train)
        false_valid, valid = false_valid[has_false], valid[has_false]
        false_test, has_false = ids[test].copy(), np.zeros(len(test), dtype=np.bool_)
        for rows, known_end in ((is_new_head[test], 2), (is_new_tail[test], 0)):
            false_test[rows], has_false[rows] = corruptor.corrupt(ids[test[rows]], [known_end], known, train)
        false_test, test = false_test[has_false], test[has_false]
        if not len(test):
            raise InputError(f"{triples.source}: no false triple can be made for test; give more triples")
    in_train = stays.copy()
    in_train[valid] = False
    aux = ~stays & ~asked
    return Split(
        name="split",
        task=settings.task,
        train=part_of(triples, ids[in_train]),
        valid=part_of(triples, ids[valid], false_valid),
        aux=part_of(triples, ids[aux]),
        test=part_of(triples, ids[test], false_test),
        wanted=int(wanted),
        drawn=int(new.sum()),
        left_out=int(len(ids) - stays.sum() - aux.sum() - len(test)),
    )


def _hidden(ids: TripleIds, size: int, num_relations: int, wanted: int, random: np.random.Generator) -> BoolArray:
    """(entities,) which are hidden."""
    index = GraphIndex.of(ids, size, num_relations)
    left = np.bincount(ids[:, [0, 2]].ravel(), minlength=size)  # triples of each entity that stay, a loop twice
    of_relation = np.bincount(ids[:, 1], minlength=num_relations)
    hidden = np.zeros(size, dtype=np.bool_)
    drawn = 0
    for entity in random.permutation(size).tolist():
        if drawn == wanted:
            break
        rows = index.rows(entity)
        others, counts = np.unique(index.others(rows), return_counts=True)
        relations, uses = np.unique(index.links(rows) % num_relations, return_counts=True)
        if counts.sum() < FEWEST or hidden[others].any() or entity in others:
            continue
        if (left[others] <= counts).any() or (of_relation[relations] <= uses).any():
            continue
        hidden[entity] = True
        left[others] -= counts
        of_relation[relations] -= uses
        drawn += 1
    return hidden


def _asked(newcomer: IntArray, rows: IntArray, random: np.random.Generator) -> BoolArray:
    """(triples,) which are asked: of each newcomer's rows half, the smaller half if they are odd."""
    rows = random.permutation(rows)
    rows = rows[np.argsort(newcomer[rows], kind="stable")]
    _, first, counts = np.unique(newcomer[rows], return_index=True, return_counts=True)
    place = np.arange(len(rows)) - np.repeat(first, counts)
    asked = np.zeros(len(newcomer), dtype=np.bool_)
    asked[rows[place < np.repeat(counts // 2, counts)]] = True
    return asked
