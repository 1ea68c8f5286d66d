"""Optimisers that change only what a step touches."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from ookg.kernels.adam import compact_adam_update
from ookg.training.loop import TrainingRun
from ookg.training.optimizers import OPTIMIZERS, optimizer_for
from ookg.training.reference_step import ReferenceStep, loss_and_gradients
from ookg.training.sampling import Sampler
from ookg.training.settings import PRESETS, TrainingSettings
from ookg.training.tables import Tables
from ookg.training.trainer import Trainer

TRIPLES = torch.tensor([[0, 0, 1], [1, 0, 2], [2, 1, 3], [3, 1, 4], [4, 0, 0], [5, 2, 6]])
SIZES = (60, 3)
SETTINGS = TrainingSettings(dim=4, steps=12, batch=3, negatives=4, margin=3.0, lr=0.01, lr_drops=(0.5,), l2=0.01)
SPARSE = ("sparse-adam", "compact-adam", "adagrad")


def reference(optimizer: str) -> ReferenceStep:
    settings = SETTINGS.changed({"optimizer": optimizer})
    return ReferenceStep(Tables.initial(*SIZES, settings, "cpu"), Sampler(TRIPLES, *SIZES, settings), settings)


@pytest.mark.parametrize("optimizer", SPARSE)
def test_only_touched_rows_change(optimizer: str) -> None:
    step = reference(optimizer)
    batch = step.sampler(0)
    touched = torch.zeros(SIZES[0], dtype=torch.bool)
    touched[batch.triples[:, [0, 2]].flatten()] = True
    touched[batch.negatives[batch.usable]] = True
    before = {name: table.clone() for name, table in step.tables.tensors().items()}
    step(0)
    for name, table in step.tables.tensors().items():
        changed = (table != before[name]).reshape(len(table), -1).any(dim=1)
        if name.startswith("entities"):
            assert torch.equal(changed, touched), name
        else:
            assert changed.nonzero().flatten().tolist() == sorted({*batch.triples[:, 1].tolist()}), name


@pytest.mark.parametrize("optimizer", SPARSE)
def test_the_first_update_by_its_formula(optimizer: str) -> None:
    step = reference(optimizer)
    start = step.tables.entities.clone()
    _, (gradient, _) = loss_and_gradients(start, step.tables.relations.clone(), step.sampler(0), step.settings)
    step(0)
    row = int(step.sampler(0).triples[0, 0])
    if optimizer == "adagrad":
        total = float(gradient[row].square().mean())
        torch.testing.assert_close(step.tables.entity_state[0][row], torch.tensor(total))
        rate = OPTIMIZERS["adagrad"].rate_factor * SETTINGS.lr
        expected = start[row] - rate * gradient[row] / math.sqrt(total)
    elif optimizer == "compact-adam":  # corrected to the gradient and to the mean of its squares
        root = gradient[row].square().mean().sqrt()
        expected = start[row] - step.tables.optimizer.rate(SETTINGS.lr) * gradient[row] / root
    else:  # both moments are corrected to the gradient and to its square
        expected = start[row] - step.tables.optimizer.rate(SETTINGS.lr) * gradient[row].sign()
    torch.testing.assert_close(step.tables.entities[row], expected, rtol=1e-4, atol=1e-5)


def test_a_row_that_rests_keeps_adams_moments() -> None:
    dense, sparse = reference("adam"), reference("sparse-adam")
    for step in (dense, sparse):
        step(0)
    mine, theirs = sparse.tables.entity_state[0].clone(), dense.tables.entity_state[0].clone()
    batch = sparse.sampler(1)
    now = torch.cat([batch.triples[:, [0, 2]].flatten(), batch.negatives[batch.usable]]).tolist()
    resting = [row for row in range(SIZES[0]) if row not in now and bool(mine[row].any())]
    assert resting
    for step in (dense, sparse):
        step(1)
    assert torch.equal(sparse.tables.entity_state[0][resting], mine[resting])
    assert not torch.equal(dense.tables.entity_state[0][resting], theirs[resting])


def test_where_every_row_is_touched_both_adams_agree() -> None:
    triples = torch.tensor([[0, 0, 1], [1, 1, 2], [2, 0, 0]])
    tables = []
    for optimizer in ("adam", "sparse-adam"):
        settings = SETTINGS.changed({"optimizer": optimizer, "negatives": 30})
        step = ReferenceStep(Tables.initial(3, 2, settings, "cpu"), Sampler(triples, 3, 2, settings), settings)
        for number in range(4):
            step(number)
        tables.append(step.tables.tensors())
    for name, table in tables[0].items():
        torch.testing.assert_close(table, tables[1][name], msg=name)


def test_what_is_kept_is_what_the_optimiser_needs() -> None:
    shapes = {
        name: {part: tuple(table.shape) for part, table in reference(name).tables.tensors().items()}
        for name in ("adam", *SPARSE)
    }
    assert shapes["adam"] == shapes["sparse-adam"]
    assert list(shapes["adam"]) == [
        "entities", "relations", "entities_mean", "entities_square", "relations_mean", "relations_square",
    ]  # fmt: skip
    assert shapes["compact-adam"] == {
        "entities": (60, 4), "relations": (3, 4), "entities_mean": (60, 4), "entities_square": (60,),
        "relations_mean": (3, 4), "relations_square": (3,),
    }  # fmt: skip
    first, second = reference("compact-adam").tables.entity_state
    assert (first.dtype, second.dtype) == (torch.bfloat16, torch.float32)
    # A row of four numbers, of 4 bytes; two moments of 4; or one of 2, and 4 bytes for the row.
    assert [OPTIMIZERS[name].row_bytes(4) for name in ("adam", *SPARSE)] == [48, 48, 28, 20]
    assert shapes["adagrad"] == {
        "entities": (60, 4), "relations": (3, 4), "entities_sum": (60,), "relations_sum": (3,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("optimizer", "forgets"), [("adam", True), ("sparse-adam", True), ("compact-adam", True), ("adagrad", False)]
)
def test_adam_starts_afresh_where_the_rate_drops_and_adagrad_does_not(optimizer: str, forgets: bool) -> None:
    step = reference(optimizer)
    step(0)
    step.tables.restart_adam()
    assert bool((step.tables.entity_state[0] == 0).all()) == forgets
    assert step.tables.updates == (0 if forgets else 1)


def trainer(optimizer: str) -> Trainer:
    """On a CPU, where compact-adam is refused: its reference takes the steps."""
    settings = SETTINGS.changed({"optimizer": optimizer})
    if optimizer != "compact-adam":
        return Trainer(TRIPLES, *SIZES, settings)
    made = Trainer(TRIPLES, *SIZES, settings.changed({"optimizer": "sparse-adam"}))
    made.settings, made.tables = settings, Tables.initial(*SIZES, settings, "cpu")
    made.take_step = ReferenceStep(made.tables, made.sampler, settings)
    return made


@pytest.mark.parametrize("optimizer", ["adam", *SPARSE])
def test_a_run_is_resumed_to_the_same_bits(optimizer: str, tmp_path: Path) -> None:
    whole = trainer(optimizer)
    for _ in range(12):
        whole.step()
    fingerprint = whole.settings.to_dict()
    first = TrainingRun(trainer(optimizer), tmp_path / "state", fingerprint=fingerprint)
    for _ in range(5):
        first.trainer.step()
    first.save()
    second = TrainingRun(trainer(optimizer), tmp_path / "state", fingerprint=fingerprint)
    assert second.resume()
    for _ in range(7):
        second.trainer.step()
    for name, table in whole.tables.tensors().items():
        assert torch.equal(second.trainer.tables.tensors()[name], table), name


def test_a_state_is_not_resumed_by_another_optimiser(tmp_path: Path) -> None:
    settings = SETTINGS.changed({"optimizer": "sparse-adam"})
    TrainingRun(Trainer(TRIPLES, *SIZES, settings), tmp_path / "state", fingerprint=settings.to_dict()).save()
    other = SETTINGS.changed({"optimizer": "adam"})
    run = TrainingRun(Trainer(TRIPLES, *SIZES, other), tmp_path / "state", fingerprint=other.to_dict())
    with pytest.raises(ValueError, match="was started with optimizer 'sparse-adam', not 'adam'"):
        run.resume()


def test_the_default_depends_on_the_size_of_the_graph() -> None:
    settings = TrainingSettings()
    assert settings.resolved(70_000).optimizer == "adam"  # more than any published set has
    assert settings.resolved(5_000_000).optimizer == "sparse-adam"
    assert settings.changed({"optimizer": "adagrad"}).resolved(10).optimizer == "adagrad"
    assert all(preset.resolved(10**8).optimizer == "adam" for preset in PRESETS.values())
    assert Trainer(TRIPLES, *SIZES, SETTINGS.changed({"batch": 6, "negatives": 60})).settings.optimizer == "adam"


def test_compact_moments_do_not_stand_still() -> None:
    """Of a gradient that stays, both moments tend to it and its square, however small each change of them is."""
    gradient, row = torch.tensor([[0.02, -0.01]]), torch.zeros(1, 2)
    mean, square = torch.zeros(1, 2, dtype=torch.bfloat16), torch.zeros(1)
    for updates in range(1, 4001):
        compact_adam_update(row, gradient, mean, square, 0.001, updates)
    torch.testing.assert_close(mean.float(), gradient, rtol=0.04, atol=0.0)  # ten roundings of 2⁻⁸ at most
    torch.testing.assert_close(square, torch.tensor([(1 - 0.999**4000) * 0.00025]), rtol=1e-3, atol=0.0)
    expected = -4.0 * gradient / math.sqrt(0.00025)
    torch.testing.assert_close(row, expected, rtol=0.04, atol=0.0)


def test_compact_adam_is_for_a_gpu() -> None:
    with pytest.raises(ValueError, match="optimizer compact-adam is for a GPU; use `optimizer` sparse-adam or adagrad"):
        Trainer(TRIPLES, *SIZES, SETTINGS.changed({"optimizer": "compact-adam"}))


def test_adam_on_touched_rows_makes_up_for_those_that_rest() -> None:
    settings = TrainingSettings(batch=10, negatives=8, optimizer="sparse-adam")  # touches 100 rows
    assert optimizer_for(settings, 10).rate(0.5) == pytest.approx(0.5, rel=1e-3)
    share = 1 - math.exp(-0.5)  # of 200 rows
    assert optimizer_for(settings, 200).rate(0.5) == pytest.approx(0.5 / math.sqrt(share))
    assert optimizer_for(settings, 1_000_000).rate(0.5) == 2.0
    assert optimizer_for(settings.changed({"optimizer": "compact-adam"}), 1_000_000).rate(0.5) == 2.0
    assert optimizer_for(settings.changed({"optimizer": "adam"}), 1_000_000).rate(0.5) == 0.5


def test_settings_stored_before_there_was_a_choice_mean_adam() -> None:
    stored = PRESETS["wn11"].to_dict()
    assert "optimizer" not in stored
    assert "negatives_shared" not in stored
    assert TrainingSettings.from_dict(stored) == PRESETS["wn11"]
    assert TrainingSettings.from_dict(TrainingSettings().to_dict()).optimizer == "auto"
