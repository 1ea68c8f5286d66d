"""A model and what is new to it: the same numbers as all at once, whatever came and went in between."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError
from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.evidence.links import Links
from ookg.evidence.source import Asked
from ookg.extension.extended import ExtendedModel
from ookg.extension.questions import AnswerKeywords, AnswerOptions, Question
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import as_triples
from ookg.newcomers.embedder import NeighborLimit
from ookg.newcomers.reducer import Correlation, Degree, Uniform
from stories import stories

FIT = ookg.RefineSettings(steps=6, margin=4.0, lr=0.05, negatives=8, batch=4)
EVERYTHING = AnswerOptions(combine=RankingWeights(1.0, 3.0, 0.5), top=100, drop_known=False)


@pytest.fixture(scope="module", params=["transe", "rotate", "transh"])
def known(request: pytest.FixtureRequest) -> ookg.Model:
    return ookg.train(random_triples(0), SMALL.changed({"model": request.param}), device="cpu")


def everything(extended: ExtendedModel) -> list[object]:
    """All that it says: answers with all evidence, why, how far to trust them, and notes without their order."""
    found: list[object] = []
    for entity in ["e3", "e7", *sorted(extended.new_entities)]:
        for relation in ("r0", "r3", "r9"):
            for asks_tail in (True, False):
                question = Question(relation, entity) if asks_tail else Question(relation, None, entity)
                try:
                    prediction = extended.predict_all([question], EVERYTHING)[0]
                except InputError as error:
                    found.append(str(error).split(";")[0])
                    continue
                answers = sorted((answer.entity, answer.score, answer.is_known) for answer in prediction.answers)
                reasons = sorted((r.entity, r.relation, r.direction, r.weight) for r in prediction.explanation)
                found.append((entity, relation, asks_tail, answers, reasons, prediction.trust))
    return found


def same(one: list[object], other: list[object]) -> None:
    assert repr(one) == repr(other)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weights", [Correlation(4.0), Degree()], ids=str)
def test_one_by_one_is_the_same_as_all_at_once(known: ookg.Model, weights: Correlation | Degree, seed: int) -> None:
    rows = stories(seed)
    at_once = known.extend(rows, weights=weights)
    one_by_one = known.extend(weights=weights)
    for row in rows:
        assert one_by_one.add([row]) == 1
    assert one_by_one.triples == at_once.triples
    same(everything(one_by_one), everything(at_once))
    assert one_by_one.notes == at_once.notes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counts_first", [False, True])
def test_removing_is_the_exact_inverse_of_adding(known: ookg.Model, seed: int, counts_first: bool) -> None:
    kept, gone = stories(seed)[::2], stories(seed)[1::2]
    without = known.extend(kept)
    extended = known.extend(kept)
    if counts_first:  # the counts of links and habits are there already, and are kept up
        everything(extended)
    before = everything(extended)
    assert extended.add(gone) == len(gone)
    assert repr(everything(extended)) != repr(before)
    random = np.random.default_rng(seed)
    for number in random.permutation(len(gone)).tolist():
        assert extended.remove([gone[number]]) == 1
    assert extended.triples == without.triples
    same(everything(extended), everything(without))
    assert extended.notes == without.notes


def test_fitted_vectors_come_and_go_alike(model: ookg.Model) -> None:
    rows = stories(5)
    at_once, slowly = model.extend(rows, refine=FIT), model.extend(refine=FIT)
    for row in rows:
        slowly.add([row])
    assert set(slowly.vectors) == set(at_once.vectors)
    for name, vector in slowly.vectors.items():
        torch.testing.assert_close(vector, at_once.vectors[name], rtol=0, atol=0)
    slowly.add([("n0", "r0", "e5")])
    slowly.remove([("n0", "r0", "e5")])
    for name, vector in slowly.vectors.items():
        assert torch.equal(vector, at_once.vectors[name])


def test_only_what_a_triple_touches_is_prepared(model: ookg.Model) -> None:
    extended = model.extend([("a", "r0", "e1"), ("b", "r1", "e2"), ("c", "r2", "b")], refine=FIT)
    before = extended._state
    extended.add([("a", "r2", "e3")])
    after = extended._state
    ids = {name: after.entities.find(name) for name in "abc"}
    assert after.group(ids["a"] or 0) is not before.group(ids["a"] or 0)
    assert after.group(ids["b"] or 0) is before.group(ids["b"] or 0)
    assert after.group(ids["b"] or 0) is after.group(ids["c"] or 0)  # a triple ties them
    extended.add([("a", "r2", "c")])
    assert extended._state.group(ids["a"] or 0) is extended._state.group(ids["b"] or 0)
    extended.remove([("a", "r2", "c"), ("c", "r2", "b")])
    groups = {extended._state.group(ids[name] or 0) for name in "ab"}
    assert len(groups) == 2
    assert "c" not in extended.new_entities


def test_counts_equal_those_of_all_triples_together(model: ookg.Model) -> None:
    rows = stories(7, 40)
    extended = model.extend(rows, weights=Correlation())
    state = extended._with_evidence(extended._state)
    given = as_triples(rows).encoded(extended.entities, extended.relations)
    everyone = np.unique(np.concatenate([model.checkpoint.triples, given]), axis=0)
    size, relations = len(extended.entities), len(extended.relations)
    counted = GraphStatistics.count(everyone, size, relations)
    one, other = (part.ravel() for part in np.meshgrid(np.arange(relations), np.arange(relations)))
    np.testing.assert_array_equal(state.graph.statistics.correlation(one, other), counted.correlation(one, other))
    evidence = GraphEvidence.count(everyone, np.empty((0, 3), dtype=np.int64), relations)
    assert state.evidence is not None
    links, expected_links = state.evidence["links"], evidence["links"]
    assert isinstance(links, Links)
    assert isinstance(expected_links, Links)
    codes = np.arange(2 * relations)
    for asked in codes.tolist():
        np.testing.assert_allclose(links.confidence(codes, asked), expected_links.confidence(codes, asked), rtol=1e-15)
        question = Asked(0, asked // 2, asked % 2 == 0)
        found, expected = (part["habits"].of_question(question) for part in (state.evidence, evidence))
        # A fact that training states and that is given too counts twice there.
        assert set(found.entities.tolist()) == set(expected.entities.tolist())
        times = dict(zip(found.entities.tolist(), found.values.tolist(), strict=True))
        assert all(times[one] >= n for one, n in zip(expected.entities.tolist(), expected.values.tolist(), strict=True))


def test_many_questions_at_once(model: ookg.Model) -> None:
    extended = model.extend(stories(2))
    questions = [Question(f"r{number % 4}", f"e{number % 20}") for number in range(150)]
    together = extended.predict_all(questions)
    assert len(together) == 150
    for question, found in list(zip(questions, together, strict=True))[::13]:
        assert found == extended.predict(head=question.head, relation=question.relation)


def test_every_predict_takes_the_same_keywords(model: ookg.Model, tmp_path: Path) -> None:
    rows, asked = [("a", "r0", "e1"), ("a", "r1", "e2")], ookg.Question("r0", head="a")
    model.save(tmp_path / "model")
    living = ookg.open(tmp_path / "model")
    living.add(rows)
    extended = model.extend(rows)
    said: AnswerKeywords = {"top": 3, "known_answers": "mark", "combine": True, "new_answers": False}
    options = AnswerOptions(combine=True, top=3, drop_known=False, new_answers=False)
    expected = extended.predict_all([asked], options)[0]
    assert len(expected.answers) == 3
    assert model.predict(rows, head="a", relation="r0", refine=None, **said).answers != expected.answers  # of no way
    assert extended.predict(head="a", relation="r0", **said) == expected
    assert living.predict(head="a", relation="r0", **said) == expected
    assert extended.predict_all([asked], **said)[0] == living.predict_all([asked], **said)[0] == expected
    likely = extended.likely("a", options=options)
    assert (
        extended.likely("a", **said) == living.likely("a", **said) == model.likely(rows, entity="a", **said) == likely
    )
    assert len(extended.predict(head="a", relation="r0", options=options, top=2).answers) == 2  # a keyword goes before
    closed = model.extend(rows, refine=False).predict(head="a", relation="r0", options=options)
    assert model.predict(rows, head="a", relation="r0", options=options).answers == closed.answers


def test_readers_see_one_state_or_the_other(model: ookg.Model) -> None:
    first, more = [("a", "r0", "e1"), ("a", "r1", "e2")], [("a", "r2", "e3"), ("b", "r0", "a"), ("e4", "r1", "a")]
    extended = model.extend(first)

    def asked(which: ExtendedModel) -> str:
        return repr(which.predict(head="a", relation="r3", options=EVERYTHING))

    states = {asked(extended), asked(model.extend([*first, *more]))}
    over = threading.Event()

    def write() -> None:
        for _ in range(40):
            extended.add(more)
            extended.remove(more)
        over.set()

    def read(_: int) -> set[str]:
        seen = set()
        while not over.is_set():
            seen.add(asked(extended))
        return seen

    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(read, number) for number in range(3)]
        pool.submit(write).result()
        for one in reading:
            assert one.result() <= states


def test_known_vectors_never_move(model: ookg.Model) -> None:
    before = model.entity_vectors.clone(), model.relation_vectors.clone()
    extended = model.extend(stories(3), refine=FIT)
    extended.remove(stories(3)[:5])
    everything(extended)
    assert torch.equal(model.entity_vectors, before[0])
    assert torch.equal(model.relation_vectors, before[1])


def test_a_limit_draws_the_same_triples_as_all_at_once(model: ookg.Model) -> None:
    rows = [("a", f"r{number % 4}", f"e{number}") for number in range(12)] + [("b", "r0", "e1"), ("b", "r1", "e2")]
    limit = NeighborLimit(3, seed=2)
    extended = model.extend(rows, weights=Uniform(), limit=limit)
    expected = model.embed(rows, weights=Uniform(), limit=limit)
    for name, vector in zip(expected.entities, expected.vectors, strict=True):
        torch.testing.assert_close(extended.vector(name), vector, rtol=0, atol=0)


def test_answers_can_be_pickled_and_printed(model: ookg.Model) -> None:
    extended = model.extend(stories(1))
    found = extended.predict(head="e1", relation="r0")
    assert pickle.loads(pickle.dumps(found)) == found
    assert "given triple" in repr(extended)


def test_what_cannot_be_done_is_said_in_a_line(model: ookg.Model) -> None:
    extended = model.extend([("a", "r0", "e1")], weights=Correlation())
    with pytest.raises(InputError, match="neither given nor of training; nothing is removed"):
        extended.remove([("a", "r0", "e1"), ("a", "r1", "e1")])
    assert len(extended) == 1
    with pytest.raises(InputError, match="give either a head or a tail"):
        extended.predict(relation="r0")
    with pytest.raises(InputError, match="ask for 1 or more"):
        AnswerOptions(top=0)
    with pytest.raises(InputError, match="top '3'; ask for 1 or more"):
        AnswerOptions(top="3")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="approximate True is no index; give the index"):
        AnswerOptions(approximate=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no single vector"):
        extended.vector("a")
    with pytest.raises(InputError, match="no single vector"):
        _ = extended.vectors
    with pytest.raises(InputError, match="labelled false"):
        extended.add([("a", "r0", "e1", "0")])
    assert extended.add([("a", "r0", "e1")]) == 0  # it is there
    extended.remove([("a", "r0", "e1")])
    with pytest.raises(InputError, match="'a'"):
        extended.predict(head="a", relation="r0")


def problem(extended: ExtendedModel, head: str, relation: str) -> str:
    with pytest.raises(InputError) as caught:
        extended.predict(head=head, relation=relation)
    return str(caught.value)


def test_what_has_gone_is_unknown_as_before_it_came(model: ookg.Model) -> None:
    rows = [("newcomer", "r0", "e1"), ("e2", "relationship", "e3")]
    extended = model.extend([("other", "r0", "e1")])
    asked = [("newcomer", "r0"), ("newcomers", "r0"), ("e1", "relationship"), ("e1", "relationships")]
    before = [problem(extended, *question) for question in asked]
    extended.add(rows)
    assert "did you mean 'newcomer'" in problem(extended, "newcomers", "r0")
    assert "did you mean 'relationship'" in problem(extended, "e1", "relationships")
    answers = extended.predict(head="newcomer", relation="r0").answers
    extended.remove(rows)
    assert [problem(extended, *question) for question in asked] == before
    assert "did you mean 'other'" in problem(extended, "others", "r0")
    for ask in (extended.vector, extended.trust):
        with pytest.raises(InputError, match="unknown entity 'newcomer'"):
            ask("newcomer")
    with pytest.raises(InputError, match="unknown entity 'newcomer'"):
        extended.explain("newcomer", "r0")
    everyone = AnswerOptions(top=100)
    assert "newcomer" not in [
        answer.entity for answer in extended.predict(head="e1", relation="r0", options=everyone).answers
    ]
    extended.add(rows)
    assert extended.predict(head="newcomer", relation="r0").answers == answers


def test_public_names() -> None:
    assert ookg.ExtendedModel is ExtendedModel
    assert (ookg.Question, ookg.AnswerOptions) == (Question, AnswerOptions)
