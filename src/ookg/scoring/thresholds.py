"""Score thresholds that separate true from false, one per relation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ookg.types import BoolArray, FloatArray, IntArray


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
        """The threshold of each claim's relation; -1 is a relation without one."""
        covered = np.append(self.by_relation, np.nan)[relations]
        return np.where(np.isnan(covered), self.overall, covered)


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
