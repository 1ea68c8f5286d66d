"""How loops are compiled for the CPU. Importing it imports Numba, which takes a while: do so where it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.options import DefaultOptions

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be taken in any order (that makes them vectors); NaN and infinity keep their meaning. Only for functions that
# store nothing: a loop that stores is compiled twice, and where the arrays lie in memory decides which version runs.
# With this freedom the two would round differently.
SUMS = {"reassoc", "contract", "nsz"}


def compiled(*, leaf: bool = False, sums: bool = False) -> Callable[[Function], Function]:
    """Numba's decorator with the project's options, keeping the function's type.

    leaf: a function for inner loops, that makes no arrays but views. It is inlined, and without reference counts: their
    atomic updates would cost more than the work.
    sums: a function that only adds up, and stores nothing: it may do so in any order
    """
    options: dict[str, Any] = {"fastmath": SUMS if sums else False, "nogil": True, "error_model": "numpy"}
    if leaf:
        options["forceinline"] = True
        if hasattr(DefaultOptions, "_nrt"):  # not part of Numba's documented interface: do without if it goes away
            options["_nrt"] = False

    def decorate(function: Function) -> Function:
        try:
            return cast(Function, numba.njit(cache=True, **options)(function))
        except RuntimeError:  # no folder that a cache could be in: compile in every process
            return cast(Function, numba.njit(**options)(function))

    return decorate
