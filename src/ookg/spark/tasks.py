"""What Spark's workers do with the batches of a partition. Each task is called with them, and yields batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import InputError
from ookg.extension.extended import ExtendedModel
from ookg.extension.questions import AnswerOptions, Question
from ookg.newcomers.given import find_given
from ookg.spark.links import COLUMNS, SeenTriples, refuse_empty
from ookg.spark.opened import ModelPlace, scratch_folder
from ookg.spark.streams import PACKED, in_larger_batches, links_by_newcomer, packed, whole_groups
from ookg.spark.sums import vectors_of
from ookg.spark.ties import Tied, ties_of
from ookg.types import Array, IntArray

TRIPLES_AT_ONCE = 1 << 16
PACKED_AT_ONCE = 1 << 18  # triples, so that each part gets many of them in one row
MOST_TIED_TRIPLES = 5_000_000  # in one piece, which is in the memory of one worker
ROWS_OUT = 1 << 12  # in a batch, so that Spark holds few vectors at a time

TIES = "node string, other string"
LINKS = f"part int, lengths binary, labels binary, links binary, {TIES}"  # links as in `PACKED`, or a tie
LINK_COLUMNS = [*PACKED, "node", "other"]
VECTORS = "entity string, vector array<float>, triples long"
GROUPED = "piece string, head string, relation string, tail string"
ASKED = f"{GROUPED}, is_question boolean"
ANSWERS = (
    "head string, relation string, tail string, "
    "answers array<struct<entity: string, score: float, is_known: boolean>>, note string"
)


@dataclass(frozen=True)
class FindTies:
    """Which newcomers and new relations triples tie together, each partition's by itself."""

    place: ModelPlace

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Triples in, `TIES` out."""
        opened = self.place.open()
        for batch in in_larger_batches(batches, TRIPLES_AT_ONCE):
            ties = ties_of(SeenTriples.of(batch, opened.entities, opened.relations), opened.model.embedding.geometry)
            yield from ties.to_batches()


@dataclass(frozen=True)
class MakeLinks:
    """The links of newcomers, packed by part, and what triples tie together.

    ties: look for what is tied; False if it is said that nothing is
    parts: how many the newcomers are dealt to
    """

    place: ModelPlace
    ties: bool
    parts: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Triples in, `LINKS` out."""
        opened = self.place.open()
        for batch in in_larger_batches(batches, PACKED_AT_ONCE):
            seen = SeenTriples.of(batch, opened.entities, opened.relations)
            is_tied = seen.is_tie.any()
            if is_tied and not self.ties:
                _refuse_ties(seen)
            rows = np.flatnonzero(seen.is_link)
            newcomers = seen.newcomers.take(pa.array(rows)).cast(pa.string())
            links = packed(newcomers, seen.links(rows), self.parts)
            gaps = pa.nulls(len(links), pa.string())
            yield pa.RecordBatch.from_arrays([*links.columns, gaps, gaps], LINK_COLUMNS)
            if is_tied:
                ties = ties_of(seen, opened.model.embedding.geometry)
                for some in ties.to_batches():
                    gaps = [pa.nulls(len(some), kind) for kind in PACKED.values()]
                    yield pa.RecordBatch.from_arrays([*gaps, some["node"], some["other"]], LINK_COLUMNS)


@dataclass(frozen=True)
class MakeVectors:
    """The vectors of newcomers that nothing is tied to, out of their links, which come sorted by part."""

    place: ModelPlace
    tied: Tied

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """`PACKED` in, `VECTORS` out."""
        opened = self.place.open()
        for whole in links_by_newcomer(batches, scratch_folder()):
            free = whole.select(self.tied.pieces(whole.newcomers) < 0)
            if len(free.counts):
                made = vectors_of(free, opened, self.place.weights)
                yield from _vector_batches(free.newcomers.cast(pa.string()), made.vectors, made.counts)


@dataclass(frozen=True)
class SolveTied:
    """The vectors of newcomers that are tied to others, as one machine makes them, whole pieces at a time."""

    place: ModelPlace

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """`GROUPED` in, sorted; `VECTORS` out."""
        model = self.place.open().model
        for table in whole_groups(batches, "piece", TRIPLES_AT_ONCE, MOST_TIED_TRIPLES):
            given = find_given(model.checkpoint, table.select(COLUMNS), self.place.weights, new_relations=True)
            size = given.newcomers.support.num_newcomers
            if not size:
                continue
            labels = pa.array(given.entities.select(np.arange(size) + len(model.entities)), pa.string())
            yield from _vector_batches(labels, given.newcomers.vectors(np.arange(size)).numpy(), given.newcomers.counts)


