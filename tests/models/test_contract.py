"""Every model through every path, against what follows from its `distance` alone.

Beside the registered models go toys that meet the contract and declare nothing: for each of them TransE's numbers would
be wrong. A path gives the reference's numbers or refuses with an `OokgError`; it never gives others.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import ookg
from conftest import SMALL, random_triples
from ookg.cli import main
from ookg.datasets.dataset import Dataset
from ookg.errors import InputError, OokgError
from ookg.extension.questions import AnswerOptions, Question
from ookg.graph.known import KnownGraph
from ookg.graph.triples import as_triples
from ookg.interchange.exports import collect, export
from ookg.kernels.adam import adam_update
from ookg.models import (
    _REGISTERED,
    GEOMETRIES,
    Geometry,
    Projected,
    Registered,
    RotatE,
    TransE,
    TransH,
    TransR,
    own_settings,
)
from ookg.models.determinacy import determinacy
from ookg.models.embedding import Embedding
from ookg.models.geometry import Kernel, Move, kernel_of
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.estimator import candidates, candidates_of
from ookg.newcomers.reducer import Precision, Uniform
from ookg.newcomers.refinement import Problem, ReferenceRefinement, RefineSettings, fastest_refinement, refine
from ookg.newcomers.relations import RelationPairs, relation_vectors
from ookg.newcomers.system import FixedPoints, System
from ookg.scoring.nearest import gaps_to_all
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import AnswerIndex, query_rank_counts
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.retraining import Retraining, train_again
from ookg.storage.checkpoint import Checkpoint
from ookg.training.loss import self_adversarial_loss
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.step import fastest_step
from ookg.training.tables import Tables

DIM = 6


@dataclass(frozen=True)
class Mirrored(Geometry):
    """D(h, r, t) = Σ c |s∘h + r - t| with signs s and weights c of the coordinates; r is twice its parameters."""

    name: ClassVar[str] = "mirrored"

    @property
    def entity_width(self) -> int:
        return self.dim

    @property
    def relation_width(self) -> int:
        return self.dim

    def signs(self, like: Tensor) -> Tensor:
        return 1 - 2 * (torch.arange(self.dim) % 2).to(like)

    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        return self.signs(head) * head + relation

    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        return self.signs(tail) * (tail - relation)

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        weights = 1 + torch.arange(self.dim).to(x)
        return (weights * (x - y).abs()).sum(dim=-1)

    def constrained(self, entities: Tensor) -> Tensor:
        return entities.clamp(-2, 2)

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        del initial_range
        return 2 * parameters


@dataclass(frozen=True)
class Flipped(TransE):
    """D(h, r, t) = ‖r - h - t‖ₚ; written as a change of TransE, whose name and declarations are not its own."""

    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        return relation - head

    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        return relation - tail


@dataclass(frozen=True)
class Weighted(TransE):
    """D(h, r, t) = Σ c |h + r - t|; written as a change of TransE's gap alone."""

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        return ((1 + torch.arange(self.dim).to(x)) * (x - y).abs()).sum(dim=-1)


@dataclass(frozen=True)
class Masked(Geometry):
    """D(h, r, t) = ‖m∘h + r - m∘t‖₁ with weights m of the relation; what m does not see, nothing says how to choose."""

    name: ClassVar[str] = "masked"

    @property
    def entity_width(self) -> int:
        return self.dim

    @property
    def relation_width(self) -> int:
        return 2 * self.dim

    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        return entities * (relation[..., self.dim :] > 0)

    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        return self.project(head, relation) + relation[..., : self.dim]

    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        return self.project(tail, relation) - relation[..., : self.dim]

    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        return (x - y).abs().sum(dim=-1)


@dataclass(frozen=True)
class Scaled(Projected):
    """D(h, r, t) = ‖m∘h + r - m∘t‖ₚ with weights m of the relation: all that a model of this kind has to say."""

    name: ClassVar[str] = "scaled"

    @property
    def relation_width(self) -> int:
        return 2 * self.dim

    @property
    def space(self) -> TransE:
        return TransE(self.dim, self.norm)

    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        return entities * relation[..., self.dim :]


