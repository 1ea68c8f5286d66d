"""Making a data set with new entities out of any list of triples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ookg.datasets.dataset import Dataset, compact
from ookg.datasets.encoded import Task
from ookg.datasets.negatives import Corruptor
from ookg.errors import InputError
from ookg.graph.hiding import Hiding, mask
from ookg.graph.triples import TripleIds, Triples, first_occurrences
from ookg.types import BoolArray, IntArray

NEW_ENDS = {"head": [0], "tail": [2], "both": [0, 2]}  # columns of the ids
KNOWN_ENDS: dict[str, list[int]] = {"head": [2], "tail": [0], "both": []}
TASKS = ("link-prediction", "triplet-classification")
BATCHES = 64  # a draw takes at most this part of the triples at a time: the more at once, the more are in conflict
ROUNDS = 200  # draws at most, where a graph cannot give as many test triples as were asked for
PATIENCE = 8  # rounds in which an entity without an aux triple gives up only the last of its test triples


@dataclass(frozen=True)
class SplitSettings:
    """How to make a data set with new entities.

    new: the ends of a test triple that are new
    test: how many true test triples: a whole number, or as a float the share of all triples
    task: for triplet classification, each true triple of valid and test gets a false one after it
    valid_share: the share of the train triples that go to valid, as far as train keeps all its entities and relations
    """

    new: Literal["head", "tail", "both"] = "head"
    test: int | float = 0.1
    seed: int = 0
    task: Task = "link-prediction"
    valid_share: float = 0.05

    def __post_init__(self) -> None:
        if self.new not in NEW_ENDS:
            raise InputError(f"new ends {self.new!r}; choose head, tail or both")
        if self.task not in TASKS:
            raise InputError(f"task {self.task!r}; choose {' or '.join(TASKS)}")
        if isinstance(self.test, float) and not 0 < self.test < 1:
            raise InputError(f"a share of {self.test} for test; it must lie between 0 and 1")
        if not isinstance(self.test, float) and self.test < 1:
            raise InputError(f"{self.test} test triples; ask for at least 1")
        if not 0 <= self.valid_share < 1:
            raise InputError(f"a share of {self.valid_share} for valid; it must be at least 0 and less than 1")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")


@dataclass(frozen=True, eq=False)
class Split(Dataset):
    """A data set made by `split`, or by `split_by_entities`.

    wanted, drawn: how many true test triples were asked for, and how many there are; where entities were hidden, how
        many of these
    left_out: triples that are in no part, most of them between two new entities
    """

    wanted: int = field(kw_only=True)
    drawn: int = field(kw_only=True)
    left_out: int = field(kw_only=True)


def split(triples: Triples, settings: SplitSettings | None = None) -> Split:
    """Draw test triples, make their entities new, and sort the other triples into train, valid and aux.

    The known entities and the relations of test occur in train, and every new entity has an aux triple with a relation
    of train. Where no more triples fit, there are fewer test triples than were asked for.
    """
    settings = settings or SplitSettings()
    ids = distinct_ids(triples)
    wanted = max(1, round(settings.test * len(ids))) if isinstance(settings.test, float) else settings.test
    if wanted >= len(ids):
        raise InputError(f"{triples.source}: {wanted:,} test triples of {len(ids):,}; give more or ask for fewer")
    random = np.random.default_rng(settings.seed)
    sorter = _Sorter(ids, len(triples.entities), len(triples.relations), settings.new)
    test = sorter.draw(wanted, random)
    sorting = sorter.sort(test)
    valid = draw_valid(ids, np.flatnonzero(sorting.hiding.stays), settings.valid_share, random)
    false_valid = false_test = None
    if settings.task == "triplet-classification":
        corruptor = Corruptor(ids, sorter.num_entities, sorter.num_relations, random)
        known, train = np.flatnonzero(sorting.hiding.known), ids[sorting.hiding.stays]
        false_valid, has_false = corruptor.corrupt(ids[valid], [0, 2], known, train)
        false_valid, valid = false_valid[has_false], valid[has_false]
        if settings.new == "both":  # both ends stay new
            about_new = np.concatenate([ids[sorting.aux], ids[test]])
            false_test, has_false = corruptor.corrupt(
                ids[test], [0, 2], np.flatnonzero(sorting.hiding.hidden), about_new
            )
        else:
            false_test, has_false = corruptor.corrupt(ids[test], KNOWN_ENDS[settings.new], known, train)
        false_test, test = false_test[has_false], test[has_false]
    if not len(test):
        remedy = "give more triples, ask for fewer test triples, or choose another end to be new"
        raise InputError(f"{triples.source}: no triple is fit for test; {remedy}")
    in_train = sorting.hiding.stays.copy()
    in_train[valid] = False
    return Split(
        name="split",
        task=settings.task,
        train=part_of(triples, ids[in_train]),
        valid=part_of(triples, ids[valid], false_valid),
        aux=part_of(triples, ids[sorting.aux]),
        test=part_of(triples, ids[test], false_test),
        wanted=int(wanted),
        drawn=len(test),
        left_out=int(len(ids) - sorting.hiding.stays.sum() - sorting.aux.sum() - len(test)),
    )


@dataclass(frozen=True)
class _Sorting:
    """Where the triples go, given the test triples.

    hiding: train is what stays; some entities are neither new nor known: all their triples are with new entities
    aux: (triples,) what ties a new entity to a known one, and is not a test triple
    supported: (entities,) with an aux triple whose relation is in train
    """

    hiding: Hiding
    aux: BoolArray
    supported: BoolArray


class _Sorter:
    """Finds test triples that fit together.

    What fits stays fitting when other test triples are taken away: their entities become known again, train and aux
    grow. So test triples can be drawn in batches and pruned, and any first part of them is as good as all.
    """

    def __init__(self, ids: TripleIds, num_entities: int, num_relations: int, new: str) -> None:
        self.ids, self.num_entities, self.num_relations = ids, num_entities, num_relations
        self.new_ends, self.known_ends = NEW_ENDS[new], KNOWN_ENDS[new]

    def sort(self, test: IntArray) -> _Sorting:
        """Sort all triples, given the rows of the test triples."""
        new = mask(self.ids[test][:, self.new_ends], self.num_entities)
        hiding = Hiding.of(self.ids, new, self.num_relations)
        aux = hiding.ties.copy()
        aux[test] = False
        support = self.ids[aux & hiding.trained[self.ids[:, 1]]]
        return _Sorting(hiding, aux, mask(support[:, [0, 2]], self.num_entities))

    def draw(self, count: int, random: np.random.Generator) -> IntArray:
        """The rows of test triples, `count` of them unless no more fit."""
        waiting = random.permutation(len(self.ids))
        chosen: IntArray = np.empty(0, np.int64)
        limit = size = max(1, len(self.ids) // BATCHES)
        for _ in range(ROUNDS):
            if len(chosen) == count or not len(waiting):
                break
            batch = waiting[: min(size, count - len(chosen))]
            grown = self._fitting(np.concatenate([chosen, batch]))
            if len(grown) > len(chosen):
                tried = np.concatenate([chosen, batch])
                waiting = np.concatenate([waiting[len(batch) :], tried[~np.isin(tried, grown)]])
                chosen, size = grown, min(2 * size, limit)
            elif len(batch) > 1:
                size = len(batch) // 2
            else:
                waiting = waiting[1:]
        return chosen

    def _fitting(self, test: IntArray) -> IntArray:
        """The test triples that remain when those that do not fit are taken away, late ones first."""
        test = self._without_conflicts(test)
        for round_number in range(len(test)):
            sorting, triples, rank = self.sort(test), self.ids[test], np.arange(len(test))
            misfit = ~sorting.hiding.trained[triples[:, 1]]
            misfit |= ~sorting.hiding.known[triples[:, self.known_ends]].all(axis=1)
            ends = triples[:, self.new_ends]  # (test, new ends)
            last = np.zeros(self.num_entities, np.int64)
            for column in ends.T:
                np.maximum.at(last, column, rank)
            lacking = ~sorting.supported[ends]
            if round_number < PATIENCE:
                lacking &= last[ends] == rank[:, None]
            misfit |= lacking.any(axis=1)
            if not misfit.any():
                break
            test = test[~misfit]
        return test

    def _without_conflicts(self, test: IntArray) -> IntArray:
        """Whether an entity is new or known is decided by the first test triple it is in; drop those against it."""
        if not self.known_ends:
            return test
        triples = self.ids[test]
        new, known = triples[:, self.new_ends[0]], triples[:, self.known_ends[0]]
        first_new, first_known = first_rows(new, self.num_entities), first_rows(known, self.num_entities)
        kept: IntArray = test[(first_new < first_known)[new] & (first_known < first_new)[known]]
        return kept


def check_shares(test: float, valid: float, why: str) -> None:
    """Refuse shares for test and valid that leave nothing. why: what the rest is needed for"""
    if not 0 < test < 1:
        raise InputError(f"a share of {test} for test; it must lie between 0 and 1")
    if not 0 <= valid < 1:
        raise InputError(f"a share of {valid} for valid; it must be at least 0 and less than 1")
    if test + valid >= 1:
        raise InputError(f"shares of {test} for test and {valid} for valid; together they must be less than 1, {why}")


def distinct_ids(triples: Triples) -> TripleIds:
    """The triples' ids without repetition; labelled ones are refused."""
    if triples.truth is not None:
        raise InputError(f"{triples.source}: has a label column; select the true triples' head, relation and tail")
    kept = first_occurrences(triples.ids, len(triples.entities), len(triples.relations))
    return triples.ids if kept is None else triples.ids[kept]


