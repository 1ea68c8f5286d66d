"""LibKGE's layout, written here from its description."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError, OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.libkge import CONVERSION, read
from ookg.model.model import Model

N, R, D = 8, 3, 4
TRIPLES = np.array([[h, r, t] for h in range(N) for r in range(R) for t in range(N)])


def state(name: str, reciprocal: bool = False, seed: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randn(N, 2 * D if name == "rotate" else D, generator=generator)
    relations = torch.randn(2 * R if reciprocal else R, D, generator=generator) * 3
    tables = {
        "_entity_embedder._embeddings.weight": entities,
        "_relation_embedder._embeddings.weight": relations,
    }
    return tables | {f"_base_model.{key}": value for key, value in tables.items()} if reciprocal else tables


def write(folder: Path, name: str = "rotate", norm: float = 1.0, reciprocal: bool = False) -> dict[str, torch.Tensor]:
    tables = state(name, reciprocal)
    torch.save({"model": tables, "model_name": name, "l_norm": norm}, folder / "plain.pt")
    (folder / "entity_ids.del").write_text("".join(f"{n}\te{n}\n" for n in range(N)))
    (folder / "relation_ids.del").write_text("".join(f"{n}\tr{n}\n" for n in range(R)))
    return tables


def expected(name: str, tables: dict[str, torch.Tensor], norm: float) -> Any:
    entities = tables["_entity_embedder._embeddings.weight"].double().numpy()
    relations = tables["_relation_embedder._embeddings.weight"].double().numpy()
    h, r, t = entities[TRIPLES[:, 0]], relations[TRIPLES[:, 1]], entities[TRIPLES[:, 2]]
    if name == "transe":
        absolute = np.abs(h + r - t)
    else:
        real = h[:, :D] * np.cos(r) - h[:, D:] * np.sin(r) - t[:, :D]
        imaginary = h[:, :D] * np.sin(r) + h[:, D:] * np.cos(r) - t[:, D:]
        absolute = np.hypot(real, imaginary)
    return -((absolute**norm).sum(axis=1) ** (1 / norm))


def our_scores(model: Model) -> Any:
    embedding = model.checkpoint.embedding
    head, relation, tail = torch.from_numpy(TRIPLES).unbind(dim=1)
    entities, relations = embedding.entities, embedding.relations
    return -embedding.geometry.distance(entities[head], relations[relation], entities[tail]).double().numpy()


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize("name", ["transe", "rotate"])
def test_scores_are_the_sources_and_a_new_entity_gets_a_vector(
    tmp_path: Path, name: str, norm: float, reciprocal: bool
) -> None:
    tables = write(tmp_path, name, norm, reciprocal)
    found = read(tmp_path, ImportOptions())
    assert bool(found.notes) == reciprocal
    model = found.to_model()
    assert len(model.relations) == R
    np.testing.assert_allclose(our_scores(model), expected(name, tables, norm), rtol=1e-5)
    best = model.predict([("e3", "r1", "new")], tail="new", relation="r1", known_answers="mark").answers[0]
    assert best.entity == "e3"
    assert best.score == pytest.approx(0, abs=1e-5)


def test_the_pair_of_state_and_meta_and_older_keys_are_read(tmp_path: Path) -> None:
    tables = write(tmp_path)
    older = {key.replace("._embeddings", ".embeddings"): value for key, value in tables.items()}
    torch.save({"model": (older, {"meta": 1})}, tmp_path / "checkpoint_best.pt")
    found = read(tmp_path / "checkpoint_best.pt", ImportOptions(model="rotate"))
    assert "LibKGE's default, 1, was taken" in found.notes[0]
    np.testing.assert_allclose(our_scores(found.to_model()), expected("rotate", tables, 1), rtol=1e-5)
    with pytest.raises(InputError, match="does not say its model; say it with `model`"):
        read(tmp_path / "checkpoint_best.pt", ImportOptions())


def test_entities_held_to_length_1_stay_so(tmp_path: Path) -> None:
    tables = write(tmp_path, "transe")
    key = "_entity_embedder._embeddings.weight"
    tables[key] = torch.nn.functional.normalize(tables[key])
    torch.save({"model": tables, "model_name": "transe", "l_norm": 1.0}, tmp_path / "plain.pt")
    model = read(tmp_path, ImportOptions()).to_model()
    assert model.embed([("new", "r0", "e1")]).vectors.norm().item() == pytest.approx(1)


FAKE_KGE = """
class Config:
    def __init__(self, options):
        self.options = options

    def get(self, key):
        found = self.options
        for name in key.split("."):
            found = found[name]
        return found

    def get_default(self, key):
        try:
            return self.get(key)
        except KeyError:
            parent, field = key.rsplit(".", 1)
            return self.get(self.get(parent + ".type") + "." + field)
