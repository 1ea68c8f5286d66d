"""The GPU's kernels, run by Triton's interpreter on the CPU, against the reference."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch

from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.scoring.ranking import AnswerIndex, reference_rank_counts
from ookg.training.reference_step import ReferenceStep
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")

CASES = [
    {"model": "transe", "norm": 1},
    {"model": "transe", "norm": 2, "l2": 1e-3},
    {"model": "rotate", "norm": 1, "l2": 1e-3},
    {"model": "rotate", "norm": 2},
    {"model": "transe", "subsampling": False, "margin": 0.5, "temperature": 0.5},
]


def test_triton_steps_equal_reference_steps(interpreted: Callable[[str], str]) -> None:
    assert f"{len(CASES)} cases equal" in interpreted(__file__)


@pytest.mark.parametrize("model", ["transh", "transr"])
def test_what_has_no_kernel_is_refused(model: str) -> None:
    from ookg.kernels.gpu_step import gap_kind

    with pytest.raises(ValueError, match=f"{model} has no kernel"):
        gap_kind(TrainingSettings(model=model).geometry)


def compare(values: dict[str, object]) -> None:
    from ookg.training.gpu_step import TritonStep

    settings = TrainingSettings(dim=5, batch=6, negatives=5, margin=3.0, lr=0.05, steps=6, lr_drops=(0.5,)).changed(
        values
    )
    generator = torch.Generator().manual_seed(0)
    # Many tails for one (head, relation), so that drawn negatives are often true triples.
    rows = torch.stack([torch.randint(0, n, (16,), generator=generator) for n in (4, 2, 7)], dim=1)
    triples = torch.tensor(sorted({tuple(row) for row in [*rows.tolist(), *([0, 0, t] for t in range(7))]}))
    size = 7 + (0 if settings.subsampling else 3)  # some that no triple trains
    tables = Tables.initial(size, 2, settings, "cpu")
    other = copy.deepcopy(tables)
    sampler = Sampler(triples, size, 2, settings)
    fast, slow = TritonStep(tables, sampler, settings), ReferenceStep(other, sampler, settings)
    for number in range(settings.steps):
        if number in settings.drop_steps:
            tables.restart_adam()
            other.restart_adam()
        batch = sampler(number)
        losses = fast(number).clone(), slow(number)
        drawn = fast.draws[number % 2].ids[:, : settings.negatives].long()
        assert torch.equal(drawn, torch.where(batch.usable, batch.negatives, sampler.num_entities)), "other negatives"
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)
        for name, value in tables.tensors().items():
            torch.testing.assert_close(value, other.tensors()[name], rtol=2e-3, atol=2e-4)


def compare_ranks(geometry: Geometry) -> None:
    from ookg.kernels.gpu_ranking import rank_counts

    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.integers(0, 3, size=(140, geometry.entity_width))).float()  # small integers: many ties
    points = torch.from_numpy(rng.integers(0, 3, size=(33, geometry.entity_width))).float()
    answers = rng.integers(0, 140, 33)
    pairs = np.unique(np.stack([rng.integers(0, 33, 90), rng.integers(0, 140, 90)], axis=1), axis=0)
    pairs = np.unique(np.concatenate([pairs, np.stack([np.arange(20), answers[:20]], axis=1)]), axis=0)
    others = AnswerIndex.build(np.arange(33), pairs[:, 0], pairs[:, 1])
    embedding = Embedding(geometry, table, torch.zeros(1, geometry.relation_width))
    expected = reference_rank_counts(embedding, points, answers, others)
    better, equal = rank_counts(embedding, points, answers, others.pairs(0, 33))
    assert better.tolist() == expected.better.tolist()
    assert equal.tolist() == expected.equal.tolist()
    assert sum(equal) > 10


def compare_shared_ranks(geometry: Geometry) -> None:
    from ookg.kernels.gpu_ranking import shared_rank_counts

    rng = np.random.default_rng(1)
    table = torch.from_numpy(rng.integers(0, 3, size=(140, geometry.entity_width))).float()
    table[5] = torch.nan  # no vector
    question = np.concatenate([np.arange(6), rng.integers(0, 6, 30)])
    points = torch.from_numpy(rng.integers(0, 3, size=(6, geometry.entity_width))).float()[question]
    answers = rng.integers(6, 140, len(question))
    given = np.stack([np.repeat(np.arange(6), 21), np.tile(np.r_[5, rng.integers(0, 140, 20)], 6)], axis=1)
    pairs = np.unique(np.concatenate([given, np.stack([question, answers], axis=1)]), axis=0)
    embedding = Embedding(geometry, table, torch.zeros(1, geometry.relation_width))
    listed = AnswerIndex.build(question, pairs[:, 0], pairs[:, 1])
    expected = reference_rank_counts(embedding, points, answers, listed)
    better, equal = shared_rank_counts(embedding, points, answers, question, (pairs[:, 0], pairs[:, 1]))
    assert better.tolist() == expected.better.tolist()
    assert equal.tolist() == expected.equal.tolist()
    assert sum(equal) > 10


if __name__ == "__main__":
    for case in CASES:
        compare(case)
    for shape in (TransE(4, 1), TransE(4, 2), RotatE(3, 1), RotatE(3, 2)):
        compare_ranks(shape)
        compare_shared_ranks(shape)
    print(f"{len(CASES)} cases equal")
