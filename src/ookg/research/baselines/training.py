"""Training a baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.research.baselines.encoder import Encoder
from ookg.research.baselines.objective import batch_loss
from ookg.research.baselines.sampling import Batches
from ookg.research.baselines.scorer import TrainedBaseline
from ookg.research.baselines.settings import BaselineSettings
from ookg.research.baselines.validation import validation_of
from ookg.system.progress import Reporter

if TYPE_CHECKING:
    from ookg.kernels.gpu_adam import TritonAdam

# The parts of an encoder whose parameters decay, and one of them that does not, as in LAN's code. With Adam, a decay of
# the tables of entities and relations would move the rows that a batch does not touch, too.
DECAYING, STEADY = ("transition.", "aggregator."), "aggregator.lstm."
# Steps that are taken one by one before the step is captured: libraries allocate in the first ones.
WARM_UP = 3


def train_baseline(
    dataset: EncodedDataset,
    settings: BaselineSettings,
    device: torch.device | str = "cpu",
    report: Reporter | None = None,
) -> TrainedBaseline:
    """Train on the train part and keep the state that is best on the valid part; report counts epochs."""
    _check(dataset, settings)
    device = torch.device(device)
    begun = time.perf_counter()
    with fast_products():
        encoder = Encoder(dataset, settings, device)
        batches = Batches(dataset, settings, device)
        step = CapturedStep(encoder, batches.size) if device.type == "cuda" else Step(encoder)
        keeper = Keeper(dataset, encoder)
        for epoch in range(1, settings.epochs + 1):
            encoder.train()
            for batch in batches.epoch(epoch):
                loss = step(batch)
            keeper.after(epoch)
            if report is not None:
                report(epoch, keeper.figure(loss))
            if keeper.done:
                break
        kept = keeper.restore()
    return TrainedBaseline(encoder, kept, keeper.validations, time.perf_counter() - begun)


class Step:
    """One training step: forward, backward, Adam."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, settings = encoder, encoder.settings
        named = list(encoder.named_parameters())
        self.parameters = [values for _, values in named]
        decays = [
            settings.weight_decay if name.startswith(DECAYING) and not name.startswith(STEADY) else 0.0
            for name, _ in named
        ]
        self.adam: PlainAdam | TritonAdam
        if encoder.uses_kernels:
            from ookg.kernels.gpu_adam import TritonAdam

            self.adam = TritonAdam(self.parameters, settings.lr, decays)
        else:
            self.adam = PlainAdam(self.parameters, settings.lr, decays)

    def __call__(self, batch: Tensor) -> Tensor:
        """Take a step on (batch, 5) ids; return the loss, not yet read from the device."""
        loss = batch_loss(self.encoder, batch)
        self.adam.step(torch.autograd.grad(loss, self.parameters))
        return loss.detach()


class PlainAdam:
    """The library's Adam; weight_decays[n] · parameter is added to the n-th parameter's gradient."""

    def __init__(self, parameters: Sequence[Tensor], lr: float, weight_decays: Sequence[float]) -> None:
        self.parameters = list(parameters)
        groups = [
            {"params": [values], "weight_decay": decay}
            for values, decay in zip(self.parameters, weight_decays, strict=True)
        ]
        on_gpu = self.parameters[0].is_cuda
        self.optimizer = torch.optim.Adam(groups, lr, capturable=on_gpu, fused=on_gpu or None)

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take a step."""
        for values, gradient in zip(self.parameters, gradients, strict=True):
            values.grad = gradient.contiguous()  # the fused Adam wants them laid out alike
        self.optimizer.step()


class CapturedStep:
    """The same step as one CUDA graph: the first few are taken one by one, all others replayed."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self.step = Step(encoder)
        self.batch = torch.empty(size, 5, dtype=torch.int64, device=encoder.device)
        self.stream = torch.cuda.Stream(encoder.device)  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.loss = torch.empty((), device=encoder.device)
        self.taken = 0

    def __call__(self, batch: Tensor) -> Tensor:
        """Take a step; the loss is overwritten by the next one."""
        self.batch.copy_(batch)
        self.taken += 1
        if self.taken <= WARM_UP:
            self._take_directly()
        else:
            if self.graph is None:
                self.graph = self._captured()
            self.graph.replay()
        return self.loss

    def _take_directly(self) -> None:
        """On a stream of its own, as what is captured later must not have run on the default one."""
        current = torch.cuda.current_stream(self.batch.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.loss.copy_(self.step(self.batch))
        current.wait_stream(self.stream)

    def _captured(self) -> torch.cuda.CUDAGraph:
        """The step as a graph; capturing takes no step."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.loss.copy_(self.step(self.batch))
        return graph


class Keeper:
    """Validates, keeps the best state on the device, and says when to stop."""

    def __init__(self, dataset: EncodedDataset, encoder: Encoder) -> None:
        self.encoder, self.settings = encoder, encoder.settings
        self.validate = validation_of(dataset, self.settings) if self.settings.validate_every else None
        self.validations: list[tuple[int, float]] = []
        self.best_epoch, self.best_figure = 0, float("-inf")
        self.best: dict[str, Tensor] = {}
        self.epoch = 0

    def after(self, epoch: int) -> None:
        """Validate if it is time to."""
        self.epoch = epoch
        every = self.settings.validate_every
        if self.validate is None or (epoch % every and epoch != self.settings.epochs):
            return
        figure = self.validate(TrainedBaseline(self.encoder))
        self.validations.append((epoch, figure))
        if figure > self.best_figure:
            self.best_epoch, self.best_figure = epoch, figure
            self.best = {name: values.clone() for name, values in self.encoder.state_dict().items()}

    @property
    def done(self) -> bool:
        """Whether the last `patience` validations brought no new best."""
        since = sum(epoch > self.best_epoch for epoch, _ in self.validations)
        return 0 < self.settings.patience <= since

    def figure(self, loss: Tensor) -> Callable[[], str]:
        """What to show of an epoch: the best validation, or the loss where there is none."""
        if not self.validations:
            return lambda: f"loss {float(loss):.3f}"
        return lambda: f"best validation {self.best_figure:.4g} at epoch {self.best_epoch}"

    def restore(self) -> int:
        """Bring the best state back; return its epoch."""
        if not self.best:
            return self.epoch
        self.encoder.load_state_dict(self.best)
        return self.best_epoch


@contextmanager
def fast_products() -> Iterator[None]:
    """Matrix products in TF32 where the device has it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _check(dataset: EncodedDataset, settings: BaselineSettings) -> None:
    if not len(dataset.train):
        raise InputError(f"data set {dataset.name}: no training triples; give some triples to train on")
    if not settings.validate_every:
        return
    if settings.task == "triplet-classification" and dataset.valid_truth is None:
        problem = f"data set {dataset.name}: valid has no labels to validate triplet classification by"
        raise InputError(f"{problem}; train with validate_every 0 and patience 0, or for link-prediction")
    if not (dataset.valid[:, 1] < dataset.num_trained).any():
        problem = f"data set {dataset.name}: no valid triple over a trained relation"
        raise InputError(f"{problem}; train with validate_every 0 and patience 0")
