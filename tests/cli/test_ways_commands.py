"""Answering by the number of triples, on the command line: predict says how, tune chooses, evaluate measures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ookg
from conftest import SMALL
from few_shot_sets import write_few_shot_set
from ookg.cli import main
from ookg.cli.simulating import numbers_of_triples, whole_numbers
from ookg.datasets.few_shot import load_few_shot
from ookg.errors import InputError
from ookg.evidence.combined import RankingWeights
from ookg.model.current import Current
from ookg.model.living import LivingModel
from ookg.model.model import Model
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.choosing import KNOTS
from ookg.simulation.ways import Way, Ways

Run = Callable[..., str]
FIT = ookg.RefineSettings(steps=5, margin=4.0, lr=0.05, negatives=8)
WAYS = Ways([Way(1, False, RankingWeights.alone(vector=1.0, company=0.5)), Way(3, True, RankingWeights.alone())])
PREDICT = ("predict", "model", "--given", "new.tsv", "--relation", "r1", "--head")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ways")
    dataset = load_few_shot(write_few_shot_set(path / "few"))
    model = ookg.train(dataset.train, SMALL.changed({"steps": 5}), device="cpu")
    model.with_choice(NewcomerChoice(refine=FIT, ways=WAYS)).save(path / "model")
    (path / "new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\ny\tr2\te3\nx\tr2\te5\n")
    write_graph(path / "graph.tsv")
    settings = SMALL.changed({"steps": 5})
    large = ookg.train(path / "graph.tsv", settings, device="cpu")
    large.with_choice(NewcomerChoice(refine=FIT)).save(path / "large")
    return path


def write_graph(file: Path) -> None:
    """200 films of ten studios; a film has its studio's language, and two people."""
    rng, rows = np.random.default_rng(0), []
    for film in range(200):
        studio = film % 10
        rows += [f"f{film}\tstudio\ts{studio}", f"f{film}\tlanguage\tl{studio % 4}"]
        rows += [f"f{film}\twith\tp{person}" for person in rng.choice(40, 2, replace=False)]
    file.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([*arguments, "--device", "cpu"]) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code:
            assert len(captured.err.splitlines()) == 1
        return captured.err if code else captured.out

    return call


def test_predict_says_how_it_answered(run: Run) -> None:
    few, many = run(*PREDICT, "y"), run(*PREDICT, "x", "--explain")
    assert "\nanswered by the vector of the closed form with company\n" in few
    assert "\nanswered by the fitted vector\n" in many
    assert "what the vector of x was fitted to" in many
    assert "what the vector of y is made of" in run(*PREDICT, "y", "--explain")
    assert json.loads(run(*PREDICT, "y", "--json"))["way"] == str(WAYS[0])
    for other in (("--refine",), ("--combine",), ("--no-combine",), ("--weights", "uniform"), ("--power", "2")):
        assert "answered by" not in run(*PREDICT, "y", *other)
        assert json.loads(run(*PREDICT, "y", *other, "--json"))["way"] is None
    assert "\nanswered by the trained vector with links, likeness\n" in run(*PREDICT, "e1")
    assert "answered by" not in run(*PREDICT, "e1", "--no-combine")


def test_predict_is_what_the_library_says(run: Run, folder: Path) -> None:
    answers = json.loads(run(*PREDICT, "y", "--json"))["answers"]
    expected = ookg.load(folder / "model").predict(folder / "new.tsv", head="y", relation="r1").answers
    assert [(one["entity"], one["score"]) for one in answers] == [(one.entity, one.score) for one in expected]


def test_evaluate_answers_as_predict_does_or_not(run: Run) -> None:
    few_shot = ("evaluate", "model", "--dataset", "few", "--shots", "3", "--json")
    usual, chosen = (json.loads(run(*few_shot, *more)) for more in ((), ("--chosen",)))
    assert usual == chosen
    assert json.loads(run(*few_shot, "--no-combine")) != chosen
    assert "leave out weights, refine and combine" in run(*few_shot, "--chosen", "--refine", code=2)


