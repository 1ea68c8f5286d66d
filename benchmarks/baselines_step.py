"""Time one training step, one validation and the ranking of all test queries of the baselines.

python benchmarks/baselines_step.py --dataset FB15k-Head-10 [--methods LAN,GNN-MEAN] [--device cuda] [--steps 200]

The data set is looked up as `ookg datasets` does it. Prints milliseconds a step, seconds an epoch and a validation.
On a GPU the kernels are first checked against the same loss and gradients step by step, and timed beside it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.research.baselines import BASELINES, TrainedBaseline, published_settings
from ookg.research.baselines.aggregators import Lstm
from ookg.research.baselines.encoder import Encoder
from ookg.research.baselines.objective import batch_loss
from ookg.research.baselines.sampling import Batches
from ookg.research.baselines.training import WARM_UP, CapturedStep, Step, fast_products
from ookg.research.baselines.validation import validation_of
from ookg.scoring.link_prediction import kept_by, link_prediction
from ookg.scoring.queries import test_queries


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def check(encoder: Encoder, batch: Tensor) -> str:
    """Compare the loss and the gradients by kernels with those step by step; in full precision but for the LSTM's."""
    found = []
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    for by_kernels in (True, False):
        encoder.uses_kernels = by_kernels
        with torch.backends.cudnn.flags(allow_tf32=False):
            loss = batch_loss(encoder, batch)
            found.append([loss.detach(), *torch.autograd.grad(loss, list(encoder.parameters()))])
    torch.set_float32_matmul_precision(before)
    encoder.uses_kernels = True
    apart = [float((mine - plain).norm() / plain.norm().clamp_min(1e-12)) for mine, plain in zip(*found, strict=True)]
    # The LSTM's products are of half precision, and small changes of vectors turn signs in the gradient of L1.
    limit = 0.03 if encoder.settings.method == "GNN-LSTM" else 1e-3
    if not all(value < limit for value in apart):
        sys.exit(f"{encoder.settings.method}: kernels and plain PyTorch differ: {apart}")
    return f"loss and gradients equal (relative difference at most {max(apart):.1e})"


def check_recurrence(aggregator: Lstm) -> str:
    """Compare the LSTM's kernel with the library's LSTM in full precision: random sequences, small random gradients."""
    from ookg.research.kernels.gpu_lstm import lstm_outputs

    weights = next(aggregator.parameters())
    sequences = torch.randn(256, 64, weights.shape[1], device=weights.device, requires_grad=True)
    gradient = 1e-6 * torch.randn_like(sequences)
    leaves = [sequences, *aggregator.parameters()]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    with torch.backends.cudnn.flags(allow_tf32=False):
        outputs = lstm_outputs(aggregator.lstm, sequences), aggregator.lstm(sequences)[0]
        found = [[values.detach(), *torch.autograd.grad(values, leaves, gradient)] for values in outputs]
    torch.set_float32_matmul_precision(before)
    apart = [float((mine - plain).norm() / plain.norm()) for mine, plain in zip(*found, strict=True)]
    if not all(value < 1e-3 for value in apart):
        sys.exit(f"GNN-LSTM: the kernel's recurrence and the library's differ: {apart}")
    return f"recurrence alone equal (relative difference at most {max(apart):.1e})"


def seconds_a_step(encoder: Encoder, epoch: Tensor, steps: int) -> tuple[float, Tensor]:
    """Of so many steps, and the last one's loss."""
    device = encoder.device
    step = CapturedStep(encoder, epoch.shape[1]) if device.type == "cuda" else Step(encoder)
    for number in range(WARM_UP + 1):
        step(epoch[number % len(epoch)])
    wait(device)
    begun = time.perf_counter()
    for number in range(steps):
        loss = step(epoch[number % len(epoch)])
    wait(device)
    return (time.perf_counter() - begun) / steps, loss


def measure(dataset: EncodedDataset, method: str, device: torch.device, steps: int) -> None:
    settings = published_settings(method, dataset.task)
    encoder, batches = Encoder(dataset, settings, device), Batches(dataset, settings, device)
    validate = validation_of(dataset, settings)
    wait(device)
    begun = time.perf_counter()
    epoch = batches.epoch(1)
    wait(device)
    drawn = time.perf_counter() - begun
    if encoder.joins_by_kernel or encoder.ranks_by_kernel:
        checked = check(encoder, epoch[0])
        if isinstance(encoder.aggregator, Lstm) and encoder.reads_by_kernel:
            checked += "; " + check_recurrence(encoder.aggregator)
        plain = Encoder(dataset, settings, device)
        plain.uses_kernels = False
        slow, _ = seconds_a_step(plain, epoch, steps)
        del plain
        print(f"{dataset.name} {method:9} {checked}; step by step {1000 * slow:.3f} ms", flush=True)
    each, loss = seconds_a_step(encoder, epoch, steps)
    validate(TrainedBaseline(encoder))
    begun = time.perf_counter()
    figure = validate(TrainedBaseline(encoder))
    validated = time.perf_counter() - begun
    line = (
        f"{dataset.name} {method:9} step {1000 * each:8.3f} ms, epoch {each * batches.steps + drawn:7.2f} s "
        f"(drawing {1000 * drawn:.1f} ms), validation {validated:6.2f} s; after {steps} steps: loss {float(loss):.3f}, "
        f"validation {figure:.4g}"
    )
    if dataset.task == "link-prediction":
        queries = test_queries(dataset.test, dataset.num_known)
        queries = kept_by("lan", queries, dataset.num_known, dataset.num_trained)
        begun = time.perf_counter()
        link_prediction(TrainedBaseline(encoder), queries, dataset.true_triples, dataset.num_known, "lan")
        line += f"; {len(queries)} test queries ranked in {time.perf_counter() - begun:.2f} s"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--methods", default=",".join(BASELINES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    dataset = EncodedDataset.of(load_dataset(options.dataset))
    with fast_products():
        for method in options.methods.split(","):
            measure(dataset, method, torch.device(options.device), options.steps)


if __name__ == "__main__":
    main()
