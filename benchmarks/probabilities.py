"""How far the probabilities of answers come true: reliability by tenths, on newcomers and on known entities.

PYTHONPATH=src python benchmarks/probabilities.py --train train.tsv --held-out valid.tsv [--dim 100] [--steps 8000] \
    [--retrain-steps 4000]

Trains a model, hides entities of it and retrains without them; each probability is checked on entities that it was not
fitted to. docs/asking.md has what came of it on CoDEx-S.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import ookg
from ookg.simulation.choosing import KNOTS
from ookg.simulation.contenders import NewcomerSetup
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.likelihood import Likelihood
from ookg.simulation.retraining import Retraining
from ookg.simulation.simulated import simulate
from ookg.training.settings import TrainingSettings


def show(name: str, fitted: Likelihood) -> None:
    """One table."""
    print(f"\n{name}: {100 * fitted.error:.1f} points apart in the mean, from 10 % on")
    for one in fitted.bins:
        print(f"| {one.answers:>9,} | {one.expected:6.1%} | {one.right:6.1%} |")


def main() -> None:
    """Train, hide, ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--retrain-steps", type=int, default=4000)
    parser.add_argument("--sample", type=int)
    arguments = parser.parse_args()
    model = ookg.train(arguments.train, TrainingSettings(dim=arguments.dim, steps=arguments.steps), device="cpu")
    hiding = HidingSettings(sample=arguments.sample)
    simulation = simulate(model.checkpoint, hiding, Retraining(arguments.retrain_steps, reference=False))
    begun = perf_counter()
    likelihoods = NewcomerSetup.of(model.checkpoint).likelihoods(simulation, KNOTS, hiding.seed)
    print(f"{simulation.hidden.num_hidden} entities hidden; asked and fitted in {perf_counter() - begun:.1f} s")
    for name, fitted in likelihoods.items():
        show(f"newcomers, {name}", fitted)
    show("known entities", model.calibrated(arguments.held_out).choice.likelihood["known"])


if __name__ == "__main__":
    main()
