"""A question."""

from __future__ import annotations

from dataclasses import dataclass

from ookg.errors import InputError


def refuse_no_text(what: str, label: object) -> None:
    """Refuse what is no label, such as a number: in a graph of numbers these are text."""
    if not isinstance(label, str):
        raise InputError(f"{what} {label!r} is no text; give such as {str(label)!r}")


@dataclass(frozen=True)
class Question:
    """(head, relation, ?) or (?, relation, tail)."""

    relation: str
    head: str | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
        for end, label in (("relation", self.relation), ("head", self.head), ("tail", self.tail)):
            if label is not None or end == "relation":
                refuse_no_text(end, label)
        if (self.head is None) == (self.tail is None):
            raise InputError("give either a head or a tail; the other one is what is asked for")

    @property
    def asked(self) -> str:
        """The end that is given."""
        return self.head if self.head is not None else str(self.tail)

    @property
    def asks_tail(self) -> bool:
        """Whether the tail is the open end."""
        return self.head is not None
