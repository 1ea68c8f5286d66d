"""The command line: one module a command, each with `SUMMARY`, `configure(parser)` and `run(arguments)`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import NoReturn

from ookg.errors import OokgError, TrainingInterrupted

COMMANDS = (
    "train",
    "embed",
    "predict",
    "classify",
    "evaluate",
    "audit",
    "tune",
    "import",
    "export",
    "datasets",
    "reproduce",
    "determinacy",
    "demo",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 2 bad input, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    # A command's own module is imported only when it is the one to run.
    named = [name for name in COMMANDS if name in argv[:1]]
    arguments = _parser(named or list(COMMANDS)).parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a label shows its code
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
        _give_up_output()
        return 0
    except MemoryError as error:
        print(f"ookg: not enough memory ({error}); use a smaller --dim, or less data at once", file=sys.stderr)
        return 2
    except OSError as error:  # a path or device that no command has thought of
        print(f"ookg: {error}; check the path and the room on its disk", file=sys.stderr)
        _give_up_output()
        return 2
    return code


def _give_up_output() -> None:
    """Where standard output takes nothing more, keep Python from trying again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Tells a wrong use in one line."""

    def error(self, message: str) -> NoReturn:
        """One line, exit code 2."""
        self.exit(2, f"ookg: {message}; see `{self.prog} --help`\n")


def _parser(commands: list[str]) -> argparse.ArgumentParser:
    from ookg import __version__

    parser = _Parser(
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
