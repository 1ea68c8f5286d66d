"""How fast the CPU paths are, against plain PyTorch and against what the machine can do.

    python benchmarks/cpu.py [--quick] [--json]
    python benchmarks/cpu.py --against FOLDER    # training steps of this and of another src folder, in turns

Each line has a time, the ratio to the PyTorch reference of the same run, and the share of a limit that is measured in
the same run. The data are random, with a few entities in many triples. Timings on a busy machine mean little: look at
the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from ookg.graph.statistics import GraphStatistics, directed_cooccurrence
from ookg.kernels import cpu_step
from ookg.kernels.adam import adam_update
from ookg.kernels.cpu_newcomers import weighted_candidates
from ookg.kernels.cpu_ranking import gap_to_all, rank_counts
from ookg.kernels.threads import get_num_threads
from ookg.models import GEOMETRIES
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import reference_sums
from ookg.newcomers.support import Support
from ookg.scoring.ranking import AnswerIndex, reference_rank_counts
from ookg.training.cpu_step import NumbaStep
from ookg.training.reference_step import ReferenceStep, loss_and_gradients
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings, preset
from ookg.training.tables import Tables
from pykeen_step import pykeen_seconds

Array = np.ndarray[Any, Any]

SIZES = {"fb15k": (10_336, 1_170, 480_000), "wn11": (37_700, 11, 110_000)}  # entities, relations, triples
FAST_MODELS = ("transe", "rotate")  # those with kernels
REFERENCE_SHARE = 8  # the reference is timed on this part of a batch where the whole would take too long


@dataclass(frozen=True)
class Line:
    """One measurement; ratio: reference time / time; share: limit / time."""

    name: str
    seconds: float
    ratio: float | None = None
    share: float | None = None
    peak_mb: float | None = None
    note: str = ""

    def __str__(self) -> str:
        parts = [f"{self.name:<44} {self.seconds * 1e3:>10,.1f} ms"]
        parts.append(f"{self.ratio:>8,.1f}x" if self.ratio is not None else " " * 9)
        parts.append(f"{self.share:>6.0%}" if self.share is not None else " " * 6)
        parts.append(f"{self.peak_mb:>7,.0f} MB" if self.peak_mb is not None else " " * 10)
        return "  ".join([*parts, self.note]).rstrip()


def best(work: Callable[[], object], times: int) -> float:
    """The shortest of some runs."""
    found = float("inf")
    for _ in range(times):
        start = perf_counter()
        work()
        found = min(found, perf_counter() - start)
    return found


def zipf_ids(rng: np.random.Generator, size: int, bound: int) -> Array:
    """Ids below the bound, the n-th most common in proportion to 1/n, in no order of commonness."""
    ids = np.exp(rng.random(size) * np.log(bound + 1)).astype(np.int64) - 1
    found: Array = rng.permutation(bound)[np.minimum(ids, bound - 1)]
    return found


def random_triples(rng: np.random.Generator, entities: int, relations: int, size: int) -> Array:
    return np.stack(
        [zipf_ids(rng, size, entities), zipf_ids(rng, size, relations), zipf_ids(rng, size, entities)], axis=1
    )


def copy_bandwidth() -> float:
    """Bytes read and written a second."""
    given, copy = torch.rand(1 << 26), torch.empty(1 << 26)
    return 2 * given.nbytes / best(lambda: copy.copy_(given), 8)


# Training steps.


def training(name: str, model: str) -> tuple[TrainingSettings, Sampler, Tables]:
    entities, relations, size = SIZES[name]
    settings = preset(name).changed({"model": model})
    triples = np.unique(random_triples(np.random.default_rng(0), entities, relations, size), axis=0)
    sampler = Sampler(torch.from_numpy(triples), entities, relations, settings)
    return settings, sampler, Tables.initial(entities, relations, settings, "cpu")


def step_lines(name: str, model: str, bandwidth: float, quick: bool) -> list[Line]:
    settings, sampler, tables = training(name, model)
    step = NumbaStep(tables, sampler, settings)
    lines = [Line(f"compile a {model} step (about 0 from the cache)", step.prepare())] if name == "fb15k" else []
    numbers = iter(range(1000))
    for _ in range(2):
        step(next(numbers))
    seconds = best(lambda: step(next(numbers)), 4 if quick else 10)
    reference, note = reference_seconds(settings, sampler, tables, whole=name == "fb15k" and model == "transe")
    limit = arithmetic_seconds(step) + traffic(step) / bandwidth
    line = Line(f"training step, {name}, {model}", seconds, reference / seconds, limit / seconds, note=note)
    return [*lines, replace(line, peak_mb=peak_megabytes(name, model))]


def print_steps(name: str, model: str) -> None:
    """The time of the fastest of some steps, for `compare`."""
    settings, sampler, tables = training(name, model)
    step, numbers = NumbaStep(tables, sampler, settings), iter(range(1000))
    for _ in range(2):
        step(next(numbers))
    print(best(lambda: step(next(numbers)), 20))


def compare(folder: str) -> None:
    """Training steps of this source and of another one, each in processes of its own that take turns."""
    here = Path(__file__).parent.parent / "src"
    for name in SIZES:
        for model in FAST_MODELS:
            found: dict[Path, float] = {}
            for source in (here, Path(folder)) * 4:
                environment = os.environ | {"PYTHONPATH": str(source.resolve())}
                command = [sys.executable, __file__, "--steps", name, model]
                result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                found[source] = min(found.get(source, float("inf")), float(result.stdout))
            new, old = found[here] * 1e3, found[Path(folder)] * 1e3
            title = f"training step, {name}, {model}"
            print(f"{title:<44} {old:>10,.1f} ms before {new:>10,.1f} ms now {new / old - 1:>+8.1%}", flush=True)


def reference_seconds(settings: TrainingSettings, sampler: Sampler, tables: Tables, whole: bool) -> tuple[float, str]:
    """The time of a reference step, and how it was found."""
    if whole:
        step, numbers = ReferenceStep(tables, sampler, settings), iter(range(100))
        with_all_threads = ReferenceStep.__call__.__wrapped__  # type: ignore[attr-defined]
        return best(lambda: with_all_threads(step, next(numbers)), 2), ""
    batch = sampler(0)
    part = slice(0, len(batch.triples) // REFERENCE_SHARE)
    batch = replace(
        batch,
        triples=batch.triples[part],
        weight=batch.weight[part],
        negatives=batch.negatives[part],
        usable=batch.usable[part],
    )
    gradient = torch.rand_like(tables.entities)
    update = best(
        lambda: adam_update(tables.entities, gradient, tables.entity_state[0], tables.entity_state[1], 0.0, 1), 2
    )
    found = best(lambda: loss_and_gradients(tables.entities, tables.relations, batch, settings), 2)
    return found * REFERENCE_SHARE + update, f"reference timed on 1/{REFERENCE_SHARE} of the batch"


def arithmetic_seconds(step: NumbaStep) -> float:
    """What the step's pairs take when all vectors are in the first-level cache, in as many threads as there are."""
    pairs, width = step.sampler.batch * (step.settings.negatives + 1), step.tables.entities.shape[1]
    entities, points = torch.rand(64, width).numpy(), torch.rand(2, width).numpy()
    offsets = np.linspace(0, pairs, 65).astype(np.int32)
    places = np.stack([np.arange(pairs) % 2, np.arange(pairs)]).astype(np.int32)
    slopes, touched = torch.rand(pairs).numpy(), np.arange(64, dtype=np.int32)
    gaps, own, rest = np.empty_like(slopes), np.empty_like(entities), np.empty_like(points)
    arguments = 0, 64, entities, points
    forward = best(lambda: cpu_step.gaps_of(*arguments, touched, (offsets, places), step.kind, gaps), 3)
    backward = best(
        lambda: cpu_step.gradients_of(*arguments, (offsets, places), touched, slopes, step.kind, (own, rest)), 3
    )
    return (forward + backward) / get_num_threads()


