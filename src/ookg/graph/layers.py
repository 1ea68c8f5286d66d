"""A mapping that is never changed: a changed copy shares what is old with it, and costs what is new."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_GONE: Any = object()


class Layers(Mapping[Key, Value], Generic[Key, Value]):
    """Dictionaries on top of each other; the uppermost that has a key decides.

    A layer is merged into the one below once it is half as large, so there are few of them, and adding one by one costs
    little on average. Whoever holds one reads the same forever, whatever is made of it meanwhile.
    """

    __slots__ = ("_layers", "_size")

    def __init__(self, values: Mapping[Key, Value] | None = None) -> None:
        self._layers: tuple[dict[Key, Value], ...] = (dict(values),) if values else ()
        self._size = len(values or ())

    def changed(self, changes: Mapping[Key, Value], without: tuple[Key, ...] | list[Key] = ()) -> Layers[Key, Value]:
        """A mapping with some values new or changed, and without some keys."""
        layer: dict[Key, Any] = dict(changes) | dict.fromkeys(without, _GONE)
        changed: Layers[Key, Value] = Layers()
        changed._size = self._size
        if self._layers:
            for key, value in layer.items():
                changed._size += (value is not _GONE) - (key in self)
        else:
            changed._size = len(changes)
        layers = list(self._layers)
        while layers and 2 * len(layer) >= len(layers[-1]):
            layer = layers.pop() | layer
        if not layers:
            layer = {key: value for key, value in layer.items() if value is not _GONE}
        changed._layers = (*layers, layer) if layer else tuple(layers)
        return changed

    def __getitem__(self, key: Key) -> Value:
        for layer in reversed(self._layers):
            if key in layer:
                value = layer[key]
                if value is _GONE:
                    break
                return value
        raise KeyError(key)

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        for layer in reversed(self._layers):
            value = layer.get(key, self)
            if value is not self:
                return default if value is _GONE else value
        return default

    def __contains__(self, key: object) -> bool:
        return self.get(key, _GONE) is not _GONE  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Key]:
        seen: set[Key] = set()
        for number in range(len(self._layers) - 1, -1, -1):
            layer = self._layers[number]
            for key, value in layer.items():
                if key not in seen:
                    seen.add(key)
                    if value is not _GONE:
                        yield key

    def __repr__(self) -> str:
        return f"Layers({dict(self)!r})"
