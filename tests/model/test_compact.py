"""Models whose vectors have 16 bits: what they answer beside those of 32, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from ookg.cli import main
from ookg.errors import InputError
from ookg.kernels import cpu_compile
from ookg.kernels.cpu_newcomers import weighted_candidates
from ookg.kernels.cpu_ranking import gap_to_all, rank_counts
from ookg.models import GEOMETRIES, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.prior import Residuals
from ookg.newcomers.refinement import RefineSettings
from ookg.simulation.simulated import simulate
from ookg.storage.checkpoint import load_checkpoint
from ookg.training.settings import TrainingSettings
from ookg.types import Array

NEW = [("new", "r0", "e1"), ("new", "r1", "e2"), ("e3", "r2", "new"), ("other", "r0", "new")]


def rows(seed: int = 0) -> list[tuple[str, str, str]]:
    random = np.random.default_rng(seed)
    numbers = zip(*(random.integers(0, bound, 300).tolist() for bound in (40, 4, 40)), strict=True)
    return [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in numbers]


@pytest.fixture(scope="module", params=["transe", "rotate"])
def model(request: pytest.FixtureRequest) -> ookg.Model:
    settings = TrainingSettings(model=request.param, dim=18, steps=60, batch=64, negatives=4)
    return ookg.train(rows(), settings, device="cpu")


def with_rounded(model: ookg.Model) -> ookg.Model:
    """A model of 32 bits with the numbers that are left after rounding to 16."""
    embedding = model.compacted().embedding.widened()
    return ookg.Model(replace(model.checkpoint, embedding=embedding))


def random_table(seed: int, shape: tuple[int, int]) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("name", ["transe", "rotate"])
@pytest.mark.parametrize("dim", [1, 17, 140])
@pytest.mark.parametrize("reads_halves", [True, False])
def test_kernels_read_16_bits_as_the_same_numbers_of_32(
    name: str, dim: int, reads_halves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_compile, "READS_HALVES", reads_halves and cpu_compile.READS_HALVES)
    geometry, random = GEOMETRIES[name](dim), np.random.default_rng(dim)
    table = random_table(0, (50, geometry.entity_width))
    table[0, 0], table[1, 0] = np.float16(6e-8), np.float16(-65504)  # the smallest and the largest there are
    wide = table.astype(np.float32)
    points = random_table(1, (7, geometry.entity_width)).astype(np.float32)
    assert gap_to_all(geometry, points, table).dtype == np.float32
    assert np.array_equal(gap_to_all(geometry, points, table), gap_to_all(geometry, points, wide))
    answers, nothing = np.arange(7), (np.empty(0, np.int64), np.zeros(8, np.int64))
    for one, other in zip(
        rank_counts(geometry, points, table, answers, *nothing),
        rank_counts(geometry, points, wide, answers, *nothing),
        strict=True,
    ):
        assert one.tolist() == other.tolist()
    relations = random_table(2, (3, geometry.relation_width)).astype(np.float32)
    links = random.integers(0, 50, 30), random.integers(0, 3, 30), random.random(30) < 0.5
    place, weights = np.sort(random.integers(0, 6, 30)), random.random(30)
    sums = [
        weighted_candidates(geometry, (entities, relations), links, np.arange(30), place, weights, 6)
        for entities in (table, wide)
    ]
    assert sums[0].dtype == np.float32
    assert np.array_equal(sums[0], sums[1])


def test_residuals_are_those_of_the_same_numbers(model: ookg.Model) -> None:
    one, other = (
        Residuals.of(made.embedding, made.checkpoint.triples) for made in (model.compacted(), with_rounded(model))
    )
    assert one.precision.dtype == torch.float32
    assert torch.equal(one.precision, other.precision)
    assert torch.equal(one.centre, other.centre)
    assert one.weight.tolist() == other.weight.tolist()


@pytest.mark.parametrize("refine", [None, RefineSettings(steps=3)])
def test_it_answers_as_one_of_32_bits_with_the_same_numbers(model: ookg.Model, refine: RefineSettings | None) -> None:
    small, wide = model.compacted(), with_rounded(model)
    one, other = (made.extend(NEW, refine=refine) for made in (small, wide))
    for head, relation in (("new", "r2"), ("other", "r1"), ("e4", "r3")):
        predictions = [extended.predict(head=head, relation=relation) for extended in (one, other)]
        answers = [[(answer.entity, answer.score) for answer in made.answers] for made in predictions]
        assert answers[0] == answers[1]
        assert len(answers[0]) > 5
    assert torch.equal(one.vector("new", "r1"), other.vector("new", "r1"))
    assert one.vector("new", "r1").dtype == torch.float32


def test_known_entities_are_made_new_again_with_the_same_numbers(model: ookg.Model) -> None:
    one, other = (simulate(made.checkpoint) for made in (model.compacted(), with_rounded(model)))
    assert one.embedding.entities.dtype == torch.float32
    assert torch.equal(one.embedding.entities, other.embedding.entities)


def test_it_is_stored_in_half_the_room_and_read_again(model: ookg.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "whole")
    model.compacted().save(tmp_path / "half")
    stored = load_checkpoint(tmp_path / "half").embedding
    assert stored.entities.dtype == torch.float16
    assert stored.relations.dtype == torch.float32
    assert torch.equal(stored.entities, model.embedding.entities.half())
    sizes = [next((tmp_path / name).glob("data-*/vectors.safetensors")).stat().st_size for name in ("half", "whole")]
    tables = model.embedding.entities.nbytes
    assert sizes[1] - sizes[0] == pytest.approx(tables / 2, abs=64)
    ookg.load(tmp_path / "half").save(tmp_path / "again")
    assert torch.equal(load_checkpoint(tmp_path / "again").embedding.entities, stored.entities)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, half = tmp_path / "whole", tmp_path / "half"
    settings = TrainingSettings(dim=8, steps=20, batch=64, negatives=2)
    companion = ookg.train(rows(), replace(settings, model="rotate"), device="cpu")
    ookg.train(rows(), settings, device="cpu").with_companions([companion]).save(whole)
    ookg.open(whole).add_names([("e1", "one")])
    assert main(["compact", str(whole), "--out", str(half)]) == 0
    assert "MB instead of" in capsys.readouterr().err
    read = ookg.load(half)
    assert read.embedding.entities.dtype == read.companions[0].embedding.entities.dtype == torch.float16
    assert read.names.name("e1") == "one"
    assert main(["check", str(half)]) == 0
    assert main(["compact", str(whole), "--out", str(half)]) == 2
    assert "holds a model; choose another directory, or replace it with --overwrite" in capsys.readouterr().err
    assert main(["compact", str(whole), "--out", str(whole), "--overwrite"]) == 2
    assert "is the model itself" in capsys.readouterr().err
    assert main(["compact", str(whole), "--out", str(half), "--overwrite", "--json"]) == 0
    assert '"vector_bytes"' in capsys.readouterr().out
    living = ookg.open(half)
    living.add(NEW)
    assert living.predict(head="new", relation="r3").answers
    with pytest.raises(InputError, match=r"vectors of 16 bits.*; update the model that it was made of"):
        living.update()
    assert main(["status", str(half)]) == 0
    capsys.readouterr()
    assert main(["compact", str(half), "--out", str(tmp_path / "third")]) == 2
    assert "1 batch of its journal is not in its vectors; run `ookg update" in capsys.readouterr().err


def test_what_does_not_fit_is_refused() -> None:
    vectors = torch.ones(3, 2)
    large = Embedding(TransE(2), vectors * 70_000, vectors)
    with pytest.raises(InputError, match="beyond 65,504 do not fit into 16 bits"):
        large.compacted()
    projected = GEOMETRIES["transh"](2)
    with pytest.raises(InputError, match="vectors of 16 bits are for models with a kernel"):
        Embedding(projected, vectors, torch.ones(1, projected.relation_width)).compacted()
