from __future__ import annotations

import numpy as np
import pytest

from ookg.scoring.nearest import best_places


@pytest.mark.parametrize("seed", range(20))
def test_the_best_are_those_of_a_stable_sort(seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(-3, 3, 50).astype(np.float32)  # many are equal
    scores[random.random(50) < 0.3] = -np.inf
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    for most in (1, 2, 5, 20, 49, 50, 80):
        assert best_places(scores, most).tolist() == order[:most].tolist()


def test_nothing_is_best_where_nothing_has_a_score() -> None:
    assert best_places(np.full(4, -np.inf, dtype=np.float32), 2).tolist() == []
    assert best_places(np.empty(0, dtype=np.float32), 2).tolist() == []
