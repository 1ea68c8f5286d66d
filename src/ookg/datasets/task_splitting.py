"""Making a few-shot data set out of any list of triples: some entities become newcomers, whose triples are tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ookg.datasets.dataset import compact
from ookg.datasets.few_shot import FewShotDataset
from ookg.datasets.splitting import check_shares, distinct_ids
from ookg.errors import InputError
from ookg.graph.hiding import Hiding
from ookg.graph.triples import Tasks, TripleIds, Triples
from ookg.types import BoolArray, IntArray

KNOWN, VALID, TEST = 0, 1, 2  # what an entity is


@dataclass(frozen=True)
class TaskSplitSettings:
    """How to make a few-shot data set.

    shots: a newcomer has at least one triple more than this
    test_share, valid_share: the shares of all entities that are newcomers of test and of valid
    seed: of the choice of newcomers, and of the order of their triples
    """

    shots: int = 3
    test_share: float = 0.1
    valid_share: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.shots < 1:
            raise InputError(f"{self.shots} shots; give 1 triple per newcomer or more")
        check_shares(self.test_share, self.valid_share, "as some entities stay known")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")


@dataclass(frozen=True, eq=False)
class SplitTasks(FewShotDataset):
    """A data set made by `split_into_tasks`.

    also_true: what is neither known nor a task: between newcomers of valid and of test, or over an unknown relation
    wanted: how many newcomers of valid and of test were asked for
    """

    wanted: tuple[int, int] = field(kw_only=True)


def split_into_tasks(triples: Triples, settings: TaskSplitSettings | None = None) -> SplitTasks:
    """Make some entities newcomers; their triples, in random order, are their tasks, and all others are known.

    A triple of two newcomers is a task of one of them. Every newcomer has more than `shots` triples, and every relation
    of a task is known. Where too few entities have so many, there are fewer newcomers than were asked for.
    """
    settings = settings or TaskSplitSettings()
    ids = distinct_ids(triples)
    random = np.random.default_rng(settings.seed)
    size = len(triples.entities)
    least = settings.shots + 1
    count = np.bincount(ids[:, 0], minlength=size) + np.bincount(ids[ids[:, 0] != ids[:, 2], 2], minlength=size)
    shares = settings.valid_share, settings.test_share
    wanted = round(shares[0] * size), max(1, round(shares[1] * size))
    fit = random.permutation(np.flatnonzero(count >= least))
    # Where there are not enough, valid and test share them as they were asked for.
    scale = min(1.0, len(fit) / max(1, sum(wanted)))
    taken = [round(scale * number) for number in wanted]
    kind = np.full(size, KNOWN)
    kind[fit[: taken[0]]] = VALID
    kind[fit[taken[0] : sum(taken)]] = TEST
    coin = random.random(len(ids)) < 0.5  # whose task a triple of two newcomers is
    while True:
        sorting = _sorted(ids, kind, coin, len(triples.relations))
        of_each = np.bincount(sorting.newcomer[sorting.is_task], minlength=size)
        lacking = np.flatnonzero((kind != KNOWN) & (of_each < least))
        if not len(lacking):
            break
        # What becomes known again gives triples to the others: not all that lack some need to.
        lacking = lacking[np.argsort(of_each[lacking], kind="stable")]
        kind[lacking[: -(-len(lacking) // 2)]] = KNOWN
    if not (kind == TEST).any() or not sorting.is_known.any():
        problem = f"{triples.source}: no entity can be a newcomer with {least:,} triples beside a known graph"
        raise InputError(f"{problem}; ask for fewer shots or other shares, or give more triples")
    order = random.permutation(len(ids))
    known = Triples(ids[sorting.is_known], triples.entities, triples.relations, source=triples.source)
    valid, test = (_tasks(triples, ids, sorting, order, kind == part, random) for part in (VALID, TEST))
    others = Triples(
        ids[~(sorting.is_known | sorting.is_task)], triples.entities, triples.relations, source=triples.source
    )
    return SplitTasks("split", compact(known), valid, test, compact(others), wanted=wanted)


@dataclass(frozen=True)
class _Sorting:
    """Where triples go. newcomer: (triples,) whose task each can be, -1 for none; is_known, is_task: (triples,)"""

    newcomer: IntArray
    is_known: BoolArray
    is_task: BoolArray


def _sorted(ids: TripleIds, kind: IntArray, coin: BoolArray, num_relations: int) -> _Sorting:
    hiding = Hiding.of(ids, kind != KNOWN, num_relations)
    head, relation, tail = ids.T
    head_new, tail_new = hiding.hidden[head], hiding.hidden[tail]
    newcomer = np.where(head_new & (~tail_new | coin), head, np.where(tail_new, tail, -1))
    is_apart = head_new & tail_new & (kind[head] != kind[tail])
    return _Sorting(newcomer, hiding.stays, ~hiding.stays & ~is_apart & hiding.trained[relation])


def _tasks(
    triples: Triples, ids: TripleIds, sorting: _Sorting, order: IntArray, whose: BoolArray, random: np.random.Generator
) -> Tasks:
    """The tasks of some newcomers, one newcomer after the other, in random order."""
    rows = order[sorting.is_task[order]]
    rows = rows[whose[sorting.newcomer[rows]]]
    turn = np.empty(len(whose), dtype=np.int64)
    turn[random.permutation(len(whose))] = np.arange(len(whose))
    rows = rows[np.argsort(turn[sorting.newcomer[rows]], kind="stable")]
    part = Triples(ids[rows], triples.entities, triples.relations, source=triples.source)
    made = compact(part)
    newcomer = made.entities.ids(triples.entities.labels)[sorting.newcomer[rows]]
    return Tasks(newcomer, made)
