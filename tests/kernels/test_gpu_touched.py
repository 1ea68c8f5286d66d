"""The GPU's steps on touched rows, with shared negatives and with tables elsewhere, by the interpreter."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from ookg.training.reference_step import ReferenceStep
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Place, Room, Tables

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")

ENTITIES, RELATIONS = 30, 3
OWN: list[dict[str, object]] = [
    {"optimizer": "sparse-adam", "model": "transe", "l2": 1e-3},
    {"optimizer": "adagrad", "model": "transe", "norm": 2},
    {"optimizer": "sparse-adam", "model": "rotate"},
    {"optimizer": "adagrad", "model": "rotate", "norm": 2, "l2": 1e-3, "subsampling": False},
    {"optimizer": "compact-adam", "model": "rotate", "l2": 1e-3},
]
SHARED: list[dict[str, object]] = [
    {"optimizer": "adam", "model": "transe", "negatives_shared": 3, "l2": 1e-3},  # the last set is not full
    {"optimizer": "sparse-adam", "model": "transe", "norm": 2, "negatives_shared": 4},
    {"optimizer": "adagrad", "model": "rotate", "negatives_shared": 2},
    {"optimizer": "sparse-adam", "model": "rotate", "norm": 2, "negatives_shared": 100, "l2": 1e-3},  # one set
    {"optimizer": "sparse-adam", "model": "transe", "negatives_shared": 1},  # some negatives serve nobody
    {"optimizer": "compact-adam", "model": "transe", "negatives_shared": 2},
]

ELSEWHERE: dict[Place, list[dict[str, object]]] = {
    "host": [OWN[0], OWN[3], SHARED[1], SHARED[2]],
    "disk": [OWN[4], SHARED[2]],
}


def test_steps_on_touched_rows_equal_the_reference(interpreted: Callable[[str], str]) -> None:
    printed = interpreted(__file__)
    assert f"own negatives: {len(OWN)} cases equal" in printed
    assert f"shared negatives: {len(SHARED)} cases equal" in printed
    assert all(f"{place}: {len(cases)} cases equal" in printed for place, cases in ELSEWHERE.items())


def graph() -> torch.Tensor:
    """Triples that let steps touch rows twice and leave some out; for one head every other tail is true."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.stack([torch.randint(0, n, (14,), generator=generator) for n in (4, RELATIONS, 7)], dim=1)
    return torch.tensor(sorted({tuple(row) for row in [*rows.tolist(), *([0, 0, t] for t in range(15))]}))


def compare(values: dict[str, object], place: Place = "device") -> None:
    from ookg.training.gpu_shared_step import SharedTritonStep
    from ookg.training.gpu_step import CapturedStep, TritonStep

    shape = {"dim": 3, "batch": 4, "negatives": 2, "margin": 3.0, "lr": 0.02, "steps": 3, "lr_drops": (0.6,)}
    settings = TrainingSettings().changed(shape | values)
    tables = Tables.initial(ENTITIES, RELATIONS, settings, "cpu", Room(place))
    other, sampler = copy.deepcopy(tables), Sampler(graph(), ENTITIES, RELATIONS, settings)
    make: type[CapturedStep] = SharedTritonStep if settings.negatives_shared else TritonStep
    fast, slow = make(tables, sampler, settings), ReferenceStep(other, sampler, settings)
    untouched = unusable = 0
    for number in range(settings.steps):
        if number in settings.drop_steps:
            tables.restart_adam()
            other.restart_adam()
            fast.tables_changed()
        before, mine_before = other.entities.clone(), tables.entities.clone()
        unusable += int((~sampler(number).usable).sum())
        losses = fast(number).clone(), slow(number)
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)
        still = (other.entities == before).all(dim=1)
        assert torch.equal(tables.entities[still], mine_before[still]), "a row moved that no place names"
        untouched += int(still.sum())
        for name, value in tables.tensors().items():
            rounding = 1e-2 if value.dtype == torch.bfloat16 else 2e-3
            torch.testing.assert_close(value, other.tensors()[name], rtol=rounding, atol=2e-4)
        if place == "device":  # from the same state, so that differences do not add up
            for name, value in tables.tensors().items():
                value.copy_(other.tensors()[name])
    assert untouched or not tables.optimizer.is_sparse
    assert unusable or not settings.negatives_shared


if __name__ == "__main__":
    for case in OWN:
        compare(case)
    print(f"own negatives: {len(OWN)} cases equal")
    for case in SHARED:
        compare(case)
    print(f"shared negatives: {len(SHARED)} cases equal")
    for elsewhere, cases in ELSEWHERE.items():
        for case in cases:
            compare(case, elsewhere)
        print(f"{elsewhere}: {len(cases)} cases equal")
