"""DGL-KE's layout, written here from its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError, OokgError
from ookg.interchange.dgl_ke import read
from ookg.interchange.foreign import ImportOptions
from ookg.model.model import Model

N, R, D, GAMMA = 8, 3, 5, 19.9
TRIPLES = np.array([[h, r, t] for h in range(N) for r in range(R) for t in range(N)])


def write(folder: Path, name: str) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    span = (GAMMA + 2.0) / D
    entities = rng.uniform(-span, span, (N, 2 * D if name in ("RotatE", "ComplEx") else D)).astype(np.float32)
    relations = rng.uniform(-span, span, (R, D)).astype(np.float32)
    run, data = folder / "ckpts", folder / "data"
    run.mkdir()
    data.mkdir()
    np.save(run / f"FB15k_{name}_entity.npy", entities)
    np.save(run / f"FB15k_{name}_relation.npy", relations)
    config = {"model_name": name, "hidden_dim": D, "gamma": GAMMA, "double_ent": name == "RotatE", "double_rel": False}
    config |= {"dataset": "FB15k", "emp_file": "entities.tsv", "rmap_file": "relations.tsv"}
    (run / "config.json").write_text(json.dumps(config))
    (data / "entities.tsv").write_text("".join(f"{n}\te{n}\n" for n in range(N)))
    (data / "relations.tsv").write_text("".join(f"{n}\tr{n}\n" for n in range(R)))
    return {"run": run, "data": data, "entities": entities, "relations": relations, "config": config}


def expected(name: str, made: dict[str, Any]) -> Any:
    entities, relations = made["entities"].astype(float), made["relations"].astype(float)
    h, r, t = entities[TRIPLES[:, 0]], relations[TRIPLES[:, 1]], entities[TRIPLES[:, 2]]
    if name == "TransE_l1":
        return -np.abs(h + r - t).sum(axis=1)
    if name != "RotatE":
        return -np.sqrt(((h + r - t) ** 2).sum(axis=1))
    angle = r / ((GAMMA + 2.0) / D / np.pi)
    real = h[:, :D] * np.cos(angle) - h[:, D:] * np.sin(angle) - t[:, :D]
    imaginary = h[:, :D] * np.sin(angle) + h[:, D:] * np.cos(angle) - t[:, D:]
    return -np.sqrt(real**2 + imaginary**2).sum(axis=1)


def our_scores(model: Model) -> Any:
    embedding = model.checkpoint.embedding
    head, relation, tail = torch.from_numpy(TRIPLES).unbind(dim=1)
    entities, relations = embedding.entities, embedding.relations
    return -embedding.geometry.distance(entities[head], relations[relation], entities[tail]).double().numpy()


@pytest.mark.parametrize("name", ["TransE", "TransE_l1", "TransE_l2", "RotatE"])
def test_scores_are_the_sources_and_a_new_entity_gets_a_vector(tmp_path: Path, name: str) -> None:
    made = write(tmp_path, name)
    found = read(made["run"], ImportOptions(vocabulary=made["data"]))
    model = found.to_model()
    np.testing.assert_allclose(found.scores(TRIPLES), expected(name, made), rtol=1e-6)
    np.testing.assert_allclose(our_scores(model), expected(name, made), rtol=1e-5)
    best = model.predict([("new", "r2", "e3")], head="new", relation="r2", known_answers="mark").answers[0]
    assert best.entity == "e3"
    assert best.score == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("name", ["TransE_l1", "TransE", "RotatE"])
def test_without_config_json_the_names_of_the_files_tell(tmp_path: Path, name: str) -> None:
    made = write(tmp_path, name)
    (made["run"] / "config.json").unlink()
    options = ImportOptions(vocabulary=made["data"], gamma=GAMMA)
    np.testing.assert_allclose(our_scores(read(made["run"], options).to_model()), expected(name, made), rtol=1e-5)
    if name == "RotatE":
        with pytest.raises(InputError, match="does not say its gamma; say it with `gamma`"):
            read(made["run"], ImportOptions(vocabulary=made["data"]))


def test_a_wrong_norm_gamma_or_model_is_caught(tmp_path: Path) -> None:
    made = write(tmp_path, "RotatE")
    for options, message in (
        (ImportOptions(vocabulary=made["data"], gamma=12.0), "its gamma is 19.9, not 12.0"),
        (ImportOptions(vocabulary=made["data"], norm=2), "its norm is 1, not 2"),
        (ImportOptions(vocabulary=made["data"], model="transe"), "its model is rotate, not transe"),
    ):
        with pytest.raises(InputError, match=message):
            read(made["run"], options)


@pytest.mark.parametrize("name", ["DistMult", "ComplEx", "RESCAL", "SimplE", "TransR"])
def test_models_without_a_closed_form(tmp_path: Path, name: str) -> None:
    made = write(tmp_path, name)
    for _ in range(2):
        with pytest.raises(InputError, match=f"{name} .*no closed.*train TransE or RotatE"):
            read(made["run"], ImportOptions(vocabulary=made["data"]))
        (made["run"] / "config.json").unlink(missing_ok=True)


def damage(made: dict[str, Any], how: str) -> None:
    run, data = made["run"], made["data"]
    match how:
        case "nan":
            np.save(run / "FB15k_RotatE_relation.npy", made["relations"] * np.nan)
        case "width":
            np.save(run / "FB15k_RotatE_entity.npy", made["entities"][:, :D])
        case "hidden":
            (run / "config.json").write_text(json.dumps(made["config"] | {"hidden_dim": 7}))
        case "cut":
            (run / "FB15k_RotatE_entity.npy").write_bytes(b"\x93NUMPY")
        case "relation":
            (run / "FB15k_RotatE_relation.npy").unlink()
        case "entity":
            (run / "FB15k_RotatE_entity.npy").unlink()
        case "two":
            np.save(run / "wn18_RotatE_entity.npy", made["entities"])
            (run / "config.json").unlink()
        case "nameless":
            (run / "FB15k_RotatE_entity.npy").rename(run / "mine_entity.npy")
            (run / "config.json").unlink()
        case "vocabulary":
            (data / "relations.tsv").write_text("0\tr0\n1\tr1\n2\tr2\n3\tr3\n")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", r"relation row 0 \('r0'\) holds NaN"),
        ("width", r"expected floating-point numbers of shape \(rows, 10\)"),
        ("hidden", "hidden_dim 7, but relations of 5 numbers"),
        ("cut", "entity.npy: not an array"),
        ("relation", "FB15k_RotatE_relation.npy: no such file"),
        ("entity", "0 files named <dataset>_<model>_entity.npy"),
        ("two", "2 files named"),
        ("nameless", "its name has no model of DGL-KE"),
        ("vocabulary", "relation id '3' for 3 rows"),
    ],
)
def test_bad_files(tmp_path: Path, how: str, message: str) -> None:
    made = write(tmp_path, "RotatE")
    damage(made, how)
    with pytest.raises(OokgError, match=message) as error:
        read(made["run"], ImportOptions(vocabulary=made["data"])).to_model()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["../other/FB15k", "{folder}/other/FB15k"])
def test_the_config_leads_out_of_no_folder(tmp_path: Path, name: str) -> None:
    made = write(tmp_path, "TransE_l2")
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "other" / "FB15k_TransE_l2_entity.npy", made["entities"])
    name = name.format(folder=tmp_path)
    (made["run"] / "config.json").write_text(json.dumps(made["config"] | {"dataset": name}))
    with pytest.raises(InputError, match=r"config.json: it names the file '.*'; files of the model's own folder alone"):
        read(made["run"], ImportOptions(vocabulary=made["data"]))
