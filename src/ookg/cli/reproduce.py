"""Make the paper's tables from the raw data sets, side by side with what it prints.

The tables are link-prediction, link-prediction-variants, triplet-classification, triplet-classification-variants,
ablation, ratio, efficiency, and beyond, continual and few-shot with what goes past the paper; continual, on growing
graphs, and few-shot, on newcomers with few triples, are run only if a table, data set or method is named. What is
missing is trained and evaluated; each result is a JSON file in the results folder, and what is there is reused.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ookg.cli.console import (
    add_device_option,
    add_json_option,
    note,
    output_console,
    print_json,
    print_table,
    whole_number,
)
from ookg.errors import InputError

if TYPE_CHECKING:
    from ookg.research.reproduction.plan import Selection
    from ookg.research.reproduction.rendering import Grid
    from ookg.research.reproduction.runner import Places

FORMATS = ("text", "markdown", "latex")
RESULTS = "results"
SUMMARY = "the paper's tables and figures, from the raw data sets"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    for option, text in (
        ("--table", "the tables to make (all)"),
        ("--dataset", "the data sets to keep to (all); a folder is one of your own"),
        ("--method", "the methods to keep to (all); a Python file is one of your own"),
    ):
        parser.add_argument(option, nargs="+", action="extend", metavar="NAME", help=text)
    parser.add_argument("--config", metavar="FILE", help="TOML with training settings, for data sets of your own")
    parser.add_argument(
        "--seeds",
        type=whole_number,
        metavar="N",
        help="run seeds 0 to N - 1 and show only those (run seed 0, show all that are there)",
    )
    add_device_option(parser)
    parser.add_argument("--out", default=RESULTS, metavar="DIR", help="the results folder (results)")
    parser.add_argument("--data", metavar="FOLDER", help="where data sets lie, instead of OOKG_DATA or the cache")
    parser.add_argument("--models", metavar="DIR", help="where trained models are kept (the cache)")
    parser.add_argument("--list", action="store_true", help="only say what there is to do, and how long it takes")
    parser.add_argument(
        "--from-results",
        action="store_true",
        help="only read the results folder, or where there is none the results that come with the package; run nothing",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="how tables are printed (text)")
    parser.add_argument(
        "--interval",
        action="store_true",
        help="the confidence interval of each mean over seeds instead of their spread, and a test against the best",
    )
    parser.add_argument("--markdown", metavar="FILE", help="also fill the marked places of a Markdown file with tables")
    parser.add_argument(
        "--figures",
        metavar="DIR",
        help="also draw the paper's figure, and MRR under growth, there as PNG and SVG",
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run what is missing, and show."""
    from ookg.research.reproduction.plan import Selection
    from ookg.research.reproduction.rendering import read_marked
    from ookg.research.reproduction.runner import Places, cells, make_missing
    from ookg.system.figures import import_matplotlib
    from ookg.system.shipped import shipped
    from ookg.training.settings import read_settings

    _refuse_contradictions(arguments)
    settings = read_settings(arguments.config) if arguments.config else None
    selection = Selection.of(arguments.table, arguments.dataset, arguments.method, arguments.seeds, settings)
    if arguments.from_results and arguments.out == RESULTS and not Path(RESULTS).exists():
        arguments.out = str(shipped(RESULTS) or RESULTS)
    places = Places(arguments.out, arguments.models, arguments.data)
    if arguments.list:
        return _list(selection, places, arguments)
    # What cannot be written in the end is said before anything is trained.
    if arguments.markdown:
        read_marked(arguments.markdown)
    if arguments.figures:
        import_matplotlib()
    if arguments.from_results and not Path(arguments.out).exists():
        note(f"{arguments.out}: no such folder, so there are no results; --out says where they are")
    if not arguments.from_results:
        make_missing(selection, places, arguments.device, progress=True)
    if arguments.markdown:
        _fill(arguments.markdown, selection, places, arguments.interval)
    if arguments.figures:
        _draw(arguments.figures, selection, places)
    if arguments.json:
        print_json([cell.to_dict() for cell in cells(selection, places.results)])
        return 0
    _show(selection, places, arguments)
    return 0


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    if arguments.json and (arguments.format != "text" or arguments.interval):
        raise InputError("--json with --format or --interval; it prints means and spreads alone, leave one out")
    for option in ("from_results", "markdown", "figures"):
        if arguments.list and getattr(arguments, option):
            raise InputError(
                f"--list with --{option.replace('_', '-')}; it only says what there is to do, leave one out"
            )


def _show(selection: Selection, places: Places, arguments: argparse.Namespace) -> None:
    from ookg.research.reproduction.runner import grids

    for name, made in grids(selection, places.results, arguments.interval).items():
        for grid in made:
            if arguments.format == "text":
                _print(grid)
            else:
                print(grid.to_latex() if arguments.format == "latex" else grid.to_markdown(), end="\n\n")
        if not made:
            (print if arguments.format == "text" else note)(f"{name}: no result yet")


def _fill(path: str, selection: Selection, places: Places, interval: bool) -> None:
    from ookg.research.reproduction.rendering import rewrite_markdown
    from ookg.research.reproduction.runner import grids_for_marker
    from ookg.system.display import counted

    count = rewrite_markdown(path, partial(grids_for_marker, places.results, selection.seeds, interval))
    note(f"{path}: {counted(count, 'table')} written")


def _draw(folder: str, selection: Selection, places: Places) -> None:
    from ookg.research.reproduction.figures import draw_growth, draw_ratio
    from ookg.research.reproduction.plan import Selection
    from ookg.research.reproduction.runner import cells

    ratio = draw_ratio(cells(Selection(("ratio",), seeds=selection.seeds), places.results), folder)
    for path in [*ratio, *draw_growth(places.results, folder)]:
        note(f"{path}: written")


def _list(selection: Selection, places: Places, arguments: argparse.Namespace) -> int:
    """What there is to do."""
    from ookg.research.reproduction.runner import plan

    planned = plan(selection, places, arguments.device)
    if arguments.json:
        print_json([vars(entry) for entry in planned])
        return 0
    rows = [
        (
            entry.dataset,
            entry.method,
            entry.seed,
            f"{entry.done} of {entry.runs}",
            entry.state,
            _duration(entry.seconds) if entry.state == "to do" else None,
        )
        for entry in planned
    ]
    print_table(("data set", "method", "seed", "results", "state", "takes about"), rows)
    left = [entry for entry in planned if entry.state == "to do"]
    print(f"{len(left)} of {len(planned)} to do, about {_duration(sum(entry.seconds for entry in left))} in all")
    return 0


def _duration(seconds: float) -> str:
    """About how long: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print(grid: Grid) -> None:
    """A table on standard output; numbers to the right, the best in bold."""
    try:
        from rich.table import Table
        from rich.text import Text
    except ImportError:  # a machine that only computes
        print(f"{grid.to_markdown()}\n")
        return

    table = Table(header_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(grid.columns):
        table.add_column(column, justify="left" if place < grid.names else "right")
    for row in grid.rows:
        table.add_row(*(Text(cell.text, "bold" if cell.bold else "") for cell in row))
    # Off a terminal there is no width to keep to: one row stays one line.
    console = output_console()
    console.print(Text(grid.title, "bold"))
    console.print(table)
    if grid.remark:
        console.print(Text(grid.remark))
    console.print()
