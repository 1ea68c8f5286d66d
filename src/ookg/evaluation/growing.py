"""How good vectors are on a growing data set: on the tests of all snapshots so far, after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ookg.errors import InputError
from ookg.scoring.link_prediction import shared_answers
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import SharedAnswers, query_rank_counts
from ookg.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ookg.datasets.snapshots import EncodedGrowth, SnapshotPart
    from ookg.models.embedding import Embedding
    from ookg.system.progress import Reporter

# How many queries are ranked at once, and about how many true answers are listed for them.
QUERIES_AT_ONCE, ANSWERS_AT_ONCE = 1 << 14, 1 << 22


@dataclass(frozen=True)
class SnapshotFigures:
    """How the answers to one snapshot's test rank.

    mrr: among all entities that are known by then; mrr_snapshot: among those known by the test's own snapshot
    unscored: queries with an end or a relation without a vector, whose answers count as the last
    """

    snapshot: int
    queries: int
    mrr: float
    mrr_snapshot: float
    unscored: int = 0


@dataclass(frozen=True)
class GrowthFigures:
    """The figures after a snapshot, test by test."""

    after: int
    tests: tuple[SnapshotFigures, ...]

    @property
    def queries(self) -> int:
        """Of all tests."""
        return sum(test.queries for test in self.tests)

    @property
    def mrr(self) -> float:
        """Over all tests so far, weighted by their size; candidates are all entities that are known by then."""
        return sum(test.queries * test.mrr for test in self.tests) / self.queries

    @property
    def mrr_snapshot(self) -> float:
        """The same; candidates are the entities of the test's own snapshot."""
        return sum(test.queries * test.mrr_snapshot for test in self.tests) / self.queries

    def to_dict(self) -> dict[str, Any]:
        """The figures by the names of the command line."""
        tests = [
            {
                "snapshot": test.snapshot,
                "queries": test.queries,
                "mrr": test.mrr,
                "mrr-snapshot": test.mrr_snapshot,
                "unscored": test.unscored,
            }
            for test in self.tests
        ]
        head = {"task": "growing", "after": self.after, "queries": self.queries}
        return head | {"mrr": self.mrr, "mrr-snapshot": self.mrr_snapshot, "snapshots": tests}

    def __str__(self) -> str:
        figures = f"MRR {self.mrr:.3f} among all entities, {self.mrr_snapshot:.3f} among the snapshot's own"
        return f"after snapshot {self.after}: {figures}, of {self.queries:,} queries"


@dataclass(frozen=True)
class Change:
    """What became of the tests between the snapshot they came with and the last one, in MRR, weighted by their size.

    Candidates are those of the test's own snapshot: more candidates alone would look like forgetting.
    forgotten: how much tests lost, those that lost; gained: how much tests gained, those that gained
    """

    forgotten: float
    gained: float

    @classmethod
    def over(cls, stages: tuple[GrowthFigures, ...]) -> Change:
        """From the figures after each snapshot, the first one first; the last snapshot's test has no change."""
        earlier = stages[:-1]
        size = sum(stage.tests[stage.after].queries for stage in earlier)
        lost = gained = 0.0
        for stage in earlier:
            then, now = stage.tests[stage.after], stages[-1].tests[stage.after]
            change = then.queries * (now.mrr_snapshot - then.mrr_snapshot)
            lost, gained = lost + max(0.0, -change), gained + max(0.0, change)
        return cls(lost / size, gained / size) if size else cls(0.0, 0.0)


