"""What is to be done: the runs that the chosen tables need, what is there of them, and how long the rest takes."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ookg.datasets.published import published_sets
from ookg.errors import InputError, unknown_name
from ookg.research.reproduction import efficiency_results
from ookg.research.reproduction.cache import ModelCache
from ookg.research.reproduction.methods import (
    AS_PUBLISHED,
    METHODS,
    OWN_SETS,
    OwnMethod,
    OwnSet,
    Variant,
    own_method,
    run_settings,
)
from ookg.research.reproduction.paper import CONTINUAL_SETS, FEW_SHOT_SETS
from ookg.research.reproduction.results import Result, ResultsFolder, Run, plain
from ookg.research.reproduction.tables import OWN, Line, Table, run_tables
from ookg.system.machine import is_gpu
from ookg.training.settings import TrainingSettings

if TYPE_CHECKING:
    from ookg.datasets.dataset import Dataset

# What an evaluation takes, where no result says it.
EVALUATION_SECONDS = {"gpu": 1.0, "cpu": 5.0}

EFFICIENCY = efficiency_results.TABLE
LAST_TABLES = ("beyond", "continual", "few-shot", OWN)
TABLES = (*(name for name in run_tables() if name not in LAST_TABLES), EFFICIENCY, *LAST_TABLES)
OUR_SETS = (*published_sets(), *CONTINUAL_SETS, *FEW_SHOT_SETS)

State = Literal["done", "to do", "other settings"]


@dataclass(frozen=True)
class Selection:
    """Which tables, data sets and methods are meant; None for all. seeds: how many seeds, or None for those there are.

    The names are as they are written in the tables. names_nothing: whether all was left to the defaults
    """

    tables: tuple[str, ...]
    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    names_nothing: bool = False

    @classmethod
    def of(
        cls,
        tables: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        seeds: int | None = None,
        own_settings: TrainingSettings | None = None,
    ) -> Selection:
        """The selection of names as people write them, in any case; what does not exist is refused.

        A data set may be a folder, a method a Python file or what an installed package calls it.
        own_settings: how translational models are trained on data sets that are folders; None for the default
        """
        if seeds is not None and seeds < 1:
            raise InputError(f"seeds {seeds}; it must be 1 or more")
        sets = None if datasets is None else tuple(_dataset(name, own_settings) for name in datasets)
        ways = None if methods is None else tuple(_method(name) for name in methods)
        is_own = any(name in OWN_SETS for name in sets or ()) or any(_is_own(name) for name in ways or ())
        usual = (OWN,) if is_own else TABLES
        chosen = usual if tables is None else tuple(_named("table", name, TABLES) for name in tables)
        selection = cls(chosen, sets, ways, seeds, tables is None and datasets is None and methods is None)
        wanted = any(selection.lines(table) for table in selection.run_tables) or selection.efficiency
        if (datasets is not None or methods is not None) and not wanted:
            where = f"table {', '.join(chosen)}" if tables is not None else "any table"
            said = ", ".join([*(sets or ()), *(ways or ())])
            remedy = "choose other tables, data sets or methods"
            for name, published in AS_PUBLISHED.items():
                if ways == (published.name,):
                    remedy = f"triplet-classification-variants has it, where its settings are others than {name}'s"
            raise InputError(f"nothing of {said} in {where}; {remedy}")
        return selection

    @property
    def run_tables(self) -> list[Table]:
        """The chosen tables that are made of runs."""
        known = run_tables()
        return [known[name] for name in self.tables if name in known]

    @property
    def efficiency(self) -> bool:
        """Whether times are to be measured too."""
        in_sets = self.datasets is None or efficiency_results.DATASET in self.datasets
        in_methods = self.methods is None or set(efficiency_results.METHODS) <= set(self.methods)
        return EFFICIENCY in self.tables and in_sets and in_methods

    def lines(self, table: Table) -> list[Line]:
        """The chosen lines of a table."""
        return [line for line in table.lines if self._has(line)]

    def shown(self, table: Table) -> list[Line]:
        """The same with the lines that are only quoted, data set by data set."""
        lines = [line for line in (*table.quoted, *table.lines) if self._has(line)]
        return sorted(lines, key=lambda line: OUR_SETS.index(line.dataset)) if table.quoted else lines

    def _has(self, line: Line) -> bool:
        in_sets = self.datasets is None or line.dataset in self.datasets
        return in_sets and (self.methods is None or line.method in self.methods)


def _dataset(name: str, own_settings: TrainingSettings | None) -> str:
    known = {known.lower(): known for known in OUR_SETS}
    if name.lower() in known:
        return known[name.lower()]
    if Path(name).is_dir():
        return _own_set(Path(name), own_settings or TrainingSettings())
    remedy = "`ookg datasets list` shows the published ones, and a folder can be one"
    raise unknown_name("data set", name, list(OUR_SETS), remedy)


def _own_set(folder: Path, settings: TrainingSettings) -> str:
    """Make a folder one of the data sets; its name."""
    from ookg.datasets.folder import load_dataset

    dataset = load_dataset(folder)
    if dataset.name.lower() in {name.lower() for name in OUR_SETS}:
        raise InputError(f"{folder}: a data set named {dataset.name}, as one of the tables is; rename the folder")
    there = OWN_SETS.get(dataset.name)
    if there is not None and there.folder != folder.resolve():
        raise InputError(f"{folder}: a data set named {dataset.name}, as {there.folder} is; rename one of the folders")
    settings = settings.with_steps(len(dataset.train))
    OWN_SETS[dataset.name] = OwnSet(folder.resolve(), _digest(dataset), dataset.task, settings)
    return dataset.name


def _digest(dataset: Dataset) -> str:
    """A name for all triples of a data set, with their labels."""
    digest = hashlib.sha256()
    for part in (dataset.train, dataset.valid, dataset.aux, dataset.test):
        digest.update(part.ids.tobytes())
        for labels in (part.entities.labels, part.relations.labels):
            digest.update("\0".join(labels.to_pylist()).encode())
        if part.truth is not None:
            digest.update(part.truth.tobytes())
    return digest.hexdigest()[:16]


def _is_own(method: str) -> bool:
    return isinstance(METHODS[method], OwnMethod)


def _method(name: str) -> str:
    known = {known.lower(): known for known in METHODS}
    if name.lower() in known:
        return known[name.lower()]
    own = own_method(name)
    if own is None:
        remedy = f"choose among {', '.join(METHODS)}, or give a Python file"
        raise unknown_name("method", name, list(METHODS), remedy)
    taken = known.get(own.name.lower())
    if taken is not None and not _is_own(taken):
        raise InputError(f"{name}: a method named {own.name}, as one of the tables is; set another NAME in it")
    METHODS[own.name] = own
    return own.name


def _named(kind: str, name: str, known: Sequence[str]) -> str:
    for candidate in known:
        if candidate.lower() == name.lower():
            return candidate
    raise unknown_name(kind, name, list(known), f"choose among {', '.join(known)}")


@dataclass(frozen=True)
class Job:
    """The runs of one trained model.

    states: the variants with what is there of each; seconds: how long what is to do takes, about
    """

    dataset: str
    method: str
    seed: int
    states: tuple[tuple[Variant, State], ...]
    seconds: float

    @property
    def missing(self) -> list[Variant]:
        """The variants to run."""
        return [variant for variant, state in self.states if state == "to do"]

    def run(self, variant: Variant) -> Run:
        """The run of one of its variants."""
        return Run(self.dataset, self.method, self.seed, variant.name)


def jobs_of(selection: Selection, results: ResultsFolder, cache: ModelCache, device: str) -> list[Job]:
    """The jobs that the selection needs, data set by data set, with what is there of them.

    device: the name of the device, for the times
    """
    needed: dict[tuple[str, str, int], dict[str, None]] = {}
    for table in selection.run_tables:
        if table.if_named and selection.names_nothing:
            continue
        for line in selection.lines(table):
            if line.if_named and selection.methods is None:
                continue
            for seed in range(selection.seeds or 1):
                names = needed.setdefault((line.dataset, line.method, seed), {})
                names.update(dict.fromkeys(line.variants))
    order = {name: place for place, name in enumerate((*OUR_SETS, *OWN_SETS))}
    jobs = []
    for (dataset, method, seed), names in sorted(needed.items(), key=lambda item: order[item[0][0]]):
        by_name = {variant.name: variant for variant in METHODS[method].variants(dataset)}
        states = tuple(
            (by_name[name], _state(Run(dataset, method, seed, name), by_name[name], results)) for name in names
        )
        missing = sum(state == "to do" for _, state in states)
        took = _estimate(dataset, method, seed, missing, results, cache, device) if missing else 0.0
        jobs.append(Job(dataset, method, seed, states, took))
    return jobs


def _state(run: Run, variant: Variant, results: ResultsFolder) -> State:
    found = results.find(run)
    if found is None:
        return "to do"
    method = METHODS[run.method]
    wanted, training = (
        plain(run_settings(method, run.dataset, run.seed, variant)),
        method.training(run.dataset, run.seed),
    )
    same_training = completed(found.settings.get("training"), training) == completed(wanted["training"], training)
    return "done" if same_training and found.settings.get("evaluation") == wanted["evaluation"] else "other settings"


def completed(stored: Any, settings: Any) -> Any:
    """Settings as they are stored, with the defaults of what they do not name or did not know yet."""
    if not isinstance(stored, dict) or not is_dataclass(settings):
        return stored
    return plain({part.name: part.default for part in fields(settings) if part.default is not MISSING}) | stored


def refuse_other_settings(jobs: Iterable[Job], results: ResultsFolder) -> None:
    """Stop before anything is trained where a result was made with settings that are not those of today."""
    stale = [job.run(variant) for job in jobs for variant, state in job.states if state == "other settings"]
    if stale:
        others = f" (and {len(stale) - 1} more)" if len(stale) > 1 else ""
        path = results.path_of(stale[0])
        raise InputError(
            f"{path}{others}: made with other settings than now; remove it to run it again, or choose another `out`"
        )


def _estimate(
    dataset: str, method: str, seed: int, evaluations: int, results: ResultsFolder, cache: ModelCache, device: str
) -> float:
    """Seconds for a training, unless its model is in the cache, and so many evaluations."""
    stored = [result for result in _stored(dataset, method, results) if result.device == device]
    kind = "gpu" if is_gpu(device) else "cpu"
    training = [result.seconds["train"] for result in stored if "train" in result.seconds]
    evaluating = [result.seconds["evaluate"] for result in stored if "evaluate" in result.seconds]
    took = statistics.median(evaluating) if evaluating else EVALUATION_SECONDS[kind]
    train = statistics.median(training) if training else METHODS[method].rough_seconds(dataset, kind == "gpu")
    if cache.holds(dataset, METHODS[method].training(dataset, seed)):
        train = 0.0
    return train + evaluations * took


def _stored(dataset: str, method: str, results: ResultsFolder) -> list[Result]:
    """The main results of the method on data sets of the same family."""
    family = dataset.split("-", maxsplit=1)[0]
    names = [name for name in OUR_SETS if name.startswith(family)]
    runs = [Run(name, method, seed) for name in names for seed in results.seeds_of(name, method)]
    return [result for run in runs if (result := results.find(run)) is not None]
