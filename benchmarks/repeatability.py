"""Whether the same input gives the same bits: every CPU path, run again and again.

    python benchmarks/repeatability.py [--runs 1000] [--processes 20] [--only PATH]

In one process each path is run so many times, in turns with 1 and 2 threads. Before each call of a compiled kernel all
its arrays are moved: in a random order, with random small gaps or none between them. Paths marked "slow" train models
and run a twentieth as often. Then fresh processes run every path a few times. The last table has, for each path, the
number of runs and of results that differ from the first one; the exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

import ookg
from ookg.graph.statistics import GraphStatistics
from ookg.kernels import cpu_newcomers, cpu_prior, cpu_ranking, cpu_refinement, threads
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Correlation, Precision, Uniform
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.ranking import AnswerIndex, filtered_rank_counts
from ookg.simulation.audit import AuditSettings, audit
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.retraining import Retraining
from ookg.simulation.tuning import TuningSettings, tune
from ookg.training import cpu_step
from ookg.training.continuing import Growth, Mode, UpdateSettings, continue_training
from ookg.training.loop import TrainingRun
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer

Array = np.ndarray[Any, Any]
SLOW_SHARE = 20
ENTITIES, RELATIONS = 48, 5
SETTINGS = TrainingSettings(dim=13, steps=12, batch=64, negatives=16, margin=4.0, lr=0.05)
FIT = RefineSettings(margin=4.0, steps=8, lr=0.05, negatives=17, batch=8)
GEOMETRIES: dict[str, Geometry] = {
    "transe L1": TransE(13, 1),
    "transe L2": TransE(13, 2),
    "transe L2 squared": TransE(13, 2, squared=True),
    "transe of length 1": TransE(13, 1, unit_norm=2),
    "rotate L1": RotatE(13, 1),
    "rotate L2": RotatE(13, 2),
}


@dataclass(frozen=True)
class Way:
    """A way through the code; its result is a list of arrays, or of plain values.

    is_slow: it trains models, and runs less often
    """

    run: Callable[[], list[Any]]
    is_slow: bool = False


def digest(results: list[Any]) -> str:
    """A hash of all bits."""
    found = hashlib.sha256()
    for result in results:
        array = result.detach().numpy() if isinstance(result, torch.Tensor) else result
        found.update(array.tobytes() if isinstance(array, np.ndarray) else repr(array).encode())
    return found.hexdigest()


# Arrays in other places.


def moved(values: tuple[Any, ...], random: np.random.Generator) -> tuple[tuple[Any, ...], list[tuple[Array, Array]]]:
    """The same values with all arrays elsewhere, in one piece of memory; and the pairs of old and new arrays."""
    places: dict[tuple[int, int], Array] = {}
    pairs: list[tuple[Array, Array]] = []

    def arrays(value: Any) -> Iterator[Array]:
        if isinstance(value, np.ndarray) and value.flags.c_contiguous and value.size:
            yield value
        elif isinstance(value, tuple):
            for part in value:
                yield from arrays(part)

    def key(array: Array) -> tuple[int, int]:  # two shapes of one array stay one
        return array.__array_interface__["data"][0], array.nbytes

    distinct = {key(array): array for array in arrays(values)}
    order = [list(distinct)[number] for number in random.permutation(len(distinct))]
    memory = np.empty(sum(array.nbytes + 192 for array in distinct.values()) + 64, dtype=np.uint8)
    start = -memory.__array_interface__["data"][0] % 64 + 4 * int(random.integers(0, 16))
    for name in order:
        array = distinct[name]
        start += -start % array.itemsize + array.itemsize * int(random.choice([0, 0, 1, 3, 8, 16]))
        copy = np.ndarray(array.shape, array.dtype, buffer=memory.data, offset=start)
        copy[...] = array
        copy.flags.writeable = array.flags.writeable
        places[name] = copy
        pairs.append((array, copy))
        start += array.nbytes

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(replaced(part) for part in value)
        is_moved = isinstance(value, np.ndarray) and value.size and key(value) in places
        return places[key(value)].reshape(value.shape) if is_moved else value

    return replaced(values), pairs


@contextmanager
def arrays_moved(random: np.random.Generator) -> Iterator[None]:
    """Every compiled kernel works on arrays in other places than its caller's."""
    modules = cpu_newcomers, cpu_prior, cpu_ranking, cpu_refinement, cpu_step
    run_tasks, update_vectors = threads.run_tasks, cpu_refinement.update_vectors

    def with_moved(function: Callable[..., None], fixed: int, *arguments: Any) -> None:
        values, pairs = moved(arguments[fixed:], random)
        function(*arguments[:fixed], *values)
        for old, new in pairs:
            if old.flags.writeable:
                old[...] = new

    for module in modules:
        module.run_tasks = partial(with_moved, run_tasks, 3)  # type: ignore[attr-defined]
    cpu_refinement.update_vectors = partial(with_moved, update_vectors, 0)
    try:
        yield
    finally:
        for module in modules:
            module.run_tasks = run_tasks  # type: ignore[attr-defined]
        cpu_refinement.update_vectors = update_vectors


@contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Kernels and PyTorch use so many threads, however little the work is."""
    before = threads.get_num_threads(), threads.NUMBERS_A_THREAD, torch.get_num_threads()
    threads.set_num_threads(number)
    threads.NUMBERS_A_THREAD = 1
    torch.set_num_threads(number)
    try:
        yield
    finally:
        threads.set_num_threads(before[0])
        threads.NUMBERS_A_THREAD = before[1]
        torch.set_num_threads(before[2])


# The graph, and what is new to it.


@cache
def triples() -> Array:
    random = np.random.default_rng(0)
    size = 300
    found = np.stack(
        [
            random.integers(0, ENTITIES, size),
            random.integers(0, RELATIONS, size),
            random.integers(0, ENTITIES, size),
        ],
        axis=1,
    )
    distinct: Array = np.unique(found, axis=0)
    return distinct


@cache
def given() -> Array:
    """Triples of six new entities, some of them with each other and over a new relation."""
    random = np.random.default_rng(1)
    new, known = ENTITIES + np.arange(6), random.integers(0, ENTITIES, 60)
    head, tail = np.repeat(new, 10), known
    swap = random.random(60) < 0.5
    rows = np.stack([np.where(swap, tail, head), random.integers(0, RELATIONS, 60), np.where(swap, head, tail)], axis=1)
    among = np.stack([new[:-1], np.arange(5) % RELATIONS, new[1:]], axis=1)
    over_new = np.stack([new[:3], np.full(3, RELATIONS), known[:3]], axis=1)
    return np.concatenate([rows, among, over_new])


@cache
def embedding(geometry: Geometry) -> Embedding:
    generator = torch.Generator().manual_seed(2)
    tables = (
        torch.rand(rows, width, generator=generator) * 2 - 1
        for rows, width in ((ENTITIES, geometry.entity_width), (RELATIONS, geometry.relation_width))
    )
    entities, relations = tables
    return Embedding(geometry, geometry.constrained(entities), relations)


@cache
def statistics() -> GraphStatistics:
    return GraphStatistics.count(triples(), ENTITIES, RELATIONS)


def labelled(rows: Array) -> list[tuple[str, str, str]]:
    return [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows.tolist()]


@cache
def model(name: str) -> ookg.Model:
    return ookg.train(labelled(triples()), SETTINGS.changed({"model": name}), device="cpu")


# The paths.


def trained(settings: TrainingSettings) -> list[Any]:
    trainer = Trainer(torch.from_numpy(triples()), ENTITIES, RELATIONS, settings)
    losses = [trainer.step() for _ in range(settings.steps)]
    return [torch.stack(losses), *trainer.tables.tensors().values()]


def resumed(settings: TrainingSettings) -> list[Any]:
    """Stopped in the middle, its state stored and read again; the same as without that."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            trainer = Trainer(torch.from_numpy(triples()), ENTITIES, RELATIONS, settings)
            run = TrainingRun(trainer, Path(folder) / "state.safetensors")
            if not run.resume():
                for _ in range(settings.steps // 2):
                    trainer.step()
                run.save()
        run.run()
    results = list(trainer.tables.tensors().values())
    return [*results, digest(results) == digest(trained(settings)[1:])]


def updated(name: str, mode: Mode) -> list[Any]:
    """Training that goes on after growth, by all three ways of treating what is known."""
    settings = SETTINGS.changed({"model": name})
    growth = Growth(triples(), given(), ENTITIES + 6, RELATIONS + 1)
    vectors = embedding(settings.geometry)
    found = continue_training(vectors, growth, settings, UpdateSettings(mode, steps=8))
    return [found.embedding.entities, found.embedding.relations, found.moved]


def newcomers(geometry: Geometry, fit: RefineSettings | None) -> list[Any]:
    found = find_newcomers(embedding(geometry), statistics(), triples(), given(), Uniform())
    if fit is not None:
        found = found.refined_by(fit)
    asked = find_newcomers(embedding(geometry), statistics(), triples(), given(), Correlation(4.0))
    weighed = find_newcomers(embedding(geometry), statistics(), triples(), given(), Precision(0.1))
    everyone = np.arange(6)
    return [
        found.vectors(everyone),
        weighed.vectors(everyone),
        estimates(geometry),
        asked.vectors(np.repeat(everyone, RELATIONS), np.tile(np.arange(RELATIONS), 6)),
        found.embedding.relations,
        found.scores(given()),
    ]


def estimates(geometry: Geometry) -> torch.Tensor:
    """Of newcomers that nothing ties together."""
    alone = given()[(given()[:, [0, 2]] >= ENTITIES).sum(axis=1) == 1]
    found = find_newcomers(embedding(geometry), statistics(), triples(), alone, Precision(0.1))
    return found.vectors(np.arange(found.support.num_newcomers))


def ranked(geometry: Geometry) -> list[Any]:
    table = embedding(geometry)
    points = table.entities.flip(0) * 0.5
    answers = np.arange(ENTITIES)
    others = AnswerIndex(np.arange(ENTITIES), np.arange(ENTITIES + 1))
    counts = filtered_rank_counts(table, points, answers, others)
    gaps = cpu_ranking.gap_to_all(geometry, points.numpy(), table.entities.numpy())
    return [counts.better, counts.equal, gaps, geometry.gap_to_all(points, table.entities)]


def asked(name: str) -> list[Any]:
    known, new = model(name), labelled(given())
    fit: bool | RefineSettings = FIT if name in ("transe", "rotate") else False
    found = known.predict(new, head=f"e{ENTITIES}", relation="r1", refine=fit, combine=True)
    verdicts = known.classify(new[:9], valid=[(*row, "1") for row in labelled(triples()[:40])], given=new)
    return [
        [(answer.entity, answer.score) for answer in found.answers],
        [verdict.score for verdict in verdicts.claims],
        known.embed(new).vectors,
    ]


def judged() -> list[Any]:
    random = np.random.default_rng(3)
    true = triples()[:120]
    false = true.copy()
    false[:, 2] = random.integers(0, ENTITIES, len(false))
    claims = [(*row, truth) for rows, truth in ((true, "1"), (false, "0")) for row in labelled(rows)]
    found = ookg.judge(model("transe"), labelled(given()[:20]), valid=claims, given=labelled(given()))
    return [[verdict.score for verdict in found.claims]]


def audited() -> list[Any]:
    found = audit(model("transe").checkpoint, AuditSettings(HidingSettings(12), Retraining(steps=12)))
    return [found.overall, found.by_triples, found.by_relation]


def tuned() -> list[Any]:
    settings = TuningSettings(HidingSettings(12), Retraining(steps=12, reference=False), trials=2)
    found = tune(model("rotate").checkpoint, settings)
    return [found.trials, found.report]


WAYS: dict[str, Way] = {
    **{
        f"training, {name} L{norm}": Way(partial(trained, SETTINGS.changed({"model": name, "norm": norm, "l2": l2})))
        for name, norm, l2 in (
            ("transe", 1, 0.0),
            ("transe", 2, 1e-3),
            ("rotate", 1, 1e-3),
            ("rotate", 2, 0.0),
            ("transh", 1, 0.0),
            ("transr", 2, 0.0),
        )
    },
    **{
        f"training, {name} by {optimizer}": Way(
            partial(trained, SETTINGS.changed({"model": name, "optimizer": optimizer, "l2": 1e-3}))
        )
        for name in ("transe", "rotate")
        for optimizer in ("sparse-adam", "adagrad")
    },
    **{f"resuming, {name}": Way(partial(resumed, SETTINGS.changed({"model": name}))) for name in ("transe", "rotate")},
    **{
        f"updating, {name}, {mode}": Way(partial(updated, name, mode))
        for name in ("transe", "rotate", "transh", "transr")
        for mode in get_args(Mode)
    },
    **{f"newcomers together, {name}": Way(partial(newcomers, geometry, None)) for name, geometry in GEOMETRIES.items()},
    **{f"refinement, {name}": Way(partial(newcomers, geometry, FIT)) for name, geometry in GEOMETRIES.items()},
    **{f"ranking, {name}": Way(partial(ranked, geometry)) for name, geometry in GEOMETRIES.items()},
    **{f"answers, {name}": Way(partial(asked, name)) for name in ("transe", "rotate", "transh", "transr")},
    "the judge": Way(judged, is_slow=True),
    "audit": Way(audited, is_slow=True),
    "tune": Way(tuned, is_slow=True),
}


def digests_here(names: list[str], runs: int, seed: int) -> dict[str, list[str]]:
    """The digests of so many runs of each path in this process, the first one without moving anything."""
    random = np.random.default_rng(seed)
    found: dict[str, list[str]] = {name: [digest(WAYS[name].run())] for name in names}
    for number in range(runs):
        for name in names:
            if WAYS[name].is_slow and number % SLOW_SHARE:
                continue
            with using_threads(1 + number % 2), arrays_moved(random):
                found[name].append(digest(WAYS[name].run()))
        if (number + 1) % 100 == 0:
            print(f"{number + 1:,} of {runs:,} runs", file=sys.stderr, flush=True)
    return found


def digests_elsewhere(names: list[str], number: int) -> dict[str, list[str]]:
    """The digests of a few runs in a fresh process, with 1 or 2 threads and memory laid out differently."""
    used = str(1 + number % 2)
    environment = os.environ | {
        "OOKG_NUM_THREADS": used,
        "OMP_NUM_THREADS": used,
        "PYTHONHASHSEED": str(number),
        "PADDING": "x" * (37 * number),
    }
    command = [sys.executable, __file__, "--child", str(number), "--runs", "2", *(f"--only={name}" for name in names)]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    digests: dict[str, list[str]] = json.loads(printed)
    return digests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="runs of each path in one process")
    parser.add_argument("--processes", type=int, default=20, help="fresh processes")
    parser.add_argument("--only", action="append", choices=list(WAYS), metavar="PATH", help="this path alone")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.only or list(WAYS)
    if arguments.child is not None:
        print(json.dumps(digests_here(names, arguments.runs, arguments.child + 1)))
        return 0
    found = digests_here(names, arguments.runs, 0)
    for number in range(arguments.processes):
        for name, digests in digests_elsewhere(names, number).items():
            found[name] += digests
    runs = differences = 0
    print(f"{'path':<42} {'runs':>8} {'differences':>12}")
    for name, digests in found.items():
        other = sum(one != digests[0] for one in digests)
        runs, differences = runs + len(digests), differences + other
        print(f"{name:<42} {len(digests):>8,} {other:>12,}")
    print(f"{'all':<42} {runs:>8,} {differences:>12,}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
