"""Measuring how long LAN and InvTransE take: to train, and to represent one entity."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.models import TransE
from ookg.research.reproduction import efficiency_results
from ookg.research.reproduction.efficiency_results import Efficiency, RepresentationTime, TrainingTime
from ookg.research.reproduction.results import ResultsFolder, write_json
from ookg.system.machine import device_name, versions
from ookg.training.reference_step import ReferenceStep
from ookg.training.settings import PRESETS, TrainingSettings
from ookg.training.trainer import Trainer

if TYPE_CHECKING:
    from ookg.research.baselines import BaselineSettings


@dataclass(frozen=True)
class Measurement:
    """How times are measured.

    dim, batch, negatives: the same for both methods, where configurations are to be the same
    steps, lan_steps: training steps that InvTransE and LAN are timed over, after some of warm-up
    neighbors, dims: the m and d to represent an entity with; repeats: of which the median is taken
    entities, relations: sizes of the tables that vectors are taken from
    numbers: about how many numbers a batch of candidates holds, on a GPU and on a CPU
    """

    dim: int = 100
    batch: int = 1024
    negatives: int = 1
    steps: int = 300
    lan_steps: int = 50
    neighbors: tuple[int, ...] = (8, 16, 32, 64, 128)
    dims: tuple[int, ...] = (64, 128, 256, 512, 1024)
    repeats: int = 20
    entities: int = 10_000
    relations: int = 200
    numbers_gpu: int = 1 << 26
    numbers_cpu: int = 1 << 20

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, for JSON."""
        return asdict(self) | {"neighbors": list(self.neighbors), "dims": list(self.dims)}


MEASUREMENT = Measurement()


def settings_of(measurement: Measurement) -> dict[str, Any]:
    """All that the times depend on, as plain values: how they are measured, and LAN's settings."""
    return measurement.to_dict() | {"lan": lan_settings().to_dict()}


def lan_settings() -> BaselineSettings:
    """LAN's published settings, with the target hidden."""
    from ookg.research.baselines import published_settings

    return published_settings("LAN", "triplet-classification")


def measure(
    dataset: EncodedDataset, device: torch.device, results: ResultsFolder, measurement: Measurement
) -> Efficiency:
    """Measure both methods on one device in one go, and store the times."""
    found = Efficiency(
        settings_of(measurement),
        tuple(training_times(dataset, device, measurement)),
        tuple(representation_times(device, measurement)),
        versions(device),
        device_name(device),
        datetime.now(UTC).date().isoformat(),
    )
    write_json(efficiency_results.path_of(results, found.device), asdict(found))
    return found


def training_times(dataset: EncodedDataset, device: torch.device, measurement: Measurement) -> Iterator[TrainingTime]:
    """Seconds of whole trainings, from the time of one pass over the training triples.

    The same configuration: dimension, batch, number of false triples and number of passes are equal, so that the ratio
    is that of one pass. Once with our fastest step of each method, and once with both in plain PyTorch. Then each
    method at its own published settings, where InvTransE has 128 false triples a true one and d 300.
    """
    lan = lan_settings()
    ours = PRESETS["wn11"]
    shared = {"dim": measurement.dim, "batch": measurement.batch}
    same = ours.changed(shared | {"negatives": measurement.negatives})
    passes = _steps_a_pass(dataset, same) * lan.epochs
    lan_took = lan.epochs * _lan_pass(dataset, lan.changed(shared), device, measurement)
    plain_lan_took = lan_took  # on a CPU LAN has no other step
    if device.type == "cuda":
        plain_lan_took = lan.epochs * _lan_pass(dataset, lan.changed(shared), device, measurement, plain=True)
    name = f"d {measurement.dim}, batch {measurement.batch}, {measurement.negatives} false a true triple"
    name = f"{name}, {lan.epochs} passes"
    yield TrainingTime(name, passes * _step_seconds(dataset, same, device, measurement), lan_took, of_paper=True)
    yield TrainingTime(
        f"{name}, both in plain PyTorch",
        passes * _step_seconds(dataset, same, device, measurement, plain=True),
        plain_lan_took,
        of_paper=True,
    )
    yield TrainingTime(
        f"each at its published settings, InvTransE {ours.steps:,} steps, LAN {lan.epochs} passes",
        ours.steps * _step_seconds(dataset, ours, device, measurement),
        lan_took if lan == lan.changed(shared) else lan.epochs * _lan_pass(dataset, lan, device, measurement),
        of_paper=False,
    )


def _steps_a_pass(dataset: EncodedDataset, settings: TrainingSettings) -> int:
    return math.ceil(len(dataset.train) / settings.batch)


def _step_seconds(
    dataset: EncodedDataset,
    settings: TrainingSettings,
    device: torch.device,
    measurement: Measurement,
    plain: bool = False,
) -> float:
    """Seconds of one training step of InvTransE, after as many of warm-up."""
    trainer = Trainer(torch.from_numpy(dataset.train).to(device), dataset.num_known, dataset.num_trained, settings)
    step = ReferenceStep(trainer.tables, trainer.sampler, settings) if plain else trainer.take_step
    seconds = 0.0
    for begin in (0, measurement.steps):
        begun = _now(device)
        for number in range(begin, begin + measurement.steps):
            step(number)
        seconds = _now(device) - begun
    return seconds / measurement.steps


