"""PyTorch-BigGraph's layout, written here from its description."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError, OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.pytorch_biggraph import read
from ookg.model.model import Model

D = 5
SIZES = {("user", 0): 4, ("user", 1): 3, ("item", 0): 2}
N, R = sum(SIZES.values()), 3
TRIPLES = np.array([[h, r, t] for h in range(N) for r in range(R) for t in range(N)])


def write(folder: Path, dynamic: bool = False, **changes: Any) -> dict[str, Any]:
    """A checkpoint of version 7 and, beside it, the entity path with the names."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(6)
    run, data = folder / "model", folder / "data"
    run.mkdir()
    data.mkdir()
    relations = [{"name": f"r{n}", "lhs": "user", "rhs": "item", "operator": "translation"} for n in range(R)]
    config: dict[str, Any] = {
        "entities": {"user": {"num_partitions": 2}, "item": {"num_partitions": 1, "featurized": False}},
        "relations": relations[:1] if dynamic else relations,
        "dynamic_relations": dynamic,
        "dimension": D,
        "comparator": "l2",
        "bias": False,
        "max_norm": None,
        "entity_path": "data/graph",
    }
    config |= changes
    (run / "config.json").write_text(json.dumps(config))
    (run / "checkpoint_version.txt").write_text("7\n")
    parts, number = [], 0
    for (kind, part), size in SIZES.items():
        rows = rng.normal(size=(size, D)).astype(np.float32)
        with h5py.File(run / f"embeddings_{kind}_{part}.v7.h5", "w") as file:
            file.create_dataset("embeddings", data=rows)
        names = [f"e{number + n}" for n in range(size)]
        (data / f"entity_names_{kind}_{part}.json").write_text(json.dumps(names))
        parts.append(rows)
        number += size
    left, right = (rng.normal(size=(R, D)).astype(np.float32) for _ in range(2))
    with h5py.File(run / "model.v7.h5", "w") as file:
        group = file.create_group("model")
        if dynamic:
            group.create_dataset("relations/0/operator/lhs/translations", data=left)
            group.create_dataset("relations/0/operator/rhs/translations", data=right)
        else:
            for n in range(R):
                group.create_dataset(f"relations/{n}/operator/rhs/translation", data=right[n])
    (data / "dynamic_rel_names.json").write_text(json.dumps([f"r{n}" for n in range(R)]))
    return {"run": run, "data": data, "entities": np.concatenate(parts), "left": left, "right": right}


def expected(made: dict[str, Any], dynamic: bool = False, squared: bool = False) -> Any:
    entities = made["entities"].astype(float)
    h, t = entities[TRIPLES[:, 0]], entities[TRIPLES[:, 2]]
    gap = h + made["left"][TRIPLES[:, 1]] - t if dynamic else h - (t + made["right"][TRIPLES[:, 1]])
    square = (gap**2).sum(axis=1)
    return -square if squared else -np.sqrt(square)


def our_scores(model: Model) -> Any:
    embedding = model.checkpoint.embedding
    head, relation, tail = torch.from_numpy(TRIPLES).unbind(dim=1)
    entities, relations = embedding.entities, embedding.relations
    return -embedding.geometry.distance(entities[head], relations[relation], entities[tail]).double().numpy()


