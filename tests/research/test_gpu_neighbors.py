"""The GPU's kernels of the baselines, run by Triton's interpreter on the CPU, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ookg.research.baselines.aggregators import Aggregator, LogicAttention, Mean
from ookg.research.baselines.neighbors import Neighbors
from ookg.research.baselines.rows import projections
from ookg.research.baselines.training import PlainAdam

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")

# Coordinates and room for neighbours: below, at and above a power of two; fewer and more than a tile.
SHAPES = [(5, 3), (8, 20), (6, 33)]
MARGINS = [0.5, 3.0, 300.0]
CASES = 2 * len(SHAPES) + len(MARGINS) + 1


def test_triton_kernels_equal_plain_pytorch(interpreted: Callable[[str], str]) -> None:
    assert f"{CASES} cases equal" in interpreted(__file__)


def some_neighbors(room: int, generator: torch.Generator) -> Neighbors:
    """Of five entities: one without neighbours, one with a single one, one that fills its room, one neighbour twice."""
    count = torch.tensor([0, 1, room, max(1, room // 2), 2])
    entity = torch.randint(0, 7, (5, room), generator=generator)
    relation = torch.randint(0, 4, (5, room), generator=generator)
    entity[2, :2], relation[2, :2] = 3, 1
    discount = 1.0 + torch.rand(5, room, generator=generator)
    return Neighbors(relation, entity, torch.arange(room) < count[:, None], discount)


def compare_aggregates(aggregator: Aggregator, dim: int, room: int) -> None:
    generator = torch.Generator().manual_seed(room)
    neighbors = some_neighbors(room, generator)
    entities = torch.randn(7, dim, generator=generator, requires_grad=True)
    normals = functional.normalize(torch.randn(4, dim, generator=generator), dim=1).requires_grad_()
    for values in aggregator.parameters():
        torch.nn.init.normal_(values, generator=generator)
    leaves = [entities, normals, *aggregator.parameters()]
    query = torch.tensor([0, 3, 1, 2, 2])
    weights = torch.randn(5, dim, generator=generator)

    transitions = projections(entities, normals, neighbors.entity, neighbors.relation)
    slow = aggregator(transitions, neighbors, query)
    fast = aggregator.join_projections(entities, normals, neighbors, query)
    assert slow.abs().max() > 0.1
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    compare_gradients((fast * weights).sum(), (slow * weights).sum(), leaves)


def compare_losses(margin: float) -> None:
    from ookg.research.kernels.gpu_neighbors import ranking_losses

    generator = torch.Generator().manual_seed(1)
    size, dim = 6, 5
    vectors = torch.randn(3 * size, dim, generator=generator, requires_grad=True)
    relations = torch.randn(3, dim, generator=generator, requires_grad=True)
    # As columns of a batch, which do not lie one value after the other.
    relation, sides = torch.tensor([[0, 1], [2, 0], [0, 1], [1, 0], [1, 1], [2, 1]]).unbind(dim=1)
    on_tail = sides > 0
    weights = torch.rand(size, generator=generator)

    head, tail, false = functional.normalize(vectors, dim=1).chunk(3)
    r = functional.normalize(relations, dim=1)[relation]
    replaces = on_tail[:, None]
    distance = (head + r - tail).abs().sum(dim=1)
    false_distance = (torch.where(replaces, head, false) + r - torch.where(replaces, false, tail)).abs().sum(dim=1)
    slow = torch.relu(margin + distance - false_distance)
    fast = ranking_losses(vectors, relations, relation, on_tail, margin)
    assert slow.max() > 0
    torch.testing.assert_close(fast, slow, rtol=1e-5, atol=1e-6)
    compare_gradients((fast * weights).sum(), (slow * weights).sum(), [vectors, relations])


def compare_adam() -> None:
    from ookg.kernels.gpu_adam import TritonAdam

    generator = torch.Generator().manual_seed(2)
    fast = [torch.randn(shape, generator=generator) for shape in ((3, 700), (5,), (2, 3, 4))]
    slow = [values.clone().requires_grad_() for values in fast]
    adams = TritonAdam(fast, 0.01, [0.0, 0.5, 0.1]), PlainAdam(slow, 0.01, [0.0, 0.5, 0.1])
    before = [values.clone() for values in fast]
    for _ in range(3):
        gradients = [torch.randn(values.shape, generator=generator) for values in fast]
        for adam in adams:
            adam.step([gradient.clone() for gradient in gradients])
    for mine, theirs, first in zip(fast, slow, before, strict=True):
        assert not torch.equal(mine, first)
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-4, atol=1e-6)


def compare_gradients(fast: Tensor, slow: Tensor, leaves: list[Tensor]) -> None:
    for mine, theirs in zip(torch.autograd.grad(fast, leaves), torch.autograd.grad(slow, leaves), strict=True):
        assert theirs.abs().max() > 0
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    torch.manual_seed(0)
    for case in SHAPES:
        compare_aggregates(Mean(), *case)
        compare_aggregates(LogicAttention(case[0], torch.rand(4, 4)), *case)
    for case_margin in MARGINS:
        compare_losses(case_margin)
    compare_adam()
    print(f"{CASES} cases equal")
