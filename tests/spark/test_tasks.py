"""What workers make of partitions is what one machine makes of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError, ModelFileError
from ookg.graph.triples import Triples
from ookg.model.model import Model
from ookg.newcomers.reducer import Correlation, Degree, Precision, Uniform, Weights
from ookg.spark import frames, streams, sums, tasks
from ookg.spark.frames import place_of
from ookg.spark.links import SeenTriples, support_of
from ookg.spark.opened import ModelPlace
from ookg.spark.ties import NOTHING_TIED
from spark_pipeline import (
    QUESTIONS,
    TIED,
    Triple,
    answered,
    compare,
    embedded,
    given,
    mapped,
    partitions,
    table_of,
    ties_of,
)


@pytest.fixture(scope="module")
def stored(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark") / "model"
    model.save(folder)
    return folder


@pytest.mark.parametrize("weights", [None, Uniform(), Degree(smoothing=0.5)])
@pytest.mark.parametrize("seed", [0, 1])
def test_vectors_have_the_bits_of_one_machine(model: Model, stored: Path, weights: Weights | None, seed: int) -> None:
    triples = given(seed)
    compare(embedded(triples, stored, weights), model, triples, weights)


def test_precision_weights_have_them_too(model: Model, stored: Path) -> None:
    triples, weights = given(2), Precision(prior=0.5)
    compare(embedded(triples, stored, weights), model, triples, weights, 1e-6)


@pytest.mark.parametrize("weights", [None, Uniform()])
def test_tied_newcomers_are_solved_as_on_one_machine(model: Model, stored: Path, weights: Weights | None) -> None:
    triples = [*given(3), *TIED]
    compare(embedded(triples, stored, weights), model, triples, weights, 1e-5)


def test_a_model_that_ties_nothing_together_gives_the_same(graph: Triples, tmp_path: Path) -> None:
    model = ookg.train(graph, SMALL.changed({"model": "transr", "steps": 3}), device="cpu")
    model.save(tmp_path / "model")
    triples = [*given(4), *TIED]
    compare(embedded(triples, tmp_path / "model", None), model, triples, None, 1e-5)


def test_a_model_without_its_triples_gives_uniform_weights(model: Model, tmp_path: Path) -> None:
    alone = model.beside(None)
    alone.save(tmp_path / "model")
    triples = given(5)
    compare(embedded(triples, tmp_path / "model", None), alone, triples, None)
    with pytest.raises(InputError, match="degree weights need statistics of the training triples"):
        place_of(tmp_path / "model", Degree())


@pytest.mark.parametrize("weights", [Uniform(), Degree(), Degree(smoothing=0.0)])
def test_a_hub_is_made_of_partial_sums(
    model: Model, stored: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", 20)
    monkeypatch.setattr(sums, "MOST_IN_MEMORY", 20)
    monkeypatch.setattr(sums, "PART", 7)
    hub = [("hub", f"r{number % 4}", f"e{number // 4}") for number in range(80)]
    triples = [*given(6), *hub, *hub[::3]]
    compare(embedded(triples, stored, weights), model, triples, weights, 1e-5)


def test_a_hub_whose_weights_add_up_to_nothing_has_equal_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # e90 to e99 have one training triple each: log(1 + 0) = 0.
    graph = [*random_triples(0), *((f"e{number}", "r0", "e0") for number in range(90, 100))]
    model = ookg.train(graph, SMALL, device="cpu")
    model.save(tmp_path / "model")
    monkeypatch.setattr(streams, "MOST_IN_MEMORY", 5)
    monkeypatch.setattr(sums, "MOST_IN_MEMORY", 5)
    monkeypatch.setattr(sums, "PART", 3)
    triples = [("hub", "r1", f"e{number}") for number in range(90, 100)]
    weights = Degree(smoothing=0.0)
    compare(embedded(triples, tmp_path / "model", weights), model, triples, weights, 1e-6)


@pytest.mark.parametrize("known", ["drop", "mark"])
def test_answers_are_those_of_one_machine(model: Model, stored: Path, known: Any) -> None:
    triples = [*given(7), *TIED]
    made = answered(QUESTIONS, triples, stored, top=4, drop_known=known == "drop")
    assert len(made) == len(QUESTIONS)
    for row in made:
        options: Any = {"weights": Degree(), "combine": False, "new_answers": False, "known_answers": known}
        expected = model.predict(
            sorted(set(triples)), relation=row["relation"], head=row["head"], tail=row["tail"], top=4, **options
        ).answers
        assert row["note"] is None
        assert [one["entity"] for one in row["answers"]] == [one.entity for one in expected]
        assert [one["is_known"] for one in row["answers"]] == [one.is_known for one in expected]
        scores = [one["score"] for one in row["answers"]]
        np.testing.assert_allclose(scores, [one.score for one in expected], 1e-5)


def test_a_question_without_an_answer_has_a_note(stored: Path) -> None:
    asked: list[tuple[str | None, str, str | None]] = [
        ("e0", "r0", None), ("nobody", "r0", None), ("c0", "nothing", None), ("lost", "r0", None),
    ]  # fmt: skip
    made = {(row["head"], row["relation"]): row for row in answered(asked, [*given(8), *TIED], stored)}
    assert all(row["answers"] == [] for row in made.values())
    assert "'e0' is known to the model, not new" in made["e0", "r0"]["note"]
    assert "unknown entity 'nobody'" in made["nobody", "r0"]["note"]
    assert "unknown relation 'nothing'" in made["c0", "nothing"]["note"]
    assert "'lost' is new and has no usable neighbour" in made["lost", "r0"]["note"]


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (("c0", "r0", "e0"), "a question with both head and tail"),
        ((None, "r0", None), "or with neither"),
        (("c0", None, None), r"without a relation \(null\)"),
        (("", "r0", None), "has an empty label"),
    ],
)
def test_a_question_that_asks_nothing_is_refused(question: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        mapped(tasks.GroupQuestions(NOTHING_TIED), partitions(table_of([question])))


@pytest.mark.parametrize(
    ("triple", "problem"),
    [
        (("c0", None, "e0"), r"column 'relation' has a gap \(null\); leave such rows out"),
        (("c0", "r0", " "), "column 'tail' has an empty label; leave such rows out"),
    ],
)
def test_a_triple_that_is_none_is_refused(stored: Path, triple: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        embedded([triple], stored)


@pytest.mark.parametrize("triple", TIED)
def test_a_tie_that_was_said_not_to_be_is_refused(stored: Path, triple: Triple) -> None:
    with pytest.raises(InputError, match=f"triple '{' '.join(triple)}' is between newcomers or over a new relation"):
        mapped(tasks.MakeLinks(place_of(stored, None), ties=False, parts=7), partitions(table_of([*given(9), triple])))


def test_nothing_comes_of_nothing(stored: Path) -> None:
    assert embedded([], stored) == {}
    assert embedded([("e0", "r0", "e1")], stored) == {}
    place, empty = place_of(stored, None), pa.RecordBatch.from_pylist([], table_of([]).schema)
    for task in (tasks.FindTies(place), tasks.MakeLinks(place, ties=True, parts=7), tasks.GroupQuestions(NOTHING_TIED)):
        assert sum(made.num_rows for made in task([empty])) == 0


def test_a_frame_without_an_rdd_is_computed_each_time() -> None:
    frame: Any = object()  # as Spark Connect has them
    assert frames.computed_once(frame) is frame


def test_weights_that_need_all_triples_are_refused(stored: Path) -> None:
    with pytest.raises(InputError, match="no worker has them all; choose uniform, degree or precision weights"):
        place_of(stored, Correlation())


def test_another_model_in_the_same_place_is_refused(stored: Path) -> None:
    with pytest.raises(ModelFileError, match="not the model that the job began with"):
        ModelPlace(str(stored), "another", Uniform()).open()


def test_what_is_tied_together_is_one_piece(stored: Path) -> None:
    tied = ties_of(TIED, stored)
    pieces = dict(zip(tied.entities.to_pylist(), tied.entity_pieces.tolist(), strict=True))
    relations = dict(zip(tied.relations.to_pylist(), tied.relation_pieces.tolist(), strict=True))
    assert pieces["n1"] == pieces["n2"] == pieces["n3"]
    assert pieces["n5"] == pieces["n6"] == relations["r9"]
    assert pieces["lost"] == pieces["gone"]
    assert len({pieces["n1"], pieces["n5"], pieces["n7"], pieces["lost"], relations["r8"]}) == 5
    assert set(pieces) == {"n1", "n2", "n3", "n5", "n6", "n7", "lost", "gone"}
    assert len(ties_of(given(10), stored)) == 0


def test_links_are_in_the_order_of_the_sorted_triples(stored: Path) -> None:
    opened = place_of(stored, None).open()
    triples = sorted({triple for triple in given(11) if "c0" in (triple[0], triple[2])})
    seen = SeenTriples.of(table_of(triples), opened.entities, opened.relations)
    links = seen.links(np.arange(len(triples)))
    assert (np.diff(links) > 0).all()
    rebuilt = support_of(links, np.zeros(len(links), dtype=np.int64), 1, opened.entities, opened.relations)
    for row, (head, relation, tail) in enumerate(triples):
        assert opened.model.entities.label(int(rebuilt.neighbor[row])) == (tail if head == "c0" else head)
        assert opened.model.relations.label(int(rebuilt.relation[row])) == relation
        assert rebuilt.is_head[row] == (head == "c0")
