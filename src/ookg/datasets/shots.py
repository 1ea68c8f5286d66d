"""A few-shot data set as arrays of ids: known triples, and triples about newcomers of which the first few are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ookg.datasets.encoded import EncodedDataset, no_triples
from ookg.errors import InputError
from ookg.graph.ids import TripleIds
from ookg.types import BoolArray, IntArray

TaskSplit = Literal["valid", "test"]
TASK_SPLITS: tuple[TaskSplit, ...] = ("valid", "test")


def first_of_each(newcomer: IntArray, shots: int, whose: str) -> BoolArray:
    """(triples,) which triples are given: the first `shots` of each newcomer. Something must be left to ask.

    newcomer: (triples,) whom each triple is about; whose: whose triples they are, for messages
    """
    if shots < 1:
        raise InputError(f"{shots} shots; give 1 triple per newcomer or more")
    order = np.argsort(newcomer, kind="stable")
    grouped = newcomer[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(grouped, grouped)
    is_given: BoolArray = place < shots
    if is_given.all():
        most = f"newcomers have at most {1 + int(place.max())} triples" if len(place) else "there are no triples"
        raise InputError(f"{whose}: nothing is left to ask after {shots:,} shots ({most}); give fewer shots")
    return is_given


@dataclass(frozen=True, eq=False)
class EncodedTasks:
    """Triples about newcomers, in order.

    newcomer: (triples,) the end that each triple is about; triples: (triples, 3)
    """

    newcomer: IntArray
    triples: TripleIds


@dataclass(frozen=True, eq=False)
class Shots:
    """What is given about the newcomers of a split, and what is asked.

    shots: how many triples of each newcomer are given, the first ones; given: (given, 3) those of all
    asked: (questions, 3) the other triples; newcomer: (questions,) the end that is asked about, the other is the answer
    """

    split: TaskSplit
    shots: int
    given: TripleIds
    asked: TripleIds
    newcomer: IntArray

    @property
    def asks_tail(self) -> BoolArray:
        """(questions,) whether the answer is the tail; of a loop it is."""
        is_head: BoolArray = self.asked[:, 0] == self.newcomer
        return is_head

    @property
    def answer(self) -> IntArray:
        """(questions,) the other end of each triple; of a loop the newcomer itself."""
        answer: IntArray = np.where(self.asks_tail, self.asked[:, 2], self.asked[:, 0])
        return answer

    @property
    def num_given(self) -> IntArray:
        """(questions,) how many given triples have the newcomer, those that other newcomers brought counted in."""
        head, tail = self.given[:, 0], self.given[:, 2]
        size = 1 + max(int(self.given.max(initial=-1)), int(self.newcomer.max(initial=-1)))
        counts = np.bincount(head, minlength=size) + np.bincount(tail[tail != head], minlength=size)
        of_each: IntArray = counts[self.newcomer]
        return of_each


@dataclass(frozen=True, eq=False)
class EncodedFewShot:
    """A few-shot data set as ids: known entities come first, then all others; relations of train come first.

    num_known, num_entities: entities of train, and all; num_trained, num_relations: relations of train, and all
    train: (triples, 3) the known triples; valid, test: triples about newcomers
    also_true: (triples, 3) neither learned nor asked, and no wrong answers
    """

    name: str
    num_known: int
    num_entities: int
    num_trained: int
    num_relations: int
    train: TripleIds
    valid: EncodedTasks
    test: EncodedTasks
    also_true: TripleIds = field(default_factory=no_triples)

    def tasks(self, split: TaskSplit) -> EncodedTasks:
        """The triples about newcomers of a split."""
        if split not in TASK_SPLITS:
            raise InputError(f"tasks {split!r}; choose {' or '.join(TASK_SPLITS)}")
        return self.valid if split == "valid" else self.test

    def at(self, split: TaskSplit, shots: int) -> Shots:
        """The first `shots` triples of each newcomer are given, the others asked."""
        tasks = self.tasks(split)
        is_given = first_of_each(tasks.newcomer, shots, f"{split}-tasks of {self.name}")
        return Shots(split, shots, tasks.triples[is_given], tasks.triples[~is_given], tasks.newcomer[~is_given])

    @property
    def true_triples(self) -> TripleIds:
        """All triples, of all parts: what other answers are left out by."""
        return np.concatenate([self.train, self.valid.triples, self.test.triples, self.also_true])

    @property
    def known(self) -> EncodedDataset:
        """What is known, as a data set without new entities: the same for all splits and numbers of shots."""
        nothing = np.empty((0, 3), np.int64)
        sizes = self.num_known, self.num_known, self.num_trained, self.num_trained
        return EncodedDataset(self.name, "link-prediction", *sizes, self.train, nothing, nothing, nothing)

    def dataset_of(self, split: TaskSplit, shots: int) -> EncodedDataset:
        """The same as a data set with new entities: what is given is its aux, what is asked its test part.

        Its valid part is what else is true, so that answers are filtered by all triples.
        """
        asked = self.at(split, shots)
        other = self.tasks("test" if split == "valid" else "valid")
        return EncodedDataset(
            name=f"{self.name}-{split}-{shots}",
            task="link-prediction",
            num_known=self.num_known,
            num_entities=self.num_entities,
            num_trained=self.num_trained,
            num_relations=self.num_relations,
            train=self.train,
            valid=other.triples,
            aux=asked.given,
            test=asked.asked,
            also_true=self.also_true,
        )