def test_tune_stores_ways_and_predict_uses_them(run: Run) -> None:
    text = run("tune", "large", "--sample", "30", "--steps", "5", "--trials", "1", "--triples", "2,1,2", "--save")
    assert "how newcomers are answered" in text
    assert "\nfrom 2 " in text
    stored = ookg.load("large")
    assert stored.choice.ways is not None
    assert stored.ways == stored.choice.ways
    assert [way.triples for way in stored.choice.ways] == [1, 2]
    assert stored.choice.ways[0].ranking.company > 0
    assert f"company {stored.choice.ways[0].ranking.company:.2g}" in text
    Path("film.tsv").write_text("new\tstudio\ts3\n")
    document = json.loads(
        run("predict", "large", "--given", "film.tsv", "--head", "new", "--relation", "language", "--json")
    )
    assert document["way"] == str(stored.choice.ways[0])
    assert document["answers"][0]["entity"] == "l3"  # as all films of that studio


def write_film_tasks(folder: Path) -> Path:
    """The films of `write_graph`, of which 60 are newcomers: half of them in valid-tasks, half in test-tasks."""
    write_graph(folder / "all.tsv")
    rows = [line.split("\t") for line in (folder / "all.tsv").read_text().splitlines()]
    parts: dict[str, list[str]] = {name: [] for name in ("in-graph", "train-tasks", "valid-tasks", "test-tasks")}
    for head, relation, tail in rows:
        film = int(head[1:])
        name = (
            "in-graph" if film < 130 else "train-tasks" if film < 140 else "valid-tasks" if film < 170 else "test-tasks"
        )
        parts[name].append("\t".join([head, relation, tail] if film < 140 else [head, head, relation, tail]))
    (folder / "films").mkdir()
    for name, lines in parts.items():
        (folder / "films" / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder / "films"


def test_tune_chooses_on_valid_tasks(run: Run, tmp_path: Path) -> None:
    tasks, model = str(write_film_tasks(tmp_path)), str(tmp_path / "model")
    dataset = load_few_shot(tasks)
    trained = ookg.train(dataset.train, SMALL.changed({"steps": 5}), device="cpu")
    trained.with_choice(NewcomerChoice(power=2.0, refine=FIT)).save(model)
    choose = ("tune", model, "--tasks", tasks, "--shots", "1")
    before = json.loads(run("evaluate", model, "--dataset", tasks, "--shots", "1", "--json"))
    document = json.loads(run(*choose, "--json"))
    assert ookg.load(model).choice.ways is None  # nothing is stored unless it is asked for
    (tried,) = document["tried"]
    assert (tried["triples"], tried["questions"]) == (1, 90)
    assert tried["mrr"] > tried["alone"]  # a film's studio says its language
    text = run(*choose, "--save")
    assert "valid-tasks of films" in text
    assert "how newcomers are answered" in text
    stored = ookg.load(model).choice
    assert stored.ways == Ways([Way(1, False, RankingWeights.alone(**tried["ranking"]))])
    assert (stored.power, stored.refine) == (2.0, FIT)  # all else stays
    after = json.loads(run("evaluate", model, "--dataset", tasks, "--shots", "1", "--json"))
    assert after != before
    assert ookg.load(model).tune_on_tasks(tasks, [1]).choice.ways == stored.ways
    told = run("tune", "model", "--tasks", tasks, "--shots", "1", code=2)  # of another graph
    assert "; take a model that was trained on the train part of this data set" in told


def test_valid_tasks_weigh_the_network_too(run: Run, tmp_path: Path) -> None:
    tasks, model = str(write_film_tasks(tmp_path)), str(tmp_path / "model")
    ookg.train(load_few_shot(tasks).train, SMALL.changed({"steps": 5}), device="cpu").save(model)
    without = json.loads(run("tune", model, "--tasks", tasks, "--shots", "1", "--json"))
    run("network", model, "--steps", "30", "--encoder-steps", "5", "--encoder-batch", "8", "--device", "cpu")
    first = json.loads(run("evaluate", model, "--dataset", tasks, "--shots", "1", "--json"))
    document = json.loads(run("tune", model, "--tasks", tasks, "--shots", "1", "--save", "--json"))
    (tried,) = document["tried"]
    assert "network" not in without["tried"][0]["ranking"]
    assert tried["mrr"] != without["tried"][0]["mrr"]
    stored = ookg.load(model)
    network = stored.checkpoint.network
    assert network is not None
    assert stored.choice.network == network.digest == document["choice"]["network"]
    assert stored.ways == Ways([Way(1, False, RankingWeights.alone(**tried["ranking"]))])
    run("network", model, "--remove")
    assert json.loads(run("evaluate", model, "--dataset", tasks, "--shots", "1", "--json")) != first
    left = ookg.load(model).ways
    assert left is not None
    assert "network" not in left[0].ranking.to_dict()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--tasks", "few"), "--tasks and --shots go together"),
        (("--shots", "2"), "--tasks and --shots go together"),
        (("--tasks", "few", "--shots", "2", "--triples", "3"), "--triples hides known entities"),
        (("--tasks", "few", "--shots", "2", "--quick"), "--quick hides known entities"),
        (("--tasks", "few", "--shots", "2"), "fewer than 60 questions in the valid-tasks of few"),
        (("--tasks", "nowhere", "--shots", "2"), "nowhere"),
        (("--tasks", "few", "--shots", "2", "--trials", "3"), "--trials hides known entities"),
        (("--given", "nowhere.tsv"), "nowhere.tsv"),
        (("--given", "new.tsv", "--triples", "3"), "leave one out"),
    ],
)
def test_tasks_that_cannot_be_tuned_on(run: Run, options: tuple[str, ...], problem: str) -> None:
    assert problem in run("tune", "model", *options, code=2)


