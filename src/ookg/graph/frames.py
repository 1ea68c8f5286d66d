"""Results as frames. This imports no reader: what is evaluated on a machine without one is a table too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

from ookg.errors import InputError


class Tabular(ABC):
    """Something that is a table too; only Arrow is needed for it, pandas and polars where they are asked for."""

    @abstractmethod
    def to_arrow(self) -> Any:
        """As an Arrow table."""

    def to_pandas(self) -> Any:
        """As a pandas frame."""
        _imported("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """As a polars frame."""
        return _imported("polars").from_arrow(self.to_arrow())


def _imported(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError:
        raise InputError(f"{library} is not installed; install it, or take to_arrow()") from None
