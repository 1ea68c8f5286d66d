"""The tables: which runs each line averages, and what the paper prints beside it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ookg.errors import InputError
from ookg.research.reproduction import paper
from ookg.research.reproduction.methods import AS_PUBLISHED, METHODS, OWN_SETS, OwnMethod, task_of
from ookg.research.reproduction.methods.continual import CONTINUAL_METHODS
from ookg.research.reproduction.methods.few_shot import FEW_SHOT_METHODS
from ookg.research.reproduction.methods.inverse import NEIGHBORS, POWER_1, UNIFORM, neighbor_draws
from ookg.research.reproduction.methods.method import LAN_PROTOCOL
from ookg.research.reproduction.results import MAIN, Result, ResultsFolder, Run

OWN = "own"  # the name of the table of what is not the paper's
ALL_SETS = (*paper.LINK_PREDICTION_SETS, *paper.CLASSIFICATION_SETS)


@dataclass(frozen=True)
class Cell:
    """One figure: the paper's, and ours as mean and standard deviation over `seeds` seeds.

    paper: None where it prints nothing; ours: None where there is no result; spread: None for a single value
    """

    table: str
    dataset: str
    method: str
    measure: str
    paper: float | None
    ours: float | None
    spread: float | None
    seeds: int

    def to_dict(self) -> dict[str, Any]:
        """The cell as plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Line:
    """A line of a table.

    label: what it is called; method: whose runs it averages; variants: which ones, all of them over all seeds
    printed: the paper's figures; if_named: whether it is run only where its method is named, as the paper has no figure
    """

    dataset: str
    label: str
    method: str
    variants: tuple[str, ...] = (MAIN,)
    printed: paper.Figures = field(default_factory=dict)
    if_named: bool = False

    @property
    def measures(self) -> tuple[str, ...]:
        """What is measured."""
        if self.dataset in paper.CONTINUAL_SETS:
            return paper.CONTINUAL_MEASURES
        if self.dataset in paper.FEW_SHOT_SETS:
            return paper.FEW_SHOT_MEASURES
        is_ranking = task_of(self.dataset) == "link-prediction"
        return paper.LINK_PREDICTION_MEASURES if is_ranking else paper.CLASSIFICATION_MEASURES

    def runs(self, seeds: Iterable[int]) -> list[Run]:
        """The runs it averages."""
        return [Run(self.dataset, self.method, seed, variant) for seed in seeds for variant in self.variants]


@dataclass(frozen=True)
class Table:
    """A table of runs.

    remark: a sentence below it, made from its cells
    quoted: lines of methods that are not run here, whose printed figures stand beside ours
    if_named: whether it is run only where the table, a data set or a method is named
    """

    name: str
    title: str
    lines: tuple[Line, ...]
    remark: Callable[[Sequence[Cell]], str] = field(default=lambda cells: "")
    quoted: tuple[Line, ...] = ()
    if_named: bool = False

    def cells(self, results: ResultsFolder, lines: Iterable[Line], seeds: int | None = None) -> list[Cell]:
        """The cells of some of its lines, from stored results alone; of the first `seeds` seeds if that is given."""
        return [cell for line in lines for cell in _line_cells(self.name, line, results, seeds)]


def _line_cells(table: str, line: Line, results: ResultsFolder, seeds: int | None) -> list[Cell]:
    there = [seed for seed in results.seeds_of(line.dataset, line.method) if seeds is None or seed < seeds]
    found = [result for run in line.runs(there) if (result := results.find(run)) is not None]
    _refuse_mixture(found, results)
    cells = []
    for measure in line.measures:
        values = [(result.seed, result.figures[measure]) for result in found if measure in result.figures]
        figures = [figure for _, figure in values]
        cells.append(
            Cell(
                table,
                line.dataset,
                line.label,
                measure,
                line.printed.get(measure),
                statistics.fmean(figures) if figures else None,
                statistics.stdev(figures) if len(figures) > 1 else None,
                len({seed for seed, _ in values}),
            )
        )
    return cells


def _refuse_mixture(found: list[Result], results: ResultsFolder) -> None:
    """A mean over runs with different settings would mean nothing."""
    for other in found[1:]:
        if not _agree(other.settings, found[0].settings):
            first, second = (results.path_of(result.run) for result in (found[0], other))
            raise InputError(f"{second}: made with other settings than {first}; remove one of them and run it again")


def _agree(first: Any, second: Any) -> bool:
    """Whether settings are the same but for seeds; one that only one of them has is newer than the other."""
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_agree, first, second))
    if not isinstance(first, dict) or not isinstance(second, dict):
        return bool(first == second)
    common = (first.keys() & second.keys()) - {"seed", "draw"}
    return all(_agree(first[name], second[name]) for name in common)


