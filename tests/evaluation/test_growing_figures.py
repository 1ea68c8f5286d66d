"""The figures of a growing data set, against ranks that are counted one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL
from growing_sets import SIZES, write_growing_set
from ookg.datasets.growing import GrowingDataset, load_growing
from ookg.datasets.snapshots import EncodedGrowth, SnapshotPart
from ookg.errors import InputError
from ookg.evaluation import growing
from ookg.evaluation.growing import Change, GrowthFigures, GrowthTests, SnapshotFigures, growth_tests
from ookg.models import GEOMETRIES
from ookg.models.embedding import Embedding


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> GrowingDataset:
    return load_growing(write_growing_set(tmp_path_factory.mktemp("data") / "mine"))


def random_embedding(growth: EncodedGrowth, after: int, model: str = "transe") -> Embedding:
    geometry = SMALL.changed({"model": model}).geometry
    generator = torch.Generator().manual_seed(after)
    snapshot = growth.snapshots[after]
    entities = torch.randn(snapshot.num_entities, geometry.entity_width, generator=generator)
    return Embedding(
        geometry,
        geometry.constrained(entities),
        torch.randn(snapshot.num_relations, geometry.relation_width, generator=generator),
    )


def counted_mrr(growth: EncodedGrowth, embedding: Embedding, after: int, test: int, part: SnapshotPart) -> list[float]:
    """Both figures, each triple with each candidate in place of either end."""
    true = {tuple(row) for row in growth.true_until(after).tolist()}
    found = []
    for size in (growth.snapshots[after].num_entities, growth.snapshots[test].num_entities):
        reciprocal = []
        for triple in getattr(growth.snapshots[test], part).tolist():
            for end in (0, 2):
                others = [[*triple[:end], other, *triple[end + 1 :]] for other in range(size)]
                rivals = [other for other in others if tuple(other) not in true]
                ids = torch.tensor([triple, *rivals])
                gaps = embedding.geometry.distance(
                    embedding.entities[ids[:, 0]], embedding.relations[ids[:, 1]], embedding.entities[ids[:, 2]]
                )
                reciprocal.append(1 / (1 + float((gaps[1:] < gaps[0]).sum())))
        found.append(float(np.mean(reciprocal)))
    return found


@pytest.mark.parametrize("model", list(GEOMETRIES))
def test_figures_are_those_counted_one_by_one(dataset: GrowingDataset, model: str) -> None:
    growth = dataset.encoded
    for after in range(3):
        embedding = random_embedding(growth, after, model)
        figures = GrowthTests(growth).measure(embedding, after)
        assert [test.snapshot for test in figures.tests] == list(range(after + 1))
        for test in figures.tests:
            expected = counted_mrr(growth, embedding, after, test.snapshot, "test")
            assert [test.mrr, test.mrr_snapshot] == pytest.approx(expected, rel=1e-6)
        assert figures.tests[-1].mrr == figures.tests[-1].mrr_snapshot  # the same candidates
        assert figures.queries == 16 * (after + 1)
        assert figures.mrr == pytest.approx(np.mean([test.mrr for test in figures.tests]))


def test_valid_is_measured_in_the_same_way(dataset: GrowingDataset) -> None:
    growth = dataset.encoded
    embedding = random_embedding(growth, 2)
    figures = growth_tests(growth, "valid").measure(embedding, 2)
    assert figures.tests[0].mrr == pytest.approx(counted_mrr(growth, embedding, 2, 0, "valid")[0])
    assert growth_tests(growth, "valid") is growth_tests(growth, "valid")
    assert growth_tests(growth, "test") is not growth_tests(growth, "valid")


def test_parts_make_the_same_whole(dataset: GrowingDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = random_embedding(dataset.encoded, 2)
    whole = GrowthTests(dataset.encoded).measure(embedding, 2)
    done: list[int] = []
    monkeypatch.setattr(growing, "ANSWERS_AT_ONCE", 5)
    monkeypatch.setattr(growing, "QUERIES_AT_ONCE", 3)
    assert GrowthTests(dataset.encoded).measure(embedding, 2, lambda count, figure=None: done.append(count)) == whole
    assert done == [16, 32, 48]


def test_larger_tests_weigh_more() -> None:
    figures = GrowthFigures(1, (SnapshotFigures(0, 30, 0.2, 0.4), SnapshotFigures(1, 10, 0.6, 0.6)))
    assert figures.mrr == pytest.approx(0.3)
    assert figures.mrr_snapshot == pytest.approx(0.45)
    assert figures.to_dict()["snapshots"][1]["mrr-snapshot"] == 0.6


def test_what_was_forgotten_and_gained() -> None:
    def stage(after: int, *figures: float) -> GrowthFigures:
        sizes = (30, 10, 50)
        tests = (SnapshotFigures(number, sizes[number], 0.0, value) for number, value in enumerate(figures))
        return GrowthFigures(after, tuple(tests))

    change = Change.over((stage(0, 0.4), stage(1, 0.9, 0.2), stage(2, 0.3, 0.4, 0.5)))
    assert change.forgotten == pytest.approx(30 * 0.1 / 40)
    assert change.gained == pytest.approx(10 * 0.2 / 40)
    assert Change.over((stage(0, 0.4),)) == Change(0.0, 0.0)


def test_an_entity_without_a_vector_is_no_rival_and_its_queries_count_as_the_last(dataset: GrowingDataset) -> None:
    growth = dataset.encoded
    embedding = random_embedding(growth, 0)
    embedding.entities[3] = torch.nan
    figures = GrowthTests(growth).measure(embedding, 0)
    test = growth.snapshots[0].test
    unscored = 2 * int((test[:, [0, 2]] == 3).any(axis=1).sum())
    assert unscored > 0
    assert figures.tests[0].unscored == unscored
    far = Embedding(embedding.geometry, embedding.entities.clone(), embedding.relations)
    far.entities[3] = 1e6
    expected = counted_mrr(growth, far, 0, 0, "test")[0]
    assert figures.mrr == pytest.approx(expected, abs=unscored / len(test) / 2)
    assert figures.mrr < GrowthTests(growth).measure(random_embedding(growth, 0), 0).mrr + 1


def test_vectors_of_another_snapshot_are_refused(dataset: GrowingDataset) -> None:
    with pytest.raises(InputError, match="mine: vectors of 12 entities, but 18 are known by snapshot 1"):
        GrowthTests(dataset.encoded).measure(random_embedding(dataset.encoded, 0), 1)


def test_a_model_is_measured_on_the_snapshots_that_it_knows(dataset: GrowingDataset, tmp_path: Path) -> None:
    first, second = (snapshot.train for snapshot in dataset.snapshots[:2])
    model = ookg.train(first, SMALL, device="cpu")
    figures = model.evaluate(dataset)
    assert isinstance(figures, GrowthFigures)
    assert figures.after == 0
    order = model.checkpoint.entities.ids(dataset.entities.labels)[: SIZES[0]]
    relations = model.checkpoint.relations.ids(dataset.relations.labels)[:3]
    embedding = model.checkpoint.embedding
    embedding = Embedding(embedding.geometry, embedding.entities[order], embedding.relations[relations])
    assert figures.mrr == pytest.approx(counted_mrr(dataset.encoded, embedding, 0, 0, "test")[0], rel=1e-6)
    both = ookg.train([*first, *second], SMALL, device="cpu").evaluate(write_growing_set(tmp_path / "again"))
    assert isinstance(both, GrowthFigures)
    assert both.after == 1
    with pytest.raises(InputError, match="is a growing one, and refine is for data sets with new entities"):
        model.evaluate(dataset, refine=True)
    other = ookg.train([("x", "r0", "y"), ("y", "r1", "x")], SMALL, device="cpu")
    with pytest.raises(InputError, match="12 entities of snapshot 0 of mine are unknown to the model"):
        other.evaluate(dataset)


def test_a_snapshot_without_a_test_counts_for_nothing(tmp_path: Path) -> None:
    folder = write_growing_set(tmp_path / "mine")
    (folder / "0" / "test.txt").write_text("")
    growth = load_growing(folder).encoded
    embedding = random_embedding(growth, 1)
    figures = GrowthTests(growth).measure(embedding, 1)
    assert [test.queries for test in figures.tests] == [0, 16]
    assert figures.mrr == pytest.approx(counted_mrr(growth, embedding, 1, 1, "test")[0], rel=1e-6)
