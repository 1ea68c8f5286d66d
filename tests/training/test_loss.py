"""The loss and its gradient against an independent computation in float64, written with loops and without autograd."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

import pytest
import torch

from ookg.kernels.adam import adam_update
from ookg.training.reference_step import loss_and_gradients
from ookg.training.sampling import Batch, Sampler
from ookg.training.settings import PRESETS, TrainingSettings


def slow_distance(settings: TrainingSettings, head: list[float], relation: list[float], tail: list[float]) -> float:
    """D from the paper's formula, coordinate by coordinate; `relation` are the trained parameters."""
    if settings.model == "transe":
        differences = [abs(h + r - t) for h, r, t in zip(head, relation, tail, strict=True)]
    else:
        d = settings.dim
        scale = math.pi / ((settings.margin + 2) / d)
        differences = [
            abs(complex(head[i], head[d + i]) * cmath.exp(1j * relation[i] * scale) - complex(tail[i], tail[d + i]))
            for i in range(d)
        ]
    return sum(differences) if settings.norm == 1 else math.sqrt(sum(x * x for x in differences))


def slow_loss(
    settings: TrainingSettings, entities: list[list[float]], relations: list[list[float]], batch: Batch
) -> tuple[float, Callable[[list[list[float]]], float]]:
    """The loss, and the loss as a function of the entities with the softmax weights held fixed."""

    def log_sigmoid(x: float) -> float:
        return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))

    def distances(table: list[list[float]], row: int) -> tuple[float, list[float]]:
        h, r, t = batch.triples[row].tolist()
        true = slow_distance(settings, table[h], relations[r], table[t])
        false = []
        for e in batch.negatives[row].tolist():
            ends = (table[e], table[t]) if batch.corrupts_head else (table[h], table[e])
            false.append(slow_distance(settings, ends[0], relations[r], ends[1]))
        return true, false

    fixed = []
    for row in range(len(batch.triples)):
        usable = batch.usable[row].tolist()
        powers = [
            math.exp(-settings.temperature * d) * u for d, u in zip(distances(entities, row)[1], usable, strict=True)
        ]
        fixed.append([p / sum(powers) for p in powers] if sum(powers) else [0.0] * len(powers))

    def loss(table: list[list[float]]) -> float:
        weights, total = batch.weight.tolist(), 0.0
        for row, weight in enumerate(weights):
            true, false = distances(table, row)
            total -= weight * log_sigmoid(settings.margin - true)
            total -= weight * sum(p * log_sigmoid(d - settings.margin) for p, d in zip(fixed[row], false, strict=True))
        penalty = sum(x * x for row in table for x in row) + sum(x * x for row in relations for x in row)
        return float(total / sum(weights) / 2 + settings.l2 * penalty)

    return loss(entities), loss


