"""Verdicts on claims. All of it can be pickled and printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ookg.graph.frames import NamedTabular
from ookg.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from ookg.graph.names import Names
    from ookg.simulation.claim_thresholds import FittedThresholds
    from ookg.simulation.judge import FittedJudge
    from ookg.simulation.trust import Trust


@dataclass(frozen=True)
class Verdict:
    """A claim with its score and the threshold it is held against; both and the verdict are None without a vector.

    probability: that it is true, if as many true as false claims are made; calibrated on claims that nothing was
        fitted to, about newcomers where it is about one. None where there were too few of them
    """

    head: str
    relation: str
    tail: str
    score: float | None
    threshold: float | None
    verdict: bool | None
    probability: float | None = None

    def __str__(self) -> str:
        word = {True: "true", False: "false", None: "no verdict"}[self.verdict]
        has_both = self.score is not None and self.threshold is not None
        score = f" ({self.score:.3f} against {self.threshold:.3f})" if has_both else ""
        return f"{self.head} {self.relation} {self.tail}: {word}{score}"


@dataclass(frozen=True)
class Classification(NamedTabular):
    """Verdicts on claims, and where these are labelled the percentage that is right (no verdict counts as false).

    trust: how far to trust the vectors of the new entities in the claims, by label
    judge: what judged the claims about new entities; None where thresholds alone did
    thresholds: what the claims about known entities were held against
    """

    claims: list[Verdict]
    accuracy: float | None
    notes: list[str]
    trust: dict[str, Trust]
    judge: FittedJudge | None = field(default=None, repr=False)
    thresholds: FittedThresholds | None = field(default=None, repr=False)
    find_names: Callable[[], Names] | None = field(default=None, repr=False, compare=False)

    def id_table(self) -> Any:
        """A row for each claim, with the fields of a `Verdict`; null for None."""
        import pyarrow as pa  # a machine that only computes has none

        kinds = {"head": pa.string(), "relation": pa.string(), "tail": pa.string(), "verdict": pa.bool_()}
        names = [one.name for one in fields(Verdict)]
        return pa.table(
            {n: pa.array([getattr(one, n) for one in self.claims], kinds.get(n, pa.float64())) for n in names}
        )

    def __str__(self) -> str:
        lines = [str(claim) for claim in self.claims]
        if self.accuracy is not None:
            lines.append(f"{self.accuracy:.1f} % right")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)] or ["no claims"])


def accuracy(scores: FloatArray, thresholds: FloatArray, truth: BoolArray | None) -> float | None:
    """The percentage of right verdicts; a claim without a score counts as held false. None without labels."""
    if truth is None or not len(truth):
        return None
    return float(((scores >= thresholds) == truth).mean() * 100)
