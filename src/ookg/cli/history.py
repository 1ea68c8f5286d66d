"""What was added to a model and removed from it, by whom and when, and the versions that learned it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from ookg.cli.console import add_directory_argument, add_json_option, print_json, print_table

if TYPE_CHECKING:
    from ookg.storage.versions import Version

SUMMARY = "what was added and removed, and the versions"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print."""
    from ookg.storage.journals import open_journal
    from ookg.storage.versions import versions

    there, batches = versions(arguments.model), open_journal(arguments.model, arguments.journal).batches()
    if arguments.json:
        print_json({"versions": [asdict(one) for one in there], "batches": [asdict(one) for one in batches]})
        return 0
    # A version stands after the last batch that it has learned.
    rows = [((one.journal, 1, one.number), _version_row(one)) for one in there]
    rows += [
        ((one.number, 0, 0), (f"batch {one.number}", one.time, one.kind, one.changed, one.author, one.key or ""))
        for one in batches
    ]
    columns = ("", "when", "what", "triples", "who", "key")
    print_table(columns, [row for _, row in sorted(rows, key=lambda row: row[0])])
    return 0


def _version_row(version: Version) -> tuple[object, ...]:
    made = version.provenance.get("update")
    made = made if isinstance(made, dict) else {}
    what = f"updated ({made.get('mode')})" if made else "trained or imported"
    when = str((made or version.provenance).get("created", ""))
    name = f"version {version.number}" + " (the model)" * version.is_current
    return name, when, what, version.triples, "", ""