def run_tables() -> dict[str, Table]:
    """The tables of runs by name, in the order they are shown."""
    made = (
        _link_prediction(),
        _link_prediction_variants(),
        _triplet_classification(),
        _triplet_classification_variants(),
        _ablation(),
        _ratio(),
        _beyond(),
        _continual(),
        _few_shot(),
        _own(),
    )
    return {table.name: table for table in made}


def _link_prediction() -> Table:
    lines = [
        Line(dataset, method, method, printed=printed[dataset])
        for dataset in paper.LINK_PREDICTION_SETS
        for method, printed in paper.LINK_PREDICTION.items()
    ]
    title = "Link prediction (the paper's table 1): among all ids, every test triple, correlation weights with power 4"
    return Table("link-prediction", title, tuple(lines))


def _link_prediction_variants() -> Table:
    protocols = {MAIN: "paper protocol", LAN_PROTOCOL: "LAN protocol"}
    lines = []
    for dataset in paper.LINK_PREDICTION_SETS:
        for method, printed in paper.LINK_PREDICTION.items():
            powers = {MAIN: ", power 4", POWER_1: ", power 1"} if method.startswith("Inv") else {MAIN: ""}
            for variant, power in powers.items():
                for ending, protocol in protocols.items():
                    name = ".".join(part for part in (variant, ending) if part)
                    lines.append(Line(dataset, f"{method}{power}, {protocol}", method, (name,), printed[dataset]))
    title = "Link prediction by both protocols and both powers; the paper prints one figure a method, repeated here"
    return Table("link-prediction-variants", title, tuple(lines), _remark_on_powers)


def _remark_on_powers(cells: Sequence[Cell]) -> str:
    """What the power makes of the figures, said with the figures that are there."""
    by_name = {(cell.dataset, cell.method): cell for cell in cells if cell.measure == "mrr"}
    told = []
    for (dataset, label), cell in by_name.items():
        method, power, *rest = label.split(", ")
        four = by_name.get((dataset, ", ".join([method, "power 4", *rest])))
        if power == "power 1" and rest == ["paper protocol"] and four and cell.ours and four.ours and cell.paper:
            told.append(f"{method} on {dataset} {cell.ours:.3f} instead of {four.ours:.3f} (printed: {cell.paper:.3f})")
    said = (
        "The paper prints correlation weights without a power; its code raises them to the power 4, and only so do its "
        "figures come out: with power 1, as printed, the MRR is clearly lower"
    )
    return f"{said}: {'; '.join(told)}." if told else ""


def _triplet_classification() -> Table:
    lines = [
        Line(dataset, method, method, printed=printed[dataset], if_named=not printed[dataset])
        for dataset in paper.CLASSIFICATION_SETS
        for method, printed in paper.TRIPLET_CLASSIFICATION.items()
    ]
    title = "Triplet classification (the paper's table 2 and appendix): accuracy in percent, degree weights"
    return Table("triplet-classification", title, tuple(lines))


def _triplet_classification_variants() -> Table:
    lines = []
    for dataset in paper.CLASSIFICATION_SETS:
        for name, published in AS_PUBLISHED.items():
            if published.changes_on(dataset) != METHODS[name].changes_on(dataset):
                printed = paper.TRIPLET_CLASSIFICATION[name][dataset]
                lines += [Line(dataset, label, label, printed=printed) for label in (published.name, name)]
    title = "InvTransE and LAN where our settings are not the published ones: accuracy in percent by both"
    return Table("triplet-classification-variants", title, tuple(lines))


def _ablation() -> Table:
    variants = {
        "InvTransE (Full)": (MAIN,),
        "Up to 32 Neighbors": neighbor_draws(NEIGHBORS[0]),
        "Up to 8 Neighbors": neighbor_draws(NEIGHBORS[1]),
        "Only 1 Neighbor": neighbor_draws(NEIGHBORS[2]),
        "Uniform Weights": (UNIFORM,),
    }
    lines = [Line(paper.HEAD_10, label, "InvTransE", variants[label], paper.ABLATION[label]) for label in variants]
    title = (
        "Ablation (the paper's table 3): InvTransE on FB15k-Head-10; neighbours by five draws, spread over draws too"
    )
    return Table("ablation", title, tuple(lines))


RATIO_METHODS = ("InvTransE", "LAN", "GNN-MEAN")