def _lan_pass(
    dataset: EncodedDataset, settings: Any, device: torch.device, measurement: Measurement, plain: bool = False
) -> float:
    """Seconds of one pass of LAN: so many training steps, each as long as the mean of some after a warm-up."""
    from ookg.research.baselines.encoder import Encoder
    from ookg.research.baselines.sampling import Batches
    from ookg.research.baselines.training import WARM_UP, CapturedStep, Step, fast_products

    with fast_products():
        encoder, batches = Encoder(dataset, settings, device), Batches(dataset, settings, device)
        encoder.uses_kernels &= not plain
        step = CapturedStep(encoder, batches.size) if device.type == "cuda" else Step(encoder)
        epoch = batches.epoch(1)
        begun = 0.0
        for number in range(WARM_UP + 1 + measurement.lan_steps):
            if number == WARM_UP + 1:
                begun = _now(device)
            step(epoch[number % batches.steps])
        return (_now(device) - begun) / measurement.lan_steps * batches.steps


def representation_times(device: torch.device, measurement: Measurement) -> Iterator[RepresentationTime]:
    """Seconds to represent one entity, from batches large enough to keep the device busy."""
    budget = measurement.numbers_gpu if device.type == "cuda" else measurement.numbers_cpu
    for dim in measurement.dims:
        size = max(1, budget // dim)
        action = _known_entities(dim, size, device, measurement)
        took = _median_seconds(action, device, measurement.repeats) / size
        yield RepresentationTime(efficiency_results.KNOWN, 1, dim, took)
        for neighbors in measurement.neighbors:
            size = max(1, budget // (dim * neighbors))
            for what, prepare in ((efficiency_results.NEW, _new_entities), (efficiency_results.LAN, _lan_entities)):
                action = prepare(dim, size, neighbors, device, measurement)
                took = _median_seconds(action, device, measurement.repeats) / size
                yield RepresentationTime(what, neighbors, dim, took)


def _known_entities(dim: int, size: int, device: torch.device, measurement: Measurement) -> Callable[[], Tensor]:
    """A look-up in the table: O(d)."""
    table = torch.randn(measurement.entities, dim, device=device)
    ids = torch.randint(measurement.entities, (size,), device=device)
    return lambda: table[ids]


def _new_entities(
    dim: int, size: int, neighbors: int, device: torch.device, measurement: Measurement
) -> Callable[[], Tensor]:
    """The weighted mean of the neighbours' candidates: O(md). The weights are given, as LAN's logic ones are."""
    geometry = TransE(dim)
    entities = torch.randn(measurement.entities, dim, device=device)
    relations = torch.randn(measurement.relations, dim, device=device)
    neighbor = torch.randint(measurement.entities, (size, neighbors), device=device)
    relation = torch.randint(measurement.relations, (size, neighbors), device=device)
    weights = torch.softmax(torch.randn(size, neighbors, device=device), dim=1)

    def represent() -> Tensor:
        candidates = geometry.solve_head(relations[relation], entities[neighbor])  # (size, m, d)
        return torch.bmm(weights[:, None], candidates).squeeze(1)

    return represent


def _lan_entities(
    dim: int, size: int, neighbors: int, device: torch.device, measurement: Measurement
) -> Callable[[], Tensor]:
    """LAN's network on random neighbours: O(md²). In plain PyTorch: our kernel applies W to the tables instead."""
    from ookg.research.baselines.encoder import Encoder
    from ookg.research.baselines.neighbors import Neighbors

    rng = np.random.default_rng(0)
    highest = [measurement.entities, measurement.relations, measurement.entities]
    train = rng.integers(0, highest, size=(measurement.entities, 3))
    nothing = np.empty((0, 3), dtype=np.int64)
    sizes = measurement.entities, measurement.entities, measurement.relations, measurement.relations
    random = EncodedDataset("random", "triplet-classification", *sizes, train, nothing, nothing, nothing)
    encoder = Encoder(random, lan_settings().changed({"dim": dim}), device).eval()
    encoder.uses_kernels = False
    table = Neighbors(
        torch.randint(2 * measurement.relations, (size, neighbors), device=device),
        torch.randint(measurement.entities, (size, neighbors), device=device),
        torch.ones(size, neighbors, dtype=torch.bool, device=device),
        torch.ones(size, neighbors, device=device),
    )
    query = torch.randint(2 * measurement.relations, (size,), device=device)

    @torch.no_grad()
    def represent() -> Tensor:
        found: Tensor = encoder(table, query)
        return found

    return represent


def _median_seconds(action: Callable[[], Tensor], device: torch.device, repeats: int) -> float:
    times = []
    for repeat in range(repeats + 3):
        begun = _now(device)
        action()
        if repeat >= 3:  # the first ones warm up
            times.append(_now(device) - begun)
    return statistics.median(times)


def _now(device: torch.device) -> float:
    """The time when all that the device was asked for is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
