"""Training settings of the paper's code, beyond those of the product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ookg.errors import InputError
from ookg.training.settings import TrainingSettings, preset

MOST_PLACEHOLDERS = 1_000_000_000


@dataclass(frozen=True)
class PaperSettings(TrainingSettings):
    """Settings that also say how many rows no triple trains, while negatives are drawn from them too.

    The authors' code has such a row for every new entity of a data set. It knows one optimiser, Adam over whole tables.
    """

    optimizer: str = "adam"
    placeholder_entities: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.placeholder_entities <= MOST_PLACEHOLDERS:
            problem = f"placeholder_entities {self.placeholder_entities}"
            raise InputError(f"{problem}; it must be 0 or more, and at most {MOST_PLACEHOLDERS:,}")

    @classmethod
    def of_preset(cls, name: str) -> Self:
        """The settings of that name, without such rows."""
        return cls(**vars(preset(name)))
