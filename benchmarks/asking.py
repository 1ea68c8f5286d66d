"""What a question costs, and a triple that comes: beside bare scoring of all entities, in one run.

    python benchmarks/asking.py [--quick] [--old FOLDER]

Graphs are random, with a few entities in many triples. "bare" is what no answer can do without: the gaps from one point
to all entities and the ten best of them. One thread, medians; the last column is the ratio to bare scoring.

--old: another checkout's src folder, measured in a process of its own with the same data (its `Model.predict`)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

SIZES = {
    "15k x 200": (15_000, 480_000, 200),
    "1M x 32": (1_000_000, 5_000_000, 32),
    "1M x 200": (1_000_000, 5_000_000, 200),
}
RELATIONS = 200
MANY_TITLE = "one-shot with 250,000 given triples of 50,000 newcomers"
NEW = [("new", "r1", "e5"), ("new", "r2", "e77"), ("e9", "r3", "new")]


@dataclass(frozen=True)
class Line:
    """One measurement: milliseconds, or what the unit says."""

    name: str
    value: float
    unit: str = "ms"


def median(work: Callable[[], object], times: int) -> float:
    work()
    found = []
    for _ in range(times):
        start = perf_counter()
        work()
        found.append((perf_counter() - start) * 1e3)
    return float(np.median(found))


def zipf_ids(random: np.random.Generator, size: int, bound: int) -> Any:
    ids = np.exp(random.random(size) * np.log(bound + 1)).astype(np.int64) - 1
    return random.permutation(bound)[np.minimum(ids, bound - 1)]


def module_of(name: str, before: str) -> Any:
    """A module, by the name that it has now, or had before."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return import_module(before)


def made_model(name: str) -> Any:
    """A model with random vectors: how long a question takes does not depend on what it answers."""
    import torch

    from ookg.models import TransE

    statistics, vocabulary, model, embedding, checkpoint = (
        module_of(*names)
        for names in (
            ("ookg.graph.statistics", "ookg.statistics"),
            ("ookg.graph.vocabulary", "ookg.vocabulary"),
            ("ookg.model.model", "ookg.model"),
            ("ookg.models.embedding", "ookg.embedding"),
            ("ookg.storage.checkpoint", "ookg.checkpoint"),
        )
    )
    entities, size, dim = SIZES[name]
    random = np.random.default_rng(0)
    columns = zipf_ids(random, size, entities), zipf_ids(random, size, RELATIONS), random.integers(0, entities, size)
    triples = np.unique(np.stack(columns, axis=1), axis=0)
    known: list[Any]
    try:
        from ookg.graph.known import KnownGraph

        known = [KnownGraph(triples, entities, RELATIONS)]
    except ImportError:  # an earlier version
        known = [triples, statistics.GraphStatistics.count(triples, entities, RELATIONS)]
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(entities, dim, generator=generator), torch.randn(RELATIONS, dim, generator=generator)
    return model.Model(
        checkpoint.Checkpoint(
            embedding.Embedding(TransE(dim), *tables),
            vocabulary.Vocabulary([f"e{number}" for number in range(entities)]),
            vocabulary.Vocabulary([f"r{number}" for number in range(RELATIONS)]),
            *known,
            {"margin": 12.0},
            {},
        )
    )


def many_given(entities: int) -> list[tuple[str, str, str]]:
    """250,000 triples of 50,000 newcomers, each tied to known entities alone."""
    random = np.random.default_rng(1)
    columns = random.integers(RELATIONS, size=250_000), random.integers(entities, size=250_000)
    pairs = zip(*(column.tolist() for column in columns), strict=True)
    return [(f"n{place // 5}", f"r{relation}", f"e{entity}") for place, (relation, entity) in enumerate(pairs)]


def measured(name: str, quick: bool, is_old: bool) -> list[Line]:
    import torch

    torch.set_num_threads(1)
    times = 3 if quick else 15
    model = made_model(name)
    lines = []
    if is_old:
        for title, combine in (("predict", False), ("predict, all evidence", True)):

            def ask(combine: bool = combine) -> object:
                return model.predict(NEW, head="new", relation="r4", combine=combine)

            lines.append(Line(f"before: {title}", median(ask, times)))
        given = many_given(SIZES[name][0])
        lines.append(Line(f"before: {MANY_TITLE}", median(lambda: model.predict(given, head="n1", relation="r4"), 3)))
        return lines
    from ookg.extension.questions import AnswerOptions
    from ookg.scoring.nearest import best_places, gaps_to_all

    point = torch.randn(1, SIZES[name][2])
    lines.append(Line("bare", median(lambda: best_places(-gaps_to_all(model.embedding, point)[0], 10), times)))
    start = perf_counter()
    extended = model.extend(NEW)
    lines.append(Line("extend, the first time (indexes the graph)", (perf_counter() - start) * 1e3))
    for title, combine in (("predict", False), ("predict, all evidence", True)):
        options = AnswerOptions(combine=combine)
        start = perf_counter()
        extended.predict(head="new", relation="r4", options=options)
        lines.append(Line(f"{title}, the first time", (perf_counter() - start) * 1e3))
        ask_again = partial(extended.predict, head="new", relation="r4", options=options)
        lines.append(Line(title, median(ask_again, times)))
    counter = iter(range(10**6))
    lines.append(
        Line("add one triple of a newcomer", median(lambda: extended.add([(f"n{next(counter)}", "r1", "e6")]), 50))
    )
    lines.append(
        Line(
            "one-shot: Model.predict(given, ...)", median(lambda: model.predict(NEW, head="new", relation="r4"), times)
        )
    )
    given = many_given(SIZES[name][0])
    lines.append(Line(MANY_TITLE, median(lambda: model.predict(given, head="n1", relation="r4"), 3)))
    index = model.index
    size = sum(part.nbytes for part in (index.offsets, index.link, index.other)) + model.checkpoint.triples.nbytes
    lines.append(Line("memory for a training triple: index and ids", size / len(model.checkpoint.triples), "bytes"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the two smaller sizes, fewer repetitions")
    parser.add_argument("--old", metavar="FOLDER", help="src folder of an earlier version")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, kind = arguments.child
        print(json.dumps([vars(line) for line in measured(name, arguments.quick, kind == "old")]))
        return
    for name in list(SIZES)[:2] if arguments.quick else SIZES:
        entities, size, dim = SIZES[name]
        print(f"\n{entities:,} entities, {size:,} triples, d {dim}, one thread")
        bare = 0.0
        for kind, folder in (("new", None), ("old", arguments.old)):
            if kind == "old" and folder is None:
                continue
            path = Path(folder or Path(__file__).parent.parent / "src").resolve()
            environment = os.environ | {"PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", "OOKG_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--child", name, kind, *(["--quick"] if arguments.quick else [])]
            result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            for line in (Line(**values) for values in json.loads(result.stdout)):
                bare = bare or line.value
                ratio = f"{line.value / bare:>8.2f}x" if line.unit == "ms" else ""
                print(f"  {line.name:<56} {line.value:>10,.2f} {line.unit:<5} {ratio}".rstrip(), flush=True)
    print(f"\npeak memory of a child: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20:.1f} GB")


if __name__ == "__main__":
    main()
