"""Rooms, the folders of the package, import each other in one direction."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import ookg

ROOT = Path(ookg.__file__).parent
LOOSE = {"__init__", "__main__", "errors", "types", "version"}


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("ookg", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "ookg"


def imports() -> dict[str, set[str]]:
    """The modules that each module imports: anywhere in it, also in functions and for types alone."""
    names = modules()
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name} has a relative import"
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found[name].add(whole if whole in names else str(node.module))
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
        found[name] = {other for other in found[name] if other.split(".")[0] == "ookg"}
    return found


def rooms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for module, others in imports().items():
        if module not in ("ookg", "ookg.__main__"):  # the front door names all that is public
            found[room_of(module)] |= {room_of(other) for other in others} - {room_of(module)}
    return found


def test_no_room_imports_in_a_circle() -> None:
    try:
        order = list(TopologicalSorter(rooms()).static_order())
    except CycleError as error:
        raise AssertionError(f"rooms import each other: {' -> '.join(error.args[1])}") from None
    assert order.index("graph") < order.index("newcomers") < order.index("model") < order.index("cli")
    assert order.index("model") < order.index("service") < order.index("cli")


def test_nothing_but_the_command_line_imports_research() -> None:
    assert {room for room, others in rooms().items() if "research" in others} == {"cli"}


def test_nothing_but_the_command_line_imports_the_service() -> None:
    assert {room for room, others in rooms().items() if "service" in others} == {"cli"}


def test_nothing_but_the_command_line_imports_spark() -> None:
    assert {room for room, others in rooms().items() if "spark" in others} <= {"cli"}
    assert "model" in rooms()["spark"]


def test_storage_knows_files_and_tables_alone() -> None:
    assert rooms()["storage"] <= {"errors", "types", "system", "graph", "models", "version"}


def test_nothing_lies_loose_at_the_top() -> None:
    assert {path.stem for path in ROOT.glob("*.py")} == LOOSE


def test_a_circle_is_noticed() -> None:
    with pytest.raises(CycleError):
        list(TopologicalSorter(rooms() | {"graph": {"cli"}}).static_order())
