"""What the methods of a model return: the same as the functions, and it can be pickled and printed."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ookg
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.splitting import Split, SplitSettings, split
from ookg.evaluation.evaluate import LinkPredictionResult, TripletClassificationResult
from ookg.evaluation.measuring import figures_of
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import as_triples
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Correlation, Degree
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.audit import audit
from ookg.simulation.tuning import tune

SETTINGS = ookg.TrainingSettings(dim=8, steps=60, batch=64, negatives=4, margin=4.0)
HIDING = ookg.HidingSettings(sample=20, seed=4)


def graph() -> list[tuple[str, str, str]]:
    random = np.random.default_rng(5)
    ends = [(head, relation, int(random.integers(3))) for head in range(90) for relation in range(4) for _ in range(2)]
    return sorted({(f"e{head}", f"r{r}", f"e{(head * (r + 2) + step) % 90}") for head, r, step in ends})


@pytest.fixture(scope="module")
def parts() -> dict[str, Split]:
    triples = as_triples(graph())
    return {
        "link-prediction": split(triples, SplitSettings(test=0.05, seed=1)),
        "triplet-classification": split(triples, SplitSettings(test=0.05, seed=1, task="triplet-classification")),
    }


@pytest.fixture(scope="module")
def model(parts: dict[str, Split]) -> ookg.Model:
    return ookg.train(parts["link-prediction"].train, SETTINGS)


@pytest.mark.parametrize("task", ["link-prediction", "triplet-classification"])
def test_a_model_is_evaluated_by_the_code_of_the_tables(parts: dict[str, Split], task: str) -> None:
    model = ookg.train(parts[task].train, SETTINGS)
    found = model.evaluate(parts[task])
    assert found == ookg.evaluate(model, parts[task])
    data = EncodedDataset.of(parts[task])
    # The data set's ids are the model's: both number what occurs in train in its order.
    statistics = GraphStatistics.count(data.train, data.num_known, data.num_trained)
    weights = Correlation() if task == "link-prediction" else Degree()
    newcomers = find_newcomers(model.embedding, statistics, data.train, data.given, weights)
    figures = figures_of(TranslationScorer(newcomers.with_room_for(data.num_entities - data.num_known)), data)
    assert {name: found.to_dict()[name] for name in figures} == figures


def test_evaluations_can_be_pickled_and_printed(model: ookg.Model, parts: dict[str, Split]) -> None:
    ranks = model.evaluate(parts["link-prediction"])
    assert isinstance(ranks, LinkPredictionResult)
    assert pickle.loads(pickle.dumps(ranks)) == ranks
    summary = ranks.summary
    assert str(ranks).startswith(f"link prediction (paper): MRR {summary.mrr:.3f}, Hits@1 {summary.hits_at_1:.1f} %")
    claims = ookg.train(parts["triplet-classification"].train, SETTINGS).evaluate(parts["triplet-classification"])
    assert isinstance(claims, TripletClassificationResult)
    assert pickle.loads(pickle.dumps(claims)) == claims
    assert str(claims) == f"triplet classification: {claims.accuracy:.1f} % of {claims.claims} claims judged right"


def test_an_audit_is_a_method_and_can_be_pickled_and_printed(model: ookg.Model) -> None:
    settings = ookg.AuditSettings(HIDING, None, refine=False)
    found = model.audit(settings)
    assert found.overall == audit(model.checkpoint, settings).overall
    assert pickle.loads(pickle.dumps(found)) == found
    lines = str(found).splitlines()
    assert lines[0] == f"quick audit, {found.hidden} entities hidden; best: {found.best}"
    assert lines[1].startswith("trained: MRR ")


def test_a_choice_stays_with_the_model(model: ookg.Model, tmp_path: Path) -> None:
    settings = ookg.TuningSettings(HIDING, ookg.Retraining(30, reference=False), trials=1)
    found = model.tune(settings)
    assert found.report == tune(model.checkpoint, settings).report
    assert pickle.loads(pickle.dumps(found)) == found
    assert str(found).startswith(f"chosen: power {found.choice.power:g}, margin ")
    assert "closed form, chosen: MRR" in str(found)
    chosen = model.with_choice(found.choice)
    assert (chosen.choice, model.choice.power) == (found.choice, None)
    chosen.save(str(tmp_path))
    assert ookg.load(str(tmp_path)).choice == found.choice
    other = found.choice.calibrated({}, {"note": 1})
    chosen.with_choice(other).save_choice(str(tmp_path))  # the section alone
    assert ookg.load(str(tmp_path)).choice == other


def test_what_two_commands_store_stays(model: ookg.Model, tmp_path: Path) -> None:
    model.save(str(tmp_path))
    one, two, three = (ookg.load(str(tmp_path)) for _ in range(3))
    one.with_choice(replace(one.choice, power=2.5)).save_choice(str(tmp_path))
    two.with_choice(replace(two.choice, simulation={"a": 1})).save_choice(str(tmp_path))
    three.with_choice(replace(three.choice, simulation={"b": 2})).save_choice(str(tmp_path))
    stored = ookg.load(str(tmp_path))
    assert (stored.choice.power, stored.choice.simulation) == (2.5, {"b": 2, "a": 1})
    stored.with_choice(replace(stored.choice, power=None, simulation={"b": 2})).save_choice(str(tmp_path))
    stored = ookg.load(str(tmp_path))
    assert (stored.choice.power, stored.choice.simulation) == (None, {"b": 2})


def test_a_classification_can_be_pickled_and_printed(parts: dict[str, Split]) -> None:
    data = parts["triplet-classification"]
    model = ookg.train(data.train, SETTINGS)
    found = model.classify(data.test, valid=data.valid, given=data.aux, judge=ookg.JudgeSettings(steps=20, share=1.0))
    assert found.judge is not None
    assert pickle.loads(pickle.dumps(found)) == found
    first, accuracy = found.claims[0], found.accuracy
    word = "true" if first.verdict else "false"
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{first.head} {first.relation} {first.tail}: {word} (")
    assert lines[len(found.claims)] == f"{accuracy:.1f} % right"
    assert repr(found.judge).startswith("<ookg judge: learned from ")
