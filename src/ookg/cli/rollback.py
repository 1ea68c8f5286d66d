"""Make an earlier version the model again; what the journal has after it applies again, as if it had just come."""

from __future__ import annotations

import argparse

from ookg.cli.console import add_directory_argument, add_json_option, print_json, whole_number
from ookg.cli.index import index_in_words

SUMMARY = "make an earlier version the model again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument(
        "version",
        metavar="VERSION",
        nargs="?",
        type=whole_number,
        help="its number in `ookg history` (the one it was made from)",
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Roll back and print."""
    from ookg.storage.journals import open_journal
    from ookg.storage.versions import roll_back
    from ookg.system.display import counted

    journal = open_journal(arguments.model, arguments.journal)  # refused before anything is changed
    version = roll_back(arguments.model, arguments.version)
    later = journal.last - version.journal
    if arguments.json:
        print_json({"version": version.number, "journal": version.journal, "pending": later})
        return 0
    pending = counted(later, "batch", "batches")
    print(f"version {version.number} is the model; not in its vectors: {pending} that came after it")
    index = index_in_words(arguments.model)
    if index is not None:
        print(index)
    return 0