TOYS: list[Geometry] = [Mirrored(DIM), Flipped(DIM), Flipped(DIM, 2), Weighted(DIM), Masked(DIM), Scaled(DIM, 2)]
REGISTERED: list[Geometry] = [
    *(TrainingSettings(model=name, dim=DIM, norm=norm).geometry for name, norm in product(GEOMETRIES, (1, 2))),
    *(TransE(DIM, 2, squared=True), TransE(DIM, 1, unit_norm=2), TransE(DIM, 3), TransR(DIM, relation_dim=4)),
]
TRAINABLE = {
    **{name: name for name in GEOMETRIES},
    **{toy.name: type(toy).__name__ for toy in (Mirrored(DIM), Masked(DIM), Scaled(DIM))},
}
GRAPH = random_triples(0)
NUM_KNOWN, NUM_RELATIONS = len(GRAPH.entities), len(GRAPH.relations)
# a and b are new and tied to known entities alone; c only to a; `made` is a new relation.
ALONE = [("a", "r0", "e1"), ("e2", "r1", "a"), ("a", "r2", "e3"), ("e4", "r3", "b"), ("b", "r0", "e5")]
TIED = [("c", "r1", "a"), ("b", "r2", "c")]
MADE = [("e6", "made", "e7"), ("e8", "made", "e9"), ("a", "made", "e1")]
every_model = pytest.mark.parametrize("geometry", [*REGISTERED, *TOYS], ids=str)


@pytest.fixture(autouse=True)
def registered_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for toy in (Mirrored, Masked, Scaled):
        monkeypatch.setitem(_REGISTERED, toy.name, Registered(__name__, toy.__name__))
    assert __name__ in sys.modules


def random_embedding(geometry: Geometry, seed: int = 0) -> Embedding:
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randn(NUM_KNOWN, geometry.entity_width, generator=generator)
    parameters = geometry.initial_relations(torch.randn(NUM_RELATIONS, geometry.relation_width, generator=generator))
    return Embedding(geometry, geometry.constrained(entities), geometry.relation_vectors(parameters, torch.pi))


def model_of(geometry: Geometry) -> ookg.Model:
    ids = GRAPH.encoded(GRAPH.entities, GRAPH.relations)
    graph = KnownGraph(ids, NUM_KNOWN, NUM_RELATIONS)
    return ookg.Model(
        Checkpoint(random_embedding(geometry), GRAPH.entities, GRAPH.relations, graph, {"margin": 4.0}, {})
    )


def is_refused(geometry: Geometry) -> bool:
    """Whether the model cannot say what the vector of a new entity is."""
    return geometry.projects and not isinstance(geometry, Projected)


def newcomers_of(model: ookg.Model, given: list[tuple[str, str, str]]) -> Newcomers:
    triples, checkpoint = as_triples(given), model.checkpoint
    entities = checkpoint.entities.extended(triples.entities.labels)
    relations = checkpoint.relations.extended(triples.relations.labels)
    ids = triples.encoded(entities, relations)
    return find_newcomers(checkpoint.embedding, checkpoint.statistics, checkpoint.triples, ids, Uniform())


def distances(embedding: Embedding, vector: Tensor, relation: Tensor, *, asks_tail: bool) -> Tensor:
    """D of one entity with each known entity at the other end, (entities,)."""
    size = embedding.num_entities
    own, row = vector.expand(size, -1), relation.expand(size, -1)
    ends = (own, row, embedding.entities) if asks_tail else (embedding.entities, row, own)
    return embedding.geometry.distance(*ends)


def close(found: object, expected: object) -> None:
    torch.testing.assert_close(torch.as_tensor(found).float(), torch.as_tensor(expected).float(), rtol=1e-4, atol=1e-4)


