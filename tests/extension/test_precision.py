"""Precision weights in a model that is added to: a triple that comes and goes leaves no trace."""

from __future__ import annotations

import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.extension.extended import ExtendedModel
from stories import Row, stories

WEIGHTS = ookg.Precision(prior=0.1)


@pytest.fixture(scope="module", params=["transe", "rotate", "transh"])
def known(request: pytest.FixtureRequest) -> ookg.Model:
    return ookg.train(random_triples(0), SMALL.changed({"model": request.param}), device="cpu")


def same_bits(one: ExtendedModel, other: ExtendedModel) -> None:
    assert one.vectors.keys() == other.vectors.keys()
    for name, vector in one.vectors.items():
        assert torch.equal(vector, other.vectors[name])
        assert one.trust(name) == other.trust(name)
        assert one.explain(name, "r0") == other.explain(name, "r0")


@pytest.mark.parametrize("seed", range(2))
def test_one_by_one_is_the_same_as_all_at_once_and_removing_leaves_no_trace(known: ookg.Model, seed: int) -> None:
    kept, gone = stories(seed)[::2], stories(seed)[1::2]
    at_once, slowly = known.extend(kept, weights=WEIGHTS), known.extend(weights=WEIGHTS)
    for row in kept:
        slowly.add([row])
    same_bits(slowly, at_once)
    slowly.add(gone)
    for row in gone:
        slowly.remove([row])
    same_bits(slowly, at_once)


def test_many_at_once_have_the_bits_of_each_alone(model: ookg.Model) -> None:
    rows: list[Row] = [(f"n{number % 9}", f"r{number % 4}", f"e{number % 20}") for number in range(60)]
    everyone = model.extend(rows, weights=WEIGHTS)
    assert any(group.is_crowd for group in everyone._state.groups.values())
    for name in ("n0", "n4", "n8"):
        alone = model.extend([row for row in rows if row[0] == name], weights=WEIGHTS)
        assert torch.equal(alone.vector(name), everyone.vector(name))


def test_it_is_what_embed_says(known: ookg.Model) -> None:
    rows = stories(3)
    extended, embedded = known.extend(rows, weights=WEIGHTS), known.embed(rows, weights=WEIGHTS)
    uniform = known.embed(rows, weights=ookg.Uniform())
    for name, vector in zip(embedded.entities, embedded.vectors, strict=True):
        torch.testing.assert_close(extended.vector(name), vector)
    assert not torch.equal(embedded.vectors, uniform.vectors)
    assert 0 < embedded.trust.uncertainty.max() < 1


def test_what_a_removed_training_triple_leaves_are_the_vectors_and_how_far_off_they_were(model: ookg.Model) -> None:
    given: list[Row] = [("new", "r0", "e1"), ("e2", "r1", "new")]
    extended = model.extend(given, weights=WEIGHTS)
    before, trust = extended.vector("new"), extended.trust("new")
    row = next(iter(random_triples(0)))
    extended.remove([row])
    assert torch.equal(extended.vector("new"), before)
    assert extended.trust("new") == trust
    extended.add([("new", "r2", "e3")])
    extended.remove([("new", "r2", "e3")])
    assert torch.equal(extended.vector("new"), before)


def test_refinement_starts_there_and_is_held_there(model: ookg.Model) -> None:
    given: list[Row] = [("new", "r0", "e1"), ("e2", "r1", "new"), ("new", "r2", "e3"), ("late", "r1", "e4")]
    start = model.embed(given, weights=WEIGHTS).vectors
    fit = ookg.RefineSettings(steps=60, margin=4.0, lr=0.02, negatives=8, batch=4)
    free, held = (
        model.embed(given, weights=WEIGHTS, refine=settings).vectors
        for settings in (fit, fit.changed({"prior": 100.0}))
    )
    far, near = ((vectors - start).norm(dim=1) for vectors in (free, held))
    assert (near < 0.3 * far).all()
    one_step = model.embed(given, weights=WEIGHTS, refine=fit.changed({"steps": 1, "lr": 1e-6})).vectors
    torch.testing.assert_close(one_step, start, atol=1e-5, rtol=1e-5)
