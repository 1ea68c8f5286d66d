"""The compiled refinement against the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ookg.kernels import threads
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.refinement import Problem, ReferenceRefinement, RefineSettings, run
from ookg.newcomers.support import Support

pytest.importorskip("numba")

from ookg.newcomers.cpu_refinement import NumbaRefinement

ENTITIES, RELATIONS = 23, 3


def random_problem(
    geometry: Geometry, counts: list[int], settings: RefineSettings
) -> tuple[Embedding, Problem, torch.Tensor]:
    rng, rows = np.random.default_rng(sum(counts)), sum(counts)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.from_numpy(0.5 * rng.standard_normal(shape)).float()

    entities = geometry.constrained(numbers(ENTITIES, geometry.entity_width))
    embedding = Embedding(geometry, entities, numbers(RELATIONS, geometry.relation_width))
    support = Support(
        np.repeat(np.arange(len(counts)), counts),
        rng.integers(0, RELATIONS, rows),
        rng.integers(0, ENTITIES, rows),
        rng.random(rows) < 0.5,
        np.arange(rows),
        len(counts),
    )
    start = geometry.constrained(numbers(len(counts), geometry.entity_width))
    return embedding, Problem.of(embedding, support, np.arange(len(counts)), settings), start


@pytest.mark.parametrize("dim", [1, 17])
@pytest.mark.parametrize(
    "geometry",
    [
        TransE(1),
        TransE(1, 2),
        TransE(1, 1, squared=True),
        TransE(1, 2, squared=True, unit_norm=2),
        RotatE(1),
        RotatE(1, 2),
    ],
    ids=str,
)
def test_steps_equal_the_reference(geometry: Geometry, dim: int) -> None:
    geometry = replace(geometry, dim=dim)
    settings = RefineSettings(margin=4.0, steps=10, lr=0.02, negatives=11, batch=6, prior=0.05, temperature=0.7)
    # More triples than a batch, one alone, as many as there are questions and more: many true answers among the drawn.
    embedding, problem, start = random_problem(geometry, [1, 5, 6, 7, 150], settings)
    fast, slow = (made(embedding, problem, start, settings) for made in (NumbaRefinement, ReferenceRefinement))
    for step in range(settings.steps):
        fast(step)
        slow(step)
        torch.testing.assert_close(fast.vectors, slow.vectors, rtol=1e-4, atol=1e-5)
    if dim > 1 or not getattr(geometry, "unit_norm", 0):  # of length 1 in one dimension are two numbers only
        assert not torch.equal(fast.vectors, start)


def test_no_usable_negative_and_equal_vectors() -> None:
    settings = RefineSettings(margin=4.0, steps=3, lr=0.02, negatives=5, batch=40)
    for geometry in (TransE(3), TransE(3, 2), RotatE(2), RotatE(2, 2)):
        relations = torch.zeros(1, geometry.relation_width)
        embedding = Embedding(geometry, torch.ones(4, geometry.entity_width), relations)
        rows = np.arange(4)
        zero = np.zeros(4, dtype=np.int64)
        support = Support(zero, zero, rows, np.ones(4, dtype=bool), rows, 1)  # every entity is a true answer
        problem = Problem.of(embedding, support, np.array([0]), settings)
        start = torch.ones(1, geometry.entity_width)  # and every gap is 0
        for made in (NumbaRefinement, ReferenceRefinement):
            assert torch.equal(run(made(embedding, problem, start, settings), settings), start)


def test_far_negatives_weigh_nothing() -> None:
    """Gaps whose exponentials are beyond float32."""
    settings = RefineSettings(margin=36.0, steps=4, lr=0.5, negatives=9, batch=4)
    embedding, problem, start = random_problem(TransE(40), [3, 9], settings)
    far = Embedding(embedding.geometry, embedding.entities * 100, embedding.relations)
    fast, slow = (run(made(far, problem, start, settings), settings) for made in (NumbaRefinement, ReferenceRefinement))
    assert torch.isfinite(fast).all()
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


def test_the_result_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "NUMBERS_A_THREAD", 1)
    settings = RefineSettings(margin=4.0, steps=5, lr=0.02, negatives=11, batch=6)
    embedding, problem, start = random_problem(RotatE(17), [1, 30, 7], settings)
    together = run(NumbaRefinement(embedding, problem, start, settings), settings)
    monkeypatch.setattr(threads, "NUMBERS_A_THREAD", 1 << 60)
    alone = run(NumbaRefinement(embedding, problem, start, settings), settings)
    assert torch.equal(together, alone)
