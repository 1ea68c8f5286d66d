"""The errors a user meets: what was got, what was expected, what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# What to do with a model that came without its training triples.
IMPORT_TRIPLES = "import it with its triples (`ookg import ... --triples FILE`)"

MANY = 50_000  # among more names, the closest ones would take seconds to find
LONGEST = 1_200  # characters of a message; a value from a damaged file may be longer than any screen


def one_line(text: str) -> str:
    """A text without its line breaks; of a very long one the beginning and the end, where the remedy stands."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 405]} ... {line[-400:]}"


class OokgError(Exception):
    """Anything `ookg` refuses; its text is one line that a user can act on."""

    def __init__(self, text: str = "") -> None:
        super().__init__(one_line(text))


class InputError(OokgError, ValueError):
    """An argument or a file that cannot be used as it is."""


def lacks_triples(came_without: bool, wanted: str) -> InputError:
    """Without triples to work on: a model came without those that it was trained on, or all of them were removed."""
    if came_without:
        return InputError(f"this model came without its training triples, and {wanted}; {IMPORT_TRIPLES}")
    return InputError(f"no triple is left in this model, and {wanted}; add some, and run `ookg update`")


class FileError(InputError):
    """A problem in a file: `file:line: problem; remedy`."""

    def __init__(self, path: str | Path, problem: str, remedy: str, line: int | None = None) -> None:
        place = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{place}: {problem}; {remedy}")


class UnknownName(InputError):
    """An entity, a relation or something else that is asked for by a name that nothing has."""


class KeyTaken(InputError):
    """A key under which something else was sent before."""


class NoRoom(InputError):
    """A disk that takes no more: nothing was written."""


class NowBusy(InputError):
    """Somebody else is at work; the same succeeds later."""


class DatasetError(InputError):
    """A data set that breaks the rules of the folder format."""


class ModelFileError(OokgError):
    """A model directory that is missing, damaged or from a newer version."""


def damaged_file(path: str | Path, problem: str) -> ModelFileError:
    """The error for a file of a model that holds what cannot be."""
    return ModelFileError(f"{path}: damaged model file ({problem}); the model is damaged, restore it or train again")


class TrainingInterrupted(OokgError):
    """Training was stopped; its state is on disk, and `resume=True` continues it."""


class ModelNotStored(InputError):
    """Training is done, and its model could not be written.

    model: the trained `ookg.Model`, to be saved elsewhere
    is_resumable: whether `resume=True` stores it without training
    """

    def __init__(self, problem: str, model: Any, is_resumable: bool) -> None:
        super().__init__(problem)
        self.model, self.is_resumable = model, is_resumable


def unknown_name(kind: str, name: str, known: list[str], remedy: str) -> InputError:
    """An error for a name that does not exist, with the closest existing ones."""
    from difflib import get_close_matches

    # An IRI is far from its last part, which is how people call it.
    close = [one for one in known if re.split("[/#]", one)[-1].lower() == name.lower()][:3]
    if not close and len(known) <= MANY:
        close = get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else remedy
    return UnknownName(f"unknown {kind} {name!r}; {hint}")