def traffic(step: NumbaStep) -> int:
    """The bytes a step must move to and from memory at least.

    Entities are read for the distances and for the gradients, which are written and read; the parameters and both
    moments are read and written.
    """
    return 10 * step.tables.entities.nbytes + 6 * step.tables.relations.nbytes


def peak_megabytes(name: str, model: str) -> float:
    """The most memory that a process of its own has held which takes a few steps."""
    command = [sys.executable, __file__, "--peak", name, model]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(name: str, model: str) -> None:
    settings, sampler, tables = training(name, model)
    step = NumbaStep(tables, sampler, settings)
    for number in range(3):
        step(number)
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: its maximum counts the parent's memory from before the new program was loaded.
        print(next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024)
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)  # macOS: bytes


NEIGHBOUR_SETTINGS = {
    "small": TrainingSettings(dim=12, batch=64, negatives=16, margin=4.0),
    "default sizes": TrainingSettings(),
}


def neighbour_lines(name: str, quick: bool) -> list[Line]:
    """A training alone, and beside a process that keeps one core busy."""
    settings = NEIGHBOUR_SETTINGS[name]
    triples = np.unique(random_triples(np.random.default_rng(4), 14_000, 200, 100_000), axis=0)
    sampler = Sampler(torch.from_numpy(triples), 14_000, 200, settings)
    step, numbers = NumbaStep(Tables.initial(14_000, 200, settings, "cpu"), sampler, settings), iter(range(10**9))

    def seconds_a_step() -> float:
        start, taken = perf_counter(), 0
        while perf_counter() - start < (1 if quick else 5):
            step(next(numbers))
            taken += 1
        return (perf_counter() - start) / taken

    seconds_a_step()
    alone = seconds_a_step()
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        beside = seconds_a_step()
    finally:
        neighbour.kill()
        neighbour.wait()
    note = f"{alone / beside:.0%} of the idle rate ({1 / alone:,.0f} to {1 / beside:,.0f} steps/s)"
    return [Line(f"training step, {name}, with one busy neighbour", beside, note=note)]


