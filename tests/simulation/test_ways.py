"""Ways to answer by a newcomer's number of triples: which applies to whom, how they are stored, how they score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError, ModelFileError
from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights
from ookg.graph.statistics import GraphStatistics
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Precision
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.ways import Way, Ways, WaysScorer
from ookg.types import BoolArray

ALONE = RankingWeights.alone()
COMPANY = RankingWeights.alone(vector=0.7, company=0.4, links=2.0, new=-1.0)
WAYS = Ways([Way(1, False, COMPANY), Way(3, False, ALONE), Way(8, True, RankingWeights.alone(vector=2.0, habits=1.0))])
KNOWN, NEW, RELATIONS = 12, 5, 3


def test_each_number_of_triples_has_its_way() -> None:
    numbers = np.array([0, 1, 2, 3, 7, 8, 3000])
    assert WAYS.places(numbers).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert [WAYS.at(number).triples for number in numbers.tolist()] == [1, 1, 1, 3, 3, 8, 8]
    later = Ways([Way(5, False, ALONE), Way(9, False, COMPANY)])
    assert later.places(np.array([1, 4, 5, 9])).tolist() == [0, 0, 0, 1]  # fewer than the first has: the first


def test_from_how_many_triples_on_vectors_are_fitted() -> None:
    assert WAYS.refine_from == 8
    assert Ways(WAYS[:2]).refine_from is None
    assert Ways([Way(1, True, ALONE), Way(2, True, COMPANY)]).refine_from == 1
    without = WAYS.without_refining()
    assert without.refine_from is None
    assert [(way.triples, way.ranking) for way in without] == [(way.triples, way.ranking) for way in WAYS]


def test_ways_are_a_sequence_that_compares_by_value() -> None:
    same = Ways(list(WAYS))
    assert (same, hash(same), repr(same)) == (WAYS, hash(WAYS), repr(WAYS))
    assert len(WAYS) == 3
    assert WAYS[-1].refine
    assert Ways(WAYS[:2]) != WAYS
    assert list(WAYS) != WAYS


@pytest.mark.parametrize(
    ("ways", "text"),
    [
        ([], "at least one"),
        ([Way(3, False, ALONE), Way(3, False, COMPANY)], "from 3 and 3 triples on"),
        ([Way(3, False, ALONE), Way(2, False, COMPANY)], "from 3 and 2 triples on"),
        ([Way(1, True, ALONE), Way(4, False, ALONE)], "fitted from 1 triples on, but not from 4"),
    ],
)
def test_ways_that_make_no_sense_are_refused(ways: list[Way], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Ways(ways)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"triples": 0, "refine": False, "ranking": {}}, "from 1 or more"),
        ({"triples": True, "refine": False, "ranking": {}}, "True triples on, which is no whole number"),
        ({"triples": 2.0, "refine": False, "ranking": {}}, "2.0 triples on"),
        ({"refine": False, "ranking": {}}, "None triples on"),
        ({"triples": 2, "refine": 1, "ranking": {}}, "without refine or ranking"),
        ({"triples": 2, "refine": True}, "without refine or ranking"),
        ({"triples": 2, "refine": True, "ranking": {"gossip": 1.0}}, "gossip"),
        ({"triples": 2, "refine": True, "ranking": {"vector": float("nan")}}, "vector is nan"),
    ],
)
def test_stored_values_are_checked(values: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Way.from_dict(values)


def test_a_way_in_words() -> None:
    assert str(Way(1, False, ALONE)) == "vector of the closed form"
    assert str(Way(9, True, ALONE)) == "fitted vector"
    assert str(WAYS[0]) == "vector of the closed form with links, company"
    assert str(WAYS[2]) == "fitted vector with habits"
    assert str(Way(1, False, RankingWeights.alone(vector=1.0, new=-2.0))) == "vector of the closed form"


def test_what_a_way_ranks_by() -> None:
    assert Way(1, False, ALONE).evidence_weights is None
    assert Way(1, False, RankingWeights.alone(vector=3.0)).evidence_weights is None  # a factor changes no rank
    assert WAYS[0].evidence_weights == COMPANY
    new = RankingWeights.alone(vector=1.0, new=-2.0)
    assert Way(1, False, new).evidence_weights == new


def test_weights_of_what_is_named_alone() -> None:
    assert dict(ALONE.items()) == {"vector": 1.0, "links": 0.0, "habits": 0.0}
    assert (ALONE.of_sources(), ALONE.new, ALONE.company) == ([], 0.0, 0.0)
    company = RankingWeights.alone(company=2.0, new=-1.0)
    assert (company.vector, company.links, company.habits, company.company, company.new) == (0.0, 0.0, 0.0, 2.0, -1.0)
    assert company.of_sources() == [("company", 2.0)]  # what is new is no source
    assert RankingWeights.from_dict(company.to_dict()) == company


def test_ways_are_stored_with_a_model(tmp_path: Path) -> None:
    choice = NewcomerChoice(power=2.0, ways=WAYS)
    assert NewcomerChoice.from_dict(choice.to_dict()) == choice
    assert NewcomerChoice.from_dict(NewcomerChoice().to_dict()).ways is None
    model = ookg.train(random_triples(0), SMALL, device="cpu").with_choice(choice)
    model.save(tmp_path / "model")
    assert ookg.load(tmp_path / "model").ways == WAYS
    broken = model.checkpoint.newcomers | {"ways": [WAYS[2].to_dict(), WAYS[0].to_dict()]}  # type: ignore[operator]
    with pytest.raises(ModelFileError, match="from 8 and 1 triples on"):
        _ = ookg.Model(replace(model.checkpoint, newcomers=broken)).ways


def scorers_of(*geometries: Geometry) -> tuple[list[TranslationScorer], GraphEvidence]:
    """Newcomers with 1, 2, 3 and 9 triples, and one without; random vectors of one model or more."""
    rng = np.random.default_rng(0)
    known = np.stack([rng.integers(0, high, 60) for high in (KNOWN, RELATIONS, KNOWN)], axis=1)
    given = np.array(
        [
            (KNOWN + number, place % RELATIONS, (place * 5 + number) % KNOWN)
            for number, count in enumerate((1, 2, 3, 9))
            for place in range(count)
        ]
    )
    graph, scorers = GraphStatistics.count(known, KNOWN, RELATIONS), []
    for seed, geometry in enumerate(geometries):
        generator = torch.Generator().manual_seed(seed)
        tables = (
            torch.randn(size, width, generator=generator)
            for size, width in ((KNOWN, geometry.entity_width), (RELATIONS, geometry.relation_width))
        )
        newcomers = find_newcomers(Embedding(geometry, *tables), graph, known, given, Precision())
        scorers.append(TranslationScorer(newcomers.with_room_for(NEW)))
    return scorers, GraphEvidence.count(known, given, RELATIONS)


def asked_about(entities: list[int], asks_tail: bool) -> Queries:
    entity, relation = (part.ravel() for part in np.meshgrid(entities, np.arange(RELATIONS)))
    ends: BoolArray = np.full(len(entity), asks_tail)
    return Queries(entity, relation, np.zeros(len(entity), dtype=np.int64), ends)


@pytest.mark.parametrize("geometries", [(TransE(4),), (TransE(4), RotatE(3))], ids=["one model", "two models"])
def test_a_question_is_scored_by_the_way_of_its_newcomer(geometries: tuple[Geometry, ...]) -> None:
    scorers, evidence = scorers_of(*geometries)
    counts = scorers[0].newcomers.counts
    assert counts.tolist() == [1, 2, 3, 9, 0]
    by_ways = WaysScorer(scorers, evidence, WAYS, counts)
    vectors = scorers[0] if len(scorers) == 1 else CombinedScorer(scorers, evidence, ALONE)
    first, last = (CombinedScorer(scorers, evidence, way.ranking) for way in (WAYS[0], WAYS[2]))
    expected = {0: vectors, 7: vectors, KNOWN: first, KNOWN + 1: first, KNOWN + 2: vectors, KNOWN + 3: last}
    for asks_tail in (True, False):
        everyone = asked_about(list(expected), asks_tail)
        known, both = by_ways.answer_scores(everyone), by_ways.all_answer_scores(everyone, KNOWN + NEW)
        assert both.shape == (len(everyone), KNOWN + NEW)
        for entity, scorer in expected.items():
            mine = torch.from_numpy(everyone.entity == entity)
            asked = asked_about([entity], asks_tail)
            torch.testing.assert_close(known[mine], scorer.answer_scores(asked))
            torch.testing.assert_close(both[mine], scorer.all_answer_scores(asked, KNOWN + NEW))
    for entity, scorer in expected.items():
        triples = np.stack([np.full(KNOWN, entity), np.arange(KNOWN) % RELATIONS, np.arange(KNOWN)], axis=1)
        np.testing.assert_array_equal(by_ways.scores(triples), scorer.scores(triples))


def test_who_can_be_asked_and_answer_is_up_to_the_vectors() -> None:
    scorers, evidence = scorers_of(TransE(4))
    by_ways = WaysScorer(scorers, evidence, WAYS, scorers[0].newcomers.counts)
    queries = asked_about([0, KNOWN, KNOWN + 4], asks_tail=True)
    assert by_ways.answerable(queries).tolist() == [True, True, False] * RELATIONS
    assert by_ways.is_answer(np.array([0, KNOWN, KNOWN + 4, KNOWN + 99])).tolist() == [True, True, False, False]
    assert by_ways.may_be_itself(queries).all()
