"""What a method is: how it is trained, and the ways to evaluate it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ookg.datasets.published import published_sets
from ookg.research.reproduction.cache import settings_digest
from ookg.research.reproduction.paper import CONTINUAL_SETS, FEW_SHOT_SETS
from ookg.research.reproduction.results import MAIN
from ookg.system.machine import device_name

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ookg.datasets.encoded import EncodedDataset, Task
    from ookg.datasets.shots import EncodedFewShot
    from ookg.datasets.snapshots import EncodedGrowth
    from ookg.graph.ids import TripleIds
    from ookg.graph.statistics import GraphStatistics
    from ookg.models.embedding import Embedding
    from ookg.research.reproduction.cache import ModelCache, Settings, TrainedModel
    from ookg.research.reproduction.settings import PaperSettings
    from ookg.scoring.link_prediction import Protocol
    from ookg.scoring.scorer import Scorer
    from ookg.system.progress import Reporter
    from ookg.training.settings import TrainingSettings

LINK_PREDICTION: tuple[Task, ...] = ("link-prediction",)
CLASSIFICATION: tuple[Task, ...] = ("triplet-classification",)
BOTH_TASKS = LINK_PREDICTION + CLASSIFICATION
LAN_PROTOCOL = "lan-protocol"

# Changed settings by (method or model, how the data set's name begins).
ChangesByDataset = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class OwnSet:
    """A data set of one's own: its folder, its task, and how translational models are trained on it.

    digest: of its triples, so that results of another state of it are not taken for its own
    """

    folder: Path
    digest: str
    task: Task
    settings: TrainingSettings


OWN_SETS: dict[str, OwnSet] = {}  # those of this process, by name


def task_of(dataset: str) -> Task:
    """The task of a published data set, or of one's own."""
    return OWN_SETS[dataset].task if dataset in OWN_SETS else published_sets()[dataset].task


def changes_for(changes: ChangesByDataset, whose: str, dataset: str) -> dict[str, Any]:
    """What is listed for a data set; where several beginnings fit its name, later lines win."""
    found: dict[str, Any] = {}
    for (name, beginning), values in changes.items():
        if name == whose and dataset.startswith(beginning):
            found |= values
    return found


@dataclass(frozen=True)
class Variant:
    """One way to evaluate a trained model.

    protocol: of link prediction; options: plain values that the method's scorer depends on
    """

    name: str = MAIN
    protocol: Protocol = "paper"
    options: dict[str, Any] = field(default_factory=dict)


class Method(ABC):
    """A method in the tables. A model is trained once for a data set and a seed, and evaluated in every variant.

    name: as in the tables; tasks: what it can do; beyond_paper: whether it goes past the paper, which puts it into the
    table `beyond`; fits_thresholds: whether claims are told apart by thresholds fitted on valid
    """

    name: str
    tasks: tuple[Task, ...]
    beyond_paper: ClassVar[bool] = False
    fits_thresholds: ClassVar[bool] = True

    @abstractmethod
    def training(self, dataset: str, seed: int) -> Settings:
        """All that the training depends on."""

    def changes_on(self, dataset: str) -> dict[str, Any]:
        """What its settings for the data set change in those that it starts from."""
        del dataset
        return {}

    @abstractmethod
    def train(self, context: Context) -> Any:
        """Train a model: whatever `scorer` takes."""

    def scorer(self, context: Context, trained: Any, variant: Variant) -> Scorer:
        """What is evaluated of a trained model; a method without one says itself what its figures are."""
        raise NotImplementedError(f"{self.name} has no scorer")

    def figures(self, context: Context, trained: Any, variant: Variant) -> dict[str, float]:
        """What a trained model comes to, by the names of the measures."""
        from ookg.evaluation.measuring import figures_of

        return figures_of(self.scorer(context, trained, variant), context.dataset, variant.protocol)

    def variants(self, dataset: str) -> tuple[Variant, ...]:
        """The ways to evaluate a model, the main one first: here the protocols of the data set's task."""
        if task_of(dataset) == "link-prediction":
            return Variant(), Variant(LAN_PROTOCOL, "lan")
        return (Variant(),)

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """About how long the training takes, where no result says it."""
        del dataset
        return 300.0 if on_gpu else 30_000.0


