"""What a training will take, and tables in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ookg.errors import InputError
from ookg.training import plan as planning
from ookg.training.loop import TrainingRun
from ookg.training.plan import Wanted, plan, room_for, steps_per_second
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Place, Room, Tables
from ookg.training.trainer import Trainer

TRIPLES = torch.tensor([[0, 0, 1], [1, 0, 2], [2, 1, 3], [3, 1, 4], [4, 0, 0], [5, 2, 6]])
SIZES = (60, 3)
SETTINGS = TrainingSettings(dim=4, steps=8, batch=3, negatives=4, margin=3.0, lr=0.01, lr_drops=(0.5,))
CPU = torch.device("cpu")
GIGABYTE = 10**9


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    def free(size: int | None) -> None:
        monkeypatch.setattr(planning, "free_memory", lambda device: size)

    return free


def test_memory_decides_where_tables_lie(memory: Callable[[int | None], None]) -> None:
    # 1 M × 100 numbers of 4 bytes three times are 1.2 GB; with triples and relations 1.3.
    sizes, settings = (1_000_000, 10, 500_000), TrainingSettings(dim=100)
    memory(2 * GIGABYTE)
    there = plan(sizes, settings, CPU)
    assert (there.optimizer, there.tables, there.table_bytes) == ("sparse-adam", "device", 1_200_000_000)
    assert 1_200_000_000 < there.memory_bytes < 1_400_000_000
    memory(GIGABYTE)
    there = plan(sizes, settings, CPU)
    assert (there.tables, there.free_bytes) == ("disk", GIGABYTE)
    assert there.memory_bytes < 200_000_000
    # Adagrad keeps one number for each row.
    there = plan(sizes, settings.changed({"optimizer": "adagrad"}), CPU)
    assert (there.tables, there.table_bytes) == ("device", 404_000_000)
    assert plan(sizes, settings, CPU, "device").tables == "device"
    memory(None)
    assert plan(sizes, settings, CPU).tables == "device"
    assert plan(sizes, settings, CPU, "disk").tables == "disk"
    with pytest.raises(InputError, match="tables 'tape'; choose auto, device, host, disk"):
        plan(sizes, settings, CPU, "tape")  # type: ignore[arg-type]


def test_a_plan_in_words_and_values(memory: Callable[[int | None], None]) -> None:
    memory(2 * GIGABYTE)
    there = replace(plan((1_000_000, 10, 500_000), TrainingSettings(dim=100, steps=20_000), CPU), steps_per_second=50.0)
    first, second = there.lines()
    assert first == (
        "plan: transe by sparse-adam; tables of 1.2 GB in memory; 1.3 GB of memory are needed, 2.0 GB are free"
    )
    assert second == "plan: 50.0 steps of 1,024 triples per second, about 7 minutes for 20,000 steps"
    assert there.to_dict()["seconds"] == 400.0
    assert there.to_dict()["tables"] == "device"


def test_the_copy_of_the_best_vectors_counts_where_it_is_kept(memory: Callable[[int | None], None]) -> None:
    # 1 M × 100 numbers of 4 bytes are 0.4 GB, beside 1.3 GB for the rest.
    sizes, settings, gpu = (1_000_000, 10, 500_000), TrainingSettings(dim=100), torch.device("cuda")
    copy = 4 * 100 * (1_000_000 + 10)
    cases: list[tuple[torch.device, float, Wanted, int]] = [
        (CPU, 3, "device", copy),
        (CPU, 3, "disk", 0),
        (gpu, 4, "device", copy),
        (gpu, 1.5, "device", 0),  # then it goes to the machine's memory
        (gpu, 4, "host", 0),
    ]
    for device, free, wanted, counted in cases:
        memory(int(free * GIGABYTE))
        with_copy, without = (plan(sizes, settings, device, wanted, keeps_best=keeps) for keeps in (True, False))
        assert with_copy.memory_bytes - without.memory_bytes == counted, (device, free, wanted)
    # What fits alone, and not with the copy beside it, goes into a file.
    memory(int(1.8 * GIGABYTE))
    assert plan(sizes, settings, CPU).tables == "device"
    assert plan(sizes, settings, CPU, keeps_best=True).tables == "disk"


def test_a_measurement_leaves_nothing_behind() -> None:
    for optimizer in ("adam", "sparse-adam", "adagrad"):
        settings = SETTINGS.changed({"optimizer": optimizer})
        measured, other = (Trainer(TRIPLES, *SIZES, settings) for _ in range(2))
        assert (steps_per_second(measured) or 0) > 0
        assert measured.step_number == measured.tables.updates == 0
        for name, table in other.tables.tensors().items():
            assert torch.equal(measured.tables.tensors()[name], table), name


def test_what_diverges_at_once_has_no_speed() -> None:
    trainer = Trainer(TRIPLES, *SIZES, SETTINGS.changed({"model": "transh", "lr": 1e300}))
    assert steps_per_second(trainer) is None
    assert trainer.step_number == 0


@pytest.mark.parametrize("optimizer", ["adam", "sparse-adam", "adagrad"])
def test_tables_in_a_file_have_the_same_bits(optimizer: str, tmp_path: Path) -> None:
    settings = SETTINGS.changed({"optimizer": optimizer})
    runs = [
        TrainingRun(Trainer(TRIPLES, *SIZES, settings, room=room), tmp_path / f"state-{room.place}")
        for room in (Room(), Room("disk", tmp_path), Room("host"))
    ]
    assert not list(tmp_path.iterdir())  # the file has no name
    ends = [run.run() for run in runs]
    for end in ends[1:]:
        assert torch.equal(end.entity_vectors, ends[0].entity_vectors)
        assert torch.equal(end.relation_vectors, ends[0].relation_vectors)
    for run in runs:
        run.save()
    states = [load_file(tmp_path / f"state-{place}") for place in ("disk", "device")]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    again = TrainingRun(Trainer(TRIPLES, *SIZES, settings, room=Room("disk", tmp_path)), tmp_path / "state-device")
    assert again.resume()
    assert torch.equal(again.trainer.entity_vectors, ends[0].entity_vectors)


@pytest.mark.parametrize("place", ["device", "disk"])
def test_the_best_vectors_are_kept_where_the_tables_lie(place: Place, tmp_path: Path) -> None:
    settings = SETTINGS.changed({"validate_every": 2, "patience": 2})
    figures = iter([0.1, 0.3, 0.2, 0.2])
    seen: list[torch.Tensor] = []

    def validate(entities: torch.Tensor, relations: torch.Tensor) -> float:
        del relations
        seen.append(entities.clone())
        return next(figures)

    trainer = Trainer(TRIPLES, *SIZES, settings, room=Room(place, tmp_path))
    end = TrainingRun(trainer, validate=validate).run()
    assert (end.step, len(seen)) == (4, 4)
    assert torch.equal(end.entity_vectors, seen[1])
    assert not torch.equal(trainer.entity_vectors, seen[1])


def test_a_copy_for_which_a_gpu_has_no_room_is_in_the_machines_memory() -> None:
    class OnFullDevice(torch.Tensor):
        def clone(self, *, memory_format: torch.memory_format | None = None) -> torch.Tensor:
            raise torch.cuda.OutOfMemoryError

    vectors = torch.rand(3, 2)
    there = Trainer(TRIPLES, *SIZES, SETTINGS).copied(vectors.as_subclass(OnFullDevice))
    assert torch.equal(there.as_subclass(torch.Tensor), vectors)


def test_no_room_for_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(InputError, match=r"no file for tables of .* GB \(No space left on device\); make room"):
        Tables.initial(*SIZES, SETTINGS, "cpu", Room("disk", tmp_path))


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    there = plan((60, 3, 6), SETTINGS, CPU, "disk")
    assert room_for(there, tmp_path / "model" / "companion") == Room("disk", tmp_path)
    assert room_for(there, None) == Room("disk", None)


def test_initial_values_do_not_depend_on_how_many_are_drawn_at_a_time() -> None:
    whole, parts = torch.empty(50, 7), torch.empty(50, 7)
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    whole.uniform_(-1, 1, generator=generators[0])
    for rows in torch.split(parts, 3):
        rows.uniform_(-1, 1, generator=generators[1])
    assert torch.equal(whole, parts)
