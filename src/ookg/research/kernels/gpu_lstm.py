# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""An LSTM over many short sequences: one kernel runs all steps forward, one back.

A program keeps the states of a few sequences, and all weights between steps, and goes through time with them.
Libraries launch several kernels for each step, which for so small products takes longer than the work itself. What does
not depend on the step before is left to large products outside: of inputs and weights before, of gradients after.

Inside, products are of half precision, whose mantissa is as long as that of TF32, and added up in single precision.
Outputs lie between -1 and 1; gradients are scaled to that before.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from ookg.kernels.gpu_step import sigmoid
from ookg.research.kernels.gpu_neighbors import _tanh

ROWS = 16  # sequences of a program; a product on tensor cores has no less
WARPS = 8
STAGES = 2
SMALLEST_BLOCK = 16  # the shortest side of such a product
# With so many bytes of shared memory a program has room for the weights of this block; taken to grow with its square.
MEMORY, MEMORY_BLOCK = 232_448, 128
GATES = 4  # input, forget, cell, output, as in PyTorch's LSTM


@triton.jit
def _weights(weights_ptr, BLOCK: tl.constexpr):
    inner = tl.arange(0, BLOCK)
    place = weights_ptr + inner[:, None] * BLOCK + inner[None, :]
    size = BLOCK * BLOCK
    return tl.load(place), tl.load(place + size), tl.load(place + 2 * size), tl.load(place + 3 * size)