"""


@pytest.mark.parametrize("kind", ["plain", "reciprocal"])
def test_a_pickled_config_is_refused_with_a_command_that_works(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = write(tmp_path, reciprocal=kind == "reciprocal")
    kge = ModuleType("kge")
    exec(FAKE_KGE, kge.__dict__)
    options: dict[str, Any] = {"model": "rotate", "rotate": {"l_norm": 2.0}}
    if kind == "reciprocal":
        options["model"] = "reciprocal_relations_model"
        options["reciprocal_relations_model"] = {"base_model": {"type": "rotate"}}
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "kge", kge)
        saved = {"model": (tables, {}), "config": kge.Config(options), "epoch": 3}
        torch.save(saved, tmp_path / "checkpoint_best.pt")
    (tmp_path / "plain.pt").unlink()
    with pytest.raises(InputError, match="holds more than tensors") as error:
        read(tmp_path, ImportOptions())
    assert str(error.value).endswith(CONVERSION)
    assert "\n" not in str(error.value)

    # What the user runs where LibKGE is installed.
    program = shlex.split(CONVERSION.split("run: ")[1].removesuffix(" and import plain.pt"))
    assert program[:2] == ["python", "-c"]
    monkeypatch.setitem(sys.modules, "kge", kge)
    monkeypatch.chdir(tmp_path)
    exec(program[2], {})
    model = read(tmp_path / "plain.pt", ImportOptions()).to_model()
    np.testing.assert_allclose(our_scores(model), expected("rotate", tables, 2), rtol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": state("rotate"), "model_name": "distmult"}, "distmult scores by a product"),
        ({"model": state("rotate"), "model_name": "transe"}, r"expected floating-point numbers of shape \(rows, 4\)"),
        ({"model": state("rotate"), "model_name": "rotate", "l_norm": 3.0}, "l_norm is 3; only the norms 1 and 2"),
        ({"model": {}, "model_name": "rotate"}, "no _entity_embedder._embeddings.weight"),
        ({"model": 3}, 'has no state dict under "model"'),
        (torch.ones(3), 'has no state dict under "model"'),
        ({"model": {k: v * torch.nan for k, v in state("rotate").items()}, "model_name": "rotate"}, "holds NaN"),
        (
            {"model": {f"_base_model.{k}": v for k, v in state("rotate").items()}, "model_name": "rotate"},
            "3 relation rows in a reciprocal model",
        ),
    ],
)
def test_bad_files(tmp_path: Path, content: Any, message: str) -> None:
    write(tmp_path)
    torch.save(content, tmp_path / "plain.pt")
    with pytest.raises(OokgError, match=message) as error:
        read(tmp_path, ImportOptions()).to_model()
    assert "\n" not in str(error.value)


def test_a_wrong_norm_and_labels_that_do_not_fit_are_caught(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(InputError, match=r"its norm is 1.0, not 2"):
        read(tmp_path, ImportOptions(norm=2))
    (tmp_path / "entity_ids.del").write_text("0\te0\n")
    with pytest.raises(InputError, match="no label for entity id 1"):
        read(tmp_path, ImportOptions())
    (tmp_path / "plain.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="or is damaged"):
        read(tmp_path, ImportOptions())
    (tmp_path / "plain.pt").unlink()
    with pytest.raises(InputError, match=r"no plain.pt or checkpoint_best.pt here"):
        read(tmp_path, ImportOptions())