@every_model
def test_distance_is_a_gap_at_either_end(geometry: Geometry) -> None:
    embedding = random_embedding(geometry)
    for relation, tail in zip(embedding.relations.double(), embedding.entities.double(), strict=False):
        table = embedding.entities.double()
        row, own = relation.expand(len(table), -1), tail.expand(len(table), -1)
        expected = geometry.distance(table, row, own)
        point = geometry.solve_head(relation, tail)
        close(geometry.gap(point, geometry.project(table, row)), expected)
        close(geometry.gap_to_all(point[None], geometry.project(table, row))[0], expected)
        close(geometry.gap(geometry.solve_tail(table, row), geometry.project(own, row)), expected)
        if not geometry.projects:
            assert float(geometry.distance(point, relation, tail)) < 1e-9
            assert float(geometry.distance(tail, relation, geometry.solve_tail(tail, relation))) < 1e-9


@every_model
def test_what_is_declared_is_so(geometry: Geometry) -> None:
    kernel = geometry.kernel
    if geometry in TOYS:
        assert kernel is None
        assert not geometry.solves_together
        assert not geometry.makes_relations
        with pytest.raises(InputError, match="has no kernel; use the reference"):
            kernel_of(geometry)
        return
    if kernel is not None:
        assert not geometry.projects
        widths = {Move.TRANSLATION: (DIM, DIM), Move.ROTATION: (2 * DIM, DIM)}
        assert (geometry.entity_width, geometry.relation_width) == widths[kernel.move]
        assert kernel.move == geometry.linear_move


def test_a_projection_that_is_no_translation_in_its_space_is_no_projected_model() -> None:
    with pytest.raises(TypeError, match="derive it from Geometry"):
        type("Other", (TransH,), {"solve_tail": Flipped.solve_tail})


def settings_of(name: str) -> TrainingSettings:
    own = {"relation_dim": 5} if "relation_dim" in own_settings(name) else {}
    return SMALL.changed({"model": name, "dim": DIM, "l2": 0.01, **own})


@pytest.mark.parametrize("name", TRAINABLE)
def test_a_training_step(name: str) -> None:
    settings = settings_of(name)
    geometry = settings.geometry
    ids = torch.from_numpy(GRAPH.encoded(GRAPH.entities, GRAPH.relations))
    sampler = Sampler(ids, NUM_KNOWN, NUM_RELATIONS, settings)
    found, expected = (Tables.initial(NUM_KNOWN, NUM_RELATIONS, settings, "cpu") for _ in range(2))
    step, note = fastest_step(found, sampler, settings)
    assert (note is None) == (geometry.kernel is not None)
    for number in range(4):
        batch = sampler(number)
        entities, relations = (table.clone().requires_grad_() for table in (expected.entities, expected.relations))
        vectors = geometry.relation_vectors(relations, settings.initial_range)
        head, relation, tail = batch.triples.T
        positive = geometry.distance(entities[head], vectors[relation], entities[tail])
        shape = batch.negatives.shape
        many = [ends[:, None].expand(shape) for ends in (head, relation, tail)]
        many[0 if batch.corrupts_head else 2] = batch.negatives
        negative = geometry.distance(entities[many[0]], vectors[many[1]], entities[many[2]])
        loss = self_adversarial_loss(positive, negative, batch, settings)
        penalty = settings.l2 * (entities.square().sum() + relations.square().sum())
        gradients = torch.autograd.grad(loss + penalty, (entities, relations))
        moments = (
            (expected.entities, *expected.entity_state),
            (expected.relations, *expected.relation_state),
        )
        for (table, mean, square), gradient in zip(moments, gradients, strict=True):
            adam_update(table, gradient, mean, square, settings.rate(number), number + 1)
        close(step(number), loss.detach())
        close(found.entity_state[0], expected.entity_state[0])
        close(found.relation_state[0], expected.relation_state[0])


