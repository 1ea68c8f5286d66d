"""Which implementation of the training step to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from ookg.errors import InputError
from ookg.training.reference_step import ReferenceStep
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.tables import Tables


class Step(Protocol):
    """Takes training steps by their numbers and returns each one's loss."""

    name: str
    rate_of: Callable[[int], float]  # the learning rate by step number

    def __call__(self, number: int) -> Tensor:
        """Take the step with this number."""


def fastest_step(tables: Tables, sampler: Sampler, settings: TrainingSettings) -> tuple[Step, str | None]:
    """The fastest step that this machine has for the tables' device, and a note where it is not the fast one."""
    kernel = settings.geometry.kernel
    on_gpu = sampler.triples.is_cuda
    if on_gpu and not tables.entities.is_cuda and (kernel is None or kernel.squared):
        problem = f"{settings.model} is trained with its tables on the device alone"
        raise InputError(f'{problem}; use `tables="device"`, or `device="cpu"`')
    if kernel is None or kernel.squared:  # the kernels of training know no squares
        note = f"{settings.model} has no fast kernel: training with plain PyTorch, which is much slower than transe"
        return ReferenceStep(tables, sampler, settings), note
    try:
        if on_gpu and settings.negatives_shared:
            from ookg.training.gpu_shared_step import SharedTritonStep

            return SharedTritonStep(tables, sampler, settings), None
        if on_gpu:
            from ookg.training.gpu_step import TritonStep

            return TritonStep(tables, sampler, settings), None
        from ookg.training.cpu_step import NumbaStep

        return NumbaStep(tables, sampler, settings), None
    except ImportError as error:
        library = "triton" if on_gpu else "numba"
        note = f"{library} cannot be imported ({error}): training with plain PyTorch, which is much slower"
        return ReferenceStep(tables, sampler, settings), note
