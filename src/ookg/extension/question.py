"""A question."""

from __future__ import annotations

from dataclasses import dataclass

from ookg.errors import InputError


@dataclass(frozen=True)
class Question:
    """(head, relation, ?) or (?, relation, tail)."""

    relation: str
    head: str | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
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
