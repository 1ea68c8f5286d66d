"""Train a baseline on known entities made new again, which is how its settings are chosen without a look at test.

OOKG_DATA=FOLDER python benchmarks/baselines_simulated.py WN11-Head-1000 LAN ['{"epochs": 100}' ...] [--share 0.5]
    [--seed 0] [--device cpu]

The data set must have labelled claims; a share of the valid ones asks about the entities made new. Each JSON object
changes the published settings; prints the accuracy on the simulated newcomers, and that of every validation, on
entities that stayed known.
"""

from __future__ import annotations

import argparse
import json

import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.evaluation.measuring import classification_figures
from ookg.research.baselines import BASELINES, published_settings, train_baseline
from ookg.simulation.hidden_claims import hide_claims


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("method", choices=BASELINES)
    parser.add_argument("changes", nargs="*", default=["{}"])
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    sample = hide_claims(EncodedDataset.of(load_dataset(options.dataset)), options.seed, options.share)
    for changes in options.changes:
        values = {"patience": 0, "seed": options.seed} | json.loads(changes)
        baseline = train_baseline(
            sample, published_settings(options.method, sample.task).changed(values), options.device
        )
        accuracy = classification_figures(baseline, sample)["accuracy"]
        valid = ", ".join(f"{figure:.1f} at {epoch}" for epoch, figure in baseline.validations)
        print(f"{sample.name}, {options.method} {changes}: {accuracy:.1f} % of {len(sample.test):,} claims")
        print(f"  {baseline.seconds:.0f} s; best at epoch {baseline.epochs}; valid {valid}", flush=True)


if __name__ == "__main__":
    main()
