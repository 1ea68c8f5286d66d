from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from ookg.errors import InputError
from ookg.extension.questions import AnswerOptions
from ookg.graph.known import KnownGraph
from ookg.graph.triples import as_triples
from ookg.model.model import Model
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit
from ookg.simulation.choice import NewcomerChoice
from ookg.storage.checkpoint import Checkpoint


@pytest.fixture
def line() -> Model:
    """Towns on a line: a at 0, b at 1, c at 2, d at 5; `next` is one step to the right, `far` is five."""
    triples = as_triples([("a", "next", "b"), ("b", "next", "c"), ("a", "far", "d")])
    place = {"a": 0.0, "b": 1.0, "c": 2.0, "d": 5.0}
    step = {"next": 1.0, "far": 5.0}
    entities = torch.tensor([[place[label]] for label in triples.entities.labels.to_pylist()])
    relations = torch.tensor([[step[label]] for label in triples.relations.labels.to_pylist()])
    graph = KnownGraph(triples.ids, 4, 2)
    embedding = Embedding(TransE(1), entities, relations)
    return Model(Checkpoint(embedding, triples.entities, triples.relations, graph, {}, {}))


def test_embed_by_hand(line: Model) -> None:
    found = line.embed([("new", "next", "d"), ("c", "next", "new")], weights=ookg.Uniform())
    assert found.entities == ["new"]
    assert found.vectors.tolist() == [[3.5]]  # the mean of 5 - 1 and 2 + 1
    assert found.neighbors.tolist() == [2]
    assert found.without_vector == []


NEW = [("new", "next", "d"), ("c", "next", "new")]


def test_weights_and_a_limit_are_given_as_on_the_command_line(line: Model) -> None:
    assert line.embed(NEW, weights="uniform").vectors.tolist() == [[3.5]]
    by_name: dict[Any, Any] = {"uniform": ookg.Uniform(), "degree": ookg.Degree(), "precision": ookg.Precision()}
    for name, weights in by_name.items():
        assert torch.equal(line.embed(NEW, weights=name).vectors, line.embed(NEW, weights=weights).vectors)
    asked: dict[str, Any] = {"head": "new", "relation": "next"}
    by_weights = line.predict(NEW, **asked, weights=ookg.Correlation())
    assert line.predict(NEW, **asked, weights="correlation") == by_weights
    assert line.predict(NEW, **asked) != by_weights  # which is what shows that the name was heard
    assert line.embed(NEW, limit=1).neighbors.tolist() == [1]
    claims = [("new", "next", "d")]
    assert line.classify(claims, given=NEW, weights="degree", limit=1).claims[0].verdict is not None


def test_names_that_nothing_has_are_refused_with_those_that_there_are(line: Model) -> None:
    some: Any = "some"
    calls: dict[str, Callable[[], object]] = {
        "weights 'some'; choose uniform, degree": lambda: line.embed(NEW, weights=some),
        "weights 'some'; choose": lambda: line.extend(NEW, weights=some),
        "limit 'some'; give how many": lambda: line.embed(NEW, limit=some),
        "known_answers 'some'; choose drop or mark": lambda: line.predict(head="a", relation="far", known_answers=some),
        "end 'some'; choose head, tail": lambda: line.likely(entity="a", end=some),
        "ties 'some'; choose mean": lambda: line.evaluate_known(NEW, ties=some),
        "task 'some'; choose link-prediction": lambda: line.evaluate("none", task=some),
        "device 'some'; choose auto, cpu": lambda: Model.load("none", some),
    }
    for message, call in calls.items():
        with pytest.raises(InputError, match=message):
            call()


def test_an_unknown_option_of_an_answer_is_refused_with_those_that_there_are(line: Model) -> None:
    names = "combine, top, known_answers, new_answers, min_probability, blank_nodes, explain, approximate"
    wrong: dict[str, Any] = {"tops": 3}
    for call in (
        lambda: line.predict(head="a", relation="far", **wrong),
        lambda: line.likely(entity="a", **wrong),
        lambda: line.extend(NEW).predict_all([ookg.Question("far", head="a")], **wrong),
    ):
        with pytest.raises(InputError) as refusal:
            call()
        assert str(refusal.value) == f"unknown option 'tops'; the options of an answer are {names}"


