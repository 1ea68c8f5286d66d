"""Results as frames. This imports no reader: what is evaluated on a machine without one is a table too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from ookg.errors import InputError

if TYPE_CHECKING:
    from ookg.graph.names import Names

# The columns of ids, and those of their names.
TRIPLE_NAMES = {column: f"{column}_name" for column in ("head", "relation", "tail")}


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


class NamedTabular(Tabular):
    """A table of ids, with columns of names where the model that they are of has some.

    name_columns: of which columns, and what the columns of names are called
    find_names: what reads the names, when they are first needed; None where there are none
    """

    name_columns: ClassVar[Mapping[str, str]] = TRIPLE_NAMES
    find_names: Callable[[], Names] | None

    @abstractmethod
    def id_table(self) -> Any:
        """As an Arrow table, without columns of names."""

    def to_arrow(self) -> Any:
        """As an Arrow table; where the model has names, with a column of names for each column of ids."""
        table = self.id_table()
        return table if self.find_names is None else with_names(table, self.find_names(), self.name_columns)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: of the names those that it has, in place of how to read all."""
        if self.find_names is None:
            return vars(self)
        table, names = self.id_table(), self.find_names()
        labels = {label for column in self.name_columns for label in table.column(column).to_pylist() if label}
        return vars(self) | {"find_names": _Kept(names.among(sorted(labels)))}


@dataclass(frozen=True)
class _Kept:
    """Names that were read before."""

    names: Names

    def __call__(self) -> Names:
        return self.names


def with_names(table: Any, names: Names, columns: Mapping[str, str] = TRIPLE_NAMES) -> Any:
    """An Arrow table with columns of names, null for an id without one; as it is where there are no names at all."""
    import pyarrow as pa  # a machine that only computes has none

    if not len(names):
        return table
    for column, name in columns.items():
        called = [None if label is None else names.name(label) for label in table.column(column).to_pylist()]
        table = table.append_column(name, pa.array(called, pa.string()))
    return table


def _imported(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError:
        raise InputError(f"{library} is not installed; install it, or take to_arrow()") from None
