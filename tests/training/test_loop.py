from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import save_file

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError, ModelFileError, OokgError, TrainingInterrupted
from ookg.graph.triples import Triples, write_triples
from ookg.model.model import Model
from ookg.model.train import Storage
from ookg.simulation.choice import NewcomerChoice
from ookg.storage.checkpoint import STATE_FILE, holds_model, save_newcomer_choice
from ookg.system.files import held
from ookg.system.progress import Reporter
from ookg.training.loop import TrainedTables, TrainingRun, choose_device
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Room, Tables
from ookg.training.trainer import Trainer


def trainer(triples: Triples, settings: TrainingSettings) -> Trainer:
    return Trainer(torch.from_numpy(triples.ids), len(triples.entities), len(triples.relations), settings)


def same(first: Model, second: Model) -> bool:
    return torch.equal(first.entity_vectors, second.entity_vectors) and torch.equal(
        first.relation_vectors, second.relation_vectors
    )


@pytest.mark.parametrize("name", ["transe", "rotate"])
def test_training_lowers_the_loss_and_seeds_repeat(graph: Triples, name: str) -> None:
    settings = SMALL.changed({"model": name, "steps": 200})
    first = trainer(graph, settings)
    losses = [float(first.step()) for _ in range(200)]
    assert sum(losses[-20:]) < 0.7 * sum(losses[:20])
    assert same(ookg.train(graph, settings, device="cpu"), ookg.train(graph, settings, device="cpu"))
    other = ookg.train(graph, settings.changed({"seed": 1}), device="cpu")
    assert not same(ookg.train(graph, settings, device="cpu"), other)


def test_untrained_rows_are_drawn_from_and_no_part_of_the_model(graph: Triples) -> None:
    sizes = len(graph.entities), len(graph.relations)
    plain, padded = (Trainer(torch.from_numpy(graph.ids), *sizes, SMALL, untrained_rows=rows) for rows in (0, 7))
    assert padded.sampler.num_entities == plain.sampler.num_entities + 7
    assert len(plain.entity_vectors) == len(padded.entity_vectors) == len(graph.entities)
    assert (len(plain.untrained_vectors), len(padded.untrained_vectors)) == (0, 7)
    for _ in range(3):
        plain.step()
        padded.step()
    assert not torch.equal(plain.entity_vectors, padded.entity_vectors)


