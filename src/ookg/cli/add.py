"""Add triples to a model: they stay with its directory, and every command knows them from then on.

New entities and relations get vectors at once, from their triples. Facts between known entities are known answers and
evidence at once, and in the vectors after `ookg update`. When the command ends well, the triples are on the disk.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ookg.cli.console import (
    add_directory_argument,
    add_format_options,
    add_json_option,
    add_language_option,
    add_prefix_option,
    names_among,
    note,
    print_json,
    print_notes,
    read_given,
    repeated,
)

SUMMARY = "add triples to a model, for good"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument("triples", metavar="TRIPLES", help="the triples to add")
    parser.add_argument(
        "--key", metavar="K", help="a name for this batch: sent again under the same one, it counts once"
    )
    parser.add_argument("--author", metavar="A", help="who says so (this system's user)")
    add_language_option(parser)
    add_prefix_option(parser)
    add_json_option(parser)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Add and print."""
    from ookg.model.living import LivingModel
    from ookg.system.display import counted

    living = LivingModel(arguments.model, journal=arguments.journal)
    triples = read_given(arguments, arguments.triples, living.model)
    names = names_among(triples, arguments.triples, arguments.language.split(","))
    before = living.journal.last
    added = living.add(triples, key=arguments.key, author=arguments.author)
    print_notes([*triples.notes, *added.notes])
    if names is not None:
        named = len(living.names)
        stored = living.add_names(names.with_more(living.names))  # what has a name keeps it
        note(f"{arguments.model}: {counted(len(stored) - named, 'name')} stored")
    if arguments.json:
        print_json(asdict(added))
        return 0
    new = [counted(added.new_entities, "new entity", "new entities"), counted(added.new_relations, "new relation")]
    known = f"; {added.known_before:,} were there already" if added.known_before else ""
    what = f"{counted(added.added, 'triple')} added, with {' and '.join(new)}{known}"
    print(f"batch {added.journal}{repeated(arguments.key, added.journal, before)}: {what}")
    return 0
