"""Ranks question by question: their figures with intervals, as a file, and two of them compared.

Intervals come from drawing the test triples anew, with both questions of a triple together, and the test of a
difference from flipping the sign of each triple's own difference: both know nothing but that triples are drawn
independently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ookg.errors import FileError, InputError
from ookg.graph.frames import Tabular
from ookg.graph.tables import read_table, write_table
from ookg.scoring.ranking import RankSummary
from ookg.types import BoolArray, FloatArray, IntArray

RESAMPLES = 1000
FLIPS = 10_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 1 << 22  # numbers of resampling that are held at once
RESAMPLING, FLIPPING = 31, 32  # the purposes of the random streams
MEASURES = ("mrr", "mean_rank", "hits@1", "hits@3", "hits@10")
TEXT_COLUMNS = ("head", "relation", "tail", "asked")
BOUNDS = (0, 1, 3, 10, 30, 100)  # the last number of triples of each group but the last


@dataclass(frozen=True)
class Interval:
    """Where a figure lies with 95 % confidence."""

    low: float
    high: float


@dataclass(frozen=True)
class RankFigures:
    """The figures of some questions, and an interval for each of `MEASURES`."""

    summary: RankSummary
    intervals: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """By the names of the command line; hits are percentages."""
        return self.summary.to_dict() | {
            "intervals": {name: [one.low, one.high] for name, one in self.intervals.items()}
        }


@dataclass(frozen=True, eq=False)
class QuestionRanks(Tabular):
    """The questions of test triples, each with the rank of its right answer; (questions,) each.

    asks_tail: the tail is asked for; triples: of the entity that is asked about, in training; -1 where that is unknown
    """

    head: list[str]
    relation: list[str]
    tail: list[str]
    asks_tail: BoolArray
    rank: FloatArray
    triples: IntArray

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def questions(self) -> list[tuple[str, ...]]:
        """What tells the questions apart: (head, relation, tail, "head" or "tail")."""
        return list(zip(self.head, self.relation, self.tail, self._asked, strict=True))

    @property
    def _asked(self) -> list[str]:
        return ["tail" if asks_tail else "head" for asks_tail in self.asks_tail.tolist()]

    @property
    def unit(self) -> IntArray:
        """(questions,) which test triple each is of: those of one triple are not independent."""
        numbers: dict[tuple[str, str, str], int] = {}
        triples = zip(self.head, self.relation, self.tail, strict=True)
        return np.array([numbers.setdefault(triple, len(numbers)) for triple in triples], dtype=np.int64)

    def select(self, rows: BoolArray | IntArray) -> QuestionRanks:
        """Some of the questions."""
        places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        head, relation, tail = ([column[n] for n in places] for column in (self.head, self.relation, self.tail))
        return QuestionRanks(head, relation, tail, self.asks_tail[places], self.rank[places], self.triples[places])

    def figures(self, seed: int = 0) -> RankFigures:
        """The figures with their intervals."""
        summary = RankSummary.of(self.rank)
        if not len(self):
            return RankFigures(summary, {})
        drawn = _resampled(_values(self.rank), self.unit, seed)
        return RankFigures(summary, {name: _interval(drawn[:, place]) for place, name in enumerate(MEASURES)})

    def by_relation(self, seed: int = 0) -> dict[str, RankFigures]:
        """The figures of each relation, that with most questions first."""
        names, place, counts = np.unique(np.array(self.relation, object), return_inverse=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {str(names[one]): self.select(place == one).figures(seed) for one in order.tolist()}

    def by_direction(self, seed: int = 0) -> dict[str, RankFigures]:
        """The figures of the questions for tails and for heads."""
        parts = {"tail": self.asks_tail, "head": ~self.asks_tail}
        return {name: self.select(rows).figures(seed) for name, rows in parts.items() if rows.any()}

    def by_triples(self, seed: int = 0) -> dict[str, RankFigures]:
        """The figures by how many training triples the entity that is asked about has."""
        group, figures = np.searchsorted(BOUNDS, self.triples), {}
        for one in np.unique(group[self.triples >= 0]).tolist():
            first, last = (BOUNDS[one - 1] + 1 if one else 0), (BOUNDS[one] if one < len(BOUNDS) else None)
            name = f"{first} and more" if last is None else f"{first}" if first == last else f"{first} to {last}"
            figures[name] = self.select((group == one) & (self.triples >= 0)).figures(seed)
        return figures

    def to_arrow(self) -> Any:
        """As an Arrow table: head, relation, tail, asked ("head" or "tail"), rank, triples (null where unknown)."""
        counts = pa.array(self.triples, mask=self.triples < 0)
        columns = {"head": self.head, "relation": self.relation, "tail": self.tail, "asked": self._asked}
        return pa.table(columns | {"rank": self.rank, "triples": counts})

    def write(self, path: str | Path) -> None:
        """Write them as Parquet, CSV, TSV or JSON lines, as the name says."""
        write_table(path, self.to_arrow())


def read_ranks(path: str | Path) -> QuestionRanks:
    """Read what `QuestionRanks.write` wrote, or a file of the same columns; `triples` may be missing."""
    columns = read_table(path, (*TEXT_COLUMNS, "rank"), ("triples",))
    for name in TEXT_COLUMNS:
        _refuse(path, columns[name], f"column {name}", "text", lambda value: isinstance(value, str))
    _refuse(path, columns["asked"], "asked", "head or tail", lambda value: value in ("head", "tail"))
    _refuse(path, columns["rank"], "rank", "a number from 1 on", lambda value: _number(value) >= 1)
    counts = columns.get("triples", [None] * len(columns["rank"]))
    _refuse(path, counts, "triples", "a whole number", lambda value: value in (None, "") or _number(value).is_integer())
    ranks = QuestionRanks(
        columns["head"],
        columns["relation"],
        columns["tail"],
        np.array([value == "tail" for value in columns["asked"]], dtype=np.bool_),
        np.array([_number(value) for value in columns["rank"]], dtype=np.float64),
        np.array([-1 if value in (None, "") else int(_number(value)) for value in counts], dtype=np.int64),
    )
    if len(set(ranks.questions)) < len(ranks):
        raise FileError(path, "a question that is there twice", "write each question once")
    return ranks


def _refuse(path: str | Path, values: Sequence[Any], what: str, expected: str, is_right: Any) -> None:
    for row, value in enumerate(values, start=1):
        if not is_right(value):
            raise FileError(path, f"{what} of row {row} is {str(value)[:60]!r}", f"it must be {expected}")


def _number(value: Any) -> float:
    """A finite number below 2^53, or NaN, which fails every comparison."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if abs(number) < 1 << 53 else math.nan


