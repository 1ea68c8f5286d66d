"""The paper's tables and figures from one command: what is missing is trained, what is there is reused.

reproduce(["link-prediction"], seeds=3) returns the cells of a table; `ookg reproduce` shows them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ookg.research.reproduction.plan import Selection as Selection
    from ookg.research.reproduction.runner import Places as Places
    from ookg.research.reproduction.runner import reproduce as reproduce
    from ookg.research.reproduction.tables import Cell as Cell

# Where each public name lives; imported when first used, so that one part works where another's libraries lack.
_HOMES = {
    "Cell": "ookg.research.reproduction.tables",
    "Places": "ookg.research.reproduction.runner",
    "Selection": "ookg.research.reproduction.plan",
    "reproduce": "ookg.research.reproduction.runner",
}
__all__ = [*_HOMES]  # noqa: PLE0604 (all of them are strings)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ookg.research.reproduction' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