class GrowthTests:
    """The questions of a growing data set and their true answers, listed once for all vectors that are measured."""

    def __init__(self, growth: EncodedGrowth, part: SnapshotPart = "test") -> None:
        self.growth, self.part = growth, part
        self._questions: dict[int, list[_Asked]] = {}

    def measure(self, embedding: Embedding, after: int, report: Reporter | None = None) -> GrowthFigures:
        """Rank the answers to the tests of the snapshots 0 to `after`, in both directions.

        embedding: vectors by the ids of the growing set, as many as are known by then; a row of NaN is no vector.
        Other true answers are left out: all triples count that are known by then.
        """
        snapshot = self.growth.snapshots[after]
        for name, got, expected in (
            ("entities", embedding.num_entities, snapshot.num_entities),
            ("relations", embedding.num_relations, snapshot.num_relations),
        ):
            if got != expected:
                problem = f"vectors of {got:,} {name}, but {expected:,} are known by snapshot {after}"
                raise InputError(f"{self.growth.name}: {problem}; give one for each")
        asked = self._asked(after)
        if not any(len(test.queries) for test in asked):
            raise InputError(f"{self.growth.name}: no {self.part} triples until snapshot {after}; nothing to measure")
        has_entity, has_relation = (
            torch.isfinite(table).all(dim=1).cpu().numpy() for table in (embedding.entities, embedding.relations)
        )
        done, tests = 0, []
        for number, test in enumerate(asked):
            queries = test.queries
            scored = has_entity[queries.entity] & has_relation[queries.relation] & has_entity[queries.answer]
            figures = []
            for size in dict.fromkeys((snapshot.num_entities, self.growth.snapshots[number].num_entities)):
                figures.append(_mrr(embedding, test, scored, size))
            tests.append(SnapshotFigures(number, len(queries), figures[0], figures[-1], int((~scored).sum())))
            done += len(queries)
            if report is not None:
                report(done)
        return GrowthFigures(after, tuple(tests))

    def _asked(self, after: int) -> list[_Asked]:
        """The tests until a snapshot, with all answers that are true by then."""
        if after not in self._questions:
            true, entities = self.growth.true_until(after), self.growth.snapshots[after].num_entities
            asked = []
            for snapshot in self.growth.snapshots[: after + 1]:
                queries = both_ways(getattr(snapshot, self.part))
                asked.append(_Asked(queries, shared_answers(queries, true, entities)))
            self._questions[after] = asked
        return self._questions[after]


@lru_cache(maxsize=4)
def growth_tests(growth: EncodedGrowth, part: SnapshotPart = "test") -> GrowthTests:
    """The questions of a growing data set, the same ones for every call."""
    return GrowthTests(growth, part)


@dataclass(frozen=True, eq=False)
class _Asked:
    """One snapshot's test as queries."""

    queries: Queries
    answers: SharedAnswers


def both_ways(triples: IntArray) -> Queries:
    """Both ends of each triple are asked for; by relation, so that what a relation needs is made ready once."""
    head, relation, tail = triples[np.argsort(triples[:, 1], kind="stable")].T
    return Queries(
        np.concatenate([head, tail]),
        np.concatenate([relation, relation]),
        np.concatenate([tail, head]),
        np.repeat([True, False], len(triples)),
    )


def _mrr(embedding: Embedding, test: _Asked, scored: BoolArray, num_candidates: int) -> float:
    """The mean reciprocal rank among the first `num_candidates` entities."""
    if not len(test.queries):
        return 0.0
    from ookg.models.embedding import Embedding

    candidates = Embedding(embedding.geometry, embedding.entities[:num_candidates], embedding.relations)
    ranks: FloatArray = np.full(len(test.queries), float(num_candidates))
    answers = test.answers.distinct_below(num_candidates)
    for rows in _chunks(np.flatnonzero(scored), answers.counts):
        queries = test.queries.select(rows)
        vectors = embedding.rows(torch.from_numpy(queries.entity).to(embedding.device))
        ranks[rows] = query_rank_counts(candidates, vectors, queries, answers.select(rows)).ranks()
    return float((1 / ranks).mean())


def _chunks(rows: IntArray, counts: IntArray) -> Iterator[IntArray]:
    """The rows in parts of some queries and about so many true answers, however many the whole has."""
    listed = np.cumsum(counts[rows])
    start = 0
    while start < len(rows):
        before = listed[start - 1] if start else 0
        end = int(np.searchsorted(listed, before + ANSWERS_AT_ONCE, side="right"))
        end = min(max(end, start + 1), start + QUERIES_AT_ONCE)
        yield rows[start:end]
        start = end
