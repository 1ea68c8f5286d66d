"""What is written can be read again, ids stay, and nothing is overwritten or half written."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange import exports
from ookg.interchange.exports import FORMATS, collect, export
from ookg.interchange.foreign import ForeignModel, ImportOptions
from ookg.interchange.formats import read_foreign
from ookg.model.model import Model
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding

NEW = [("x", "r0", "e1"), ("e2", "r1", "x"), ("y", "r2", "e3")]
IMPORTS = {"kge": "kge", "pykeen": "pykeen"}


def with_geometry(model: Model, geometry: Geometry) -> Model:
    checkpoint = model.checkpoint
    embedding = Embedding(geometry, checkpoint.embedding.entities, checkpoint.embedding.relations)
    return Model(replace(checkpoint, embedding=embedding))


def fitting(model: Model, form: str) -> Model:
    """The model, for PyKEEN's RotatE with the norm that it measures by."""
    geometry = model.checkpoint.embedding.geometry
    return with_geometry(model, replace(geometry, norm=2)) if form == "pykeen" else model


def read_again(form: str, folder: Path) -> ForeignModel:
    return read_foreign(IMPORTS.get(form, "arrays"), folder, ImportOptions())


@pytest.mark.parametrize("form", FORMATS)
def test_read_again_with_new_entities_after_the_known(model: Model, form: str, tmp_path: Path) -> None:
    model = fitting(model, form)
    new = model.embed(NEW)
    names = export(collect(model, new), form, tmp_path / "out")
    assert sorted(names) == sorted(
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    foreign = read_again(form, tmp_path / "out")
    foreign.check()
    again = foreign.embedding
    assert again.geometry == model.checkpoint.embedding.geometry
    known = len(model.entities)
    assert foreign.entities.labels.to_pylist() == [*model.entities.labels.to_pylist(), "x", "y"]
    assert foreign.relations == model.relations
    torch.testing.assert_close(again.entities[:known], model.entity_vectors, rtol=0, atol=0)
    torch.testing.assert_close(again.entities[known:], new.vectors, rtol=0, atol=0)
    ours, theirs = model.relation_vectors, again.relations
    if isinstance(again.geometry, RotatE):  # a phase is the same phase a whole turn on
        ours, theirs = (torch.stack([phase.cos(), phase.sin()]) for phase in (ours, theirs))
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_overwritten_unasked(model: Model, form: str, tmp_path: Path) -> None:
    vectors = collect(fitting(model, form))
    names = export(vectors, form, tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("kept")
    before = {name: (tmp_path / "out" / name).read_bytes() for name in names}
    with pytest.raises(InputError, match="`overwrite=True`"):
        export(replace(vectors, entity_vectors=vectors.entity_vectors + 1), form, tmp_path / "out")
    assert before == {name: (tmp_path / "out" / name).read_bytes() for name in names}
    changed = replace(vectors, entity_vectors=vectors.entity_vectors + 1)
    export(changed, form, tmp_path / "out", overwrite=True)
    torch.testing.assert_close(read_again(form, tmp_path / "out").embedding.entities, changed.entity_vectors)
    assert (tmp_path / "out" / "mine.txt").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # and nothing temporary is left


def test_a_failure_leaves_nothing(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: Path, labels: Vocabulary) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exports, "_write_labels", failing)
    with pytest.raises(InputError, match="No space left"):
        export(collect(model), "npy", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.undo()
    with pytest.raises(InputError, match="cannot be written"):
        export(collect(model), "npy", tmp_path / "file" / "out")
    with pytest.raises(InputError, match="unknown format"):
        export(collect(model), "csv", tmp_path / "out")


def test_kge_layout(model: Model, tmp_path: Path) -> None:
    export(collect(model, gamma=6.0), "kge", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    relations = np.load(tmp_path / "relation_embedding.npy")
    assert (config["gamma"], config["hidden_dim"], config["nentity"]) == (6.0, 8, len(model.entities))
    assert (tmp_path / "entities.dict").read_text().splitlines()[1] == f"1\t{model.entities.label(1)}"
    wanted = model.relation_vectors.numpy()
    if model.checkpoint.embedding.geometry.name == "rotate":
        assert (config["model"], config["double_entity_embedding"]) == ("RotatE", True)
        np.testing.assert_allclose(relations / (((6 + 2) / 8) / np.pi), wanted, rtol=1e-6, atol=1e-6)
    else:
        assert (config["model"], config["double_entity_embedding"]) == ("TransE", False)
        np.testing.assert_array_equal(relations, wanted)
    state = torch.load(tmp_path / "checkpoint", weights_only=True)["model_state_dict"]
    assert set(state) == {"gamma", "embedding_range", "entity_embedding", "relation_embedding"}
    assert collect(model).gamma == 4.0  # the margin that it was trained with
    for gamma in (0.0, float("nan")):
        with pytest.raises(InputError, match="gamma"):
            collect(model, gamma=gamma)


def test_pykeen_layout(model: Model, tmp_path: Path) -> None:
    model = fitting(model, "pykeen")
    export(collect(model), "pykeen", tmp_path)
    said = json.loads((tmp_path / "metadata.json").read_text())
    state = torch.load(tmp_path / "state_dict.pt", weights_only=True)
    rows = state["entity_representations.0._embeddings.weight"]
    if said["model"] == "RotatE":
        assert said["model_kwargs"] == {"embedding_dim": 8}
        assert rows[3, :4].tolist() == model.entity_vectors[3, [0, 8, 1, 9]].tolist()
        pairs = state["relation_representations.0._embeddings.weight"].reshape(-1, 8, 2)
        torch.testing.assert_close(torch.linalg.vector_norm(pairs, dim=2), torch.ones(len(pairs), 8))
    else:
        wanted = {"embedding_dim": 8, "scoring_fct_norm": 2, "power_norm": False, "entity_constrainer": None}
        assert said["model_kwargs"] == wanted
        assert torch.equal(rows, model.entity_vectors)
    with gzip.open(tmp_path / "training_triples" / "numeric_triples.tsv.gz", "rt") as file:
        lines = file.read().splitlines()
    assert lines[0] == "head\trelation\ttail"
    assert len(lines) - 1 == len(model.checkpoint.triples)
    base: Any = torch.load(tmp_path / "training_triples" / "base.pth", weights_only=True)
    assert base["num_entities"] == len(model.entities)


@pytest.mark.parametrize(
    ("form", "geometry", "message"),
    [
        ("kge", TransE(8, 2), "measures by norm 1, this model (transe) by norm 2"),
        ("kge", RotatE(8, 2), "measures by norm 1, this model (rotate) by norm 2"),
        ("kge", TransE(8, 1, squared=True), "by norm 1 squared"),
        ("pykeen", RotatE(8, 1), "PyKEEN's RotatE measures by norm 2"),
        ("pykeen", TransE(8, 1, squared=True), "PyKEEN's TransE measures by norm 1, norm 2 or the square of norm 2"),
    ],
)
def test_a_tool_that_would_rank_otherwise_is_not_written_for(
    model: Model, form: str, geometry: Geometry, message: str, tmp_path: Path
) -> None:
    if model.checkpoint.embedding.geometry.name != geometry.name:
        pytest.skip("the other model's")
    with pytest.raises(InputError) as refusal:
        export(collect(with_geometry(model, geometry)), form, tmp_path / "out")
    assert message in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_imported_models_keep_their_convention(model: Model, tmp_path: Path) -> None:
    if model.checkpoint.embedding.geometry.name != "transe":
        pytest.skip("TransE's")
    geometry = TransE(8, 2, squared=True, unit_norm=2)
    unit = torch.nn.functional.normalize(model.entity_vectors, dim=1)
    embedding = Embedding(geometry, unit, model.relation_vectors)
    changed = Model(replace(model.checkpoint, embedding=embedding))
    for form in ("npy", "pykeen"):
        export(collect(changed), form, tmp_path / form)
        foreign = read_again(form, tmp_path / form)
        foreign.check()
        assert foreign.embedding.geometry == geometry


def test_labels_that_a_format_cannot_hold(model: Model, tmp_path: Path) -> None:
    labels = model.entities.labels.to_pylist()
    spaced = replace(collect(model), entities=Vocabulary(["New York", *labels[1:]]))
    broken = replace(collect(model), entities=Vocabulary(["a\tb", *labels[1:]]))
    with pytest.raises(InputError, match=r"'New York' has white space, which word2vec text cannot hold"):
        export(spaced, "word2vec", tmp_path / "out")
    for form in ("npy", "safetensors", "kge"):
        export(spaced, form, tmp_path / form)
        with pytest.raises(InputError, match="has a tab or a line break"):
            export(broken, form, tmp_path / "out")
    export(broken, "parquet", tmp_path / "parquet")
    assert read_again("parquet", tmp_path / "parquet").entities.label(0) == "a\tb"
    assert not (tmp_path / "out").exists()


def test_known_entities_are_not_appended(model: Model) -> None:
    new = model.embed(NEW)
    known = replace(new, entities=[model.entities.label(0), "y"])
    with pytest.raises(InputError, match="known to the model"):
        collect(model, known)


def test_the_same_vectors_give_the_same_bytes(model: Model, tmp_path: Path) -> None:
    for attempt in ("first", "second"):
        for form in FORMATS:
            export(collect(fitting(model, form)), form, tmp_path / attempt / form)
        if attempt == "first":
            time.sleep(2)  # the finest time that a zip or gzip file notes is coarser than one second
    paths = [path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*") if path.is_file()]
    different = [
        path for path in paths if (tmp_path / "first" / path).read_bytes() != (tmp_path / "second" / path).read_bytes()
    ]
    assert len(paths) > len(FORMATS)
    assert different == []
