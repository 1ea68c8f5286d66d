"""Making what is missing, and showing what is there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.packed import find_packed, read_packed
from ookg.datasets.shots import EncodedFewShot
from ookg.datasets.snapshots import EncodedGrowth
from ookg.errors import InputError, TrainingInterrupted
from ookg.research.reproduction import efficiency_results
from ookg.research.reproduction.cache import ModelCache
from ookg.research.reproduction.methods import METHODS, OWN_SETS, Context, run_settings
from ookg.research.reproduction.paper import CLASSIFICATION_MEASURES, CONTINUAL_SETS, FEW_SHOT_SETS
from ookg.research.reproduction.plan import EFFICIENCY, Job, Selection, State, completed, jobs_of, refuse_other_settings
from ookg.research.reproduction.rendering import Grid, grid_of
from ookg.research.reproduction.results import Result, ResultsFolder, plain
from ookg.research.reproduction.tables import Cell, Table, run_tables
from ookg.system.display import counted
from ookg.system.machine import device_name, is_gpu, versions

if TYPE_CHECKING:
    import torch

    from ookg.graph.ids import TripleIds

# What measuring the times takes, about.
EFFICIENCY_SECONDS = {"gpu": 120.0, "cpu": 3600.0}


@dataclass(frozen=True)
class Places:
    """Where things are: results, trained models (None for the cache) and data sets (None for where they are found)."""

    out: str | Path = "results"
    models: str | Path | None = None
    data: str | Path | None = None

    @property
    def results(self) -> ResultsFolder:
        """The results folder."""
        return ResultsFolder(self.out)

    @property
    def cache(self) -> ModelCache:
        """The trained models."""
        return ModelCache(self.models)


def reproduce(
    tables: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    *,
    seeds: int = 1,
    device: str = "auto",
    places: Places | None = None,
    progress: bool = False,
) -> list[Cell]:
    """Train and evaluate what is missing for the tables, store each result, and return the tables' cells.

    tables, datasets, methods: their names; None for all
    seeds: runs with the seeds 0 to seeds - 1
    """
    selection, places = Selection.of(tables, datasets, methods, seeds), places or Places()
    make_missing(selection, places, device, progress)
    return cells(selection, places.results)


def cells(selection: Selection, results: ResultsFolder) -> list[Cell]:
    """The cells of the chosen tables from what is stored."""
    found = [
        cell for table in selection.run_tables for cell in table.cells(results, selection.shown(table), selection.seeds)
    ]
    if selection.efficiency:
        found += [cell for times in efficiency_results.stored(results) for cell in times.cells()]
    return found


def grids(selection: Selection, results: ResultsFolder, interval: bool = False) -> dict[str, list[Grid]]:
    """The chosen tables as text, from what is stored; by name, in the order of the selection.

    A table without a line of the chosen data sets and methods is left out.
    interval: the confidence interval of each mean instead of the spread, and a test of it against the best one
    """
    known = run_tables()
    found: dict[str, list[Grid]] = {}
    for name in selection.tables:
        if name not in known:
            if selection.efficiency:
                found[name] = [grid for times in efficiency_results.stored(results) for grid in times.grids()]
        elif lines := selection.shown(known[name]):
            found[name] = _grids_by_task(known[name], known[name].cells(results, lines, selection.seeds), interval)
    return found


def _grids_by_task(table: Table, cells: list[Cell], interval: bool) -> list[Grid]:
    """The tables that cells make: one for each task, as ranks and accuracies have different columns."""
    by_task: dict[bool, list[Cell]] = {}
    for cell in cells:
        by_task.setdefault(cell.measure in CLASSIFICATION_MEASURES, []).append(cell)
    grids = [grid_of(table.title, part, table.remark(part), interval) for part in by_task.values()]
    return [grid for grid in grids if grid.rows]


def grids_for_marker(
    results: ResultsFolder, seeds: int | None, interval: bool, table: str, names: tuple[str, ...]
) -> list[Grid]:
    """What a place in a Markdown file shows: a table, only the lines of the data sets and methods named there."""
    lowered = {method.lower(): method for method in METHODS}
    methods = [name for name in names if name.lower() in lowered]
    datasets = [name for name in names if name.lower() not in lowered]
    selection = Selection.of([table], datasets or None, methods or None, seeds)
    return [grid for made in grids(selection, results, interval).values() for grid in made]


@dataclass(frozen=True)
class Planned:
    """A line of the list of what there is to do: some runs of one model.

    done, runs: how many are done, of how many; seconds: about how long the rest takes
    """

    dataset: str
    method: str
    seed: int
    state: State
    done: int
    runs: int
    seconds: float


def plan(selection: Selection, places: Places, device: str) -> list[Planned]:
    """What `reproduce` would do, and how long that takes."""
    from ookg.training.loop import choose_device

    name = device_name(choose_device(device))
    found = []
    for job in jobs_of(selection, places.results, places.cache, name):
        states = [state for _, state in job.states]
        state: State = "other settings" if "other settings" in states else "to do" if "to do" in states else "done"
        found.append(Planned(job.dataset, job.method, job.seed, state, states.count("done"), len(states), job.seconds))
    if selection.efficiency:
        state = _efficiency_state(places.results, name)
        seconds = EFFICIENCY_SECONDS["gpu" if is_gpu(name) else "cpu"] if state == "to do" else 0.0
        entry = Planned(efficiency_results.DATASET, EFFICIENCY, 0, state, int(state == "done"), 1, seconds)
        found.append(entry)
    return found


def _efficiency_state(results: ResultsFolder, device: str) -> State:
    from ookg.research.reproduction import efficiency

    path = efficiency_results.path_of(results, device)
    if not path.exists():
        return "to do"
    stored = dict(efficiency_results.Efficiency.read(path).settings)
    stored["lan"] = completed(stored.get("lan"), efficiency.lan_settings())
    return "done" if stored == plain(efficiency.settings_of(efficiency.MEASUREMENT)) else "other settings"


def make_missing(selection: Selection, places: Places, device: str = "auto", progress: bool = False) -> None:
    """Run what is missing for a selection; each result is stored as soon as it is there."""
    from ookg.training.loop import choose_device

    target = choose_device(device)
    name = device_name(target)
    jobs = jobs_of(selection, places.results, places.cache, name)
    refuse_other_settings(jobs, places.results)
    times = _efficiency_state(places.results, name) if selection.efficiency else "done"
    if times == "other settings":
        path = efficiency_results.path_of(places.results, name)
        raise InputError(f"{path}: measured with other settings than now; remove it to measure again")
    work: list[Callable[[], None]] = []
    datasets = _DatasetReader(places.data)
    say = _say if progress else _say_nothing
    left = [job for job in jobs if job.missing]
    for job in left:
        work.append(partial(_finish, job, datasets, target, places, progress, say))
    if times == "to do":
        work.append(partial(_measure_times, datasets, target, places.results, say))
    datasets.check({job.dataset for job in left} | ({efficiency_results.DATASET} if times == "to do" else set()))
    if left:
        say(f"{counted(len(left), 'model')} to train or to take from the cache, and to evaluate, on {name}")
    for number, act in enumerate(work):
        try:
            act()
        except (KeyboardInterrupt, TrainingInterrupted):
            kept = f"{number} of {counted(len(work), 'model')} done, their results are in {places.out}"
            raise TrainingInterrupted(f"interrupted; {kept}; the same command goes on from there") from None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_nothing(text: str) -> None:
    del text


FEW_SHOT_SOURCES = {dataset.source for dataset in FEW_SHOT_SETS.values()}


def _source(name: str) -> str:
    """The name under which a data set of the tables lies on disk."""
    return FEW_SHOT_SETS[name].source if name in FEW_SHOT_SETS else name


def further_truth(name: str, other: str, data: str | Path | None = None) -> TripleIds | None:
    """What a growing data set states beyond a few-shot one, in the ids of that; None where it is not here."""
    from ookg.datasets.few_shot import load_few_shot
    from ookg.datasets.growing import find_growing, load_growing

    if find_growing(other, data) is None:
        return None
    parts = [part for snapshot in load_growing(other, data).snapshots for part in snapshot.parts]
    return replace(load_few_shot(name, data), also_true=None).with_also_true(*parts).encoded.also_true


class _DatasetReader:
    """Reads data sets as ids, packed ones first, and keeps the last one."""

    def __init__(self, data: str | Path | None) -> None:
        self.data = data
        self._last: EncodedDataset | EncodedGrowth | EncodedFewShot | None = None

    def check(self, names: Iterable[str]) -> None:
        """Refuse before the first training what would fail at a later one."""
        for name in sorted({_source(name) for name in names} - set(OWN_SETS)):
            if find_packed(name, self.data) is None:
                self._check_text(name)

    def _check_text(self, name: str) -> None:
        try:
            from ookg.datasets.few_shot import FEW_SHOT_FOLDER, find_few_shot
            from ookg.datasets.folder import find_dataset, load_dataset
            from ookg.datasets.growing import GROWING_FOLDER, find_growing
        except ImportError as error:
            problem = f"no {name}.npz where data sets are looked for, and text cannot be read here ({error})"
            raise InputError(f"data set {name}: {problem}; pack it elsewhere with benchmarks/pack.py") from error
        if name in FEW_SHOT_SOURCES:
            if find_few_shot(name, self.data) is None:
                place = Path(self.data or "OOKG_DATA") / FEW_SHOT_FOLDER / name
                raise InputError(f"data set {name}: no folder {place} with its tasks; put it there, or name `data`")
        elif name not in CONTINUAL_SETS:
            if find_dataset(name, self.data) is None:
                load_dataset(name, self.data)  # says what is missing
        elif find_growing(name, self.data) is None:
            place = Path(self.data or "OOKG_DATA") / GROWING_FOLDER / name
            raise InputError(f"data set {name}: no folder {place} with its snapshots; put it there, or name `data`")

    def newcomers(self, name: str) -> EncodedDataset:
        """A data set with new entities."""
        dataset = self(name)
        if not isinstance(dataset, EncodedDataset):
            kind = "a growing one" if isinstance(dataset, EncodedGrowth) else "one with tasks"
            raise InputError(f"data set {name}: is packed as {kind}; pack it again with benchmarks/pack.py")
        return dataset

    def growing(self, name: str) -> EncodedGrowth:
        """A growing data set."""
        dataset = self(name)
        if not isinstance(dataset, EncodedGrowth):
            raise InputError(f"data set {name}: is packed as one that does not grow; pack it again")
        return dataset

    def few_shot(self, name: str) -> EncodedFewShot:
        """A few-shot data set."""
        dataset = self(_source(name))
        if not isinstance(dataset, EncodedFewShot):
            raise InputError(f"data set {name}: is packed as one without tasks; pack it again")
        return dataset

    def further_truth(self, name: str) -> TripleIds | None:
        """What a further data set states about a few-shot one; None where not both are here as text."""
        source, other = _source(name), FEW_SHOT_SETS[name].also_true
        if other is None or find_packed(source, self.data) is not None:
            return None
        return further_truth(source, other, self.data)

    def __call__(self, name: str) -> EncodedDataset | EncodedGrowth | EncodedFewShot:
        """The data set of that name."""
        if self._last is None or self._last.name != name:
            self._last = self._read(name)
        return self._last

    def _read(self, name: str) -> EncodedDataset | EncodedGrowth | EncodedFewShot:
        packed = None if name in OWN_SETS else find_packed(name, self.data)
        if packed is not None:
            return read_packed(packed)
        if name in CONTINUAL_SETS:
            from ookg.datasets.growing import load_growing

            return load_growing(name, self.data).encoded
        if name in FEW_SHOT_SOURCES:
            from ookg.datasets.few_shot import load_few_shot

            return load_few_shot(name, self.data).encoded
        from ookg.datasets.folder import load_dataset

        return EncodedDataset.of(load_dataset(OWN_SETS[name].folder if name in OWN_SETS else name, self.data))


def _finish(
    job: Job,
    datasets: _DatasetReader,
    device: torch.device,
    places: Places,
    progress: bool,
    say: Callable[[str], None],
) -> None:
    """Train a model, or take it from the cache, and make the results that are missing."""
    method = METHODS[job.method]
    growing = datasets.growing(job.dataset) if job.dataset in CONTINUAL_SETS else None
    few_shot = datasets.few_shot(job.dataset) if job.dataset in FEW_SHOT_SETS else None
    if growing is not None:
        dataset = growing.dataset_of(0)
    else:
        dataset = datasets.newcomers(job.dataset) if few_shot is None else few_shot.known
    truth = None if few_shot is None else datasets.further_truth(job.dataset)
    context = Context(dataset, job.seed, device, places.cache, progress, growing, few_shot, truth, job.dataset)
    begun = time.perf_counter()
    trained = method.train(context)
    train_seconds = context.seconds_of(time.perf_counter() - begun)
    for variant in job.missing:
        begun = time.perf_counter()
        figures = method.figures(context, trained, variant)
        seconds = {"train": train_seconds, "evaluate": time.perf_counter() - begun}
        run = job.run(variant)
        result = Result(
            run.dataset,
            run.method,
            run.seed,
            run.variant,
            plain(run_settings(method, run.dataset, run.seed, variant)),
            {name: round(value, 6) for name, value in figures.items()},
            {name: round(value, 3) for name, value in seconds.items()},
            versions(device),
            context.trained_on,
            datetime.now(UTC).date().isoformat(),
        )
        places.results.write(result)
        # Names with a dot are details, such as those of one snapshot.
        shown = ", ".join(f"{name} {value:.4g}" for name, value in result.figures.items() if "." not in name)
        say(f"{run}: {shown} ({train_seconds:.1f} s of training, {seconds['evaluate']:.1f} s of evaluation)")


def _measure_times(
    datasets: _DatasetReader, device: torch.device, results: ResultsFolder, say: Callable[[str], None]
) -> None:
    from ookg.research.reproduction import efficiency

    say(f"measuring the times of LAN and InvTransE on {device_name(device)}")
    efficiency.measure(datasets.newcomers(efficiency_results.DATASET), device, results, efficiency.MEASUREMENT)
