"""The options of the commands that make known entities new again."""

from __future__ import annotations

import argparse
from collections import Counter
from statistics import quantiles
from typing import TYPE_CHECKING

from ookg.cli.console import refuse_empty, whole_number

if TYPE_CHECKING:
    from ookg.model.current import Current
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


def whole_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 up, with commas between them."""
    return tuple(sorted({whole_number(part) for part in text.split(",")}))


def numbers_of_triples(current: Current, given: str | None = None) -> tuple[int, ...]:
    """How many triples newcomers have: fewest, quartiles and most; beyond that, or if there are none, a range.

    given: the file of their triples; None takes those that were added
    """
    from ookg.errors import InputError
    from ookg.graph.triples import read_triples
    from ookg.simulation.choosing import KNOTS

    known = current.version.entities
    added = current.difference.added
    if given is not None:
        triples = read_triples(given, labels="refused")
        refuse_empty(triples)
        added = list(triples)
    ends = [end for head, _, tail in added for end in {head, tail}]
    counts = [count for label, count in Counter(ends).items() if known.find(label) is None]
    if given is not None and not counts:
        raise InputError(f"{given}: all entities are known to the model; give the triples of newcomers")
    if not counts:
        return KNOTS
    quartiles = {round(value) for value in quantiles([*counts, *counts], n=4, method="inclusive")}
    beyond = {number for number in KNOTS if number > max(counts)}
    return tuple(sorted(quartiles | {min(counts), max(counts)} | beyond))
