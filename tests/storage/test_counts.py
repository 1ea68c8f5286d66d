"""What was counted on a version is kept with it; whatever becomes of the file, the numbers are the same."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from ookg.evidence.links import LinkRules, Links
from ookg.extension.answers import Prediction
from ookg.model.model import Model
from ookg.newcomers.prior import Residuals
from ookg.storage import counts
from ookg.storage.checkpoint import check_model, load_checkpoint, save_checkpoint
from ookg.storage.data import StoredGraph

GIVEN = [("x", "r0", "e1"), ("e2", "r1", "x"), ("x", "r2", "e7")]


@pytest.fixture
def stored(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model directory, small as it is, whose counts are kept."""
    monkeypatch.setattr(counts, "KEPT_FROM", 1)
    save_checkpoint(model.checkpoint, tmp_path / "model")
    return tmp_path / "model"


def answers(model: Model) -> Prediction:
    return model.extend(GIVEN).predict(head="x", relation="r3")


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("data-*/counted-*"))


def no_more_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it is counted again")

    monkeypatch.setattr(Residuals, "of", refuse)
    monkeypatch.setattr(LinkRules, "count", refuse)
    monkeypatch.setattr(StoredGraph, "triples", property(refuse))


def test_counts_are_kept_and_give_the_same_answers(stored: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(model)
    assert answers(ookg.load(stored)) == expected
    assert [path.stem for path in files(stored)] == ["counted-links", "counted-loops", "counted-residuals"]
    again = ookg.load(stored)
    no_more_counting(monkeypatch)
    assert answers(again) == expected
    assert torch.equal(again.residuals.precision, model.residuals.precision)
    links, own = again.known_evidence["links"], model.known_evidence["links"]
    assert isinstance(links, Links)
    assert isinstance(own, Links)
    np.testing.assert_array_equal(links.rules.together.toarray(), own.rules.together.toarray())
    np.testing.assert_array_equal(links.sample, own.sample)


def test_small_models_keep_nothing(model: Model, tmp_path: Path) -> None:
    save_checkpoint(model.checkpoint, tmp_path)
    answers(ookg.load(tmp_path))
    assert files(tmp_path) == []


@pytest.mark.parametrize("damage", ["cut", "changed", "no file of arrays", "another format"])
def test_a_damaged_file_is_counted_anew(
    stored: Path, model: Model, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(ookg.load(stored))
    for path in files(stored):
        content = path.read_bytes()
        path.unlink()
        match damage:
            case "cut":
                path.write_bytes(content[:-1])
            case "changed":
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            case "no file of arrays":
                path.write_bytes(b"nothing")
            case _:
                path.write_bytes(content.replace(b"ookg counts 1", b"ookg counts 0"))
    bad = [file for file in check_model(stored) if file.problem is not None]
    assert len(bad) == 3
    assert all("remove it, and it is counted anew" in str(file.problem) for file in bad)
    assert answers(ookg.load(stored)) == expected
    assert all(file.problem is None for file in check_model(stored))
    no_more_counting(monkeypatch)
    assert answers(ookg.load(stored)) == expected


def test_a_folder_that_cannot_be_written_is_no_problem(
    stored: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ookg.storage.data.write_arrays", full)
    assert answers(ookg.load(stored)) == answers(model)
    assert files(stored) == []


def test_counts_go_with_the_version_that_they_are_of(stored: Path, model: Model) -> None:
    answers(ookg.load(stored))
    [data] = {path.parent for path in files(stored)}
    (data / ".counted-links.safetensors.0123abcd.tmp").mkdir()  # what a killed writer has left
    reader = ookg.load(stored)
    save_checkpoint(model.checkpoint, stored)
    del reader
    save_checkpoint(model.checkpoint, stored)
    assert not data.exists()
    assert len(list(stored.glob("data-*"))) == 1


def test_whoever_reads_a_version_that_is_gone_does_not_bring_its_folder_back(stored: Path, model: Model) -> None:
    reader = ookg.load(stored)
    [data] = stored.glob("data-*")
    shutil.rmtree(data)
    assert answers(reader) == answers(model)
    assert not data.exists()


def test_other_vectors_and_another_graph_have_other_counts(stored: Path) -> None:
    checkpoint = load_checkpoint(stored)
    assert checkpoint.counts is not None
    assert replace(checkpoint, embedding=replace(checkpoint.embedding)).counts is None
    loaded = Model(checkpoint)
    assert loaded.without(checkpoint.triples[:3]).checkpoint.counts is None


def test_an_update_counts_ahead(tmp_path: Path, graph: ookg.Triples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "KEPT_FROM", 1)
    ookg.train(graph, ookg.TrainingSettings(dim=8, steps=20, batch=16, negatives=4), out=tmp_path, device="cpu")
    living = ookg.open(tmp_path)
    living.add(GIVEN)
    living.update(ookg.UpdateSettings(steps=5))
    [data] = {path.parent for path in files(tmp_path)}
    no_more_counting(monkeypatch)
    assert ookg.load(tmp_path).checkpoint.counts is not None
    ookg.load(tmp_path).count_ahead()
    assert (data / "counted-residuals.safetensors").is_file()