def test_what_is_of_another_type_is_refused_in_words(line: Model) -> None:
    ask: dict[str, Any] = {"head": "a", "relation": "far"}
    extended: Any = line.extend(NEW)
    calls: dict[str, Callable[[], object]] = {
        "head 3 is no text; give such as '3'": lambda: line.predict(**ask | {"head": 3}),
        r"head \['a'\] is no text": lambda: line.predict(**ask | {"head": ["a"]}),
        "relation None is no text": lambda: line.predict(**ask | {"relation": None}),
        "name 3 is no text": lambda: extended.likely(3),
        "name 3.0 is no text": lambda: extended.neighbors(3.0),
        "a probability of 0.5; give one from 0 to 1": lambda: line.predict(**ask | {"min_probability": "0.5"}),
        r"options {'top': 3}; give them by keyword, such as top=3": lambda: line.predict(
            **ask | {"options": {"top": 3}}
        ),
        r"questions \['a'\]; give a list such as": lambda: extended.predict_all(["a"]),
        r"questions Question\(": lambda: extended.predict_all(ookg.Question("far", head="a")),
    }
    for message, call in calls.items():
        with pytest.raises(InputError, match=message):
            call()
    assert line.predict(**ask | {"min_probability": None, "top": np.int64(1)}).answers


def test_embed_reports_what_it_does_not_use(line: Model) -> None:
    found = line.embed(
        [
            ("x", "next", "a"),
            ("x", "next", "a"),
            ("v", "likes", "b"),
            ("y", "next", "w"),
            ("x", "next", "x"),
            ("a", "next", "c"),
            ("z", "likes", "a"),
        ]
    )
    assert found.entities == ["x"]
    assert sorted(found.without_vector) == ["v", "w", "y", "z"]
    text = " | ".join(found.notes)
    assert "1 duplicate triple dropped" in text
    assert "2 triples not used, over a relation without a vector" in text
    assert "(v likes b, z likes a)" in text
    assert "1 triple not used, between new entities that nothing ties to the known graph (y next w)" in text
    assert "1 triple not used, of a new entity with itself (x next x)" in text
    assert "1 triple between known entities" in text
    assert "4 new entities without a usable neighbour" in text


def test_embed_of_nothing_new(line: Model) -> None:
    assert line.embed([]).entities == []
    assert line.embed([("a", "next", "c")]).vectors.shape == (0, 1)


def test_query_aware_weights_need_a_query(line: Model) -> None:
    with pytest.raises(InputError, match="give a query relation, or choose uniform or degree weights"):
        line.embed([("x", "next", "a")], weights=ookg.Correlation())
    with pytest.raises(InputError, match="unknown relation 'nxt'; did you mean 'next'"):
        line.embed([("x", "next", "a")], query_relation="nxt")
    assert line.embed([("x", "next", "a")], query_relation="far").vectors.tolist() == [[-1.0]]


def test_false_triples_are_not_evidence(line: Model) -> None:
    with pytest.raises(InputError, match="labelled false"):
        line.embed([("x", "next", "a", "0")])


def test_predict_for_a_known_entity_drops_or_marks_known_answers(line: Model) -> None:
    found = line.predict(head="a", relation="next", combine=False)
    assert [(answer.entity, answer.rank) for answer in found.answers] == [("c", 1), ("d", 2)]
    assert found.answers[0].score == -1.0  # |0 + 1 - 2|; a itself is as near, and no answer
    assert found.explanation == []
    marked = line.predict(head="a", relation="next", known_answers="mark", top=2)
    assert [(answer.entity, answer.is_known) for answer in marked.answers] == [("b", True), ("c", False)]
    heads = line.predict(relation="far", tail="d", known_answers="mark")
    assert [answer.entity for answer in heads.answers] == ["a", "b", "c"]


def test_predict_for_a_new_entity_and_explain(line: Model) -> None:
    given = [("x", "next", "c"), ("a", "far", "x")]  # candidates 1 and 5
    found = line.predict(given, head="x", relation="next", weights=ookg.Uniform(), known_answers="mark")
    assert [answer.entity for answer in found.answers] == ["d", "c", "b", "a"]  # x at 3, its next at 4
    assert [answer.is_known for answer in found.answers] == [False, True, False, False]
    reasons = {(reason.entity, reason.relation, reason.direction): reason.weight for reason in found.explanation}
    assert reasons == {("c", "next", "out"): 0.5, ("a", "far", "in"): 0.5}
    assert "c" not in [answer.entity for answer in line.predict(given, head="x", relation="next").answers]


