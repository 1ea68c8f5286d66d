"""What a training on a GPU needs of memory, and where its tables may lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ookg
from conftest import random_triples
from ookg.errors import InputError
from ookg.model.train import Storage, _with_optimizer
from ookg.training import plan as planning
from ookg.training.gpu_memory import host_zeros, step_bytes
from ookg.training.loop import TrainingRun
from ookg.training.plan import plan
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.step import fastest_step
from ookg.training.tables import Room, Tables
from ookg.training.trainer import Trainer

GPU = torch.device("cuda")
GIGABYTE = 10**9


def memory(monkeypatch: pytest.MonkeyPatch, gpu: int, machine: int) -> None:
    monkeypatch.setattr(planning, "free_memory", lambda device: gpu if device.type == "cuda" else machine)


def test_tables_that_do_not_fit_on_a_gpu_lie_in_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1 M × 200 numbers of 4 bytes three times are 2.4 GB.
    sizes, settings = (1_000_000, 10, 500_000), TrainingSettings(optimizer="sparse-adam")
    memory(monkeypatch, 4 * GIGABYTE, 8 * GIGABYTE)
    on_gpu = plan(sizes, settings, GPU)
    assert (on_gpu.optimizer, on_gpu.tables) == ("sparse-adam", "device")
    assert on_gpu.memory_bytes > 2_400_000_000
    memory(monkeypatch, 2 * GIGABYTE, 8 * GIGABYTE)
    on_host = plan(sizes, settings, GPU)
    assert (on_host.tables, on_host.table_bytes) == ("host", 2_400_000_000)
    # Rows of 600 numbers for 1,024 × 66 places, twice: 0.32 GB, beside points, triples and answers.
    assert 320_000_000 < on_host.memory_bytes < 600_000_000
    assert "2.4 GB in the machine's memory" in on_host.lines()[0]
    assert plan(sizes, settings.changed({"optimizer": "adagrad"}), GPU).tables == "device"


def test_moments_in_less_room_where_only_they_fit_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a million rows: 200 numbers of 4 bytes and as many of 2, and one of 4.
    sizes, settings = (1_000_000, 10, 500_000), TrainingSettings()
    memory(monkeypatch, 4 * GIGABYTE, 8 * GIGABYTE)
    assert (plan(sizes, settings, GPU).optimizer, plan(sizes, settings, GPU).spared_bytes) == ("sparse-adam", 0)
    memory(monkeypatch, 2 * GIGABYTE, 8 * GIGABYTE)
    there = plan(sizes, settings, GPU)
    assert (there.optimizer, there.tables, there.table_bytes) == ("compact-adam", "device", 1_204_000_000)
    assert there.lines()[1] == "plan: those of sparse-adam would take 2.4 GB, which the GPU has no memory for"
    assert plan(sizes, settings, GPU, "device").optimizer == "compact-adam"
    # Where they would not fit either, where other memory is asked for, on a CPU and by its name it is sparse-adam.
    assert plan(sizes, settings, GPU, "host").optimizer == "sparse-adam"
    assert plan(sizes, settings, torch.device("cpu")).optimizer == "sparse-adam"
    assert plan(sizes, settings.changed({"optimizer": "sparse-adam"}), GPU).tables == "host"
    memory(monkeypatch, GIGABYTE, 8 * GIGABYTE)
    assert (plan(sizes, settings, GPU).optimizer, plan(sizes, settings, GPU).tables) == ("sparse-adam", "host")
    there = plan(sizes, settings.changed({"optimizer": "compact-adam"}), GPU)
    assert (there.tables, there.spared_bytes) == ("host", 0)


def test_a_run_goes_on_with_the_moments_it_began_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triples = random_triples(0, entities=300, size=400)
    settings = TrainingSettings(dim=50, batch=2, negatives=2, steps=4)
    sizes = len(triples.entities), len(triples.relations), len(triples)
    memory(monkeypatch, GIGABYTE, GIGABYTE)
    small, large = (plan(sizes, settings.changed({"optimizer": name}), GPU) for name in ("compact-adam", "sparse-adam"))
    between = int((small.memory_bytes + large.memory_bytes) / 2 / planning.SHARE)
    memory(monkeypatch, between, GIGABYTE)

    def optimizer(storage: Storage | None) -> str:
        return _with_optimizer(triples, settings, GPU, "auto", storage).optimizer

    assert optimizer(None) == "compact-adam"
    assert optimizer(Storage(tmp_path, resume=True)) == "compact-adam"  # there is nothing to resume
    begun = settings.changed({"optimizer": "sparse-adam"})
    ids = torch.from_numpy(triples.ids)
    run = TrainingRun(Trainer(ids, *sizes[:2], begun), Storage(tmp_path).state_path, fingerprint=begun.to_dict())
    run.save()
    assert optimizer(Storage(tmp_path, resume=True)) == "sparse-adam"
    assert optimizer(Storage(tmp_path, overwrite=True)) == "compact-adam"
    Storage(tmp_path).state_path.write_bytes(b"damaged")
    assert optimizer(Storage(tmp_path, resume=True)) == "compact-adam"
    Storage(tmp_path).state_path.unlink()
    ookg.train(triples, begun, out=tmp_path, device="cpu")
    assert optimizer(Storage(tmp_path, resume=True)) == "sparse-adam"


def test_tables_that_fit_into_no_memory_lie_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    memory(monkeypatch, GIGABYTE, GIGABYTE)
    sizes = 1_000_000, 10, 500_000
    there = plan(sizes, TrainingSettings(), GPU)
    assert (there.optimizer, there.tables, there.table_bytes) == ("sparse-adam", "disk", 2_400_000_000)
    assert 320_000_000 < there.memory_bytes < 600_000_000  # the rows of two steps are on the GPU, too
    assert "tables of 2.4 GB in a file" in there.lines()[0]
    memory(monkeypatch, GIGABYTE, int(2.7 * GIGABYTE))  # the machine needs some for itself
    assert plan(sizes, TrainingSettings(), GPU).tables == "disk"
    assert plan(sizes, TrainingSettings(), GPU, "host").tables == "host"
    memory(monkeypatch, GIGABYTE, GIGABYTE)
    with pytest.raises(InputError, match=r"2\.4 GB do not fit .* 1\.0 GB are free; use `tables=.disk.`"):
        plan(sizes, TrainingSettings(), GPU, "host")
    assert plan((1000, 10, 500), TrainingSettings(), GPU, "disk").tables == "disk"


@pytest.mark.parametrize("shared", [0, 64])
@pytest.mark.parametrize("host", [False, True])
def test_a_step_holds_about_what_is_said(shared: int, host: bool) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: there are no steps on a GPU")
    from ookg.training.gpu_shared_step import SharedTritonStep
    from ookg.training.gpu_step import TritonStep

    settings = TrainingSettings(dim=32, batch=256, negatives=16, negatives_shared=shared, optimizer="sparse-adam")
    triples = torch.stack([torch.arange(300), torch.zeros(300, dtype=torch.int64), torch.arange(300) + 1], dim=1)
    sampler, tables = Sampler(triples, 70_000, 1, settings), Tables.initial(70_000, 1, settings, "cpu")
    tables.place = "host" if host else "device"
    step = (SharedTritonStep if shared else TritonStep)(tables, sampler, settings)
    held: dict[int, int] = {}
    pending: list[object] = [vars(step)]
    not_its_own = {id(thing) for thing in (tables, sampler, settings, step.triples, step.weight, *step.orders)}
    not_its_own |= {id(table) for table in tables.tensors().values()}
    while pending:
        thing = pending.pop()
        if id(thing) in not_its_own:
            continue
        if isinstance(thing, torch.Tensor):
            held[id(thing)] = thing.numel() * thing.element_size()
        elif isinstance(thing, dict):
            pending += thing.values()
        elif isinstance(thing, list | tuple):
            pending += thing
        elif type(thing).__module__.startswith("ookg.training"):
            pending.append(vars(thing))
    said = step_bytes(settings, 4 * 3 * 32, host=host)
    assert sum(held.values()) <= said <= 2.5 * sum(held.values())


def test_memory_that_a_gpu_reaches_is_zero_and_can_be_written() -> None:
    table = host_zeros((1000, 7))
    assert table.shape == (1000, 7)
    assert table.dtype == torch.float32
    assert not table.any()
    table[999] = 2.0
    assert table.sum() == 14
    small = host_zeros((1000, 7), torch.bfloat16)
    assert (small.dtype, small.shape, small.nbytes) == (torch.bfloat16, (1000, 7), 14_000)


def test_dense_adam_and_models_without_kernels_keep_their_tables_on_the_device() -> None:
    pytest.importorskip("triton", reason="Triton is not installed: there are no steps on a GPU")
    from ookg.training.gpu_step import TritonStep

    settings = TrainingSettings(dim=4, batch=2, negatives=2, optimizer="adam")
    sampler = Sampler(torch.tensor([[0, 0, 1], [1, 0, 2]]), 3, 1, settings)
    tables = Tables.initial(3, 1, settings, "cpu", Room("host"))
    with pytest.raises(InputError, match="adam moves every row"):
        TritonStep(tables, sampler, settings)
    assert fastest_step(tables, sampler, settings)[0].name == "numba"
