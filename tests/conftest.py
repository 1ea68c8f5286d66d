from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from ookg.model import Model
from ookg.training.settings import TrainingSettings
from ookg.triples import Triples, as_triples

torch.set_num_threads(1)  # small tensors; two threads that wait for each other are slower

SMALL = TrainingSettings(dim=8, steps=30, batch=16, negatives=4, margin=4.0, lr=0.05)


def random_triples(seed: int, entities: int = 20, relations: int = 4, size: int = 60) -> Triples:
    rng = np.random.default_rng(seed)
    rows = {
        (f"e{h}", f"r{r}", f"e{t}")
        for h, r, t in zip(
            rng.integers(0, entities, size),
            rng.integers(0, relations, size),
            rng.integers(0, entities, size),
            strict=True,
        )
    }
    return as_triples(sorted(rows))


@pytest.fixture(scope="session")
def graph() -> Triples:
    return random_triples(0)


@pytest.fixture(scope="session", params=["transe", "rotate"])
def model(request: pytest.FixtureRequest, graph: Triples) -> Model:
    return ookg.train(graph, SMALL.changed({"model": request.param}), device="cpu")


@pytest.fixture(scope="session")
def published() -> Path:
    folder = os.environ.get("OOKG_DATA")
    if not folder:
        pytest.skip("OOKG_DATA is not set: no published data sets")
    return Path(folder)
