"""What every importer shares: the check, the labels, the safe reading of files."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError, ModelFileError, OokgError
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    known_model,
    load_array,
    load_json,
    load_object,
    load_tensors,
    number,
    phases,
    read_labels,
    read_vocabularies,
    rotation_scores,
    settled,
    table,
    translation_scores,
)
from ookg.interchange.formats import FORMATS, read_foreign
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding

ENTITIES = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
RELATIONS = np.random.default_rng(1).normal(size=(2, 6)).astype(np.float32)


def foreign(geometry: Geometry, entities: Any = ENTITIES, norm: int = 1) -> ForeignModel:
    relations = RELATIONS[:, : geometry.relation_width]
    if geometry.name == "transe":
        scores = translation_scores(entities, relations, norm)
    else:
        scores = rotation_scores(entities, relations, 1.0, norm)
    embedding = Embedding(geometry, torch.tensor(entities), torch.tensor(relations))
    labels = Vocabulary([f"e{n}" for n in range(7)]), Vocabulary(["r0", "r1"])
    return ForeignModel("Tool", "its convention", embedding, *labels, scores)


def test_scores_are_the_formulas_worked_out_by_hand() -> None:
    entities, relations = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[1.0, 0.0]])
    triple = np.array([[0, 0, 1]])
    assert translation_scores(entities, relations, 1)(triple) == [-6]  # |0+1-3| + |0+0-4|
    assert translation_scores(entities, relations, 2)(triple) == pytest.approx([-np.sqrt(20)])
    # 1 + 0i turned by a quarter is i; to 3 + 4i that is |-3 - 3i|; the unit is a half turn for x = 2.
    halves, x = np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[1.0]])
    assert rotation_scores(halves, x, 2 / np.pi)(triple) == pytest.approx([-3 * np.sqrt(2)])
    assert phases(x, 2 / np.pi).item() == pytest.approx(np.pi / 2)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("name", ["transe", "rotate"])
def test_check_passes_a_right_conversion_and_refuses_another_norm(name: str, norm: int) -> None:
    def geometry(p: int) -> Geometry:
        return TransE(6, p) if name == "transe" else RotatE(3, p)

    foreign(geometry(norm), norm=norm).check()
    with pytest.raises(ModelFileError, match=r"Tool: triple .* scores .* there, .* here; the layout is not"):
        foreign(geometry(3 - norm), norm=norm).check()


def test_check_names_the_row_with_a_number_that_is_none() -> None:
    for value in (np.nan, np.inf):
        entities = ENTITIES.copy()
        entities[3, 2] = value
        with pytest.raises(ModelFileError, match=r"entity row 3 \('e3'\) holds NaN or infinity \(1 such row\)"):
            foreign(TransE(6), entities).check()


def test_triples_give_statistics_and_the_unusable_ones_are_counted() -> None:
    model = foreign(TransE(6)).to_model([("e0", "r0", "e1"), ("e0", "r1", "stranger")], "folder/run")
    assert model.checkpoint.statistics is not None
    assert model.checkpoint.triples.tolist() == [[0, 0, 1]]
    assert model.checkpoint.provenance["triples_not_used"] == 1
    assert model.checkpoint.provenance["source"] == "run"
    assert foreign(TransE(6)).to_model().checkpoint.statistics is None
    labelled = [("e0", "r0", "e1", "1"), ("e2", "r0", "e3", "0")]
    assert len(foreign(TransE(6)).to_model(labelled).checkpoint.triples) == 1
    with pytest.raises(InputError, match="none of its triples"):
        foreign(TransE(6)).to_model([("a", "b", "c")])


def test_separation_is_high_for_true_triples_only() -> None:
    entities = np.arange(42, dtype=np.float32).reshape(7, 6) * 10
    found = foreign(TransE(6), entities)
    near = np.array([[n, 0, n] for n in range(7)])
    assert found.separation(near) == 1
    assert found.separation(np.array([[0, 0, 6]])) == 0


@pytest.mark.parametrize(
    "text",
    [
        "0\ta\n1\tb\n2\tc\n",
        "2\tc\r\n0\ta\r\n1\tb\r\n",
        "a\t0\nb\t1\nc\t2\n",
        "id\tlabel\n0\ta\n1\tb\n2\tc\n",
        "3\na\t0\nb\t1\nc\t2\n",
        "a\nb\nc\n",
    ],
)
def test_labels_in_each_layout(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes(text.encode())
    assert read_labels(path, 3, "entity").labels.to_pylist() == ["a", "b", "c"]
    with gzip.open(tmp_path / "labels.gz", "wt", newline="") as file:
        file.write(text)
    assert read_labels(tmp_path / "labels.gz", 3, "entity").labels.to_pylist() == ["a", "b", "c"]


def test_labels_that_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    for text, labels in (
        ("0\t2\n1\t0\n2\t1\n", ["2", "0", "1"]),  # id first where both could be ids
        ("3\n2\t0\n0\t1\n1\t2\n", ["2", "0", "1"]),  # but OpenKE's files, with their count, have the label first
        ("77\t0\n5\t2\n9\t1\n", ["77", "9", "5"]),
        ("0\t77\n2\t5\n1\t9\n", ["77", "9", "5"]),
    ):
        path.write_text(text)
        assert read_labels(path, 3, "entity").labels.to_pylist() == labels


def test_labels_from_json(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    for content in (["a", "b"], {"b": 1, "a": 0}):
        path.write_text(json.dumps(content))
        assert read_labels(path, 2, "entity").labels.to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("few.txt", b"a\nb\n", "2 entity labels for 3 rows"),
        ("gap.txt", b"0\ta\n2\tc\n", "no label for entity id 1"),
        ("high.txt", b"0\ta\n1\tb\n7\tc\n", "entity id '7' for 3 rows"),
        ("twice.txt", b"a\nb\na\n", "'a' occurs twice"),
        ("binary.txt", b"\xff\xfe\x00", "cannot be read as text"),
        ("cut.gz", gzip.compress(b"a\nb\nc\n")[:-9], "cannot be read as text"),
        ("bad.json", b"[1,", "not JSON"),
        ("text.json", b'"abc"', "holds str instead of a list"),
        ("empty.txt", b"", "0 entity labels for 3 rows"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_labels(tmp_path / name, 3, "entity")
    assert "\n" not in str(error.value)


def test_vocabularies_are_looked_for_in_their_places(tmp_path: Path) -> None:
    names = (["entities.dict"], ["relations.dict"])
    with pytest.raises(InputError, match=r"no entity labels here \(entities.dict\); give `vocabulary=...` with"):
        read_vocabularies(ImportOptions(), tmp_path, names, (1, 1))
    (tmp_path / "entities.dict").write_text("0\ta\n")
    with pytest.raises(InputError, match=r"or `relations=...` in data"):
        read_vocabularies(ImportOptions(vocabulary=tmp_path), Path("elsewhere"), names, (1, 1), " in data")
    (tmp_path / "mine.txt").write_text("r\n")
    options = ImportOptions(relations=tmp_path / "mine.txt")
    entities, relations = read_vocabularies(options, tmp_path, names, (1, 1))
    assert (entities.label(0), relations.label(0)) == ("a", "r")


class Trap:
    """Unpickling it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    torch.save({"model": Trap(mark)}, tmp_path / "trap.pt")
    (tmp_path / "trap.pkl").write_bytes(pickle.dumps(Trap(mark)))
    np.save(tmp_path / "trap.npy", np.array([Trap(mark)], dtype=object), allow_pickle=True)
    for name in ("trap.pt", "trap.pkl"):
        with pytest.raises(InputError, match=r"holds more than tensors, or is damaged; the remedy"):
            load_tensors(tmp_path / name, "the remedy")
    with pytest.raises(InputError, match="not an array of numbers"):
        load_array(tmp_path / "trap.npy")
    assert not mark.exists()


