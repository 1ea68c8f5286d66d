"""Write a model with its entities' vectors in 16 bits each: half the room on disk and in memory, to be asked.

Answers change by little. Such a model is asked, extended and served like any other; an update is refused: update the
model that it was made of, and compact that again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ookg.cli.console import add_directory_argument, add_json_option, note, print_json

SUMMARY = "a model with vectors of 16 bits, half as large"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="where the smaller model goes")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Round, write and say what is saved."""
    from ookg.errors import InputError
    from ookg.model.current import Current
    from ookg.model.train import Storage
    from ookg.storage.checkpoint import read_description
    from ookg.storage.data import VECTORS
    from ookg.system.display import counted

    Storage(arguments.out, overwrite=arguments.overwrite).prepare()
    if arguments.out.resolve() == Path(arguments.model).resolve():
        raise InputError(f"{arguments.out}: is the model itself; choose another directory")
    current = Current.load(arguments.model, journal=arguments.journal)
    waiting = current.position - current.version.checkpoint.journal
    if waiting and current.is_changed:
        problem = f"{counted(waiting, 'batch', 'batches')} of its journal {'is' if waiting == 1 else 'are'}"
        raise InputError(f"{arguments.model}: {problem} not in its vectors; run `ookg update {arguments.model}` first")
    current.version.compacted().save(arguments.out)
    before, after = (read_description(Path(place))["bytes"][VECTORS] for place in (arguments.model, arguments.out))
    if arguments.json:
        print_json({"model": str(arguments.out), "vector_bytes": after, "vector_bytes_before": before})
    else:
        note(f"{arguments.out}: vectors of {after / 1e6:,.1f} MB instead of {before / 1e6:,.1f} MB")
    return 0