@every_model
def test_vectors_weighed_by_how_far_candidates_are_off(geometry: Geometry) -> None:
    model = model_of(geometry)
    if is_refused(geometry):
        with pytest.raises(InputError, match="a triple does not determine the vector of a new entity"):
            model.given(ALONE, Precision(0.2))
        return
    embedding, strength = model.embedding, 0.2
    found = model.given(ALONE, Precision(strength)).newcomers
    vectors, shares = found.vectors(np.arange(2)), found.row_weights(np.arange(2))
    ids = model.checkpoint.triples
    ids = ids[ids[:, 0] != ids[:, 2]]
    table, ends = embedding.entities.double(), torch.from_numpy(ids)
    mean, variance = table.mean(dim=0), table.var(dim=0, correction=0)

    def typical(relation: int, is_head: bool) -> tuple[Tensor, Tensor, Tensor]:
        """s², m and t² from what `candidates` says of each training triple."""
        rows = ends[ends[:, 1] == relation]
        owner, other = (rows[:, 0], rows[:, 2]) if is_head else (rows[:, 2], rows[:, 0])
        links = other.numpy(), rows[:, 1].numpy(), np.full(len(rows), is_head)
        off, size = table[owner] - candidates_of(embedding, links).double(), len(rows) + 10
        centre = (table[owner].sum(dim=0) + 10 * mean) / size
        around = (table[owner] - centre).square().sum(dim=0)
        return (off.square().sum(dim=0) + 10 * variance) / size, centre, (around + 10 * variance) / size

    support = found.support
    for newcomer, vector in enumerate(vectors):
        rows, _ = support.rows_of(np.array([newcomer]))
        parts = [typical(int(support.relation[row]), bool(support.is_head[row])) for row in rows]
        if isinstance(geometry, Projected):  # one weight for a candidate, by relation
            both = [[typical(int(support.relation[row]), side)[0] for side in (True, False)] for row in rows]
            weights = torch.stack([(1 / torch.stack(sides)).mean() for sides in both])
            close(shares[rows], weights / weights.sum())
            continue
        fitting = candidates(embedding, support, rows).double()
        certain, total = torch.zeros_like(mean), torch.zeros_like(mean)
        for candidate, (residual, centre, extent) in zip(fitting, parts, strict=True):
            certain += 1 / residual + strength / len(rows) / extent
            total += candidate / residual + strength / len(rows) * centre / extent
        close(vector, geometry.constrained((total / certain)[None])[0])


@every_model
def test_vectors_of_new_entities(geometry: Geometry) -> None:
    model = model_of(geometry)
    found = newcomers_of(model, ALONE)
    if is_refused(geometry):
        with pytest.raises(InputError, match="a triple does not determine the vector of a new entity"):
            found.vectors(np.arange(2))
        return
    vectors, embedding, support = found.vectors(np.arange(2)), found.embedding, found.support
    rows, place = support.rows_of(np.arange(2))
    fitting = candidates(embedding, support, rows)
    relations = embedding.relations[torch.from_numpy(support.relation[rows])]
    neighbors = embedding.entities[torch.from_numpy(support.neighbor[rows])]
    is_head = torch.from_numpy(support.is_head[rows])[:, None]
    heads, tails = torch.where(is_head, fitting, neighbors), torch.where(is_head, neighbors, fitting)
    for newcomer, vector in enumerate(vectors):
        own = torch.from_numpy(place == newcomer)
        if not isinstance(geometry, Projected):
            assert geometry.distance(heads, relations, tails).abs().max() < 1e-4
            close(vector, geometry.constrained(fitting[own].mean(dim=0, keepdim=True))[0])
            continue
        # The least-squares vector: no step to any side lowers the cost.
        moved = vector.double().expand(int(own.sum()), -1).clone().requires_grad_()
        seen, there = relations[own].double(), neighbors[own].double()
        wanted = torch.where(is_head[own], geometry.solve_head(seen, there), geometry.solve_tail(there, seen))
        cost = (geometry.project(moved, seen) - wanted).square().sum(dim=1).mean()
        cost = cost + geometry.ridge * (moved.mean(dim=0) - fitting[own].double().mean(dim=0)).square().sum()
        close(torch.autograd.grad(cost, moved)[0].sum(dim=0), torch.zeros(DIM))