@pytest.mark.parametrize("stop_after", [1, 14, 15, 16, 29])  # the rate drops at step 15
@pytest.mark.parametrize("name", ["transe", "rotate"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(graph: Triples, tmp_path: Path, stop_after: int, name: str) -> None:
    settings = SMALL.changed({"model": name, "l2": 1e-4, "validate_every": 5, "patience": 50})
    valid = graph.select(torch.arange(0, len(graph), 3).numpy())
    whole = ookg.train(graph, settings, valid=valid, device="cpu")

    def interrupt(model: Trainer) -> None:
        step = model.step

        def stopping() -> torch.Tensor:
            loss = step()
            if model.step_number == stop_after:
                os.kill(os.getpid(), signal.SIGINT)
            return loss

        model.step = stopping  # type: ignore[method-assign]

    original = TrainingRun.run

    def run_and_stop(self: TrainingRun, report: Reporter | None = None) -> TrainedTables:
        interrupt(self.trainer)
        return original(self, report)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingRun, "run", run_and_stop)
        with pytest.raises(TrainingInterrupted, match=f"stopped after step {stop_after} of 30"):
            ookg.train(graph, settings, valid=valid, out=tmp_path, device="cpu")
    assert (tmp_path / STATE_FILE).exists()
    with pytest.raises(ModelFileError, match="training is not finished"):
        ookg.load(str(tmp_path))
    with pytest.raises(InputError, match="holds an unfinished run"):
        ookg.train(graph, settings, valid=valid, out=tmp_path, device="cpu")
    with pytest.raises(InputError, match="was started with dim 8, not 9"):
        ookg.train(graph, settings.changed({"dim": 9}), valid=valid, out=tmp_path, device="cpu", resume=True)
    with pytest.raises(InputError, match="was started with training triples"):
        ookg.train(random_triples(5), settings, out=tmp_path, device="cpu", resume=True)
    resumed = ookg.train(graph, settings, valid=valid, out=tmp_path, device="cpu", resume=True)
    assert same(whole, resumed)
    assert resumed.checkpoint.provenance["validations"] == whole.checkpoint.provenance["validations"]
    assert not (tmp_path / STATE_FILE).exists()
    assert same(whole, ookg.load(str(tmp_path)))


def test_resuming_what_is_finished_or_was_never_started(graph: Triples, tmp_path: Path) -> None:
    started = ookg.train(graph, SMALL, out=tmp_path, device="cpu", resume=True)
    assert same(started, ookg.train(graph, SMALL, out=tmp_path, device="cpu", resume=True))
    with pytest.raises(InputError, match="other settings or triples"):
        ookg.train(graph, SMALL.changed({"seed": 3}), out=tmp_path, device="cpu", resume=True)
    with pytest.raises(InputError, match="holds a model"):
        ookg.train(graph, SMALL, out=tmp_path, device="cpu")
    replaced = ookg.train(graph, SMALL.changed({"seed": 3}), out=tmp_path, device="cpu", overwrite=True)
    assert same(replaced, ookg.load(str(tmp_path)))


def test_resuming_or_else_replacing_an_unfinished_run(
    graph: Triples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, whole = trainer(graph, SMALL), ookg.train(graph, SMALL, device="cpu")
    begun.step()
    this = whole.checkpoint.settings | {"training triples": whole.checkpoint.provenance["training_triples"]}
    both: dict[str, Any] = {"out": tmp_path, "device": "cpu", "resume": True, "overwrite": True}
    for fingerprint, damage, said in (
        (this, None, ""),
        (this | {"dim": 9}, None, "was started with dim 9, not 8; it is replaced"),
        (this, b"nonsense", "; it is replaced"),
    ):
        run = TrainingRun(begun, tmp_path / STATE_FILE, fingerprint=fingerprint, earlier_seconds=1000.0)
        run.save()
        if damage is not None:
            (tmp_path / STATE_FILE).write_bytes(damage)
        found = ookg.train(graph, SMALL, **both)
        assert same(found, whole)
        assert (found.checkpoint.provenance["seconds"] > 1000) == (not said)  # it went on, or began anew
        assert capsys.readouterr().err.strip().endswith(said)
        assert not (tmp_path / STATE_FILE).exists()
    # A finished run is taken if it is this one, and replaced if it is another.
    created = found.checkpoint.provenance["seconds"]
    assert ookg.train(graph, SMALL, **both).checkpoint.provenance["seconds"] == created
    assert len(ookg.train(graph, SMALL.changed({"dim": 9}), **both).entity_vectors[0]) == 9
    (tmp_path / "model.json").write_text("nonsense")
    assert same(ookg.train(graph, SMALL, **both), whole)


def test_a_state_that_cannot_be_read_is_not_replaced(
    graph: Triples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / STATE_FILE).write_bytes(b"good")

    def unreadable(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr("ookg.training.loop.safe_open", unreadable)
    with pytest.raises(OokgError, match=r"cannot be read \(not yours\); check its permissions"):
        ookg.train(graph, SMALL, out=tmp_path, device="cpu", resume=True, overwrite=True)
    assert (tmp_path / STATE_FILE).read_bytes() == b"good"


def test_one_training_at_a_time_in_a_directory(graph: Triples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ookg.train(graph, SMALL, device="cpu")
    with held(tmp_path):
        with pytest.raises(
            InputError, match="another training or tool is writing here; wait for it, or choose another"
        ):
            ookg.train(graph, SMALL, out=tmp_path, device="cpu", overwrite=True)
        with pytest.raises(InputError, match="another training or tool is writing here"):
            model.save(tmp_path)
        assert not holds_model(tmp_path)
    model.save(tmp_path)
    with held(tmp_path), pytest.raises(InputError, match="another training or tool is writing here"):
        save_newcomer_choice(NewcomerChoice().to_dict(), tmp_path, model.checkpoint)
    save_newcomer_choice(NewcomerChoice(power=2.0).to_dict(), tmp_path, model.checkpoint)
    # What came into being before the directory was held is not replaced, and a finished run is taken.
    with pytest.raises(InputError, match="holds a model"), Storage(tmp_path).held():
        pass

    def unsupported(self: FileLock) -> None:
        raise NotImplementedError

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    with Storage(tmp_path, overwrite=True).held():  # a file system without locks is no obstacle
        assert holds_model(tmp_path)


def test_a_run_that_another_process_finished_meanwhile_is_taken(
    graph: Triples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, model = Storage.held, ookg.train(graph, SMALL, device="cpu")

    @contextmanager
    def late(self: Storage) -> Iterator[None]:
        model.save(tmp_path)
        with real(self):
            yield

    monkeypatch.setattr(Storage, "held", late)
    with pytest.raises(InputError, match="other settings or triples"):
        ookg.train(graph, SMALL.changed({"dim": 9}), out=tmp_path, device="cpu", resume=True)
    assert same(ookg.train(graph, SMALL, out=tmp_path, device="cpu", resume=True), model)


def test_a_damaged_state_is_refused(graph: Triples, tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_bytes(b"nonsense")
    with pytest.raises(ModelFileError, match="damaged training state"):
        ookg.train(graph, SMALL, out=tmp_path, device="cpu", resume=True)
    assert (tmp_path / STATE_FILE).read_bytes() == b"nonsense"


@pytest.mark.parametrize("header", [{"fingerprint": {}}, {"fingerprint": {}, "validations": 5, "seconds": 1}, [1]])
def test_a_state_without_what_belongs_to_it_is_refused(header: Any, graph: Triples, tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / STATE_FILE, {"ookg": json.dumps(header)})
    with pytest.raises(ModelFileError, match=r"damaged training state .*; remove it, or train with `overwrite=True`"):
        ookg.train(graph, SMALL, out=tmp_path, device="cpu", resume=True)


def test_tables_beyond_memory_are_refused() -> None:
    with pytest.raises(InputError, match=r"no memory for tables of 1,000,000,000 × 1,000,000 numbers; lower `dim`"):
        Tables.initial(10**9, 1, TrainingSettings(dim=1_000_000), torch.device("cpu"))


def test_early_stopping_keeps_the_best(graph: Triples) -> None:
    settings = SMALL.changed({"steps": 100, "validate_every": 1, "patience": 3})
    figures = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.9])
    seen = []

    def validate(entities: torch.Tensor, relations: torch.Tensor) -> float:
        seen.append(entities.clone())
        return next(figures)

    result = TrainingRun(trainer(graph, settings), validate=validate).run()
    assert result.step == 2
    assert [figure for _, figure in result.validations] == [0.1, 0.5, 0.4, 0.3, 0.2]
    assert torch.equal(result.entity_vectors, seen[1])


def test_the_best_in_a_file_is_written_over_by_a_better_one(graph: Triples, tmp_path: Path) -> None:
    settings, figures, places = (
        SMALL.changed({"steps": 3, "validate_every": 1, "patience": 3}),
        iter([0.1, 0.5, 0.4]),
        [],
    )
    ids, sizes = torch.from_numpy(graph.ids), (len(graph.entities), len(graph.relations))
    on_disk = Trainer(ids, *sizes, settings, room=Room("disk", tmp_path))
    run = TrainingRun(on_disk, validate=lambda *_: next(figures))
    copied = on_disk.copied

    def kept(vectors: torch.Tensor, earlier: torch.Tensor | None = None) -> torch.Tensor:
        places.append(copied(vectors, earlier))
        return places[-1]

    on_disk.copied = kept  # type: ignore[method-assign]
    result = run.run()
    assert [place.data_ptr() for place in places] == [places[0].data_ptr()] * 2
    assert result.step == 2
    assert result.entity_vectors.data_ptr() == places[0].data_ptr()


@pytest.mark.parametrize("name", ["cpu:", "meta", "gpu", "cuda:", "cuda:x", "cuda:01", "cuda:99999999999", ""])
def test_devices_that_there_are_none_of(name: str) -> None:
    with pytest.raises(InputError, match="choose auto, cpu or cuda"):
        choose_device(name)


def test_devices_by_name_or_as_they_are() -> None:
    assert choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(InputError, match="PyTorch sees no such GPU"):
        choose_device("cuda:99")


def test_nothing_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no triples to train on"):
        ookg.train([], SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        ookg.train([("a", "r", "b")], SMALL, out=tmp_path / "file")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_resumes_to_the_same_model(graph: Triples, tmp_path: Path, number: int) -> None:
    write_triples(tmp_path / "graph.tsv", graph)
    options = ["--dim", "8", "--steps", "1500", "--batch", "16", "--negatives", "4", "--device", "cpu"]

    def command(out: str, *more: str) -> list[str]:
        script = (
            "import ookg.training.loop as l; l.SAVE_SECONDS = 0.05; import ookg.cli, sys; sys.exit(ookg.cli.main())"
        )
        return [sys.executable, "-c", script, "train", "graph.tsv", "--out", out, *options, *more]

    process = subprocess.Popen(command("killed"), cwd=tmp_path, stderr=subprocess.PIPE)
    state = tmp_path / "killed" / STATE_FILE
    deadline = time.monotonic() + 60
    while not state.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.fail("the run ended before it could be killed")
    assert process.returncode == (130 if number == signal.SIGTERM else -number)
    subprocess.run(command("killed", "--resume"), cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(command("whole"), cwd=tmp_path, check=True, capture_output=True)
    assert same(ookg.load(str(tmp_path / "killed")), ookg.load(str(tmp_path / "whole")))
    assert json.loads((tmp_path / "killed" / "model.json").read_text())["provenance"]["step"] == 1500
