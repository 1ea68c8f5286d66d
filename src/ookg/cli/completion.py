"""Print a script that lets a shell complete commands and options.

ookg completion bash > ~/.local/share/bash-completion/completions/ookg
"""

from __future__ import annotations

import argparse
from typing import Any

from ookg.errors import InputError

SUMMARY = "a script for completion in bash, zsh or tcsh"
SHELLS = ("bash", "zsh", "tcsh")
# What stands for a path in the help of the options.
FILES, FOLDERS = ("FILE", "TRIPLES", "GRAPH"), ("DIR", "FOLDER", "MODEL")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from ookg.cli import COMMANDS, command_parser

    try:
        import shtab
    except ImportError as error:
        raise InputError(f"completion needs shtab ({error}); pip install shtab") from error
    parser = command_parser(list(COMMANDS))
    _mark_paths(parser, shtab)
    print(shtab.complete(parser, arguments.shell))
    return 0


def _mark_paths(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Tell what is a file and what a folder, by the words of the help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                _mark_paths(subparser, shtab)
            continue
        words = str(action.metavar or action.dest).upper()
        if any(word in words for word in FILES):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif any(word in words for word in FOLDERS):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