@every_model
def test_answers_to_questions_and_claims(geometry: Geometry) -> None:
    model = model_of(geometry)
    embedding = model.embedding
    new = [] if is_refused(geometry) else ["a", "b"]
    if is_refused(geometry):
        with pytest.raises(OokgError, match="does not determine the vector"):
            model.predict(ALONE, relation="r1", head="a", weights=Uniform())
        with pytest.raises(OokgError, match="does not determine the vector"):
            model.extend(ALONE, weights=Uniform()).predict(relation="r1", head="a")
    given = ALONE if new else []
    extended = model.extend(given, weights=Uniform())
    everything = AnswerOptions(combine=False, top=100, drop_known=False)
    for label, asks_tail in product(("e3", *new), (True, False)):
        head, tail = (label, None) if asks_tail else (None, label)
        row = embedding.relations[model.relations.find("r1")]
        expected = -distances(embedding, extended.vector(label), row, asks_tail=asks_tail)
        asked = model.predict(
            given,
            relation="r1",
            head=head,
            tail=tail,
            weights=Uniform(),
            combine=False,
            top=100,
            known_answers="mark",
        )
        again = extended.predict(relation="r1", head=head, tail=tail, options=everything)
        for answers in (asked.answers, again.answers):
            scores = {answer.entity: answer.score for answer in answers}
            known = model.entities.labels.to_pylist()
            others = [place for place, name in enumerate(known) if name != label]  # no entity is its own answer
            assert label not in scores
            close([scores[known[place]] for place in others], expected[others])
            claims = np.array(
                [
                    [extended.entities.find(name) for name in ((label, other) if asks_tail else (other, label))]
                    for other in scores
                ]
            )
            triples = np.stack([claims[:, 0], np.full(len(claims), model.relations.find("r1")), claims[:, 1]], axis=1)
            close(list(scores.values()), extended.scores(triples))
    valid = as_triples([(*triple, "1") for triple in list(GRAPH)[:9]])
    verdicts = model.classify(list(GRAPH), valid=valid, given=given).claims
    heads, relations, tails = torch.from_numpy(GRAPH.encoded(model.entities, model.relations)).T
    expected = -geometry.distance(embedding.entities[heads], embedding.relations[relations], embedding.entities[tails])
    close([verdict.score for verdict in verdicts], expected)


@every_model
def test_ranks_and_gaps_to_all(geometry: Geometry) -> None:
    embedding = random_embedding(geometry)
    rng = np.random.default_rng(3)
    entity, relation, answer = (rng.integers(0, size, 30) for size in (NUM_KNOWN, NUM_RELATIONS, NUM_KNOWN))
    queries = Queries(entity, relation, answer, np.arange(30) % 2 == 0)
    vectors = embedding.entities[torch.from_numpy(entity)]
    offsets = np.arange(31)
    others = AnswerIndex(rng.integers(0, NUM_KNOWN, 30), offsets)
    counts = query_rank_counts(embedding, vectors, queries, others)
    newcomers = newcomers_of(model_of(geometry), [])
    tables = TranslationScorer(replace(newcomers, embedding=embedding)).answer_scores(queries)
    for query in range(30):
        asks_tail = bool(queries.asks_tail[query])
        row = embedding.relations[relation[query]]
        expected = distances(embedding, vectors[query], row, asks_tail=asks_tail)
        close(-tables[query], expected)
        rivals = np.delete(np.arange(NUM_KNOWN), np.unique([answer[query], others.answers[query]]))
        assert counts.better[query] == int((expected[rivals] < expected[answer[query]]).sum())
        assert counts.equal[query] == 0
        seen = embedding.seen_by(int(relation[query]))
        solve = geometry.solve_tail(vectors[query], row) if asks_tail else geometry.solve_head(row, vectors[query])
        close(gaps_to_all(seen, solve[None])[0], expected)