@pytest.mark.parametrize("comparator", ["l2", "squared_l2"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_scores_are_the_sources_and_a_new_entity_gets_a_vector(tmp_path: Path, dynamic: bool, comparator: str) -> None:
    made = write(tmp_path, dynamic, comparator=comparator)
    found = read(made["run"], ImportOptions(vocabulary=made["data"]))
    assert bool(found.notes) == dynamic
    model = found.to_model()
    wanted = expected(made, dynamic, comparator == "squared_l2")
    np.testing.assert_allclose(found.scores(TRIPLES), wanted, rtol=1e-6)
    np.testing.assert_allclose(our_scores(model), wanted, rtol=1e-5)
    new = model.embed([("new", "r0", "e1")]).vectors[0].numpy()
    moved = -made["left"][0] if dynamic else made["right"][0]  # the sign trap: h = t + translation for static ones
    np.testing.assert_allclose(new, made["entities"][1] + moved, rtol=1e-5, atol=1e-6)
    assert model.relations.labels.to_pylist() == ["r0", "r1", "r2"]


def test_global_embeddings_operator_none_and_max_norm(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    made = write(tmp_path, max_norm=1.5)
    shift = np.arange(D, dtype=np.float32)
    with h5py.File(made["run"] / "model.v7.h5", "a") as file:
        file["model"].create_dataset("entities/item/global_embedding", data=shift)
        del file["model/relations/1/operator/rhs/translation"]
    config = json.loads((made["run"] / "config.json").read_text())
    config["relations"][1]["operator"] = "none"
    (made["run"] / "config.json").write_text(json.dumps(config))
    lengths = np.linalg.norm(made["entities"], axis=1, keepdims=True)
    assert lengths.max() > 1.5 > lengths.min()
    made["entities"] = made["entities"] * np.minimum(1, 1.5 / lengths)
    made["entities"][-2:] += shift
    made["right"][1] = 0
    model = read(made["run"], ImportOptions(vocabulary=made["data"])).to_model()
    np.testing.assert_allclose(our_scores(model), expected(made), rtol=1e-5)


def test_labels_from_files_of_ones_own(tmp_path: Path) -> None:
    made = write(tmp_path)
    (tmp_path / "entities.txt").write_text("".join(f"x{n}\n" for n in range(N)))
    (tmp_path / "relations.txt").write_text("a\nb\nc\n")
    options = ImportOptions(entities=tmp_path / "entities.txt", relations=tmp_path / "relations.txt")
    found = read(made["run"], options)
    assert (found.entities.label(8), found.relations.label(2)) == ("x8", "c")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"comparator": "dot"}, r"comparator dot is a dot product: .* no closed form; train with comparator l2"),
        ({"comparator": "cos"}, "comparator cos is a cosine"),
        ({"comparator": "mine"}, "comparator mine is not a distance that ookg knows"),
        ({"bias": True}, "bias: a number of each entity is added"),
        ({"relations": [{"name": "r", "operator": "complex_diagonal"}]}, "operator complex_diagonal, which is not"),
        ({"relations": []}, "it lists no relations"),
        ({"entities": {}}, "it lists no entity types"),
        ({"entities": {"user": {"featurized": True}}}, "is featurized"),
        ({"entities": {"user": {"num_partitions": 3}}}, "embeddings_user_2.v7.h5: no such file"),
        ({"relations": [{"name": f"r{n}", "operator": "translation"} for n in range(4)]}, "no model/relations/3"),
        ({"max_norm": "long"}, "max_norm is 'long'"),
        ({"relations": [{"name": "r", "operator": "translation"}] * 2}, "'r' occurs twice"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    made = write(tmp_path, **changes)
    with pytest.raises(InputError, match=message) as error:
        read(made["run"], ImportOptions(vocabulary=made["data"]))
    assert "\n" not in str(error.value)


def damage(made: dict[str, Any], how: str) -> None:
    h5py = pytest.importorskip("h5py")
    run, data = made["run"], made["data"]
    part = run / "embeddings_user_1.v7.h5"
    tables = {
        "nan": np.full((3, D), np.nan, np.float32),
        "width": np.ones((3, D + 1), np.float32),
        "flat": np.ones(3, np.float32),
    }
    if how in tables:
        with h5py.File(part, "w") as file:
            file.create_dataset("embeddings", data=tables[how])
    match how:
        case "cut":
            part.write_bytes(part.read_bytes()[:100])
        case "empty":
            h5py.File(part, "w").close()
        case "model":
            h5py.File(run / "model.v7.h5", "w").close()
        case "translation":
            with h5py.File(run / "model.v7.h5", "a") as file:
                del file["model/relations/0/operator/rhs/translation"]
                file["model"].create_dataset("relations/0/operator/rhs/translation", data=np.ones(2, np.float32))
        case "version":
            (run / "checkpoint_version.txt").write_text("soon")
        case "unversioned":
            (run / "checkpoint_version.txt").unlink()
        case "names":
            (data / "entity_names_item_0.json").write_text('["e7"]')
        case "nameless":
            (data / "entity_names_item_0.json").unlink()
        case "twice":
            (data / "entity_names_item_0.json").write_text('["e0", "e1"]')


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", r"entity row 4 \('e4'\) holds NaN or infinity \(3 such rows\)"),
        ("width", r"entity vectors of \[5, 6\] numbers"),
        ("flat", r"embeddings are float32 of shape \(3,\)"),
        ("cut", "not HDF5, or damaged"),
        ("empty", "no readable data set 'embeddings'"),
        ("model", "no readable group 'model'"),
        ("translation", r"translations of shape \(2,\) for entities of 5 numbers"),
        ("version", "version 'soon'"),
        ("unversioned", "cannot be read"),
        ("names", "1 labels for 2 entity rows"),
        ("nameless", r"no such file; give `vocabulary=...`, .*\(the run had them in data/graph\)"),
        ("twice", "'e0' occurs twice"),
    ],
)
def test_bad_files(tmp_path: Path, how: str, message: str) -> None:
    made = write(tmp_path)
    damage(made, how)
    with pytest.raises(OokgError, match=message) as error:
        read(made["run"], ImportOptions(vocabulary=made["data"])).to_model()
    assert "\n" not in str(error.value)


