"""The compiled step against its specification, `ReferenceStep`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.kernels import threads
from ookg.training.reference_step import ReferenceStep, loss_and_gradients
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables

numba = pytest.importorskip("numba")

from ookg.kernels import cpu_batches, cpu_equations, cpu_order  # noqa: E402
from ookg.kernels.cpu_compile import ABSOLUTE, EUCLIDEAN, exponential, log_one_plus  # noqa: E402
from ookg.training.cpu_step import NumbaStep  # noqa: E402

ENTITIES, RELATIONS = 40, 5
GEOMETRIES = [("transe", 1), ("transe", 2), ("rotate", 1), ("rotate", 2)]
SETTINGS = TrainingSettings(dim=21, batch=24, negatives=9, margin=3.0, lr=0.01, lr_drops=(), seed=3)


def settings_of(model: str, norm: int, **changes: Any) -> TrainingSettings:
    return replace(SETTINGS, model=model, norm=norm, **changes)


def random_triples(seed: int, size: int = 150) -> Tensor:
    rng = np.random.default_rng(seed)
    # Squared: some entities are much more common than others.
    ends = (rng.random((size, 2)) ** 2 * ENTITIES).astype(np.int64)
    triples = np.stack([ends[:, 0], rng.integers(0, RELATIONS, size), ends[:, 1]], axis=1)
    return torch.from_numpy(np.unique(triples, axis=0))


def numba_step(triples: Tensor, settings: TrainingSettings, untrained: int = 0) -> NumbaStep:
    sampler = Sampler(triples, ENTITIES + untrained, RELATIONS, settings)
    return NumbaStep(Tables.initial(ENTITIES + untrained, RELATIONS, settings, "cpu"), sampler, settings)


def reference_step(triples: Tensor, settings: TrainingSettings) -> ReferenceStep:
    sampler = Sampler(triples, ENTITIES, RELATIONS, settings)
    return ReferenceStep(Tables.initial(ENTITIES, RELATIONS, settings, "cpu"), sampler, settings)


def check_step(step: NumbaStep, number: int) -> None:
    """The loss and the gradients of a first step equal the reference's, computed in float64."""
    tables, settings = step.tables, step.settings
    batch = step.sampler(number)
    expected_loss, expected = loss_and_gradients(tables.entities.double(), tables.relations.double(), batch, settings)
    loss = step(number)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected_loss, rtol=2e-5, atol=1e-6)
    # Adam's first mean is (1 - β₁) times the gradient, its first square (1 - β₂) times the gradient's.
    for (mean, square), gradient in zip((tables.entity_state, tables.relation_state), expected, strict=True):
        scale = float(gradient.abs().max())
        torch.testing.assert_close(mean.double() / 0.1, gradient, rtol=1e-3, atol=1e-5 * scale)
        torch.testing.assert_close(square.double() / 0.001, gradient**2, rtol=1e-3, atol=1e-5 * scale**2)


@pytest.mark.parametrize("number", [0, 1, 6, 7, 40, 41])
@pytest.mark.parametrize("untrained", [0, 13])
def test_negatives_are_the_samplers(number: int, untrained: int) -> None:
    step = numba_step(random_triples(0), settings_of("transe", 1), untrained)
    batch = step.sampler(number)
    ids, usable = step.negatives(number, batch.triples)
    np.testing.assert_array_equal(ids, batch.negatives.numpy())
    np.testing.assert_array_equal(usable, batch.usable.numpy())


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
@pytest.mark.parametrize("changes", [{}, {"subsampling": False, "l2": 0.01}, {"temperature": 0.0, "negatives": 1}])
def test_loss_and_gradients(model: str, norm: int, number: int, changes: dict[str, Any]) -> None:
    check_step(numba_step(random_triples(1), settings_of(model, norm, **changes)), number)


@pytest.mark.parametrize("dim", [1, 8, 64, 100])
@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_any_width(model: str, norm: int, dim: int) -> None:
    check_step(numba_step(random_triples(2), settings_of(model, norm, dim=dim)), 0)


@pytest.mark.parametrize("number", [0, 1])
def test_untrained_rows(number: int) -> None:
    check_step(numba_step(random_triples(1), settings_of("transe", 1, l2=0.1), untrained=30), number)


@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_several_steps_stay_close(model: str, norm: int) -> None:
    triples, settings = random_triples(4), settings_of(model, norm, l2=1e-3, steps=12, lr_drops=(0.5,))
    fast, slow = numba_step(triples, settings), reference_step(triples, settings)
    for number in range(12):
        torch.testing.assert_close(fast(number), slow(number), rtol=1e-4, atol=1e-5)
    assert fast.tables.updates == slow.tables.updates == 12
    for name, table in slow.tables.tensors().items():
        # Where a gradient is all but 0, its sign (all that Adam's first steps see) is rounding.
        wrong = (fast.tables.tensors()[name] - table).abs() > 1e-4 + 1e-3 * table.abs()
        assert float(wrong.float().mean()) < 0.01, name


