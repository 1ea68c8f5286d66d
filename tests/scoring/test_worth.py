"""What thresholds are worth on claims that they were not fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from ookg.scoring.thresholds import Worth, checked_thresholds, crossed


def test_worth_by_hand() -> None:
    margins = np.array([1.0, 1.0, -1.0, 1.0, -1.0, -1.0])
    truth = np.array([True, True, True, False, False, False])
    worth = Worth.of(margins, truth)
    assert worth.accuracy == pytest.approx(2 / 3)
    # Two of three with a margin of 1 are true: the likeliest slope gives them log-odds of log 2.
    assert worth.slope == pytest.approx(np.log(2))
    assert worth.probability(np.array([1.0, 0.0, -1.0])) == pytest.approx([2 / 3, 1 / 2, 1 / 3])
    assert worth.tells
    assert np.isnan(worth.probability(np.array([np.nan])))[0]


def test_guessing_is_called_guessing() -> None:
    worth = Worth.of(np.array([1.0, -1.0, 1.0, -1.0]), np.array([True, True, False, False]))
    assert (worth.accuracy, worth.tells) == (0.5, False)
    assert worth.probability(np.array([3.0])) == pytest.approx([0.5])
    assert Worth.of(np.zeros(2), np.array([True, False])).slope == 0


def test_thresholds_are_checked_on_the_half_that_they_were_not_fitted_to() -> None:
    random = np.random.default_rng(0)
    relations, truth = random.integers(0, 3, 400), random.random(400) < 0.5
    told = random.normal(size=400) + 3.0 * truth + 1.0 * relations
    fitted, worth = checked_thresholds(told, relations, truth, 3)
    assert worth is not None
    assert 0.88 < worth.accuracy < 0.97
    assert np.diff(fitted.by_relation) == pytest.approx([1, 1], abs=0.6)
    # In-sample, thresholds of noise look better than guessing; checked, they do not.
    _, noise = checked_thresholds(random.normal(size=400), relations, truth, 3)
    assert noise is not None
    assert not noise.tells


def test_one_kind_of_claims_says_nothing() -> None:
    assert crossed(np.ones(10, dtype=np.bool_), lambda _, others: np.zeros(len(others))) is None
    assert checked_thresholds(np.arange(3.0), np.zeros(3, np.int64), np.ones(3, np.bool_), 1)[1] is None
