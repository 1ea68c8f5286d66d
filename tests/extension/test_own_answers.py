"""No entity is its own answer, unless training often joins entities to themselves over that relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from ookg.extension.questions import AnswerOptions
from ookg.graph.known import KnownGraph
from ookg.graph.triples import as_triples
from ookg.models.embedding import Embedding
from ookg.models.transe import TransE
from ookg.storage.checkpoint import Checkpoint

# Over `near`, whose vector is 0, every entity lies at its own answer's place; `same` has nothing but loops.
TRIPLES = [("a", "near", "b"), ("b", "near", "a"), ("c", "near", "d"), ("d", "near", "c"), ("a", "near", "a")]
TRIPLES += [("e", "near", "a"), ("a", "same", "a"), ("b", "same", "b"), ("c", "far", "e")]


@pytest.fixture(scope="module")
def model() -> ookg.Model:
    known = as_triples(TRIPLES)
    entities = torch.tensor([[0.0], [1.0], [2.0], [3.0], [9.0]])
    relations = torch.tensor([[0.0], [0.0], [5.0]])
    embedding = Embedding(TransE(1), entities, relations)
    graph = KnownGraph(known.ids, len(known.entities), len(known.relations))
    return ookg.Model(Checkpoint(embedding, known.entities, known.relations, graph, {}, {}))


def answers(model: ookg.Model, given: Sequence[tuple[str, str, str]] = (), **question: Any) -> list[str]:
    options = AnswerOptions(combine=False, drop_known=False)
    return [answer.entity for answer in model.extend(given).predict(**question, options=options).answers]


def test_a_known_entity_is_no_answer_to_itself(model: ookg.Model) -> None:
    assert model.loops.tolist() == [False, True, False]  # one of six; both; none
    assert answers(model, head="d", relation="near") == ["c", "b", "a", "e"]
    assert answers(model, tail="d", relation="near") == ["c", "b", "a", "e"]
    assert answers(model, head="d", relation="same")[0] == "d"


def test_a_loop_that_is_stated_is_a_known_answer(model: ookg.Model) -> None:
    marked = model.predict(head="a", relation="near", known_answers="mark").answers
    assert [(answer.entity, answer.is_known) for answer in marked[:2]] == [("a", True), ("b", True)]
    assert "a" not in {answer.entity for answer in model.predict(head="a", relation="near").answers}


def test_the_same_holds_for_newcomers(model: ookg.Model) -> None:
    given = [("x", "near", "d"), ("y", "near", "x")]
    assert "x" not in answers(model, given, head="x", relation="near")
    assert "x" in answers(model, given, head="x", relation="same")
    assert "x" in answers(model, [("x", "near", "d")], head="x", relation="same")  # alone in its group
    assert "x" not in answers(model, [("x", "near", "d")], head="x", relation="far")
    assert "x" not in answers(model, [("x", "new", "d"), ("x", "near", "d")], head="x", relation="new")


def test_what_is_removed_counts_no_more(model: ookg.Model) -> None:
    extended = model.extend()
    extended.remove([("a", "same", "a"), ("b", "same", "b")])
    options = AnswerOptions(combine=False)
    assert "d" not in {answer.entity for answer in extended.predict(head="d", relation="same", options=options).answers}
    less = model.without(np.array([[0, 1, 0]]))
    assert less.loops.tolist() == [False, True, False]


def test_a_model_without_its_triples_has_no_loops(model: ookg.Model) -> None:
    checkpoint = model.checkpoint
    alone = ookg.Model(Checkpoint(checkpoint.embedding, checkpoint.entities, checkpoint.relations, None, {}, {}))
    assert not alone.loops.any()
    assert answers(alone, head="d", relation="same") == ["c", "b", "a", "e"]