@pytest.mark.parametrize("text", ["0", "1,0", "-1", "", "1,,2", "many", "1.5"])
def test_numbers_that_are_none_are_refused(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    try:
        code = main(["tune", "large", f"--triples={text}"])
    except SystemExit as error:  # of the parser
        code = int(str(error.code))
    assert code == 2
    assert "triples" in capsys.readouterr().err


def test_whole_numbers() -> None:
    assert whole_numbers("3,1,10,3") == (1, 3, 10)
    assert whole_numbers("7") == (7,)


def test_numbers_of_triples_are_those_of_the_added_newcomers(folder: Path, tmp_path: Path) -> None:
    ookg.load(folder / "model").save(tmp_path / "model")
    assert numbers_of_triples(Current.load(tmp_path / "model")) == KNOTS
    living = LivingModel(tmp_path / "model")
    living.add([("e1", "r1", "e6")])  # nobody is new
    assert numbers_of_triples(Current.load(tmp_path / "model")) == KNOTS
    living.add([("a", "r0", "e1"), ("a", "r1", "e2")])
    assert numbers_of_triples(Current.load(tmp_path / "model")) == (2, 3, 10, 30)  # who gets more is thought of, too
    rows = [("b", "r0", "e1"), ("c", "r0", "c"), ("a", "r2", "b")]  # a has 3, b 2, and c 1 with itself
    rows += [("d", f"r{number % 3}", f"e{number}") for number in range(12)]
    living.add(rows)
    counts = [3, 2, 1, 12]
    numbers = numbers_of_triples(Current.load(tmp_path / "model"))
    assert (numbers[0], numbers[-2:]) == (min(counts), (max(counts), 30))
    assert list(numbers) == sorted(set(numbers))
    assert 2 in numbers


def test_numbers_of_triples_are_those_of_a_file(folder: Path, tmp_path: Path) -> None:
    current, file = Current.load(folder / "model"), tmp_path / "given.tsv"
    assert numbers_of_triples(current, str(folder / "new.tsv")) == (1, 2, 3, 10, 30)  # x has 3, y has 1
    file.write_text("e1\tr0\te2\n")
    with pytest.raises(InputError, match=r"given\.tsv: all entities are known"):
        numbers_of_triples(current, str(file))


def test_a_model_without_training_triples_answers_by_its_vectors(run: Run, folder: Path) -> None:
    full = ookg.load(folder / "model")
    Model(replace(full.checkpoint, graph=None, newcomers=None)).save(folder / "bare")
    text = run("predict", "bare", "--given", "new.tsv", "--relation", "r1", "--head", "y")
    assert "answered by" not in text
    assert text == run(
        "predict", "bare", "--given", "new.tsv", "--relation", "r1", "--head", "y", "--weights", "uniform"
    )
