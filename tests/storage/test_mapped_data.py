"""Stored labels, index and triples are mapped or read when they are needed; damage to them never leads outside."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

import ookg
from fuzz.version_1 import as_version_1
from ookg.errors import ModelFileError
from ookg.extension.questions import AnswerOptions
from ookg.graph.index import GraphIndex
from ookg.graph.vocabulary import StoredVocabulary, Vocabulary
from ookg.model.model import Model
from ookg.storage import checkpoint, data
from ookg.storage.checkpoint import check_model, load_checkpoint, save_checkpoint

GIVEN = [("x", "r0", "e1"), ("e2", "r1", "x"), ("x", "r2", "y")]
FORBIDDEN = ("training", "newcomers", "scoring", "evidence", "simulation", "evaluation", "extension", "model")


def answers(model: Model) -> list[tuple[str, float]]:
    extended = model.extend(GIVEN, weights=ookg.Correlation())
    asked = extended.predict(head="x", relation="r1", options=AnswerOptions(combine=True))
    return [(answer.entity, answer.score) for answer in asked.answers]


@pytest.fixture
def no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as one that is too large to be checked when a model is opened."""
    for module in (checkpoint, data):
        monkeypatch.setattr(module, "CHECKED_BYTES", 0)


def change(directory: Path, name: str, array: str, place: int, value: int) -> None:
    """Change one number of a stored array; the file keeps its size."""
    [path] = directory.glob(f"data-*/{name}.safetensors")
    arrays = load_file(path)
    arrays[array][place] = value
    save_file(arrays, path)


def test_storage_is_a_leaf() -> None:
    script = "import json, sys, ookg.storage.checkpoint; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = [name for name in json.loads(result.stdout) if name.startswith("ookg.")]
    assert "ookg.storage.data" in loaded
    assert [name for name in loaded if name.split(".")[1] in FORBIDDEN] == []