def test_tensors_are_read_in_both_layouts(tmp_path: Path) -> None:
    for zipped in (True, False):
        torch.save({"x": torch.ones(2), "n": 3}, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
        found = load_tensors(tmp_path / "x.pt", "")
        assert (found["x"].tolist(), found["n"]) == ([1, 1], 3)


def test_damaged_files_get_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", ENTITIES)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-20])
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "many.npz", a=ENTITIES)
    (tmp_path / "bad.json").write_bytes(b"{")
    (tmp_path / "list.json").write_bytes(b"[1]")
    (tmp_path / "empty.pt").write_bytes(b"")
    calls: list[Callable[[], Any]] = [
        lambda: load_array(tmp_path / "cut.npy"),
        lambda: load_array(tmp_path / "empty.npy"),
        lambda: load_array(tmp_path / "many.npz"),
        lambda: load_array(tmp_path / "none.npy"),
        lambda: load_json(tmp_path / "bad.json"),
        lambda: load_object(tmp_path / "list.json"),
        lambda: load_tensors(tmp_path / "empty.pt", "restore it"),
        lambda: load_tensors(tmp_path / "none.pt", "restore it"),
    ]
    for call in calls:
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value).startswith(str(tmp_path))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "array",
    [np.ones(3, np.float32), np.ones((2, 3), np.int64), np.ones((0, 3), np.float32), np.array([["a"]]), torch.ones(2)],
)
def test_tables_of_a_wrong_shape_or_kind(array: Any) -> None:
    with pytest.raises(InputError, match=r"the table is .*; expected floating-point numbers"):
        table(array, Path("x.npy"), "the table")


