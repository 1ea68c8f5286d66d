"""Refinement by its specification, and what must hold whichever implementation runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers import refinement
from ookg.newcomers.refinement import Problem, ReferenceRefinement, RefineSettings, refine, run
from ookg.newcomers.support import Support
from ookg.training.loss import self_adversarial_loss
from ookg.training.sampling import Batch
from ookg.training.settings import TrainingSettings
from ookg.types import IntArray

ENTITIES, RELATIONS = 12, 2
SETTINGS = RefineSettings(margin=3.0, steps=8, lr=0.02, negatives=7, batch=5)
GEOMETRIES: list[Geometry] = [
    TransE(5, 1),
    TransE(5, 2),
    TransE(5, 1, squared=True),
    TransE(5, 2, squared=True, unit_norm=2),
    TransE(5, 1, unit_norm=1),
    RotatE(3, 1),
    RotatE(3, 2),
]


def random_embedding(geometry: Geometry, seed: int = 0) -> Embedding:
    generator = torch.Generator().manual_seed(seed)
    entities = 0.5 * torch.randn(ENTITIES, geometry.entity_width, generator=generator)
    relations = 0.5 * torch.randn(RELATIONS, geometry.relation_width, generator=generator)
    return Embedding(geometry, geometry.constrained(entities), relations)


def random_support(counts: list[int], seed: int = 0) -> Support:
    """So few known entities and relations that neighbours repeat and negatives are often true answers."""
    rng, rows = np.random.default_rng(seed), sum(counts)
    return Support(
        np.repeat(np.arange(len(counts)), counts),
        rng.integers(0, RELATIONS, rows),
        rng.integers(0, ENTITIES, rows),
        rng.random(rows) < 0.5,
        np.arange(rows),
        len(counts),
    )


def random_start(embedding: Embedding, newcomers: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    start = 0.5 * torch.randn(newcomers, embedding.geometry.entity_width, generator=generator)
    return embedding.geometry.constrained(start)


def reference(embedding: Embedding, support: Support, start: Tensor, settings: RefineSettings) -> ReferenceRefinement:
    problem = Problem.of(embedding, support, np.arange(support.num_newcomers), settings)
    return ReferenceRefinement(embedding, problem, start, settings)


# The specification.


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_the_loss_is_that_of_training_plus_the_prior(geometry: Geometry) -> None:
    embedding, support = random_embedding(geometry), random_support([4])
    support = replace(support, is_head=np.ones(4, dtype=bool))
    settings = replace(SETTINGS, prior=0.3)
    step = reference(embedding, support, random_start(embedding, 1), settings)
    vectors = random_start(embedding, 1, seed=2)
    rows = torch.from_numpy(step.problem.triples(0))
    negatives, usable = step.negatives(0, rows, slice(0, 4))
    assert not usable.all()
    points = geometry.solve_tail(vectors, embedding.relations[step.relation[rows]])
    positive = geometry.gap(points, embedding.entities[step.neighbor[rows]])
    negative = geometry.gap(points[:, None], embedding.entities[negatives])
    batch = Batch(False, torch.zeros(4, 3), torch.ones(4), negatives, usable)
    expected = self_adversarial_loss(positive, negative, batch, TrainingSettings(margin=settings.margin))
    expected = expected + 0.3 * (vectors - step.start).square().sum()
    torch.testing.assert_close(step.losses(0, 0, vectors), expected[None])


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_a_small_step_along_the_gradient_changes_the_loss_as_it_says(geometry: Geometry) -> None:
    embedding, support = random_embedding(geometry), random_support([1, 4, 9])
    embedding = Embedding(geometry, embedding.entities.double(), embedding.relations.double())
    # Constant softmax weights are what the gradient takes them for: at temperature 0 they are.
    settings = replace(SETTINGS, prior=0.2, temperature=0.0)
    step = reference(embedding, support, random_start(embedding, 3).double(), settings)
    step.vectors = random_start(embedding, 3, seed=2).double()
    gradient = step.gradients(2, 0, 3)
    direction = random_start(embedding, 3, seed=3).double()
    ahead, behind = (step.losses(2, 0, step.vectors + sign * 1e-6 * direction) for sign in (1, -1))
    torch.testing.assert_close((ahead - behind) / 2e-6, (gradient * direction).sum(dim=1), rtol=1e-5, atol=1e-7)


def test_only_other_answers_of_the_same_question_are_no_negatives() -> None:
    # (new, 0, ?) has the answers 1 and 2, (?, 0, new) has 3: none of them is an answer of the others' questions.
    relation, neighbor = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 4])
    is_head = np.array([True, True, False, True])
    support = Support(np.zeros(4, dtype=np.int64), relation, neighbor, is_head, np.arange(4), 1)
    embedding = random_embedding(TransE(5))
    step = reference(embedding, support, random_start(embedding, 1), replace(SETTINGS, negatives=300))
    rows = torch.from_numpy(step.problem.triples(0))
    drawn, usable = step.negatives(0, rows, slice(0, 4))
    found = {
        (int(step.relation[row]), bool(step.is_head[row])): set(range(ENTITIES)) - set(ids[keep].tolist())
        for row, ids, keep in zip(rows.tolist(), drawn, usable, strict=True)
    }
    assert found == {(0, True): {1, 2}, (0, False): {3}, (1, True): {4}}


def test_a_batch_goes_around_a_newcomers_triples() -> None:
    problem = Problem.of(random_embedding(TransE(5)), random_support([2, 12]), np.arange(2), SETTINGS)
    steps = [problem.triples(step) for step in range(12)]
    for rows in steps:
        assert rows[:2].tolist() == [0, 1]  # fewer than a batch: all of them, every time
        assert len(set(rows[2:].tolist())) == 5
    counts = np.bincount(np.concatenate([rows[2:] for rows in steps]) - 2)
    assert counts.tolist() == [5] * 12
    given = random_support([2, 12])
    sides = list(zip(problem.neighbor[2:].tolist(), problem.relation[2:].tolist(), strict=True))
    assert sides != list(zip(given.neighbor[2:].tolist(), given.relation[2:].tolist(), strict=True))  # shuffled
    assert sorted(sides) == sorted(zip(given.neighbor[2:].tolist(), given.relation[2:].tolist(), strict=True))


# What refine() promises, with the implementation that this machine has.


def test_the_fit_improves_and_known_vectors_stay_bit_for_bit() -> None:
    for geometry in (TransE(5), RotatE(3)):
        embedding, support = random_embedding(geometry), random_support([1, 3, 9])
        before = embedding.entities.clone(), embedding.relations.clone()
        start = random_start(embedding, 3)
        copy = start.clone()
        settings = replace(SETTINGS, steps=60)
        found = refine(embedding, support, start, settings)
        assert torch.equal(embedding.entities, before[0])
        assert torch.equal(embedding.relations, before[1])
        assert torch.equal(start, copy)
        step = reference(embedding, support, start, settings)
        earlier, later = (
            torch.stack([step.losses(number, 0, vectors) for number in range(20)]).mean(dim=0)
            for vectors in (start, found)
        )
        assert (later < earlier).all()


def test_rows_without_a_vector_or_a_triple_come_back_as_they_are() -> None:
    embedding, support = random_embedding(TransE(5)), random_support([3, 4, 0, 2])
    start = random_start(embedding, 4)
    start[1] = torch.nan
    found = refine(embedding, support, start, SETTINGS)
    assert torch.isnan(found[1]).all()
    assert torch.equal(found[2], start[2])
    assert (found[[0, 3]] != start[[0, 3]]).any(dim=1).all()
    assert refine(embedding, random_support([0]), start[:1], SETTINGS).tolist() == start[:1].tolist()
    assert refine(embedding, random_support([]), start[:0], SETTINGS).shape == (0, 5)


@pytest.mark.parametrize("slow", [False, True])
def test_a_newcomer_does_not_depend_on_others_nor_on_its_place(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if slow:
        monkeypatch.setattr(refinement, "fastest_refinement", ReferenceRefinement)
    # PyTorch computes the last few numbers of a tensor by other instructions than those before.
    rtol, atol = (1e-5, 1e-6) if slow else (0.0, 0.0)
    embedding, support = random_embedding(RotatE(3)), random_support([1, 4, 13, 6])
    start = random_start(embedding, 4)
    together = refine(embedding, support, start, SETTINGS)
    for number in range(4):
        alone = refine(embedding, support, start[[number]], SETTINGS, newcomers=np.array([number]))
        torch.testing.assert_close(alone[0], together[number], rtol=rtol, atol=atol)
    # The same triples in another order, under other numbers.
    order = np.concatenate([np.flatnonzero(support.newcomer == number)[::-1] for number in (2, 0, 3, 1)])
    moved = replace(support.select(order), newcomer=np.repeat(np.arange(4), support.counts[[2, 0, 3, 1]]))
    found = refine(embedding, moved, start[[2, 0, 3, 1]], SETTINGS)
    torch.testing.assert_close(found, together[[2, 0, 3, 1]], rtol=rtol, atol=atol)
    # One after the other instead of side by side.
    monkeypatch.setattr(refinement, "PART_NUMBERS", 1)
    monkeypatch.setattr(refinement, "CHUNK_NUMBERS", 1)
    torch.testing.assert_close(refine(embedding, support, start, SETTINGS), together, rtol=rtol, atol=atol)


def test_seeds() -> None:
    embedding, support = random_embedding(TransE(5)), random_support([3, 9])
    start = random_start(embedding, 2)
    first, again = (refine(embedding, support, start, SETTINGS) for _ in range(2))
    other = refine(embedding, support, start, replace(SETTINGS, seed=1))
    assert torch.equal(first, again)
    assert (first != other).any(dim=1).all()


def test_a_strong_prior_holds_the_start() -> None:
    embedding, support = random_embedding(TransE(5)), random_support([3, 9])
    start = random_start(embedding, 2)
    settings = replace(SETTINGS, steps=200)
    free, held = (refine(embedding, support, start, replace(settings, prior=prior)) for prior in (0.0, 1e4))
    assert float((held - start).abs().max()) < 1e-3
    assert float((free - start).abs().max()) > 0.1


@pytest.mark.parametrize("norm", [1, 2])
def test_unit_vectors_stay_unit_vectors(norm: int) -> None:
    embedding, support = random_embedding(TransE(5, unit_norm=norm)), random_support([3, 9])
    start = random_start(embedding, 2)
    found = refine(embedding, support, start, SETTINGS)
    torch.testing.assert_close(torch.linalg.vector_norm(found, ord=norm, dim=1), torch.ones(2))
    assert not torch.allclose(found, start)


def test_other_types_of_numbers_are_fitted_by_the_reference() -> None:
    single, support = random_embedding(TransE(5)), random_support([3, 9])
    double = Embedding(single.geometry, single.entities.double(), single.relations.double())
    start = random_start(single, 2)
    found = refine(double, support, start.double(), SETTINGS)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), refine(single, support, start, SETTINGS), rtol=1e-4, atol=1e-5)


def test_steps_are_reported_and_time_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, support = random_embedding(TransE(5)), random_support([3, 9])
    start, told = random_start(embedding, 2), list[int]()

    def report(done: int, figure: object = None) -> None:
        del figure
        told.append(done)

    refine(embedding, support, start, SETTINGS, report)
    assert told == list(range(1, SETTINGS.steps + 1))
    told.clear()
    found = refine(embedding, support, start, replace(SETTINGS, seconds=1e-9), report)
    assert told == [1]
    step = reference(embedding, support, start, SETTINGS)
    step(0)
    torch.testing.assert_close(found, step.vectors)
    told.clear()
    monkeypatch.setattr(refinement, "PART_NUMBERS", 1)  # two parts: half a step each
    refine(embedding, support, start, SETTINGS, report)
    assert told == [done // 2 for done in range(1, 2 * SETTINGS.steps + 1)]


def test_run_takes_all_steps() -> None:
    embedding, support = random_embedding(TransE(5)), random_support([3, 9])
    start = random_start(embedding, 2)
    slow = run(reference(embedding, support, start, SETTINGS), SETTINGS)
    torch.testing.assert_close(refine(embedding, support, start, SETTINGS), slow, rtol=1e-4, atol=1e-5)


# Settings and input.


def test_the_rate_goes_down_to_zero() -> None:
    settings = RefineSettings(lr=1e-2, steps=4)
    assert [settings.rate(step) for step in range(4)] == pytest.approx([1e-2, 7.5e-3, 5e-3, 2.5e-3])
    assert {replace(settings, decay=False).rate(step) for step in range(4)} == {1e-2}


def test_settings_survive_plain_values() -> None:
    for settings in (RefineSettings(), RefineSettings(seconds=2.5, prior=0.1, decay=False)):
        assert RefineSettings.from_dict(settings.to_dict()) == settings
    assert RefineSettings().changed({"margin": 24, "seconds": 3}) == RefineSettings(margin=24.0, seconds=3.0)
    assert RefineSettings(seconds=1.0).changed({"seconds": None}).seconds is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "steps 0; it must be 1 or more"),
        ({"negatives": 0}, "negatives 0; it must be 1 or more"),
        ({"batch": -1}, "batch -1"),
        ({"margin": 0.0}, "margin 0.0; it must be a number above 0"),
        ({"lr": float("nan")}, "lr nan"),
        ({"temperature": -1.0}, "temperature -1.0; it must be 0 or more"),
        ({"prior": float("inf")}, "prior inf"),
        ({"seed": 1 << 63}, "below 2"),
        ({"seconds": 0.0}, "seconds 0.0; it must be a number above 0, or None"),
        ({"seconds": True}, "setting seconds is True; it must be of type float"),
        ({"decay": 1}, "setting decay is 1; it must be of type bool"),
        ({"batch": "32"}, "setting batch is '32'; it must be of type int"),
        ({"batch": True}, "setting batch is True"),
        ({"margins": 3.0}, "unknown setting 'margins'; did you mean 'margin'"),
    ],
)
def test_bad_settings_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RefineSettings().changed(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": torch.zeros(2, 4)}, r"start of shape \(2, 4\); give one row for each newcomer, \(2, 5\)"),
        ({"start": torch.zeros(2, 5).double()}, r"start is torch.float64 on cpu.*start.to\(embedding.entities\)"),
        ({"newcomers": np.array([0, 2])}, "newcomer 2 of 2"),
        ({"newcomers": np.array([-1, 0])}, "newcomer -1 of 2"),
        ({"neighbor": np.full(12, ENTITIES)}, "neighbour 12 of 12; give the support that was found with this"),
        ({"relation": np.full(12, -1)}, "relation -1 of 2"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    embedding, support = random_embedding(TransE(5)), random_support([3, 9])
    newcomers: IntArray | None = change.pop("newcomers", None)
    start = change.pop("start", torch.zeros(2, 5))
    with pytest.raises(InputError, match=message):
        refine(embedding, replace(support, **change), start, SETTINGS, newcomers=newcomers)