def test_new_entities_are_answers_too(line: Model) -> None:
    given = [("x", "next", "b"), ("y", "next", "d")]  # x at 0, y at 4
    found = line.predict(given, relation="next", tail="d", top=2)
    assert [(answer.entity, answer.is_new) for answer in found.answers] == [("c", False), ("b", False)]
    marked = line.predict(given, relation="next", tail="d", top=1, known_answers="mark", combine=False)
    assert [(answer.entity, answer.is_new, answer.is_known) for answer in marked.answers] == [("y", True, True)]
    # By default, a new answer about a known entity loses something, unless it is stated.
    line = line.with_choice(NewcomerChoice(known=ookg.RankingWeights.alone()))
    given.append(("z", "far", "d"))  # at 0, as a and x are, of which `next b` is stated
    alone, usual = (
        {one.entity: one.score for one in line.predict(given, relation="next", tail="b", options=options).answers}
        for options in (AnswerOptions(combine=False, drop_known=False), AnswerOptions(drop_known=False))
    )
    assert alone["a"] == alone["x"] == alone["z"] == 0
    assert usual["a"] == usual["x"] == 0
    assert usual["z"] < 0
    without = line.predict(given, relation="next", tail="d", known_answers="mark", new_answers=False)
    assert not any(answer.is_new for answer in without.answers)
    asked = line.predict(given, head="x", relation="next", known_answers="mark")
    assert "x" not in [answer.entity for answer in asked.answers]


def test_predict_refuses_what_it_cannot_answer(line: Model) -> None:
    with pytest.raises(InputError, match="either a head or a tail"):
        line.predict(relation="next")
    with pytest.raises(InputError, match="either a head or a tail"):
        line.predict(relation="next", head="a", tail="b")
    with pytest.raises(InputError, match="unknown entity 'zz'"):
        line.predict(relation="next", head="zz")
    with pytest.raises(InputError, match="'x' is new and has no usable neighbour"):
        line.predict([("x", "likes", "a")], relation="next", head="x")
    with pytest.raises(InputError, match="top 0"):
        line.predict(relation="next", head="a", top=0)


def test_classify_by_hand(line: Model) -> None:
    valid = [("a", "next", "b", "1"), ("b", "next", "c", "1"), ("a", "next", "d", "0"), ("a", "next", "c", "0")]
    given = [("x", "next", "d")]  # x at 4
    claims = [("x", "next", "d", "1"), ("x", "next", "a", "1"), ("c", "far", "d", "0"), ("q", "next", "a", "0")]
    found = line.classify(claims, valid=valid, given=given, weights=ookg.Uniform())
    assert [claim.verdict for claim in found.claims] == [True, False, False, None]
    assert [claim.score for claim in found.claims] == [0.0, -5.0, -2.0, None]
    assert found.claims[0].threshold == -0.5  # between 0 and -1
    assert found.claims[2].threshold == -0.5  # `far` is not covered: the threshold of all
    assert found.accuracy == 75.0  # no verdict counts as false
    assert any("1 of 4 claims without a verdict" in note for note in found.notes)
    assert line.classify([("a", "next", "b")], valid=valid).accuracy is None


def test_classify_keeps_repeated_claims_and_their_order(line: Model) -> None:
    valid = [("a", "next", "b", "1"), ("a", "next", "d", "0")]
    found = line.classify([("a", "next", "b"), ("a", "next", "d"), ("a", "next", "b")], valid=valid)
    assert [claim.verdict for claim in found.claims] == [True, False, True]


def test_classify_needs_labelled_triples_it_can_score(line: Model) -> None:
    with pytest.raises(InputError, match="no label column"):
        line.classify([("a", "next", "b")], valid=[("a", "next", "b")])
    with pytest.raises(InputError, match="none of its 1 triples can be scored"):
        line.classify([("a", "next", "b")], valid=[("q", "next", "b", "1")])


def test_known_vectors_do_not_move(model: Model) -> None:
    before = model.entity_vectors.clone(), model.relation_vectors.clone()
    given = [("x", "r0", "e1"), ("e2", "r1", "x"), ("y", "r2", "e3")]
    model.embed(given)
    model.embed(given, query_relation="r1", limit=NeighborLimit(1))
    model.predict(given, head="x", relation="r0")
    model.classify([("x", "r0", "e1")], valid=[("e1", "r0", "e2", "1"), ("e1", "r0", "e3", "0")], given=given)
    assert torch.equal(before[0], model.entity_vectors)
    assert torch.equal(before[1], model.relation_vectors)


def test_a_vector_fits_its_only_triple_perfectly(model: Model) -> None:
    given = [("x", "r0", "e1")]
    found = model.predict(given, head="x", relation="r0", top=1, known_answers="mark", combine=False)
    assert found.answers[0].entity == "e1"
    assert found.answers[0].score == pytest.approx(0, abs=1e-4)


def test_a_newcomers_vector_does_not_depend_on_other_newcomers(model: Model) -> None:
    given = [("x", "r0", "e1"), ("e2", "r1", "x"), ("y", "r2", "e3")]
    both = model.embed(given, weights=ookg.Degree())
    alone = model.embed(given[:2], weights=ookg.Degree())
    np.testing.assert_array_equal(both.vectors[both.entities.index("x")].numpy(), alone.vectors[0].numpy())
