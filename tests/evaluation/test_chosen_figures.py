"""Answered by the number of triples: `predict` and `evaluate` agree, and nothing said means that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ookg
from conftest import SMALL
from few_shot_sets import write_few_shot_set
from ookg.datasets.dataset import Dataset
from ookg.datasets.few_shot import FewShotDataset, load_few_shot
from ookg.errors import InputError
from ookg.evaluation.evaluate import LinkPredictionResult
from ookg.evidence.combined import RankingWeights
from ookg.extension.questions import AnswerOptions
from ookg.graph.triples import as_triples
from ookg.model.model import Model
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.ways import Way, Ways

FIT = ookg.RefineSettings(steps=5, margin=4.0, lr=0.05, negatives=8)
FEW = RankingWeights.alone(vector=1.0, links=2.0, company=0.5, habits=0.1, new=-0.3, hubness=0.9)
MANY = RankingWeights.alone(vector=1.5, paths=0.4, company=0.2)
WAYS = Ways([Way(1, False, FEW), Way(3, False, RankingWeights.alone()), Way(4, True, MANY)])


@pytest.fixture(scope="module")
def few_shot(tmp_path_factory: pytest.TempPathFactory) -> FewShotDataset:
    return load_few_shot(write_few_shot_set(tmp_path_factory.mktemp("data") / "mine"))


@pytest.fixture(scope="module", params=["transe", "rotate"])
def model(request: pytest.FixtureRequest, few_shot: FewShotDataset) -> Model:
    trained = ookg.train(few_shot.train, SMALL.changed({"model": request.param}), device="cpu")
    return trained.with_choice(NewcomerChoice(refine=FIT, ways=WAYS))


def unequal(few_shot: FewShotDataset) -> Dataset:
    """Newcomers with 1, 2, 3, 4, 4 and 4 given triples, all with known entities; the rest is asked."""
    at = few_shot.at("test", 4).dataset
    most = {"t0": 1, "t1": 2, "t2": 3}
    given: list[tuple[str, str, str]] = []
    for head, relation, tail in at.aux:
        if {head[0], tail[0]} != {"t", "e"}:
            continue
        newcomer = head if head.startswith("t") else tail
        if sum(newcomer in row for row in given) < most.get(newcomer, 4):
            given.append((head, relation, tail))
    asked = [row for row in (*at.aux, *at.test) if row not in given and row[1] != "r0" and row[0] != row[2]]
    asked = [row for row in asked if "x" not in row and {row[0][0], row[2][0]} == {"t", "e"}]
    nothing = as_triples([])
    return Dataset("mine", "link-prediction", few_shot.train, nothing, as_triples(given), as_triples(asked))


def test_predict_and_evaluate_rank_alike(model: Model, few_shot: FewShotDataset) -> None:
    dataset = unequal(few_shot)
    extended = model.extend(list(dataset.aux))
    true = {row for part in (dataset.train, dataset.aux, dataset.test) for row in part}
    options, ranks, ways = AnswerOptions(top=1000, drop_known=False), [], set()
    for head, relation, tail in dataset.test:
        asks_tail = head.startswith("t")
        asked: dict[str, Any] = {"head": head} if asks_tail else {"tail": tail}
        prediction = extended.predict(relation=relation, **asked, options=options)
        ways.add(prediction.way)
        scores = {answer.entity: answer.score for answer in prediction.answers}
        own = scores[tail if asks_tail else head]
        rivals = [
            score
            for label, score in scores.items()
            if ((head, relation, label) if asks_tail else (label, relation, tail)) not in true
        ]
        ranks.append(1 + sum(score > own for score in rivals))
    assert ways == {str(way) for way in WAYS}  # each was needed
    figures = model.evaluate(dataset, chosen=True, protocol="all")
    assert isinstance(figures, LinkPredictionResult)
    assert figures.summary.queries == len(ranks)
    assert figures.summary.mean_rank == pytest.approx(np.mean(ranks))
    assert figures.summary.mrr == pytest.approx(np.mean(1 / np.array(ranks)))
    other = model.evaluate(dataset, protocol="all")  # the closed form of the paper, by correlation weights
    assert isinstance(other, LinkPredictionResult)
    assert other.summary != figures.summary


def test_nothing_said_means_chosen_on_few_shot_sets_alone(model: Model, few_shot: FewShotDataset) -> None:
    dataset = unequal(few_shot)
    for data, usual, options in ((few_shot, True, {"shots": 2}), (dataset, False, {"protocol": "all"})):
        chosen, plain = (model.evaluate(data, chosen=how, **options) for how in (True, False))
        assert model.evaluate(data, **options) == (chosen if usual else plain)
        assert chosen != plain
    said = model.evaluate(few_shot, shots=2, combine=False)
    assert said == model.evaluate(few_shot, shots=2, chosen=False)


def test_chosen_goes_with_no_other_choice(model: Model, few_shot: FewShotDataset) -> None:
    for said in ({"weights": ookg.Uniform()}, {"refine": True}, {"combine": False}):
        with pytest.raises(InputError, match="leave out weights, refine and combine"):
            model.evaluate(few_shot, shots=2, chosen=True, **said)
    dataset = unequal(few_shot)
    labelled = replace(dataset, test=replace(dataset.test, truth=np.ones(len(dataset.test), dtype=np.bool_)))
    with pytest.raises(InputError, match="evaluate link prediction"):
        model.evaluate(replace(labelled, valid=labelled.test), task="triplet-classification", chosen=True)


def test_a_model_without_training_triples_is_evaluated_as_before(model: Model, few_shot: FewShotDataset) -> None:
    bare = Model(replace(model.checkpoint, graph=None))
    assert bare.ways is None
    plain = bare.evaluate(few_shot, shots=2, chosen=False)
    assert bare.evaluate(few_shot, shots=2) == plain


def test_evidence_has_the_trained_relations(tmp_path: Path) -> None:
    """More relations than entities: those beyond the number of entities count too."""
    train = [(f"e{n % 4}", f"r{n}", f"e{(n + 1) % 4}") for n in range(12)] + [("e0", "r11", "e2"), ("e0", "r10", "e2")]
    model = ookg.train(train, SMALL.changed({"steps": 2}), device="cpu")
    aux, test = as_triples([("x", "r11", "e3"), ("x", "r0", "e1")]), as_triples([("x", "r10", "e3")])
    nothing = as_triples([])
    dataset = Dataset("many", "link-prediction", as_triples(train), nothing, aux, test)
    links = RankingWeights.alone(links=1.0)
    figures = model.evaluate(dataset, combine=links)
    assert isinstance(figures, LinkPredictionResult)
    first = model.predict(list(aux), head="x", relation="r10", combine=links).answers[0]
    assert (first.entity, figures.summary.mean_rank) == ("e3", 1.0)  # r11 links them, and r10 goes with it
