"""What entities in the same company say for an answer: of those with the same link, how many have that answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ookg.extension.lookup import entity_id, relation_id
from ookg.extension.questions import Question
from ookg.extension.state import State
from ookg.types import IntArray

MOST_LINKS = 32  # of the asked entity that are looked at: those that the fewest others share
DOUBT = 1.0  # so many more companions without the answer: one of one says less than ten of ten


@dataclass(frozen=True)
class Company:
    """A link of the asked entity, how many others have it too, and how many of those have the answer.

    direction "out": the asked entity is the head of the link, and `entity` its tail
    """

    relation: str
    entity: str
    direction: Literal["out", "in"]
    others: int
    agreeing: int


def company(state: State, question: Question, answers: Sequence[str], most: int = 3) -> list[list[Company]]:
    """For each answer what speaks for it, strongest first."""
    asked, relation = entity_id(state, question.asked), relation_id(state, question.relation)
    companions = _companions(state, asked)
    found = []
    for label in answers:
        number = state.entities.find(label)
        having = np.empty(0, dtype=np.int64)
        if number is not None:
            having = state.graph.answers(number, relation, asks_tail=not question.asks_tail)
        rows = []
        for (code, other), others in companions:
            agreeing = _shared(others, having)
            if agreeing:
                rows.append((agreeing / (len(others) + DOUBT), code, other, len(others), agreeing))
        rows.sort(key=lambda row: -row[0])
        found.append(
            [
                Company(
                    state.relations.label(code // 2),
                    state.entities.label(other),
                    "in" if code % 2 else "out",
                    size,
                    agreeing,
                )
                for _, code, other, size, agreeing in rows[:most]
            ]
        )
    return found


def _companions(state: State, asked: int) -> list[tuple[tuple[int, int], IntArray]]:
    """The links of an entity, each with the other entities that have it, ascending; those with few of them first."""
    codes, ends = state.graph.links_of(asked)
    companions = []
    for code, other in zip(codes.tolist(), ends.tolist(), strict=True):
        others = state.graph.answers(other, code // 2, asks_tail=bool(code % 2))
        others = others[others != asked]
        if len(others):
            companions.append(((code, other), others))
    companions.sort(key=lambda entry: len(entry[1]))
    return companions[:MOST_LINKS]


def _shared(one: IntArray, other: IntArray) -> int:
    """How many numbers two ascending arrays share; the shorter one is looked up in the longer one."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    if not len(few):
        return 0
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return int((many[place] == few).sum())
