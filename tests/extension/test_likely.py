"""Everything likely about an entity, probabilities of answers, and many questions from a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ookg
from conftest import random_triples
from ookg.errors import InputError
from ookg.extension.bulk import Everything, answer_all, check_questions, read_questions
from ookg.extension.questions import AnswerOptions, Question
from ookg.graph.triples import Triples
from ookg.model.model import Model
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.likelihood import DEFAULT_LIKELIHOOD
from ookg.simulation.retraining import Retraining
from ookg.simulation.tuning import TuningSettings
from ookg.training.settings import TrainingSettings

NEW = [("x", "born", "c0"), ("x", "plays", "g1")]


@pytest.fixture(scope="module")
def people() -> Model:
    """People have a birthplace and a language that goes with it, and half of them a game; nobody else has."""
    rows = []
    for n in range(40):
        rows += [(f"p{n}", "born", f"c{n % 4}"), (f"p{n}", "speaks", f"l{n % 4}")]
        rows += [(f"p{n}", "plays", f"g{n % 3}")] * (n % 2)
    settings = TrainingSettings(dim=16, steps=300, batch=32, negatives=8, margin=4.0, lr=0.05)
    return ookg.train([*rows, *((f"c{n}", "in", "w") for n in range(4))], settings, device="cpu")


def rows_of(model: Model) -> list[tuple[str, str, str]]:
    ids = model.checkpoint.triples.tolist()
    return [(model.entities.label(h), model.relations.label(r), model.entities.label(t)) for h, r, t in ids]


def measured(model: Model) -> Model:
    """With some probabilities, however they came about."""
    return model.with_choice(replace(model.choice, likelihood={"chosen": DEFAULT_LIKELIHOOD}))


def test_what_is_likely_about_a_newcomer(people: Model) -> None:
    likely = people.likely(NEW, entity="x")
    assert likely[0].triple == ("x", "speaks", "l0")
    assert [one.answer.rank for one in likely] == list(range(1, len(likely) + 1))
    assert all(one.answer.probability is None for one in likely)
    relations = {(one.question.relation, one.question.asks_tail) for one in likely}
    assert ("in", True) not in relations  # no person has it
    assert ("born", False) not in relations  # nobody is born in a person
    assert people.likely(NEW, entity="x", end="tail") == []
    places = people.likely(NEW, entity="c0", end="tail", options=AnswerOptions(top=3))
    assert {one.question.relation for one in places} == {"born"}
    assert len({one.triple for one in likely}) == len(likely)


def test_probabilities_where_they_were_measured(people: Model) -> None:
    extended = measured(people).extend(NEW)
    prediction = extended.predict(relation="speaks", head="x")
    chances = [one.probability for one in prediction.answers]
    assert all(one is not None and 0 < one < 1 for one in chances)
    few = extended.predict(relation="speaks", head="x", options=AnswerOptions(top=2))
    assert [one.probability for one in few.answers] == chances[:2]  # however many are shown
    likely = extended.likely("x")
    order = [one.answer.probability or 0 for one in likely]
    assert order == sorted(order, reverse=True)
    least = (order[0] + order[1]) / 2
    assert [one.triple for one in extended.likely("x", options=AnswerOptions(min_probability=least))] == [
        ("x", "speaks", "l0")
    ]
    marked = extended.predict(relation="born", head="x", options=AnswerOptions(drop_known=False, top=40))
    assert [one.probability for one in marked.answers if one.is_known] == [1.0]
    # Another way, and known entities, were not measured.
    assert people.extend(NEW, refine=True).predict(relation="speaks", head="x").answers[0].probability is None
    assert extended.predict(relation="speaks", head="p1").answers[0].probability is None
    with pytest.raises(InputError, match="about known entities such as 'p1' are was not measured"):
        extended.predict(relation="speaks", head="p1", options=AnswerOptions(min_probability=0.5))
    with pytest.raises(InputError, match=r"`ookg tune --save` does it"):
        people.likely(NEW, entity="x", options=AnswerOptions(min_probability=0.5))
    with pytest.raises(InputError, match=r"a probability of 1\.5"):
        AnswerOptions(min_probability=1.5)


def test_held_out_triples_give_known_entities_probabilities(people: Model) -> None:
    rows = rows_of(people)
    model = ookg.train(
        [row for n, row in enumerate(rows) if n % 5 or row[1] != "speaks"],
        TrainingSettings(dim=16, steps=300, batch=32, negatives=8, margin=4.0, lr=0.05),
        device="cpu",
    )
    held_out = [row for n, row in enumerate(rows) if not n % 5 and row[1] == "speaks"]
    with pytest.raises(InputError, match="too few to say how likely"):
        model.calibrated(held_out)
    with pytest.raises(InputError, match="was trained on 1 of its triples"):
        model.calibrated([*held_out, rows[1]])


def test_on_a_random_graph_probabilities_promise_nothing(model: Model, graph: Triples) -> None:
    known = set(graph)
    held_out = [row for row in random_triples(7, size=2000) if row not in known]
    calibrated = model.calibrated(held_out)
    fitted = calibrated.choice.likelihood["known"]
    right = sum(one.answers * one.right for one in fitted.bins) / sum(one.answers for one in fitted.bins)
    answer = calibrated.predict(relation="r0", head="e1").answers[0]
    assert answer.probability == pytest.approx(right, abs=0.35)
    assert calibrated.predict(relation="r0", head="e1", combine=True).answers[0].probability is None
    assert calibrated.likely(entity="e1")[0].answer.probability is not None


def test_tune_measures_newcomers(people: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ookg.simulation.likelihood.FEWEST_RIGHT", 3)
    hiding, retraining = HidingSettings(sample=16), Retraining(steps=150, reference=False)
    known = ookg.RankingWeights.alone(vector=1.0, company=0.7)
    before = people.with_choice(replace(people.choice, known=known))
    choice = before.tune(TuningSettings(hiding, retraining, trials=1, triples=(1,))).choice
    assert choice.known == known
    assert {"chosen", "closed form"} <= set(choice.likelihood)
    tuned = people.with_choice(choice)
    answers = tuned.predict([("x", "born", "c0")], relation="speaks", head="x").answers
    assert answers[0].entity == "l0"
    chances = [one.probability or 0 for one in answers]
    assert chances[0] == max(chances) > 0.2 > chances[-1]


def test_questions_of_a_file(people: Model, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    rows = [{"head": "x", "relation": "speaks"}, {"entity": "x"}, {"relation": "born", "tail": "c1"}, {"tail": "c0"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = read_questions(path)
    assert asked == [
        Question("speaks", head="x"),
        Everything("x"),
        Question("born", tail="c1"),
        Everything("c0", "tail"),
    ]
    extended = people.extend(NEW)
    table = answer_all(extended, asked, AnswerOptions(top=2)).to_pylist()
    assert [row["question"] for row in table] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert table[0] == {
        "question": 1, "head": "x", "relation": "speaks", "tail": "l0", "asked": "tail", "rank": 1,
        "score": extended.predict(relation="speaks", head="x").answers[0].score, "probability": None,
        "known": False, "new": False,
    }  # fmt: skip
    assert (table[4]["asked"], table[4]["tail"]) == ("head", "c1")
    assert (
        extended.predict_all([Question("speaks", head="x")], AnswerOptions(top=2)).to_arrow().to_pylist() == table[:2]
    )
    assert extended.likely("x", options=AnswerOptions(top=2)).to_arrow().num_rows == 2
    check_questions(path, extended, asked)
    with pytest.raises(InputError, match=r"q.jsonl, row 2: unknown entity 'p99'"):
        check_questions(path, extended, [asked[0], Question("born", head="p99")])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"head": "a", "relation": "r", "tail": "b"}, "row 1 has head and tail"),
        ({"relation": "r"}, "row 1 has no head, tail or entity"),
        ({"entity": "a", "relation": "r"}, "row 1 has an entity and a relation"),
        ({"head": 1.5}, "'1.5' in row 1"),
        ({"head": ["a"]}, "in row 1; give labels"),
    ],
)
def test_rows_that_ask_nothing_are_refused(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=problem):
        read_questions(path)
