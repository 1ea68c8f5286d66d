"""Matplotlib, which draws figures: an optional library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ookg.system.extras import missing

# The same input gives the same file, byte for byte.
METADATA: Mapping[str, dict[str, None]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def import_matplotlib() -> Any:
    """matplotlib, or one line that says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise missing("a figure", "matplotlib", "plots") from None
    return matplotlib
