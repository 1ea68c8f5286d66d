"""New entities tied to new entities, and new relations, solved together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import ookg
from ookg.errors import InputError
from ookg.graph.known import KnownGraph
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import as_triples
from ookg.model.model import Model
from ookg.models import Geometry, RotatE, TransE, TransH
from ookg.models.embedding import Embedding
from ookg.newcomers import embedder, system
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.reducer import Correlation, Degree, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings, refine
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import TranslationScorer
from ookg.storage.checkpoint import Checkpoint
from ookg.types import IntArray

KNOWN, NEW, TRAINED, ADDED = 6, 9, 3, 2
BOTH = pytest.mark.parametrize("geometry", [TransE(4), RotatE(4)], ids=str)


class World:
    """Entities and relations with true vectors, of which a part is known; every triple can be made to hold exactly."""

    def __init__(self, geometry: Geometry, dtype: torch.dtype = torch.float64, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.geometry = geometry
        self.relations = torch.randn(TRAINED + ADDED, geometry.relation_width, generator=generator, dtype=dtype)
        self.entities = torch.randn(KNOWN + NEW, geometry.entity_width, generator=generator, dtype=dtype)
        self.embedding = Embedding(geometry, self.entities[:KNOWN].clone(), self.relations[:TRAINED].clone())
        rng = np.random.default_rng(seed)
        self.known: IntArray = np.stack([rng.integers(0, n, 40) for n in (KNOWN, TRAINED, KNOWN)], axis=1)
        self.graph = GraphStatistics.count(self.known, KNOWN, TRAINED)

    def hold(self, given: list[list[int]]) -> None:
        """Move the newcomers so that these triples hold, one after the other: the second end in each is placed."""
        for h, r, t in given:
            if t >= KNOWN:
                self.entities[t] = self.geometry.solve_tail(self.entities[h], self.relations[r])
            else:
                self.entities[h] = self.geometry.solve_head(self.relations[r], self.entities[t])

    def find(self, given: list[list[int]], weights: Weights | None = None, most: int | None = None) -> Newcomers:
        limit = None if most is None else NeighborLimit(most)
        ids = np.array(given, dtype=np.int64).reshape(-1, 3)
        return find_newcomers(self.embedding, self.graph, self.known, ids, weights or Uniform(), limit)

    def newcomer(self, *numbers: int) -> torch.Tensor:
        return self.entities[[KNOWN + number for number in numbers]]


def n(number: int) -> int:
    """The id of a newcomer."""
    return KNOWN + number


@BOTH
@pytest.mark.parametrize("weights", [Uniform(), Degree()], ids=repr)
def test_a_chain_that_holds_is_recovered(geometry: Geometry, weights: Weights) -> None:
    world = World(geometry)
    given = [[0, 0, n(0)], [n(0), 1, n(1)], [n(1), 2, n(2)], [n(2), 0, n(3)]]
    world.hold(given)
    found = world.find(given, weights)
    torch.testing.assert_close(found.vectors(np.arange(4)), world.newcomer(0, 1, 2, 3))
    assert found.representable.all()
    assert found.counts.tolist() == [2, 2, 2, 1]
    assert found.has_vector(np.array([0, n(3), n(4)])).tolist() == [True, True, False]


@BOTH
def test_a_cycle_and_an_end_of_another_direction_that_hold_are_recovered(geometry: Geometry) -> None:
    world = World(geometry)
    world.relations[2] = world.relations[0] + world.relations[1]  # two steps in one, and phases add up as well
    world.embedding.relations[2] = world.relations[2]
    given = [[n(0), 0, 3], [n(0), 0, n(1)], [n(1), 1, n(2)], [n(0), 2, n(2)]]
    world.hold(given[:3])
    given.append([n(3), 1, n(2)])  # n(3) is a head whose only neighbour is two triples away from what is known
    world.entities[n(3)] = geometry.solve_head(world.relations[1], world.entities[n(2)])
    found = world.find(given)
    torch.testing.assert_close(found.vectors(np.arange(4)), world.newcomer(0, 1, 2, 3))


def tangle(rng: np.random.Generator, relations: int = TRAINED) -> list[list[int]]:
    """Random triples of newcomers, which nothing fits exactly; all hang on the known graph."""
    peers = [[n(a), r, n(b)] for a, r, b in zip(*(rng.integers(0, k, 20) for k in (NEW, relations, NEW)), strict=True)]
    chain = [[n(k), int(rng.integers(relations)), n(k + 1)] for k in range(NEW - 1)]
    return [[0, 0, n(0)], [n(0), 1, 2], [n(3), 2, 4], *chain, *(peer for peer in peers if peer[0] != peer[2])]


def dense_solution(world: World, given: list[list[int]], degree: bool) -> torch.Tensor:
    """Weighted means of all candidates, by one dense solve a coordinate."""
    is_rotation = isinstance(world.geometry, RotatE)
    count = np.bincount([end for h, _, t in given for end in (h, t)], minlength=KNOWN + NEW)
    count[:KNOWN] = world.graph.degree
    weight = np.log(count + 0.1) if degree else np.ones(KNOWN + NEW)
    dim = world.geometry.dim
    points = world.entities.numpy()
    numbers = points[:, :dim] + 1j * points[:, dim:] if is_rotation else points.astype(complex)
    solved = np.empty((NEW, dim), dtype=complex)
    for k in range(dim):
        matrix, right = np.eye(NEW, dtype=complex), np.zeros(NEW, dtype=complex)
        total = np.zeros(NEW)
        for h, _, t in given:
            for own, other in ((h, t), (t, h)):
                if own >= KNOWN:
                    total[own - KNOWN] += weight[other]
        for h, r, t in given:
            step = float(world.relations[r, k])
            for own, other, sign in ((h, t, -1), (t, h, 1)):
                if own < KNOWN:
                    continue
                share = weight[other] / total[own - KNOWN]
                turn = np.exp(1j * sign * step) if is_rotation else 1.0
                if not is_rotation:
                    right[own - KNOWN] += share * sign * step
                if other < KNOWN:
                    right[own - KNOWN] += share * turn * numbers[other, k]
                else:
                    matrix[own - KNOWN, other - KNOWN] -= share * turn
        solved[:, k] = np.linalg.solve(matrix, right)
    parts = [solved.real, solved.imag] if is_rotation else [solved.real]
    return torch.from_numpy(np.concatenate(parts, axis=1))


@BOTH
@pytest.mark.parametrize("weights", [Uniform(), Degree()], ids=repr)
@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_the_solution_equals_a_dense_one(
    geometry: Geometry, weights: Weights, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "CHUNK_NUMBERS", chunk)
    world = World(geometry)
    given = tangle(np.random.default_rng(1))
    found = world.find(given, weights).vectors(np.arange(NEW))
    torch.testing.assert_close(found, dense_solution(world, given, isinstance(weights, Degree)))


@BOTH
def test_each_vector_is_the_mean_of_its_candidates_for_any_query(geometry: Geometry) -> None:
    world = World(geometry)
    given = tangle(np.random.default_rng(2))
    found = world.find(given, Correlation(4))
    free = world.find(given, Uniform()).vectors(np.arange(NEW))
    graph = world.graph.with_given(world.known, np.array(given), KNOWN)
    for newcomer, query in ((0, 0), (3, 1), (7, 2)):
        made, total = torch.zeros(geometry.entity_width, dtype=torch.float64), 0.0
        for h, r, t in given:
            weight = float(graph.correlation(np.array([r]), np.array([query]))[0] / 2) ** 4
            for own, other, is_head in ((h, t, True), (t, h, False)):
                if own == n(newcomer):
                    point = world.embedding.entities[other] if other < KNOWN else free[other - KNOWN]
                    relation = world.relations[r]
                    candidate = (
                        geometry.solve_head(relation, point) if is_head else geometry.solve_tail(point, relation)
                    )
                    made, total = made + weight * candidate, total + weight
        vector = found.vectors(np.array([newcomer]), np.array([query]))[0]
        torch.testing.assert_close(vector, made / total)
        shares = found.row_weights(np.array([newcomer]), np.array([query])).sum()
        assert shares + found.peer_weights(np.array([newcomer]), np.array([query])).sum() == pytest.approx(1)


@BOTH
@pytest.mark.parametrize("weights", [Uniform(), Degree(), Correlation()], ids=repr)
@pytest.mark.parametrize("kernel", [True, False])
def test_newcomers_without_peers_keep_their_bits(
    geometry: Geometry, weights: Weights, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:
        monkeypatch.setattr(embedder, "fastest_reduction", lambda _: embedder.reference_sums)
    world = World(geometry, torch.float32)
    plain = [[0, 0, n(0)], [n(0), 1, 3], [2, 2, n(1)], [n(1), 0, 5], [4, 1, n(1)]]
    added = [[1, 0, n(2)], [n(2), 1, n(3)], [n(3), TRAINED, n(2)], [0, TRAINED + 1, 1]]
    alone, among = world.find(plain, weights), world.find([*added, *plain], weights)
    assert alone.together is None
    for query in range(TRAINED):
        if weights.needs_query:
            # The co-occurrence of relations is counted on all given triples, by the query as well.
            among = replace(among, graph=alone.graph)
        asked = np.full(2, query)
        assert torch.equal(alone.vectors(np.arange(2), asked), among.vectors(np.arange(2), asked))


def test_known_vectors_do_not_move() -> None:
    world = World(TransE(4), torch.float32)
    before = world.embedding.entities.clone(), world.embedding.relations.clone()
    given = [*tangle(np.random.default_rng(3), TRAINED + ADDED), [0, TRAINED, 1], [1, TRAINED + 1, 2]]
    found = world.find(given).refined_by(RefineSettings(steps=20, negatives=4, lr=0.05))
    assert torch.equal(world.embedding.entities, before[0])
    assert torch.equal(world.embedding.relations, before[1])
    assert torch.equal(found.embedding.relations[:TRAINED], before[1])
    assert found.embedding.entities is world.embedding.entities


def test_a_component_without_a_known_neighbour_gets_no_vector() -> None:
    world = World(TransE(4))
    given = [[0, 0, n(0)], [n(1), 0, n(2)], [n(2), 1, n(3)], [n(3), 1, n(3)]]
    found = world.find(given)
    assert found.representable.tolist() == [True, False, False, False]
    assert found.unused.between_newcomers.tolist() == [1, 2]
    assert found.unused.self_loops.tolist() == [3]
    assert found.vectors(np.arange(1, 4)).isnan().all()
    assert np.isnan(found.scores(np.array([[n(1), 0, 0], [n(2), 1, n(3)]]))).all()


@BOTH
def test_a_self_loop_changes_no_vector(geometry: Geometry) -> None:
    world = World(geometry)
    given = [[0, 0, n(0)], [n(0), 1, n(1)], [n(1), 2, 3]]
    found = world.find([*given, [n(0), 2, n(0)], [n(1), 2, n(1)]])
    assert torch.equal(found.vectors(np.arange(2)), world.find(given).vectors(np.arange(2)))
    assert found.unused.self_loops.tolist() == [3, 4]


@BOTH
def test_the_order_of_triples_and_numbers_does_not_matter(geometry: Geometry) -> None:
    world = World(geometry)
    given = [*tangle(np.random.default_rng(4), TRAINED + 1), [0, TRAINED, 3], [2, TRAINED, 5]]
    first = world.find(given).vectors(np.arange(NEW))
    torch.testing.assert_close(world.find(given[::-1]).vectors(np.arange(NEW)), first)

    def mirrored(entity: int) -> int:
        return entity if entity < KNOWN else n(NEW - 1 - (entity - KNOWN))

    turned = [[mirrored(h), r, mirrored(t)] for h, r, t in given]
    torch.testing.assert_close(world.find(turned).vectors(np.arange(NEW)).flip(0), first)


def test_a_limit_leaves_every_newcomer_a_way_to_the_known_graph() -> None:
    world = World(TransE(4))
    given = [*tangle(np.random.default_rng(5)), [n(0), 0, 1], [n(0), 2, 1]]
    found = world.find(given, most=1)
    assert found.together is not None
    assert found.representable.all()
    assert found.support.counts.tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert torch.isfinite(found.vectors(np.arange(NEW))).all()
    assert len(found.together.peers.newcomer) < 2 * (len(given) - 5)
    again = world.find(given, most=1)
    assert torch.equal(found.vectors(np.arange(NEW)), again.vectors(np.arange(NEW)))


@BOTH
def test_a_new_relation_is_recovered_and_works_like_a_trained_one(geometry: Geometry) -> None:
    world = World(geometry)
    r = TRAINED
    # From two known ends, from a newcomer, then a newcomer that hangs on it, and one behind that.
    given = [[0, 0, n(0)], [n(0), r, n(1)], [1, 1, n(1)], [n(2), r, 3], [n(2), 2, n(3)]]
    world.relations[r] = 0.5
    world.hold([[0, 0, n(0)], [n(0), r, n(1)]])
    world.embedding.entities[1] = world.entities[1] = geometry.solve_head(world.relations[1], world.entities[n(1)])
    world.hold([[n(2), r, 3], [n(2), 2, n(3)]])
    found = world.find(given)
    torch.testing.assert_close(found.embedding.relations[r], world.relations[r])
    torch.testing.assert_close(found.vectors(np.arange(4)), world.newcomer(0, 1, 2, 3))
    assert found.has_relation(np.array([0, r, r + 1, -1])).tolist() == [True, True, False, False]
    np.testing.assert_allclose(found.scores(np.array([[n(2), r, 3], [n(0), r, n(1)]])), 0, atol=1e-6)
    assert not any(map(len, vars(found.unused).values()))


def test_a_new_relation_between_known_entities_is_the_mean_of_their_differences() -> None:
    world = World(TransE(4))
    r = TRAINED
    found = world.find([[0, r, 1], [2, r, 3], [4, 0, 5]])
    entities = world.embedding.entities
    torch.testing.assert_close(
        found.embedding.relations[r], (entities[1] - entities[0] + entities[3] - entities[2]) / 2
    )
    assert found.unused.without_newcomer.tolist() == [2]


def test_a_new_rotation_is_the_angle_that_fits_best() -> None:
    world = World(RotatE(2))
    found = world.find([[0, TRAINED, 1], [2, TRAINED, 3]]).embedding.relations[TRAINED]
    heads, tails = world.embedding.entities[[0, 2]], world.embedding.entities[[1, 3]]
    for k in range(2):
        angles = torch.linspace(-torch.pi, torch.pi, 100_001, dtype=torch.float64)
        turned = torch.complex(heads[:, k], heads[:, k + 2])[:, None] * torch.exp(1j * angles)
        costs = (turned - torch.complex(tails[:, k], tails[:, k + 2])[:, None]).abs().square().sum(dim=0)
        assert float(found[k]) == pytest.approx(float(angles[costs.argmin()]), abs=1e-4)


def test_a_triple_that_alone_makes_its_relation_is_no_candidate() -> None:
    world = World(TransE(4))
    given = [[0, 0, n(0)], [n(0), 1, 2]]
    found = world.find([*given, [n(0), TRAINED, 4]])
    torch.testing.assert_close(found.vectors(np.arange(1)), world.find(given).vectors(np.arange(1)))
    assert found.counts.tolist() == [2]
    assert found.has_relation(np.array([TRAINED])).all()
    among = world.find([*given, [n(0), TRAINED, 4], [1, TRAINED, 5]])
    assert among.counts.tolist() == [3]


def test_what_hangs_on_itself_stays_without_a_vector() -> None:
    world = World(TransE(4))
    r = TRAINED
    found = world.find([[0, r, n(0)], [n(0), r, n(1)], [n(2), r + 1, n(0)], [0, 0, n(3)]])
    assert found.representable.tolist() == [False, False, False, True]
    assert found.unused.untrained_relation.tolist() == [0, 1, 2]
    assert found.has_relation(np.array([r, r + 1])).tolist() == [False, False]
    queries = Queries(np.array([n(3), n(3)]), np.array([0, r]), np.array([1, 1]), np.array([True, True]))
    assert TranslationScorer(found.with_room_for(6)).answerable(queries).tolist() == [True, False]


def test_relations_that_hang_on_newcomers_that_hang_on_relations() -> None:
    world = World(TransE(4))
    r, q = TRAINED, TRAINED + 1
    given = [[0, r, n(0)], [n(0), q, n(1)], [n(1), 0, 2], [n(2), q, 3], [4, r, 5]]
    world.embedding.entities[5] = world.entities[5] = world.entities[4] + world.relations[r]
    world.hold([[0, r, n(0)], [n(0), q, n(1)]])
    world.embedding.entities[2] = world.entities[2] = world.entities[n(1)] + world.relations[0]
    world.hold([[n(2), q, 3]])
    found = world.find(given)
    torch.testing.assert_close(found.embedding.relations[[r, q]], world.relations[[r, q]])
    torch.testing.assert_close(found.vectors(np.arange(3)), world.newcomer(0, 1, 2))


def test_untrained_relations_without_a_number_stay_unused() -> None:
    found = World(TransE(4)).find([[0, -1, n(0)], [n(0), -1, n(1)], [0, 0, n(1)]])
    assert found.together is None
    assert found.unused.untrained_relation.tolist() == [0, 1]
    assert found.representable.tolist() == [False, True]


def test_projected_models_stay_with_known_neighbours() -> None:
    world = World(TransH(4))
    found = world.find([[0, 0, n(0)], [n(0), 1, n(1)], [1, TRAINED, n(0)], [0, TRAINED, 1]])
    assert found.together is None
    assert found.representable.tolist() == [True, False]
    assert found.unused.between_newcomers.tolist() == [1]
    assert found.unused.untrained_relation.tolist() == [2]


@BOTH
def test_refining_fits_relations_and_solves_the_rest_anew(geometry: Geometry) -> None:
    world = World(geometry, torch.float32)
    r = TRAINED
    given = [[0, 0, n(0)], [n(0), 1, 3], [n(0), 2, n(1)], [n(2), r, n(1)], [n(0), r, 4], [5, r, 2], [n(8), 0, n(7)]]
    closed = world.find(given)
    settings = RefineSettings(steps=60, negatives=4, lr=0.02, margin=6.0)
    found = closed.refined_by(settings)
    again = closed.refined_by(settings)
    assert found.refined is not None
    assert again.refined is not None
    assert torch.equal(found.refined.nan_to_num(7.0), again.refined.nan_to_num(7.0))
    assert torch.equal(found.embedding.relations, again.embedding.relations)
    vectors = found.vectors(np.arange(9))
    assert torch.isfinite(vectors[:3]).all()
    assert vectors[3:].isnan().all()
    # The first is fitted to its known neighbours over trained relations as if it were alone.
    alone = world.find(given[:2])
    start = closed.vectors(np.arange(1))
    expected = refine(world.embedding, alone.support, start, settings)
    assert torch.equal(vectors[:1], expected)
    # The others follow from it: each is where its triple puts it.
    torch.testing.assert_close(vectors[1], geometry.solve_tail(vectors[0], world.relations[2]))
    torch.testing.assert_close(vectors[2], geometry.solve_head(found.embedding.relations[r], vectors[1]))
    assert not torch.equal(found.embedding.relations[r], closed.embedding.relations[r])


def test_fitting_a_relation_lowers_the_distance_of_its_triples_against_others() -> None:
    world = World(TransE(4), torch.float32)
    given = [[h, TRAINED, t] for h, t in ((0, 1), (2, 3), (4, 5), (1, 4))]
    triples = np.array(given)
    closed = world.find([*given, [0, 0, n(0)]])
    found = closed.refined_by(RefineSettings(steps=200, negatives=6, lr=0.02, margin=2.0))
    others = np.array([[h, TRAINED, t] for h in range(KNOWN) for t in range(KNOWN) if [h, TRAINED, t] not in given])

    def contrast(newcomers: Newcomers) -> float:
        return float(newcomers.scores(triples).mean() - newcomers.scores(others).mean())

    assert contrast(found) > contrast(closed)


@pytest.fixture
def towns() -> Model:
    """Towns on a line: a at 0, b at 1, c at 2, d at 5; `next` is one step to the right, `far` is five."""
    triples = as_triples([("a", "next", "b"), ("b", "next", "c"), ("a", "far", "d")])
    place, step = {"a": 0.0, "b": 1.0, "c": 2.0, "d": 5.0}, {"next": 1.0, "far": 5.0}
    entities = torch.tensor([[place[label]] for label in triples.entities.labels.to_pylist()])
    relations = torch.tensor([[step[label]] for label in triples.relations.labels.to_pylist()])
    embedding = Embedding(TransE(1), entities, relations)
    graph = KnownGraph(triples.ids, 4, 2)
    return Model(Checkpoint(embedding, triples.entities, triples.relations, graph, {}, {}))


def test_a_model_embeds_and_names_what_it_made(towns: Model) -> None:
    given = [
        ("x", "next", "a"),
        ("x", "next", "a"),  # a duplicate counts once
        ("y", "next", "x"),
        ("y", "next", "x"),
        ("b", "skips", "d"),
        ("c", "skips", "z"),
        ("p", "next", "q"),
        ("a", "loves", "l"),
    ]
    found = towns.embed(given, weights=ookg.Uniform())
    assert dict(zip(found.entities, found.vectors[:, 0].tolist(), strict=True)) == {"x": -1.0, "y": -2.0, "z": 6.0}
    assert found.neighbors.tolist() == [2, 1, 1]
    assert sorted(found.without_vector) == ["l", "p", "q"]
    text = " | ".join(found.notes)
    assert "2 duplicate triples dropped" in text
    assert "1 triple not used, between new entities that nothing ties to the known graph (p next q)" in text
    assert "1 triple not used, over a relation without a vector: none of its triples has two ends" in text
    assert "1 new relation with a vector made of given triples (skips)" in text
    assert "3 new entities without a usable neighbour" in text


def test_a_model_predicts_over_a_new_relation_with_peers_as_reasons(towns: Model) -> None:
    given = [("x", "next", "a"), ("y", "next", "x"), ("b", "skips", "d"), ("a", "loves", "l")]
    found = towns.predict(given, head="y", relation="skips", weights=ookg.Uniform(), top=2)
    assert [answer.entity for answer in found.answers] == ["c", "b"]  # y at -2, four steps further is 2
    reasons = [(reason.entity, reason.relation, reason.direction, reason.weight) for reason in found.explanation]
    assert reasons == [("x", "next", "out", 1.0)]
    both = towns.predict(given, head="x", relation="skips").explanation
    assert {(reason.entity, reason.direction) for reason in both} == {("a", "out"), ("y", "in")}
    assert sum(reason.weight for reason in both) == pytest.approx(1)
    with pytest.raises(InputError, match="relation 'loves' is new and has no vector; give a triple of it whose two"):
        towns.predict(given, head="y", relation="loves")
    with pytest.raises(InputError, match="unknown relation 'skip'; did you mean 'skips'"):
        towns.predict(given, head="y", relation="skip")


def test_a_model_judges_claims_over_a_new_relation_by_the_common_threshold(towns: Model) -> None:
    valid = [("a", "next", "b", "1"), ("a", "next", "d", "0"), ("a", "far", "d", "1"), ("b", "far", "a", "0")]
    given = [("y", "next", "x"), ("x", "next", "a"), ("b", "skips", "d")]
    claims = [("y", "skips", "c"), ("y", "skips", "d"), ("a", "loves", "b")]
    found = towns.classify(claims, valid=valid, given=given)
    assert [claim.verdict for claim in found.claims] == [True, False, None]
    assert found.thresholds is not None
    assert found.claims[0].threshold == found.thresholds.overall
    assert found.claims[2].threshold is None


def test_evaluation_gives_new_relations_no_vector_unless_asked(towns: Model) -> None:
    given = [("x", "next", "a"), ("b", "skips", "d"), ("c", "skips", "z")]
    kept = towns.given(given, Uniform())
    assert kept.newcomers.embedding.num_relations == 2
    assert kept.newcomers.representable.tolist() == [True, False]
    assert towns.given(given, Uniform(), new_relations=True).newcomers.representable.all()
