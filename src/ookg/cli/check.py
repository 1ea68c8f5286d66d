"""Read every file of a model and hold it against the digest that was stored when it was written.

Loading a model checks its small files; this command reads the vectors and all other files too. The exit code is 2 where
any of them is damaged.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ookg.cli.console import add_directory_argument, add_json_option, note, print_json, print_table

SUMMARY = "whether a model's files are as they were written"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check and print."""
    from ookg.simulation.choice import check_stored_choice
    from ookg.storage.checkpoint import check_model

    checks = check_model(arguments.model, arguments.journal)
    check_stored_choice(arguments.model)
    damaged = [file.name for file in checks if file.problem is not None]
    if arguments.json:
        print_json({"ok": not damaged, "files": [asdict(file) for file in checks]})
    else:
        fine = {True: "ok", False: "of the right size; no digest is stored"}
        print_table(
            ("file", "bytes", "state"),
            [(file.name, file.bytes, file.problem or fine[file.is_digested]) for file in checks],
        )
    if not all(file.is_digested for file in checks):
        note("note: this model was written without digests; from now on `ookg train` and `ookg import` store them")
    if damaged:
        note(f"ookg: {arguments.model}: {len(damaged)} damaged; restore what is named above, or make it anew")
    return 2 if damaged else 0