def run_settings(method: Method, dataset: str, seed: int, variant: Variant) -> dict[str, Any]:
    """All that a run's figures depend on."""
    how: dict[str, Any] = {}
    if dataset in CONTINUAL_SETS:
        how["directions"] = "both"
    elif dataset in FEW_SHOT_SETS:
        how |= {"protocol": variant.protocol, "shots": FEW_SHOT_SETS[dataset].shots}
    elif task_of(dataset) == "link-prediction":
        how["protocol"] = variant.protocol
    elif method.fits_thresholds:
        how["equal_thresholds"] = "highest"  # which of the equally good ones is taken
    if dataset in OWN_SETS:
        how["data"] = OWN_SETS[dataset].digest
    return {"training": method.training(dataset, seed).to_dict(), "evaluation": how | dict(variant.options)}


@dataclass
class Ledger:
    """What a training used: the models that `Context.trained` gave, without tensors, and the seconds spent there."""

    used: dict[tuple[str, str], TrainedModel] = field(default_factory=dict)
    waited: float = 0.0


@dataclass
class Context:
    """What a method works with.

    name: of the data set as the tables have it; dataset: as ids, of a growing set its first snapshot, of a few-shot set
        what is known; cache: the trained models that are there
    growing: the growing set, for methods that follow one; few_shot: the few-shot set, for methods that answer its tasks
    further_truth: (triples, 3) what a further data set states about that one; None where it is not here
    """

    dataset: EncodedDataset
    seed: int
    device: torch.device
    cache: ModelCache
    show_progress: bool = False
    growing: EncodedGrowth | None = None
    few_shot: EncodedFewShot | None = None
    further_truth: TripleIds | None = None
    name: str = ""
    _ledger: Ledger = field(default_factory=Ledger)

    @cached_property
    def graph(self) -> GraphStatistics:
        """The statistics of the training triples."""
        from ookg.graph.statistics import GraphStatistics

        return GraphStatistics.count(self.dataset.train, self.dataset.num_known, self.dataset.num_trained)

    def within(self, dataset: EncodedDataset) -> Context:
        """The same for another data set, such as a simulated one; what is trained there counts here too."""
        return replace(self, dataset=dataset)

    @property
    def apart(self) -> Context:
        """The same, where what is trained does not count here."""
        return replace(self, _ledger=Ledger())

    def trained(self, settings: Settings, train: Callable[[], TrainedModel]) -> TrainedModel:
        """The model of these settings on the data set, from the cache; it is trained and kept if there is none yet."""
        begun = time.perf_counter()
        found = self.cache.load(self.dataset, settings, self.device)
        if found is None:
            found = train()
            self.cache.save(self.dataset, settings, found)
        self._ledger.used[self.dataset.name, settings_digest(settings)] = replace(found, tensors={})
        self._ledger.waited += time.perf_counter() - begun
        return found

    def embedding(self, settings: PaperSettings) -> Embedding:
        """Vectors trained on the data set, from the cache if they are there."""
        from ookg.models.embedding import Embedding

        tensors = self._vectors(settings)
        return Embedding(settings.geometry, tensors["entities"], tensors["relations"])

    def placeholders(self, settings: PaperSettings) -> Tensor:
        """The rows beside those vectors that no triple trained."""
        return self._vectors(settings)["placeholders"]

    def _vectors(self, settings: PaperSettings) -> Mapping[str, Tensor]:
        from ookg.research.reproduction.pretraining import train_vectors

        return self.trained(settings, lambda: train_vectors(self, settings)).tensors

    @contextmanager
    def progress(self, label: str, total: int, unit: str = "steps", start: int = 0) -> Iterator[Reporter | None]:
        """Progress of long work, if it is to be shown."""
        if not self.show_progress:
            yield None
            return
        from ookg.system.progress import Progress

        with Progress(label, total, unit, start) as report:
            yield report

    def seconds_of(self, seconds: float) -> float:
        """What a training that took so long here takes in all: models from the cache count with what they took."""
        return seconds - self._ledger.waited + self.seconds_trained

    @property
    def seconds_trained(self) -> float:
        """What the trainings of the models that count here took."""
        return sum(model.seconds for model in self._ledger.used.values())

    @property
    def trained_on(self) -> str:
        """The device of the training: that of the models it used, or this one."""
        return " and ".join(sorted({model.device for model in self._ledger.used.values()})) or device_name(self.device)
