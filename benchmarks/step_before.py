"""The CPU training step of another checkout against those of this one, in turns on the same graph.

    git worktree add ../before 9a7edc9
    python benchmarks/step_before.py ../before [--rounds 2]

9a7edc9 is the last state before there was a choice of optimisers: Adam over whole tables. A million entities, 5 million
triples, d 100, 1,024 triples and 64 negatives per step, TransE. Each code runs in processes of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

ENTITIES, TRIPLES, RELATIONS = 1_000_000, 5_000_000, 100
HERE = Path(__file__).resolve().parents[1]
OPTIMIZERS = ("adam", "sparse-adam", "adagrad")
PARTS = 5  # of the steps, of whose times the median is taken


def measure(optimizer: str, shared: int) -> float:
    """Milliseconds per step of the code that is imported; optimizer: "" for one that has no choice."""
    from ookg.training.settings import TrainingSettings
    from ookg.training.trainer import Trainer

    random = torch.Generator().manual_seed(0)
    ends = [torch.randint(size, (TRIPLES,), generator=random) for size in (ENTITIES, RELATIONS, ENTITIES)]
    chosen = {"optimizer": optimizer, "negatives_shared": shared} if optimizer else {}
    settings = TrainingSettings(dim=100, batch=1024, negatives=64).changed(chosen)
    trainer = Trainer(torch.stack(ends, dim=1), ENTITIES, RELATIONS, settings)
    for _ in range(20):
        trainer.step()
    steps, times = 8 if optimizer in ("", "adam") else 60, []
    for _ in range(PARTS):
        begun = perf_counter()
        for _ in range(steps):
            loss = trainer.step()
        loss.item()
        times.append(1000 * (perf_counter() - begun) / steps)
    return median(times)


def measured(checkout: Path, optimizer: str = "", shared: int = 0) -> float:
    """The same in a process that imports a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, __file__, "--measure", optimizer, str(shared)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(measure(options.measure[0], int(options.measure[1])))
        return
    if options.before is None:
        parser.error("give the checkout to compare with")
    print("| round | step | ms | times as fast as before |\n| --- | --- | ---: | ---: |")
    for number in range(1, 1 + options.rounds):
        before = measured(options.before)
        print(f"| {number} | before | {before:.1f} | |", flush=True)
        for shared in (0, 128):
            for optimizer in OPTIMIZERS[1 if shared else 0 :]:
                took = measured(HERE, optimizer, shared)
                words = f"`{optimizer}`, negatives shared by {shared}" if shared else f"`{optimizer}`"
                print(f"| {number} | {words} | {took:.1f} | {before / took:.1f} |", flush=True)


if __name__ == "__main__":
    main()
