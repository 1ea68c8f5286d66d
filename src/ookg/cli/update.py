"""Let a model's vectors learn what was added and removed; the result is the next version, in the model's place.

By default all vectors may move, and known triples are learned on with the added ones. --freeze leaves known vectors bit
for bit and fits the new ones; --new-only never looks at known triples, and holds known vectors near where they were.
What is added while it runs stays for the next update. Ctrl-C keeps the state: the same command goes on.
"""

from __future__ import annotations

import argparse

from ookg.cli.console import (
    add_device_option,
    add_directory_argument,
    add_json_option,
    print_json,
    print_notes,
    whole_number,
)
from ookg.cli.index import index_in_words

SUMMARY = "learn what was added and removed: a new version"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument("--steps", type=whole_number, metavar="N", help="how many steps (by the share of what is new)")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after about S seconds")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--freeze", action="store_true", help="known vectors stay bit for bit; the new ones are fitted")
    way.add_argument("--new-only", action="store_true", help="learn from added triples alone; known vectors are held")
    parser.add_argument(
        "--keep-versions", type=whole_number, metavar="N", default=3, help="how many earlier versions to keep (3)"
    )
    parser.add_argument(
        "--validate",
        type=float,
        metavar="SHARE",
        help="update twice, first without this share of the added triples, and report what that gains on them",
    )
    add_device_option(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Update and print."""
    from ookg.model.updating import update_model
    from ookg.system.display import counted
    from ookg.training.continuing import Mode, UpdateSettings

    mode: Mode = "freeze" if arguments.freeze else "new-only" if arguments.new_only else "all"
    settings = UpdateSettings(mode=mode, steps=arguments.steps, seconds=arguments.seconds)
    updated = update_model(
        arguments.model,
        settings,
        keep=arguments.keep_versions,
        validate=arguments.validate,
        device=arguments.device,
        progress=True,
        journal=arguments.journal,
    )
    print_notes(updated.notes)
    if arguments.json:
        print_json(updated.to_dict())
        return 0
    print(f"version {updated.version}: {counted(updated.steps, 'step')} in {updated.seconds:.1f} s")
    new = [counted(updated.new_entities, "new entity", "new entities"), counted(updated.new_relations, "new relation")]
    print(f"learned {counted(updated.added, 'added triple')} with {' and '.join(new)}; {updated.removed:,} removed")
    moved = updated.moved
    print(f"known vectors moved {moved.mean:.3f} on average, {moved.largest:.3f} at most (1: the mean gap of two)")
    if updated.gained is not None:
        gained = updated.gained
        held = counted(gained.triples, "added triple")
        print(f"MRR on {held} that were held out: {gained.before:.3f} before, {gained.after:.3f} after")
    index = index_in_words(arguments.model)
    if index is not None:
        print(index)
    if updated.pending:
        print(f"{counted(updated.pending, 'batch', 'batches')} came meanwhile; `ookg update` learns them next")
    return 0
