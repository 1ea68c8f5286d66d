from __future__ import annotations

import errno
import gc
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from ookg.errors import InputError, ModelFileError
from ookg.graph.vocabulary import Vocabulary
from ookg.model.model import Model
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.simulation.choice import NewcomerChoice, stored_choice
from ookg.storage import checkpoint
from ookg.storage.checkpoint import (
    STATE_FILE,
    Checkpoint,
    check_model,
    held_model,
    load_checkpoint,
    refuse_damage,
    save_checkpoint,
)
from ookg.storage.data import FILES
from ookg.system.files import LOCK_FILE


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
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK_FILE, data_folder(tmp_path).name, "model.json"]


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


@pytest.mark.parametrize("name", FILES)
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
    path.write_text(json.dumps(description | {"version": 3}))
    with pytest.raises(ModelFileError, match="version 3, and this ookg reads up to 2; upgrade"):
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
            part.graph,
            part.settings,
            part.provenance,
        )


def test_a_place_that_cannot_be_written(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_checkpoint(model.checkpoint, tmp_path / "file")


def test_a_model_without_training_triples(model: Model, tmp_path: Path) -> None:
    part = model.checkpoint
    bare = Checkpoint(part.embedding, part.entities, part.relations, None, part.settings, part.provenance)
    save_checkpoint(bare, tmp_path)
    found = ookg.load(str(tmp_path))
    assert found.checkpoint.statistics is None
    assert sorted(path.name for path in data_folder(tmp_path).iterdir()) == sorted(FILES[:3])
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
    geometry = TransE(2, 2, squared=True, unit_norm=2)
    embedding = Embedding(geometry, torch.eye(2), torch.ones(1, 2))
    labels = Vocabulary(["a", "b"]), Vocabulary(["r"])
    save_checkpoint(Checkpoint(embedding, *labels, None, {}, {}), tmp_path)
    found = ookg.load(str(tmp_path))
    assert found.checkpoint.embedding.geometry == geometry
    new = found.embed([("x", "r", "a"), ("x", "r", "b")])
    torch.testing.assert_close(new.vectors, torch.tensor([[-1.0, -1.0]]) / 2**0.5)  # scaled to length 1
    answer = found.predict(head="a", relation="r", top=1).answers[0]
    assert answer.score == pytest.approx(-4.0)  # b: |(1,0) + (1,1) - (0,1)|² = 4; a itself is no answer


def test_a_model_that_is_replaced_while_it_is_read_is_read_anew(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save(tmp_path)
    real, calls = checkpoint.read_description, []

    def slow(directory: Path) -> dict[str, Any]:
        description = real(directory)
        calls.append(description["data"])
        if len(calls) in (1, 2):  # between reading model.json and the files that it names
            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, "read_description", real)
                model.save(directory)
        return description

    monkeypatch.setattr(checkpoint, "read_description", slow)
    assert torch.equal(load_checkpoint(tmp_path).embedding.entities, model.entity_vectors)
    assert len(set(calls)) == 3
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("data-")]) == 1