@triton.jit
def _forward(
    weights_ptr, inputs_ptr, gates_ptr, cells_ptr, outputs_ptr, num_rows, length, dim,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some sequences a program: their gates, cells (also those before the first step) and outputs at every step."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = (row < num_rows)[:, None] & (column < dim)[None, :]
    to_i, to_f, to_g, to_o = _weights(weights_ptr, BLOCK)
    output = tl.zeros([ROWS, BLOCK], tl.float32)
    cell = tl.zeros([ROWS, BLOCK], tl.float32)
    cell_place = (row * (length + 1))[:, None] * dim + column[None, :]
    tl.store(cells_ptr + cell_place, cell, mask=mask)
    for step in range(length):
        place = (row * length + step)[:, None] * dim + column[None, :]
        gate = (row * length + step)[:, None] * (4 * dim) + column[None, :]
        before = output.to(tl.float16)
        i = sigmoid(tl.dot(before, to_i) + tl.load(inputs_ptr + gate, mask=mask, other=0.0))
        f = sigmoid(tl.dot(before, to_f) + tl.load(inputs_ptr + gate + dim, mask=mask, other=0.0))
        g = _tanh(tl.dot(before, to_g) + tl.load(inputs_ptr + gate + 2 * dim, mask=mask, other=0.0))
        o = sigmoid(tl.dot(before, to_o) + tl.load(inputs_ptr + gate + 3 * dim, mask=mask, other=0.0))
        cell = f * cell + i * g
        output = o * _tanh(cell)
        tl.store(gates_ptr + gate, i, mask=mask)
        tl.store(gates_ptr + gate + dim, f, mask=mask)
        tl.store(gates_ptr + gate + 2 * dim, g, mask=mask)
        tl.store(gates_ptr + gate + 3 * dim, o, mask=mask)
        tl.store(cells_ptr + cell_place + (step + 1) * dim, cell, mask=mask)
        tl.store(outputs_ptr + place, output, mask=mask)


@triton.jit
def _backward(
    weights_ptr, gates_ptr, cells_ptr, grad_ptr, to_inputs_ptr, num_rows, length, dim,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some sequences a program: what the outputs' gradients say about the inputs, from the last step to the first."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = (row < num_rows)[:, None] & (column < dim)[None, :]
    from_i, from_f, from_g, from_o = _weights(weights_ptr, BLOCK)
    to_output = tl.zeros([ROWS, BLOCK], tl.float32)
    to_cell = tl.zeros([ROWS, BLOCK], tl.float32)
    cell_place = (row * (length + 1))[:, None] * dim + column[None, :]
    for back in range(length):
        step = length - 1 - back
        place = (row * length + step)[:, None] * dim + column[None, :]
        gate = (row * length + step)[:, None] * (4 * dim) + column[None, :]
        i = tl.load(gates_ptr + gate, mask=mask, other=0.0)
        f = tl.load(gates_ptr + gate + dim, mask=mask, other=0.0)
        g = tl.load(gates_ptr + gate + 2 * dim, mask=mask, other=0.0)
        o = tl.load(gates_ptr + gate + 3 * dim, mask=mask, other=0.0)
        before = tl.load(cells_ptr + cell_place + step * dim, mask=mask, other=0.0)
        squashed = _tanh(tl.load(cells_ptr + cell_place + (step + 1) * dim, mask=mask, other=0.0))
        to_output += tl.load(grad_ptr + place, mask=mask, other=0.0)
        to_cell += to_output * o * (1.0 - squashed * squashed)
        to_i = to_cell * g * i * (1.0 - i)
        to_f = to_cell * before * f * (1.0 - f)
        to_g = to_cell * i * (1.0 - g * g)
        to_o = to_output * squashed * o * (1.0 - o)
        to_cell = to_cell * f
        tl.store(to_inputs_ptr + gate, to_i, mask=mask)
        tl.store(to_inputs_ptr + gate + dim, to_f, mask=mask)
        tl.store(to_inputs_ptr + gate + 2 * dim, to_g, mask=mask)
        tl.store(to_inputs_ptr + gate + 3 * dim, to_o, mask=mask)
        largest = tl.maximum(tl.max(tl.abs(to_i)), tl.max(tl.abs(to_f)))
        largest = tl.maximum(largest, tl.maximum(tl.max(tl.abs(to_g)), tl.max(tl.abs(to_o))))
        scale = 1.0 / tl.maximum(largest, 1e-30)
        to_output = tl.dot((to_i * scale).to(tl.float16), from_i)
        to_output += tl.dot((to_f * scale).to(tl.float16), from_f)
        to_output += tl.dot((to_g * scale).to(tl.float16), from_g)
        to_output += tl.dot((to_o * scale).to(tl.float16), from_o)
        to_output /= scale


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weights: Tensor) -> Tensor:
        rows, length, width = inputs.shape
        dim = width // GATES
        outputs = inputs.new_empty(rows, length, dim)
        cells, gates = inputs.new_empty(rows, length + 1, dim), torch.empty_like(inputs)
        _launch(_forward, _by_gate(weights).transpose(1, 2), (inputs, gates, cells, outputs), outputs.shape)
        ctx.save_for_backward(weights, gates, cells, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        weights, gates, cells, outputs = ctx.saved_tensors
        to_inputs = torch.empty_like(gates)
        _launch(_backward, _by_gate(weights), (gates, cells, grads[0].contiguous(), to_inputs), outputs.shape)
        # A step's gates saw the outputs of the step before; at the first step there were none.
        to_weights = to_inputs[:, 1:].flatten(0, 1).T @ outputs[:, :-1].flatten(0, 1)
        return to_inputs, to_weights


def fits(dim: int, device: torch.device) -> bool:
    """Whether a program on this GPU has room for the weights between steps."""
    room = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return MEMORY * _block(dim) ** 2 <= room * MEMORY_BLOCK**2


def _block(dim: int) -> int:
    return max(SMALLEST_BLOCK, int(triton.next_power_of_2(dim)))


def _by_gate(weights: Tensor) -> Tensor:
    """(4, block, block) from (4 d, d): a matrix a gate, from that gate to the outputs before, filled up with zeros."""
    dim = weights.shape[1]
    missing = _block(dim) - dim
    return functional.pad(weights.to(torch.float16).view(GATES, dim, dim), (0, missing, 0, missing))


def _launch(kernel: Any, weights: Tensor, tensors: tuple[Tensor, ...], shape: torch.Size) -> None:
    rows, length, dim = shape
    kernel[(triton.cdiv(rows, ROWS),)](
        weights.contiguous(), *tensors, rows, length, dim,
        ROWS=ROWS, BLOCK=weights.shape[1], num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip


def lstm_outputs(lstm: torch.nn.LSTM, sequences: Tensor) -> Tensor:
    """(sequences, steps, d) what an LSTM of one layer and width d puts out, from states that are zero.

    sequences: (sequences, steps, d)
    """
    values = dict(lstm.named_parameters())
    inputs = functional.linear(sequences, values["weight_ih_l0"], values["bias_ih_l0"] + values["bias_hh_l0"])
    found: Tensor = _Recurrence.apply(inputs.contiguous(), values["weight_hh_l0"])
    return found
