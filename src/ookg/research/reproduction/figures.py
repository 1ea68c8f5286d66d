"""The paper's figure: accuracy under growing shares of new entities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ookg.research.reproduction.paper import new_entity_ratio
from ookg.research.reproduction.tables import RATIO_METHODS, Cell
from ookg.system.figures import METADATA, import_matplotlib
from ookg.system.files import atomic_write

NAME = "ratio"
POSITIONS = ("Head", "Tail", "Both")
STYLES = {"InvTransE": ("#0072b2", "o"), "LAN": ("#d55e00", "s"), "GNN-MEAN": ("#009e73", "^")}


def draw_ratio(cells: Sequence[Cell], folder: str | Path) -> list[Path]:
    """Draw the cells of the table `ratio` as PNG and SVG: ours solid, what the paper prints hollow and dashed."""
    matplotlib = import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "ookg", "font.size": 9}):
        figure = Figure(figsize=(9.0, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(POSITIONS), sharey=True)
        for axes, position in zip(panels, POSITIONS, strict=True):
            _panel(axes, position, [cell for cell in cells if cell.dataset.startswith(f"WN11-{position}-")])
        panels[0].set_ylabel("Accuracy (%)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        paths = []
        for ending, metadata in METADATA.items():
            path = Path(folder) / f"{NAME}.{ending}"
            with atomic_write(path) as temporary:
                figure.savefig(temporary, format=ending, metadata=metadata, dpi=150)
            paths.append(path)
    return paths


def _panel(axes: Any, position: str, cells: Sequence[Cell]) -> None:
    for method in RATIO_METHODS:
        color, marker = STYLES[method]
        points = sorted((new_entity_ratio(cell.dataset), cell) for cell in cells if cell.method == method)
        ours = [(ratio, cell.ours, cell.spread or 0.0) for ratio, cell in points if cell.ours is not None]
        printed = [(ratio, cell.paper) for ratio, cell in points if cell.paper is not None]
        axes.errorbar(
            [ratio for ratio, _, _ in ours],
            [value for _, value, _ in ours],
            yerr=[spread for _, _, spread in ours],
            color=color,
            marker=marker,
            markersize=5,
            capsize=2,
            label=f"{method}, ours",
        )
        axes.plot(
            [ratio for ratio, _ in printed],
            [value for _, value in printed],
            color=color,
            marker=marker,
            markersize=5,
            markerfacecolor="none",
            linestyle="--",
            linewidth=1,
            label=f"{method}, paper",
        )
    axes.set_title(f"WN11-{position}")
    axes.set_xlabel("OOKG entity ratio (%)")
    axes.grid(alpha=0.3)
