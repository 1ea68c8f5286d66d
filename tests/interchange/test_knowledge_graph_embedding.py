"""KnowledgeGraphEmbedding's layout, written here from its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError, OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.knowledge_graph_embedding import read
from ookg.model.model import Model

N, R, D, GAMMA = 9, 3, 4, 12.0
TRIPLES = np.array([[h, r, t] for h in range(N) for r in range(R) for t in range(N)])


def write(folder: Path, name: str = "RotatE", gamma: float = GAMMA, checkpoint: bool = True) -> dict[str, Any]:
    """A run's folder and, beside it, the data folder with the labels."""
    rng = np.random.default_rng(5)
    span = (gamma + 2.0) / D
    double = name in ("RotatE", "ComplEx")
    entities = rng.uniform(-span, span, (N, 2 * D if double else D)).astype(np.float32)
    relations = rng.uniform(-span, span, (R, D)).astype(np.float32)
    run, data = folder / "run", folder / "data"
    run.mkdir(exist_ok=True)
    data.mkdir(exist_ok=True)
    np.save(run / "entity_embedding.npy", entities)
    np.save(run / "relation_embedding.npy", relations)
    config = {"model": name, "gamma": gamma, "hidden_dim": D, "double_entity_embedding": double, "data_path": "../data"}
    (run / "config.json").write_text(json.dumps(config))
    if checkpoint:
        state = {
            "gamma": torch.tensor([gamma]),
            "embedding_range": torch.tensor([span]),
            "entity_embedding": torch.from_numpy(entities),
            "relation_embedding": torch.from_numpy(relations),
        }
        saved = {"step": 5, "current_learning_rate": 1e-4, "model_state_dict": state, "optimizer_state_dict": {}}
        torch.save(saved, run / "checkpoint")
    (data / "entities.dict").write_text("".join(f"{n}\te{n}\n" for n in range(N)))
    (data / "relations.dict").write_text("".join(f"{n}\tr{n}\n" for n in range(R)))
    return {"run": run, "data": data, "entities": entities, "relations": relations, "gamma": gamma}


def expected(name: str, made: dict[str, Any]) -> Any:
    """The negative distance of every triple, one number at a time."""
    entities, relations = made["entities"].astype(float), made["relations"].astype(float)
    found = []
    for h, r, t in TRIPLES:
        if name == "TransE":
            found.append(-sum(abs(entities[h, k] + relations[r, k] - entities[t, k]) for k in range(D)))
            continue
        angle = relations[r] * np.pi / ((made["gamma"] + 2) / D)
        total = 0.0
        for k in range(D):
            re, im = entities[h, k], entities[h, D + k]
            turned = re * np.cos(angle[k]) - im * np.sin(angle[k]), re * np.sin(angle[k]) + im * np.cos(angle[k])
            total += np.hypot(turned[0] - entities[t, k], turned[1] - entities[t, D + k])
        found.append(-total)
    return np.array(found)


def our_scores(model: Model) -> Any:
    embedding = model.checkpoint.embedding
    head, relation, tail = torch.from_numpy(TRIPLES).unbind(dim=1)
    entities, relations = embedding.entities, embedding.relations
    return -embedding.geometry.distance(entities[head], relations[relation], entities[tail]).double().numpy()


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("name", ["TransE", "RotatE"])
def test_scores_are_the_sources_and_a_new_entity_gets_a_vector(tmp_path: Path, name: str, checkpoint: bool) -> None:
    made = write(tmp_path, name, checkpoint=checkpoint)
    found = read(made["run"], ImportOptions(vocabulary=made["data"]))
    np.testing.assert_allclose(found.scores(TRIPLES), expected(name, made), rtol=1e-6)
    model = found.to_model()
    np.testing.assert_allclose(our_scores(model), expected(name, made), rtol=1e-5)
    assert model.entities.label(4) == "e4"
    new = model.embed([("new", "r0", "e1")])
    head = np.concatenate([new.vectors.numpy(), made["entities"]])
    if name == "TransE":
        np.testing.assert_allclose(head[0], made["entities"][1] - made["relations"][0], rtol=1e-5, atol=1e-6)
    best = model.predict([("new", "r0", "e1")], head="new", relation="r0", known_answers="mark").answers[0]
    assert best.entity == "e1"
    assert best.score == pytest.approx(0, abs=1e-4)


def test_arrays_may_come_from_the_checkpoint_alone(tmp_path: Path) -> None:
    made = write(tmp_path)
    for name in ("entity_embedding.npy", "relation_embedding.npy", "config.json"):
        (made["run"] / name).unlink()
    with pytest.raises(InputError, match="does not say its model; say it with `model`"):
        read(made["run"], ImportOptions(vocabulary=made["data"]))
    found = read(made["run"] / "checkpoint", ImportOptions(vocabulary=made["data"], model="rotate"))
    np.testing.assert_allclose(our_scores(found.to_model()), expected("RotatE", made), rtol=1e-5)


