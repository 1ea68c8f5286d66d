"""What a training on a GPU needs of memory, and where its tables may lie."""

from __future__ import annotations

import pytest
import torch

from ookg.errors import InputError
from ookg.training import plan as planning
from ookg.training.gpu_memory import host_zeros, step_bytes
from ookg.training.plan import plan
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.step import fastest_step
from ookg.training.tables import Tables

GPU = torch.device("cuda")
GIGABYTE = 10**9


def memory(monkeypatch: pytest.MonkeyPatch, gpu: int, machine: int) -> None:
    monkeypatch.setattr(planning, "free_memory", lambda device: gpu if device.type == "cuda" else machine)


def test_tables_that_do_not_fit_on_a_gpu_lie_in_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1 M × 200 numbers of 4 bytes three times are 2.4 GB.
    sizes, settings = (1_000_000, 10, 500_000), TrainingSettings()
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


def test_tables_that_fit_nowhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory(monkeypatch, GIGABYTE, GIGABYTE)
    with pytest.raises(InputError, match=r"2\.4 GB fit neither .* 1\.0 GB are free; use --device cpu"):
        plan((1_000_000, 10, 500_000), TrainingSettings(), GPU)
    with pytest.raises(InputError, match="tables disk with a GPU"):
        plan((1000, 10, 500), TrainingSettings(), GPU, "disk")


@pytest.mark.parametrize("shared", [0, 64])
@pytest.mark.parametrize("host", [False, True])
def test_a_step_holds_about_what_is_said(shared: int, host: bool) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: there are no steps on a GPU")
    from ookg.training.gpu_shared_step import SharedTritonStep
    from ookg.training.gpu_step import TritonStep

    settings = TrainingSettings(dim=32, batch=256, negatives=16, negatives_shared=shared, optimizer="sparse-adam")
    triples = torch.stack([torch.arange(300), torch.zeros(300, dtype=torch.int64), torch.arange(300) + 1], dim=1)
    sampler, tables = Sampler(triples, 70_000, 1, settings), Tables.initial(70_000, 1, settings, "cpu")
    step = (SharedTritonStep if shared else TritonStep)(tables, sampler, settings, host=host)
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
    said = step_bytes(settings, 3 * 32, host=host)
    assert sum(held.values()) <= said <= 2.5 * sum(held.values())


def test_memory_that_a_gpu_reaches_is_zero_and_can_be_written() -> None:
    table = host_zeros(1000, 7)
    assert table.shape == (1000, 7)
    assert table.dtype == torch.float32
    assert not table.any()
    table[999] = 2.0
    assert table.sum() == 14


def test_dense_adam_and_models_without_kernels_keep_their_tables_on_the_device() -> None:
    pytest.importorskip("triton", reason="Triton is not installed: there are no steps on a GPU")
    from ookg.training.gpu_step import TritonStep

    settings = TrainingSettings(dim=4, batch=2, negatives=2, optimizer="adam")
    sampler = Sampler(torch.tensor([[0, 0, 1], [1, 0, 2]]), 3, 1, settings)
    tables = Tables.initial(3, 1, settings, "cpu")
    with pytest.raises(InputError, match="adam moves every row"):
        TritonStep(tables, sampler, settings, host=True)
    assert fastest_step(tables, sampler, settings)[0].name == "numba"