# Ranking.


def ranking_lines(model: str, quick: bool) -> list[Line]:
    rng = np.random.default_rng(1)
    entities, queries = SIZES["fb15k"][0], 281 if quick else 2811
    geometry = GEOMETRIES[model](1000)
    table = torch.from_numpy(rng.standard_normal((entities, geometry.entity_width), dtype=np.float32))
    answers = zipf_ids(rng, queries, entities)
    noise = rng.standard_normal((queries, geometry.entity_width), dtype=np.float32)
    # Near its answer, but not nearer than all rivals: ranks spread over the table.
    points = 0.05 * table[torch.from_numpy(answers)] + torch.from_numpy(noise)
    counts = rng.integers(0, 40, queries)
    others = AnswerIndex(
        rng.integers(0, entities, int(counts.sum())), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    )
    arrays = points.numpy(), table.numpy(), answers, others.answers, others.offsets
    rank_counts(geometry, points[:1].numpy(), table.numpy(), answers[:1], others.answers[:0], np.zeros(2, np.int64))
    seconds = best(lambda: rank_counts(geometry, *arrays), 2)
    few = 64 if model == "transe" else 4
    embedding = Embedding(geometry, table, torch.zeros(1, geometry.relation_width))
    first = AnswerIndex(others.answers[: others.offsets[few]], others.offsets[: few + 1])
    reference = best(lambda: reference_rank_counts(embedding, points[:few], answers[:few], first), 2) * queries / few
    gap_to_all(geometry, points[:1].numpy(), table.numpy())
    cached = best(lambda: gap_to_all(geometry, points[:64].numpy(), table[:1024].numpy()), 3)
    limit = cached * queries * entities / (64 * 1024)
    note = f"reference timed on {few} queries; limit: every gap in full"
    name = f"ranking, {queries:,} x {entities:,}, {model}"
    return [Line(name, seconds, reference / seconds, limit / seconds, note=note)]


# Newcomers.


