"""Fitting only the vectors of newcomers with enough triples: the others stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ookg.graph.statistics import GraphStatistics
from ookg.graph.vocabulary import Vocabulary
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.given import Given
from ookg.newcomers.reducer import Precision, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.types import IntArray

KNOWN, RELATIONS = 20, 3
COUNTS = (1, 2, 3, 6, 0)
FIT = RefineSettings(steps=5, margin=4.0, lr=0.05, negatives=8, batch=4)
GEOMETRIES = pytest.mark.parametrize("geometry", [TransE(4), RotatE(3)], ids=["transe", "rotate"])
# Newcomers 0 to 3 with as many known neighbours as COUNTS says, and ties: 0 to 3, and 4 to 3 alone.
OWN = [
    (KNOWN + number, place % RELATIONS, (place * 7 + number) % KNOWN)
    for number, count in enumerate(COUNTS)
    for place in range(count)
]
TIES = [(KNOWN, 0, KNOWN + 3), (KNOWN + 4, 1, KNOWN + 3)]


def newcomers(geometry: Geometry, given: list[tuple[int, int, int]], weights: Weights | None = None) -> Newcomers:
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    known = np.stack([rng.integers(0, high, 60) for high in (KNOWN, RELATIONS, KNOWN)], axis=1)
    tables = (
        torch.randn(size, width, generator=generator)
        for size, width in ((KNOWN, geometry.entity_width), (RELATIONS, geometry.relation_width))
    )
    graph = GraphStatistics.count(known, KNOWN, RELATIONS)
    ready = find_newcomers(Embedding(geometry, *tables), graph, known, np.array(given), weights or Precision())
    return ready.with_room_for(len(COUNTS))


def all_vectors(ready: Newcomers) -> torch.Tensor:
    return ready.vectors(np.arange(ready.support.num_newcomers))


@GEOMETRIES
@pytest.mark.parametrize("least", [2, 3, 4])
def test_those_with_fewer_triples_keep_every_bit(geometry: Geometry, least: int) -> None:
    closed = newcomers(geometry, OWN)
    before, everyone = all_vectors(closed), all_vectors(closed.refined_by(FIT))
    some = all_vectors(closed.refined_by(FIT, least=least))
    for place, count in enumerate(COUNTS[:4]):
        expected, other = (everyone, before) if count >= least else (before, everyone)
        assert torch.equal(some[place], expected[place])
        assert not torch.equal(some[place], other[place])
    assert some[4].isnan().all()


@GEOMETRIES
def test_least_1_fits_everyone_and_a_number_that_none_has_no_one(geometry: Geometry) -> None:
    closed = newcomers(geometry, OWN)
    nobody = closed.refined_by(FIT, least=7)
    torch.testing.assert_close(all_vectors(nobody), all_vectors(closed), rtol=0, atol=0, equal_nan=True)
    everyone, least_1 = (all_vectors(closed.refined_by(FIT, **how)) for how in ({}, {"least": 1}))  # type: ignore[arg-type]
    torch.testing.assert_close(everyone, least_1, rtol=0, atol=0, equal_nan=True)


@GEOMETRIES
def test_who_is_tied_to_a_fitted_newcomer_follows_it(geometry: Geometry) -> None:
    closed = newcomers(geometry, OWN + TIES, Uniform())
    some, everyone = closed.refined_by(FIT, least=4), closed.refined_by(FIT)
    vectors, fitted, before = all_vectors(some), all_vectors(everyone), all_vectors(closed)
    assert torch.equal(vectors[3], fitted[3])  # it has six known neighbours; ties are not fitted to
    for place in (1, 2):
        assert torch.equal(vectors[place], before[place])
    # What is tied to it alone fits its tie exactly: (4, relation 1, 3).
    relation = closed.embedding.relations[1:2]
    distance = geometry.distance(vectors[4:5], relation, vectors[3:4])
    assert float(distance) == pytest.approx(0, abs=1e-4)
    assert float(geometry.distance(before[4:5], relation, vectors[3:4])) > 1e-2
    assert not torch.equal(vectors[0], before[0])
    assert not torch.equal(vectors[0], fitted[0])


@GEOMETRIES
def test_with_ties_and_nobody_fitted_all_stay(geometry: Geometry) -> None:
    closed = newcomers(geometry, OWN + TIES)
    torch.testing.assert_close(
        all_vectors(closed.refined_by(FIT, least=7)), all_vectors(closed), rtol=0, atol=0, equal_nan=True
    )


def test_what_vectors_are_fitted_to_are_known_neighbours() -> None:
    ready = newcomers(TransE(4), OWN + TIES)
    assert ready.counts.tolist() == [2, 2, 3, 8, 1]  # ties count at both ends
    assert ready.fitted_to.counts.tolist() == list(COUNTS)


def test_given_triples_pass_it_on() -> None:
    ready = newcomers(TransE(4), OWN)
    nothing: IntArray = np.empty((0, 3), dtype=np.int64)
    given = Given(ready, Vocabulary.distinct([]), Vocabulary.distinct([]), nothing, [])
    assert given.refined_by(None, least=3) is given
    vectors = all_vectors(given.refined_by(FIT, least=3).newcomers)
    assert torch.equal(vectors[:2], all_vectors(ready)[:2])
    assert torch.equal(vectors[2:4], all_vectors(ready.refined_by(FIT))[2:4])
