"""The cases, by their number: a damaged copy of sound inputs and a command, a damaged option, or a damaged frame."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from fuzz.inputs import MODEL, TRAINING, Kind, kinds, seal
from fuzz.mutations import damage
from ookg.cli import command_parser, main
from ookg.errors import OokgError
from ookg.model.model import Model
from ookg.system.progress import tell

OPTIONS, FRAMES = "options", "frames"
OPTION_VALUES = (
    "", " ", "0", "-0", "1", "-1", "2", "7", "0.5", "-0.5", "1e38", "1e-320", "1e308", "1e400", "nan", "inf", "-inf",
    str(2**31), str(2**63 - 1), str(2**63), str(2**64), "1" + "0" * 30, "-1" + "0" * 30, "1" + "0" * 400,
    "1" + "0" * 5000, "٣", "1_0", " 5", "0x10", "1,2,3", "3,2,1", "1,2,3,4", "1,1,1", ",", ",,,", "0,0,0", "a,b,c",
    "1" + "0" * 30 + ",2,3", "1,2,³", "x", "é", "日本語", "a\nb\nc\nd\ne", "\t", "\\t", "|", "\u200b", "x" * 300,
    "x" * 5000, "%s", "{}", "-", "--", "-h", "=", "a=b", "=x", "new0", "e0", "r0", "graph.tsv", "nosuch/x", ".",
    "graph.tsv/x", "TransE", "none", "True", "0.1,0.5", "0.5,nan", "/dev/null",
)  # fmt: skip
# Options that say how much work there is: what is between is meant, and takes its time.
WORK = (
    "steps", "refine_steps", "judge_steps", "trials", "dim", "batch", "negatives", "seeds", "relation_dim", "svg",
    "sample", "refine_seconds", "seconds",
)  # fmt: skip
LEAST_ABSURD = 2**62
MOST_WORK = 64
OWN_MODEL = "model"  # a copy, for commands that write to it
SOUND_LINES: tuple[tuple[str, ...], ...] = (
    ("train", "graph.tsv", "--out", "m", *TRAINING),
    ("train", "graph.tsv", "--out", "m", *TRAINING, "--model", "transr"),
    ("train", "graph.tsv", "--out", "m", *TRAINING, "--model", "transe,rotate"),
    ("train", "graph.tsv", "--out", "m", *TRAINING, "--optimizer", "adagrad", "--negatives-shared", "2"),
    ("train", "graph.tsv", "--out", "m", *TRAINING, "--tables", "disk", "--dry-run", "--json"),
    ("check", MODEL),
    ("completion", "bash"),
    ("embed", MODEL, "graph.tsv", "--out", "v.parquet"),
    ("embed", MODEL, "graph.tsv", "--out", "v.parquet", "--refine", "--refine-steps", "3"),
    ("predict", MODEL, "--given", "graph.tsv", "--head", "new0", "--relation", "r0"),
    ("predict", MODEL, "--given", "graph.tsv", "--head", "new0", "--relation", "r0", "--refine", "--refine-steps", "3"),
    ("predict", MODEL, "--given", "graph.tsv", "--head", "new0", "--relation", "r0", "--prior", "0.1"),
    ("predict", MODEL, "--given", "graph.tsv", "--head", "new0", "--relation", "r0", "--explain"),
    ("predict", MODEL, "--given", "graph.tsv", "--entity", "new0"),
    ("predict", MODEL, "--given", "graph.tsv", "--questions", "@tables/questions.jsonl", "--out", "answers.csv"),
    ("predict", MODEL, "--vectors", "@tables/vectors.parquet", "--head", "v0", "--relation", "r0"),
    ("neighbors", MODEL, "new0", "--given", "graph.tsv"),
    ("calibrate", MODEL, "@tables/held-out.tsv"),
    ("index", OWN_MODEL, "--recall", "0.1", "--questions", "2"),
    ("predict", MODEL, "--head", "e0", "--relation", "r0", "--approximate"),
    ("network", OWN_MODEL, "--steps", "2", "--encoder-steps", "1"),
    ("network", OWN_MODEL, "--remove"),
    ("classify", OWN_MODEL, "@claims/claims.tsv", "--valid", "@claims/valid.csv", "--given", "graph.tsv"),
    ("classify", MODEL, "@claims/claims.tsv", "--valid", "@claims/valid.csv", "--given", "graph.tsv", "--no-judge"),
    ("classify", MODEL, "@claims/claims.tsv", "--valid", "@claims/valid.csv", "--given", "graph.tsv", "--judge"),
    ("evaluate", MODEL, "--dataset", "@dataset/data"),
    ("evaluate", MODEL, "--test", "graph.tsv", "--ranks", "ranks.parquet"),
    ("compare", "@tables/ranks.csv", "@tables/ranks.jsonl"),
    ("audit", MODEL, "--quick", "--sample", "6", "--no-refine"),
    ("audit", MODEL, "--sample", "6", "--no-refine", "--steps", "3"),
    ("tune", MODEL, "--quick", "--trials", "1", "--sample", "6"),
    ("tune", MODEL, "--trials", "1", "--sample", "6", "--steps", "3"),
    ("tune", "graph.tsv", "--training", "--minutes", "0.01", "--steps", "2", "--out", "found.toml"),
    ("import", "arrays", "@import/arrays-npy", "--out", "m"),
    ("import", "kge", "@import/kge", "--vocabulary", "@import/kge", "--out", "m"),
    ("export", MODEL, "--out", "out", "--given", "graph.tsv"),
    ("compact", MODEL, "--out", "m"),
    ("export", MODEL, "--out", "out", "--format", "kge"),
    ("datasets", "list"),
    ("datasets", "stats", "@dataset/data"),
    ("datasets", "split", "graph.tsv", "--out", "data"),
    ("datasets", "split", "graph.tsv", "--out", "data", "--share", "0.1"),
    ("datasets", "split", "graph.tsv", "--out", "data", "--snapshots", "2"),
    ("datasets", "split", "graph.tsv", "--out", "data", "--shots", "1"),
    ("evaluate", MODEL, "--dataset", "@growing/grown"),
    ("evaluate", MODEL, "--dataset", "@few-shot/few", "--shots", "1"),
    ("reproduce", "--from-results", "--out", "@results/results"),
    ("reproduce", "--list", "--out", "@results/results"),
    ("determinacy",),
    ("determinacy", MODEL),
    ("add", OWN_MODEL, "graph.tsv"),
    ("remove", OWN_MODEL, "--entity", "e1"),
    ("update", OWN_MODEL, "--steps", "2"),
    ("status", MODEL),
    ("history", MODEL),
    ("rollback", MODEL),
    ("journal", "move", OWN_MODEL, "--to", "file"),
    ("serve", OWN_MODEL, "--check"),
    ("keys", "list", MODEL),
    ("keys", "add", OWN_MODEL, "somebody"),
    ("names", OWN_MODEL),
)


@dataclass(frozen=True)
class Case:
    """One input: its number, its kind, what is run, and in words what that is."""

    number: int
    kind: str
    run: Callable[[], int]
    description: str


def kind_names() -> list[str]:
    """The kinds, as cases take turns among them."""
    return [kind.name for kind in kinds()] + [OPTIONS] * 4 + [FRAMES] * 2


def make_case(number: int, sound: Path, folder: Path) -> Case:
    """The case of a number, its files in a new folder; the same for the same number."""
    rng = Random(f"ookg {number}")
    by_name: dict[str, Kind] = {kind.name: kind for kind in kinds()}
    names = kind_names()
    name = names[number % len(names)]
    if name == FRAMES:
        folder.mkdir()
        return _frame(number, rng, sound)
    if name == OPTIONS:
        shutil.copytree(sound / "triples", folder)
        shutil.copytree(sound / "model" / "model", folder / OWN_MODEL)
        return _options(number, rng, sound)
    kind = by_name[name]
    shutil.copytree(sound / kind.folder, folder)
    files = sorted({path for pattern in kind.files for path in folder.glob(pattern) if path.is_file()})
    damaged = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(files)
        damage(path, rng)
        damaged.append(str(path.relative_to(folder)))
    if kind.name.startswith("model") and rng.random() < 0.95:
        seal(folder / "model")
    line = rng.choice(kind.commands)
    return Case(number, name, _command(line, sound), f"ookg {' '.join(line)}, with damage to {', '.join(damaged)}")


def _command(line: tuple[str, ...], sound: Path) -> Callable[[], int]:
    return partial(main, [f"{sound}/{word[1:]}" if word.startswith("@") else word for word in line])


def _options(number: int, rng: Random, sound: Path) -> Case:
    """A sound command line with one or two options set to something else."""
    line = rng.choice(SOUND_LINES)
    options = _options_of(line)
    for _ in range(rng.choice((1, 1, 2))):
        option, work = rng.choice(options)
        value = rng.choice(OPTION_VALUES)
        while work and not _is_short_work(value):
            value = rng.choice(OPTION_VALUES)
        line = (*line, f"{option}={value}")
    return Case(number, OPTIONS, _command(line, sound), f"ookg {' '.join(map(repr, line))}")


def _options_of(line: tuple[str, ...]) -> list[tuple[str, bool]]:
    """The options of a command that take a value, and whether it says how much work there is."""
    parser: argparse.ArgumentParser | None = command_parser([line[0]])
    found: list[tuple[str, bool]] = []
    names = list(line)
    while parser is not None:
        inner = None
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                inner = next(action.choices[name] for name in names if name in action.choices)
                names = names[1:]
            elif action.option_strings and action.nargs != 0 and action.dest not in ("device", "base_url", "cache"):
                found.append((action.option_strings[0], action.dest in WORK))
        parser = inner
    return found or [("--json", False)]


def _is_short_work(value: str) -> bool:
    try:
        size = float(value)
    except ValueError:
        return True
    return not MOST_WORK < size < LEAST_ABSURD


def _frame(number: int, rng: Random, sound: Path) -> Case:
    """A frame of pandas, polars or Arrow with odd columns."""
    columns = ["head", "relation", "tail", "label"][: rng.choice((3, 3, 3, 4, 2, 1))]
    rows = [["new0", "e2", "new1"], ["r0", "r1", "r2"], ["e1", "new0", "e3"], [1, 0, 1]]
    table: dict[str, Any] = dict(zip(columns, rows, strict=False))
    for _ in range(rng.choice((1, 2))):
        name = rng.choice(list(table))
        odd: list[Any] = [
            [1, 2, 3], [1.5, float("nan"), 2.0], [None, "r0", "e1"], [None] * 3, ["", "r0", "e1"], ["a\nb", "r0", " "],
            [True, False, True], [b"\xff", b"a", b"b"], [["r0"], ["r1"], []], [{"a": 1}] * 3, [2**63 - 1, -1, 0],
            ["\ud800", "a", "b"], [10**30, 1, 2], ["x" * 5000, "r0", "r1"], ["1", "0", "x"], [(1, 2)] * 3,
            [1, "a", None],
        ]  # fmt: skip
        if rng.random() < 0.7:
            table[name] = rng.choice(odd)
        else:
            table[rng.choice(("", "HEAD", "x", "h", "subject", "é", "tail "))] = table.pop(name)
    library = rng.choice(("pandas", "polars", "arrow"))
    return Case(number, FRAMES, partial(_embed, library, table, f"{sound}/{MODEL[1:]}", rng), f"{library} {table}")


def _embed(library: str, columns: dict[str, Any], model: str, rng: Random) -> int:
    try:
        frame = _made(library, columns, rng)
    except Exception:
        return 0  # there is no such frame
    try:
        Model.load(model).embed(frame)
    except OokgError as error:
        tell(f"ookg: {error}")
        return 2
    return 0


def _made(library: str, columns: dict[str, Any], rng: Random) -> Any:
    if library == "arrow":
        table = pa.table(columns)
        if rng.random() < 0.3:
            names = list(table.column_names)
            table = table.append_column(rng.choice(names), table.column(0))
        return table.slice(0, rng.choice((0, 1, 3, 3)))
    if library == "polars":
        import polars

        return polars.DataFrame(columns, strict=rng.random() < 0.5)
    import pandas

    frame = pandas.DataFrame(columns)
    if rng.random() < 0.3:
        frame = frame.astype(rng.choice(("category", "string", "object")))
    if rng.random() < 0.2:
        frame.columns = pandas.Index(range(frame.shape[1]))
    return frame.iloc[: rng.choice((0, 1, 3, 3))]
