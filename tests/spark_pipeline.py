"""The tasks of Spark's workers one after the other in this process, with a shuffle in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.extension.questions import AnswerOptions
from ookg.model.model import Model
from ookg.newcomers.reducer import Weights
from ookg.spark.frames import place_of
from ookg.spark.links import COLUMNS
from ookg.spark.streams import PACKED
from ookg.spark.tasks import (
    AnswerQuestions,
    FindTies,
    GroupQuestions,
    GroupTriples,
    MakeLinks,
    MakeVectors,
    SolveTied,
)
from ookg.spark.ties import NOTHING_TIED, Tied

Triple = tuple[str, str, str]
Task = Callable[[Iterable[Any]], Iterator[Any]]
PARTITIONS, BATCH, NEWCOMER_PARTS = 3, 5, 7
TIED: list[Triple] = [
    ("n1", "r0", "n2"), ("n2", "r1", "n3"),  # a chain of newcomers
    ("n5", "r9", "e3"), ("n6", "r9", "e4"), ("e1", "r9", "e2"),  # a new relation
    ("n7", "r0", "n7"),  # a loop
    ("lost", "r0", "gone"),  # nothing ties these to the known graph
    ("e0", "r8", "e1"),  # a new relation between known entities
]  # fmt: skip
QUESTIONS: list[tuple[str | None, str, str | None]] = [
    ("c0", "r0", None), (None, "r1", "n1"), ("n5", "r9", None), ("n5", "r2", None), ("n3", "r3", None),
]  # fmt: skip


def table_of(triples: Iterable[tuple[str | None, ...]]) -> pa.Table:
    rows = [dict(zip(COLUMNS, triple, strict=True)) for triple in triples]
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in COLUMNS]))


def partitions(table: pa.Table) -> list[list[Any]]:
    """A table cut into partitions of small batches."""
    cuts = [table.slice(start, -(-max(1, table.num_rows) // PARTITIONS)) for start in _starts(table.num_rows)]
    return [cut.combine_chunks().to_batches(BATCH) for cut in cuts]


def _starts(rows: int) -> range:
    return range(0, max(1, rows), -(-max(1, rows) // PARTITIONS))


def mapped(task: Task, parts: list[list[Any]]) -> list[list[Any]]:
    return [list(task(iter(part))) for part in parts]


def table(parts: list[list[Any]]) -> pa.Table | None:
    batches = [batch for part in parts for batch in part]
    return pa.Table.from_batches(batches) if batches else None


def shuffled(parts: list[list[Any]], key: str, order: list[str]) -> list[list[Any]]:
    """Rows with the same key in the same partition, sorted there."""
    everything = table(parts)
    if everything is None:
        return []
    codes = everything[key].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    made = []
    for number in range(PARTITIONS):
        rows = everything.take(pa.array(np.flatnonzero(codes % PARTITIONS == number)))
        made.append(rows.sort_by([(name, "ascending") for name in order]).combine_chunks().to_batches(BATCH))
    return made


def ties_of(triples: Iterable[Triple], folder: Path, weights: Weights | None = None) -> Tied:
    ties = table(mapped(FindTies(place_of(folder, weights)), partitions(table_of(triples))))
    nothing = pa.array([], pa.string())
    return Tied.of(ties if ties is not None else pa.table({"node": nothing, "other": nothing}))


def embedded(
    triples: list[Triple], folder: Path, weights: Weights | None = None
) -> dict[str, tuple[list[float] | None, int]]:
    """What `ookg.spark.embed` gives: for each newcomer its vector and how many triples made it."""
    place, parts = place_of(folder, weights), partitions(table_of(triples))
    made = table(mapped(MakeLinks(place, ties=True, parts=NEWCOMER_PARTS), parts))
    tied, links = _ties_and_links(made) if made is not None else (NOTHING_TIED, [])
    grouped = shuffled(mapped(GroupTriples(place, tied, only_tied=True), parts), "piece", ["piece", *COLUMNS])
    rows = [
        row
        for part in (mapped(MakeVectors(place, tied), links), mapped(SolveTied(place), grouped))
        for batches in part
        for batch in batches
        for row in batch.to_pylist()
    ]
    assert len({row["entity"] for row in rows}) == len(rows)
    return {row["entity"]: (row["vector"], row["triples"]) for row in rows}


def _ties_and_links(made: pa.Table) -> tuple[Tied, list[list[Any]]]:
    """What is tied together, and the links by part, of both in one table."""
    is_tie = pc.is_valid(made["other"])
    links = made.filter(pc.invert(is_tie)).select(list(PACKED))
    tied = Tied.of(made.filter(is_tie).select(["node", "other"]))
    return tied, shuffled([links.combine_chunks().to_batches()], "part", ["part"])


def answered(
    questions: list[tuple[str | None, str, str | None]], triples: list[Triple], folder: Path, **options: Any
) -> list[dict[str, Any]]:
    """What `ookg.spark.predict` gives."""
    place, tied = place_of(folder, None), ties_of(triples, folder)
    asked = table(mapped(GroupQuestions(tied), partitions(table_of(questions))))
    given = table(mapped(GroupTriples(place, tied, only_tied=False), partitions(table_of(triples))))
    assert asked is not None
    assert given is not None
    given = given.append_column("is_question", pa.array([False] * given.num_rows))
    both = partitions(pa.concat_tables([given, asked]))
    parts = shuffled(both, "piece", ["piece", "is_question", *COLUMNS])
    made = mapped(AnswerQuestions(place, AnswerOptions(combine=False, new_answers=False, **options)), parts)
    return [row for part in made for batch in part for row in batch.to_pylist()]


def given(seed: int, newcomers: int = 12, size: int = 90) -> list[Triple]:
    """Links of newcomers to known entities, in any order, some of them twice, and triples of known ones alone."""
    rng = np.random.default_rng(seed)
    rows: list[Triple] = []
    for newcomer, relation, known, is_head in zip(
        rng.integers(0, newcomers, size), rng.integers(0, 4, size), rng.integers(0, 20, size), rng.random(size) < 0.5,
        strict=True,
    ):  # fmt: skip
        # Labels before and after those of the known entities, which begin with e.
        ends = (f"{'cn'[newcomer % 2]}{newcomer}", f"e{known}")
        head, tail = ends if is_head else ends[::-1]
        rows.append((head, f"r{relation}", tail))
    rows += [*rows[: size // 4], ("e0", "r0", "e1")]
    return [rows[place] for place in rng.permutation(len(rows))]


def compare(
    made: dict[str, Any], model: Model, triples: list[Triple], weights: Weights | None, close: float = 0.0
) -> None:
    """Hold what was made against one machine, to the last bit unless it says how close."""
    expected = model.embed(sorted(set(triples)), weights=weights)
    assert {label for label, (vector, _) in made.items() if vector is None} == set(expected.without_vector)
    assert set(made) == {*expected.entities, *expected.without_vector}
    assert [made[label][1] for label in expected.entities] == expected.neighbors.tolist()
    vectors = np.array([made[label][0] for label in expected.entities], dtype=np.float32)
    if close:
        np.testing.assert_allclose(vectors, expected.vectors.numpy(), rtol=close, atol=close / 10)
    else:
        assert (vectors == expected.vectors.numpy()).all()