def test_opening_and_a_first_question_neither_sort_nor_read_the_triples(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save(tmp_path)
    expected = model.extend(GIVEN, weights=ookg.Correlation()).predict(head="x", relation="r1")

    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("this is not needed")

    monkeypatch.setattr(GraphIndex, "of", unexpected)
    monkeypatch.setattr(data, "_triples", unexpected)
    monkeypatch.setattr(Vocabulary.order, "func", unexpected)
    opened = Model.load(tmp_path)
    assert opened.extend(GIVEN, weights=ookg.Correlation()).predict(head="x", relation="r1").answers == expected.answers
    assert isinstance(opened.entities, StoredVocabulary)
    with pytest.raises(AssertionError, match="not needed"):
        len(opened.checkpoint.triples)


def test_what_is_mapped_is_what_was_in_memory(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    opened = Model.load(tmp_path / "model")
    for name in ("offsets", "link", "other"):
        made, stored = getattr(model.index, name), getattr(opened.index, name)
        assert made.dtype == stored.dtype
        assert made.tolist() == stored.tolist()
    assert answers(opened) == answers(model)
    save_checkpoint(opened.checkpoint, tmp_path / "again")  # what was mapped can be written
    [first], [second] = ((tmp_path / name).glob("data-*") for name in ("model", "again"))
    for file in data.FILES:
        assert (first / file).read_bytes() == (second / file).read_bytes()


def test_a_copy_in_another_process_needs_no_files(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    opened = Model.load(tmp_path)
    expected = answers(opened)
    copied = pickle.loads(pickle.dumps(opened.checkpoint))
    for path in tmp_path.glob("data-*/*"):
        path.unlink()
    assert answers(Model(copied)) == expected


def test_files_that_a_writer_without_locks_removed_are_still_read(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    opened = Model.load(tmp_path)
    for path in tmp_path.glob("data-*/*"):
        path.unlink()
    assert answers(opened) == answers(model)
    assert opened.checkpoint.triples.tolist() == model.checkpoint.triples.tolist()


def test_directories_of_version_1_still_load(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    as_version_1(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["version"] == 1
    assert [file.problem for file in check_model(tmp_path)] == [None] * 6
    opened = Model.load(tmp_path)
    assert opened.checkpoint.triples.tolist() == model.checkpoint.triples.tolist()
    assert answers(opened) == answers(model)
    opened.save(tmp_path)  # as version 2, and the files of version 1 are known and removed
    del opened
    model.save(tmp_path)
    [folder] = tmp_path.glob("data-*")
    assert sorted(path.name for path in folder.iterdir()) == sorted(data.FILES)


def test_a_model_of_version_1_without_triples(model: Model, tmp_path: Path) -> None:
    part = model.checkpoint
    bare = checkpoint.Checkpoint(part.embedding, part.entities, part.relations, None, {}, {})
    save_checkpoint(bare, tmp_path)
    as_version_1(tmp_path)
    opened = load_checkpoint(tmp_path)
    assert opened.graph is None
    assert opened.entities == part.entities


def read_as_a_question_does(model: Model, entity: int) -> None:
    extended = model.extend([("x", "r0", model.entities.label(entity))])
    extended.predict(head=model.entities.label(entity), relation="r0", options=AnswerOptions(combine=True))


def read_many_rows(model: Model, entity: int) -> None:
    rows, _ = model.index.rows_of(np.array([entity]))
    model.index.links(rows)
    model.index.others(rows)


@pytest.mark.usefixtures("no_check")
@pytest.mark.parametrize("value", [-(1 << 31), -1, 1 << 30])
@pytest.mark.parametrize("array", ["offsets", "link", "other"])
def test_a_damaged_index_is_named_where_it_is_read(model: Model, tmp_path: Path, array: str, value: int) -> None:
    model.save(tmp_path)
    entity = 1
    place = entity if array == "offsets" else int(model.index.offsets[entity])
    change(tmp_path, "index", array, place, value)
    opened = Model.load(tmp_path)
    opened.extend(GIVEN[1:2], weights=ookg.Correlation())  # which does not read what is damaged
    for read in (read_as_a_question_does, read_many_rows):
        with pytest.raises(ModelFileError, match=r"index\.safetensors: damaged model file \(.*; the model is damaged"):
            read(opened, entity)


@pytest.mark.usefixtures("no_check")
@pytest.mark.parametrize("value", [-1, 1 << 30])
def test_damaged_labels_are_named_where_they_are_read(model: Model, tmp_path: Path, value: int) -> None:
    model.save(tmp_path)
    number = model.entities.find("e1")
    assert number is not None
    change(tmp_path, "entities", "offsets", number + 1, value)
    opened = Model.load(tmp_path).entities
    problem = r"entities\.safetensors: damaged model file \(.*; the model is damaged"
    for read in (lambda: opened.label(number), lambda: opened.select([number]), lambda: opened.labels):
        with pytest.raises(ModelFileError, match=problem):
            read()


@pytest.mark.usefixtures("no_check")
def test_a_damaged_order_never_gives_another_label(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    middle = len(model.entities) // 2
    change(tmp_path, "entities", "order", middle, 1 << 30)
    entities = load_checkpoint(tmp_path).entities
    with pytest.raises(ModelFileError, match="is not in it"):
        entities.find("e1")
    change(tmp_path, "entities", "order", middle, 0)
    entities = load_checkpoint(tmp_path).entities
    for label in model.entities.labels.to_pylist():
        assert entities.find(label) in (None, model.entities.find(label))


def test_triples_that_do_not_fit_the_index(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    path = tmp_path / "model.json"
    [triples] = tmp_path.glob("data-*/triples.parquet")
    pq.write_table(pq.read_table(triples).slice(1), triples)
    description = json.loads(path.read_text())
    sizes = description["bytes"] | {triples.name: triples.stat().st_size}
    plain = {key: value for key, value in description.items() if not key.startswith("digest")}
    path.write_text(json.dumps(plain | {"bytes": sizes}))
    opened = load_checkpoint(tmp_path)
    number = len(model.checkpoint.triples)
    with pytest.raises(ModelFileError, match=f"damaged model \\({number - 1} triples and an index of {number}\\)"):
        len(opened.triples)


def test_loops_are_stored_and_counted_where_they_are_not(tmp_path: Path) -> None:
    rows = [("a", "r", "a"), ("a", "r", "b"), ("b", "s", "a"), ("c", "s", "c"), ("c", "r", "c")]
    settings = ookg.TrainingSettings(dim=4, steps=2, batch=4, negatives=2)
    ookg.train(rows, settings, device="cpu").save(tmp_path / "model")
    stored = load_checkpoint(tmp_path / "model").graph
    assert stored is not None
    assert stored.loop_counts.tolist() == [[2, 1], [3, 2]]
    assert "triples" not in vars(stored)
    [path] = (tmp_path / "model").glob("data-*/index.safetensors")
    arrays = load_file(path)
    older = {name: array for name, array in arrays.items() if name != data.LOOPS}
    save_file(older, path)
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    sizes = description["bytes"] | {path.name: path.stat().st_size}
    counted = data.map_data(path.parent, sizes, None).graph
    assert counted is not None
    assert counted.loop_counts.tolist() == [[2, 1], [3, 2]]
    save_file(arrays | {data.LOOPS: np.zeros(3, np.int64)}, path)
    with pytest.raises(ValueError, match="loops of 1 relations instead of 2"):
        data.map_data(path.parent, sizes, None)
