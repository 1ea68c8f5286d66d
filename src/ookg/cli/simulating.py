"""The options of the commands that make known entities new again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ookg.cli.console import whole_number

if TYPE_CHECKING:
    from ookg.simulation.hiding import HidingSettings


def add_simulation_options(parser: argparse.ArgumentParser) -> None:
    """Which entities are hidden, and how the training again goes."""
    group = parser.add_argument_group("which known entities are made new again")
    group.add_argument("--sample", type=whole_number, metavar="N", help="how many (a tenth of them, 300 at most)")
    group.add_argument(
        "--draw",
        choices=("entity", "triple"),
        default="entity",
        help="each entity as likely (default), or the likelier, the more triples it has",
    )
    group.add_argument(
        "--new", choices=("both", "head", "tail"), default="both", help="which end of a question is new (both)"
    )
    group.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of the choice (0)")
    parser.add_argument(
        "--steps", type=whole_number, metavar="N", help="training again: so many steps (as the model was trained)"
    )


def chosen_hiding(arguments: argparse.Namespace) -> HidingSettings:
    """The entities to hide that the options say."""
    from ookg.simulation.hiding import HidingSettings

    return HidingSettings(sample=arguments.sample, draw=arguments.draw, new=arguments.new, seed=arguments.seed)