@every_model
def test_newcomers_that_are_tied_to_newcomers(geometry: Geometry) -> None:
    model = model_of(geometry)
    found = newcomers_of(model, ALONE + TIED)
    if not geometry.solves_together:
        assert len(found.unused.between_newcomers) == len(TIED)
        assert found.representable.tolist() == [True, True, False]
        with pytest.raises(InputError, match="has no usable neighbour"):
            model.extend(ALONE + TIED, weights=Uniform()).predict(relation="r0", head="c")
        points = FixedPoints(found.embedding, np.array([0]), found.embedding.entities[:0])
        zero, no = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
        with pytest.raises(InputError, match="does not say how newcomers are solved together"):
            System(points, zero, zero + 1, zero, no, np.ones(1), 1).solution()
        return
    assert found.representable.all()
    if geometry.constrained(torch.ones(1, geometry.entity_width)).ne(1).any():
        return  # scaled to length 1, a mean is no mean any more
    # Each vector is the mean of what its triples say, the other newcomers' vectors given.
    vectors, embedding = dict(zip("abc", found.vectors(np.arange(3)), strict=True)), found.embedding
    for name, vector in vectors.items():
        told = []
        for head, label, tail in ALONE + TIED:
            relation = embedding.relations[model.relations.find(label)]
            if name == head:
                other = vectors[tail] if tail in vectors else embedding.entities[model.entities.find(tail)]
                told.append(geometry.solve_head(relation, other))
                assert float(geometry.distance(told[-1], relation, other)) < 1e-4
            elif name == tail:
                other = vectors[head] if head in vectors else embedding.entities[model.entities.find(head)]
                told.append(geometry.solve_tail(other, relation))
        close(vector, torch.stack(told).mean(dim=0))


