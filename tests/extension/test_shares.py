"""What speaks for an answer against the next ones: parts that add up to the difference in score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.extension.questions import AnswerOptions, Question
from ookg.extension.shares import RIVALS
from ookg.graph.known import KnownGraph
from ookg.graph.triples import as_triples
from ookg.models.embedding import Embedding
from ookg.models.transe import TransE
from ookg.storage.checkpoint import Checkpoint

GIVEN = [
    ("a", "r0", "e1"),
    ("a", "r1", "e2"),
    ("e3", "r2", "a"),
    ("b", "r1", "e5"),
    ("c", "r2", "b"),
    ("e6", "r3", "c"),
]
FIT = ookg.RefineSettings(steps=6, margin=4.0, lr=0.05, negatives=8, batch=4)
QUESTIONS = [Question("r0", "a"), Question("r3", None, "a"), Question("r1", "b"), Question("r2", None, "c")]
QUESTIONS += [Question("r2", "e1"), Question("r1", None, "e2")]


@pytest.fixture(scope="module", params=["transe", "rotate", "transh", "transe 2"])
def any_model(request: pytest.FixtureRequest) -> ookg.Model:
    name, _, norm = request.param.partition(" ")
    settings = SMALL.changed({"model": name, "norm": int(norm or 1)})
    return ookg.train(random_triples(0), settings, device="cpu")


@pytest.mark.parametrize(
    "how", [{}, {"weights": ookg.Correlation()}, {"weights": ookg.Uniform()}, {"refine": FIT}], ids=str
)
@pytest.mark.parametrize("combine", [None, False, True])
def test_shares_add_up_to_the_lead(any_model: ookg.Model, how: dict[str, Any], combine: bool | None) -> None:
    if "refine" in how and not any_model.embedding.geometry.can_refine:
        pytest.skip("its vectors cannot be fitted")
    extended = any_model.extend(GIVEN, **how)
    everything = AnswerOptions(combine, top=100)
    for question in QUESTIONS:
        scores = [answer.score for answer in extended.predict_all([question], everything)[0].answers]
        options = AnswerOptions(combine, top=4, explain=True)
        answers = extended.predict_all([question], options)[0].answers
        assert [answer.score for answer in answers] == scores[:4]
        for place, answer in enumerate(answers):
            lead = scores[place] - np.mean(scores[place + 1 : place + 1 + RIVALS])
            assert answer.lead == pytest.approx(lead, abs=2e-3 * max(1.0, abs(scores[0])))
            is_mean = "refine" not in how and question.asked in ("a", "b") and not any_model.embedding.geometry.projects
            if is_mean:  # then the triples explain all of the vector
                assert not [share for share in answer.shares if share.kind == "rest" and abs(share.worth) > 2e-3]
            sizes = [abs(share.worth) for share in answer.shares]
            assert sizes == sorted(sizes, reverse=True)
            assert all(share.text() for share in answer.shares)


def line(positions: list[float]) -> ookg.Model:
    """Entities on a line, and a relation that goes nowhere."""
    labels = [f"e{number}" for number in range(len(positions))]
    known = as_triples([(label, "r", labels[(number + 1) % len(labels)]) for number, label in enumerate(labels)])
    embedding = Embedding(TransE(1), torch.tensor(positions)[:, None], torch.zeros(1, 1))
    graph = KnownGraph(known.ids, len(known.entities), len(known.relations))
    return ookg.Model(Checkpoint(embedding, known.entities, known.relations, graph, {}, {}))


def test_shares_by_hand() -> None:
    # The average entity is at 0; x is at 3, the mean of its candidates at 4 and 2. e1 and e2 are stated.
    model = line([-10.0, 4.0, 2.0, 4.0])
    options = AnswerOptions(combine=False, top=1, explain=True)
    extended = model.extend([("x", "r", "e1"), ("x", "r", "e2")], weights=ookg.Uniform())
    (best,) = extended.predict(head="x", relation="r", options=options).answers
    assert (best.entity, best.score) == ("e3", -1.0)
    assert best.lead == pytest.approx(12.0)  # only e0 is left, 13 away
    shares = {share.kind if share.link is None else share.link.entity: share.worth for share in best.shares}
    # From 0, e0 is 10 away and e3 is 4 away; the way to 3 adds 3 and takes 3 away: 6, of which e1 makes 2/3.
    assert shares == pytest.approx({"usual": 6.0, "e1": 4.0, "e2": 2.0})
    assert best.shares[0].text() == "what is usual, whatever is known of the entity"
    assert best.shares[1].text(str.upper) == "R E1 (by the vector)"


def test_other_answers_have_other_shares(any_model: ookg.Model) -> None:
    extended = any_model.extend(GIVEN, weights=ookg.Uniform())
    found = extended.predict(head="a", relation="r0", options=AnswerOptions(combine=False, top=3, explain=True))
    by_triple = [{s.link: round(s.worth, 6) for s in answer.shares if s.link is not None} for answer in found.answers]
    assert by_triple[0] != by_triple[1]


def test_known_entities_have_reasons_too(any_model: ookg.Model) -> None:
    found = any_model.predict(head="e1", relation="r2", explain=True)
    assert found.trust is None
    assert any(share.kind == "vector" for share in found.answers[0].shares)
    silent = any_model.predict(head="e1", relation="r2")
    assert [answer.score for answer in silent.answers] == [answer.score for answer in found.answers]
    assert all(answer.shares == () for answer in silent.answers)