def test_an_open_model_keeps_its_files_until_a_write_after_it_is_closed(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    first, opened = data_folder(tmp_path), ookg.load(str(tmp_path))
    copied = Model(replace(opened.checkpoint, settings={"other": 1}))
    for _ in range(2):
        model.save(tmp_path)
        assert all((first / name).is_file() for name in FILES)
    assert len(list(tmp_path.glob("data-*"))) == 2
    del opened
    gc.collect()
    model.save(tmp_path)
    assert first.exists()  # the copy is of the same files
    del copied
    gc.collect()
    model.save(tmp_path)
    assert len(list(tmp_path.glob("data-*"))) == 1


def test_without_locks_a_replaced_version_is_removed_and_remains_stay(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    def no_lock_file(*_: object) -> None:
        raise NotImplementedError

    model.save(tmp_path)
    first, opened = data_folder(tmp_path), ookg.load(str(tmp_path))
    shutil.copytree(first, tmp_path / "data-01234567")
    monkeypatch.setattr("fcntl.flock", unsupported)
    monkeypatch.setattr("filelock.FileLock.acquire", no_lock_file)
    model.save(tmp_path)
    assert not first.exists()
    assert (tmp_path / "data-01234567").exists()
    assert torch.equal(opened.entity_vectors, model.entity_vectors)
    assert torch.equal(ookg.load(str(tmp_path)).entity_vectors, model.entity_vectors)


def test_a_model_is_read_where_nothing_can_be_written(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    for path in (tmp_path, data_folder(tmp_path)):
        path.chmod(0o555)
    try:
        assert torch.equal(ookg.load(str(tmp_path)).entity_vectors, model.entity_vectors)
    finally:
        for path in (tmp_path, data_folder(tmp_path)):
            path.chmod(0o755)


def test_the_next_write_removes_what_crashes_left(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    gone = ["data-01234567", "data-89abcdef", f".{STATE_FILE}.0123abcd.tmp", ".model.json.0123abcd.tmp"]
    kept = ["data-0123456x", "data-00000000", ".other.0123abcd.tmp", "notes.txt", "data-11111111"]
    shutil.copytree(data_folder(tmp_path), tmp_path / gone[0])
    (tmp_path / gone[1]).mkdir()
    (tmp_path / gone[1] / ".tmpAbC123").write_text("half a file of vectors")
    (tmp_path / gone[2]).write_text("as older versions left it")
    (tmp_path / gone[3]).mkdir()
    for name in kept[:2]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious.txt").write_text("not ours")
    (tmp_path / kept[2]).write_text("")
    (tmp_path / kept[3]).write_text("")
    (tmp_path / kept[4]).symlink_to(tmp_path / kept[0])
    model.save(tmp_path)
    assert torch.equal(ookg.load(str(tmp_path)).entity_vectors, model.entity_vectors)
    own = [LOCK_FILE, "model.json", json.loads((tmp_path / "model.json").read_text())["data"]]
    assert {path.name for path in tmp_path.iterdir()} == {*kept, *own}


def test_nothing_is_removed_beside_a_damaged_description(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    data = data_folder(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with held_model(tmp_path):
        assert data.exists()
    model.save(tmp_path)
    assert torch.equal(ookg.load(str(tmp_path)).entity_vectors, model.entity_vectors)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found(model: Model, tmp_path: Path, name: str) -> None:
    model.save(tmp_path)
    path = data_folder(tmp_path) / name
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, 8 * len(content), 20):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        assert [file.name for file in check_model(tmp_path) if file.problem] == [f"{path.parent.name}/{name}"]
        with pytest.raises(ModelFileError, match=rf"{name}: damaged model file .*; the model is damaged, restore it"):
            refuse_damage(tmp_path)
        if name != FILES[0]:  # the vectors are not read when a model is loaded
            with pytest.raises(ModelFileError, match=rf"{name}: damaged model file"):
                load_checkpoint(tmp_path)
    path.write_bytes(content)
    refuse_damage(tmp_path)


def test_a_flipped_bit_in_the_description_is_found(model: Model, tmp_path: Path) -> None:
    chosen = Model(replace(model.checkpoint, newcomers=NewcomerChoice(power=2.0).to_dict()))
    chosen.save(tmp_path)
    path = tmp_path / "model.json"
    content = path.read_bytes()
    found = 0
    for place in np.random.default_rng(0).integers(0, 8 * len(content), 300):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        try:
            again = load_checkpoint(tmp_path)
        except ModelFileError:
            found += 1
        else:  # it says the same as before
            assert (again.settings, again.provenance) == (model.checkpoint.settings, model.checkpoint.provenance)
            assert again.embedding.geometry == model.checkpoint.embedding.geometry
            assert stored_choice(again) == chosen.choice
    assert found > 290
    path.write_bytes(content)
    assert load_checkpoint(tmp_path).newcomers == chosen.checkpoint.newcomers


def test_sections_and_layout_of_the_description_may_be_changed_by_hand(model: Model, tmp_path: Path) -> None:
    Model(replace(model.checkpoint, newcomers=NewcomerChoice(power=2.0).to_dict())).save(tmp_path)
    path = tmp_path / "model.json"
    description = json.loads(path.read_text())
    del description["newcomers"]
    path.write_text(json.dumps(dict(reversed(description.items()))))
    assert load_checkpoint(tmp_path).newcomers is None
    path.write_text(json.dumps(description | {"newcomers": {"power": 3.0}}))  # as an older version stores it
    found = stored_choice(load_checkpoint(tmp_path))
    assert found is not None
    assert found.power == 3.0
    description["settings"]["dim"] = 9
    path.write_text(json.dumps(description))
    with pytest.raises(ModelFileError, match=r"model\.json: damaged model description"):
        load_checkpoint(tmp_path)
    del description["digest"]
    path.write_text(json.dumps(description))
    with pytest.raises(ModelFileError, match=r"model\.json: damaged model description"):
        load_checkpoint(tmp_path)


def test_a_directory_of_an_older_version_has_only_sizes(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path)
    path = tmp_path / "model.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in description.items() if not key.startswith("digest")}))
    assert torch.equal(ookg.load(str(tmp_path)).entity_vectors, model.entity_vectors)
    found = check_model(tmp_path)
    assert [(file.problem, file.is_digested) for file in found] == [(None, False)] * 7
    triples = data_folder(tmp_path) / "triples.parquet"
    triples.write_bytes(triples.read_bytes() + b" ")
    assert [file.problem for file in check_model(tmp_path) if file.problem] == [
        f"{triples.stat().st_size} bytes instead of {triples.stat().st_size - 1}"
    ]


def test_a_length_in_no_norm_is_refused(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    description = json.loads(path.read_text())
    plain = {name: value for name, value in description.items() if name not in ("digest", "digests")}
    path.write_text(json.dumps(plain | {"unit_norm": 10**30}))
    with pytest.raises(ModelFileError, match="'unit_norm' is 1000"):
        Model.load(tmp_path / "m")