def newcomer_lines(model: str, bandwidth: float, quick: bool) -> list[Line]:
    rng = np.random.default_rng(2)
    scale = 10 if quick else 1
    known, newcomers, each, width, relations = 2_000_000 // scale, 1_000_000 // scale, 10, 200, 500
    geometry = GEOMETRIES[model](width // 2 if model == "rotate" else width)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entities"
        with path.open("wb") as file:
            for _ in range(100):
                file.write(rng.standard_normal((known // 100, width), dtype=np.float32).tobytes())
        table = np.memmap(path, dtype=np.float32, mode="r+", shape=(known, width))
        float(table[:, ::16].sum())  # into the page cache and the page table
        vectors = rng.standard_normal((relations, geometry.relation_width), dtype=np.float32)
        size = newcomers * each
        support = Support(
            np.repeat(np.arange(newcomers), each),
            zipf_ids(rng, size, relations),
            rng.integers(0, known, size),
            rng.random(size) < 0.5,
            np.arange(size),
            newcomers,
        )
        rows, weights = np.arange(size), rng.random(size)

        def run(groups: int) -> Array:
            part = slice(0, groups * each)
            return weighted_candidates(
                geometry, (table, vectors), support.links, rows[part], support.newcomer[part], weights[part], groups
            )

        run(1)
        seconds = best(lambda: run(newcomers), 3)
        embedding = Embedding(geometry, torch.from_numpy(table), torch.from_numpy(vectors))
        few = newcomers // 50

        part = slice(0, few * each)
        plain = (
            newcomers
            / few
            * best(
                lambda: reference_sums(embedding, support, rows[part], support.newcomer[part], weights[part], few), 2
            )
        )
        # Rows in random order come slower than a copy: what a bare gather of them reads a second.
        chosen = torch.from_numpy(support.neighbor[: size // 10])
        bags = torch.arange(0, len(chosen), each)
        bare = 10 * best(lambda: torch.nn.functional.embedding_bag(chosen, embedding.entities, bags, mode="sum"), 3)
        # Each known row read, each vector written once.
        moved = size * width * 4 + newcomers * width * 4
        note = f"share of copying; a bare gather of the rows takes {bare * 1e3:,.0f} ms"
        name = f"newcomers, {newcomers:,} x {each}, d {width}, {model}"
        line = Line(name, seconds, plain / seconds, moved / bandwidth / seconds, note=note)
    return [line]


def statistics_lines(quick: bool) -> list[Line]:
    size = 1_000_000 if quick else 10_000_000
    entities = size // 5
    triples = random_triples(np.random.default_rng(3), entities, 1000, size)
    return [
        Line(
            f"co-occurrence, {size:,} triples, 1,000 relations, {kind}",
            best(partial(count, triples, entities, 1000), 1),
        )
        for kind, count in (("undirected", GraphStatistics.count), ("directed", directed_cooccurrence))
    ]


def pykeen_lines() -> list[Line]:
    settings, sampler, _ = training("fb15k", "transe")
    seconds = pykeen_seconds(sampler.triples, SIZES["fb15k"][0], SIZES["fb15k"][1], settings)
    return [] if seconds is None else [Line("pykeen: training step, fb15k, transe", seconds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer repetitions")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--against", metavar="FOLDER", help="the src folder of an earlier version: compare steps alone")
    parser.add_argument("--steps", nargs=2, metavar=("PRESET", "MODEL"), help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=2, metavar=("PRESET", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(*arguments.peak)
        return
    if arguments.steps:
        print_steps(*arguments.steps)
        return
    if arguments.against:
        compare(arguments.against)
        return
    quick = arguments.quick
    bandwidth = copy_bandwidth()
    load = os.getloadavg()[0]
    if not arguments.json:
        print(f"{os.cpu_count()} cores, load {load:.1f}, copy {bandwidth / 1e9:.1f} GB/s (read and write)")
    parts: list[Callable[[], list[Line]]] = [
        *(
            lambda name=name, model=model: step_lines(name, model, bandwidth, quick)
            for name in SIZES
            for model in FAST_MODELS
        ),
        *(lambda name=name: neighbour_lines(name, quick) for name in NEIGHBOUR_SETTINGS),
        *(lambda model=model: ranking_lines(model, quick) for model in FAST_MODELS),
        *(lambda model=model: newcomer_lines(model, bandwidth, quick) for model in FAST_MODELS),
        lambda: statistics_lines(quick),
        pykeen_lines,
    ]
    lines: list[Line] = []
    for part in parts:
        found = part()
        lines += found
        if not arguments.json:
            for line in found:
                print(line, flush=True)
            if part is pykeen_lines and not found:
                print("pykeen: not installed")
    if arguments.json:
        machine = {"cores": os.cpu_count(), "load": load, "copy_bytes_per_second": bandwidth}
        print(json.dumps({"machine": machine, "lines": [asdict(line) for line in lines]}, indent=2))


if __name__ == "__main__":
    main()
