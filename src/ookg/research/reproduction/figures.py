"""Figures: accuracy under growing shares of new entities, as in the paper; MRR while a graph grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ookg.research.reproduction.methods.continual import CONTINUAL_METHODS, MODELS
from ookg.research.reproduction.paper import CONTINUAL_SETS, new_entity_ratio
from ookg.research.reproduction.results import ResultsFolder, read_json
from ookg.research.reproduction.tables import RATIO_METHODS, Cell
from ookg.system.figures import METADATA, import_matplotlib
from ookg.system.files import atomic_write

NAME, GROWTH_NAME = "ratio", "growth"
WAY_COLORS = {
    "Retrained": "#000000",
    "Updated": "#0072b2",
    "New only": "#009e73",
    "Frozen": "#d55e00",
    "Fine-tuned": "#999999",
}
MODEL_NAMES = {model: name for name, model in MODELS.items()}
MODEL_LINES = {"transe": "-", "rotate": "--"}
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
        return _written(figure, Path(folder) / NAME)


def _written(figure: Any, path: Path) -> list[Path]:
    """The two files of a figure, PNG and SVG."""
    paths = []
    for ending, metadata in METADATA.items():
        file = path.with_suffix(f".{ending}")
        with atomic_write(file) as temporary:
            figure.savefig(temporary, format=ending, metadata=metadata, dpi=150)
        paths.append(file)
    return paths


def draw_growth(results: ResultsFolder, folder: str | Path) -> list[Path]:
    """Draw MRR after each snapshot of the growing data sets, by each way to follow them; means over the seeds.

    Nothing is drawn where no result is stored.
    """
    matplotlib = import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    courses = {
        (dataset, method.way, method.model): course
        for dataset in CONTINUAL_SETS
        for method in CONTINUAL_METHODS
        if (course := _course(results, dataset, method.name))
    }
    if not courses:
        return []
    with matplotlib.rc_context({"svg.hashsalt": "ookg", "font.size": 9}):
        figure = Figure(figsize=(10.0, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(CONTINUAL_SETS), sharey=True)
        for axes, dataset in zip(panels, CONTINUAL_SETS, strict=True):
            for (name, way, model), course in courses.items():
                if name == dataset:
                    style = {"color": WAY_COLORS[way], "linestyle": MODEL_LINES[model], "marker": "o", "markersize": 3}
                    axes.plot(range(len(course)), course, label=f"{way}, {MODEL_NAMES[model]}", **style)
            axes.set_title(dataset)
            axes.set_xlabel("snapshot")
            axes.set_xticks(range(5))
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("MRR over all tests so far")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
        return _written(figure, Path(folder) / GROWTH_NAME)


def _course(results: ResultsFolder, dataset: str, method: str) -> list[float]:
    """MRR after each snapshot, the mean over all stored seeds; empty where none is stored."""
    found = [read_json(path)["figures"] for path in sorted((results.folder / dataset / method).glob("seed-*.json"))]
    course: list[float] = []
    while found and f"mrr.after-{len(course)}" in found[0]:
        course.append(float(np.mean([figures[f"mrr.after-{len(course)}"] for figures in found])))
    return course


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
