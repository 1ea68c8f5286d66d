"""What commands write: with which permissions, whether it is still what was written, and what is kept when it fails."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from ookg.cli import main
from ookg.errors import ModelNotStored
from ookg.graph.triples import read_triples
from ookg.storage import checkpoint, data
from ookg.storage.checkpoint import STATE_FILE, holds_model
from ookg.storage.data import FILES
from ookg.system.files import save_tensors
from ookg.training import loop
from ookg.training.loop import TrainingRun
from ookg.training.trainer import Trainer

Run = Callable[..., str]
TRAINING = ["--dim", "8", "--steps", "20", "--batch", "32", "--negatives", "4", "--norm", "2", "--device", "cpu"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in a folder with a graph of steps on a grid; returns its standard output, or its last line."""
    monkeypatch.chdir(tmp_path)
    steps = {"right": (1, 0), "up": (0, 1), "far": (3, 0)}
    lines = [
        f"{x},{y}\t{name}\t{x + right},{y + up}\n"
        for x in range(8)
        for y in range(8)
        for name, (right, up) in steps.items()
    ]
    (tmp_path / "graph.tsv").write_text("".join(lines))
    (tmp_path / "new.tsv").write_text("new\tright\t5,5\n")

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        return captured.out if code == 0 or captured.out else captured.err.splitlines()[-1]

    return call


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_the_umask_alone_decides_who_reads_what_is_written(run: Run, tmp_path: Path, umask: int) -> None:
    given = set(tmp_path.iterdir())
    run("train", "graph.tsv", "--out", "model", *TRAINING)
    for form in ("parquet", "npy", "word2vec", "safetensors", "kge", "pykeen"):
        model = "model"
        if form == "kge":
            run("train", "graph.tsv", "--out", "norm1", *TRAINING, "--norm", "1")
            model = "norm1"
        run("export", model, "--out", form, "--format", form)
        run("export", model, "--out", form, "--format", form, "--overwrite")
    run("export", "model", "--entities", "e.parquet", "--relations", "r.parquet")
    run("import", "arrays", "npy", "--out", "imported", "--triples", "graph.tsv")
    run("embed", "model", "new.tsv", "--out", "new.parquet")
    run("datasets", "split", "graph.tsv", "--out", "split")
    run("tune", "model", "--save", "--sample", "10", "--trials", "1", "--steps", "10", "--device", "cpu")
    triples = read_triples("graph.tsv")
    settings = ookg.TrainingSettings(dim=8, steps=5, batch=8, negatives=2)
    trainer = Trainer(torch.from_numpy(triples.ids), len(triples.entities), len(triples.relations), settings)
    TrainingRun(trainer, tmp_path / "unfinished" / STATE_FILE).save()
    written = [path for path in tmp_path.rglob("*") if path not in given]
    assert len([path for path in written if path.name == "vectors.safetensors"]) == 4
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in written}
    expected = {name: (0o777 if (tmp_path / name).is_dir() else 0o666) & ~umask for name in modes}
    assert modes == expected


def test_check_says_of_every_file_whether_it_is_what_was_written(run: Run, tmp_path: Path) -> None:
    run("train", "graph.tsv", "--out", "model", *TRAINING)
    shown = run("check", "model")
    assert [line.split()[-1] for line in shown.splitlines()] == ["state", *["ok"] * 7]
    found = json.loads(run("check", "model", "--json"))
    assert found["ok"]
    assert {Path(file["name"]).name for file in found["files"]} == {"model.json", *FILES}
    vectors = next((tmp_path / "model").glob("data-*")) / "vectors.safetensors"
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    shown = run("check", "model", code=2)
    [line] = [line for line in shown.splitlines() if not re.search("(ok|state) *$", line)]
    assert re.match(r"data-\w+/vectors.safetensors +\S+ +damaged model file \(its content is not what was writ", line)
    found = json.loads(run("check", "model", "--json", code=2))
    assert not found["ok"]
    assert [file["name"] for file in found["files"] if file["problem"]] == [f"{vectors.parent.name}/{vectors.name}"]
    # What changes a model looks at all of it first.
    for command in (["tune"], ["audit", "--retrain"]):
        line = run(*command, "model", "--save", "--device", "cpu", code=2)
        assert line.startswith(f"ookg: {vectors.relative_to(tmp_path)}: damaged model file")
    (tmp_path / "model" / "model.json").write_text("{}")
    assert "not the description of an ookg model" in run("check", "model", code=2)
    assert "no model here" in run("check", "nowhere", code=2)


