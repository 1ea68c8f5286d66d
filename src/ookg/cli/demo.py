"""A minute's tour: train on a small film graph, add films it does not know, ask about them."""

from __future__ import annotations

import argparse

SUMMARY = "a film graph, and four films that are new to it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the training (0)")


def run(arguments: argparse.Namespace) -> int:
    """Run the tour."""
    from ookg.demo.tour import tour

    tour(arguments.seed)
    return 0
