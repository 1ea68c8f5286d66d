"""Plain arrays with labels: each file format, both models, and each kind of misfit as one line."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from ookg.errors import FileError, OokgError
from ookg.interchange import arrays
from ookg.interchange.arrays import read
from ookg.interchange.foreign import ImportOptions
from ookg.models import RotatE, TransE

RNG = np.random.default_rng(0)
ENTITIES, RELATIONS = RNG.normal(size=(4, 6)).astype(np.float32), RNG.normal(size=(2, 6)).astype(np.float32)
PHASES = RNG.uniform(-3, 3, size=(2, 3)).astype(np.float32)
NAMES = {"entities": ["a", "b", "c", "d"], "relations": ["r", "s"]}


def write(folder: Path, form: str, entities: Any = ENTITIES, relations: Any = RELATIONS) -> Path:
    for (name, labels), rows in zip(NAMES.items(), (entities, relations), strict=True):
        if form == "npy":
            np.save(folder / f"{name}.npy", rows)
        elif form == "safetensors":
            save_file({"anything": rows}, folder / f"{name}.safetensors")
        elif form == "parquet":
            column = {"entities": "entity", "relations": "relation"}[name]
            pq.write_table(pa.table({column: labels, "vector": list(rows)}), folder / f"{name}.parquet")
        else:
            lines = [" ".join([label, *map(repr, row.tolist())]) for label, row in zip(labels, rows, strict=True)]
            header = [f"{len(rows)} {rows.shape[1]}"] if form == "vec" else []
            (folder / f"{name}.{form}").write_text("\n".join([*header, *lines]) + "\n")
        if form in ("npy", "safetensors"):
            (folder / f"{name}.txt").write_text("\n".join(labels) + "\n")
    return folder


@pytest.mark.parametrize("form", ["npy", "safetensors", "parquet", "vec", "txt"])
def test_every_format_gives_the_same_model(tmp_path: Path, form: str) -> None:
    foreign = read(write(tmp_path, form), ImportOptions())
    foreign.check()
    assert foreign.embedding.geometry == TransE(6, 1)
    np.testing.assert_array_equal(foreign.embedding.entities.numpy(), ENTITIES)
    np.testing.assert_array_equal(foreign.embedding.relations.numpy(), RELATIONS)
    assert foreign.entities.labels.to_pylist() == NAMES["entities"]
    assert foreign.relations.labels.to_pylist() == NAMES["relations"]
    model = foreign.to_model()
    assert model.embed([("x", "r", "a")]).vectors.numpy() == pytest.approx(ENTITIES[:1] - RELATIONS[:1], abs=1e-6)


@pytest.mark.parametrize("norm", [1, 2])
def test_norms_and_models(tmp_path: Path, norm: int) -> None:
    gap = ENTITIES[0].astype(float) + RELATIONS[1] - ENTITIES[3]
    triple = np.array([[0, 1, 3]])
    foreign = read(write(tmp_path, "npy"), ImportOptions(norm=norm))
    foreign.check()
    wanted = np.abs(gap).sum() if norm == 1 else np.sqrt((gap**2).sum())
    assert foreign.scores(triple) == pytest.approx([-wanted])

    rotated = read(write(tmp_path, "npy", relations=PHASES), ImportOptions(model="rotate", norm=norm))
    rotated.check()
    assert rotated.embedding.geometry == RotatE(3, norm)
    moduli = [
        abs(complex(h[k], h[k + 3]) * np.exp(1j * PHASES[1, k]) - complex(t[k], t[k + 3]))
        for h, t in [(ENTITIES[0], ENTITIES[3])]
        for k in range(3)
    ]
    wanted = sum(moduli) if norm == 1 else np.sqrt(sum(modulus**2 for modulus in moduli))
    assert rotated.scores(triple) == pytest.approx([-wanted], rel=1e-6)


def test_complex_arrays_are_rotate(tmp_path: Path) -> None:
    entities = ENTITIES[:, :3] + 1j * ENTITIES[:, 3:]
    options = ImportOptions(model="rotate", norm=2)
    foreign = read(write(tmp_path, "npy", entities, np.exp(1j * PHASES)), options)
    foreign.check()
    np.testing.assert_array_equal(foreign.embedding.entities.numpy(), ENTITIES)
    np.testing.assert_allclose(foreign.embedding.relations.numpy(), PHASES, rtol=1e-6)
    # What is no rotation cannot pass as one.
    with pytest.raises(OokgError, match="layout is not what was expected"):
        read(write(tmp_path, "npy", entities, 2 * np.exp(1j * PHASES)), options).check()
    with pytest.raises(OokgError, match="complex"):
        read(tmp_path, ImportOptions())


def test_files_named_by_options(tmp_path: Path) -> None:
    write(tmp_path, "npy")
    (tmp_path / "entities.npy").rename(tmp_path / "nodes.npy")
    (tmp_path / "relations.txt").rename(tmp_path / "predicates.txt")
    options = ImportOptions(entities=tmp_path / "nodes.npy", relations=tmp_path / "predicates.txt")
    assert read(tmp_path, options).relations.labels.to_pylist() == ["r", "s"]
    both = tmp_path / "both.safetensors"
    save_file({"entities": ENTITIES, "relations": RELATIONS}, both)
    assert read(both, ImportOptions()).embedding.num_entities == 4
    save_file({"entities": ENTITIES}, both)
    with pytest.raises(OokgError, match="no tensor 'relations'"):
        read(both, ImportOptions())


def test_without_labels_the_ids_are_the_labels(tmp_path: Path) -> None:
    write(tmp_path, "npy")
    (tmp_path / "entities.txt").unlink()
    foreign = read(tmp_path, ImportOptions())
    assert foreign.entities.labels.to_pylist() == ["0", "1", "2", "3"]
    assert "`entities=...`" in foreign.notes[0]


def refusal(folder: Path, options: ImportOptions | None = None) -> str:
    with pytest.raises(OokgError) as error:
        read(folder, options or ImportOptions()).check()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_misfits_of_numbers_and_labels(tmp_path: Path) -> None:
    assert "no such file or folder" in refusal(tmp_path / "none")
    assert "no vectors of entities here" in refusal(tmp_path)
    write(tmp_path, "npy")
    assert "model 'distmult'" in refusal(tmp_path, ImportOptions(model="distmult"))
    assert "norm 3" in refusal(tmp_path, ImportOptions(norm=3))
    assert "expected floating-point numbers of shape (rows, 12)" in refusal(tmp_path, ImportOptions(model="rotate"))
    write(tmp_path, "npy", entities=ENTITIES[:, :5])
    assert "shape (4, 5)" in refusal(tmp_path)
    write(tmp_path, "npy", relations=RELATIONS[0])
    assert "relations have shape (6,)" in refusal(tmp_path)
    broken = ENTITIES.copy()
    broken[2, 0] = np.inf
    write(tmp_path, "npy", entities=broken)
    assert "entity row 2 ('c') holds NaN or infinity" in refusal(tmp_path)
    write(tmp_path, "npy", entities=ENTITIES[:3])
    assert "4 entity labels for 3 rows" in refusal(tmp_path)
    write(tmp_path, "npy")
    (tmp_path / "entities.txt").write_text("a\nb\nb\nd\n")
    assert "'b' occurs twice" in refusal(tmp_path)


def test_damaged_files(tmp_path: Path) -> None:
    write(tmp_path, "npy")
    (tmp_path / "entities.npy").write_bytes((tmp_path / "entities.npy").read_bytes()[:60])
    assert "not an array of numbers" in refusal(tmp_path)
    (tmp_path / "entities.npy").write_bytes(pickle.dumps(ENTITIES))
    assert "not an array of numbers" in refusal(tmp_path)
    np.save(tmp_path / "entities.npy", np.array([{"an": "object"}], dtype=object), allow_pickle=True)
    assert "not an array of numbers" in refusal(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    write(tmp_path, "safetensors")
    (tmp_path / "entities.safetensors").write_bytes(b"x" * 30)
    assert "damaged safetensors data" in refusal(tmp_path)


def test_parquet_misfits(tmp_path: Path) -> None:
    write(tmp_path, "parquet")
    path = tmp_path / "entities.parquet"

    def message(**columns: Any) -> str:
        pq.write_table(pa.table(columns), path)
        return refusal(tmp_path)

    assert "columns name, vector; expected entity and vector" in message(name=["a"], vector=[[1.0] * 6])
    assert "rows without a label or a vector" in message(entity=["a", None], vector=[[1.0] * 6] * 2)
    assert "vectors of different lengths" in message(entity=["a", "b"], vector=[[1.0] * 5, [1.0] * 7])
    assert "column vector is double" in message(entity=["a"], vector=[1.0])
    assert "occurs twice" in message(entity=["a", "a"], vector=[[1.0] * 6] * 2)
    path.write_bytes(b"PAR1 and no more")
    assert "damaged Parquet data" in refusal(tmp_path)


def test_word2vec_misfits(tmp_path: Path) -> None:
    write(tmp_path, "vec")
    path = tmp_path / "entities.vec"
    for text, message in [
        ("", "not word2vec text"),
        ("2 3\na 1 2 x\n", "entities.vec:2: not numbers after 'a'"),
        ("2 3\na 1 2 3\nb 1 2\n", "entities.vec:3: 2 numbers instead of 3"),
        ("3 3\na 1 2 3\nb 1 2 3\n", "2 rows, and its first line says 3"),
    ]:
        path.write_text(text)
        assert message in refusal(tmp_path)
    path.write_bytes(b"\xff\xfe\x00")
    assert "not word2vec text" in refusal(tmp_path)
    path.write_text("1 6\nNew York 1 2 3 4 5 6\n")
    assert read(tmp_path, ImportOptions()).entities.labels.to_pylist() == ["New York"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.table([["a"], [[0.5]], [[0.5]]], names=["entity", "vector", "vector"]), "each once"),
        (pa.table({"entity": pa.array([b"\xff"]), "vector": [[0.5]]}), "damaged Parquet data"),
    ],
)
def test_parquet_that_cannot_be_meant(table: Any, problem: str, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "entities.parquet")
    with pytest.raises(FileError, match=problem):
        arrays._parquet(tmp_path / "entities.parquet", "entity")
