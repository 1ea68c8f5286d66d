"""Files that come with the package and are no code: documents, results, pins."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def shipped(name: str) -> Path | None:
    """Where a file or folder of that name lies, in an installed package or in a clone; None where there is none."""
    clone = PACKAGE.parents[1]
    places = [PACKAGE / "shipped" / name]
    if (clone / "pyproject.toml").is_file() and clone / "src" / PACKAGE.name == PACKAGE:
        places.append(clone / name)
    return next((place for place in places if place.exists()), None)