@dataclass(frozen=True)
class MeasureComparison:
    """One measure of two systems on the same questions.

    interval: of the difference, second less first
    p_value: how often a difference at least as large comes about where the two are equally good
    """

    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float


@dataclass(frozen=True)
class RankComparison:
    """Two systems on the questions that both were asked.

    better, worse, equal: questions that the second ranks higher, lower and the same
    only_first, only_second: questions that the other was not asked, which do not count
    """

    questions: int
    better: int
    worse: int
    equal: int
    only_first: int
    only_second: int
    measures: dict[str, MeasureComparison]

    def to_dict(self) -> dict[str, Any]:
        """As plain values; hits are percentages."""
        measures = {
            name: vars(one) | {"interval": [one.interval.low, one.interval.high]} for name, one in self.measures.items()
        }
        return vars(self) | {"measures": measures}


def compare(first: QuestionRanks | str | Path, second: QuestionRanks | str | Path, seed: int = 0) -> RankComparison:
    """The second ranks against the first, paired by question; files are read."""
    first, second = (one if isinstance(one, QuestionRanks) else read_ranks(one) for one in (first, second))
    places = {question: place for place, question in enumerate(first.questions)}
    pairs = [(places[question], n) for n, question in enumerate(second.questions) if question in places]
    if not pairs:
        raise InputError("no question is in both; compare ranks of the same test triples")
    mine, other = np.array(sorted(pairs), dtype=np.int64).T
    one, two, unit = first.select(mine), second.select(other), first.select(mine).unit
    before, after = _values(one.rank), _values(two.rank)
    gain = after - before
    drawn = _resampled(gain, unit, seed)
    p_values = _sign_flips(gain, unit, seed)
    measures = {
        name: MeasureComparison(
            float(before[:, n].mean()),
            float(after[:, n].mean()),
            float(gain[:, n].mean()),
            _interval(drawn[:, n]),
            float(p_values[n]),
        )
        for n, name in enumerate(MEASURES)
    }
    better, worse = int((two.rank < one.rank).sum()), int((two.rank > one.rank).sum())
    only = len(first) - len(pairs), len(second) - len(pairs)
    return RankComparison(len(pairs), better, worse, len(pairs) - better - worse, *only, measures)


def _values(rank: FloatArray) -> FloatArray:
    """(questions, measures) what the figures are the means of."""
    return np.stack([1 / rank, rank, *(100.0 * (rank <= k) for k in (1, 3, 10))], axis=1)


def _interval(drawn: FloatArray) -> Interval:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
    return Interval(low, high)


def _sums(values: FloatArray, unit: IntArray) -> FloatArray:
    """(units, measures) the sums over the questions of each triple."""
    units = int(unit.max()) + 1
    return np.stack([np.bincount(unit, column, units) for column in values.T], axis=1)


def _stream(purpose: int, seed: int) -> np.random.Generator:
    if seed < 0:
        raise InputError(f"seed {seed}; give 0 or more")
    return np.random.default_rng([purpose, seed])


def _chunks(times: int, units: int) -> Iterator[int]:
    """How many resamples at a time."""
    at_once = max(1, DRAWN_AT_ONCE // max(1, units))
    for start in range(0, times, at_once):
        yield min(at_once, times - start)


def _resampled(values: FloatArray, unit: IntArray, seed: int) -> FloatArray:
    """(resamples, measures) the means over triples that are drawn anew, as many as there are."""
    sums, random = _sums(np.column_stack([values, np.ones(len(values))]), unit), _stream(RESAMPLING, seed)
    units, parts = len(sums), []
    for size in _chunks(RESAMPLES, units):
        drawn = random.integers(0, units, (size, units)) + np.arange(size)[:, None] * units
        times = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)
        parts.append(np.einsum("ru,um->rm", times, sums))  # no BLAS, whose sums depend on the number of threads
    total: FloatArray = np.concatenate(parts)
    means: FloatArray = total[:, :-1] / total[:, -1:]
    return means


def _sign_flips(gain: FloatArray, unit: IntArray, seed: int) -> FloatArray:
    """(measures,) the share of random signs of the triples' differences that make a sum as far from 0 as theirs."""
    sums, random = _sums(gain, unit), _stream(FLIPPING, seed)
    observed, beyond = np.abs(sums.sum(axis=0)), np.zeros(sums.shape[1])
    for size in _chunks(FLIPS, len(sums)):
        signs = random.integers(0, 2, (size, len(sums)), dtype=np.int8).astype(np.float64) * 2 - 1
        flipped = np.abs(np.einsum("ru,um->rm", signs, sums))
        beyond += (flipped >= observed * (1 - 1e-12)).sum(axis=0)  # equal but for rounding counts as equal
    p_values: FloatArray = (1 + beyond) / (1 + FLIPS)
    return p_values
