"""Tables as text: for a terminal, and for Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ookg.errors import FileError, InputError
from ookg.research.reproduction.paper import WITH_ALSO_TRUE
from ookg.research.reproduction.tables import Cell
from ookg.system.files import atomic_write

MISSING = "-"
MEASURES = {
    "mrr": "MRR",
    "hits@10": "Hits@10",
    "hits@1": "Hits@1",
    "accuracy": "accuracy",
    "mrr-snapshot": "MRR in its snapshot",
    "mrr-known": "MRR, known answers",
    "mrr-new": "MRR, new answers",
    f"mrr{WITH_ALSO_TRUE}": "MRR, GEN's filter",
    f"hits@1{WITH_ALSO_TRUE}": "Hits@1, GEN's filter",
    f"hits@10{WITH_ALSO_TRUE}": "Hits@10, GEN's filter",
}
THREE_DIGITS = ("mrr", "mrr-snapshot", "mrr-known", "mrr-new", f"mrr{WITH_ALSO_TRUE}")
LESS_IS_BETTER = ("seconds",)
CONFIDENCE = 0.95
INTERVAL_REMARK = (
    "± is half of the 95 % confidence interval of the mean over seeds; * differs from the best by Welch's t-test "
    "(p < 0.05)."
)


@dataclass(frozen=True)
class Text:
    """What stands in a place of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Grid:
    """A table as text.

    names: how many of the columns are names, to the left; the others are numbers
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    names: int
    remark: str = ""

    def to_markdown(self) -> str:
        """The table in Markdown, the title and the remark around it."""
        rule = ["---"] * self.names + ["---:"] * (len(self.columns) - self.names)
        rows = [[f"**{cell.text}**" if cell.bold else cell.text for cell in row] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, rule, *rows)]
        parts = [self.title, "\n".join(lines), self.remark]
        return "\n\n".join(part for part in parts if part)

    def to_latex(self) -> str:
        """The table in LaTeX, for the package booktabs; the title as caption, the remark below."""
        rows = [
            [f"\\textbf{{{_escaped(cell.text)}}}" if cell.bold else _escaped(cell.text) for cell in row]
            for row in self.rows
        ]
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escaped(self.title)}}}",
            rf"\begin{{tabular}}{{{'l' * self.names}{'r' * (len(self.columns) - self.names)}}}",
            r"\toprule",
            rf"{' & '.join(_escaped(column) for column in self.columns)} \\",
            r"\midrule",
            *(rf"{' & '.join(row)} \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par {_escaped(self.remark)}"] if self.remark else []),
            r"\end{table}",
        ]
        return "\n".join(lines)


LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
}


def _escaped(text: str) -> str:
    """Text as LaTeX shows it."""
    return "".join(LATEX.get(character, character) for character in text)


def grid_of(title: str, cells: Sequence[Cell], remark: str = "", interval: bool = False) -> Grid:
    """Cells as a table, a line a data set and method, each measure as paper, ours and difference; best ours in bold.

    A line without any figure, printed or ours, is left out; so are columns for what the paper does not print at all.
    interval: after ± stands the confidence interval of the mean over seeds, not the spread of the seeds; a star is at
        means that are lower than the best one by more than chance
    """
    measures = list(dict.fromkeys(cell.measure for cell in cells))
    by_line: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        by_line.setdefault((cell.dataset, cell.method), {})[cell.measure] = cell
    best = _best(cells)
    if interval:
        remark = " ".join(part for part in (remark, INTERVAL_REMARK) if part)
    columns = []
    printed = {cell.measure for cell in cells if cell.paper is not None}
    for measure in measures:
        name = MEASURES.get(measure, measure)
        columns += [f"{name}, paper", f"{name}, ours", "difference"] if measure in printed else [name]
    rows = []
    for (dataset, method), line in by_line.items():
        if all(cell.paper is None and cell.ours is None for cell in line.values()):
            continue
        row = [Text(dataset), Text(method)]
        for measure in measures:
            texts = _texts(line.get(measure), best, interval)
            row += texts if measure in printed else texts[1:2]
        rows.append((*row, Text(str(max(cell.seeds for cell in line.values()) or MISSING))))
    return Grid(title, ("data set", "method", *columns, "seeds"), tuple(rows), 2, remark)


def _texts(cell: Cell | None, best: dict[tuple[str, str], Cell], interval: bool) -> list[Text]:
    """paper, ours, difference."""
    if cell is None:
        return [Text(MISSING)] * 3
    digits = 3 if cell.measure in THREE_DIGITS else 1
    ours, difference = Text(MISSING), MISSING
    if cell.ours is not None:
        leader = best[cell.dataset, cell.measure]
        spread = half_interval(cell) if interval else cell.spread
        shown = "" if spread is None else f" ± {spread:.{digits}f}"
        star = "*" if interval and differs(cell, leader) else ""
        ours = Text(f"{cell.ours:.{digits}f}{shown}{star}", cell.ours == leader.ours)
    if cell.ours is not None and cell.paper is not None:
        difference = f"{cell.ours - cell.paper:+.{digits}f}"
    return [Text(MISSING if cell.paper is None else f"{cell.paper:.{digits}f}"), ours, Text(difference)]


def half_interval(cell: Cell) -> float | None:
    """Half of the confidence interval of a mean over seeds, by Student's t; None for a single seed."""
    if cell.spread is None or cell.seeds < 2:
        return None
    from scipy import stats

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, cell.seeds - 1)) * cell.spread / math.sqrt(cell.seeds)


