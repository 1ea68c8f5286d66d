"""Vectors as the estimate that triples, and what is typical for their relations, determine together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ookg.errors import InputError, OokgError
from ookg.graph.index import GraphIndex
from ookg.graph.statistics import GraphStatistics
from ookg.kernels import cpu_prior
from ookg.models import Geometry, RotatE, TransE, TransH
from ookg.models.embedding import Embedding
from ookg.newcomers import prior
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.prior import Owned, Residuals, reference_residual_sums
from ookg.newcomers.reducer import Precision, Uniform, Weights
from ookg.newcomers.support import find_support
from ookg.types import IntArray

# Three entities, m₀ = (2, 2), v₀ = (8/3, 8/3); relation 0 has two triples, relation 1 one, relation 2 none.
TABLE = torch.tensor([[0.0, 2.0], [2.0, 4.0], [4.0, 0.0]])
RELATIONS = torch.tensor([[1.0, 1.0], [0.0, -2.0], [3.0, 0.0]])
KNOWN = np.array([[0, 0, 1], [1, 0, 2], [2, 1, 0]])
EMBEDDING = Embedding(TransE(2), TABLE, RELATIONS)
# Gaps h + r - t: relation 0: (-1, -1) and (-1, 5); relation 1: (4, -4).
V0 = 8 / 3
S0 = [(1 + 1 + 10 * V0) / 12, (1 + 25 + 10 * V0) / 12]
S1 = [(16 + 10 * V0) / 11, (16 + 10 * V0) / 11]
# Heads of relation 0: (0, 2) and (2, 4).
M0 = [(0 + 2 + 20) / 12, (2 + 4 + 20) / 12]
T0 = [
    ((0 - M0[0]) ** 2 + (2 - M0[0]) ** 2 + 10 * V0) / 12,
    ((2 - M0[1]) ** 2 + (4 - M0[1]) ** 2 + 10 * V0) / 12,
]


def newcomers(given: list[list[int]], weights: Weights, embedding: Embedding = EMBEDDING) -> Newcomers:
    graph = GraphStatistics.count(KNOWN, 3, 3)
    return find_newcomers(embedding, graph, KNOWN, np.array(given), weights)


def random_embedding(geometry: Geometry, num_entities: int = 40, num_relations: int = 5) -> Embedding:
    generator = torch.Generator().manual_seed(3)
    entities = torch.randn(num_entities, geometry.entity_width, generator=generator)
    return Embedding(geometry, entities, torch.randn(num_relations, geometry.relation_width, generator=generator))


def random_triples(size: int, entities: int = 40, relations: int = 5, seed: int = 0) -> IntArray:
    random = np.random.default_rng(seed)
    ends = random.integers(0, entities, (size, 2))
    return np.stack([ends[:, 0], random.integers(0, relations, size), ends[:, 1]], axis=1)


def test_residuals_by_hand() -> None:
    found = Residuals.of(EMBEDDING, KNOWN)
    assert (V0 / found.precision[0]).tolist() == pytest.approx(S0)
    assert (V0 / found.precision[1]).tolist() == pytest.approx(S0)  # seen from the tail, TransE is as far off
    assert (V0 / found.precision[2]).tolist() == pytest.approx(S1)
    assert found.centre[0].tolist() == pytest.approx(M0)
    assert (V0 / found.centre_precision[0]).tolist() == pytest.approx(T0)
    assert found.variance.tolist() == pytest.approx([1.0, 1.0])
    assert found.weights(np.array([0, 1])) == pytest.approx([V0 * (1 / S0[0] + 1 / S0[1]) / 2, V0 / S1[0]])


def test_a_relation_that_no_triple_has_is_as_all_entities_are() -> None:
    found = Residuals.of(EMBEDDING, KNOWN)
    rows = found.rows(np.array([2, 2, 3, 99]), np.array([True, False, True, False]))
    assert rows.tolist() == [4, 5, 6, 6]
    for row in rows.tolist():
        assert found.precision[row].tolist() == pytest.approx([1.0, 1.0])
        assert found.centre_precision[row].tolist() == pytest.approx([1.0, 1.0])
        assert found.centre[row].tolist() == pytest.approx([2.0, 2.0])
    nothing = Residuals.of(EMBEDDING, np.empty((0, 3), dtype=np.int64))
    assert nothing.precision.flatten().tolist() == pytest.approx([1.0] * 14)


def test_the_estimate_by_hand() -> None:
    # The head of relation 0 to entity 1: (2, 4) - (1, 1) = (1, 3); the tail of relation 1 from entity 2: (4, -2).
    given = [[3, 0, 1], [2, 1, 3]]
    found = newcomers(given, Precision()).vectors(np.array([0]))[0]
    expected = [(1 / s + 4 / z) / (1 / s + 1 / z) for s, z in zip(S0[:1], S1[:1], strict=True)]
    expected += [(3 / s - 2 / z) / (1 / s + 1 / z) for s, z in zip(S0[1:], S1[1:], strict=True)]
    assert found.tolist() == pytest.approx(expected)


def test_the_estimate_with_a_prior_by_hand() -> None:
    strength = 0.5
    found = newcomers([[3, 0, 1]], Precision(prior=strength)).vectors(np.array([0]))[0]
    candidate = [1.0, 3.0]
    expected = [
        (c / s + strength * m / t) / (1 / s + strength / t) for c, s, m, t in zip(candidate, S0, M0, T0, strict=True)
    ]
    assert found.tolist() == pytest.approx(expected)


def test_its_precision_is_the_sum_of_those_of_its_triples_and_once_the_prior() -> None:
    residuals, found = Residuals.of(EMBEDDING, KNOWN), newcomers([[3, 0, 1], [2, 1, 3], [0, 0, 3]], Precision())
    rows, place = found.support.rows_of(np.array([0]))
    one = residuals.estimates(EMBEDDING, found.support, rows, place, 1, 0.5)
    expected = [2 * V0 / s + V0 / z for s, z in zip(S0, S1, strict=True)]
    tail, back = (residuals.centre_precision[number].tolist() for number in (1, 3))
    expected = [e + 0.5 / 3 * (V0 / t + a + b) for e, t, a, b in zip(expected, T0, tail, back, strict=True)]
    assert one.precision[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("geometry", [TransE(6), TransE(6, 2), RotatE(6)], ids=str)
def test_with_equal_residuals_it_is_the_mean(geometry: Geometry) -> None:
    embedding, known, given = random_embedding(geometry), random_triples(300), random_triples(60, seed=1)
    given[:30, 0] = 40 + np.arange(30) % 6
    given[30:, 2] = 40 + np.arange(30) % 6
    graph, everyone = GraphStatistics.count(known, 40, 5), np.arange(6)
    residuals = Residuals.of(embedding, known)
    same = replace(residuals, precision=torch.full_like(residuals.precision, 0.7))
    found = find_newcomers(embedding, graph, known, given, Precision(residuals=same)).vectors(everyone)
    expected = find_newcomers(embedding, graph, known, given, Uniform()).vectors(everyone)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("geometry", [TransE(6), RotatE(6), TransH(6)], ids=str)
def test_what_is_less_far_off_weighs_more(geometry: Geometry) -> None:
    embedding = random_embedding(geometry)
    known = random_triples(200)
    known = known[known[:, 1] != 1]
    if not geometry.projects:  # relation 1 fits exactly
        heads, relation = embedding.entities[:15], embedding.relations[1].expand(15, -1)
        embedding.entities[20:35] = geometry.solve_tail(heads, relation)
        known = np.concatenate([known, [[head, 1, 20 + head] for head in range(15)]])
    given = np.array([[40, 1, 3], [40, 2, 5], [6, 0, 40]])
    found = find_newcomers(embedding, GraphStatistics.count(known, 40, 5), known, given, Precision())
    weights = found.row_weights(np.array([0]))
    assert weights.sum() == pytest.approx(1.0)
    assert torch.isfinite(found.vectors(np.array([0]))).all()
    if not geometry.projects:
        assert weights[0] > 1.5 * max(weights[1:])


@pytest.mark.parametrize("geometry", [TransE(5), RotatE(5)], ids=str)
def test_the_index_of_the_triples_gives_the_same_bits(geometry: Geometry) -> None:
    embedding, known = random_embedding(geometry), np.unique(random_triples(300), axis=0)
    found = Residuals.of(embedding, GraphIndex.of(known, 40, 5))
    expected = Residuals.of(embedding, np.random.default_rng(0).permutation(known))
    for name in ("precision", "centre", "centre_precision", "variance"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    assert (found.weight == expected.weight).all()


def test_of_a_very_large_index_an_even_sample_of_its_rows_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    index = GraphIndex.of(np.unique(random_triples(500), axis=0), 40, 5)
    monkeypatch.setattr(prior, "MOST_ROWS", 60)
    rows = np.arange(120) * len(index.link) // 120
    found, owner = Owned.of_index(index), np.repeat(np.arange(40), np.diff(index.offsets))[rows]
    other, link = index.other[rows], index.link[rows]
    expected = sorted(zip(2 * (link % 5) + link // 5, owner, other, strict=True))
    assert list(zip(found.directed, found.owner, found.neighbor, strict=True)) == [e for e in expected if e[1] != e[2]]


def test_an_index_with_impossible_rows_is_refused() -> None:
    index = GraphIndex.of(np.unique(random_triples(50), axis=0), 40, 5)
    for damage in ({"offsets": index.offsets // 2}, {"other": index.other + 40}, {"link": index.link - 1}):
        damaged = replace(index, source="index.safetensors", **damage)
        with pytest.raises(OokgError, match=r"index\.safetensors"):
            Residuals.of(random_embedding(TransE(5)), damaged)


def test_of_very_many_triples_an_even_sample_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, known = random_embedding(TransE(4)), random_triples(1000)
    monkeypatch.setattr(prior, "MOST_ROWS", 100)
    expected = known[np.arange(100) * 1000 // 100]
    assert torch.equal(Residuals.of(embedding, known).precision, Residuals.of(embedding, expected).precision)


@pytest.mark.parametrize("geometry", [TransE(4), RotatE(4)], ids=str)
def test_chunks_of_the_reference_change_nothing_that_matters(
    geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding, known, given = random_embedding(geometry), random_triples(300), random_triples(80, seed=1)
    given[:, 0] = 40 + np.arange(80) % 3
    whole = find_newcomers(embedding, GraphStatistics.count(known, 40, 5), known, given, Precision(prior=0.3))
    expected = whole.vectors(np.arange(3))
    monkeypatch.setattr(prior, "_compiled", lambda embedding: None)
    monkeypatch.setattr(prior, "CHUNK_NUMBERS", 7 * geometry.entity_width)
    monkeypatch.setattr(prior, "RESIDUAL_NUMBERS", 7 * geometry.entity_width)
    parts = find_newcomers(embedding, whole.graph, known, given, Precision(prior=0.3))
    torch.testing.assert_close(parts.vectors(np.arange(3)), expected)


@pytest.mark.parametrize("geometry", [TransE(7), TransE(33, 2), RotatE(9)], ids=str)
def test_compiled_loops_are_as_the_reference(geometry: Geometry) -> None:
    embedding, known, given = random_embedding(geometry), random_triples(300), random_triples(900, seed=1)
    given[:, 0] = 40 + np.arange(900) % 300
    owned = Owned.of(known)
    tables = embedding.entities.numpy(), embedding.relations.numpy()
    sums = cpu_prior.residual_sums(geometry, tables, owned.owner, owned.neighbor, owned.directed, 11)
    torch.testing.assert_close(torch.from_numpy(sums), reference_residual_sums(embedding, owned), rtol=1e-5, atol=1e-4)
    residuals, support = Residuals.of(embedding, known), find_support(given, 40, 300)[0]
    rows, place = support.rows_of(np.array([5, 299, 0, 7]))
    for strength in (0.0, 0.4):
        found = residuals.estimates(embedding, support, rows, place, 4, strength)
        expected = residuals.reference_sums(embedding, support, rows, place, 4, strength)
        torch.testing.assert_close(found.precision, expected[1])
        torch.testing.assert_close(found.vectors, expected[0] / expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("geometry", [TransE(8), RotatE(8)], ids=str)
def test_a_vector_has_the_same_bits_alone_and_among_others(geometry: Geometry) -> None:
    embedding, known, given = random_embedding(geometry), random_triples(300), random_triples(2000, seed=1)
    given[:, 0] = 40 + np.arange(2000) % 700
    found = find_newcomers(embedding, GraphStatistics.count(known, 40, 5), known, given, Precision(prior=0.2))
    everyone = found.vectors(np.arange(700))
    for newcomer in (0, 3, 255, 256, 699):
        assert torch.equal(found.vectors(np.array([newcomer]))[0], everyone[newcomer])


def test_coordinates_that_never_vary_do_no_harm() -> None:
    table = TABLE.clone()
    table[:, 1] = 5.0
    for entities in (table, torch.full_like(table, 5.0)):
        found = newcomers([[3, 0, 1], [2, 1, 3]], Precision(prior=0.1), Embedding(TransE(2), entities, RELATIONS))
        assert torch.isfinite(found.vectors(np.array([0]))).all()


@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_the_scale_of_the_vectors_does_not_matter(scale: float) -> None:
    given, weights = [[3, 0, 1], [2, 1, 3]], Precision(prior=0.1)
    found = newcomers(given, weights, Embedding(TransE(2), TABLE * scale, RELATIONS * scale)).vectors(np.array([0]))
    expected = newcomers(given, weights).vectors(np.array([0]))
    torch.testing.assert_close(found / scale, expected)


def test_newcomers_without_a_known_neighbour_get_no_vector_of_the_prior() -> None:
    found = newcomers([[3, 0, 1], [4, -1, 2]], Precision(prior=1.0))
    vectors = found.vectors(np.array([0, 1]))
    assert torch.isfinite(vectors[0]).all()
    assert vectors[1].isnan().all()


def test_newcomers_tied_together_are_weighed_by_their_relations() -> None:
    # 3 is tied to a known entity and to 4, which is tied to a known one: each is the weighted mean of two candidates.
    found = newcomers([[3, 0, 1], [3, 1, 4], [4, 0, 2]], Precision())
    first, second = found.vectors(np.array([0, 1])).double()
    one, other = Residuals.of(EMBEDDING, KNOWN).weights(np.array([0, 1]))
    torch.testing.assert_close(
        first, (one * (TABLE[1] - RELATIONS[0]) + other * (second - RELATIONS[1])) / (one + other), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        second, (one * (TABLE[2] - RELATIONS[0]) + other * (first + RELATIONS[1])) / (one + other), rtol=1e-5, atol=1e-5
    )
    shares = found.row_weights(np.array([0])), found.peer_weights(np.array([0]))
    assert [*shares[0], *shares[1]] == pytest.approx([one / (one + other), other / (one + other)])


def test_what_cannot_be_is_refused() -> None:
    for wrong in (-0.1, float("nan"), float("inf"), 1e308):
        with pytest.raises(InputError, match=r"prior .*; it must be a number from 0 to 1,000,000"):
            Precision(prior=wrong)
    with pytest.raises(InputError, match="precision weights need statistics of the training triples"):
        find_newcomers(EMBEDDING, None, np.empty((0, 3), dtype=np.int64), np.array([[3, 0, 1]]), Precision())
