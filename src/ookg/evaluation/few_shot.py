"""How good answers about newcomers are with a few given triples each: known and new answers apart.

The protocol: of each newcomer the first K triples are given, and the other end of each further triple is asked for. An
answer is ranked among all entities, known and new, all other true answers left out. A new entity stands where its own
vector puts it, which is made of given triples alone; one without a vector comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.shots import EncodedFewShot, Shots, TaskSplit
from ookg.scoring.link_prediction import Protocol, link_prediction
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import RankSummary, TieRule
from ookg.scoring.scorer import Scorer
from ookg.system.progress import Reporter


@dataclass(frozen=True)
class GivenFigures:
    """The figures of newcomers with so many given triples, those that other newcomers brought counted in."""

    given: int
    summary: RankSummary


@dataclass(frozen=True)
class FewShotFigures:
    """Ranks of the answers to the questions about a split's newcomers.

    all, known, new: over all questions, over those with a known answer, and over those with a new one
    by_given: by the number of given triples that the newcomer is in
    unscored: questions about a newcomer or over a relation without a vector, whose candidates are all equal
    also_true: triples that were no wrong answers beside those of the parts
    notes: what a user should know, in words
    """

    split: TaskSplit
    shots: int
    protocol: Protocol
    ties: TieRule
    all: RankSummary
    known: RankSummary
    new: RankSummary
    by_given: tuple[GivenFigures, ...]
    unscored: int
    also_true: int = 0
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The figures by the names of the command line; hits are percentages."""
        head = {"task": "few-shot", "tasks": self.split, "shots": self.shots}
        head |= {"protocol": self.protocol, "ties": self.ties}
        parts = {"known": _figures(self.known), "new": _figures(self.new)}
        by_given = [{"given": row.given} | _figures(row.summary) for row in self.by_given]
        counts = {"unscored": self.unscored, "also_true": self.also_true}
        return head | _figures(self.all) | counts | parts | {"by_given": by_given}

    def __str__(self) -> str:
        parts = f"known answers {self.known.mrr:.3f}, new answers {self.new.mrr:.3f}"
        return f"{self.split}-tasks, {self.shots} given: {self.all}; MRR of {parts}"


def _figures(summary: RankSummary) -> dict[str, Any]:
    return {name: None if np.isnan(value) else value for name, value in summary.to_dict().items()}


def questions_of(shots: Shots) -> Queries:
    """The other end of each asked triple is the question."""
    return Queries(shots.newcomer, shots.asked[:, 1], shots.answer, shots.asks_tail)


def few_shot_figures(
    scorer: Scorer,
    dataset: EncodedFewShot | EncodedDataset,
    shots: Shots,
    *,
    protocol: Protocol = "all",
    ties: TieRule = "mean",
    report: Reporter | None = None,
) -> FewShotFigures:
    """Rank the answers to what is asked.

    dataset: all of it, or what `dataset_of` makes of it; shots: as `dataset.at` has them
    """
    queries, num_given = questions_of(shots), shots.num_given
    ranks = link_prediction(scorer, queries, dataset.true_triples, dataset.num_entities, protocol, report).ranks(ties)
    is_new = queries.answer >= dataset.num_known
    by_given = tuple(GivenFigures(int(n), RankSummary.of(ranks[num_given == n])) for n in np.unique(num_given))
    return FewShotFigures(
        shots.split,
        shots.shots,
        protocol,
        ties,
        RankSummary.of(ranks),
        RankSummary.of(ranks[~is_new]),
        RankSummary.of(ranks[is_new]),
        by_given,
        int((~scorer.answerable(queries)).sum()),
        len(dataset.also_true),
    )
