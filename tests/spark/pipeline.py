"""The tasks of Spark's workers one after the other in this process, with a shuffle in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ookg.extension.questions import AnswerOptions
from ookg.newcomers.reducer import Weights
from ookg.spark.frames import place_of
from ookg.spark.links import COLUMNS
from ookg.spark.tasks import (
    AnswerQuestions,
    FindTies,
    GroupQuestions,
    GroupTriples,
    MakeLinks,
    MakeVectors,
    SolveTied,
)
from ookg.spark.ties import Tied

Triple = tuple[str, str, str]
Task = Callable[[Iterable[Any]], Iterator[Any]]
PARTITIONS, BATCH = 3, 5


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
    tied = ties_of(triples, folder, weights)
    links = shuffled(mapped(MakeLinks(place, tied), parts), "newcomer", ["newcomer"])
    grouped = shuffled(mapped(GroupTriples(place, tied, only_tied=True), parts), "piece", ["piece", *COLUMNS])
    rows = [
        row
        for part in (mapped(MakeVectors(place), links), mapped(SolveTied(place), grouped))
        for batches in part
        for batch in batches
        for row in batch.to_pylist()
    ]
    assert len({row["entity"] for row in rows}) == len(rows)
    return {row["entity"]: (row["vector"], row["triples"]) for row in rows}


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
