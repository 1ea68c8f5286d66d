"""`ookg import` end to end: from another tool's files to answers about a new entity, and each kind of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from ookg.cli import main
from ookg.model.model import Model

Run = Callable[..., str]
N, R, D, GAMMA = 12, 3, 4, 6.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A RotatE run in KnowledgeGraphEmbedding's layout whose training triples hold exactly."""
    rng = np.random.default_rng(0)
    span = (GAMMA + 2) / D
    relations = rng.uniform(-span, span, (R, D)).astype(np.float32)
    points = rng.normal(size=(N // 2, D)) + 1j * rng.normal(size=(N // 2, D))
    turned = points * np.exp(1j * relations[0] * np.pi / span)  # entity n + 6 is entity n turned by r0
    complex_entities = np.concatenate([points, turned])
    entities = np.concatenate([complex_entities.real, complex_entities.imag], axis=1).astype(np.float32)
    (tmp_path / "run").mkdir()
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "run" / "entity_embedding.npy", entities)
    np.save(tmp_path / "run" / "relation_embedding.npy", relations)
    (tmp_path / "run" / "config.json").write_text(json.dumps({"model": "RotatE", "gamma": GAMMA, "hidden_dim": D}))
    (tmp_path / "data" / "entities.dict").write_text("".join(f"{n}\te{n}\n" for n in range(N)))
    (tmp_path / "data" / "relations.dict").write_text("".join(f"{n}\tr{n}\n" for n in range(R)))
    (tmp_path / "data" / "train.txt").write_text("".join(f"e{n}\tr0\te{n + 6}\n" for n in range(6)))
    (tmp_path / "new.tsv").write_text("x\tr0\te7\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        assert captured.out == ""
        if code:
            assert len(captured.err.splitlines()) == 1
        return captured.err

    return call


IMPORT = ["import", "kge", "run", "--vocabulary", "data", "--out", "model"]


def test_from_their_model_to_a_new_entity(run: Run, folder: Path) -> None:
    text = run(*IMPORT, "--triples", "data/train.txt")
    for part in (
        "KnowledgeGraphEmbedding: RotatE: sum of moduli",
        "12 entities, 3 relations; scores agree",
        "6 training triples counted",
        "100% of them score above",
        "model: written",
    ):
        assert part in text
    assert "note" not in text
    run("embed", "model", "new.tsv", "--out", "new.parquet", "--weights", "degree")
    vector = pq.read_table(folder / "new.parquet")["vector"].to_pylist()[0]
    np.testing.assert_allclose(vector, Model.load(folder / "model").entity_vectors[1], atol=1e-5)
    assert str(folder) not in (folder / "model" / "model.json").read_text()


def test_without_triples_uniform_weights_work(run: Run, folder: Path) -> None:
    assert "no training triples: uniform weights work" in run(*IMPORT)
    run("embed", "model", "new.tsv", "--out", "new.parquet")
    for weights in ("degree", "precision"):
        assert "training triples" in run("embed", "model", "new.tsv", "--out", "n.csv", "--weights", weights, code=2)


def test_triples_that_the_model_does_not_fit_are_told(run: Run, folder: Path) -> None:
    (folder / "data" / "train.txt").write_text("".join(f"e{n}\tr1\te{(n + 3) % 6}\n" for n in range(6)) + "a\tr0\te1\n")
    names = [f"e{n}" for n in reversed(range(N))]
    (folder / "shuffled.txt").write_text("\n".join(names))
    text = run(*IMPORT, "--entities", "shuffled.txt", "--triples", "data/train.txt")
    assert "6 training triples counted, 1 with unknown labels not" in text
    assert "hardly better than chance; check the labels' order" in text


def test_a_model_is_replaced_only_on_request(run: Run, folder: Path) -> None:
    run(*IMPORT)
    before = (folder / "model" / "model.json").read_bytes()
    message = "ookg: model: holds a model; choose another directory, or replace it with --overwrite\n"
    assert run(*IMPORT, code=2) == message
    np.save(folder / "run" / "entity_embedding.npy", np.full((N, 2 * D), np.nan, np.float32))
    line = run(*IMPORT, "--overwrite", code=2)
    assert line.startswith("ookg: run (KnowledgeGraphEmbedding): entity row 0 ('")
    assert "holds NaN" in line
    assert (folder / "model" / "model.json").read_bytes() == before
    np.save(folder / "run" / "entity_embedding.npy", np.ones((N, 2 * D), np.float32))
    run(*IMPORT, "--overwrite")
    assert torch.equal(Model.load(folder / "model").entity_vectors, torch.ones(N, 2 * D))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "keg", "run", "--out", "m"], "unknown format 'keg'; did you mean 'kge'"),
        (["import", "kge", "nowhere", "--out", "m"], "nowhere: no such file or folder; check the path"),
        (["import", "kge", "run", "--out", "m"], "run: no entity labels here (entities.dict)"),
        (
            ["import", "kge", "data", "--out", "m"],
            "data: no config.json, checkpoint or entity_embedding.npy here; give",
        ),
        (["import", "kge", "new.tsv", "--out", "m"], "new.tsv: no config.json, checkpoint or entity_embedding.npy"),
        (["import", "pyg", "run", "--out", "m"], "run: is a folder; name the file in it"),
        (["import", "kge", "run", "--out", "m", "--entities", "data/relations.dict"], "no label for entity id 3"),
        (["import", "kge", "run", "--out", "m", "--entities", "none.txt"], "none.txt: no such file"),
        (["import", "kge", "run", "--vocabulary", "data", "--out", "m", "--norm", "2"], "its norm is 1, not 2"),
        (["import", "kge", "run", "--vocabulary", "data", "--out", "m", "--model", "transe"], "its model is rotate"),
        (["import", "kge", "run", "--vocabulary", "data", "--out", "m", "--triples", "none.tsv"], "none.tsv: no such"),
        (["import", "kge", "run", "--vocabulary", "data", "--out", "m", "--triples", "strange.tsv"], "none of its"),
        (["import", "kge", "run", "--vocabulary", "data", "--out", "new.tsv"], "new.tsv: is a file; name a directory"),
        (["import", "dgl-ke", "run", "--out", "m"], "0 files named <dataset>_<model>_entity.npy"),
        (["import", "libkge", "run", "--out", "m"], "no plain.pt or checkpoint_best.pt here"),
        (["import", "openke", "new.tsv", "--out", "m"], "holds more than tensors, or is damaged"),
        (["import", "biggraph", "run", "--out", "m"], "comparator cos is a cosine"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(run: Run, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "strange.tsv").write_text("a\tb\tc\n")
    text = run(*arguments, code=2)
    assert text.startswith("ookg: ")
    assert message in text
    assert not (folder / "m").exists()
