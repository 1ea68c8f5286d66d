"""Score thresholds that separate true from false, one per relation, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ookg.types import BoolArray, FloatArray, IntArray

# Balanced accuracy from which on true and false are told apart: a guess has 0.5.
LEAST_ACCURACY = 0.55
STEEPEST = 50.0  # claims that are all judged right have no best slope


@dataclass(frozen=True)
class Thresholds:
    """A claim is held true if its score is not below its relation's threshold.

    by_relation: (relations,) NaN where the validation claims do not cover the relation; overall: for those
    """

    by_relation: FloatArray
    overall: float

    @classmethod
    def fit(cls, scores: FloatArray, relations: IntArray, truth: BoolArray, num_relations: int) -> Thresholds:
        """The thresholds with the highest accuracy on labelled claims."""
        by_relation = np.full(num_relations, np.nan)
        order = np.argsort(relations, kind="stable")
        starts = np.flatnonzero(np.diff(relations[order], prepend=-1))
        for rows in np.split(order, starts[1:]):
            if len(rows):
                by_relation[relations[rows[0]]] = best_threshold(scores[rows], truth[rows])
        return cls(by_relation, best_threshold(scores, truth))

    def of(self, relations: IntArray) -> FloatArray:
        """The threshold of each claim's relation; -1, or one that came later, is a relation without one."""
        covered = np.append(self.by_relation, np.nan)[np.where(relations < len(self.by_relation), relations, -1)]
        return np.where(np.isnan(covered), self.overall, covered)

    def margins(self, scores: FloatArray, relations: IntArray) -> FloatArray:
        """By how much each claim's score is above its threshold."""
        return scores - self.of(relations)


@dataclass(frozen=True)
class Worth:
    """What a verdict is worth, on claims that nothing was fitted to.

    accuracy: balanced: the mean of the shares of true and of false claims that were judged right; 0.5 is guessing
    slope: of P(true) = 1 / (1 + exp(-slope · margin)), by which those claims are likeliest; at a margin of 0 it is 1/2
    claims: how many there were
    """

    accuracy: float
    slope: float
    claims: int

    @classmethod
    def of(cls, margins: FloatArray, truth: BoolArray) -> Worth:
        """From the margins of labelled claims, which are of both kinds."""
        held = margins >= 0
        accuracy = (float(held[truth].mean()) + float((~held)[~truth].mean())) / 2
        return cls(accuracy, _slope(margins, truth), len(margins))

    @property
    def tells(self) -> bool:
        """Whether true and false are told apart at all."""
        return self.accuracy >= LEAST_ACCURACY

    def probability(self, margins: FloatArray, beside: FloatArray | float = 0.0) -> FloatArray:
        """That claims are true; NaN where a margin is. beside: log-odds of other evidence, which are not scaled"""
        probability: FloatArray = 1 / (1 + np.exp(-np.clip(self.slope * margins + beside, -500, 500)))
        return probability


def checked_thresholds(
    scores: FloatArray, relations: IntArray, truth: BoolArray, num_relations: int
) -> tuple[Thresholds, Worth | None]:
    """The best thresholds, and what such thresholds are worth: each half is judged by those of the other half.

    No worth where a half has claims of one kind alone.
    """
    fitted = Thresholds.fit(scores, relations, truth, num_relations)
    margins = crossed(
        truth,
        lambda rows, others: Thresholds.fit(scores[rows], relations[rows], truth[rows], num_relations).margins(
            scores[others], relations[others]
        ),
    )
    return fitted, None if margins is None else Worth.of(margins, truth)


def crossed(truth: BoolArray, judge: Callable[[IntArray, IntArray], FloatArray]) -> FloatArray | None:
    """(claims,) margins that each half of the claims gets by what was fitted to the other half.

    judge: fits to some rows, and returns the margins of others. None where a half has claims of one kind alone.
    """
    halves = np.array_split(np.random.default_rng(0).permutation(len(truth)), 2)
    if any(truth[half].all() or not truth[half].any() for half in halves):
        return None
    margins = np.empty(len(truth))
    for rows, others in (halves, halves[::-1]):
        margins[others] = judge(rows, others)
    return margins


def _slope(margins: FloatArray, truth: BoolArray) -> float:
    """The slope from 0 to `STEEPEST` that makes the claims likeliest; in units of the margins' mean size."""
    size = float(np.abs(margins).mean())
    if not size > 0:
        return 0.0
    signed = np.where(truth, margins, -margins) / size

    def downhill(slope: float) -> float:
        return float((signed / (1 + np.exp(np.clip(slope * signed, -500, 500)))).mean())

    low, high = 0.0, STEEPEST
    for _ in range(60):  # the likelihood is concave: halve where its derivative changes sign
        middle = (low + high) / 2
        low, high = (middle, high) if downhill(middle) > 0 else (low, middle)
    return low / size


def best_threshold(scores: FloatArray, truth: BoolArray) -> float:
    """The threshold that classifies most claims right, among all midpoints between neighbouring scores and both ends.

    Of several equally good ones the highest, as in the authors' code: it holds the fewest claims true. An end lies one
    mean gap of the scores (1 if they are all the same) beyond the last score. So all claims of a relation are accepted
    only where no other cut is as good, as when all are true, and all are rejected wherever no other cut is better.
    """
    values, place = np.unique(scores, return_inverse=True)
    true_at = np.bincount(place, truth, minlength=len(values))
    false_at = np.bincount(place, ~truth, minlength=len(values))
    # Accepting everything from the k-th value on: the true ones from there and the false ones below are right.
    right = np.concatenate([[0], np.cumsum(false_at)]) + true_at.sum() - np.concatenate([[0], np.cumsum(true_at)])
    gap = (values[-1] - values[0]) / (len(values) - 1) if len(values) > 1 else 1.0
    cuts = np.concatenate([[values[0] - gap], (values[1:] + values[:-1]) / 2, [values[-1] + gap]])
    highest = np.flatnonzero(right == right.max())[-1]
    return float(cuts[highest])
