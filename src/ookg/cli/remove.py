"""Remove triples from a model, or all triples of an entity: added ones, and those that it was trained on.

What was added leaves no trace. A triple of training is no known answer and no evidence from then on; known vectors
follow with `ookg update`. An entity of training keeps its name and its vector, so that ids stay.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ookg.cli.console import (
    add_directory_argument,
    add_format_options,
    add_json_option,
    add_prefix_option,
    chosen_prefixes,
    meant,
    print_json,
    read_given,
    repeated,
)

SUMMARY = "remove triples from a model, or an entity's"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument("triples", metavar="TRIPLES", nargs="?", help="the triples to remove")
    parser.add_argument("--entity", metavar="ID", help="remove all triples of this entity instead")
    parser.add_argument(
        "--key", metavar="K", help="a name for this batch: sent again under the same one, it counts once"
    )
    parser.add_argument("--author", metavar="A", help="who says so (this system's user)")
    add_prefix_option(parser)
    add_json_option(parser)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Remove and print."""
    from ookg.errors import InputError
    from ookg.model.living import LivingModel
    from ookg.system.display import counted

    if (arguments.triples is None) == (arguments.entity is None):
        raise InputError("give either TRIPLES or --entity ID to remove")
    living = LivingModel(arguments.model, journal=arguments.journal)
    triples = None if arguments.triples is None else read_given(arguments, arguments.triples, living.model)
    entity = arguments.entity
    if entity is not None:
        entity = meant(
            entity,
            "entity",
            living.names,
            lambda label: label in living.model.entities or label in living.entities,
            chosen_prefixes(arguments),
        )
    before = living.journal.last
    removed = living.remove(triples, entity=entity, key=arguments.key, author=arguments.author)
    if arguments.json:
        print_json(asdict(removed))
        return 0
    missing = f"; {removed.not_there:,} were not there" if removed.not_there else ""
    which = f"batch {removed.journal}{repeated(arguments.key, removed.journal, before)}"
    print(f"{which}: {counted(removed.removed, 'triple')} removed{missing}")
    return 0
