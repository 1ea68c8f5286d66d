"""A minute's tour: train on a small film graph, add films it does not know, ask about them."""

from __future__ import annotations

import argparse

from ookg.cli.console import check_output, whole_number

SUMMARY = "a film graph, and four films that are new to it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of the training (0)")
    parser.add_argument("--svg", metavar="FILE", help="also write what is shown as a picture")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --svg")


def run(arguments: argparse.Namespace) -> int:
    """Run the tour."""
    from rich.console import Console

    from ookg.demo.tour import tour
    from ookg.system.files import atomic_write

    if arguments.svg:
        check_output(arguments.svg, [], overwrite=arguments.overwrite)
    console = Console(highlight=False, record=arguments.svg is not None, width=100 if arguments.svg else None)
    tour(arguments.seed, console)
    if arguments.svg:
        with atomic_write(arguments.svg) as temporary:
            console.save_svg(str(temporary), title="ookg demo")
    return 0
