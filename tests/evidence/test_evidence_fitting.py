"""Weights that were planted are found again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ookg.evidence.fitting import fit_logistic, fit_ranking
from ookg.types import BoolArray, FloatArray

PLANTED = (1.5, -0.7, 0.0)


def ranking_problem(queries: int = 3000, entities: int = 12) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Features, and answers drawn by the softmax of their planted weighted sum."""
    generator = torch.Generator().manual_seed(0)
    features = [torch.randn(queries, entities, generator=generator) for _ in PLANTED]
    total = sum((w * feature for w, feature in zip(PLANTED, features, strict=True)), start=torch.zeros(()))
    return features, torch.multinomial(total.softmax(dim=1), 1, generator=generator)[:, 0]


def test_ranking_weights_are_recovered() -> None:
    features, answers = ranking_problem()
    nobody = torch.zeros(features[0].shape, dtype=torch.bool)
    found = fit_ranking(features, answers, nobody)
    np.testing.assert_allclose(found, PLANTED, atol=0.1)
    held = fit_ranking(features, answers, nobody, l2=1e3)
    assert np.abs(held).max() < 1e-2


def test_other_true_answers_are_no_rivals() -> None:
    features, answers = ranking_problem(queries=500)
    left_out = torch.rand(features[0].shape, generator=torch.Generator().manual_seed(1)) < 0.3
    left_out[torch.arange(len(answers)), answers] = False
    found = fit_ranking(features, answers, left_out)
    changed = [feature.masked_fill(left_out, 50.0) for feature in features]
    np.testing.assert_allclose(fit_ranking(changed, answers, left_out), found, atol=1e-3)
    with_rivals = fit_ranking(changed, answers, torch.zeros_like(left_out))
    assert np.abs(with_rivals - found).max() > 0.3


def logistic_problem(size: int = 20_000) -> tuple[FloatArray, BoolArray]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(size, len(PLANTED)))
    return features, rng.random(size) < 1 / (1 + np.exp(-features @ PLANTED))


def test_logistic_weights_are_recovered() -> None:
    features, truth = logistic_problem()
    np.testing.assert_allclose(fit_logistic(features, truth, 0.0), PLANTED, atol=0.08)


@pytest.mark.parametrize("l2", [0.0, 0.05, np.array([0.0, 0.3, 0.01])])
def test_logistic_regression_is_at_its_minimum(l2: float | FloatArray) -> None:
    features, truth = logistic_problem(500)
    found = fit_logistic(features, truth, l2)
    chance = 1 / (1 + np.exp(-features @ found))
    slope = features.T @ (chance - truth) / len(truth) + 2 * np.asarray(l2) * found
    np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_a_penalty_holds_the_weight_that_it_is_for() -> None:
    features, truth = logistic_problem(1000)
    free, held = (fit_logistic(features, truth, np.array([l2, 0.0, 0.0])) for l2 in (0.0, 100.0))
    assert abs(held[0]) < 0.01 < abs(free[0])
    assert abs(held[1]) > 0.3
