"""The paper's appendix A on numbers: which models determine a head by one triple."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import ookg
from conftest import SMALL
from ookg.cli import main
from ookg.graph.triples import Triples
from ookg.models import TransH, TransR
from ookg.models.determinacy import STEPS, Determinacy, determinacy, random_cases


@pytest.fixture(scope="module")
def cases() -> dict[tuple[str, str], Determinacy]:
    return {(case.model, case.case): case.found for case in random_cases(6, norm=1, seed=3)}


@pytest.mark.parametrize("model", ["TransE", "RotatE"])
def test_transe_and_rotate_have_one_solution(cases: dict[tuple[str, str], Determinacy], model: str) -> None:
    found = cases[model, "any r"]
    assert (found.solutions, found.rank) == ("one", found.unknowns)
    assert found.distance < 1e-12
    # Neither shortens any step: after one of length λ, D is λ in norm 2, and not less in norm 1.
    for step, moved in zip(STEPS, found.moved, strict=True):
        assert moved >= abs(step) - 1e-9


def test_transh_has_a_family_of_solutions(cases: dict[tuple[str, str], Determinacy]) -> None:
    found = cases["TransH", "any w"]
    assert (found.solutions, found.rank, found.augmented_rank, found.unknowns) == ("infinitely many", 5, 5, 6)
    assert max(found.distance, *found.moved) < 1e-12
    # The family is h + λw, by the distance itself and at any other end.
    geometry, generator = TransH(6), torch.Generator().manual_seed(0)
    relation = geometry.relation_vectors(torch.randn(12, generator=generator, dtype=torch.float64), 1.0)
    head, tail = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    at_head = geometry.distance(head, relation, tail)
    for step in STEPS:
        torch.testing.assert_close(geometry.distance(head + step * geometry.normal(relation), relation, tail), at_head)


def test_transr_with_full_column_rank_has_one_solution(cases: dict[tuple[str, str], Determinacy]) -> None:
    found = cases["TransR", "M of full column rank"]
    assert (found.solutions, found.rank) == ("one", 6)
    assert found.distance < 1e-9
    assert min(found.moved) > 1e-3


def test_transr_of_lower_rank_meets_the_papers_condition_and_has_a_family(
    cases: dict[tuple[str, str], Determinacy],
) -> None:
    found = cases["TransR", "M of lower rank, r within its reach"]
    assert found.exists  # rank(M) = rank([M v]), which the paper takes for uniqueness
    assert not found.at_most_one
    assert found.solutions == "infinitely many"
    assert max(found.distance, *found.moved) < 1e-9


def test_transr_of_lower_rank_may_have_none(cases: dict[tuple[str, str], Determinacy]) -> None:
    found = cases["TransR", "M of lower rank, r beyond it"]
    assert (found.solutions, found.rank, found.augmented_rank) == ("none", 5, 6)
    assert found.distance > 1e-3
    assert max(found.moved) == pytest.approx(found.distance)  # nor is the least-squares solution unique


def test_more_rows_than_unknowns_by_hand() -> None:
    # M = (1, 0; 0, 1; 0, 0) and r = (0, 0, 2): no head is seen above the plane, and only h = t is below the point.
    geometry, tail = TransR(2, 2, relation_dim=3), torch.tensor([3.0, 4.0])
    matrix = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = determinacy(geometry, torch.cat([torch.tensor([0.0, 0.0, 2.0]), matrix.flatten()]), tail)
    assert (found.solutions, found.rank, found.at_most_one) == ("none", 2, True)
    assert found.distance == pytest.approx(2.0)
    assert found.moved[2] == pytest.approx(5**0.5)  # one step away


def test_command_on_random_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["determinacy", "--dim", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(case["model"], case["solutions"]) for case in found] == [
        ("TransE", "one"),
        ("RotatE", "one"),
        ("TransH", "infinitely many"),
        ("TransR", "one"),
        ("TransR", "infinitely many"),
        ("TransR", "none"),
    ]
    assert main(["determinacy"]) == 0
    assert "D moved +10" in capsys.readouterr().out


def test_command_on_a_trained_model(graph: Triples, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Single precision: w is of length 1 up to rounding only, and that must not count as rank.
    ookg.train(graph, SMALL.changed({"model": "transh"}), out=tmp_path / "model", device="cpu")
    assert main(["determinacy", str(tmp_path / "model"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [case["case"] for case in found] == ["r0", "r1", "r2", "r3"]
    assert {(case["solutions"], case["rank"]) for case in found} == {("infinitely many", 7)}
    assert main(["determinacy", str(tmp_path / "model"), "--relation", "r2"]) == 0
    assert "r2" in capsys.readouterr().out
    for arguments, message in (
        (["--relation", "r9"], "unknown relation 'r9'"),
        (["--dim", "4"], "--dim is for random vectors"),
        (["--top", "0"], "--top 0"),
    ):
        assert main(["determinacy", str(tmp_path / "model"), *arguments]) == 2
        assert message in capsys.readouterr().err
    for arguments, message in ((["--dim", "1"], "--dim 1"), (["--relation", "r1"], "name the model's directory")):
        assert main(["determinacy", *arguments]) == 2
        assert message in capsys.readouterr().err
