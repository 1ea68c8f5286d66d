"""A graph that vectors can learn, and settings that learn it fast."""

from __future__ import annotations

import numpy as np

from ookg.graph.triples import Triples, as_triples
from ookg.training.settings import TrainingSettings

SMALL = TrainingSettings(dim=8, steps=200, batch=32, negatives=8, margin=4.0, lr=0.02, optimizer="adam")


def graph(entities: int = 60, size: int = 900) -> Triples:
    """Two relations that are shifts around a circle, which vectors can learn."""
    random = np.random.default_rng(0)
    rows = [(int(head), int(relation)) for head, relation in random.integers(0, (entities, 5), (size, 2))]
    return as_triples([(f"e{h}", f"r{r}", f"e{(h + r + 1) % entities}") for h, r in dict.fromkeys(rows)])
