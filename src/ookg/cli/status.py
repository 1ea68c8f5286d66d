"""How much is new since a model's version, what newcomers are worth as they are, and what an update would take."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from ookg.cli.console import add_directory_argument, add_json_option, print_json
from ookg.cli.index import index_in_words
from ookg.cli.names import named_ids
from ookg.cli.network import network_in_words

if TYPE_CHECKING:
    from ookg.model.living import Status

SUMMARY = "how much is new, and what an update would take"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print."""
    from ookg.model.living import LivingModel

    living = LivingModel(arguments.model, journal=arguments.journal)
    status, named = living.status(), named_ids(living)
    if arguments.json:
        print_json(status.to_dict() | {"names": asdict(named)})
        return 0
    for line in status_in_words(status):
        print(line)
    if named.names:
        print(named.in_words())
    index = index_in_words(arguments.model)
    if index is not None:
        print(index)
    if status.network is not None:
        print(network_in_words(status.network))
    return 0


def status_in_words(status: Status) -> list[str]:
    """A line for each thing to know."""
    from ookg.system.display import counted

    new = [counted(status.new_entities, "new entity", "new entities"), counted(status.new_relations, "new relation")]
    since = f"since version {status.version}: {counted(status.batches, 'batch', 'batches')}"
    share = f"{status.share:.1%} of the graph"
    changed = f"{counted(status.added, 'triple')} added and {status.removed:,} removed ({share})"
    lines = [f"{since}, {changed}, {' and '.join(new)}"]
    if status.expected is not None:
        hits = f"{status.expected.hits_at_10:.0%} of right answers among the first ten"
        lines.append(f"new entities until an update: {hits}, MRR {status.expected.mrr:.3f} (expected)")
    elif status.new_entities:
        lines.append("new entities until an update: not calibrated (`ookg audit DIR --save` does it)")
    if not (status.added or status.removed):
        lines.append("an update: nothing to learn")
    elif status.update is None:
        lines.append(f"an update: not possible: {status.why_not}")
    else:
        seconds, where = status.update.seconds, status.update.device
        time = "" if seconds is None else f", about {seconds:.1f} s if steps take as long as before (on {where})"
        lines.append(f"an update: {counted(status.update.steps, 'step')}{time}; its gain: not measured")
    if status.unfinished is not None:
        begun = f"an update up to batch {status.unfinished} was started and has not finished"
        lines.append(f"{begun}; if it was interrupted, repeat the command with the same options to go on")
    return lines
