"""Questions about known entities: by their trained vectors, and by what the graph says where that helps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.cli import main
from ookg.errors import InputError
from ookg.graph.triples import as_triples
from ookg.model.model import Model
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.choosing import KnownTried
from ookg.simulation.likelihood import DEFAULT_LIKELIHOOD
from ookg.simulation.ways import DEFAULT_KNOWN

ASKED: dict[str, Any] = {"head": "e1", "relation": "r1", "top": 50}
COMPANY = ookg.RankingWeights.alone(vector=1.0, company=2.0)


@pytest.fixture(scope="module")
def model() -> Model:
    return ookg.train(random_triples(0), SMALL, device="cpu")


def test_by_default_direct_links_and_likeness_count(model: Model) -> None:
    prediction = model.predict(**ASKED)
    assert model.known_ranking == DEFAULT_KNOWN
    assert prediction.answers == model.predict(**ASKED, combine=DEFAULT_KNOWN).answers
    assert prediction.answers != model.predict(**ASKED, combine=False).answers
    assert prediction.way == "trained vector with links, likeness"
    assert prediction.trust is None
    assert model.predict(**ASKED, combine=False).way is None


def test_what_is_stored_counts(model: Model, tmp_path: Path) -> None:
    chosen = model.with_choice(NewcomerChoice(known=COMPANY))
    chosen.save(tmp_path / "model")
    for one in (chosen, ookg.load(tmp_path / "model")):
        prediction = one.predict(**ASKED)
        assert prediction.way == "trained vector with company"
        assert prediction.answers == model.predict(**ASKED, combine=COMPANY).answers
    alone = model.with_choice(NewcomerChoice(known=ookg.RankingWeights.alone()))
    assert alone.known_ranking is None
    assert alone.predict(**ASKED).way == "trained vector"
    assert alone.predict(**ASKED).answers == model.predict(**ASKED, combine=False).answers
    with pytest.raises(InputError, match="known is 3 instead of an object"):
        NewcomerChoice.from_dict({"known": 3})


def test_what_was_chosen_before_there_was_likeness_stays(model: Model, tmp_path: Path) -> None:
    """A model whose choice was stored then answers as it did."""
    stored = {"vector": 1.0, "links": 6.0, "habits": 0.0}
    model.with_choice(NewcomerChoice.from_dict({"known": stored})).save(tmp_path / "model")
    loaded = ookg.load(tmp_path / "model")
    assert loaded.known_ranking is not None
    assert loaded.known_ranking.to_dict() == stored
    prediction = loaded.predict(**ASKED)
    assert prediction.way == "trained vector with links"
    assert prediction.answers == model.predict(**ASKED, combine=ookg.RankingWeights.alone(**stored)).answers
    assert [one.score for one in prediction.answers] != [one.score for one in model.predict(**ASKED).answers]


def test_the_explanation_adds_up_to_the_lead(model: Model) -> None:
    answers = model.with_choice(NewcomerChoice(known=COMPANY)).predict(**ASKED | {"top": 5}, explain=True).answers
    kinds = {share.kind for answer in answers for share in answer.shares}
    assert "company" in kinds
    for answer in answers:
        assert sum(share.worth for share in answer.shares) == pytest.approx(answer.lead)


def test_a_model_that_was_measured_before_answers_as_it_did(model: Model) -> None:
    """Its probabilities are those of vectors alone."""
    old = model.with_choice(NewcomerChoice(likelihood={"known": DEFAULT_LIKELIHOOD}))
    assert old.known_ranking is None
    answers = old.predict(**ASKED).answers
    assert [one.entity for one in answers] == [one.entity for one in model.predict(**ASKED, combine=False).answers]
    assert all(one.probability is not None for one in answers)
    assert old.predict(**ASKED, combine=DEFAULT_KNOWN).answers[0].probability is None


def test_without_training_triples_vectors_answer(model: Model) -> None:
    bare = Model(replace(model.checkpoint, graph=None))
    assert bare.known_ranking is None
    assert bare.predict(**ASKED).way is None


def test_several_models_answer_together(model: Model) -> None:
    other = ookg.train(random_triples(0), SMALL.changed({"seed": 1}), device="cpu")
    together = model.with_companions([other])
    prediction = together.predict(**ASKED)
    assert prediction.way == "trained vectors of 2 models with links, likeness"
    assert prediction.answers == together.predict(**ASKED, combine=DEFAULT_KNOWN).answers


def test_after_an_update_a_newcomer_keeps_what_the_graph_says(tmp_path: Path) -> None:
    """What is new is answered with all evidence; when it is known, evidence counts too."""
    rows = [(f"e{n}", "r0", f"e{n + 1}") for n in range(40)] + [(f"e{n + 1}", "back", f"e{n}") for n in range(30)]
    ookg.train(rows, SMALL, device="cpu").save(tmp_path / "model")
    living = ookg.open(tmp_path / "model")
    living.add([("x", "r0", "e35"), ("e7", "r0", "x")])
    question: dict[str, Any] = {"head": "x", "relation": "back"}
    assert living.predict(**question).answers[0].entity == "e7"
    living.update()
    after = living.predict(**question)
    assert after.way == "trained vector with links, likeness"
    assert after.answers[0].entity == "e7"
    assert after.answers[0].reasons[0].text().startswith("'e7 r0 it' is stated, and ")


def test_training_chooses_on_what_it_holds_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ookg.simulation.choosing.FEWEST_QUESTIONS", 6)
    rows = [(f"e{n}", "r0", f"e{n * 7 % 40}") for n in range(40)]
    rows += [(f"e{n * 7 % 40}", "back", f"e{n}") for n in range(40)] + [(f"e{n}", "r1", f"e{n + 1}") for n in range(39)]
    trained = ookg.train(rows, replace(SMALL, held_out=20), device="cpu")
    assert trained.choice.known is not None
    assert trained.choice == NewcomerChoice(known=trained.choice.known)
    assert trained.choice.known.links > 0
    again = ookg.train(rows, replace(SMALL, held_out=20), device="cpu")
    assert again.choice == trained.choice
    valid = [(f"e{n}", "back", f"e{n + 1}") for n in range(5)]
    assert ookg.train(rows, SMALL, valid=valid, device="cpu").choice.known is not None
    labelled = as_triples([(*row, "1") for row in valid] + [("e1", "r0", "e2", "0")])
    assert ookg.train(rows, SMALL, valid=labelled, device="cpu").choice.known is not None
    # What was learned says nothing about what was not.
    assert ookg.train(rows, SMALL, valid=[*rows[:20], *valid[:2]], device="cpu").choice == NewcomerChoice()
    assert ookg.train(rows, SMALL, device="cpu").choice == NewcomerChoice()


def test_evaluate_asks_as_predict_answers(model: Model) -> None:
    known = set(random_triples(0))
    test = [row for row in random_triples(5, size=40) if row not in known][:10]
    chosen = model.evaluate_known(test, chosen=True)
    assert chosen.all == model.evaluate_known(test, combine=DEFAULT_KNOWN).all
    assert chosen.ranks.rank.tolist() != model.evaluate_known(test).ranks.rank.tolist()
    number, (head, relation, tail) = next((n, row) for n, row in enumerate(test) if row[0] != row[2])
    places = [one.entity for one in model.predict(head=head, relation=relation, top=50).answers]
    others = {row[2] for row in test if row[:2] == (head, relation)} - {tail}
    places = [label for label in places if label not in others]
    # Published figures leave the entity that is asked about among the candidates.
    assert chosen.ranks.rank[2 * number] - (places.index(tail) + 1) in (0, 1)
    with pytest.raises(InputError, match="leave out combine"):
        model.evaluate_known(test, chosen=True, combine=True)


def test_what_is_said_about_newcomers_changes_nothing_for_known_entities(model: Model) -> None:
    usual = model.predict(**ASKED)
    said: dict[str, Any]
    for said in ({"weights": "uniform"}, {"refine": True}, {"limit": 2}):
        prediction = model.predict([("x", "r0", "e2")], **ASKED, **said, new_answers=False)
        assert [(one.entity, one.score) for one in prediction.answers] == [
            (one.entity, one.score) for one in usual.answers
        ]
        assert prediction.way == "trained vector with links, likeness"


def test_an_entity_that_came_with_a_vector_and_no_triples(model: Model) -> None:
    grown = model.with_vectors(model.embed([("x", "r0", "e1")]))
    prediction = grown.predict(head="x", relation="r1", top=50, explain=True)
    assert prediction.way == "vector"
    alone = grown.predict(head="x", relation="r1", top=50, combine=False).answers
    assert [(one.entity, one.score) for one in prediction.answers] == [(one.entity, one.score) for one in alone]
    assert {share.kind for share in prediction.answers[0].shares} <= {"usual", "rest", "new"}
    # The same where all triples of a known entity are gone.
    extended = model.extend()
    extended.remove([row for row in random_triples(0) if "e1" in (row[0], row[2])])
    assert extended.predict(**ASKED, explain=True).way == "trained vector"


def test_a_network_is_tried_and_forgotten_with_it(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    known = set(random_triples(0))
    held_out = [row for row in random_triples(7, size=2000) if row not in known]
    ways = ookg.RankingWeights.alone(**(DEFAULT_KNOWN.to_dict() | {"network": 1.0}))
    there = model.train_network(ookg.NetworkSettings(steps=2, batch=4))
    seen: list[object] = []

    def choose(*arguments: object, network: object, **options: object) -> KnownTried:
        seen.append(network)
        return KnownTried(100, 0.1, 0.2, ways)

    monkeypatch.setattr("ookg.evaluation.known_links.choose_known", choose)
    calibrated = there.calibrated(held_out)
    assert seen == [there.known_evidence.network]
    assert seen[0] is not None
    assert calibrated.known_ranking == ways
    assert calibrated.predict(**ASKED).way == "trained vector with links, likeness, network"
    assert calibrated.predict(**ASKED).answers[0].probability is not None
    without = Model(replace(calibrated.checkpoint, network=None))
    assert without.known_ranking == DEFAULT_KNOWN
    assert without.predict(**ASKED).answers[0].probability is None
    monkeypatch.setattr("ookg.evaluation.known_links.choose_known", lambda *_, **__: None)
    again = calibrated.calibrated(held_out)
    assert again.choice.known == DEFAULT_KNOWN
    assert again.choice.known_network is None
    assert again.predict(**ASKED).answers[0].probability is not None
    with pytest.raises(InputError, match="measured for another way of answering"):
        again.predict(**ASKED, combine=False, min_probability=0.1)


def test_the_commands(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("model")
    known = set(random_triples(0))
    held_out = [row for row in random_triples(7, size=2000) if row not in known]
    Path("held-out.tsv").write_text("".join("\t".join(row) + "\n" for row in held_out))
    ask = ["predict", "model", "--head", "e1", "--relation", "r1", "--device", "cpu"]
    assert main([*ask, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["way"] == "trained vector with links, likeness"
    assert main(["calibrate", "model", "held-out.tsv", "--save", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("answers about known entities are ranked by vector 1")
    stored = ookg.load("model").choice.known
    assert stored is not None
    assert main(["calibrate", "model", "held-out.tsv", "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["ranking"] == stored.to_dict()
    assert main([*ask, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert all(one["probability"] is not None for one in answers)
    figures = []
    for more in ((), ("--chosen",)):
        assert main(["evaluate", "model", "--test", "held-out.tsv", *more, "--json", "--device", "cpu"]) == 0
        figures.append(json.loads(capsys.readouterr().out)["mrr"])
    expected = ookg.load("model").evaluate_known("held-out.tsv", chosen=True).all.summary.mrr
    assert figures[1] == pytest.approx(expected)
    assert main(["evaluate", "model", "--test", "held-out.tsv", "--chosen", "--combine", "--device", "cpu"]) == 2
    assert "leave out combine" in capsys.readouterr().err


def test_what_is_added_about_known_entities_counts_at_once() -> None:
    rows = [(f"e{n}", "r0", f"e{n + 1}") for n in range(40)] + [(f"e{n + 1}", "back", f"e{n}") for n in range(30)]
    extended = ookg.train(rows, SMALL, device="cpu").extend()
    question: dict[str, Any] = {"head": "e20", "relation": "back", "top": 50}
    before = {one.entity: one.score for one in extended.predict(**question).answers}
    extended.add([("e3", "r0", "e20")])
    after = extended.predict(**question).answers
    assert after[0].entity == "e3"
    assert after[0].score > before["e3"] + 3
