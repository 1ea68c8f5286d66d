"""How good a model is after so many steps, on validation triples: what `TrainingSettings.steps_for` is chosen by.

    python benchmarks/training_length.py codex-s --steps 0,2500,5000,10000,20000

0 is the default: by the size of the graph, and no longer than it pays on triples that are held out.

A data set by name (under OOKG_DATA), or a folder with train.txt and valid.txt. Every run has its whole schedule, so a
short one is not the beginning of a long one. Each line is printed as soon as it is there.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import ookg
from ookg.graph.triples import Triples, read_triples
from ookg.model.held_out import HeldOut
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
    ids = valid.encoded(train.entities, train.relations)
    asked = HeldOut.asking(train.ids, ids[(ids >= 0).all(axis=1)])
    print(f"{arguments.dataset}: {len(train):,} triples, {len(asked):,} to validate", flush=True)
    for steps in map(int, arguments.steps.split(",")):
        settings = TrainingSettings(
            dim=arguments.dim, negatives=arguments.negatives, steps=steps, seed=arguments.seed, optimizer="adam"
        )
        model = ookg.train(train, settings, device="auto")
        provenance = model.checkpoint.provenance
        taken = provenance["validations"][-1][0] if provenance["validations"] else steps
        quality = provenance["quality"]
        held_out = "" if quality is None else f"  held-out MRR {quality['value']:.4f}"
        mrr, passes = asked.mrr(model.embedding), taken * settings.batch / len(train)
        name = f"{steps:,}" if steps else f"0 ({taken:,})"
        print(
            f"{name:>12} steps  {passes:6.1f} passes  MRR {mrr:.4f}  {provenance['seconds']:.0f} s{held_out}",
            flush=True,
        )


if __name__ == "__main__":
    main()