def differs(cell: Cell, best: Cell) -> bool:
    """Whether a mean over seeds differs from the best one by more than chance, by Welch's t-test."""
    if cell is best or cell.spread is None or best.spread is None or min(cell.seeds, best.seeds) < 2:
        return False
    if cell.spread == best.spread == 0:
        return cell.ours != best.ours
    from scipy import stats

    mine, theirs = ((one.ours, one.spread, one.seeds) for one in (cell, best))
    return bool(stats.ttest_ind_from_stats(*mine, *theirs, equal_var=False).pvalue < 1 - CONFIDENCE)


def _best(cells: Sequence[Cell]) -> dict[tuple[str, str], Cell]:
    """Our best figure of each data set and measure."""
    found: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        if cell.ours is None:
            continue
        key = cell.dataset, cell.measure
        leader = found.get(key)
        sign = -1 if cell.measure in LESS_IS_BETTER else 1
        if leader is None or leader.ours is None or sign * cell.ours > sign * leader.ours:
            found[key] = cell
    return found


OPENING = r"<!--[ \t]*reproduce:(?P<table>[\w-]+)(?P<names>[^>]*?)[ \t]*-->"
PLACE = re.compile(rf"(?P<opening>{OPENING})(?P<old>.*?)(?P<closing><!--[ \t]*/reproduce[ \t]*-->)", re.DOTALL)

# What a place shows: the tables' grids by the table's name and the data sets' and methods' names in its marker.
Show = Callable[[str, tuple[str, ...]], Sequence[Grid]]


def read_marked(path: str | Path) -> str:
    """The text of a Markdown file that has places for tables.

    A place is what stands between `<!-- reproduce:TABLE -->` and `<!-- /reproduce -->`. After the table's name, names
    of data sets and methods, separated by commas, leave only their lines.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise FileError(path, f"cannot be read ({reason})", "give a Markdown file with markers in it") from error
    openings, places = len(re.findall(OPENING, text)), list(PLACE.finditer(text))
    if not openings:
        remedy = "put `<!-- reproduce:TABLE -->` and `<!-- /reproduce -->` where a table should be"
        raise InputError(f"{path}: no marker; {remedy}")
    if openings != len(places):
        raise InputError(f"{path}: a marker is not closed; put `<!-- /reproduce -->` after each table")
    return text


def rewrite_markdown(path: str | Path, show: Show) -> int:
    """Fill the places of a Markdown file with tables, atomically; return how many there are."""

    def filled(place: re.Match[str]) -> str:
        grids = show(place["table"], tuple(name.strip() for name in place["names"].split(",") if name.strip()))
        shown = "\n\n".join(grid.to_markdown() for grid in grids) or "No result yet."
        return f"{place['opening']}\n\n{shown}\n\n{place['closing']}"

    text, count = PLACE.subn(filled, read_marked(path))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return count
