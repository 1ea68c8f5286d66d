"""Results can be pickled, compared and printed."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch

import ookg
from ookg.evaluation.verdicts import Classification, Verdict
from ookg.extension.answers import (
    Answer,
    ByCompany,
    ByLikeness,
    ByLink,
    ByPath,
    LinkReason,
    Prediction,
    Reason,
    Reasons,
    Step,
)
from ookg.extension.questions import AnswerOptions
from ookg.newcomers.reducer import Uniform
from ookg.simulation.trust import TrustTable

GIVEN = [("a", "r0", "e1"), ("a", "r1", "e2"), ("b", "r1", "e5"), ("lonely", "r0", "lonely")]
VALID = [("e1", "r0", "e2", "1"), ("e3", "r0", "e4", "0"), ("e5", "r1", "e6", "1"), ("e7", "r1", "e8", "0")]


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("combine", [False, True])
def test_a_prediction(model: ookg.Model, combine: bool) -> None:
    for found in (
        model.predict(GIVEN, head="a", relation="r3", combine=combine),
        model.predict(GIVEN, tail="e1", relation="r3", combine=combine),
        model.extend(GIVEN).predict(head="b", relation="r0", options=AnswerOptions(combine=combine)),
    ):
        again = pickled(found)
        assert again == found
        assert repr(again) == repr(found)
        assert copy.deepcopy(found) == found
        assert len(str(found).splitlines()) == len(found.answers) + len(found.notes)
        assert found.answers[0].entity in str(found).splitlines()[0]


def test_a_prediction_in_words() -> None:
    link = LinkReason("part of", "in", 0.5)
    answers = [Answer("x", -1.25, 1, is_known=True, is_new=True), Answer("y", -2.0, 2, False, False, link)]
    lines = str(Prediction(answers, [], ["one triple not used"])).splitlines()
    assert lines == [
        "  1    -1.250  x  (known; new)",
        "  2    -2.000  y  (part of in, 0.50)",
        "note: one triple not used",
    ]
    assert str(Prediction([], [], [])) == "no answers"


def test_reasons_in_words() -> None:
    by, directed = Step("directed_by", "out", "Nolan"), Step("directed", "in", "Nolan")
    english, speaks = Step("language", "out", "English"), Step("spoken_in", "in", "English")
    assert ByCompany(by, english, 12, 14).text() == "12 of 14 with directed_by Nolan have language English"
    assert ByCompany(directed, speaks, 1, 3).text() == "1 of 3 with 'Nolan directed it' has 'English spoken_in it'"
    some = "335 of 621 with directed_by Nolan have language English, 546 have any language"
    assert ByCompany(by, english, 335, 546, 621).text() == some
    link = ByLink(Step("dubbed_in", "out", "English"), english, 0.72)
    assert link.text() == "dubbed_in English is stated, and 72% of such pairs have language too"
    path = ByPath(by, english, Step("speaks", "out", "English"), 30, 40)
    assert path.text() == "directed_by Nolan, and Nolan speaks English: 30 of 40 such paths were right"
    back = ByPath(directed, english, Step("mother_tongue_of", "in", "English"), 3, 4)
    assert back.text() == "'Nolan directed it', and English mother_tongue_of Nolan: 3 of 4 such paths were right"
    assert path.text(str.upper).startswith("DIRECTED_BY NOLAN, and NOLAN SPEAKS ENGLISH: ")
    assert ByCompany(by, english, 12, 14).to_dict() == {
        "kind": "company",
        "text": "12 of 14 with directed_by Nolan have language English",
        "link": {"relation": "directed_by", "direction": "out", "entity": "Nolan"},
        "answer": {"relation": "language", "direction": "out", "entity": "English"},
        "count": 12,
        "having": 14,
        "sharing": 14,
    }


def test_likeness_in_words() -> None:
    ireland, uk = Step("released_in", "out", "Ireland"), Step("released_in", "out", "UK")
    film, directed = Step("released_in", "in", "Once"), Step("directed", "in", "Carney")
    assert (
        ByLikeness(ireland, film, uk, 3, 4).text()
        == "3 of 4 with released_in Ireland and any released_in have released_in UK"
    )
    one = ByLikeness(directed, Step("language", "out", "English"), Step("language", "in", "Once"), 1, 3)
    assert one.text() == "1 of 3 with 'Carney directed it' and any language has 'Once language it'"
    assert one.text(str.upper) == "1 of 3 with 'CARNEY DIRECTED it' and any LANGUAGE has 'ONCE LANGUAGE it'"
    assert ByLikeness(ireland, film, uk, 3, 4).to_dict() == {
        "kind": "likeness",
        "text": "3 of 4 with released_in Ireland and any released_in have released_in UK",
        "link": {"relation": "released_in", "direction": "out", "entity": "Ireland"},
        "answer": {"relation": "released_in", "direction": "in", "entity": "Once"},
        "back": {"relation": "released_in", "direction": "out", "entity": "UK"},
        "count": 3,
        "having": 4,
    }


def test_likeness_is_said_with_a_link_of_the_answer() -> None:
    """Which films came out in the UK? Most of those that came out in Ireland are known to have."""
    rows = [(f"f{n}", "released_in", "uk") for n in range(3)] + [(f"f{n}", "released_in", "ireland") for n in range(4)]
    rows += [(f"g{n}", "released_in", "japan") for n in range(5)]
    model = ookg.train(rows, ookg.TrainingSettings(dim=4, steps=5, batch=8, negatives=2), device="cpu")
    combine = ookg.RankingWeights.alone(likeness=1.0)
    prediction = model.predict(tail="uk", relation="released_in", combine=combine)
    best = prediction.answers[0]
    assert best.entity == "f3"
    assert best.link is None  # no link of what is asked about
    (reason,) = best.reasons
    assert isinstance(reason, ByLikeness)
    assert reason.text() == "3 of 4 with released_in ireland and any released_in have released_in uk"
    assert reason.answer == Step("released_in", "in", "f3")
    # Of nine films with a country 3 came out in the UK: p = 1/3, and (3 + 3/3) / (7/3) = 12/7.
    assert best.score == pytest.approx(math.log1p(math.log(12 / 7)))
    assert pickled(best) == best
    # Where was f3 released? f0, f1 and f2 were in Ireland as well as in the UK.
    best = model.predict(head="f3", relation="released_in", combine=combine).answers[0]
    assert best.entity == "uk"
    assert best.reasons[0].text() == "1 of 2 with 'f0 released_in it' and any released_in has 'f3 released_in it'"


def test_what_adds_most_to_a_score_is_the_first_reason() -> None:
    films = [row for n in range(6) for row in ((f"f{n}", "by", "nolan"), (f"f{n}", "language", "english"))]
    others = [row for n in range(4) for row in ((f"g{n}", "by", "villeneuve"), (f"g{n}", "language", "french"))]
    speaking = [("nolan", "speaks", "english"), ("villeneuve", "speaks", "french")]
    model = ookg.train(films + others + speaking, ookg.TrainingSettings(dim=4, steps=5, batch=8, negatives=2))
    given = [("new", "by", "nolan")]
    weights = {"vector": 0.1, "links": 1.0, "habits": 0.5, "company": 1.0, "paths": 1.0}
    company = "6 of 6 with by nolan have language english"
    path = "by nolan, and nolan speaks english: 10 of 10 such paths were right"

    def best(**changed: float) -> Answer:
        combine = ookg.RankingWeights(**(weights | changed))
        return model.predict(given, head="new", relation="language", combine=combine).answers[0]

    assert [reason.text() for reason in best().reasons] == [path, company]  # log(1 + s / 0.003) is large
    assert [reason.text() for reason in best(paths=0.1).reasons] == [company, path]
    assert [reason.kind for reason in best(company=0.0).reasons] == ["path"]
    assert [reason.kind for reason in best(paths=-0.1).reasons] == ["company"]  # what takes away is no reason
    assert best().link == LinkReason("by", "out", 10 / 15, "nolan")  # that of the first reason
    assert best(paths=0.1).link == LinkReason("by", "out", 1.0, "nolan")
    assert best(company=0.0, paths=-0.1).link is None
    assert pickled(best()) == best()
    assert best(company=0.0, paths=0.0).reasons == ()


def test_reasons_are_looked_up_once_and_when_read() -> None:
    asked = []
    reason = Reason("e1", "r0", "out", 1.0)

    def find() -> list[Reason]:
        asked.append(1)
        return [reason]

    reasons = Reasons(find)
    prediction = Prediction([], reasons, [])
    assert not asked
    assert (list(prediction.explanation), len(reasons), reasons[0], reasons[:1]) == ([reason], 1, reason, [reason])
    assert prediction == Prediction([], [reason], [])
    assert prediction != Prediction([], [], [])
    assert pickled(prediction).explanation == [reason]
    assert len(asked) == 1


def test_an_explanation_is_of_the_state_that_was_asked(model: ookg.Model) -> None:
    extended = model.extend(GIVEN)
    found = extended.predict(head="a", relation="r3")
    expected = extended.explain("a", "r3")
    extended.add([("a", "r2", "e9")])
    assert found.explanation == expected
    assert len(extended.explain("a", "r3")) == len(expected) + 1


def test_a_classification(model: ookg.Model) -> None:
    claims = [("a", "r0", "e9", "1"), ("lonely", "r0", "e9", "0")]
    found = model.classify(claims, valid=VALID, given=GIVEN)
    assert pickled(found) == found
    lines = str(found).splitlines()
    assert lines[0].startswith("a r0 e9: ")
    assert lines[1] == "lonely r0 e9: no verdict"
    assert lines[2] == f"{found.accuracy:.1f} % right"
    assert lines[3:] == [f"note: {note}" for note in found.notes]
    assert str(Classification([Verdict("h", "r", "t", -1.5, -2.0, True)], None, [], {})) == (
        "h r t: true (-1.500 against -2.000)"
    )


def test_new_vectors_and_their_trust(model: ookg.Model) -> None:
    found = model.embed(GIVEN, weights=Uniform())
    again = pickled(found)
    assert torch.equal(again.vectors, found.vectors)
    assert (again.entities, again.without_vector, again.notes) == (found.entities, found.without_vector, found.notes)
    assert list(again.trust) == list(found.trust)
    assert len(again.trust) == len(found) == 2
    assert list(pickled(again).trust) == list(found.trust)
    width = found.vectors.shape[1]
    assert repr(found) == repr(again) == f"<ookg.NewVectors of 2 new entities, {width} numbers each, 1 more without>"


def test_a_table_of_trust(model: ookg.Model) -> None:
    table = model.embed(GIVEN, weights=Uniform()).trust
    again = pickled(table)
    assert isinstance(again, TrustTable)
    assert list(again) == list(table)
