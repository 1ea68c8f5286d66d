"""The same input gives the same bits, wherever arrays lie and however many threads work."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

import repeatability
from ookg.kernels import cpu_equations
from ookg.kernels.cpu_compile import ABSOLUTE, EUCLIDEAN, MODULI
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer

FAST = [name for name, way in repeatability.WAYS.items() if not way.is_slow]


@pytest.mark.parametrize("kind", [ABSOLUTE, EUCLIDEAN, MODULI])
def test_losses_do_not_depend_on_where_the_arrays_lie(kind: int) -> None:
    random, batch, negatives = np.random.default_rng(0), 64, 16
    gaps = torch.from_numpy(random.random(batch * (negatives + 1), dtype=np.float32) * 8).numpy()
    usable, share = random.random((batch, negatives)) < 0.9, random.random(batch, dtype=np.float32) / batch
    results = []
    for _ in range(100):
        slopes = np.zeros_like(gaps)
        places, _ = repeatability.moved((gaps, usable, share, slopes), random)
        losses = [
            float(cpu_equations.row_loss(*row[:3], (4.0, 1.0), kind, row[3]))
            for row in zip(
                places[0].reshape(batch, -1), places[1], places[2], places[3].reshape(batch, -1), strict=True
            )
        ]
        results.append((tuple(losses), places[3].tobytes()))
    assert len(set(results)) == 1


def test_trainings_of_one_seed_are_equal_wherever_memory_is_given_to_them() -> None:
    random = np.random.default_rng(0)
    triples = torch.from_numpy(np.unique(random.integers(0, [48, 5, 48], (300, 3)), axis=0))
    settings = TrainingSettings(dim=12, steps=20, batch=64, negatives=16, margin=4.0)
    kept: list[object] = []
    found = set()
    for _ in range(60):
        kept += [torch.empty(int(random.integers(1, 3000))), np.empty(int(random.integers(1, 3000)))]
        trainer = Trainer(triples, 48, 5, settings)
        for _ in range(settings.steps):
            trainer.step()
        found.add(trainer.entity_vectors.numpy().tobytes())
    assert len(found) == 1


def test_moving_changes_places_and_nothing_else() -> None:
    random, first, second = np.random.default_rng(1), np.arange(6.0).reshape(2, 3), np.arange(5)
    apart = set()
    for _ in range(40):
        places, pairs = repeatability.moved((first, (second, 7)), random)
        assert (places[0] == first).all()
        assert (places[1][0] == second).all()
        assert places[1][1] == 7
        assert len(pairs) == 2
        start, end = places[0].__array_interface__["data"][0], places[1][0].__array_interface__["data"][0]
        assert places[0] is not first
        apart.add(end - start)
    assert first.nbytes in apart  # one directly behind the other
    assert -second.nbytes in apart  # and the other way round
    assert len(apart) > 4


@pytest.mark.parametrize("name", FAST)
def test_every_path_gives_the_same_bits(name: str) -> None:
    digests = repeatability.digests_here([name], 4, seed=5)[name]
    assert len(digests) == 5
    assert len(set(digests)) == 1


def test_another_process_gives_the_same_bits() -> None:
    names = ["training, transe L1", "training, rotate L1", "training, transh L1", "refinement, rotate L1", "the judge"]
    here = {name: repeatability.digest(repeatability.WAYS[name].run()) for name in names}
    there = repeatability.digests_elsewhere(names, 1)
    assert {name: set(digests) for name, digests in there.items()} == {name: {one} for name, one in here.items()}
