"""One contract for every model."""

from __future__ import annotations

import math

import pytest
import torch

from ookg.models import Geometry, RotatE, TransE

GEOMETRIES: list[Geometry] = [TransE(6, 1), TransE(6, 2), RotatE(6, 1), RotatE(6, 2)]


def vectors(geometry: Geometry, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    head, tail = torch.randn(2, rows, geometry.entity_width, generator=generator, dtype=torch.float64)
    relation = 2 * torch.randn(rows, geometry.relation_width, generator=generator, dtype=torch.float64)
    return head, relation, tail


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
class TestContract:
    def test_the_solution_has_distance_zero(self, geometry: Geometry) -> None:
        head, relation, tail = vectors(geometry, 50, 0)
        for distance in (
            geometry.distance(geometry.solve_head(relation, tail), relation, tail),
            geometry.distance(head, relation, geometry.solve_tail(head, relation)),
        ):
            assert distance.abs().max() < 1e-12

    def test_no_candidate_scores_better_than_the_solution(self, geometry: Geometry) -> None:
        _, relation, tail = vectors(geometry, 50, 1)
        best = geometry.solve_head(relation, tail)
        at_best = geometry.distance(best, relation, tail)
        generator = torch.Generator().manual_seed(2)
        for scale in (1e-6, 1e-3, 1.0, 10.0):
            other = best + scale * torch.randn(best.shape, generator=generator, dtype=best.dtype)
            assert (geometry.distance(other, relation, tail) > at_best).all()

    def test_distance_is_the_gap_at_either_end(self, geometry: Geometry) -> None:
        head, relation, tail = vectors(geometry, 50, 3)
        torch.testing.assert_close(
            geometry.distance(head, relation, tail), geometry.gap(head, geometry.solve_head(relation, tail))
        )

    def test_gaps_to_a_table_equal_single_gaps(self, geometry: Geometry) -> None:
        points, _, _ = vectors(geometry, 7, 4)
        table, _, _ = vectors(geometry, 33, 5)
        slow = torch.stack([geometry.gap(point, table) for point in points])
        torch.testing.assert_close(geometry.gap_to_all(points, table), slow)
        assert geometry.gap_to_all(points, table[:0]).shape == (7, 0)

    def test_equal_vectors_have_gap_zero_and_a_finite_gradient(self, geometry: Geometry) -> None:
        point = torch.ones(1, geometry.entity_width, requires_grad=True)
        gap = geometry.gap(point, torch.ones(1, geometry.entity_width))
        gap.sum().backward()  # type: ignore[no-untyped-call]
        assert gap.item() == 0
        assert point.grad is not None
        assert (point.grad == 0).all()
        assert geometry.gap_to_all(point.detach(), point.detach()).item() == 0


def test_transe_by_hand() -> None:
    head, relation, tail = torch.tensor([1.0, 2.0]), torch.tensor([1.0, -1.0]), torch.tensor([5.0, 4.0])
    assert TransE(2, 1).distance(head, relation, tail).item() == 6  # |1+1-5| + |2-1-4|
    assert TransE(2, 2).distance(head, relation, tail).item() == pytest.approx(math.sqrt(18))
    assert TransE(2).solve_head(relation, tail).tolist() == [4, 5]
    assert TransE(2).solve_tail(head, relation).tolist() == [2, 1]


def test_rotate_by_hand() -> None:
    head = torch.tensor([1.0, 0.0, 0.0, 2.0])  # 1 and 2i
    relation = torch.tensor([math.pi / 2, math.pi])
    # 1·i = i, 2i·(-1) = -2i
    torch.testing.assert_close(RotatE(2).solve_tail(head, relation), torch.tensor([0.0, 0.0, 1.0, -2.0]))
    tail = torch.tensor([0.0, 3.0, 1.0, 2.0])  # i and 3 + 2i: differences 0 and 3 + 4i
    assert RotatE(2, 1).distance(head, relation, tail).item() == pytest.approx(5)
    assert RotatE(2, 2).distance(head, relation, tail).item() == pytest.approx(5)
    tail = torch.tensor([0.0, 3.0, 13.0, 2.0])  # a further difference of 12
    assert RotatE(2, 1).distance(head, relation, tail).item() == pytest.approx(17)
    assert RotatE(2, 2).distance(head, relation, tail).item() == pytest.approx(13)


def test_rotate_phases_fill_the_circle_at_the_initial_range() -> None:
    parameters = torch.tensor([-0.026, 0.0, 0.013])
    found = RotatE(1000).relation_vectors(parameters, 0.026)
    torch.testing.assert_close(found, torch.tensor([-math.pi, 0.0, math.pi / 2]))
    assert TransE(1000).relation_vectors(parameters, 0.026) is parameters