@dataclass(frozen=True)
class GroupTriples:
    """Triples with the name of what they belong to: a newcomer, or a piece of what is tied together.

    only_tied: leave out what belongs to a newcomer that nothing is tied to
    """

    place: ModelPlace
    tied: Tied
    only_tied: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Triples in, `GROUPED` out."""
        opened = self.place.open()
        for batch in in_larger_batches(batches, TRIPLES_AT_ONCE):
            seen = SeenTriples.of(batch, opened.entities, opened.relations)
            newcomers = pc.fill_null(seen.newcomers, "")
            is_new = seen.head_is_new | seen.tail_is_new
            pieces = np.where(is_new, self.tied.pieces(newcomers), self.tied.pieces_of_relations(seen.relation))
            names = _names(pieces, newcomers)
            kept = pa.array((pieces >= 0) | (is_new & (not self.only_tied)))
            columns = [names, seen.head, seen.relation, seen.tail]
            yield pa.RecordBatch.from_arrays(
                [column.cast(pa.string()).filter(kept) for column in columns], ["piece", *COLUMNS]
            )


@dataclass(frozen=True)
class GroupQuestions:
    """Questions with the name of what the newcomer that they ask about belongs to."""

    tied: Tied

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Questions in, `ASKED` out."""
        for batch in batches:
            head, relation, tail = (batch.column(name).cast(pa.string()) for name in COLUMNS)
            has_head, has_tail = (np.asarray(pc.is_valid(end)).astype(np.bool_) for end in (head, tail))
            if (has_head == has_tail).any():
                raise InputError(
                    "a question with both head and tail, or with neither; give one, and null for the other"
                )
            if relation.null_count:
                raise InputError("a question without a relation (null); leave such rows out")
            asked = pc.coalesce(head, tail)
            refuse_empty("head or tail", asked)
            names = _names(self.tied.pieces(asked), asked)
            is_question = pa.array(np.ones(len(names), dtype=np.bool_))
            yield pa.RecordBatch.from_arrays(
                [names, head, relation, tail, is_question], ["piece", *COLUMNS, "is_question"]
            )


@dataclass(frozen=True)
class AnswerQuestions:
    """Answers from the newcomers' vectors, as one machine gives them, whole groups at a time."""

    place: ModelPlace
    options: AnswerOptions

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """`ASKED` in, sorted by group, questions last; `ANSWERS` out."""
        model = self.place.open().model
        for table in whole_groups(batches, "piece", TRIPLES_AT_ONCE, MOST_TIED_TRIPLES):
            triples = table.filter(pc.invert(table["is_question"])).select(COLUMNS)
            rows = table.filter(table["is_question"]).select(COLUMNS).to_pylist()
            extended = model.extend(triples, weights=self.place.weights, refine=False)
            for start in range(0, len(rows), ROWS_OUT):
                answers = [_answers(extended, row, self.options) for row in rows[start : start + ROWS_OUT]]
                yield _answer_batch(answers)


def _answers(extended: ExtendedModel, row: dict[str, str | None], options: AnswerOptions) -> dict[str, Any]:
    """A question with its answers, or with a note that says why there are none."""
    question = Question(str(row["relation"]), row["head"], row["tail"])
    if extended.model.entities.find(question.asked) is not None:
        note = f"entity {question.asked!r} is known to the model, not new; ask `Model.predict` about it"
        return row | {"answers": [], "note": note}
    try:
        prediction = extended.predict_all([question], options)[0]
    except InputError as error:
        return row | {"answers": [], "note": str(error)}
    answers = [{"entity": one.entity, "score": one.score, "is_known": one.is_known} for one in prediction.answers]
    return row | {"answers": answers, "note": None}


def _answer_batch(rows: list[dict[str, Any]]) -> Any:
    answer = pa.struct([("entity", pa.string()), ("score", pa.float32()), ("is_known", pa.bool_())])
    kinds = {name: pa.string() for name in COLUMNS} | {"answers": pa.list_(answer), "note": pa.string()}
    return pa.RecordBatch.from_pylist(rows, pa.schema(list(kinds.items())))


def _names(pieces: IntArray, newcomers: Any) -> Any:
    """The names of groups: pieces by number, newcomers that nothing is tied to by label."""
    numbers = pc.binary_join_element_wise("piece ", pa.array(pieces).cast(pa.string()), "")
    alone = pc.binary_join_element_wise("entity ", newcomers.cast(pa.string()), "")
    return pc.if_else(pa.array(pieces >= 0), numbers, alone)


def _refuse_ties(seen: SeenTriples) -> NoReturn:
    row = int(np.flatnonzero(seen.is_tie)[0])
    triple = " ".join(getattr(seen, name)[row].as_py() for name in COLUMNS)
    problem = f"triple {triple!r} is between newcomers or over a new relation, and ties are said to be none"
    raise InputError(f"{problem}; leave out ties=False, or the triple")


def _vector_batches(labels: Any, vectors: Array, counts: IntArray) -> Iterator[Any]:
    """(newcomers, entity_width) vectors, NaN for none, as batches of `VECTORS`."""
    width = vectors.shape[1]
    for start in range(0, len(labels), ROWS_OUT):
        part = np.ascontiguousarray(vectors[start : start + ROWS_OUT], dtype=np.float32)
        ends = pa.array(np.arange(len(part) + 1, dtype=np.int32) * width)
        is_missing = pa.array(np.isnan(part[:, 0]) if width else np.zeros(len(part), dtype=np.bool_))
        lists = pa.ListArray.from_arrays(ends, pa.array(part.ravel()), mask=is_missing)
        yield pa.RecordBatch.from_arrays(
            [labels[start : start + ROWS_OUT], lists, pa.array(counts[start : start + ROWS_OUT])],
            ["entity", "vector", "triples"],
        )
