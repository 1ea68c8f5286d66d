"""Functions that are compiled where Numba is there, and run as they are where it is not: slowly, to the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    from ookg.kernels.cpu_compile import compiled
except ImportError:

    def compiled(**options: Any) -> Callable[[Function], Function]:  # type: ignore[misc]
        """Leave a function as it is."""
        del options
        return lambda function: function


__all__ = ["compiled"]