def test_the_checkpoint_is_right_where_config_json_is_wrong(tmp_path: Path) -> None:
    made = write(tmp_path)
    config = json.loads((made["run"] / "config.json").read_text())
    (made["run"] / "config.json").write_text(json.dumps(config | {"gamma": 99.0}))
    found = read(made["run"], ImportOptions(vocabulary=made["data"]))
    assert found.notes == ["config.json says gamma 99.0, the checkpoint 12; the checkpoint's was used"]
    np.testing.assert_allclose(our_scores(found.to_model()), expected("RotatE", made), rtol=1e-5)
    with pytest.raises(InputError, match=r"its gamma is 12.0, not 9.0; leave out `gamma`"):
        read(made["run"], ImportOptions(vocabulary=made["data"], gamma=9.0))
    (made["run"] / "checkpoint").unlink()
    found = read(made["run"], ImportOptions(vocabulary=made["data"], gamma=GAMMA))
    assert found.notes == ["config.json says gamma 99.0; the given 12 was used"]
    np.testing.assert_allclose(our_scores(found.to_model()), expected("RotatE", made), rtol=1e-5)


def damage(made: dict[str, Any], how: str) -> None:
    run, data = made["run"], made["data"]
    entities = made["entities"].copy()
    match how:
        case "nan":
            entities[2, 1] = np.nan
            np.save(run / "entity_embedding.npy", entities)
        case "width":
            np.save(run / "entity_embedding.npy", entities[:, :-1])
        case "flat":
            np.save(run / "relation_embedding.npy", entities[0])
        case "cut":
            (run / "entity_embedding.npy").write_bytes((run / "entity_embedding.npy").read_bytes()[:100])
        case "gone":
            (run / "relation_embedding.npy").unlink()
        case "config":
            (run / "config.json").write_text("{")
        case "gamma":
            (run / "config.json").write_text(json.dumps({"model": "RotatE", "gamma": "many"}))
        case "vocabulary":
            (data / "entities.dict").write_text("0\te0\n")
        case "unlabelled":
            (data / "relations.dict").unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", r"entity row 2 \('e2'\) holds NaN"),
        ("width", r"shape \(9, 7\); expected floating-point numbers of shape \(rows, 8\)"),
        ("flat", r"shape \(8,\); expected"),
        ("cut", "entity_embedding.npy: not an array of numbers"),
        ("gone", "relation_embedding.npy: no such file"),
        ("config", "config.json: not JSON"),
        ("gamma", "config.json: gamma is 'many'"),
        ("vocabulary", "no label for entity id 1"),
        ("unlabelled", r"no relation labels here .*\(the run had its data in ../data\)"),
    ],
)
def test_bad_files(tmp_path: Path, how: str, message: str) -> None:
    made = write(tmp_path, checkpoint=False)
    damage(made, how)
    with pytest.raises(OokgError, match=message) as error:
        read(made["run"], ImportOptions(vocabulary=made["data"])).to_model()
    assert "\n" not in str(error.value)


def test_bad_checkpoints(tmp_path: Path) -> None:
    made = write(tmp_path)
    options = ImportOptions(vocabulary=made["data"])
    np.save(made["run"] / "entity_embedding.npy", made["entities"][:-1])
    with pytest.raises(InputError, match=r"shape \(8, 8\), but \(9, 8\) in checkpoint; the files are of different"):
        read(made["run"], options)
    torch.save({"step": 3}, made["run"] / "checkpoint")
    with pytest.raises(InputError, match="holds no model_state_dict"):
        read(made["run"], options)
    (made["run"] / "checkpoint").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match=r"damaged; write it again, or remove it to go by"):
        read(made["run"], options)


@pytest.mark.parametrize("name", ["DistMult", "ComplEx", "pRotatE"])
def test_models_without_a_closed_form(tmp_path: Path, name: str) -> None:
    made = write(tmp_path, name, checkpoint=False)
    with pytest.raises(InputError, match=f"{name} .*no closed.*train TransE or RotatE"):
        read(made["run"], ImportOptions(vocabulary=made["data"]))


def test_prot_e_is_told_by_its_modulus(tmp_path: Path) -> None:
    made = write(tmp_path)
    saved = torch.load(made["run"] / "checkpoint", weights_only=True)
    saved["model_state_dict"]["modulus"] = torch.ones(1, 1)
    torch.save(saved, made["run"] / "checkpoint")
    (made["run"] / "config.json").unlink()
    with pytest.raises(InputError, match="pRotatE compares phases only"):
        read(made["run"], ImportOptions(vocabulary=made["data"], model="rotate"))


def test_what_the_user_says_must_agree(tmp_path: Path) -> None:
    made = write(tmp_path)
    for options, message in (
        (ImportOptions(vocabulary=made["data"], norm=2), "its norm is 1, not 2"),
        (ImportOptions(vocabulary=made["data"], model="transe"), "its model is rotate, not transe"),
    ):
        with pytest.raises(InputError, match=message):
            read(made["run"], options)
