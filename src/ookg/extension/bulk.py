"""Many questions from a file, and their answers as one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ookg.errors import FileError, InputError
from ookg.extension.answers import answer_rows
from ookg.extension.extended import ExtendedModel
from ookg.extension.likely import End
from ookg.extension.question import Question
from ookg.extension.questions import AnswerOptions
from ookg.graph.frames import with_names
from ookg.graph.names import Names
from ookg.graph.tables import read_table

COLUMNS = ("head", "relation", "tail", "entity")
AT_ONCE = 1024  # questions, whose answers are held as Python objects


@dataclass(frozen=True)
class Everything:
    """A question for all that is likely about an entity. end: where it stands, or both"""

    entity: str
    end: End = "both"


Asked = Question | Everything


def read_questions(path: str | Path) -> list[Asked]:
    """Questions from Parquet, CSV, TSV or JSON lines: columns head, relation, tail and entity, as far as needed.

    A row with a relation has a head or a tail, and asks for the other. One without asks for everything likely about
    its head as a head, its tail as a tail, or its entity at either end.
    """
    columns = read_table(path, (), COLUMNS)
    if not columns:
        raise FileError(path, "no column head, relation, tail or entity", "name the columns so in the first line")
    values = [columns.get(name, []) for name in COLUMNS]
    size = max(map(len, values), default=0)
    if not size:
        raise FileError(path, "no questions", "give at least one")
    rows = zip(*(column or [None] * size for column in values), strict=True)
    return [_question(path, number, *row) for number, row in enumerate(rows, start=1)]


def _question(path: str | Path, number: int, *values: Any) -> Asked:
    for value in values:
        if isinstance(value, bool | float | list | dict | bytes):
            raise FileError(path, f"{str(value)[:60]!r} in row {number}", "give labels, as text")
    head, relation, tail, entity = (None if value in (None, "") else str(value) for value in values)
    given = {"head": head, "tail": tail, "both": entity}
    named = {end: label for end, label in given.items() if label is not None}
    if len(named) != 1 or (relation is not None and entity is not None):
        problem = f"row {number} has {'no head, tail or entity' if not named else ' and '.join(named)}"
        if relation is not None and entity is not None:
            problem = f"row {number} has an entity and a relation"
        raise FileError(path, problem, "give a head or a tail with a relation, or one of head, tail, entity alone")
    if relation is not None:
        return Question(relation, head, tail)
    end: End = "head" if head is not None else "tail" if tail is not None else "both"
    return Everything(named[end], end)


def check_questions(path: str | Path, extended: ExtendedModel, asked: Sequence[Asked]) -> None:
    """Refuse questions that cannot be answered, before any is."""
    for number, one in enumerate(asked, start=1):
        try:
            extended.check(one.asked if isinstance(one, Question) else one.entity)
            if isinstance(one, Question):
                extended.check(relation=one.relation)
        except InputError as error:
            raise type(error)(f"{path}, row {number}: {error}") from None


def answer_all(
    extended: ExtendedModel,
    asked: Sequence[Asked],
    options: AnswerOptions | None = None,
    report: Callable[[int], None] | None = None,
    names: Names | None = None,
) -> Any:
    """An Arrow table of the answers to all questions, in their order, as `answer_rows` has it; numbered from 1.

    Where ids have names, there are columns of them. names: by default those of the model
    """
    tables = [answer_rows([])]
    for start in range(0, len(asked), AT_ONCE):
        part = list(enumerate(asked[start : start + AT_ONCE], start=start + 1))
        questions = [(number, one) for number, one in part if isinstance(one, Question)]
        rows = []
        predictions = extended.predict_all([one for _, one in questions], options)
        for (number, question), prediction in zip(questions, predictions, strict=True):
            rows += [(number, question, answer) for answer in prediction.answers]
        for number, one in part:
            if isinstance(one, Everything):
                likely = extended.likely(one.entity, one.end, options)
                rows += [(number, each.question, each.answer) for each in likely]
        rows.sort(key=lambda row: row[0])
        tables.append(answer_rows(rows))
        if report is not None:
            report(start + len(part))
    return with_names(pa.concat_tables(tables), extended.model.names if names is None else names)
