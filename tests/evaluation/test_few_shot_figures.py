"""A model on a few-shot data set: the ranks are those of `predict`, known and new answers apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ookg
from conftest import SMALL
from few_shot_sets import KNOWN, write_few_shot_set
from growing_sets import write_growing_set
from ookg.cli import main
from ookg.datasets.few_shot import FewShotDataset, load_few_shot
from ookg.errors import InputError
from ookg.evaluation.evaluate import LinkPredictionResult
from ookg.evaluation.few_shot import FewShotFigures
from ookg.evidence.combined import RankingWeights
from ookg.extension.questions import AnswerOptions
from ookg.model.model import Model
from ookg.newcomers.reducer import Correlation, Uniform, Weights
from ookg.scoring.ranking import RankSummary
from ookg.types import FloatArray


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_few_shot_set(tmp_path_factory.mktemp("data") / "mine")


@pytest.fixture(scope="module")
def dataset(folder: Path) -> FewShotDataset:
    return load_few_shot(folder)


@pytest.fixture(scope="module")
def model(dataset: FewShotDataset) -> Model:
    return ookg.train(dataset.train, SMALL, device="cpu")


def evaluated(model: Model, dataset: FewShotDataset, shots: int, **options: object) -> FewShotFigures:
    figures = model.evaluate(dataset, shots=shots, **options)  # type: ignore[arg-type]
    assert isinstance(figures, FewShotFigures)
    return figures


def predicted_ranks(
    model: Model, dataset: FewShotDataset, shots: int, weights: Weights, combine: bool | RankingWeights
) -> dict[str, float]:
    """The rank of the answer to each question, from all answers that `predict` gives."""
    at = dataset.at("test", shots)
    extended = model.extend(list(at.dataset.aux), weights=weights)
    true = {
        "\t".join(triple) for part in (dataset.train, dataset.valid.triples, dataset.test.triples) for triple in part
    }
    ranks: dict[str, float] = {}
    for (head, relation, tail), asks_tail in zip(at.dataset.test, at.asks_tail.tolist(), strict=True):
        asked: dict[str, Any] = {"head": head} if asks_tail else {"tail": tail}
        options = AnswerOptions(combine, top=1000, drop_known=False)
        found = extended.predict(relation=relation, **asked, options=options).answers
        scores = {answer.entity: answer.score for answer in found}
        right = tail if asks_tail else head
        own = scores.get(right)
        rivals = [
            score
            for label, score in scores.items()
            if "\t".join((head, relation, label) if asks_tail else (label, relation, tail)) not in true
        ]
        if own is not None:  # it has a vector
            ranks[f"{head} {relation} {tail}"] = 1 + sum(score > own for score in rivals)
    return ranks


@pytest.mark.parametrize("combine", [False, RankingWeights(1.0, 2.0, 0.3)], ids=["vectors", "all evidence"])
@pytest.mark.parametrize("weights", [Uniform(), Correlation(2)], ids=["uniform", "correlation"])
def test_ranks_are_those_of_the_answers_that_predict_gives(
    model: Model,
    dataset: FewShotDataset,
    weights: Weights,
    combine: bool | RankingWeights,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = predicted_ranks(model, dataset, 3, weights, combine)
    at = dataset.at("test", 3)
    measured: list[FloatArray] = []
    real = RankSummary.of

    def keep(ranks: FloatArray) -> RankSummary:
        measured.append(ranks)
        return real(ranks)

    monkeypatch.setattr(RankSummary, "of", keep)
    evaluated(model, dataset, 3, weights=weights, combine=combine)
    everything = measured[[len(ranks) for ranks in measured].index(len(at.asks_tail))]
    ranks = {f"{h} {r} {t}": rank for (h, r, t), rank in zip(at.dataset.test, everything.tolist(), strict=True)}
    assert {name: ranks[name] for name in expected} == expected
    assert any("t2" in name and "t1" in name for name in expected)  # one with a new answer


def test_what_else_is_true_is_no_rival(model: Model, dataset: FewShotDataset) -> None:
    at = dataset.at("test", 3)
    rivals = [
        (head, relation, entity) if asks_tail else (entity, relation, tail)
        for (head, relation, tail), asks_tail in zip(at.dataset.test, at.asks_tail.tolist(), strict=True)
        for entity in dataset.known_entities.labels.to_pylist()
    ]
    more = dataset.with_also_true(rivals)
    plain, filtered = (evaluated(model, one, 3, weights=Uniform(), ties="optimistic") for one in (dataset, more))
    assert filtered.known.queries == plain.known.queries
    assert plain.known.mrr < 1
    assert filtered.known.mrr > plain.known.mrr
    half = evaluated(model, dataset.with_also_true(rivals[::2]), 3, weights=Uniform(), ties="optimistic")
    assert plain.known.mrr < half.known.mrr < filtered.known.mrr
    ordinary = at.dataset.with_also_true(rivals)
    result = model.evaluate(ordinary, weights=Uniform(), protocol="paper", ties="optimistic")
    assert isinstance(result, LinkPredictionResult)
    assert result.summary.hits_at_1 >= 100 * 16 / 20  # all with a known answer


def test_known_and_new_answers_apart(model: Model, dataset: FewShotDataset) -> None:
    figures = evaluated(model, dataset, 1, weights=Uniform())
    ids = dataset.encoded.at("test", 1)
    is_new = ids.answer >= KNOWN
    assert (figures.all.queries, figures.known.queries, figures.new.queries) == (30, 27, 3)
    assert is_new.sum() == 3  # the loop of t0, t1 with t2, t2 with x
    mean = (27 * figures.known.mrr + 3 * figures.new.mrr) / 30
    assert figures.all.mrr == pytest.approx(mean)
    assert [row.given for row in figures.by_given] == sorted({*ids.num_given.tolist()})
    assert sum(row.summary.queries for row in figures.by_given) == 30
    assert figures.notes == ["1 query with a new entity without a vector as answer, ranked behind all others"]
    assert (figures.split, figures.shots, figures.protocol) == ("test", 1, "all")
    document = figures.to_dict()
    assert document["mrr"] == figures.all.mrr
    assert document["known"]["queries"] == 27
    assert document["new"]["mrr"] == figures.new.mrr
    assert [row["given"] for row in document["by_given"]] == [row.given for row in figures.by_given]
    assert json.loads(json.dumps(document)) == document
    assert "30 queries" in str(figures)


def test_the_papers_protocol_has_new_answers_behind_known_ones(model: Model, dataset: FewShotDataset) -> None:
    figures = evaluated(model, dataset, 1, weights=Uniform(), protocol="paper", ties="optimistic")
    assert figures.new.mrr < 1 / (KNOWN - 5)  # some of them are other true answers
    better = evaluated(model, dataset, 1, weights=Uniform(), ties="optimistic")
    assert better.new.mrr > figures.new.mrr
    assert better.known.mrr <= figures.known.mrr
    assert figures.notes == ["3 queries with a new entity as answer, ranked behind all known ones"]


def test_other_sets_rank_new_answers_by_their_vectors_if_that_is_said(model: Model, dataset: FewShotDataset) -> None:
    at = dataset.at("test", 3).dataset
    by_protocol = {}
    for protocol in ("paper", "all"):
        result = model.evaluate(at, protocol=protocol, weights=Uniform())
        assert isinstance(result, LinkPredictionResult)
        by_protocol[protocol] = result
    usual = model.evaluate(at, weights=Uniform())
    assert usual == by_protocol["paper"]
    assert by_protocol["all"].unreachable < by_protocol["paper"].unreachable
    assert by_protocol["all"].summary != by_protocol["paper"].summary


def test_fitted_vectors_are_answers_too(model: Model, dataset: FewShotDataset) -> None:
    settings = replace(model.defaults.refine, steps=5)
    fitted = evaluated(model, dataset, 3, refine=settings, combine=False)
    plain = evaluated(model, dataset, 3, weights=Uniform())
    assert fitted.all != plain.all
    assert fitted.new.queries == plain.new.queries


def test_valid_tasks_are_asked_if_they_are_named(model: Model, dataset: FewShotDataset, folder: Path) -> None:
    figures = evaluated(model, dataset, 2, tasks="valid")
    assert (figures.split, figures.all.queries, figures.new.queries) == ("valid", 14, 0)
    assert np.isnan(figures.new.mrr)
    assert figures.to_dict()["new"]["mrr"] is None
    by_folder = model.evaluate(folder, shots=2, tasks="valid")
    assert isinstance(by_folder, FewShotFigures)
    assert by_folder.all == figures.all


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say how many of each are given, such as `shots=3`"),
        ({"shots": 0}, "0 shots"),
        ({"shots": 2, "task": "triplet-classification"}, "has no labelled claims"),
        ({"shots": 2, "protocol": "lan"}, "choose all or paper"),
        ({"shots": 2, "protocol": "mine"}, "protocol 'mine'; choose paper or lan or all"),
        ({"shots": 2, "tasks": "train"}, "tasks 'train'; choose valid or test"),
    ],
)
def test_what_has_no_meaning_is_refused(
    model: Model, dataset: FewShotDataset, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model.evaluate(dataset, **options)  # type: ignore[arg-type]


def test_shots_are_for_few_shot_sets(model: Model, dataset: FewShotDataset) -> None:
    with pytest.raises(InputError, match="is no few-shot one; leave shots and tasks out"):
        model.evaluate(dataset.at("test", 1).dataset, shots=1)


def test_a_model_of_other_triples_is_refused(dataset: FewShotDataset) -> None:
    triples = [*dataset.train, *dataset.test.triples]
    leaked = ookg.train(triples, SMALL.changed({"steps": 1}), device="cpu")
    with pytest.raises(InputError, match="new entities of mine are known to the model"):
        leaked.evaluate(dataset, shots=1)
    little = ookg.train(list(dataset.train)[:3], SMALL.changed({"steps": 1}), device="cpu")
    with pytest.raises(InputError, match="known entities of mine are unknown to the model"):
        little.evaluate(dataset, shots=1)


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--dim", "4", "--steps", "5", "--batch", "16", "--negatives", "2", "--device", "cpu"]
    assert main(["train", str(folder), "--out", str(tmp_path / "model"), *settings]) == 0
    capsys.readouterr()
    command = ["evaluate", str(tmp_path / "model"), "--dataset", str(folder), "--device", "cpu"]
    assert main([*command, "--shots", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mine, test-tasks, 3 given of each newcomer")
    assert lines[1].split() == ["questions", "number", "MRR", "mean", "rank", "Hits@1", "Hits@3", "Hits@10"]
    assert [line.rsplit(maxsplit=6)[0] for line in lines[2:5]] == ["all", "with a known answer", "with a new answer"]
    assert lines[5].startswith("of newcomers with 3 given")
    assert main([*command, "--shots", "2", "--tasks", "valid", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["task"], document["tasks"], document["shots"]) == ("few-shot", "valid", 2)
    assert document["queries"] == document["known"]["queries"] == 14
    assert main(command) == 2
    assert "--shots" in capsys.readouterr().err


def test_what_else_is_true_by_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--dim", "4", "--steps", "5", "--batch", "16", "--negatives", "2", "--device", "cpu"]
    model = str(tmp_path / "model")
    assert main(["train", str(folder), "--out", model, *settings]) == 0
    more = tmp_path / "more.tsv"
    rows = [f"t{n}\tr{r}\te{e}\ne{e}\tr{r}\tt{n}\n" for n in range(6) for r in range(3) for e in range(20)]
    more.write_text("".join(rows))
    command = ["evaluate", model, "--device", "cpu", "--shots", "3", "--json", "--ties", "optimistic"]
    figures = []
    for options in ([], ["--also-true", str(more)]):
        capsys.readouterr()
        assert main([*command, "--dataset", str(folder), *options]) == 0
        figures.append(json.loads(capsys.readouterr().out))
    assert figures[0]["known"]["mrr"] < figures[1]["known"]["mrr"]
    assert figures[0]["known"]["queries"] == figures[1]["known"]["queries"]
    assert (figures[0]["also_true"], figures[1]["also_true"]) == (0, 720)
    more.write_text("".join(rows) + "t0\tr0\tnobody\n")
    assert main([*command, "--dataset", str(folder), "--also-true", str(more)]) == 0
    told = (
        "720 triples that are also true, no wrong answers; 1 with an entity or a relation of no other part passed over"
    )
    assert told in capsys.readouterr().err
    tuned = ["tune", model, "--device", "cpu", "--tasks", str(folder), "--shots", "3", "--also-true", str(more)]
    assert main(tuned) == 2
    assert "questions in the valid-tasks" in capsys.readouterr().err  # too few of them, with it as without
    growing = write_growing_set(tmp_path / "growing")
    empty = tmp_path / "empty.tsv"
    empty.write_text("")
    tasks = ["tune", model, "--device", "cpu"]
    test = ["evaluate", model, "--test", str(more), "--also-true", str(more)]
    for refused, message in (
        ([*tasks, "--also-true", str(more)], "--also-true without --tasks; give both"),
        (test, "--also-true is for new entities"),
        ([*command[:4], "--dataset", str(growing), "--also-true", str(more)], "is a growing one; leave it out"),
        ([*command, "--dataset", str(folder), "--also-true", str(empty)], "no triples"),
        ([*command, "--dataset", str(folder), "--also-true", "nowhere.tsv"], "nowhere.tsv"),
    ):
        assert main(refused) == 2
        assert message in capsys.readouterr().err