def _ratio() -> Table:
    lines = [
        Line(dataset, method, method, printed=paper.TRIPLET_CLASSIFICATION[method][dataset])
        for dataset in paper.CLASSIFICATION_SETS
        for method in RATIO_METHODS
    ]
    title = "Accuracy under growing shares of new entities (the paper's figure)"
    return Table("ratio", title, tuple(lines), _remark_on_ratio)


def _remark_on_ratio(cells: Sequence[Cell]) -> str:
    """How much each method loses from the smallest share to the largest."""
    ours = {(cell.dataset, cell.method): cell.ours for cell in cells}
    told = []
    for position in ("Head", "Tail", "Both"):
        losses = []
        for method in RATIO_METHODS:
            first, last = (ours.get((f"WN11-{position}-{size}", method)) for size in (1000, 5000))
            if first is not None and last is not None:
                losses.append(f"{method} {first - last:.1f}")
        if losses:
            told.append(f"{position} {', '.join(losses)}")
    return f"Points lost from 1000 to 5000: {'; '.join(told)}." if told else ""


def _beyond() -> Table:
    lines = [
        Line(dataset, method.name, method.name)
        for dataset in ALL_SETS
        for method in METHODS.values()
        if method.beyond_paper and task_of(dataset) in method.tasks
    ]
    return Table("beyond", "Beyond the paper", tuple(lines), _means_of_nine)


def _means_of_nine(cells: Sequence[Cell]) -> str:
    """The mean accuracy over the nine WN11 sets, of the methods that have all of them."""
    figures: dict[str, list[float]] = {}
    for cell in cells:
        if cell.measure == "accuracy" and cell.ours is not None:
            figures.setdefault(cell.method, []).append(cell.ours)
    size = len(paper.CLASSIFICATION_SETS)
    told = [f"{method} {statistics.fmean(found):.1f}" for method, found in figures.items() if len(found) == size]
    printed = statistics.fmean(found["accuracy"] for found in paper.TRIPLET_CLASSIFICATION["InvTransE"].values())
    return f"Mean of the nine: {', '.join(told)} (the paper's InvTransE {printed:.1f})." if told else ""


def _continual() -> Table:
    lines = [
        Line(dataset, method.name, method.name) for dataset in paper.CONTINUAL_SETS for method in CONTINUAL_METHODS
    ]
    quoted = [
        Line(dataset, label, label, (), printed[dataset])
        for dataset in paper.CONTINUAL_SETS
        for label, printed in paper.CONTINUAL.items()
    ]
    title = (
        "Growing graphs, after the last snapshot: MRR over the tests of all, among all entities and among those of the "
        "test's own snapshot; seconds for each snapshot after the first"
    )
    return Table("continual", title, tuple(lines), _remark_on_quotes, tuple(quoted), if_named=True)


def _few_shot() -> Table:
    lines = [Line(dataset, method.name, method.name) for dataset in paper.FEW_SHOT_SETS for method in FEW_SHOT_METHODS]
    quoted = [
        Line(dataset, label, label, (), figures)
        for label, printed in paper.FEW_SHOT.items()
        for dataset, figures in printed.items()
    ]
    title = (
        "Newcomers with 1 or 3 given triples: ranks among all entities, known and new, over all questions; MRR over "
        "those with a known and with a new answer; GEN's filter: nothing that FB15k-237 states is a wrong answer, "
        "where the other columns know only what the tasks' folder states"
    )
    return Table("few-shot", title, tuple(lines), _remark_on_gen, tuple(quoted), if_named=True)


def _own() -> Table:
    """Methods and data sets of one's own beside the others: what is named of both."""
    is_wanted = bool(OWN_SETS) or any(isinstance(method, OwnMethod) for method in METHODS.values())
    lines = [
        Line(dataset, method.name, method.name)
        for dataset in ((*OWN_SETS, *ALL_SETS) if is_wanted else ())
        for method in METHODS.values()
        if task_of(dataset) in method.tasks and not method.beyond_paper
        if method not in (*CONTINUAL_METHODS, *FEW_SHOT_METHODS, *AS_PUBLISHED.values())
    ]
    return Table(OWN, "A comparison of one's own", tuple(lines), if_named=True)


def _remark_on_gen(cells: Sequence[Cell]) -> str:
    if not any(cell.paper is not None for cell in cells):
        return ""
    return "I-GEN and T-GEN (as printed): as printed by GEN, NeurIPS 2020, whose code filters by all of FB15k-237."


def _remark_on_quotes(cells: Sequence[Cell]) -> str:
    if not any(cell.paper is not None for cell in cells):
        return ""
    return "LKGE, IncDE and Retraining (as printed): as quoted in the literature, by the second protocol."
