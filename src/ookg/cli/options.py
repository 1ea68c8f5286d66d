"""The library names parameters (`resume=True`); whoever reads the command line reads options (--resume)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

IN_BACKTICKS = re.compile("(?<!['\"])`([^`]+)`")  # what is quoted is a value
PARAMETER = re.compile(r"([a-z][a-z0-9_]*)(?:=(.+))?")
ANY_VALUE, QUOTES = "...", "\"'"
# What the command line says in another way: the option, and how it is said with it.
OTHERWISE = {
    "Model.tune": ("tasks", "without --tasks"),
    "RefineSettings.lr": ("refine_lr", "--refine-lr"),
    "retraining=None": ("quick", "--quick"),
    "to=None": ("to", "--to file"),
}

_running: dict[str, argparse.Action] = {}  # the options of the command that runs, by their parameters


def speak_of(parser: argparse.ArgumentParser) -> None:
    """Let `in_options` know the options of the command that runs."""
    _running.clear()
    _running.update((action.dest, action) for action in _options(parser))


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _options(subparser)
        elif action.option_strings:
            yield action


def in_options(text: str) -> str:
    """A text in which parameters are called as the command that runs calls them; what it does not have stays.

    `dim` becomes --dim, `tables="disk"` --tables disk, `resume=True` --resume, and `valid=...` --valid FILE.
    """
    return IN_BACKTICKS.sub(lambda quoted: _option(quoted[1]) or quoted[0], text)


def _option(said: str) -> str | None:
    """What an option of the command says for a parameter; None where it has no such option."""
    if said in OTHERWISE:
        name, words = OTHERWISE[said]
        return words if name in _running else None
    parameter = PARAMETER.fullmatch(said)
    action = _running.get(parameter[1]) if parameter is not None else None
    if parameter is None or action is None:
        return None
    option, value = next(name for name in action.option_strings if name.startswith("--")), parameter[2]
    if value is None or value == "True":
        return option
    if value == "False":
        return next((name for name in action.option_strings if name.startswith("--no-")), None)
    return f"{option} {action.metavar or action.dest.upper() if value == ANY_VALUE else value.strip(QUOTES)}"