def draw_valid(ids: TripleIds, train: IntArray, share: float, random: np.random.Generator) -> IntArray:
    """Rows of train, drawn among those that are not the first in random order with an entity or a relation."""
    order = random.permutation(train)
    shuffled = ids[order]
    free = np.ones(len(order) + 1, dtype=np.bool_)  # one more, for what does not occur in train
    free[first_rows(shuffled[:, 1], ids[:, 1].max() + 1)] = False
    free[first_rows(shuffled[:, [0, 2]], ids[:, [0, 2]].max() + 1)] = False
    drawn: IntArray = order[free[:-1]][: round(share * len(train))]
    return drawn


def part_of(triples: Triples, true: TripleIds, false: TripleIds | None = None) -> Triples:
    """One part of the data set; with false triples, each stands after the true one it was made from."""
    if false is None:
        return compact(Triples(true, triples.entities, triples.relations, source=triples.source))
    ids = np.stack([true, false], axis=1).reshape(-1, 3)  # (2 · true, 3)
    truth = np.tile([True, False], len(true))
    return compact(Triples(ids, triples.entities, triples.relations, truth, triples.source))


def first_rows(ids: IntArray, size: int) -> IntArray:
    """The first row in which each id stands; the number of rows for an id that does not occur."""
    first = np.full(size, len(ids))
    for column in np.atleast_2d(ids.T):
        # column by column: numpy's ufunc.at reads past the values' end if they are broadcast to the ids
        np.minimum.at(first, column, np.arange(len(ids)))
    return first
