"""Results as frames, vectors given back, neighbours, and entities as a sequence."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from ookg.errors import InputError
from ookg.extension.bulk import answer_all
from ookg.extension.question import Question
from ookg.graph.vectors import LabelledRows, read_vectors, write_vectors
from ookg.graph.vocabulary import StoredVocabulary, Vocabulary
from ookg.model.model import Model
from ookg.newcomers.reducer import Degree
from ookg.storage.names import add_names

GIVEN = [("x", "r0", "e1"), ("e2", "r1", "x"), ("y", "r2", "e3")]
CLAIMS = [("x", "r0", "e1"), ("e1", "r0", "nobody")]
VALID = [("e1", "r0", "e2", "1"), ("e3", "r0", "e4", "0"), ("e5", "r1", "e6", "1"), ("e7", "r1", "e8", "0")]


def test_results_are_tables(model: Model) -> None:
    new = model.embed(GIVEN)
    table = new.to_arrow()
    assert table.column("entity").to_pylist() == ["x", "y"]
    assert table.column("triples").to_pylist() == [2, 1]
    np.testing.assert_array_equal(np.array(table.column("vector").to_pylist(), np.float32), new.vectors.numpy())
    valid = _labelled(VALID)
    verdicts = model.classify(CLAIMS, valid=valid, given=GIVEN)
    rows = verdicts.to_arrow().to_pylist()
    assert [row["head"] for row in rows] == ["x", "e1"]
    assert rows[1]["verdict"] is None is rows[1]["score"]
    assert rows[0]["score"] == verdicts.claims[0].score
    prediction = model.predict(GIVEN, relation="r1", head="x")
    assert [row["tail"] for row in prediction.to_arrow().to_pylist()] == [one.entity for one in prediction.answers]
    pytest.importorskip("pandas")
    assert prediction.to_pandas()["rank"].tolist() == [one.rank for one in prediction.answers]


def _labelled(rows: list[tuple[str, str, str, str]]) -> Any:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("head", "relation", "tail", "label"), map(list, columns), strict=True)))


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_vectors_come_back_without_their_triples(model: Model, tmp_path: Path, ending: str) -> None:
    new = model.embed(GIVEN)
    path = tmp_path / f"new.{ending}"
    write_vectors(path, "entity", new.entities, new.vectors)
    back = read_vectors(path)
    assert back.labels == ["x", "y"]
    assert torch.equal(back.vectors, new.vectors)
    for source in (path, new):
        grown = model.with_vectors(source)
        assert len(grown.entities) == len(model.entities) + 2
        given_back = grown.predict(relation="r3", head="x", known_answers="mark", top=30, combine=False)
        # The closed form with degree weights, asked by the vector alone, is the same vector.
        weights = Degree()
        asked = model.extend(GIVEN, weights=weights, refine=False).predict(relation="r3", head="x")
        known = [one for one in given_back.answers if one.entity not in ("x", "y")]
        score = {one.entity: one.score for one in known}
        for one in asked.answers:
            if one.entity in score:
                assert one.score == pytest.approx(score[one.entity], rel=1e-4)
    assert grown.likely(entity="x") == []  # nothing is known to fit it


def test_triples_of_entities_with_vectors_are_refused(model: Model) -> None:
    grown = model.with_vectors(model.embed(GIVEN))
    for given in ([("x", "r0", "e1")], [("z", "r0", "e1"), ("e1", "r0", "y")]):
        with pytest.raises(InputError, match=r"'[xy]' came with a vector of its own, which its triples would not"):
            grown.extend(given)
    tied = grown.extend([("z", "r0", "x")])  # something new may be tied to it
    assert tied.new_entities == ["z"]
    assert tied.predict(relation="r1", head="z").answers


def test_vectors_that_cannot_be_given_back(model: Model, tmp_path: Path) -> None:
    width = model.entity_vectors.shape[1]
    one = torch.zeros(1, width)
    for rows, problem in (
        (LabelledRows(["e1"], one, "f"), "f: 'e1' is known to the model"),
        (LabelledRows(["a"], torch.zeros(1, width + 1), "f"), f"vectors of {width + 1} numbers, and the model's have"),
        (LabelledRows(["a", "a"], torch.zeros(2, width), "f"), "'a' has two vectors"),
        (LabelledRows(["a", "b"], one, "f"), "2 labels for 1 vectors"),
    ):
        with pytest.raises(InputError, match=problem):
            model.with_vectors(rows)
    for name, text, problem in (
        ("a.csv", "entity,vector_1\na,x\n", "no lists of numbers"),
        ("b.csv", "entity,vector_1\na,inf\n", "row 1 has numbers that are not finite"),
        ("c.csv", "entity,vector_1\n,1\n", "row 1 has no entity"),
        ("d.csv", "entity,x\na,1\n", "no column vector"),
        ("e.jsonl", '{"entity": "a", "vector": [1, [2]]}\n', "no lists of numbers"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=problem):
            read_vectors(tmp_path / name)


def test_neighbors_are_those_of_a_plain_computation(model: Model) -> None:
    near = model.neighbors("e1", GIVEN, top=40)
    new = model.extend(GIVEN).vectors
    labels = [*model.entities, *new]
    table = torch.cat([model.entity_vectors, torch.stack(list(new.values()))])
    gaps = model.embedding.geometry.entity_gap(model.entity_vectors[model.entities.index("e1")][None], table).tolist()
    expected = dict(zip(labels, gaps, strict=True))
    assert {one.entity for one in near} == set(labels) - {"e1"}
    assert [one.distance for one in near] == sorted(one.distance for one in near)
    assert all(one.distance == pytest.approx(expected[one.entity], rel=1e-5) for one in near)
    assert {one.entity for one in near if one.is_new} == {"x", "y"}
    of_new = model.neighbors("x", GIVEN, top=3)
    assert len(of_new) == 3
    assert "x" not in {one.entity for one in of_new}
    assert of_new.to_arrow().column_names == ["rank", "entity", "distance", "new"]
    with pytest.raises(InputError, match="no single vector"):
        model.extend(GIVEN, refine=False).neighbors("x")


def test_a_vocabulary_is_a_sequence_of_its_labels(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    stored = Model.load(tmp_path / "model").entities
    assert isinstance(stored, StoredVocabulary)
    for labels in (model.entities, stored, model.entities.extended(["new"])):
        listed = list(labels)
        assert listed == labels.labels.to_pylist()
        assert len(labels) == len(listed)
        assert labels[0] == listed[0]
        assert labels[-1] == listed[-1]
        assert labels[2:5] == listed[2:5]
        assert labels.index(listed[3]) == 3
        assert listed[3] in labels
        assert not labels.__contains__(3)
        with pytest.raises(IndexError):
            labels[len(labels)]
        with pytest.raises(ValueError, match="is no label"):
            labels.index("nobody")
    assert list(Vocabulary([])) == []


def test_frames_have_the_names_that_the_files_of_the_command_line_have(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    add_names(tmp_path / "model", {"x": "a newcomer", "e1": "the first", "r1": "knows", "e2": "the second"})
    named = Model.load(tmp_path / "model")
    extended = named.extend(GIVEN)
    triple = ["head_name", "relation_name", "tail_name"]
    results = [
        named.predict(GIVEN, relation="r1", head="x"),
        extended.predict_all([Question("r1", head="x")]),
        extended.likely("x"),
        named.classify(CLAIMS, valid=_labelled(VALID), given=GIVEN),
    ]
    for result in results:
        plain, table = result.id_table(), result.to_arrow()
        assert table.column_names == [*plain.column_names, *triple]
        for column in ("head", "relation", "tail"):
            expected = [named.names.name(label) for label in plain.column(column).to_pylist()]
            assert table.column(f"{column}_name").to_pylist() == expected
        again = pickle.loads(pickle.dumps(result))
        assert again.to_arrow() == table
        assert len(again.find_names()) <= len(named.names)
    assert results[0].to_arrow().column("head_name").to_pylist()[0] == "a newcomer"
    assert answer_all(extended, [Question("r1", head="x")]).column_names[-3:] == triple
    new = named.embed(GIVEN)
    assert new.to_arrow().column("name").to_pylist() == ["a newcomer", None]
    assert pickle.loads(pickle.dumps(new)).to_arrow() == new.to_arrow()
    assert "the first" in named.neighbors("e2", top=40).to_arrow().column("name").to_pylist()
    # Without names there are no such columns.
    assert model.predict(GIVEN, relation="r1", head="x").to_arrow().column_names[-1] == "new"
    assert not set(triple) & set(model.classify(CLAIMS, valid=_labelled(VALID), given=GIVEN).to_arrow().column_names)