@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_row_without_usable_negative(model: str, norm: int) -> None:
    everything = torch.cartesian_prod(torch.tensor([0, 1]), torch.tensor([0]), torch.arange(ENTITIES))
    triples = torch.cat([everything, torch.tensor([[3, 1, 4], [5, 2, 6]])])
    step = numba_step(triples, settings_of(model, norm, batch=len(triples)))
    usable = step.sampler(0).usable
    assert not usable.any(dim=1).all()
    assert usable.any()
    check_step(step, 0)


def test_batch_larger_than_the_graph() -> None:
    triples = random_triples(5, size=7)
    step = numba_step(triples, settings_of("transe", 1, batch=1000))
    assert step.sampler.batch == len(triples)
    check_step(step, 0)
    step(1)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_gaps_of_zero(model: str, norm: int, number: int) -> None:
    """Where point and vector meet, the gradient is 0, not NaN and not ±1."""
    step = numba_step(random_triples(6), settings_of(model, norm))
    step.tables.entities[:20] = step.tables.entities[0].clone()
    step.tables.entities[:, :4] = 0.0
    step.tables.relations[:3] = 0.0
    check_step(step, number)


def test_large_distances_are_finite() -> None:
    step = numba_step(random_triples(6), settings_of("transe", 1, temperature=5.0))
    step.tables.entities.mul_(1e4)
    assert torch.isfinite(step(0))
    assert all(torch.isfinite(table).all() for table in step.tables.tensors().values())


