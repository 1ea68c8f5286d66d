# Triton's kernels are not Python functions: their arguments have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Adam on a GPU, one kernel per table: in chunks as large as a library's, a few tables would not fill a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ookg.kernels.gpu_step import LOG_BETA_1, LOG_BETA_2, adam

BLOCK = 1024


@triton.jit
def _step(values_ptr, grad_ptr, mean_ptr, square_ptr, step_ptr, lr, weight_decay, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    step = tl.load(step_ptr)
    values = tl.load(values_ptr + place, mask=inside, other=0.0)
    grad = tl.load(grad_ptr + place, mask=inside, other=0.0) + weight_decay * values
    first, second = 1.0 - tl.exp(step * LOG_BETA_1), 1.0 - tl.exp(step * LOG_BETA_2)
    adam(values_ptr, mean_ptr, square_ptr, place, inside, values, grad, lr, first, second)


class TritonAdam:
    """Adam; weight_decays[n] · parameter is added to the n-th parameter's gradient."""

    def __init__(self, parameters: Sequence[Tensor], lr: float, weight_decays: Sequence[float]) -> None:
        self.parameters, self.lr, self.weight_decays = list(parameters), lr, list(weight_decays)
        self.means = [torch.zeros_like(values) for values in self.parameters]
        self.squares = [torch.zeros_like(values) for values in self.parameters]
        self.steps = torch.zeros((), device=self.parameters[0].device)

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take a step; the device counts them, so that it can be captured."""
        self.steps += 1
        tables = zip(self.parameters, gradients, self.means, self.squares, self.weight_decays, strict=True)
        for values, gradient, mean, square, weight_decay in tables:
            assert values.is_contiguous()  # as parameters are made
            size = values.numel()
            _step[(triton.cdiv(size, BLOCK),)](
                values, gradient.contiguous(), mean, square, self.steps, self.lr, weight_decay, size, BLOCK=BLOCK
            )
