"""OpenKE's layout, written here from its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import InputError, OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.openke import read
from ookg.model.model import Model

N, R, D, MARGIN = 8, 3, 4, 6.0
SPAN = (MARGIN + 2.0) / D
TRIPLES = np.array([[h, r, t] for h in range(N) for r in range(R) for t in range(N)])


def state(name: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    found = {"zero_const": torch.zeros(1), "pi_const": torch.tensor([np.pi], dtype=torch.float32)}
    found["ent_embeddings.weight"] = torch.randn(N, 2 * D if name == "rotate" else D, generator=generator)
    found["rel_embeddings.weight"] = (torch.rand(R, D, generator=generator) * 2 - 1) * SPAN
    if name == "rotate":
        found["ent_embedding_range"] = torch.tensor([SPAN / 2])
        found["rel_embedding_range"] = torch.tensor([SPAN])
        found["margin"] = torch.tensor([MARGIN])
    return found


def write(folder: Path, name: str) -> dict[str, torch.Tensor]:
    found = state(name)
    torch.save(found, folder / "model.ckpt")
    (folder / "entity2id.txt").write_text(f"{N}\n" + "".join(f"e{n}\t{n}\n" for n in range(N)))
    (folder / "relation2id.txt").write_text(f"{R}\n" + "".join(f"r{n}\t{n}\n" for n in range(R)))
    (folder / "train2id.txt").write_text("3\n0 1 0\n2 3 1\n4 5 2\n")
    return found


def expected(name: str, tables: dict[str, torch.Tensor], norm: int = 1, norm_flag: bool = True) -> Any:
    entities, relations = (tables[f"{kind}_embeddings.weight"].double().numpy() for kind in ("ent", "rel"))
    h, r, t = entities[TRIPLES[:, 0]], relations[TRIPLES[:, 1]], entities[TRIPLES[:, 2]]
    if name == "rotate":
        angle = r * np.pi / SPAN
        real = h[:, :D] * np.cos(angle) - h[:, D:] * np.sin(angle) - t[:, :D]
        imaginary = h[:, :D] * np.sin(angle) + h[:, D:] * np.cos(angle) - t[:, D:]
        return -np.hypot(real, imaginary).sum(axis=1)
    if norm_flag:
        h, r, t = (rows / np.sqrt((rows**2).sum(axis=1))[:, None] for rows in (h, r, t))
    return -((np.abs(h + r - t) ** norm).sum(axis=1) ** (1 / norm))


def our_scores(model: Model) -> Any:
    embedding = model.checkpoint.embedding
    head, relation, tail = torch.from_numpy(TRIPLES).unbind(dim=1)
    entities, relations = embedding.entities, embedding.relations
    return -embedding.geometry.distance(entities[head], relations[relation], entities[tail]).double().numpy()


def test_rotate(tmp_path: Path) -> None:
    tables = write(tmp_path, "rotate")
    model = read(tmp_path / "model.ckpt", ImportOptions(gamma=MARGIN)).to_model()
    np.testing.assert_allclose(our_scores(model), expected("rotate", tables), rtol=1e-5)
    best = model.predict([("new", "r2", "e3")], head="new", relation="r2", known_answers="mark").answers[0]
    assert best.entity == "e3"
    assert best.score == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("norm_flag", [True, False])
@pytest.mark.parametrize("norm", [1, 2])
def test_transe(tmp_path: Path, norm: int, norm_flag: bool) -> None:
    tables = write(tmp_path, "transe")
    found = read(tmp_path, ImportOptions(model="transe", norm=norm, normalised=norm_flag))
    model = found.to_model()
    assert found.notes == []
    np.testing.assert_allclose(our_scores(model), expected("transe", tables, norm, norm_flag), rtol=1e-5)
    length = model.embed([("new", "r0", "e1")]).vectors.norm().item()
    assert (length == pytest.approx(1)) == norm_flag


def test_what_is_not_in_the_file_is_taken_as_openkes_default_and_said(tmp_path: Path) -> None:
    tables = write(tmp_path, "transe")
    found = read(tmp_path, ImportOptions(model="transe"))
    assert [note.split(";")[0] for note in found.notes] == [
        "the file does not say its p_norm",
        "the file does not say its norm_flag",
    ]
    np.testing.assert_allclose(our_scores(found.to_model()), expected("transe", tables), rtol=1e-5)


def test_json_and_the_parameters_of_a_wrapped_model(tmp_path: Path) -> None:
    tables = write(tmp_path, "rotate")
    as_lists = {f"model.{key}": value.tolist() for key, value in tables.items()}
    (tmp_path / "model.json").write_text(json.dumps(as_lists))
    model = read(tmp_path / "model.json", ImportOptions()).to_model()
    np.testing.assert_allclose(our_scores(model), expected("rotate", tables), rtol=1e-5)


def test_training_triples_as_ids_and_as_labels(tmp_path: Path) -> None:
    write(tmp_path, "rotate")
    found = read(tmp_path, ImportOptions())
    (tmp_path / "labels.tsv").write_text("e0\tr0\te1\ne2\tr1\te3\ne4\tr2\te5\n")
    for name in ("train2id.txt", "labels.tsv"):
        triples = found.to_model(tmp_path / name).checkpoint.triples
        assert sorted(triples.tolist()) == [[0, 0, 1], [2, 1, 3], [4, 2, 5]]
    for text, message in (
        ("1\n0 1\n", r"ids of shape \(1, 2\)"),
        ("1\n0 x 1\n", "not lines of three ids"),
        ("1\n0 99 1\n", "ids up to 99 and 1; the model has 8 entities and 3 relations"),
        ("1\n0 1 -1\n", "ids of shape"),
    ):
        (tmp_path / "train2id.txt").write_text(text)
        with pytest.raises(InputError, match=message):
            found.to_model(tmp_path / "train2id.txt")
    with pytest.raises(InputError, match="no such file"):
        found.to_model(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("norm_vector.weight", "TransH"),
        ("transfer_matrix.weight", "TransR"),
        ("ent_transfer.weight", "TransD"),
        ("rel_matrices.weight", "RESCAL"),
        ("ent_re_embeddings.weight", "ComplEx"),
        ("rel_inv_embeddings.weight", "SimplE"),
    ],
)
def test_models_without_a_closed_form(tmp_path: Path, key: str, name: str) -> None:
    torch.save(write(tmp_path, "transe") | {key: torch.ones(2, 2)}, tmp_path / "model.ckpt")
    with pytest.raises(InputError, match=f"{name} .*no closed.*train TransE or RotatE"):
        read(tmp_path, ImportOptions(model="transe"))


def test_what_may_be_distmult_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path, "transe")
    with pytest.raises(InputError, match=r"fit TransE, and DistMult as well.*; if it is TransE, say `model=.transe.`"):
        read(tmp_path, ImportOptions())
    with pytest.raises(InputError, match="no rel_embedding_range, so it is not RotatE"):
        read(tmp_path, ImportOptions(model="rotate"))


def test_a_wrong_gamma_norm_or_model_is_caught(tmp_path: Path) -> None:
    write(tmp_path, "rotate")
    for options, message in (
        (ImportOptions(gamma=12.0), "rel_embedding_range is 2; a `gamma` of 12 would make it 3.5; leave out `gamma`"),
        (ImportOptions(norm=2), "its norm is 1, not 2"),
        (ImportOptions(model="transe"), "its model is rotate, not transe"),
    ):
        with pytest.raises(InputError, match=message):
            read(tmp_path, options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ent_embeddings.weight": torch.full((N, 2 * D), torch.nan)}, "entity row 0 .* holds NaN"),
        ({"ent_embeddings.weight": torch.ones(N, D)}, r"of shape \(rows, 8\)"),
        ({"ent_embeddings.weight": torch.ones(N)}, r"shape \(8,\)"),
        ({"rel_embeddings.weight": "text"}, "rel_embeddings.weight is not a table of numbers"),
        ({"rel_embedding_range": torch.zeros(1)}, "rel_embedding_range is"),
        ({"ent_embeddings.weight": torch.ones(5, 2 * D)}, "9 entity labels for 5 rows"),
    ],
)
def test_bad_parameters(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    torch.save({**write(tmp_path, "rotate"), **change}, tmp_path / "model.ckpt")
    with pytest.raises(OokgError, match=message) as error:
        read(tmp_path, ImportOptions()).to_model()
    assert "\n" not in str(error.value)


def test_bad_files(tmp_path: Path) -> None:
    write(tmp_path, "rotate")
    for content, message in (
        (b"not a model", "holds more than tensors, or is damaged"),
        (b"", "holds more than tensors, or is damaged"),
    ):
        (tmp_path / "model.ckpt").write_bytes(content)
        with pytest.raises(InputError, match=message):
            read(tmp_path, ImportOptions())
    torch.save([1], tmp_path / "model.ckpt")
    with pytest.raises(InputError, match="is not a state dict"):
        read(tmp_path, ImportOptions())
    torch.save({"weight": torch.ones(2)}, tmp_path / "model.ckpt")
    with pytest.raises(InputError, match=r"no ent_embeddings.weight; in OpenKE's environment"):
        read(tmp_path, ImportOptions())
    torch.save({}, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"2 .ckpt or .pt files here; name the model's file"):
        read(tmp_path, ImportOptions())