@pytest.mark.parametrize("preset", ["fb15k", "wn11"])
@pytest.mark.parametrize("model", ["transe", "rotate"])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("step", [0, 1])
def test_loss_and_gradient_at_the_papers_settings(preset: str, model: str, norm: int, step: int) -> None:
    # The paper's margin, temperature, weights and L2, on a small graph and few coordinates.
    settings = PRESETS[preset].changed({"model": model, "norm": norm, "dim": 5, "batch": 6, "negatives": 4})
    generator = torch.Generator().manual_seed(step)
    rows = torch.stack([torch.randint(0, n, (14,), generator=generator) for n in (9, 3, 9)], dim=1)
    triples = torch.tensor(sorted({tuple(row) for row in rows.tolist()}))
    batch = Sampler(triples, 9, 3, settings)(step)
    # Spread so that distances lie around the margin, where the loss is curved.
    spread = settings.margin / settings.dim
    entities = spread * torch.randn(9, settings.geometry.entity_width, generator=generator, dtype=torch.float64)
    relations = settings.initial_range * (2 * torch.rand(3, settings.dim, generator=generator, dtype=torch.float64) - 1)
    weight = batch.weight.double()
    batch = Batch(batch.corrupts_head, batch.triples, weight, batch.negatives, batch.usable)

    loss, (entity_gradient, relation_gradient) = loss_and_gradients(entities, relations, batch, settings)
    total, function = slow_loss(settings, entities.tolist(), relations.tolist(), batch)
    penalty = settings.l2 * float(entities.square().sum() + relations.square().sum())
    assert float(loss) + penalty == pytest.approx(total, rel=1e-10)

    step_size = 1e-6
    for row, column in [(0, 0), (3, 2), (8, settings.geometry.entity_width - 1), (5, 1)]:
        up, down = entities.clone(), entities.clone()
        up[row, column] += step_size
        down[row, column] -= step_size
        slope = (function(up.tolist()) - function(down.tolist())) / (2 * step_size)
        assert float(entity_gradient[row, column]) == pytest.approx(slope, rel=1e-4, abs=1e-8)
    for row, column in [(0, 0), (1, 3), (2, 4)]:
        values = []
        for sign in (1, -1):
            moved = relations.clone()
            moved[row, column] += sign * step_size
            # The softmax weights stay those of the unmoved tables: they are constants of the loss.
            values.append(fixed_weight_loss(settings, entities, moved, relations, batch))
        slope = (values[0] - values[1]) / (2 * step_size)
        assert float(relation_gradient[row, column]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


def fixed_weight_loss(
    settings: TrainingSettings, entities: torch.Tensor, moved: torch.Tensor, at: torch.Tensor, batch: Batch
) -> float:
    """The whole loss with relations moved, the negatives weighted as at the relations `at`."""

    def distances(relations: torch.Tensor, row: int) -> tuple[float, list[float]]:
        h, r, t = batch.triples[row].tolist()
        table, parameters = entities.tolist(), relations.tolist()
        false = [
            slow_distance(
                settings,
                table[e] if batch.corrupts_head else table[h],
                parameters[r],
                table[t] if batch.corrupts_head else table[e],
            )
            for e in batch.negatives[row].tolist()
        ]
        return slow_distance(settings, table[h], parameters[r], table[t]), false

    total = torch.zeros((), dtype=torch.float64)
    for row in range(len(batch.triples)):
        logits = torch.tensor([-settings.temperature * d for d in distances(at, row)[1]], dtype=torch.float64)
        powers = torch.exp(logits) * batch.usable[row]
        probability = powers / powers.sum() if powers.sum() else powers
        true, false = distances(moved, row)
        log = torch.nn.functional.logsigmoid
        term = -log(torch.tensor(settings.margin - true, dtype=torch.float64))
        term -= (probability * log(torch.tensor(false, dtype=torch.float64) - settings.margin)).sum()
        total += batch.weight[row] * term
    penalty = settings.l2 * float(entities.square().sum() + moved.square().sum())
    return float(total / batch.weight.sum() / 2) + penalty


def test_a_row_without_usable_negatives_keeps_its_positive_part() -> None:
    settings = TrainingSettings(dim=2, margin=1.0, negatives=2, batch=1, subsampling=False)
    entities, relations = torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.zeros(1, 2)
    batch = Batch(
        False, torch.tensor([[0, 0, 1]]), torch.ones(1), torch.tensor([[0, 1]]), torch.tensor([[False, False]])
    )
    loss, (gradient, _) = loss_and_gradients(entities, relations, batch, settings)
    assert float(loss) == pytest.approx(math.log1p(math.exp(1)) / 2)  # -log σ(1 - 2) / 2
    assert torch.isfinite(gradient).all()


def test_adam_equals_pytorchs() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(5, 3, generator=generator)
    theirs = ours.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=1e-2)
    mean, square = torch.zeros_like(ours), torch.zeros_like(ours)
    for update in range(1, 20):
        gradient = torch.randn(5, 3, generator=generator)
        theirs.grad = gradient.clone()
        optimizer.step()
        adam_update(ours, gradient, mean, square, 1e-2, update)
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
