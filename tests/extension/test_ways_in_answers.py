"""Questions about newcomers, answered by their number of triples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.extension.questions import AnswerOptions, Question, Ranking
from ookg.model.model import Model
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.trust import Calibration, Outcomes
from ookg.simulation.ways import DEFAULT_WAYS, Way, Ways

FIT = ookg.RefineSettings(steps=5, margin=4.0, lr=0.05, negatives=8)
COMPANY = ookg.RankingWeights.alone(vector=1.0, company=0.6, links=2.0, new=-1.0, hubness=0.5)
WAYS = Ways(
    [
        Way(1, False, COMPANY),
        Way(2, False, ookg.RankingWeights.alone()),
        Way(4, True, ookg.RankingWeights.alone(vector=2.0, habits=0.5)),
    ]
)
ROWS = [("x", "r0", "e1"), ("e2", "r1", "x"), ("x", "r2", "e5"), ("e7", "r3", "x"), ("x", "r1", "e9")]
ASKED: dict[str, Any] = {"head": "x", "relation": "r1", "top": 50}


@pytest.fixture(scope="module", params=["transe", "rotate"])
def known(request: pytest.FixtureRequest) -> Model:
    trained = ookg.train(random_triples(0), SMALL.changed({"model": request.param}), device="cpu")
    return trained.with_choice(NewcomerChoice(refine=FIT, ways=WAYS, known=ookg.RankingWeights.alone()))


def test_each_number_of_triples_is_answered_by_its_way(known: Model) -> None:
    closed = ookg.Precision()
    one = known.predict(ROWS[:1], **ASKED)
    assert one.answers == known.predict(ROWS[:1], **ASKED, weights=closed, combine=COMPANY).answers
    assert one.way == "vector of the closed form with links, company"
    two = known.predict(ROWS[:2], **ASKED)
    assert two.answers == known.predict(ROWS[:2], **ASKED, weights=closed, combine=False).answers
    assert two.way == "vector of the closed form"
    four = known.predict(ROWS[:4], **ASKED)
    fitted: dict[str, Any] = {"weights": closed, "refine": FIT, "combine": WAYS[2].ranking}
    assert four.answers == known.predict(ROWS[:4], **ASKED, **fitted).answers
    assert four.way == "fitted vector with habits"


def test_a_newcomer_that_gets_more_triples_changes_its_way(known: Model) -> None:
    extended, ways = known.extend(), []
    for row in ROWS:
        extended.add([row])
        prediction = extended.predict(head="x", relation="r1")
        ways.append(prediction.way)
        again = known.extend(ROWS[: len(ways)]).predict(head="x", relation="r1")
        assert prediction.answers == again.answers
    assert ways == [str(WAYS[place]) for place in (0, 1, 1, 2, 2)]
    extended.remove(ROWS[1:])
    assert extended.predict(head="x", relation="r1").way == str(WAYS[0])


def test_newcomers_side_by_side_have_each_its_own(known: Model) -> None:
    rows = [*ROWS, ("y", "r0", "e3"), ("z", "r0", "e3"), ("z", "r1", "e4")]
    questions = [Question("r1", head) for head in ("x", "y", "z", "e0")]
    together = known.extend(rows).predict_all(questions)
    assert [prediction.way for prediction in together] == [str(WAYS[2]), str(WAYS[0]), str(WAYS[1]), "trained vector"]
    assert together[3].trust is None
    scores = {answer.entity: answer.score for answer in together[3].answers}
    assert max(scores.values()) <= 0  # -D(h, r, t)


def test_other_choices_are_available_by_name(known: Model) -> None:
    for said in (
        {"weights": ookg.Uniform()},
        {"refine": FIT},
        {"refine": False},
        {"combine": True},
        {"combine": False},
    ):
        assert known.predict(ROWS, **ASKED, **said).way is None
    correlation = known.predict(ROWS, **ASKED, weights=ookg.Correlation(), refine=False, combine=False)
    for said in ({"refine": False}, {"combine": False}):
        assert known.predict(ROWS, **ASKED, **said).answers == correlation.answers  # type: ignore[arg-type]
    extended = known.extend(ROWS)
    assert extended.predict(head="x", relation="r1", options=AnswerOptions(combine=False)).way is None
    assert known.extend(ROWS, refine=False).predict(head="x", relation="r1").way is None


def test_a_vector_that_is_not_fitted_is_not_called_so(known: Model) -> None:
    """Triples with other newcomers count among its triples, but vectors are fitted to known neighbours."""
    rows = [("x", "r0", "e1"), *(("x", "r1", f"n{number}") for number in range(3))]
    rows += [(f"n{number}", "r2", f"e{number + 3}") for number in range(3)]
    extended = known.extend(rows)
    prediction = extended.predict(head="x", relation="r1")
    assert prediction.trust is not None
    assert prediction.trust.triples == 4
    assert prediction.way == "vector of the closed form with habits"
    closed = known.extend(rows, weights=ookg.Precision(), refine=False)
    assert torch.equal(extended.vector("x"), closed.vector("x"))


def test_a_new_answer_that_is_stated_is_not_held_back(known: Model) -> None:
    extended = known.extend([*ROWS, ("e3", "r2", "x")])
    numbers = extended.entities.ids(["e3", "e4", "x"])

    def scored(head: str) -> float:
        asked = extended.predict(head=head, relation="r2", known_answers="mark", explain=True, top=50)
        answer = next(answer for answer in asked.answers if answer.entity == "x")
        assert answer.is_known == (head == "e3")
        return answer.score

    relation = extended.relations.ids(["r2"])[0]
    of_vectors = extended.scores(np.array([[number, relation, numbers[2]] for number in numbers[:2]]))
    assert scored("e3") == pytest.approx(of_vectors[0], rel=1e-5)
    assert scored("e4") < of_vectors[1] - 0.01


def test_without_anything_tuned_the_defaults_answer(known: Model) -> None:
    plain = known.with_choice(NewcomerChoice(refine=FIT))
    assert plain.ways == DEFAULT_WAYS
    assert plain.predict(ROWS, **ASKED).way == str(DEFAULT_WAYS.at(5))
    bare = Model(replace(plain.checkpoint, graph=None))
    prediction = bare.predict(ROWS, **ASKED)
    assert prediction.way is None
    assert prediction == bare.predict(ROWS, **ASKED, weights=ookg.Uniform(), refine=False, combine=False)


def test_a_model_whose_vectors_cannot_be_fitted_has_the_ways_without_it() -> None:
    model = ookg.train(random_triples(0), SMALL.changed({"model": "transh"}), device="cpu")
    model = model.with_choice(NewcomerChoice(ways=WAYS))
    assert model.ways == WAYS.without_refining()
    assert model.predict(ROWS, **ASKED).way == "vector of the closed form with habits"


def test_a_limit_counts(known: Model) -> None:
    limited = known.predict(ROWS, **ASKED, limit=ookg.NeighborLimit(1))
    assert limited.way == str(WAYS[0])


def test_evidence_is_counted_only_where_a_way_needs_it(known: Model) -> None:
    vector = ookg.RankingWeights.alone(vector=3.0)
    alone = known.with_choice(NewcomerChoice(ways=Ways([Way(1, False, vector)]), known=vector))
    state = alone.extend(ROWS)._state
    assert not Ranking.of(state, AnswerOptions()).needs_evidence
    of_known = alone.with_choice(replace(alone.choice, known=None)).extend(ROWS)._state
    assert Ranking.of(of_known, AnswerOptions()).needs_evidence
    assert Ranking.of(state, AnswerOptions(combine=True)).needs_evidence
    assert Ranking.of(known.extend(ROWS)._state, AnswerOptions()).needs_evidence
    assert alone.predict(ROWS, **ASKED).way == "vector of the closed form"


def test_trust_is_what_was_measured_of_the_ways(known: Model) -> None:
    size = 40
    triples, uncertainty = np.arange(1, size + 1), np.linspace(0.9, 0.1, size)

    def measured(hits: float) -> Calibration:
        outcomes = Outcomes(triples, uncertainty, np.full(size, hits), np.full(size, hits / 2))
        return Calibration.fit(outcomes, outcomes)

    calibration = {"closed form": measured(0.2), "refined": measured(0.4), "chosen": measured(0.8)}
    model = known.with_choice(NewcomerChoice(refine=FIT, ways=WAYS, calibration=calibration))  # type: ignore[arg-type]
    by_way, closed = model.predict(ROWS, **ASKED).trust, model.predict(ROWS, **ASKED, combine=False).trust
    assert by_way is not None
    assert closed is not None
    assert by_way.expected_hits_at_10 == pytest.approx(0.8, abs=0.1)
    assert closed.expected_hits_at_10 == pytest.approx(0.2, abs=0.1)
    assert model.extend(ROWS).trust("x") == by_way
