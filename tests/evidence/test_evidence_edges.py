from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import ModelFileError
from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.evidence.fitting import fit_grouped_logistic, fit_logistic
from ookg.evidence.source import Asked
from ookg.graph.index import GraphIndex
from ookg.scoring.queries import Queries
from ookg.simulation.hidden_claims import hide_claims
from ookg.types import IntArray

KNOWN, NEW, RELATIONS = 20, 5, 4


def random_triples(seed: int, entities: int, size: int) -> IntArray:
    random = np.random.default_rng(seed)
    return random.integers(0, [entities, RELATIONS, entities], size=(size, 3))


def test_given_triples_are_added_as_if_all_were_counted_together() -> None:
    known = random_triples(0, KNOWN, 80)
    given = random_triples(1, KNOWN, 30)
    given[:, 0] = KNOWN + np.arange(30) % NEW
    between_known = np.concatenate([given, known[:3], random_triples(2, KNOWN, 5)])
    weights = RankingWeights(links=2.0, habits=0.5)
    queries = Queries(
        np.arange(KNOWN + NEW), np.arange(KNOWN + NEW) % RELATIONS, np.zeros(KNOWN + NEW, int), np.arange(25) % 2 == 0
    )
    alone = GraphEvidence.count(known, known[:0], RELATIONS)
    for added in (given, between_known, given[:0]):
        found, wanted = alone.with_given(added, RELATIONS), GraphEvidence.count(known, added, RELATIONS)
        for name, _ in weights.of_sources():
            answers = [evidence[name].of_answers(queries, KNOWN, "cpu").numpy() for evidence in (found, wanted)]
            np.testing.assert_allclose(answers[0], answers[1])
            assert answers[0].max() > 0
        claims = random_triples(3, KNOWN + NEW, 50)
        np.testing.assert_allclose(found["links"].of_claims(claims), wanted["links"].of_claims(claims))
        np.testing.assert_allclose(found["habits"].of_claims(claims), wanted["habits"].of_claims(claims))


def test_one_query_is_looked_up_as_many_are() -> None:
    triples = random_triples(4, KNOWN, 100)
    evidence = GraphEvidence.count(triples, triples[:0], RELATIONS)
    everyone = Queries(np.arange(KNOWN), np.arange(KNOWN) % RELATIONS, np.zeros(KNOWN, int), np.ones(KNOWN, bool))
    together = evidence["links"].of_answers(everyone, KNOWN, "cpu")
    for row in range(KNOWN):
        alone = evidence["links"].of_answers(everyone.select(np.array([row])), KNOWN, "cpu")
        assert alone[0].tolist() == together[row].tolist()


def test_claims_over_unknown_relations_have_no_evidence() -> None:
    triples = random_triples(5, KNOWN, 60)
    evidence = GraphEvidence.count(triples, triples[:0], RELATIONS)
    claims = np.array([[0, RELATIONS, 1], [0, 2 * RELATIONS + 3, 1], [0, -1, 1], [-1, 0, 1]])
    assert evidence["links"].of_claims(claims).tolist() == [[0.0]] * 4
    assert evidence["habits"].of_claims(claims).tolist() == [[0.0, 0.0]] * 4


def test_labelled_training_triples_are_not_given_when_they_are_asked() -> None:
    train = random_triples(6, 200, 1500)
    valid = np.concatenate([train[:100], random_triples(7, 200, 100)])
    truth = np.repeat([True, False], 100)
    test = np.array([[200, 0, 1]])
    dataset = EncodedDataset(
        "own graph", "triplet-classification", 200, 201, RELATIONS, RELATIONS, train, valid, test, test, truth, None
    )
    found = hide_claims(dataset)
    given = {tuple(row) for row in np.concatenate([found.train, found.aux]).tolist()}
    assert len(found.test) > 10
    assert not given & {tuple(row) for row in found.test.tolist()}


def test_weights_by_group_are_those_of_one_wide_regression() -> None:
    random = np.random.default_rng(8)
    columns = np.concatenate([np.ones((300, 1)), random.normal(size=(300, 3))], axis=1)
    groups = random.integers(0, 3, 300)
    truth = random.random(300) < 1 / (1 + np.exp(-columns @ np.array([0.3, 1.0, -2.0, 0.0]) * (1 + groups)))
    shared, own = fit_grouped_logistic(columns, groups, truth, 3, 1e-2, 0.5)
    scales = np.array([1.0, 0.5, 0.5, 0.5])
    wide = np.concatenate([columns] + [columns * scales * (groups == number)[:, None] for number in range(3)], axis=1)
    l2 = np.full(16, 1e-2)
    l2[0] = 0.0
    weights = fit_logistic(wide, truth, l2)
    np.testing.assert_allclose(shared, weights[:4], atol=1e-3)
    np.testing.assert_allclose(own, weights[4:].reshape(3, 4) * scales, atol=1e-3)


@pytest.mark.parametrize("array", ["offsets", "link", "other"])
def test_a_damaged_index_gives_an_error_in_one_line_or_an_answer(array: str) -> None:
    """Nothing outside the arrays is read, whatever they hold: a mapped index is not checked when it is loaded."""
    triples = np.unique(random_triples(7, 10, 40), axis=0)
    whole, refused = GraphIndex.of(triples, 10, RELATIONS), set[str]()
    for place in range(0, len(getattr(whole, array)), 3):
        for value in (-(1 << 31), -1, 7, 1 << 30):
            numbers = getattr(whole, array).copy()
            numbers[place] = value
            index = replace(whole, source="index.safetensors", **{array: numbers})
            evidence = GraphEvidence.count(triples, triples[:0], RELATIONS, index)
            for name in ("company", "likeness", "paths"):
                for entity in range(10):
                    try:
                        said = evidence[name].of_question(Asked(entity, entity % RELATIONS, entity % 2 == 0))
                    except ModelFileError:
                        refused.add(name)
                    else:
                        assert np.isfinite(said.row(10).numpy()).all()
                        assert len(said.why(np.arange(10))) == 10
    assert refused == {"company", "likeness", "paths"}


@pytest.mark.parametrize("array", ["link", "other"])
def test_damage_in_a_relation_with_few_triples(array: str) -> None:
    """Nobody seems to stand at one end of it then, or somebody who cannot be: neither is divided by or given room."""
    triples = np.array([[0, 0, 1], [2, 0, 4], [1, 1, 2], [3, 1, 2], [4, 2, 0]])
    whole, said = GraphIndex.of(triples, 5, 3), 0
    questions = [Asked(entity, relation, way) for entity in range(5) for relation in range(3) for way in (True, False)]
    tracemalloc.start()
    for place in range(len(getattr(whole, array))):
        for value in (0, 1, 2, 3, 1 << 30):
            numbers = getattr(whole, array).copy()
            numbers[place] = value
            index = replace(whole, source="index.safetensors", **{array: numbers})
            source = GraphEvidence.count(triples, triples[:0], 3, index)["likeness"]
            for asked in questions:
                try:
                    found = source.of_question(asked)
                except ModelFileError:
                    continue
                said += len(found.entities)
                assert np.isfinite(found.values).all()
                assert len(found.why(np.arange(5))) == 5
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said > 0
    assert most < 1 << 28  # bytes; a number for each entity up to 2³⁰ is 2³³
