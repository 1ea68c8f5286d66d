"""What the parts of a trained network say: how likely each known answer is, as evidence.

With p(a) = exp(s(a)) / Σ over the known answers of exp(s), s being what a part says of an answer:

    evidence(a) = log p(a) + 15, or 0 if that is less

Neither part knows enough about answers that are themselves new. In a ranking they have the evidence of known ones that
stand like them by all else (`combined_scores`); by itself a part puts all of them on a level with the fiftieth known
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.evidence.source import NO_LINK, Spoken, Why
from ookg.types import FloatArray, IntArray, Scores

LEAST = 15.0  # the logarithm of 1/p from which on an answer has no evidence
LIKE_NEW = 50  # which of the known answers, by rank, new ones are put on a level with
TINY = 1e-30


@dataclass(frozen=True)
class LearnedWhy(Why):
    """All links of the asked entity together; strength: the probability of the answer among all that were looked at.

    part: the name of the source; rank: among these answers, from 1
    """

    part: str
    rank: int


def nothing_said() -> Spoken:
    """About no answer."""
    return Spoken(np.empty(0, dtype=np.int64), np.empty(0))


def spoken_of(part: str, answers: IntArray, scores: Scores, num_known: int, asked: int) -> Spoken:
    """What a part says, from its scores of known answers, which are ascending.

    num_known: new entities have ids from here on; asked: the entity that is asked about
    """
    if not len(answers):
        return nothing_said()
    odds = np.exp(scores - scores.max())
    shares = odds / odds.sum()
    values = np.maximum(np.log(np.maximum(shares, np.float32(TINY))) + np.float32(LEAST), 0)
    speaks = np.flatnonzero(values > 0)
    if not len(speaks):  # so many answers that none is likely
        return nothing_said()
    values = values[speaks].astype(np.float64)
    level = float(np.partition(values, -LIKE_NEW)[-LIKE_NEW]) if len(values) >= LIKE_NEW else 0.0
    return _SpokenLearned(answers[speaks], values, part, shares[speaks], level, num_known, asked)


@dataclass(frozen=True)
class _SpokenLearned(Spoken):
    """About known answers; all new ones but the asked entity are on one level, whether or not they have triples.

    shares: (answers,) the probability of each; num_known: new entities have ids from here on
    """

    part: str
    shares: Scores
    level: float
    num_known: int
    asked: int

    def fill(self, row: Scores) -> None:
        """Write the evidence for each of the first entities into a row of zeros, (answers,)."""
        super().fill(row)
        row[self.num_known :] = self.level
        if self.num_known <= self.asked < len(row):
            row[self.asked] = 0

    def of(self, answers: IntArray) -> FloatArray:
        """(answers,) the evidence for some answers."""
        return np.where((answers >= self.num_known) & (answers != self.asked), self.level, super().of(answers))

    def why(self, answers: IntArray) -> list[Why | None]:
        """How likely each known answer is, and its rank."""
        place = np.minimum(np.searchsorted(self.entities, answers), len(self.entities) - 1)
        is_there = self.entities[place] == answers
        ranks = 1 + len(self.shares) - np.searchsorted(np.sort(self.shares), self.shares[place], side="right")
        rows = zip(is_there.tolist(), self.shares[place].tolist(), ranks.tolist(), strict=True)
        return [LearnedWhy(NO_LINK, NO_LINK, share, self.part, rank) if there else None for there, share, rank in rows]
