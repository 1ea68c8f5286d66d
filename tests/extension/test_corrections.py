"""Triples of training that are removed: as if the graph had never had them, and back again without a trace."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError
from ookg.evidence.combined import RankingWeights
from ookg.extension.extended import ExtendedModel
from ookg.extension.questions import AnswerOptions, Question
from ookg.graph.index import GraphIndex
from ookg.graph.known import KnownGraph
from ookg.graph.statistics import GraphStatistics
from ookg.newcomers.reducer import Correlation, Degree
from stories import Row, stories

FIT = ookg.RefineSettings(steps=6, margin=4.0, lr=0.05, negatives=8, batch=4)
EVERYTHING = AnswerOptions(combine=RankingWeights(1.0, 3.0, 0.5, paths=0.4, company=0.3), top=100, drop_known=False)
PREPARATIONS = [{"weights": Correlation(4.0)}, {"weights": Degree()}, {"refine": FIT}]


@pytest.fixture(scope="module", params=["transe", "transh"])
def known(request: pytest.FixtureRequest) -> ookg.Model:
    return ookg.train(random_triples(0), SMALL.changed({"model": request.param}), device="cpu")


def everything(extended: ExtendedModel) -> list[object]:
    """All that it says: answers with all evidence, why, how far to trust them, and notes without their order."""
    found: list[object] = []
    for entity in ["e3", *sorted(extended.new_entities)]:
        for relation in ("r0", "r9"):
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


def never_had(model: ookg.Model, rows: list[Row]) -> ookg.Model:
    """The same vectors beside the other triples alone, counted anew."""
    gone = set(rows)
    triples = [row for row in labelled(model) if row not in gone]
    ids = np.array([[model.entities.find(h), model.relations.find(r), model.entities.find(t)] for h, r, t in triples])
    return model.beside(KnownGraph(ids, len(model.entities), len(model.relations)))


def labelled(model: ookg.Model) -> list[Row]:
    return [
        (model.entities.label(h), model.relations.label(r), model.entities.label(t))
        for h, r, t in model.checkpoint.triples.tolist()
    ]


def some(model: ookg.Model, seed: int, size: int) -> list[Row]:
    given = {*stories(1), *stories(2)}  # one that is given as well would be taken back first
    rows = [row for row in labelled(model) if row not in given]
    return [rows[place] for place in np.random.default_rng(seed).choice(len(rows), size, replace=False)]


@pytest.mark.parametrize(("size", "counts_first"), [(1, True), (3, True), (30, True), (30, False)])
@pytest.mark.parametrize("preparation", PREPARATIONS, ids=["correlation", "degree", "refined"])
def test_removed_triples_were_never_there(
    known: ookg.Model, size: int, counts_first: bool, preparation: dict[str, object]
) -> None:
    if "refine" in preparation and not known.embedding.geometry.can_refine:
        pytest.skip("its vectors cannot be fitted")
    gone = some(known, size, size)
    extended: ExtendedModel = known.extend(stories(1), **preparation)  # type: ignore[arg-type]
    reference = never_had(known, gone).extend(stories(1), **preparation)  # type: ignore[arg-type]
    if counts_first:
        everything(extended)
    assert extended.remove(gone) == len(gone)
    same(everything(extended), everything(reference))
    if extended.preparation.is_single:
        expected = reference.vectors
        assert {name: vector.tolist() for name, vector in extended.vectors.items()} == {
            name: vector.tolist() for name, vector in expected.items()
        }
    # What comes and goes after that.
    for one in (extended, reference):
        one.add([("n9", "r0", "e3"), ("e1", "r1", "e2")])
        one.remove([("n9", "r0", "e3")])
    same(everything(extended), everything(reference))


@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize("counts_first", [False, True])
def test_adding_them_again_gives_the_exact_state_before(known: ookg.Model, size: int, counts_first: bool) -> None:
    gone = some(known, 8, size)
    extended = known.extend(stories(2))
    untouched = known.extend(stories(2))
    if counts_first:
        everything(extended)
    extended.remove(gone)
    assert repr(everything(extended)) != repr(everything(untouched))
    assert extended.add([*gone, ("n8", "r0", "e3")]) == len(gone) + 1
    extended.remove([("n8", "r0", "e3")])
    same(everything(extended), everything(untouched))
    assert extended.triples == untouched.triples  # it is of training again, and not given
    assert extended._state.model is known


def test_a_removed_triple_is_a_question_again(model: ookg.Model) -> None:
    head, relation, tail = labelled(model)[0]
    extended = model.extend()
    options = AnswerOptions(top=100)
    assert tail not in {one.entity for one in extended.predict(head=head, relation=relation, options=options).answers}
    extended.remove([(head, relation, tail)])
    assert tail in {one.entity for one in extended.predict(head=head, relation=relation, options=options).answers}
    assert torch.equal(extended.vector(head), model.entity_vectors[model.entities.find(head) or 0])
    with pytest.raises(InputError, match="neither given nor of training; nothing is removed"):
        extended.remove([(head, relation, tail)])


def test_a_given_triple_that_restates_training_is_taken_back_first(model: ookg.Model) -> None:
    row = labelled(model)[0]
    extended = model.extend([row])
    assert extended.remove([row]) == 1
    same(everything(extended), everything(model.extend()))


@pytest.mark.parametrize("seed", range(5))
def test_an_index_without_triples_is_that_of_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    triples = np.unique(rng.integers(0, [9, 3, 9], (60, 3)), axis=0)
    gone = triples[rng.random(len(triples)) < 0.3]
    left = triples[~(triples[:, None] == gone[None]).all(axis=2).any(axis=1)]
    found, expected = GraphIndex.of(triples, 9, 3).without(gone), GraphIndex.of(left, 9, 3)
    for name in ("offsets", "link", "other"):
        assert (getattr(found, name) == getattr(expected, name)).all()
    everything_asked = np.stack(np.meshgrid(*(np.arange(-1, size + 1) for size in (9, 3, 9))), axis=-1).reshape(-1, 3)
    there = {tuple(row) for row in left.tolist()}
    assert found.has(everything_asked).tolist() == [tuple(row) in there for row in everything_asked.tolist()]
    counted = GraphStatistics.count(triples, 9, 3).without(found, gone)
    expected_counts = GraphStatistics.count(left, 9, 3)
    assert (counted.degree == expected_counts.degree).all()
    assert (counted.cooccurrence.toarray() == expected_counts.cooccurrence.toarray()).all()
    graph = KnownGraph(triples, 9, 3).without(gone)
    assert (graph.triples == left).all()
    assert len(graph) == len(left)
