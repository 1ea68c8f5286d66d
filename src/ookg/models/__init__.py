"""Translational models: each file holds one, its equation, its distance and its two inverses side by side.

`geometry.py` says what a model must have and what it may declare. A new model is a file here and a line in
`_REGISTERED`: settings, the command line, files and the tests know it from there.

Importing this package brings no PyTorch: a model is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ookg.errors import InputError

if TYPE_CHECKING:
    from ookg.models.geometry import Geometry as Geometry
    from ookg.models.projected import Projected as Projected
    from ookg.models.rotate import RotatE as RotatE
    from ookg.models.transe import TransE as TransE
    from ookg.models.transh import TransH as TransH
    from ookg.models.transr import TransR as TransR


@dataclass(frozen=True)
class Registered:
    """Where a model is.

    module, class_name: its class, whose `name` is what it is registered by
    settings: those of the training settings that only some models have, and this one does
    """

    module: str
    class_name: str
    settings: tuple[str, ...] = ()

    @property
    def geometry(self) -> type[Geometry]:
        """The class."""
        geometry: type[Geometry] = getattr(import_module(self.module), self.class_name)
        return geometry


_REGISTERED = {
    "transe": Registered("ookg.models.transe", "TransE"),
    "rotate": Registered("ookg.models.rotate", "RotatE"),
    "transh": Registered("ookg.models.transh", "TransH"),
    "transr": Registered("ookg.models.transr", "TransR", settings=("relation_dim",)),
}


class _Geometries(Mapping[str, "type[Geometry]"]):
    """The classes of all models by name; the names alone import nothing."""

    def __getitem__(self, name: str) -> type[Geometry]:
        return _REGISTERED[name].geometry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in _REGISTERED

    def __iter__(self) -> Iterator[str]:
        return iter(_REGISTERED)

    def __len__(self) -> int:
        return len(_REGISTERED)


GEOMETRIES: Mapping[str, type[Geometry]] = _Geometries()


def own_settings(name: str) -> tuple[str, ...]:
    """The training settings that this model has and others lack."""
    return _REGISTERED[name].settings


def models_with(setting: str) -> list[str]:
    """The models that have a training setting of their own."""
    return [name for name, model in _REGISTERED.items() if setting in model.settings]


def registered_name(geometry: Geometry) -> str:
    """The name by which a model can be found again; one that is not registered is refused."""
    if geometry.name not in GEOMETRIES or GEOMETRIES[geometry.name] is not type(geometry):
        problem = f"{type(geometry).__name__} is not registered as {geometry.name!r}, so it could not be read again"
        raise InputError(f"{problem}; register it in ookg/models/__init__.py")
    return geometry.name


def refinable_models() -> str:
    """The models whose new vectors may be fitted, in words."""
    *others, last = [model.__name__ for model in GEOMETRIES.values() if model.can_refine]
    return f"{', '.join(others)} and {last}"


_HOMES = {"Geometry": "ookg.models.geometry", "Projected": "ookg.models.projected"} | {
    model.class_name: model.module for model in _REGISTERED.values()
}
__all__ = [  # noqa: PLE0604 (all of them are strings)
    *_HOMES,
    "GEOMETRIES",
    "Registered",
    "models_with",
    "own_settings",
    "refinable_models",
    "registered_name",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
