"""The GPU's refinement, run by Triton's interpreter on the CPU, against the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.refinement import Problem, ReferenceRefinement, RefineSettings
from ookg.newcomers.support import Support

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")

CASES: list[tuple[Geometry, RefineSettings]] = [
    (geometry, RefineSettings(margin=3.0, steps=2, lr=0.02, negatives=5, batch=2).changed(values))
    for geometry, values in (
        (TransE(5), {"prior": 0.1}),
        (TransE(3, 2, squared=True, unit_norm=2), {"seed": 3}),
        (TransE(3, 1, squared=True, unit_norm=1), {"temperature": 0.5}),
        (TransE(3, 2), {"decay": False}),
        (RotatE(3), {}),
        (RotatE(3, 2), {"negatives": 4, "prior": 0.1}),
    )
]


def test_triton_steps_equal_reference_steps(interpreted: Callable[[str], str]) -> None:
    assert f"{len(CASES)} cases equal" in interpreted(__file__)


def compare(geometry: Geometry, settings: RefineSettings) -> None:
    from ookg.newcomers.gpu_refinement import TritonRefinement

    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> torch.Tensor:
        return 0.5 * torch.randn(shape, generator=generator)

    embedding = Embedding(geometry, numbers(4, geometry.entity_width), numbers(2, geometry.relation_width))
    before = embedding.entities.clone(), embedding.relations.clone()
    # One triple; and more than a batch, with a neighbour twice, of which every other negative is a true answer.
    support = Support(
        np.array([0, 1, 1, 1, 1]),
        np.array([1, 0, 0, 0, 1]),
        np.array([2, 1, 3, 1, 0]),
        np.array([False, True, True, True, False]),
        np.arange(5),
        2,
    )
    problem = Problem.of(embedding, support, np.arange(2), settings)
    start = geometry.constrained(numbers(2, geometry.entity_width))
    fast = TritonRefinement(embedding, problem, start, settings)
    slow = ReferenceRefinement(embedding, problem, start, settings)
    for step in range(settings.steps):
        triples = torch.from_numpy(problem.triples(step))
        negatives, usable = slow.negatives(step, triples, slice(0, len(triples)))
        fast(step)
        slow(step)
        assert torch.equal(fast.triples, triples), "other triples"
        assert torch.equal(fast.ids.long(), torch.where(usable, negatives, 4)), "other negatives"
        assert not usable.all()
        for mine, theirs in ((fast.mean, slow.mean), (fast.square, slow.square), (fast.vectors, slow.vectors)):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    assert not torch.equal(fast.vectors, start)
    assert torch.equal(embedding.entities, before[0])
    assert torch.equal(embedding.relations, before[1])


if __name__ == "__main__":
    for case in CASES:
        compare(*case)
    print(f"{len(CASES)} cases equal")
