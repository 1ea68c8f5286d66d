"""What the library calls a parameter, the command line calls an option."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ookg
from conftest import random_triples
from ookg.cli import command_parser, main
from ookg.cli.options import OTHERWISE, in_options, speak_of
from ookg.errors import InputError
from ookg.graph.triples import write_triples

ROOT = Path(ookg.__file__).parent
COMMAND = re.compile("(^|`)ookg [^`]*(`|$)")  # a whole command is for whoever reads it


def texts(path: Path) -> Iterator[str]:
    """The texts in a module that are no docstrings; {} where a value stands in one."""
    tree = ast.parse(path.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def test_only_the_command_line_speaks_of_options() -> None:
    others = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "cli"]
    others = [path for path in others if path.name != "__main__.py"]  # a command line of its own
    assert len(others) > 100
    said = [(path.name, text) for path in others for text in texts(path)]
    assert [(name, text) for name, text in said if re.search(r"(?<![\w-])--[a-z{]", COMMAND.sub("", text))] == []


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("train", "lower `dim`, or use `tables=\"disk\"`", "lower --dim, or use --tables disk"),
        ("train", "continue it with `resume=True`", "continue it with --resume"),
        ("train", "say how often (`validate_every`)", "say how often (--validate-every)"),
        ("import", "(or say `normalised=False`)", "(or say --no-normalised)"),
        ("import", "give `vocabulary=...` or `entities=...`", "give --vocabulary FOLDER or --entities FILE"),
        ("import", "`norm=2` sets it", "--norm 2 sets it"),
        ("audit", "`retraining=None` takes its vectors as they are", "--quick takes its vectors as they are"),
        ("journal", "move it with `to=None` first", "move it with --to file first"),
        ("datasets", "write over it with `overwrite=True`", "write over it with --overwrite"),
        # What the command has no option for stays.
        ("predict", "lower `dim`, `resume=True`, `retraining=None`", "lower `dim`, `resume=True`, `retraining=None`"),
        ("predict", "unknown entity '`top`'; `ookg tune` helps", "unknown entity '`top`'; `ookg tune` helps"),
    ],
)  # fmt: skip
def test_a_parameter_is_said_as_the_option_of_the_command(command: str, text: str, expected: str) -> None:
    speak_of(command_parser([command]))
    assert in_options(text) == expected


def test_what_is_said_otherwise_is_an_option_of_some_command() -> None:
    for command, said in (("tune", "Model.tune"), ("predict", "RefineSettings.lr"), ("tune", "retraining=None")):
        speak_of(command_parser([command]))
        assert in_options(f"`{said}`") == OTHERWISE[said][1]


def test_the_same_error_in_both_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, model, options = (
        tmp_path / "graph.tsv",
        tmp_path / "model",
        ["--dim", "4", "--steps", "2", "--device", "cpu"],
    )
    write_triples(graph, random_triples(0))
    train = ["train", str(graph), "--out", str(model), *options]
    assert main(train) == 0
    capsys.readouterr()
    assert main(train) == 2
    problem = f"{model}: holds a model; choose another directory, or replace it with "
    assert capsys.readouterr().err.splitlines()[-1] == f"ookg: {problem}--overwrite"
    with pytest.raises(InputError) as refusal:
        ookg.train(graph, out=model, device="cpu")
    assert str(refusal.value) == f"{problem}`overwrite=True`"
    with pytest.raises(InputError, match="use `device` cpu or auto"):
        ookg.load(model, device="cuda:99")
