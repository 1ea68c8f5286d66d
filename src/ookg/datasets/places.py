"""Where data sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where downloads are kept: $XDG_CACHE_HOME/ookg/datasets, or ~/.cache/ookg/datasets."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ookg" / "datasets"


def data_folders(data: str | Path | None = None) -> list[Path]:
    """The folders that may hold data sets: `data`, or else the one that OOKG_DATA names and the download cache."""
    places = [data] if data is not None else [os.environ.get("OOKG_DATA"), cache_folder()]
    return [Path(place) for place in places if place]
