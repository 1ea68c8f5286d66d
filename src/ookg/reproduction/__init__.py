"""The paper's tables and figures from one command: what is missing is trained, what is there is reused.

reproduce(["link-prediction"], seeds=3) returns the cells of a table; `ookg reproduce` shows them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ookg.reproduction.plan import Selection as Selection
    from ookg.reproduction.runner import Places as Places
    from ookg.reproduction.runner import reproduce as reproduce
    from ookg.reproduction.tables import Cell as Cell

# Where each public name lives; imported when first used, so that one part works where another's libraries lack.
_HOMES = {
    "Cell": "ookg.reproduction.tables",
    "Places": "ookg.reproduction.runner",
    "Selection": "ookg.reproduction.plan",
    "reproduce": "ookg.reproduction.runner",
}
__all__ = [*_HOMES]  # noqa: PLE0604 (all of them are strings)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ookg.reproduction' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
