"""The GPU's LSTM, run by Triton's interpreter on the CPU, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from ookg.research.baselines.aggregators import Lstm
from ookg.research.baselines.neighbors import Neighbors

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")

# Sequences, steps, coordinates: less and more than a program takes; one step; below, at and above a power of two.
SHAPES = [(5, 3, 6), (17, 4, 20), (40, 1, 16), (33, 7, 10)]
# Of the gradients that come back: as they are, and so small that half precision holds none of them.
SIZES = [1.0, 1e-9]


def test_triton_lstm_equals_pytorchs(interpreted: Callable[[str], str]) -> None:
    assert f"{len(SHAPES) * len(SIZES)} cases equal" in interpreted(__file__)


@pytest.mark.parametrize(
    ("dim", "room", "expected"), [(100, 232_448, True), (100, 101_376, False), (64, 101_376, True)]
)
def test_weights_must_fit_a_program(dim: int, room: int, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from ookg.research.kernels.gpu_lstm import fits

    properties = SimpleNamespace(shared_memory_per_block_optin=room)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert fits(dim, torch.device("cuda")) is expected


def compare(rows: int, steps: int, dim: int, size: float) -> None:
    from ookg.research.kernels.gpu_lstm import lstm_outputs

    generator = torch.Generator().manual_seed(rows)
    lstm = torch.nn.LSTM(dim, dim, batch_first=True)
    for values in lstm.parameters():
        torch.nn.init.normal_(values, std=0.5, generator=generator)
    sequences = torch.randn(rows, steps, dim, generator=generator, requires_grad=True)
    weights = size * torch.randn(rows, steps, dim, generator=generator)
    slow, fast = lstm(sequences)[0], lstm_outputs(lstm, sequences)
    # Products are of half precision, added up over the steps.
    torch.testing.assert_close(fast, slow, rtol=0, atol=5e-3)
    leaves = [sequences, *lstm.parameters()]
    found = torch.autograd.grad((fast * weights).sum(), leaves)
    for mine, theirs in zip(found, torch.autograd.grad((slow * weights).sum(), leaves), strict=True):
        if steps > 1:
            assert theirs.abs().max() > 0
        assert (mine - theirs).norm() <= 5e-3 * theirs.norm()


def compare_aggregates() -> None:
    generator = torch.Generator().manual_seed(1)
    aggregator = Lstm(6)
    count = torch.tensor([0, 1, 4, 2])
    nothing = torch.zeros(4, 4, dtype=torch.int64)
    neighbors = Neighbors(nothing, nothing, torch.arange(4) < count[:, None])
    transitions = torch.randn(4, 4, 6, generator=generator)
    with torch.no_grad():
        fast = aggregator.join_by_kernel(transitions, neighbors)
        slow = aggregator(transitions, neighbors, nothing[:, 0])
    assert slow[1:].abs().min() > 0
    torch.testing.assert_close(fast, slow, rtol=0, atol=2e-3)


if __name__ == "__main__":
    compare_aggregates()
    for case in SHAPES:
        for case_size in SIZES:
            compare(*case, case_size)
    print(f"{len(SHAPES) * len(SIZES)} cases equal")
