"""TransH and TransR: their equations, and that they are trained, stored and asked like the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL
from ookg.errors import InputError
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples
from ookg.interchange import arrays
from ookg.interchange.exports import collect, export
from ookg.interchange.foreign import ImportOptions
from ookg.model.model import Model
from ookg.models import Projected, TransE, TransH, TransR
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import AnswerIndex, filtered_rank_counts, query_rank_counts
from ookg.scoring.scorer import TranslationScorer
from ookg.storage.checkpoint import load_checkpoint
from ookg.training.reference_step import loss_and_gradients
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer

GEOMETRIES: list[Projected] = [TransH(5, 1), TransH(5, 2), TransR(5, 1), TransR(5, 2, relation_dim=3)]


def vectors(geometry: Projected, rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    head, tail = torch.randn(2, rows, geometry.dim, generator=generator, dtype=torch.float64)
    parameters = torch.randn(rows, geometry.relation_width, generator=generator, dtype=torch.float64)
    return head, geometry.relation_vectors(parameters, 1.0), tail


def test_transh_by_hand() -> None:
    # w = (0.6, 0.8); r is stored on the plane. h = (5, 0): wᵀh = 3, on the plane (3.2, -2.4). t = w: on the plane 0.
    relation = torch.tensor([0.8, -0.6, 0.6, 0.8], dtype=torch.float64)
    head, tail = torch.tensor([5.0, 0.0], dtype=torch.float64), torch.tensor([0.6, 0.8], dtype=torch.float64)
    assert TransH(2, 1).distance(head, relation, tail).item() == pytest.approx(7.0)  # (3.2 + 0.8, -2.4 - 0.6)
    assert TransH(2, 2).distance(head, relation, tail).item() == pytest.approx(5.0)
    # Parameters (1.4, 0.2) and (3, 4): wᵀr = 1, so r = (0.8, -0.6).
    parameters = torch.tensor([1.4, 0.2, 3.0, 4.0], dtype=torch.float64)
    torch.testing.assert_close(TransH(2).relation_vectors(parameters, 1.0), relation)


def test_transr_by_hand() -> None:
    geometry = TransR(2, 1, relation_dim=1)  # M = (1 + 1, 0 + 3): the identity's first row plus the parameters
    relation = geometry.relation_vectors(torch.tensor([4.0, 1.0, 3.0]), 1.0)
    assert relation.tolist() == [4.0, 2.0, 3.0]
    head, tail = torch.tensor([1.0, 1.0]), torch.tensor([0.0, 2.0])
    assert geometry.distance(head, relation, tail).item() == 3.0  # |2 + 3 + 4 - 6|
    assert geometry.initial_relations(torch.ones(2, 3)).tolist() == [[1.0, 0.0, 0.0]] * 2


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_distance_is_a_gap_in_the_relations_space(geometry: Projected) -> None:
    head, relation, tail = vectors(geometry, 40)
    distance = geometry.distance(head, relation, tail)
    torch.testing.assert_close(
        distance, geometry.gap(geometry.project(head, relation), geometry.solve_head(relation, tail))
    )
    torch.testing.assert_close(
        distance,
        geometry.space.distance(
            geometry.project(head, relation), geometry.translation(relation), geometry.project(tail, relation)
        ),
    )


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_project_back_is_the_transpose(geometry: Projected) -> None:
    head, relation, _ = vectors(geometry, 40)
    points = torch.randn(40, geometry.space.dim, dtype=torch.float64)
    torch.testing.assert_close(
        (geometry.project(head, relation) * points).sum(1), (head * geometry.project_back(points, relation)).sum(1)
    )


def test_displacement_is_the_shortest_step_that_is_seen_as_r() -> None:
    for geometry in (TransH(5), TransR(5, ridge=1e-12), TransR(5, ridge=1e-12, relation_dim=3)):
        _, relation, _ = vectors(geometry, 10)
        step = geometry.displacement(relation)
        torch.testing.assert_close(geometry.project(step, relation), geometry.translation(relation))
        for row, found in zip(relation, step, strict=True):
            matrix = geometry.project(torch.eye(5, dtype=torch.float64), row).T
            shortest = torch.linalg.pinv(matrix, rtol=1e-9) @ geometry.translation(row)
            torch.testing.assert_close(found, shortest, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["transh", "transr"])
@pytest.mark.parametrize("step", [0, 1])
def test_loss_gradients_are_those_of_the_equation(model: str, step: int) -> None:
    relation_dim = 3 if model == "transr" else 0
    settings = TrainingSettings(
        model=model, dim=4, relation_dim=relation_dim, batch=6, negatives=3, margin=3.0, l2=1e-3, norm=2
    )
    geometry, generator = settings.geometry, torch.Generator().manual_seed(step)
    triples = torch.stack([torch.randint(0, n, (14,), generator=generator) for n in (9, 2, 9)], dim=1)
    batch = Sampler(triples, 9, 2, settings)(step)
    entities = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    relations = torch.randn(2, geometry.relation_width, generator=generator, dtype=torch.float64, requires_grad=True)

    # Each triple on its own, with the projection written out as a matrix.
    def distance(h: int, r: int, t: int) -> torch.Tensor:
        if model == "transh":
            w = relations[r, 4:] / relations[r, 4:].norm()
            matrix = torch.eye(4, dtype=torch.float64) - torch.outer(w, w)
            moved = matrix @ relations[r, :4]
        else:
            matrix = torch.eye(3, 4, dtype=torch.float64) + relations[r, 3:].reshape(3, 4)
            moved = relations[r, :3]
        found: torch.Tensor = torch.linalg.vector_norm(matrix @ entities[h] + moved - matrix @ entities[t])
        return found

    total: torch.Tensor = torch.zeros((), dtype=torch.float64)
    for row, (h, r, t) in enumerate(batch.triples.tolist()):
        false = torch.stack(
            [distance(e, r, t) if batch.corrupts_head else distance(h, r, e) for e in batch.negatives[row].tolist()]
        )
        usable = batch.usable[row]
        share = torch.softmax(torch.where(usable, -false, -torch.inf), 0).nan_to_num(0.0).detach()
        log = torch.nn.functional.logsigmoid
        total = total - batch.weight[row] * (log(3.0 - distance(h, r, t)) + (share * log(false - 3.0)).sum())
    expected = total / batch.weight.double().sum() / 2
    penalty = 1e-3 * (entities.square().sum() + relations.square().sum())
    slopes = torch.autograd.grad(expected + penalty, (entities, relations))
    loss, gradients = loss_and_gradients(entities, relations, batch, settings)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-6, atol=1e-8)
    for mine, theirs in zip(gradients, slopes, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-7)


def test_settings_name_what_only_transr_has() -> None:
    assert TrainingSettings(model="transr", dim=6, relation_dim=4).geometry == TransR(6, 1, relation_dim=4)
    assert TrainingSettings(model="transh", dim=6, norm=2).geometry == TransH(6, 2)
    with pytest.raises(InputError, match="only transr has one"):
        TrainingSettings(model="transh", relation_dim=4)
    with pytest.raises(InputError, match="ridge 0"):
        TransH(4, ridge=0.0)


@pytest.fixture(scope="module", params=["transh", "transr", "transr of 5"])
def trained(request: pytest.FixtureRequest, graph: Triples) -> Model:
    name, _, of = request.param.partition(" of ")
    return ookg.train(graph, SMALL.changed({"model": name, "relation_dim": int(of or 0)}), device="cpu")


def test_training_lowers_the_loss_and_says_that_it_is_slow(graph: Triples) -> None:
    for model in ("transh", "transr"):
        settings = SMALL.changed({"model": model, "steps": 120})
        trainer = Trainer(torch.from_numpy(graph.ids), len(graph.entities), len(graph.relations), settings)
        assert trainer.note is not None
        assert f"{model} has no fast kernel" in trainer.note
        assert trainer.take_step.name == "reference"
        losses = [float(trainer.step()) for _ in range(settings.steps)]
        assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:20])


def test_a_stored_model_is_the_same(trained: Model, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    found = load_checkpoint(tmp_path / "model").embedding
    assert found.geometry == trained.checkpoint.embedding.geometry
    assert torch.equal(found.entities, trained.entity_vectors)
    assert torch.equal(found.relations, trained.relation_vectors)
    geometry = found.geometry
    if isinstance(geometry, TransH):
        r, w = geometry.translation(found.relations), geometry.normal(found.relations)
        torch.testing.assert_close(w.norm(dim=1), torch.ones(len(w)))
        assert (r * w).sum(dim=1).abs().max() < 1e-6


def test_ranks_are_those_of_the_distances(trained: Model) -> None:
    embedding, rng = trained.checkpoint.embedding, np.random.default_rng(0)
    size, known = 30, embedding.num_entities
    given = np.array([[known, 0, 3], [4, 1, known], [known + 1, 2, 5]])
    graph = GraphStatistics.count(trained.checkpoint.triples, known, embedding.num_relations)
    newcomers = find_newcomers(embedding, graph, trained.checkpoint.triples, given, Uniform())
    queries = Queries(
        rng.integers(0, known + 2, size), rng.integers(0, 4, size), rng.integers(0, known, size), rng.random(size) < 0.5
    )
    keys, true = np.repeat(np.arange(size), 3), rng.integers(0, known, 3 * size)
    scorer = TranslationScorer(newcomers)
    counts = scorer.rank_counts(queries, AnswerIndex.build(np.arange(size), keys, true))
    table = scorer.answer_scores(queries)
    for query in range(size):
        entity, relation, answer = (int(part[query]) for part in (queries.entity, queries.relation, queries.answer))
        everyone = np.arange(known)
        ends = (np.full(known, entity), everyone) if queries.asks_tail[query] else (everyone, np.full(known, entity))
        scores = newcomers.scores(np.stack([ends[0], np.full(known, relation), ends[1]], axis=1))
        torch.testing.assert_close(table[query].double(), torch.from_numpy(scores), rtol=1e-4, atol=1e-5)
        rivals = np.setdiff1d(everyone, [*true[keys == query], answer])
        apart = scores[rivals] - scores[answer]
        assert counts.better[query] == (apart > 1e-6).sum()


def test_ranking_without_the_relation_is_refused() -> None:
    embedding = Embedding(TransH(2), torch.zeros(3, 2), torch.zeros(1, 4))
    with pytest.raises(TypeError, match="without the relation"):
        filtered_rank_counts(embedding, torch.zeros(1, 2), np.array([0]), AnswerIndex(np.array([]), np.array([0, 0])))


def test_query_ranks_of_transe_are_the_filtered_ones() -> None:
    rng = np.random.default_rng(1)
    table, relations = (torch.from_numpy(rng.integers(0, 3, (n, 4))).float() for n in (30, 3))
    embedding = Embedding(TransE(4), table, relations)
    queries = Queries(rng.integers(0, 30, 20), rng.integers(0, 3, 20), rng.integers(0, 30, 20), rng.random(20) < 0.5)
    others = AnswerIndex.build(np.arange(20), np.repeat(np.arange(20), 4), rng.integers(0, 30, 80))
    sign = torch.from_numpy(np.where(queries.asks_tail, 1.0, -1.0)).float()[:, None]
    points = table[queries.entity] + sign * relations[queries.relation]
    expected = filtered_rank_counts(embedding, points, queries.answer, others)
    found = query_rank_counts(embedding, table[queries.entity], queries, others)
    assert found.better.tolist() == expected.better.tolist()
    assert found.equal.tolist() == expected.equal.tolist()


def test_what_is_new_gets_a_vector_and_a_verdict(trained: Model) -> None:
    new = [("x", "r0", "e1"), ("e2", "r1", "x")]
    found = trained.embed(new)
    assert found.entities == ["x"]
    assert found.vectors.shape == (1, 8)
    assert torch.isfinite(found.vectors).all()
    valid = [("e1", "r0", "e2", "1"), ("e3", "r0", "e4", "0")]
    verdict = trained.classify([("x", "r0", "e1"), ("unheard", "r0", "e1")], valid=valid, given=new).claims
    assert verdict[0].score is not None
    assert verdict[0].threshold is not None
    assert verdict[0].verdict == (verdict[0].score >= verdict[0].threshold)
    assert verdict[1].verdict is None
    assert verdict[1].threshold is None  # there is nothing to hold against one


@pytest.mark.parametrize("form", ["kge", "pykeen"])
def test_layouts_of_other_models_are_refused(trained: Model, form: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trans[hr] model.*; export it as parquet, npy or safetensors"):
        export(collect(trained), form, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_exported_arrays_are_not_read_back_as_another_model(trained: Model, tmp_path: Path) -> None:
    export(collect(trained), "npy", tmp_path / "out")
    assert np.load(tmp_path / "out" / "relations.npy").shape == tuple(trained.relation_vectors.shape)
    with pytest.raises(InputError, match=r"model 'trans[hr]'.*give transe or rotate"):
        arrays.read(tmp_path / "out", ImportOptions())
