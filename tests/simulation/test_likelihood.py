"""How likely answers are right: fitted where the truth is known, stored, and refused where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ookg.errors import InputError
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.likelihood import (
    DEFAULT_LIKELIHOOD,
    FEATURES,
    AnswerOutcomes,
    AskedAbout,
    Likelihood,
    Standings,
    answer_features,
)

ABOUT = AskedAbout(fit=0.5, stated=1, several=2.0, triples=3)


def outcomes(seed: int, size: int = 4000) -> AnswerOutcomes:
    """Answers that are right as often as the half of a share of their standing says, which no logistic curve is."""
    random = np.random.default_rng(seed)
    standing = random.uniform(-2, 6, size)
    features = np.concatenate([answer_features(np.array([one]), ABOUT) for one in standing])
    right = random.random(size) < np.clip(standing / 10, 0, 1)
    return AnswerOutcomes(random.integers(0, 200, size), features, right)


def test_features_by_hand() -> None:
    features = dict(zip(FEATURES, answer_features(np.array([3.0, 2.5, 0.5]), ABOUT).T.tolist(), strict=True))
    assert features["standing"] == [3.0, 2.5, 0.5]
    assert features["behind"] == [0, 0.5, 2.5]
    assert features["ahead"] == [0.5, 2.0, 0]
    np.testing.assert_allclose(features["place"], np.log([1, 2, 3]))
    np.testing.assert_allclose(features["fit"], [np.log(0.5)] * 3)
    assert features["share * standing"] == [1.5, 1.25, 0.25]
    np.testing.assert_allclose(features["more"], [np.log(2)] * 3)
    assert answer_features(np.array([]), ABOUT).shape == (0, len(FEATURES))


def test_standings() -> None:
    above = Standings.of_known(np.array([1.0, 3.0, 5.0, 7.0], dtype=np.float32))
    np.testing.assert_allclose(above.of(np.array([4.0, 4 + 5**0.5], dtype=np.float32)), [0, 1], atol=1e-6)
    assert Standings.of_known(np.zeros(3, dtype=np.float32)).of(np.ones(1, dtype=np.float32)) == [1]


def test_probabilities_come_true_on_others() -> None:
    fitted = Likelihood.fit(outcomes(0), models=1, seed=0)
    assert fitted is not None
    assert fitted.error < 0.04
    others = outcomes(1, 20_000)
    probability = fitted.of(others.features)
    for low in (0.1, 0.2, 0.3, 0.4):
        part = (probability >= low) & (probability < low + 0.1)
        assert part.sum() > 500
        assert others.right[part].mean() == pytest.approx(probability[part].mean(), abs=0.05)
    order = np.argsort(others.features[:, FEATURES.index("standing")])
    assert probability[order][-1] > probability[order][0]
    assert all(one[1] <= other[1] for one, other in zip(fitted.levels, fitted.levels[1:], strict=False))


def test_too_few_right_answers_are_nothing_to_fit_to() -> None:
    some = outcomes(0)
    assert Likelihood.fit(replace(some, right=np.zeros_like(some.right)), 1, 0) is None
    nothing = AnswerOutcomes(np.empty(0, np.int64), np.empty((0, len(FEATURES))), np.empty(0, np.bool_))
    assert Likelihood.fit(nothing, 1, 0) is None


def test_it_is_stored_with_the_choice() -> None:
    fitted = Likelihood.fit(outcomes(0), models=2, seed=0)
    assert fitted is not None
    choice = NewcomerChoice(likelihood={"known": fitted, "chosen": DEFAULT_LIKELIHOOD})
    assert NewcomerChoice.from_dict(choice.to_dict()) == choice
    assert NewcomerChoice.from_dict({}).likelihood == {}


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {}},
        {"weights": dict.fromkeys(FEATURES, float("nan"))},
        {"levels": [[0.5, 2.0]]},
        {"levels": [[0.5, 0.5], [0.6, 0.4]]},
        {"levels": [1]},
        {"models": "x"},
        {"bins": [{"answers": 1}]},
    ],
)
def test_damaged_numbers_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="calibrate the model again"):
        Likelihood.from_dict(DEFAULT_LIKELIHOOD.to_dict() | change)
