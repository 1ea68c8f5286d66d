"""Where what was added and removed lies: in the model directory, or in PostgreSQL."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ookg.cli.console import add_directory_argument, add_json_option, print_json

SUMMARY = "move the journal to PostgreSQL, or back"
FILE = "file"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
    move = actions.add_parser("move", help="move all batches, with their numbers, times, authors and keys")
    add_directory_argument(move)
    move.add_argument(
        "--to", metavar="PLACE", required=True, help=f"postgresql://user@host/database, or `{FILE}`: a file in DIR"
    )
    add_json_option(move)


def run(arguments: argparse.Namespace) -> int:
    """Move it."""
    from ookg.storage.moving import move_journal
    from ookg.system.display import counted

    moved = move_journal(arguments.model, None if arguments.to == FILE else arguments.to, arguments.journal)
    if arguments.json:
        print_json(asdict(moved))
        return 0
    what = f"{counted(moved.batches, 'batch', 'batches')} with {counted(moved.changes, 'change')}"
    remedy = "leave --journal and OOKG_JOURNAL out" if arguments.to == FILE else "give --journal or set OOKG_JOURNAL"
    print(f"{what} moved to {moved.place}; {remedy} from now on")
    return 0