def test_tables_become_float32() -> None:
    for array in (np.ones((2, 3), np.float64), np.ones((2, 3), ">f4"), torch.ones(2, 3, dtype=torch.bfloat16)):
        assert table(array, Path("x"), "x", width=3).dtype == torch.float32
    with pytest.raises(InputError, match=r"shape \(2, 3\); expected .* shape \(rows, 4\)"):
        table(np.ones((2, 3)), Path("x"), "the table", width=4)


def test_models_without_a_closed_form_are_refused_with_the_reason() -> None:
    assert (known_model(Path("x"), "TransE"), known_model(Path("x"), "RotatE")) == ("transe", "rotate")
    for name, reason in (("DistMult", "by a product"), ("TransR", "projects"), ("pRotatE", "phases only")):
        with pytest.raises(InputError, match=rf"x: {name} .*{reason}.*no closed.*; train TransE or RotatE"):
            known_model(Path("x"), name)


def test_settings_of_source_and_user_must_agree() -> None:
    assert settled("norm", None, 1, Path("x")) == settled("norm", 1, None, Path("x")) == 1
    with pytest.raises(InputError, match="its norm is 1, not 2; leave out `norm`"):
        settled("norm", 2, 1, Path("x"))
    with pytest.raises(InputError, match="does not say its model; say it with `model`"):
        settled("model", None, None, Path("x"))
    assert number([0.5], "x", Path("x")) == number(torch.tensor([0.5]), "x", Path("x")) == 0.5
    values: list[Any] = [None, "x", [1, 2], 0, np.nan, {}]
    for value in values:
        with pytest.raises(InputError, match="expected a number above 0"):
            number(value, "x", Path("x"))


def test_formats_are_known_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown format 'dglke'; did you mean 'dgl-ke'"):
        read_foreign("dglke", tmp_path)
    with pytest.raises(InputError, match=r"unknown format 'x'; the formats are kge, "):
        read_foreign("x", tmp_path)
    for name in ("kge", "dgl-ke", "libkge", "openke", "biggraph"):
        assert name in FORMATS
        for source in (tmp_path / "missing", tmp_path):
            with pytest.raises(OokgError) as error:
                read_foreign(name, source)
            assert "\n" not in str(error.value)
