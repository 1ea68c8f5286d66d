"""The thresholds of claims about known entities in plain values, which are stored with the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ookg.errors import InputError
from ookg.graph.vocabulary import Vocabulary
from ookg.scoring.thresholds import Thresholds, Worth
from ookg.simulation.judge import FITTED_VERSION, MOST_NUMBERS, stored_version, stored_worth, vectors_digest
from ookg.simulation.made_claims import MADE, MADE_OF_UNSEEN

AGAIN = "run `ookg classify ... --valid FILE` again"


@dataclass(frozen=True)
class FittedThresholds:
    """Thresholds by the label of a relation, for the model whose vectors they were fitted to.

    overall: for relations without one; worth: what verdicts by them are worth, None from too few claims
    vectors: the digest of the model's relation vectors; learned: what they were fitted to, for people to read
    version: of how they were fitted
    """

    by_relation: dict[str, float]
    overall: float
    worth: Worth | None
    vectors: str
    learned: dict[str, Any] = field(default_factory=dict, compare=False)
    version: int = FITTED_VERSION

    def __post_init__(self) -> None:
        if len(self.by_relation) > MOST_NUMBERS:
            raise InputError(f"thresholds of {len(self.by_relation):,} relations are too many to be stored")
        if not all(math.isfinite(value) for value in (self.overall, *self.by_relation.values())):
            raise InputError(f"thresholds of claims must be finite numbers; {AGAIN}")

    @property
    def is_made(self) -> bool:
        """Whether they were fitted to false triples made from those of training, and not to labelled ones."""
        return self.learned.get("source") in (MADE, MADE_OF_UNSEEN)

    @property
    def is_old(self) -> bool:
        """Whether an older version fitted them."""
        return self.version < FITTED_VERSION

    @property
    def is_seen(self) -> bool:
        """Whether the vectors have learned the true ones: then they are too strict for what is true and new."""
        return self.learned.get("source") == MADE

    @classmethod
    def of(
        cls, fitted: Thresholds, worth: Worth | None, relations: Vocabulary, vectors: Tensor, learned: dict[str, Any]
    ) -> FittedThresholds:
        """Thresholds by id, of the relations that a model has vectors of."""
        covered = np.flatnonzero(~np.isnan(fitted.by_relation[: len(relations)]))
        values = dict(zip(relations.select(covered), fitted.by_relation[covered].tolist(), strict=True))
        return cls(values, fitted.overall, worth, vectors_digest(vectors), learned)

    def for_model(self, relations: Vocabulary, vectors: Tensor) -> Thresholds | None:
        """The thresholds by the ids of a model's relations; None if they were fitted with another one."""
        ids = relations.ids(list(self.by_relation)) if self.by_relation else np.empty(0, dtype=np.int64)
        if self.vectors != vectors_digest(vectors) or (ids < 0).any():
            return None
        by_relation = np.full(len(relations), np.nan)
        by_relation[ids] = list(self.by_relation.values())
        return Thresholds(by_relation, self.overall)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "by_relation": self.by_relation,
            "overall": self.overall,
            "vectors": self.vectors,
            "learned": self.learned,
            "version": self.version,
        } | ({} if self.worth is None else {"worth": vars(self.worth)})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FittedThresholds:
        """From plain values, each checked."""
        by_relation, vectors, learned = (values.get(name) for name in ("by_relation", "vectors", "learned"))
        if not isinstance(by_relation, dict) or not isinstance(vectors, str) or not isinstance(learned, dict):
            raise InputError(f"thresholds of claims are not whole; {AGAIN}")
        numbers = [values.get("overall"), *by_relation.values()]
        if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
            raise InputError(f"thresholds of claims must be numbers; {AGAIN}")
        overall, *others = map(float, numbers)
        by_relation = dict(zip(by_relation, others, strict=True))
        worth, version = stored_worth(values.get("worth")), stored_version(values)
        return cls(by_relation, overall, worth, vectors, learned, version)


def thresholds_in_words(fitted: FittedThresholds) -> str:
    """What thresholds of claims about known entities were fitted to."""
    claims, source = fitted.learned.get("claims"), fitted.learned.get("source")
    if fitted.is_made and isinstance(claims, int):
        return f"thresholds fit {claims // 2:,} {source} and as many false ones made from them"
    text = "thresholds are those stored with the model"
    if isinstance(source, str):
        text = f"thresholds fit {Path(source).name}"  # older models have its folder: a server says this to everyone
    return f"{text}, with an older version of ookg; `ookg classify --valid` fits them anew" if fitted.is_old else text