def test_a_wrong_norm_or_model_is_caught(tmp_path: Path) -> None:
    made = write(tmp_path)
    for options, message in (
        (ImportOptions(norm=1), "its norm is 2, not 1"),
        (ImportOptions(model="rotate"), "its model is transe, not rotate"),
    ):
        with pytest.raises(InputError, match=message):
            read(made["run"], options)


def test_without_h5py_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"comparator": "l2", "entities": {"user": {}}, "relations": [{"name": "r", "operator": "translation"}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "checkpoint_version.txt").write_text("1")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match="reading it needs h5py; install it with `pip install h5py`"):
        read(tmp_path, ImportOptions())


SECRET = b"what nobody else may read".ljust(32)


def crafted(made: dict[str, Any], how: str) -> None:
    """A file of the checkpoint that takes its numbers, or itself, from somewhere else, or claims very many."""
    h5py = pytest.importorskip("h5py")
    secret = made["data"] / "secret"
    secret.write_bytes(SECRET)
    with h5py.File(made["data"] / "other.h5", "w") as other:
        other.create_dataset("embeddings", data=np.ones((2, D), np.float32))
        other.create_group("model")
    model = how.startswith("model")
    with h5py.File(made["run"] / ("model.v7.h5" if model else "embeddings_item_0.v7.h5"), "r+") as file:
        del file["model" if model else "embeddings"]
        match how:
            case "external data":
                file.create_dataset("embeddings", (2, 4), np.float32, external=[(str(secret), 0, 32)])
            case "virtual data":
                layout = h5py.VirtualLayout((2, D), np.float32)
                layout[:] = h5py.VirtualSource(str(made["data"] / "other.h5"), "embeddings", (2, D))
                file.create_virtual_dataset("embeddings", layout)
            case "external link":
                file["embeddings"] = h5py.ExternalLink(str(made["data"] / "other.h5"), "embeddings")
            case "link loop":
                file["embeddings"] = h5py.SoftLink("/embeddings")
            case "huge":
                file.create_dataset("embeddings", (30_000, 100_000), np.float32, chunks=(100, 100))
            case "huge chunk":
                chunk = (15_000, 30_000)
                file.create_dataset("embeddings", (2, D), np.float32, maxshape=(None, None), chunks=chunk)
            case "model link":
                file["model"] = h5py.ExternalLink(str(made["data"] / "other.h5"), "model")
            case "model link loop":
                file["one"], file["model"] = h5py.SoftLink("/model"), h5py.SoftLink("/one")
            case "model data":
                name = "model/relations/0/operator/rhs/translation"
                file.create_dataset(name, (8,), np.float32, external=[(str(secret), 0, 32)])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "external data",
            r"item_0.v7.h5: the data set /embeddings has its numbers in other files; write the checkpoint",
        ),
        (
            "virtual data",
            r"item_0.v7.h5: the data set /embeddings has its numbers in other files; write the checkpoint",
        ),
        ("external link", r"item_0.v7.h5: 'embeddings' is a link to another place; write the checkpoint again"),
        ("link loop", r"item_0.v7.h5: 'embeddings' is a link to another place"),
        (
            "huge",
            r"item_0.v7.h5: a data set \(30000, 100000\) of 11.2 GiB from a file of .* OOKG_MAX_EXPANSION above 100",
        ),
        ("huge chunk", r"item_0.v7.h5: a data set \(2, 5\) of 1.68 GiB from a file of .* OOKG_MAX_EXPANSION above 100"),
        ("model link", r"model.v7.h5: 'model' is a link to another place"),
        ("model link loop", r"model.v7.h5: 'model' is a link to another place"),
        (
            "model data",
            r"model.v7.h5: the data set /model/relations/0/operator/rhs/translation has its numbers in other",
        ),
    ],
)
def test_nothing_is_read_from_elsewhere_and_nothing_made_up(tmp_path: Path, how: str, message: str) -> None:
    made = write(tmp_path)
    crafted(made, how)
    with pytest.raises(InputError, match=message) as error:
        read(made["run"], ImportOptions(vocabulary=made["data"]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["x/../../data/item", "/item", "x\\item"])
def test_an_entity_type_leads_out_of_no_folder(tmp_path: Path, name: str) -> None:
    made = write(tmp_path, entities={name: {"num_partitions": 1}})
    with pytest.raises(
        InputError, match=r"config.json: it names the file 'embeddings_.*'; files of the model's own folder"
    ):
        read(made["run"], ImportOptions(vocabulary=made["data"]))
