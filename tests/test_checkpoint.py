from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import ookg
from ookg import checkpoint
from ookg.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ookg.embedding import Embedding
from ookg.errors import InputError, ModelFileError
from ookg.model import Model
from ookg.models import TransE
from ookg.vocabulary import Vocabulary


def data_folder(directory: Path) -> Path:
    return next(directory.glob("data-*"))


def test_a_model_survives_the_disk_bit_for_bit(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    found = ookg.load(str(tmp_path / "model"))
    saved, read = model.checkpoint, found.checkpoint
    assert torch.equal(found.entity_vectors, model.entity_vectors)
    assert torch.equal(found.relation_vectors, model.relation_vectors)
    assert found.entities == model.entities
    assert found.relations == model.relations
    assert read.embedding.geometry == saved.embedding.geometry
    assert (read.triples == saved.triples).all()
    assert read.statistics is not None
    assert saved.statistics is not None
    assert (read.statistics.degree == saved.statistics.degree).all()
    assert (read.statistics.cooccurrence.toarray() == saved.statistics.cooccurrence.toarray()).all()
    assert (read.settings, read.provenance) == (saved.settings, saved.provenance)


def test_saving_again_replaces_the_model_and_leaves_one_data_folder(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    first = data_folder(tmp_path)
    model.save(tmp_path)
    assert data_folder(tmp_path) != first
    assert sorted(path.name for path in tmp_path.iterdir()) == [data_folder(tmp_path).name, "model.json"]


def test_a_crash_while_saving_leaves_the_old_model(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save(tmp_path)
    before = (tmp_path / "model.json").read_text()

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("power cut")

    for name in ("_write_data", "atomic_write"):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, name, crash)
            with pytest.raises(RuntimeError):
                model.save(tmp_path)
        assert (tmp_path / "model.json").read_text() == before
        assert torch.equal(ookg.load(str(tmp_path)).entity_vectors, model.entity_vectors)


@pytest.mark.parametrize("name", checkpoint.FILES)
def test_damaged_files_are_refused_with_their_name(model: Model, tmp_path: Path, name: str) -> None:
    model.save(tmp_path)
    path = data_folder(tmp_path) / name
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    with pytest.raises(ModelFileError, match=f"{name}: {len(content) - 3} bytes instead of {len(content)}"):
        load_checkpoint(tmp_path)
    path.write_bytes(b"\xff" * len(content))
    with pytest.raises(ModelFileError, match="damaged model"):
        load_checkpoint(tmp_path)
    path.unlink()
    with pytest.raises(ModelFileError, match=f"{name}: missing"):
        load_checkpoint(tmp_path)


def test_descriptions_that_are_not_ours(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no model here"):
        load_checkpoint(tmp_path / "nowhere")
    model.save(tmp_path)
    path = tmp_path / "model.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {"version": 2}))
    with pytest.raises(ModelFileError, match="version 2, and this ookg reads up to 1; upgrade"):
        load_checkpoint(tmp_path)
    path.write_text(json.dumps({"format": "something else"}))
    with pytest.raises(ModelFileError, match="not the description of an ookg model"):
        load_checkpoint(tmp_path)
    path.write_text(json.dumps(description | {"model": "transh"}))
    with pytest.raises(ModelFileError, match="damaged model"):
        load_checkpoint(tmp_path)
    path.write_text("{")
    with pytest.raises(ModelFileError, match="damaged"):
        load_checkpoint(tmp_path)


def test_labels_must_fit_the_vectors(model: Model) -> None:
    part = model.checkpoint
    with pytest.raises(InputError, match="1 entity labels for"):
        Checkpoint(
            part.embedding,
            Vocabulary(["a"]),
            part.relations,
            part.triples,
            part.statistics,
            part.settings,
            part.provenance,
        )


def test_a_place_that_cannot_be_written(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_checkpoint(model.checkpoint, tmp_path / "file")


def test_a_model_without_training_triples(model: Model, tmp_path: Path) -> None:
    part = model.checkpoint
    bare = Checkpoint(
        part.embedding, part.entities, part.relations, part.triples[:0], None, part.settings, part.provenance
    )
    save_checkpoint(bare, tmp_path)
    found = ookg.load(str(tmp_path))
    assert found.checkpoint.statistics is None
    assert sorted(path.name for path in data_folder(tmp_path).iterdir()) == sorted(checkpoint.FILES[:3])
    given = [("x", "r0", "e1"), ("x", "r1", "e2")]
    vectors = found.embed(given).vectors
    assert torch.equal(vectors, model.embed(given, weights=ookg.Uniform()).vectors)
    for weights in (ookg.Degree(), ookg.Correlation()):
        with pytest.raises(InputError, match="weights need statistics of the training triples"):
            found.predict(given, head="x", relation="r0", weights=weights)
    with pytest.raises(InputError, match="correlation weights need statistics"):
        found.embed(given, query_relation="r0")
    assert found.default_weights(ookg.Degree()) == ookg.Uniform()
    assert model.default_weights(ookg.Degree()) == ookg.Degree()


def test_geometries_of_models_trained_elsewhere_survive_the_disk(model: Model, tmp_path: Path) -> None:
    part = model.checkpoint
    geometry = TransE(2, 2, squared=True, unit_norm=2)
    embedding = Embedding(geometry, torch.eye(2), torch.ones(1, 2))
    labels = Vocabulary(["a", "b"]), Vocabulary(["r"])
    save_checkpoint(Checkpoint(embedding, *labels, part.triples[:0], None, {}, {}), tmp_path)
    found = ookg.load(str(tmp_path))
    assert found.checkpoint.embedding.geometry == geometry
    new = found.embed([("x", "r", "a"), ("x", "r", "b")])
    torch.testing.assert_close(new.vectors, torch.tensor([[-1.0, -1.0]]) / 2**0.5)  # scaled to length 1
    answer = found.predict(head="a", relation="r", top=1).answers[0]
    assert answer.score == pytest.approx(-2.0)  # b: |(1,0) + (1,1) - (0,1)|² = 4; a: |(1,1)|² = 2
