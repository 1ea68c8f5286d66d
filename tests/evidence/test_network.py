"""The network as a kind of evidence: against a slow reference, on graphs that grow, and trained on a planted one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.combined import GraphEvidence, RankingWeights, combined_scores, standardised
from ookg.evidence.learned import LEAST, LearnedWhy
from ookg.evidence.network import AnswerNetwork, Network
from ookg.evidence.source import Asked
from ookg.graph.grown import Triple
from ookg.graph.index import GraphIndex
from ookg.graph.linked import graph_alone
from ookg.scoring.queries import Queries
from ookg.training.network import WIDTH, NetworkGraph, NetworkSettings, Questions, RelationNetwork
from ookg.training.network_training import train_network
from ookg.types import FloatArray, IntArray

KNOWN, NEW, RELATIONS = 16, 4, 3
NOTHING = np.empty((0, 3), dtype=np.int64)


def random_triples(seed: int, entities: int, size: int, relations: int = RELATIONS) -> IntArray:
    drawn = np.random.default_rng(seed).integers(0, [entities, relations, entities], size=(size, 3))
    return np.unique(drawn, axis=0)


def world(seed: int, relations: int = RELATIONS) -> tuple[IntArray, IntArray]:
    """Known triples, and others of known and new entities."""
    known, given = random_triples(seed, KNOWN, 26, relations), random_triples(seed + 50, KNOWN + NEW, 24, relations)
    known = np.unique(np.concatenate([known, [[KNOWN - 1, 0, 0]]]), axis=0)
    stated = {tuple(row) for row in known.tolist()}
    return known, np.array([row for row in given.tolist() if tuple(row) not in stated])


def untrained(seed: int = 0, relations: int = RELATIONS) -> RelationNetwork:
    """Parameters that make a difference everywhere."""
    network = RelationNetwork(2 * relations, seed)
    random = torch.Generator().manual_seed(seed + 1)
    for one in network.parameters():
        one.data += 0.2 * torch.randn(one.shape, generator=random)
    return network.requires_grad_(False).eval()


def asked_of(entities: int = KNOWN + NEW + 1, relations: int = RELATIONS) -> list[Asked]:
    return [Asked(e, r, tail) for e in range(entities) for r in range(relations) for tail in (True, False)]


def as_triples(rows: IntArray) -> list[Triple]:
    return [(head, relation, tail) for head, relation, tail in rows.tolist()]


def grown(known: IntArray, given: IntArray, network: RelationNetwork, relations: int = RELATIONS) -> GraphEvidence:
    """Given triples come one by one."""
    graph = graph_alone(known, relations)
    evidence = GraphEvidence.count(known, NOTHING, relations, network=AnswerNetwork(network)).beside(graph)
    assert isinstance(evidence["network"], Network)
    for number, triple in enumerate(as_triples(given)):
        graph = graph.plus(triple, number)
        evidence = evidence.plus(triple, graph)
    return evidence


def everything(evidence: GraphEvidence, relations: int = RELATIONS) -> FloatArray:
    """(questions, entities) the evidence for every answer to every question."""
    source = evidence["network"]
    rows = [source.of_question(asked).row(KNOWN + NEW) for asked in asked_of(relations=relations)]
    return torch.cat(rows).double().numpy()


def reference(network: RelationNetwork, triples: IntArray, asked: Asked, like_new: int) -> dict[int, float]:
    """The evidence for all that is reached or has been an answer, written out link by link.

    like_new: the rank of the known answer that new ones are on a level with
    """
    links: dict[int, list[tuple[int, int]]] = {}
    stood: Counter[int] = Counter()
    own: list[tuple[int, int]] = []
    for head, relation, tail in as_triples(triples):
        if relation >= network.num_relations:
            continue
        for one, code, other in ((head, 2 * relation, tail), (tail, 2 * relation + 1, head)):
            if one == asked.entity and other != asked.entity:
                own.append((code, other))
            elif asked.entity not in (one, other):
                links.setdefault(one, []).append((code, other))
                if code == asked.code:
                    stood[other] += 1
    if not own:
        return {}
    q = network.asked[asked.code]

    def weight(name: str, code: int) -> Tensor:
        by_asked: Tensor = network.by_asked[name].view(-1, WIDTH, WIDTH)[code]
        alone: Tensor = network.alone[name].view(-1, WIDTH)[code]
        return by_asked @ q + alone

    def layer(step: int, state: Tensor, arrived: Tensor, degree: int) -> Tensor:
        seen = torch.cat([state, torch.asinh(arrived), arrived / max(1, degree)])
        mixed = network.mix[step] @ seen + network.shift[step]
        mixed = (mixed - mixed.mean()) / torch.sqrt(mixed.var(correction=0) + 1e-5)
        return state + torch.relu(mixed * network.scale[step] + network.offset[step])

    zero = torch.zeros(WIDTH)
    start: dict[int, Tensor] = {}
    for code, other in own:
        start[other] = start.get(other, zero) + weight("start", code)
    reached = {*start, *(far for near in start for _, far in links.get(near, []))}
    states = {}
    for entity in reached:
        arrived = start.get(entity, zero)
        for code, far in links.get(entity, []):
            arrived = arrived + start.get(far, zero) * weight("first", code ^ 1)
        states[entity] = layer(0, start.get(entity, zero), arrived, len(links.get(entity, [])))
    untouched = layer(0, zero, zero, 1)
    answers = {*reached, *stood, *(far for near in reached for _, far in links.get(near, []))}
    answers = {answer for answer in answers if answer < KNOWN}
    scores = {}
    for answer in answers:
        arrived = start.get(answer, zero)
        for code, far in links.get(answer, []):
            arrived = arrived + states.get(far, untouched) * weight("second", code ^ 1)
        degree = len(links.get(answer, []))
        state = layer(1, states.get(answer, untouched), arrived, degree)
        facts = [np.log1p(stood[answer]), answer in start, 0.1 * np.log(max(1, degree))]
        features = torch.cat([state, q, torch.tensor(facts, dtype=torch.float32)])
        units = torch.relu(network.readout @ features + network.readout_bias)
        scores[answer] = float(network.out[0] @ units)
    if not scores:
        return {}
    total = np.log(sum(np.exp(score) for score in scores.values()))
    values = {answer: float(score - total + LEAST) for answer, score in scores.items() if score - total + LEAST > 0}
    if len(values) < like_new:
        return values
    level = sorted(values.values(), reverse=True)[like_new - 1]
    return values | {new: level for new in range(KNOWN, KNOWN + NEW) if new != asked.entity}


@pytest.mark.parametrize(("seed", "like_new"), [(0, 50), (1, 5), (2, 2)])
def test_it_says_what_the_equations_say_about_known_and_new_entities(
    seed: int, like_new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ookg.evidence.learned.LIKE_NEW", like_new)
    known, given = world(seed)
    network = untrained(seed)
    source = GraphEvidence.count(known, given, RELATIONS, network=AnswerNetwork(network))["network"]
    together = np.concatenate([known, given])
    spoken = 0
    for asked in asked_of()[seed::3]:
        expected = reference(network, together, asked, like_new)
        said = source.of_question(asked)
        everyone = np.arange(KNOWN + NEW)
        values = [expected.get(one, 0.0) for one in everyone.tolist()]
        np.testing.assert_allclose(said.of(everyone), values, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(said.row(KNOWN + NEW)[0], values, rtol=1e-3, atol=1e-3)
        assert all(why is None for why in said.why(everyone[KNOWN:]))
        spoken += len(expected)
    assert spoken > 100


def test_asking_and_training_compute_the_same() -> None:
    known = random_triples(3, KNOWN, 60)
    network = untrained(3)
    index = GraphIndex.of(known, KNOWN, RELATIONS)
    graph = NetworkGraph.of(index)
    evidence = GraphEvidence.of_version(lambda: known, index, None, AnswerNetwork(network))
    for asked in asked_of(KNOWN):
        rows = graph.rows_of(torch.tensor([asked.entity]))[0]
        apart = rows[graph.other[rows] != asked.entity]
        entity, code = torch.tensor([asked.entity]), torch.tensor([asked.code])
        zeros = torch.zeros(len(apart), dtype=torch.int64)
        logits = network(graph, Questions(entity, code, zeros, graph.link[apart], graph.other[apart]))
        said = evidence["network"].of_question(asked)
        if not len(apart):
            assert not len(said.entities)
            continue
        expected = logits[torch.from_numpy(said.entities)].double().numpy()
        np.testing.assert_allclose(said.values - said.values[0], expected - expected[0], atol=2e-4)


def test_nothing_of_the_asked_entity_is_left_in_the_graph() -> None:
    known = random_triples(4, KNOWN, 60)
    known = known[known[:, 0] != known[:, 2]]
    network, entity = untrained(4), 5
    mine = (known[:, [0, 2]] == entity).any(axis=1)
    moved = np.where(known[mine] == entity, [KNOWN, 0, KNOWN], known[mine])
    moved[:, 1] = known[mine, 1]
    index, without = (GraphIndex.of(rows, KNOWN, RELATIONS) for rows in (known, known[~mine]))
    there = GraphEvidence.of_version(lambda: known, index, None, AnswerNetwork(network))
    graph = graph_alone(NOTHING, RELATIONS, without)
    for number, triple in enumerate(as_triples(moved)):
        graph = graph.plus(triple, number)
    new = GraphEvidence.of_version(lambda: known[~mine], without, None, AnswerNetwork(network)).beside(graph)
    for relation in range(RELATIONS):
        for asks_tail in (True, False):
            one = there["network"].of_question(Asked(entity, relation, asks_tail))
            other = new["network"].of_question(Asked(KNOWN, relation, asks_tail))
            assert len(one.entities) > 5
            np.testing.assert_array_equal(one.entities, other.entities)
            np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.parametrize("seed", range(2))
def test_given_triples_are_read_as_known_ones_however_they_came(seed: int) -> None:
    known, given = world(seed)
    network = untrained(seed)
    together = everything(GraphEvidence.count(known, given, RELATIONS, network=AnswerNetwork(network)))
    assert (together > 0).sum() > 100
    alone = GraphEvidence.count(known, NOTHING, RELATIONS, network=AnswerNetwork(network))
    one_by_one = grown(known, given, network)
    for evidence in (
        one_by_one,
        alone.with_given(given, RELATIONS),
        alone.beside(one_by_one.graph),
        GraphEvidence.count(known, given[::2], RELATIONS, network=AnswerNetwork(network)).with_given(
            given[1::2], RELATIONS
        ),
    ):
        np.testing.assert_array_equal(everything(evidence), together)
    assert (everything(alone) != together).any()


def test_a_given_triple_that_is_known_already_changes_nothing() -> None:
    known, given = world(2)
    network = untrained(2)
    repeated = np.concatenate([given, known[:5]])
    source, other = (grown(known, rows, network)["network"] for rows in (repeated, given))
    assert isinstance(source, Network)
    assert isinstance(other, Network)
    for mine, theirs in zip(source._given, other._given, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_taking_out_is_the_exact_inverse() -> None:
    known, given = world(3)
    network = untrained(3)
    evidence = grown(known, given, network)
    for triple in as_triples(given[8:])[::-1]:
        evidence = evidence.minus(triple, evidence.graph.minus(triple))
    np.testing.assert_array_equal(everything(evidence), everything(grown(known, given[:8], network)))


def test_what_is_sorted_is_kept_up_one_by_one() -> None:
    known, given = world(4)
    given = np.concatenate([given, [[KNOWN, 1, KNOWN]]])  # a loop too
    graph, network = graph_alone(known, RELATIONS), untrained()
    evidence = GraphEvidence.count(known, NOTHING, RELATIONS, network=AnswerNetwork(network)).beside(graph)

    def check(evidence: GraphEvidence) -> None:
        source = evidence["network"]
        assert isinstance(source, Network)
        anew = Network(source.graph, source.ends, source.num_known, network)
        for mine, theirs in zip(source._given, anew._given, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert source._size == anew._size

    check(evidence)
    rows = as_triples(np.random.default_rng(0).permutation(np.concatenate([given, known[:3]])))
    for number, triple in enumerate(rows):
        graph = graph.plus(triple, number)
        evidence = evidence.plus(triple, graph)
        check(evidence)
    assert len(rows) > 20
    for triple in rows[::2] + rows[1::2]:
        graph = graph.minus(triple)
        evidence = evidence.minus(triple, graph)
        check(evidence)


def test_a_question_answers_and_claims_agree_exactly() -> None:
    known, given = world(5)
    for evidence in (
        GraphEvidence.count(known, given, RELATIONS, network=AnswerNetwork(untrained())),
        grown(known, given, untrained()),
    ):
        source = evidence["network"]
        every = asked_of()
        columns = zip(*((one.entity, one.relation, one.asks_tail) for one in every), strict=True)
        entity, relation, asks_tail = (np.array(column) for column in columns)
        queries = Queries(entity, relation, np.full(len(every), -1), asks_tail)
        for size in (KNOWN, KNOWN + NEW):
            batch = source.of_answers(queries, size, "cpu")
            assert torch.equal(batch, torch.cat([source.of_question(asked).row(size) for asked in every]))
        everyone = np.arange(KNOWN + NEW)
        for asked, row in list(zip(every, batch, strict=True))[::7]:
            ends = [np.full_like(everyone, asked.entity), np.full_like(everyone, asked.relation), everyone]
            claims = np.stack(ends if asked.asks_tail else ends[::-1], axis=1)
            said = source.as_answers(source.of_claims(claims), asks_tail=asked.asks_tail)
            np.testing.assert_array_equal(said, row.double().numpy())


def test_any_ids_can_be_asked_and_claimed() -> None:
    known, given = world(6)
    claims = np.array([[-1, 0, 1], [0, -1, 2], [0, 1, -1], [500, 0, 1], [0, 50, 1], [KNOWN + NEW, 0, 501]])
    for evidence in (
        GraphEvidence.count(known, given, RELATIONS, network=AnswerNetwork(untrained())),
        grown(known, given, untrained()),
    ):
        features = evidence["network"].of_claims(claims)
        assert features.shape == (6, 2)
        assert np.isfinite(features).all()
        assert evidence["network"].of_claims(NOTHING).shape == (0, 2)
        assert not len(evidence["network"].of_question(Asked(500, 0, True)).entities)


def test_relations_that_came_later_say_nothing() -> None:
    known, given = world(7, relations=RELATIONS + 2)
    network = untrained()
    for later in (
        GraphEvidence.count(known, given, RELATIONS + 2, network=AnswerNetwork(network)),
        grown(known, given, network, 5),
    ):
        source = later["network"]
        for relation in (RELATIONS, RELATIONS + 1):
            for entity in range(KNOWN + NEW):
                assert not len(source.of_question(Asked(entity, relation, True)).entities)
    before = GraphEvidence.count(
        known[known[:, 1] < RELATIONS], given[given[:, 1] < RELATIONS], RELATIONS, network=AnswerNetwork(network)
    )
    np.testing.assert_array_equal(everything(grown(known, given, network, 5)), everything(before))


def test_without_a_network_it_says_nothing_and_is_no_source() -> None:
    known, given = world(8)
    evidence = GraphEvidence.count(known, given, RELATIONS)
    assert "network" not in evidence.sources
    assert "network" in GraphEvidence.count(known, given, RELATIONS, network=AnswerNetwork(untrained())).sources
    assert not everything(evidence).any()
    assert "network" not in [*RankingWeights(), *RankingWeights.alone(links=1.0)]
    assert RankingWeights.alone(vector=1.0, network=0.5).of_sources() == [("network", 0.5)]


def test_why_is_a_probability_and_a_rank() -> None:
    known, given = world(9)
    source = GraphEvidence.count(known, given, RELATIONS, network=AnswerNetwork(untrained()))["network"]
    said = source.of_question(Asked(KNOWN, 0, True))
    whys = [why for why in said.why(said.entities) if isinstance(why, LearnedWhy)]
    assert len(whys) == len(said.entities) > 5
    assert sum(why.strength for why in whys) == pytest.approx(1.0, abs=1e-4)
    order = np.argsort(-said.values, kind="stable")
    assert [whys[place].rank for place in order] == list(range(1, len(whys) + 1))
    assert said.why(np.array([KNOWN, 999])) == [None, None]


# Training.

PEOPLE, CITIES, COUNTRIES = 60, 12, 4
SMALL = NetworkSettings(steps=60, batch=16, negatives=16, learning_rate=0.02)


def planted() -> tuple[IntArray, int]:
    """People live in a city, which lies in a country, of which they are citizens; how many entities there are."""
    city = np.arange(PEOPLE) % CITIES
    people, places = np.arange(PEOPLE) + CITIES + COUNTRIES, city
    country = CITIES + city % COUNTRIES
    lives = np.stack([people, np.zeros_like(people), places], axis=1)
    citizen = np.stack([people, np.ones_like(people), country], axis=1)
    lies = np.stack([np.arange(CITIES), np.full(CITIES, 2), CITIES + np.arange(CITIES) % COUNTRIES], axis=1)
    return np.concatenate([lives, citizen, lies]), PEOPLE + CITIES + COUNTRIES


@pytest.fixture(scope="module")
def trained() -> RelationNetwork:
    triples, size = planted()
    return train_network(GraphIndex.of(triples, size, RELATIONS), SMALL)


def test_it_learns_what_the_graph_implies_for_an_entity_that_it_never_saw(trained: RelationNetwork) -> None:
    triples, size = planted()
    index = GraphIndex.of(triples, size, RELATIONS)
    ranks = []
    for city in range(CITIES):
        graph = graph_alone(NOTHING, RELATIONS, index).plus((size, 0, city), 0)
        source = GraphEvidence.of_version(lambda: triples, index, None, AnswerNetwork(trained)).beside(graph)["network"]
        said = source.of_question(Asked(size, 1, True))
        right = said.of(np.array([CITIES + city % COUNTRIES]))[0]
        ranks.append(1 + int((said.values > right).sum()))
    assert np.mean(1 / np.array(ranks)) > 0.9  # by chance among the countries alone it would be 0.52


def test_the_seed_determines_it(trained: RelationNetwork) -> None:
    triples, size = planted()
    index = GraphIndex.of(triples, size, RELATIONS)
    few = NetworkSettings(steps=3, batch=8, negatives=8, seed=1)
    one, same, other = (train_network(index, settings) for settings in (few, few, NetworkSettings(3, 8, 8, seed=2)))
    for name, table in one.to_arrays().items():
        np.testing.assert_array_equal(table, same.to_arrays()[name])
    assert any((table != other.to_arrays()[name]).any() for name, table in one.to_arrays().items())


def test_it_can_be_kept_and_cut_to_fewer_relations(trained: RelationNetwork) -> None:
    triples, size = planted()
    index = GraphIndex.of(triples, size, RELATIONS)
    again = RelationNetwork.from_arrays(trained.to_arrays(), RELATIONS)
    fewer = RelationNetwork.from_arrays(trained.to_arrays(), 2)
    said = [
        GraphEvidence.of_version(lambda: triples, index, None, AnswerNetwork(one))["network"]
        .of_question(Asked(20, 1, True))
        .values
        for one in (trained, again, fewer)
    ]
    np.testing.assert_array_equal(said[0], said[1])
    assert len(said[2])
    assert not np.array_equal(said[0], said[2])
    with pytest.raises(ValueError, match="shape"):
        RelationNetwork.from_arrays(trained.to_arrays(), RELATIONS + 1)
    with pytest.raises(ValueError, match="parameters"):
        RelationNetwork.from_arrays({}, RELATIONS)


def test_what_cannot_be_trained_is_refused() -> None:
    index = GraphIndex.of(np.array([[0, 0, 1]]), 2, 1)
    with pytest.raises(InputError, match="no entity has two triples"):
        train_network(index)
    for values in ({"steps": -1}, {"steps": 2**40}, {"batch": 0}, {"negatives": 1}, {"seed": -1}, {"seed": 2**64}):
        with pytest.raises(InputError, match=f"{next(iter(values))}` .*; it must be a whole number from"):
            NetworkSettings(**values)


def test_new_answers_stand_as_they_did_without_it() -> None:
    weights = RankingWeights.alone(vector=1.0, network=2.0)
    vector = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0, 9.0, 3.5, 0.0, -torch.inf]])
    said = torch.tensor([[8.0, 0.0, 4.0, 6.0, 2.0, 99.0, 99.0, 99.0, 99.0]])  # of new ones it must not count
    total = combined_scores([vector.clone()], 5, weights, lambda *_: said.clone(), lambda _: torch.zeros(1, 4))
    rest = standardised(vector, 5)
    # The first one ranks above all known ones, the next behind two of them, the third behind all, the last nowhere.
    levels = [(8 + 0) / 2, (0 + 4 + 6 + 2) / 4, (4 + 6 + 2) / 3, (4 + 6 + 2) / 3]
    torch.testing.assert_close(total[0, 5:], rest[0, 5:] + 2 * torch.tensor(levels))
    torch.testing.assert_close(total[0, :5], rest[0, :5] + 2 * said[0, :5])
