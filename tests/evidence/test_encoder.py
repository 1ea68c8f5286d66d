"""The encoder of a network as a kind of evidence: against a slow reference, with new entities, and trained."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.evidence.encoder import Encoder
from ookg.evidence.learned import LEAST, LearnedWhy
from ookg.evidence.network import AnswerNetwork, default_weights
from ookg.evidence.source import Asked
from ookg.graph.index import GraphIndex
from ookg.graph.linked import graph_alone
from ookg.models.embedding import Embedding
from ookg.models.transe import TransE
from ookg.scoring.scorer import NewVectors
from ookg.training import encoder as encoder_training
from ookg.training.encoder import DIM, HEADS, LinkEncoder, asked_direction, train_encoder
from ookg.training.network import NetworkSettings
from ookg.types import FloatArray, IntArray

KNOWN, NEW, RELATIONS, WIDTH = 14, 3, 3, 6
NOTHING = np.empty((0, 3), dtype=np.int64)
GIVEN = np.array([[KNOWN, 0, 2], [KNOWN, 1, 5], [7, 2, KNOWN], [KNOWN + 1, 0, 3], [KNOWN, 0, KNOWN + 1]])


def known_triples(seed: int = 0) -> IntArray:
    drawn = np.random.default_rng(seed).integers(0, [KNOWN, RELATIONS, KNOWN], size=(30, 3))
    return np.unique(np.concatenate([drawn, [[KNOWN - 1, 0, 0]]]), axis=0)


def vectors_of(seed: int, size: int = KNOWN) -> Embedding:
    random = torch.Generator().manual_seed(seed)
    return Embedding(
        TransE(WIDTH), torch.randn(size, WIDTH, generator=random), torch.randn(RELATIONS, WIDTH, generator=random)
    )


def untrained(seed: int = 0, relations: int = RELATIONS) -> LinkEncoder:
    """Parameters that make a difference everywhere."""
    encoder = LinkEncoder(2 * relations, WIDTH, seed)
    random = torch.Generator().manual_seed(seed + 1)
    for one in encoder.parameters():
        one.data += 0.1 * torch.randn(one.shape, generator=random)
    encoder.centre.copy_(torch.randn(WIDTH, generator=random))
    encoder.spread.fill_(0.7)
    return encoder.requires_grad_(False).eval()


def normal(vector: Tensor) -> Tensor:
    return (vector - vector.mean()) / torch.sqrt(vector.var(correction=0) + 1e-5)


def reference(encoder: LinkEncoder, asked: int, links: list[tuple[int, Tensor]]) -> Tensor:
    """The direction of the answers, written out link by link."""
    seen = []
    for link, vector in links:
        inside = encoder.inward @ ((vector - encoder.centre) / encoder.spread) + encoder.inward_bias
        seen.append(normal(inside * encoder.scale[link] + encoder.shift[link]))
    state, size = normal(encoder.asked[asked]), DIM // HEADS
    for weights in encoder.rounds:
        look, taken = weights["look"] @ normal(state), []  # type: ignore[index]
        parts = [weights["links"] @ one + weights["links_bias"] for one in seen]  # type: ignore[index]
        for head in range(HEADS):
            place = slice(head * size, (head + 1) * size)
            fits = [float(look[place] @ part[:DIM][place]) / size**0.5 for part in parts]
            shares = torch.tensor([*fits, 0.0]).softmax(dim=0)  # the last looks away
            values = [part[DIM:][place] for part in parts]
            taken.append(sum((share * one for share, one in zip(shares, values, strict=False)), torch.zeros(size)))
        state = state + weights["merge"] @ torch.cat(taken)  # type: ignore[index]
        units = torch.nn.functional.gelu(
            weights["wide"] @ normal(state) + weights["wide_bias"]  # type: ignore[index]
        )
        state = state + weights["narrow"] @ units  # type: ignore[index]
    return encoder.outward @ normal(state) / encoder.spread


def new_vectors(relation: int) -> NewVectors:
    """The last new entity has none."""
    random = torch.Generator().manual_seed(40)
    table = torch.randn(NEW, WIDTH, generator=random)
    table[-1] = torch.nan
    del relation
    return NewVectors.of(np.arange(KNOWN, KNOWN + NEW)[::-1].copy(), table.flip(0))


def evidence_of(encoder: LinkEncoder, embedding: Embedding, given: IntArray = GIVEN) -> GraphEvidence:
    network = AnswerNetwork(None, encoder, embedding)
    return GraphEvidence.count(known_triples(), given, RELATIONS, network=network).with_new(new_vectors)


def test_it_says_what_the_equations_say() -> None:
    encoder, embedding = untrained(), vectors_of(1)
    source = evidence_of(encoder, embedding)["encoder"]
    of_new = new_vectors(0)
    for asked in (Asked(KNOWN, 1, True), Asked(KNOWN, 2, False), Asked(KNOWN + 1, 0, True), Asked(4, 1, False)):
        links = []
        for head, relation, tail in np.concatenate([known_triples(), GIVEN]).tolist():
            for one, code, other in ((head, 2 * relation, tail), (tail, 2 * relation + 1, head)):
                if one == asked.entity and other != asked.entity:
                    place = np.searchsorted(of_new.entities, other)
                    vector = embedding.entities[other] if other < KNOWN else of_new.vectors[place]
                    links.append((code, vector))
        direction = reference(encoder, asked.code, links)
        scores = embedding.entities @ direction
        if asked.entity < KNOWN:
            scores[asked.entity] = -torch.inf
        expected = (scores.log_softmax(dim=0) + LEAST).clamp_min(0).numpy()
        row = source.of_question(asked).row(KNOWN)[0].numpy()
        np.testing.assert_allclose(row, expected, atol=1e-3)
        assert row.max() > 0


def test_new_answers_are_on_one_level_and_the_asked_one_is_none_of_them() -> None:
    source = evidence_of(untrained(), vectors_of(1))["encoder"]
    said = source.of_question(Asked(KNOWN, 1, True))
    row = said.row(KNOWN + NEW)[0].numpy()
    assert row[KNOWN] == 0.0
    assert row[KNOWN + 1] == row[KNOWN + 2]
    np.testing.assert_allclose(said.of(np.arange(KNOWN + NEW)), row, rtol=1e-6)
    assert not Encoder.judges_new


def test_links_to_new_entities_count_where_these_have_vectors() -> None:
    encoder, embedding = untrained(), vectors_of(1)
    asked = Asked(KNOWN, 1, True)

    def row(given: IntArray) -> FloatArray:
        return evidence_of(encoder, embedding, given)["encoder"].of_question(asked).row(KNOWN)[0].double().numpy()

    without = GIVEN[:-1]
    to_one_without = np.concatenate([without, [[KNOWN, 0, KNOWN + 2]]])
    assert not np.array_equal(row(GIVEN), row(without))
    np.testing.assert_array_equal(row(to_one_without), row(without))


def test_in_bulk_and_one_by_one_it_is_the_same() -> None:
    encoder, embedding = untrained(), vectors_of(1)
    graph = graph_alone(known_triples(), RELATIONS)
    network = AnswerNetwork(None, encoder, embedding)
    evidence = GraphEvidence.count(known_triples(), NOTHING, RELATIONS, network=network).beside(graph)
    assert isinstance(evidence["encoder"], Encoder)
    for number, (head, relation, tail) in enumerate(GIVEN.tolist()):
        graph = graph.plus((head, relation, tail), number)
        evidence = evidence.plus((head, relation, tail), graph)
    asked = Asked(KNOWN, 1, True)
    together = evidence_of(encoder, embedding)["encoder"].of_question(asked).row(KNOWN)
    grown = evidence.with_new(new_vectors)
    assert torch.equal(grown["encoder"].of_question(asked).row(KNOWN), together)
    less = graph.minus((KNOWN, 1, 5))
    fewer = evidence.minus((KNOWN, 1, 5), less).with_new(new_vectors)["encoder"].of_question(asked).row(KNOWN)
    assert not torch.equal(fewer, together)
    again = evidence.minus((KNOWN, 1, 5), less).plus((KNOWN, 1, 5), less.plus((KNOWN, 1, 5), 9))
    assert torch.equal(again.with_new(new_vectors)["encoder"].of_question(asked).row(KNOWN), together)


def test_it_says_nothing_without_an_encoder_and_about_a_relation_that_it_does_not_know() -> None:
    alone = GraphEvidence.count(known_triples(), GIVEN, RELATIONS)
    assert "encoder" not in alone.sources
    assert not len(alone["encoder"].of_question(Asked(KNOWN, 0, True)).entities)
    evidence = evidence_of(untrained(relations=2), vectors_of(1))
    assert "encoder" in evidence.sources
    assert "network" not in evidence.sources
    assert not len(evidence["encoder"].of_question(Asked(KNOWN, 2, True)).entities)
    assert len(evidence["encoder"].of_question(Asked(KNOWN, 1, True)).entities)


def test_reasons_are_ranks_and_probabilities() -> None:
    said = evidence_of(untrained(), vectors_of(1))["encoder"].of_question(Asked(KNOWN, 1, True))
    whys = [why for why in said.why(said.entities) if isinstance(why, LearnedWhy)]
    assert sorted(why.rank for why in whys) == list(range(1, len(whys) + 1))
    assert sum(why.strength for why in whys) == pytest.approx(1.0, abs=1e-3)
    assert {why.part for why in whys} == {"encoder"}


def test_vectors_of_16_bits_and_large_tables_are_read_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, embedding = untrained(), vectors_of(1)
    asked = Asked(KNOWN, 1, True)
    whole = evidence_of(encoder, embedding)["encoder"].of_question(asked).row(KNOWN)
    monkeypatch.setattr("ookg.evidence.encoder.BLOCK_ROWS", 5)
    np.testing.assert_allclose(
        evidence_of(encoder, embedding)["encoder"].of_question(asked).row(KNOWN), whole, rtol=1e-5
    )
    half = Embedding(embedding.geometry, embedding.entities.half(), embedding.relations)
    found = evidence_of(encoder, half)["encoder"].of_question(asked).row(KNOWN)
    np.testing.assert_allclose(found, whole, atol=0.1)


def test_of_many_links_some_are_read() -> None:
    encoder = untrained()
    vectors = torch.randn(700, WIDTH, generator=torch.Generator().manual_seed(3))
    link = np.arange(700) % (2 * RELATIONS)
    some = asked_direction(encoder, 1, link[::2], vectors[::2])
    assert torch.equal(asked_direction(encoder, 1, link, vectors), some)
    assert torch.isfinite(asked_direction(encoder, 1, link[:0], vectors[:0])).all()


def test_weights_go_by_the_number_of_triples() -> None:
    assert default_weights(3, ("network", "encoder")) == {"network": 0.5, "encoder": 0.5}
    assert default_weights(6, ("network", "encoder")) == {"network": 1.0, "encoder": 0.0}
    assert default_weights(3, ("network",)) == {"network": 1.0}
    assert default_weights(3, ("encoder",)) == {"encoder": 0.5}
    assert RankingWeights(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 4.0, 5.0).encoder == 5.0


CITIES, COUNTRIES, PEOPLE = 24, 4, 160


def planted() -> tuple[IntArray, Embedding]:
    """People live in a city (0) and are citizens (1) of its country, which the vectors of cities show."""
    city = np.arange(PEOPLE) % CITIES
    person = CITIES + COUNTRIES + np.arange(PEOPLE)
    lives = np.stack([person, np.zeros_like(person), city], axis=1)
    citizen = np.stack([person, np.ones_like(person), CITIES + city % COUNTRIES], axis=1)
    random = torch.Generator().manual_seed(5)
    countries = torch.randn(COUNTRIES, 8, generator=random)
    cities = countries[torch.arange(CITIES) % COUNTRIES] + 0.3 * torch.randn(CITIES, 8, generator=random)
    people = torch.randn(PEOPLE, 8, generator=random)
    table = torch.cat([cities, countries + 2.0, people])
    return np.concatenate([lives, citizen]), Embedding(TransE(8), table, torch.randn(2, 8, generator=random))


SMALL = NetworkSettings(steps=0, encoder_steps=60, encoder_batch=32, seed=1)


@pytest.mark.parametrize("most_candidates", [1 << 15, 100])
def test_it_learns_what_vectors_imply_for_an_entity_that_it_never_saw(
    most_candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_training, "ALL_ENTITIES", most_candidates)
    triples, embedding = planted()
    index = GraphIndex.of(triples, embedding.num_entities, 2)
    encoder = train_encoder(index, embedding.entities, SMALL)
    network, new = AnswerNetwork(None, encoder, embedding), embedding.num_entities
    right = 0
    for city in range(CITIES):
        evidence = GraphEvidence.count(triples, np.array([[new, 0, city]]), 2, network=network)
        row = evidence["encoder"].of_question(Asked(new, 1, True)).row(new)[0]
        right += int(row.argmax()) == CITIES + city % COUNTRIES
    assert right >= CITIES // 3  # by chance it is one in a hundred


def test_the_seed_determines_it_and_it_can_be_kept() -> None:
    triples, embedding = planted()
    index = GraphIndex.of(triples, embedding.num_entities, 2)
    few = NetworkSettings(steps=0, encoder_steps=3, encoder_batch=8, seed=4)
    other = NetworkSettings(steps=0, encoder_steps=3, encoder_batch=8, seed=5)
    steps: list[int] = []
    one, same, another = (
        train_encoder(index, embedding.entities, settings, report=lambda done, figure=None: steps.append(done))
        for settings in (few, few, other)
    )
    assert steps == [1, 2, 3] * 3
    for name, table in one.to_arrays().items():
        np.testing.assert_array_equal(table, same.to_arrays()[name])
    assert not np.array_equal(one.outward, another.outward)
    assert float(one.spread) == pytest.approx(float((embedding.entities - one.centre).square().mean().sqrt()))
    again = LinkEncoder.from_arrays(one.to_arrays(), 1)  # cut to the first relation
    assert (again.num_relations, again.asked.shape) == (1, (2, DIM))
    np.testing.assert_array_equal(again.asked, one.asked[:2])


def test_what_is_given_is_never_what_is_asked() -> None:
    triples, embedding = planted()
    index = GraphIndex.of(triples, embedding.num_entities, 2)
    rows = encoder_training.VectorLinks.of(index, embedding.num_entities, None, torch.device("cpu"))
    torch.manual_seed(0)
    drawn = encoder_training.draw_questions(rows, 200, 4)
    stated = {tuple(row) for row in triples.tolist()}
    for n in range(200):
        entity, asked, answer = (int(part[n]) for part in (drawn.entity, drawn.asked, drawn.answer))
        triple = (entity, asked // 2, answer) if asked % 2 == 0 else (answer, asked // 2, entity)
        assert triple in stated
        given = [
            (int(link), int(other))
            for link, other, there in zip(drawn.link[n], drawn.other[n], drawn.is_link[n], strict=True)
            if there
        ]
        assert (asked, answer) not in given
        assert len(set(given)) == len(given)
        assert answer in drawn.true[n].tolist()
    assert int(drawn.is_link.sum()) > 100


@pytest.mark.parametrize("most", [7, 20, 50])
def test_candidates_are_distinct_and_stand_for_all(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_training, "ALL_ENTITIES", most)
    index = GraphIndex.of(np.array([[0, 0, 1], [0, 0, 2]]), 20, 1)
    training = encoder_training.EncoderTraining(index, torch.randn(20, 3), SMALL, torch.device("cpu"))
    for _ in range(20):
        candidates, stands_for = training._candidates(20)
        assert len(set(candidates.tolist())) == len(candidates) == min(most, 20)
        assert int(stands_for.sum()) == 20
        assert int(candidates.max()) < 20


def test_a_question_about_a_new_entity_has_every_known_one_as_a_candidate() -> None:
    index = GraphIndex.of(np.array([[5, 0, 1], [5, 0, 2], [0, 0, 3], [0, 0, 4]]), 6, 1)  # 5 is new
    training = encoder_training.EncoderTraining(index, torch.randn(5, 3), SMALL, torch.device("cpu"))
    training.encoder.eval()
    whole = encoder_training.draw_questions(training.rows, 64, 4)
    row = int(torch.nonzero(whole.entity == 5)[0])
    drawn = encoder_training.DrawnQuestions(*(getattr(whole, one.name)[row : row + 1] for one in fields(whole)))
    direction = training.encoder(drawn.asked, drawn.link, training.vectors[drawn.other], drawn.is_link)
    logits = (training.vectors @ direction[0] / training.encoder.spread).detach()
    right, rivals = int(drawn.answer), [0, 3, 4]  # 1 and 2 are both right
    expected = torch.logsumexp(logits[[right, *rivals]], dim=0) - logits[right]
    assert training.loss(drawn).item() == pytest.approx(float(expected), rel=1e-4)


def test_nothing_is_trained_where_nothing_can_be_asked() -> None:
    index = GraphIndex.of(np.array([[0, 0, 1], [2, 0, 3]]), 4, 1)
    with pytest.raises(InputError, match="no entity has two triples"):
        train_encoder(index, torch.randn(4, 3), SMALL)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda arrays: arrays.pop("asked"), "not the parameters of an encoder"),
        (lambda arrays: arrays.pop("centre"), "not the parameters of an encoder"),
        (lambda arrays: arrays.update(look=np.zeros(3)), "not the parameters of an encoder"),
        (lambda arrays: arrays.update(outward=np.zeros((2, 2), dtype=np.float32)), "has the shape"),
        (lambda arrays: arrays.update(spread=np.array(np.nan, dtype=np.float32)), "not finite"),
    ],
)
def test_damaged_parameters_are_refused(change: object, problem: str) -> None:
    arrays = untrained().to_arrays()
    assert callable(change)
    change(arrays)
    with pytest.raises(ValueError, match=problem):
        LinkEncoder.from_arrays(arrays, RELATIONS)
