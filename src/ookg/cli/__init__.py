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

from ookg.cli.options import in_options, speak_of
from ookg.errors import InputError, OokgError, TrainingInterrupted, one_line
from ookg.system.machine import lacks_memory
from ookg.system.progress import silence, tell

SMALLER = "use a smaller --dim, --batch or --negatives, or less data at once"
MAY_BE_EMPTY = ("--author",)  # to say nobody; else it is a path or a name that was lost on the way

COMMANDS = (
    "train",
    "embed",
    "predict",
    "classify",
    "neighbors",
    "add",
    "remove",
    "update",
    "status",
    "history",
    "journal",
    "rollback",
    "names",
    "evaluate",
    "compare",
    "audit",
    "tune",
    "calibrate",
    "index",
    "network",
    "import",
    "export",
    "compact",
    "check",
    "datasets",
    "reproduce",
    "determinacy",
    "serve",
    "keys",
    "completion",
    "demo",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 2 bad input, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open to the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a label shows its code
    try:
        code = _run(argv)
        sys.stdout.flush()
    except TrainingInterrupted as stop:
        tell(f"ookg: {in_options(str(stop))}")
        return 130
    except OokgError as error:
        tell(f"ookg: {in_options(str(error))}")
        return 2
    except KeyboardInterrupt:
        tell("ookg: interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        _give_up_output()
        return 0
    except MemoryError as error:
        tell(one_line(f"ookg: not enough memory ({error}); {SMALLER}"))
        return 2
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
        tell(f"ookg: not enough memory ({str(error).splitlines()[0]}); {SMALLER}")
        return 2
    except OSError as error:  # a path or device that no command has thought of
        tell(one_line(f"ookg: {error}; check the path and the room on its disk"))
        _give_up_output()
        return 2
    return code


def _run(argv: list[str]) -> int:
    for place, text in enumerate(argv):
        said = argv[place - 1] if place and not text else text.removesuffix("=")  # --out '' and --out=
        is_option = said.startswith("--") and said != "--" and "=" not in said
        if (not text or text == f"{said}=") and is_option and said not in MAY_BE_EMPTY:
            raise InputError(f"{said} ''; give it a value (a variable of the shell may be empty)")
        if text.startswith("--") and text.endswith("=--"):  # which argparse takes for no value at all
            raise InputError(f"argument {text!r}; -- is no value, give another")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"argument {text!r} is not UTF-8 text; rename the file, or write the option anew")
    # A command's own module is imported only when it is the one to run.
    named = [name for name in COMMANDS if name in argv[:1]]
    parser = command_parser(named or list(COMMANDS))
    if not argv:
        parser.print_help()
        return 0
    arguments, others = parser.parse_known_args(argv)
    if others:  # argparse would point to the help of all commands
        arguments.parser.error(f"unrecognized arguments: {' '.join(others)}")
    speak_of(arguments.parser)
    code: int = arguments.run(arguments)
    return code


def _give_up_output() -> None:
    """Where standard output takes nothing more, keep Python from trying again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)


class _Parser(argparse.ArgumentParser):
    """Reports wrong use in one line."""

    def error(self, message: str) -> NoReturn:
        """One line, exit code 2."""
        self.exit(2, one_line(f"ookg: {message}; see `{self.prog} --help`") + "\n")


def command_parser(commands: list[str]) -> argparse.ArgumentParser:
    """The options of some commands."""
    from ookg.version import __version__

    parser = _Parser(
        prog="ookg", description="Vectors for entities that are new to a trained knowledge graph, without retraining."
    )
    parser.add_argument("--version", action="version", version=f"ookg {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in commands:
        module = import_module(f"ookg.cli.{name}{'_' * iskeyword(name)}")
        subparser = subparsers.add_parser(name, help=module.SUMMARY, description=module.__doc__)
        module.configure(subparser)
        subparser.set_defaults(run=module.run, parser=subparser)
    return parser