def test_check_of_a_model_without_digests(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train", "graph.tsv", "--out", "model", *TRAINING)
    path = tmp_path / "model" / "model.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in description.items() if not key.startswith("digest")}))
    capsys.readouterr()
    assert main(["check", "model"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("of the right size; no digest is stored") == 7
    assert captured.err.startswith("note: this model was written without digests")


def test_an_import_reads_again_what_it_wrote(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save("entities.npy", np.ones((2, 3), np.float32))
    np.save("relations.npy", np.ones((1, 3), np.float32))
    (tmp_path / "entities.txt").write_text("a\nb\n")
    (tmp_path / "relations.txt").write_text("r\n")
    real = checkpoint.write_description

    def bad_disk(directory: Path, description: dict[str, Any]) -> None:
        vectors = directory / description["data"] / "vectors.safetensors"
        vectors.write_bytes(vectors.read_bytes()[:-1] + b"\xff")
        real(directory, description)

    monkeypatch.setattr(checkpoint, "write_description", bad_disk)
    line = run("import", "arrays", ".", "--out", "model", "--model", "transe", "--norm", "1", code=2)
    assert "vectors.safetensors: damaged model file" in line


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_without_room_is_said_before_the_training(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10, 10, 1500))
    monkeypatch.setattr(Trainer, "step", full_disk)
    line = run("train", "graph.tsv", "--out", "model", *TRAINING, code=2)
    assert re.fullmatch(r"ookg: model: 0\.0 MB are free, and [\d.]+ MB will be written; make room, or choose .*", line)


def test_a_run_whose_model_finds_no_room_is_finished_by_resuming(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("train", "graph.tsv", "--out", "whole", *TRAINING)
    with monkeypatch.context() as patch:
        patch.setattr(data, "save_tensors", full_disk)
        line = run("train", "graph.tsv", "--out", "model", *TRAINING, code=2)
    kept = "the end of the training is kept: make room, then --resume stores the model"
    assert line == f"ookg: model: cannot be written (No space left on device); {kept}"
    assert not holds_model("model")
    assert not list(Path("model").glob("data-*"))
    monkeypatch.setattr(Trainer, "step", full_disk)  # no step is taken again
    run("train", "graph.tsv", "--out", "model", *TRAINING, "--resume")
    assert torch.equal(ookg.load("model").entity_vectors, ookg.load("whole").entity_vectors)
    assert not (Path("model") / STATE_FILE).exists()


def test_a_model_that_finds_no_room_at_all_is_kept_elsewhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("train", "graph.tsv", "--out", "whole", *TRAINING)
    expected, real = ookg.load("whole").entity_vectors, save_tensors

    def full_here(tensors: Any, path: Path, *more: Any) -> None:
        if path.resolve().is_relative_to(tmp_path / "model"):
            full_disk()
        real(tensors, path, *more)

    monkeypatch.setattr(data, "save_tensors", full_here)
    monkeypatch.setattr(loop, "save_tensors", full_here)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    line = run("train", "graph.tsv", "--out", "model", *TRAINING, code=2)
    found = re.search(r"no room for the state of the training either; the model is in (\S+), move it$", line)
    assert found
    assert torch.equal(ookg.load(found[1]).entity_vectors, expected)
    settings = ookg.TrainingSettings(dim=8, steps=20, batch=32, negatives=4, norm=2)
    with pytest.raises(ModelNotStored) as raised:
        ookg.train("graph.tsv", settings, out="model", device="cpu")
    assert torch.equal(raised.value.model.entity_vectors, expected)
    assert not raised.value.is_resumable
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    line = run("train", "graph.tsv", "--out", "model", *TRAINING, code=2)
    assert line.endswith("nor was there room among the temporary files")


def test_a_state_that_cannot_be_written_does_not_stop_the_training(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "save_tensors", full_disk)
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "SAVE_SHARE", 1e9)
    assert main(["train", "graph.tsv", "--out", "model", *TRAINING]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "cannot be written" in line]
    assert len(said) == 1
    assert said[0].endswith("(No space left on device); training goes on without, and tries again later")
    assert holds_model("model")


def test_a_model_names_the_processor_that_trained_it(run: Run) -> None:
    run("train", "graph.tsv", "--out", "model", *TRAINING)
    provenance = ookg.load("model").checkpoint.provenance
    assert provenance["device"] == "cpu"
    assert re.fullmatch(r"[\w.-]+ \([\w, ]*\)", provenance["processor"])
