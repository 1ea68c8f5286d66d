"""The command line: one module a command, each with `SUMMARY`, `configure(parser)` and `run(arguments)`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword

from ookg.errors import OokgError, TrainingInterrupted

COMMANDS = ("train", "embed", "predict", "classify", "evaluate", "import", "export", "datasets", "demo")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 2 bad input, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    # A command's own module is imported only when it is the one to run.
    named = [name for name in COMMANDS if name in argv[:1]]
    arguments = _parser(named or list(COMMANDS)).parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except TrainingInterrupted as stop:
        print(f"ookg: {stop}", file=sys.stderr)
        return 130
    except OokgError as error:
        print(f"ookg: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ookg: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser(commands: list[str]) -> argparse.ArgumentParser:
    from ookg import __version__

    parser = argparse.ArgumentParser(
        prog="ookg", description="Vectors for entities that are new to a trained knowledge graph, without retraining."
    )
    parser.add_argument("--version", action="version", version=f"ookg {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in commands:
        module = import_module(f"ookg.cli.{name}{'_' * iskeyword(name)}")
        subparser = subparsers.add_parser(name, help=module.SUMMARY, description=module.__doc__)
        module.configure(subparser)
        subparser.set_defaults(run=module.run)
    return parser