@pytest.mark.parametrize("changes", [{}, {"optimizer": "sparse-adam"}, {"optimizer": "adagrad", "negatives_shared": 4}])
@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_same_bits_with_any_number_of_threads(
    model: str, norm: int, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    triples, settings = random_triples(7), settings_of(model, norm, l2=1e-3, **changes)
    monkeypatch.setattr(threads, "NUMBERS_A_THREAD", 1)  # helpers for the smallest piece of work
    runs = []
    for number in (1, 2, 2, 5):
        monkeypatch.setattr(threads._State, "threads", number)
        step = numba_step(triples, settings)
        losses = [step(number) for number in range(4)]
        runs.append([torch.stack(losses), *step.tables.tensors().values()])
    for run in runs[1:]:
        for got, expected in zip(run, runs[0], strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize("optimizer", ["sparse-adam", "adagrad"])
@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_same_bits_where_most_entities_stand_alone(
    model: str, norm: int, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entities, settings = 900, settings_of(model, norm, l2=1e-3, optimizer=optimizer)
    triples = random_triples(7)
    triples[:, [0, 2]] *= 22
    monkeypatch.setattr(threads, "NUMBERS_A_THREAD", 1)
    runs = []
    for number in (1, 2, 5):
        monkeypatch.setattr(threads._State, "threads", number)
        tables = Tables.initial(entities, RELATIONS, settings, "cpu")
        step = NumbaStep(tables, Sampler(triples, entities, RELATIONS, settings), settings)
        losses = [step(number) for number in range(6)]
        runs.append([torch.stack(losses), *tables.tensors().values()])
        assert not step._more[1].any()  # the marks, clean for the next step
    for run in runs[1:]:
        for got, expected in zip(run, runs[0], strict=True):
            assert torch.equal(got, expected)


def test_who_stands_alone() -> None:
    """One of a single pair that is no known end; ids that share a mark with another may count as not alone."""
    random, batch, negatives = np.random.default_rng(2), 200, 20
    ids = random.integers(0, 1_000_000, (batch, negatives)).astype(np.int32)
    usable = random.random(ids.shape) < 0.9
    answers, known = random.integers(0, 1_000_000, (2, batch))
    known[:20], answers[20:40] = ids[:20, 0], ids[20:40, 1]
    marks = cpu_order.marks_for(batch * (negatives + 2))
    for part in range(cpu_order.MARK_PARTS):
        cpu_order.mark_part(part, ids, usable, (answers, known), marks)
    touched, counts = np.unique(np.concatenate([ids[usable], answers, known, known]), return_counts=True)
    alone = np.array([cpu_order.is_alone(marks, entity) for entity in touched])
    assert not alone[counts > 1].any()
    assert 0.9 < alone[counts == 1].mean() < 1  # a million ids share 131,072 marks
    assert not any(cpu_order.is_alone(cpu_order.no_marks(), entity) for entity in touched[:100])


def test_exponentials_and_logarithms_for_loops() -> None:
    numbers = -np.geomspace(1e-8, 87, 2000).astype(np.float32)
    got = np.array([exponential(number) for number in (*numbers, np.float32(0), np.float32(-1e9))], dtype=np.float32)
    np.testing.assert_allclose(got[:-1], np.exp(np.append(numbers, 0.0), dtype=np.float64), rtol=3e-7)
    assert 0 < got[-1] < 1e-37
    small = np.linspace(0, 1, 2000, dtype=np.float32)
    got = np.array([log_one_plus(number) for number in small], dtype=np.float32)
    np.testing.assert_allclose(got, np.log1p(small.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize("kind", [ABSOLUTE, EUCLIDEAN])
@pytest.mark.parametrize("share_usable", [0.0, 0.8])
def test_the_fast_loss_is_the_loss(kind: int, share_usable: float) -> None:
    random, negatives = np.random.default_rng(4), 37
    for spread in (1.0, 30.0, 1e5):
        usable = random.random(negatives) < share_usable
        gaps = (random.random(negatives + 1) * spread).astype(np.float32)
        gaps[:-1] *= usable
        share, settings = np.float32(0.01), (9.0, 0.7)
        slopes, expected = np.empty_like(gaps), np.empty_like(gaps)
        room = np.empty(negatives, dtype=np.float32)
        loss = cpu_equations.fast_row_loss(gaps, usable, share, settings, kind, slopes, room)
        assert loss == pytest.approx(cpu_equations.row_loss(gaps, usable, share, settings, kind, expected), rel=2e-6)
        np.testing.assert_allclose(slopes, expected, rtol=2e-5, atol=1e-20)


def test_batches_are_gathered() -> None:
    random = np.random.default_rng(3)
    triples, weights = random.integers(0, 50, (70, 3)), random.random(70, dtype=np.float32)
    for size in (1, 16, 40):
        rows = random.integers(0, 70, size)
        ids, weight = np.empty((3, size), dtype=np.int64), np.empty(size, dtype=np.float32)
        cpu_batches.gather_batch(rows, triples, weights, (ids[0], ids[1], ids[2], weight))
        np.testing.assert_array_equal(ids.T, triples[rows])
        np.testing.assert_array_equal(weight, weights[rows])


SPARSE = [("sparse-adam", 0), ("adagrad", 0), ("sparse-adam", 7), ("adam", 7)]


@pytest.mark.parametrize(("optimizer", "shared"), SPARSE)
@pytest.mark.parametrize(("model", "norm"), GEOMETRIES)
def test_optimisers_and_shared_negatives(model: str, norm: int, optimizer: str, shared: int) -> None:
    """Ids of more than 16 bits, whose sort takes two passes; most rows are not touched at all."""
    entities, relations = 70_000, 9
    changes = {"optimizer": optimizer, "negatives_shared": shared, "l2": 1e-3, "dim": 6, "lr": 1e-4}
    settings, triples = settings_of(model, norm, **changes), random_triples(9)
    triples[:, [0, 2]] = triples[:, [0, 2]] * 1_749 + 3
    sampler = Sampler(triples, entities, relations, settings)
    initial, got, expected = (Tables.initial(entities, relations, settings, "cpu") for _ in range(3))
    fast, slow = NumbaStep(got, sampler, settings), ReferenceStep(expected, sampler, settings)
    for number in range(8):
        batch = sampler(number)
        ids, usable = fast.negatives(number, batch.triples)
        np.testing.assert_array_equal(ids, batch.negatives.numpy())
        np.testing.assert_array_equal(usable, batch.usable.numpy())
        torch.testing.assert_close(fast(number), slow(number), rtol=1e-4, atol=1e-5)
    moved = (got.entities != initial.entities).any(dim=1)
    assert bool(moved.all()) == (optimizer == "adam")
    assert torch.equal(moved, (expected.entities != initial.entities).any(dim=1))
    for name, table in expected.tensors().items():
        wrong = (got.tensors()[name] - table).abs() > 1e-4 + 1e-3 * table.abs()
        assert float((wrong[moved] if name.startswith("entities") else wrong).float().mean()) < 0.01, name


@pytest.mark.parametrize("optimizer", ["sparse-adam", "adagrad"])
@pytest.mark.parametrize("number", [0, 1])
def test_the_first_step_of_sparse_optimisers(optimizer: str, number: int) -> None:
    step = numba_step(random_triples(3), settings_of("transe", 2, optimizer=optimizer, l2=0.01))
    other = reference_step(random_triples(3), step.settings)
    torch.testing.assert_close(step(number), other(number), rtol=1e-5, atol=1e-6)
    for name, table in other.tables.tensors().items():
        torch.testing.assert_close(step.tables.tensors()[name], table, rtol=1e-3, atol=1e-5, msg=name)


def test_prepare_leaves_the_tables_alone() -> None:
    step = numba_step(random_triples(8), SETTINGS)
    before = {name: table.clone() for name, table in step.tables.tensors().items()}
    assert step.prepare() > 0
    assert step.prepare() < 5
    assert step.tables.updates == 0
    for name, table in step.tables.tensors().items():
        assert torch.equal(table, before[name])


@pytest.mark.parametrize("model", ["transh", "transr"])
def test_what_has_no_kernel_is_refused(model: str) -> None:
    with pytest.raises(ValueError, match=f"{model} has no kernel"):
        numba_step(random_triples(0), settings_of(model, 1))
