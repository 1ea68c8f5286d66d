"""The picture of an audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ookg.errors import InputError
from ookg.system.files import atomic_write

if TYPE_CHECKING:
    from ookg.simulation.audit import Audit, QuestionGroup

STYLES = {"trained": "#444444", "closed form": "#0072b2", "refined": "#d55e00", "combined": "#009e73"}
ENDINGS = (".png", ".svg")
LABEL_LENGTH = 34


def picture_files(path: str | Path) -> list[Path]:
    """The two files of a picture: PNG and SVG beside each other, whichever of them is named."""
    path = Path(path)
    if path.suffix not in (*ENDINGS, ""):
        raise InputError(f"{path}: a picture is PNG and SVG; name it .png or .svg, or leave the ending out")
    if not path.name:
        raise InputError(f"{str(path)!r} is not the name of a file; give one to draw to")
    return [path.with_suffix(ending) for ending in ENDINGS]


def draw_audit(audit: Audit, path: str | Path) -> list[Path]:
    """Draw MRR by number of triples, and by relation, as PNG and SVG; returns the files."""
    from ookg.system.figures import METADATA, import_matplotlib

    files = picture_files(path)
    matplotlib = import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "ookg", "font.size": 9}):
        figure = Figure(figsize=(11.0, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_triples(left, audit)
        _draw_relations(right, audit)
        figure.suptitle(f"What a newcomer loses against a trained entity ({audit.kind}, {audit.hidden:,} hidden)")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        for file in files:
            ending = file.suffix[1:]
            with atomic_write(file) as temporary:
                figure.savefig(temporary, format=ending, metadata=METADATA[ending], dpi=150)
    return files


def _draw_triples(axes: Any, audit: Audit) -> None:
    groups = audit.by_triples
    methods = [name for name in STYLES if name in audit.overall.figures]
    width = 0.8 / len(methods)
    for number, name in enumerate(methods):
        place = np.arange(len(groups)) + (number - (len(methods) - 1) / 2) * width
        axes.bar(place, [group.mrr(name) for group in groups], width, color=STYLES[name], label=name)
    axes.set_xticks(range(len(groups)), [f"{group.name}\n{group.questions:,} asked" for group in groups])
    axes.set_xlabel("given triples")
    axes.set_ylabel("MRR")
    axes.grid(axis="y", alpha=0.3)


def _draw_relations(axes: Any, audit: Audit) -> None:
    worst, best = audit.relations()
    rows: list[QuestionGroup] = [*worst, *best[::-1]][::-1]
    for place, group in enumerate(rows):
        axes.plot([group.mrr(audit.best), group.mrr("trained")], [place, place], color="#bbbbbb", zorder=1)
        axes.scatter(group.mrr("trained"), place, color=STYLES["trained"], s=18, zorder=2)
        axes.scatter(group.mrr(audit.best), place, color=STYLES[audit.best], s=18, zorder=2)
    axes.set_yticks(range(len(rows)), [_short(group.name) for group in rows], fontsize=7)
    axes.set_xlabel(f"MRR by relation: trained and {audit.best}")
    axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x", alpha=0.3)


def _short(label: str) -> str:
    """The end of a long label, which says more than its beginning; dollar signs would be taken for formulas."""
    label = label.replace("$", r"\$")
    return label if len(label) <= LABEL_LENGTH else "..." + label[-LABEL_LENGTH + 3 :]
