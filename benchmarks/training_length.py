"""How good a model is after so many steps, on validation triples: what `TrainingSettings.steps_for` is chosen by.

    python benchmarks/training_length.py codex-s --steps 2500,5000,10000,20000

A data set by name (under OOKG_DATA), or a folder with train.txt and valid.txt. Every run has its whole schedule, so a
short one is not the beginning of a long one. Each line is printed as soon as it is there.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import ookg
from ookg.graph.triples import Triples, read_triples
from ookg.model.train import reciprocal_ranks
from ookg.training.settings import TrainingSettings


def part(folder: Path, name: str) -> Triples:
    """One of the two files, compressed or not."""
    return read_triples(next(iter(sorted(folder.glob(f"{name}.txt*")))))


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--steps", default="2500,5000,10000,20000")
    parser.add_argument("--negatives", type=int, default=TrainingSettings().negatives)
    parser.add_argument("--dim", type=int, default=TrainingSettings().dim)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(arguments.dataset)
    folder = folder if folder.is_dir() else Path(os.environ["OOKG_DATA"]) / arguments.dataset
    train, valid = part(folder, "train"), part(folder, "valid")
    print(f"{arguments.dataset}: {len(train):,} triples, {len(valid):,} to validate", flush=True)
    for steps in map(int, arguments.steps.split(",")):
        settings = TrainingSettings(
            dim=arguments.dim, negatives=arguments.negatives, steps=steps, seed=arguments.seed, optimizer="adam"
        )
        model = ookg.train(train, settings, device="auto")
        ranks = reciprocal_ranks(model, valid)
        seconds = model.checkpoint.provenance["seconds"]
        epochs = steps * settings.batch / len(train)
        print(f"{steps:>8,} steps  {epochs:7.1f} epochs  MRR {np.mean(ranks):.4f}  {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
