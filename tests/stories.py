"""Triples about newcomers to the graph of `conftest`."""

from __future__ import annotations

import numpy as np

Row = tuple[str, str, str]


def stories(seed: int, size: int = 24) -> list[Row]:
    """Triples of some newcomers, with each other too, over a new relation too, and facts about known entities."""
    random = np.random.default_rng(seed)
    names = [f"e{number}" for number in range(20)] + [f"n{number}" for number in range(6)]
    found = {
        (names[random.integers(len(names))], f"r{random.choice([0, 1, 2, 3, 9])}", names[random.integers(len(names))])
        for _ in range(size)
    }
    return sorted(found)