@every_model
def test_new_relations(geometry: Geometry) -> None:
    model = model_of(geometry)
    extended = model.extend(MADE[:2], weights=Uniform())
    if not geometry.makes_relations:
        with pytest.raises(InputError, match="gives vectors to new entities alone; ask for a trained relation"):
            extended.predict(relation="made", head="e1")
        with pytest.raises(InputError, match="gives vectors to new entities alone; ask for a trained relation"):
            model.predict(MADE[:2], relation="made", head="e1")
        ends = np.arange(2)
        with pytest.raises(InputError, match="has no closed form for new relations"):
            relation_vectors(RelationPairs(model.embedding, model.embedding.entities[:0], ends * 0, ends, ends + 1), 1)
        return
    answers = extended.predict(relation="made", head="e1", options=AnswerOptions(top=100, combine=False)).answers
    row = newcomers_of(model, MADE[:2]).embedding.relations[-1].double()
    entities = model.embedding.entities.double()
    vector = entities[model.entities.find("e1")]
    expected = -distances(replace(model.embedding, entities=entities), vector, row, asks_tail=True)
    close([answer.score for answer in answers], expected[[model.entities.find(answer.entity) for answer in answers]])
    # Of all vectors it moves heads nearest to tails, by squares.
    head, tail = (entities[[model.entities.find(triple[end]) for triple in MADE[:2]]] for end in (0, 2))

    def cost(relation: Tensor) -> float:
        return float((geometry.solve_tail(head, relation.expand(2, -1)) - tail).square().sum())

    for scale in (1e-3, 0.1, 1.0):
        step = torch.randn(row.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        assert cost(row) < cost(row + scale * step)


FIT = RefineSettings(steps=3, margin=4.0, lr=0.05, negatives=5, batch=2, prior=0.1)


@every_model
def test_refinement(geometry: Geometry) -> None:
    model = model_of(geometry)
    if not geometry.can_refine:
        with pytest.raises(InputError, match="refine is for TransE, RotatE, Mirrored and Masked"):
            model.extend(ALONE, refine=FIT)
        start = torch.zeros(2, geometry.entity_width)
        with pytest.raises(InputError, match="refinement is for TransE, RotatE, Mirrored and Masked"):
            refine(model.embedding, newcomers_of(model, ALONE).support, start, FIT)
        return
    if is_refused(geometry):
        with pytest.raises(InputError, match="does not determine the vector"):
            model.extend(ALONE, refine=FIT)
    embedding, support = model.embedding, newcomers_of(model, ALONE).support
    start = geometry.constrained(torch.randn(2, geometry.entity_width, generator=torch.Generator().manual_seed(1)))
    problem = Problem.of(embedding, support, np.arange(2), FIT)
    draws = ReferenceRefinement(embedding, problem, start, FIT)
    vectors, mean, square = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    fastest = fastest_refinement(embedding, problem, start, FIT)
    assert (fastest.name == "reference") == (geometry.kernel is None)
    for step in range(FIT.steps):
        moved = vectors.clone().requires_grad_()
        owners, triples = torch.from_numpy(problem.owners), torch.from_numpy(problem.triples(step))
        negatives, usable = draws.negatives(step, triples, slice(0, len(owners)))
        relation = embedding.relations[torch.from_numpy(problem.relation)[triples]][:, None]
        is_head = torch.from_numpy(problem.is_head)[triples][:, None, None]
        answers = torch.cat([torch.from_numpy(problem.neighbor)[triples][:, None], negatives], dim=1)
        known = embedding.entities[answers]  # (rows, 1 + negatives, entity_width)
        own = moved[owners][:, None].expand(known.shape)
        heads, tails = torch.where(is_head, own, known), torch.where(is_head, known, own)
        found = geometry.distance(heads, relation.expand(*heads.shape[:2], -1), tails)
        positive, negative = found[:, 0], found[:, 1:]
        shares = torch.softmax((-FIT.temperature * negative).masked_fill(~usable, -torch.inf), dim=1).detach()
        losses = -torch.nn.functional.logsigmoid(FIT.margin - positive)
        losses = (losses - (shares * torch.nn.functional.logsigmoid(negative - FIT.margin)).sum(dim=1)) / 2
        loss = sum(losses[owners == newcomer].mean() for newcomer in range(2))
        loss = loss + FIT.prior * (moved - start).square().sum()
        (gradient,) = torch.autograd.grad(loss, moved)
        adam_update(vectors, gradient, mean, square, FIT.rate(step), step + 1)
        vectors = geometry.constrained(vectors)
        fastest(step)
        close(fastest.vectors, vectors)
    close(refine(embedding, support, start, FIT), vectors)


@every_model
def test_adding_and_removing(geometry: Geometry) -> None:
    model = model_of(geometry)
    if is_refused(geometry):
        with pytest.raises(OokgError, match="does not determine the vector"):
            _ = model.extend(ALONE, weights=Uniform()).vectors
        return
    extended = model.extend(ALONE, weights=Uniform())
    before = extended.vectors
    assert before.keys() == {"a", "b"}
    extended.add(TIED)
    assert ("c" in extended.vectors) == geometry.solves_together
    assert any("is not solved for" in note for note in extended.notes) != geometry.solves_together
    extended.remove(TIED)
    embedded = model.embed(ALONE, weights=Uniform())
    for name, vector in extended.vectors.items():
        assert torch.equal(vector, before[name])
        close(vector, embedded.vectors[embedded.entities.index(name)])


@every_model
def test_evaluation(geometry: Geometry) -> None:
    model = model_of(geometry)
    asked = [("a", "r1", "e9"), ("a", "r2", "e8"), ("e7", "r0", "b")]
    dataset = Dataset("toy", "link-prediction", GRAPH, as_triples([]), as_triples(ALONE), as_triples(asked))
    if is_refused(geometry):
        with pytest.raises(OokgError, match="does not determine the vector"):
            ookg.evaluate(model, dataset, weights=Uniform(), protocol="lan")
        return
    found = ookg.evaluate(model, dataset, weights=Uniform(), protocol="lan", combine=False)
    vectors = model.extend(ALONE, weights=Uniform()).vectors
    stated = {tuple(triple) for triple in (*GRAPH, *ALONE, *asked)}
    ranks = []
    for head, relation, tail in asked:
        asks_tail = head in vectors
        answer = tail if asks_tail else head
        row = model.embedding.relations[model.relations.find(relation)]
        distance = distances(model.embedding, vectors[head if asks_tail else tail], row, asks_tail=asks_tail)
        own = distance[model.entities.find(answer)]
        ranks.append(1)
        for other, gap in zip(model.entities.labels.to_pylist(), distance, strict=True):
            triple = (head, relation, other) if asks_tail else (other, relation, tail)
            ranks[-1] += int(gap < own) if triple not in stated else 0
    assert found.to_dict()["mrr"] == pytest.approx(np.mean(1 / np.array(ranks)))


@pytest.mark.parametrize("name", TRAINABLE)
def test_a_registered_model_is_trained_saved_and_read_again(name: str, tmp_path: Path) -> None:
    trained = ookg.train(GRAPH, settings_of(name), device="cpu")
    assert type(trained.embedding.geometry) is GEOMETRIES[name]
    trained.save(tmp_path / "model")
    again = ookg.load(str(tmp_path / "model"))
    assert again.embedding.geometry == trained.embedding.geometry
    question = Question("r0", "e1")
    answers, same = (model.extend().predict_all([question])[0].answers for model in (trained, again))
    assert answers == same


@pytest.mark.parametrize("geometry", TOYS, ids=str)
def test_what_is_not_registered_or_not_known_elsewhere_is_not_written(geometry: Geometry, tmp_path: Path) -> None:
    model = model_of(geometry)
    for form in ("kge", "pykeen"):
        with pytest.raises(InputError, match="is TransE or RotatE; export it as"):
            export(collect(model), form, tmp_path / form)
    if isinstance(geometry, TransE):
        with pytest.raises(InputError, match="is not registered as 'transe'"):
            model.save(tmp_path / "model")
        assert not list(tmp_path.glob("model/data-*"))
        with pytest.raises(InputError, match="is not registered as 'transe'"):
            export(collect(model), "npy", tmp_path / "npy")
        settings = SMALL.changed({"dim": DIM, "steps": 2}).to_dict()
        checkpoint = replace(model.checkpoint, settings=settings)
        with pytest.raises(InputError, match="the stored settings train transe"):
            train_again(checkpoint, checkpoint.triples, NUM_KNOWN, Retraining(), "again")


@every_model
def test_determinacy(geometry: Geometry) -> None:
    embedding = random_embedding(geometry)
    relation, tail = embedding.relations[1].double(), embedding.entities[2].double()
    found = determinacy(geometry, relation, tail)
    if not geometry.projects:
        assert found.solutions == "one"
        assert found.distance < 1e-5
    assert found.moved[0] == pytest.approx(found.moved[3], rel=1e-6) or found.solutions != "infinitely many"


def test_a_model_that_is_no_linear_system_has_no_determinacy() -> None:
    class Bent(Mirrored):
        def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
            return head**3 + relation

    with pytest.raises(InputError, match="no linear system in its head"):
        determinacy(Bent(3), torch.ones(3), torch.tensor([1.0, 2.0, 3.0]))


def test_settings_and_the_command_line_know_what_is_registered(capsys: pytest.CaptureFixture[str]) -> None:
    assert type(TrainingSettings(model="mirrored").geometry) is Mirrored
    with pytest.raises(InputError, match="choose transe or rotate or transh or transr or mirrored or masked or scaled"):
        TrainingSettings(model="distmult")
    with pytest.raises(InputError, match="relation_dim 3 with mirrored; only transr has one"):
        TrainingSettings(model="mirrored", relation_dim=3)
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "transe, rotate, transh, transr, mirrored, masked, scaled" in " ".join(capsys.readouterr().out.split())


def test_the_names_of_models_are_known_without_pytorch() -> None:
    code = "import sys; from ookg.training.settings import TrainingSettings; TrainingSettings(model='transr'); "
    code += "from ookg.models import GEOMETRIES; assert list(GEOMETRIES); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_declarations_of_the_two_models_with_kernels() -> None:
    assert all(geometry.kernel is not None for geometry in (TransE(3), TransE(3, 2), RotatE(3), RotatE(3, 2)))
    assert TransE(3, 3).kernel is None  # a norm that no kernel knows
    assert TransE(3, 2, squared=True, unit_norm=1).kernel == Kernel(
        Move.TRANSLATION, kernel_of(TransE(3, 2)).gap, squared=True, unit_norm=1
    )
    assert kernel_of(RotatE(3, 2)).gap == kernel_of(TransE(3, 2)).gap
    assert kernel_of(RotatE(3)).gap != kernel_of(TransE(3)).gap
