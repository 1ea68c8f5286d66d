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


def made_model(name: str) -> Any:
    """A model with random vectors: how long a question takes does not depend on what it answers."""
    import torch

    from ookg.graph.vocabulary import Vocabulary
    from ookg.model.model import Model
    from ookg.models import TransE
    from ookg.models.embedding import Embedding
    from ookg.storage.checkpoint import Checkpoint

    entities, size, dim = SIZES[name]
    random = np.random.default_rng(0)
    columns = zipf_ids(random, size, entities), zipf_ids(random, size, RELATIONS), random.integers(0, entities, size)
    triples = np.unique(np.stack(columns, axis=1), axis=0)
    known: list[Any]
    try:
        from ookg.graph.known import KnownGraph

        known = [KnownGraph(triples, entities, RELATIONS)]
    except ImportError:  # an earlier version
        from ookg.graph.statistics import GraphStatistics

        known = [triples, GraphStatistics.count(triples, entities, RELATIONS)]
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(entities, dim, generator=generator), torch.randn(RELATIONS, dim, generator=generator)
    return Model(
        Checkpoint(
            Embedding(TransE(dim), *tables),
            Vocabulary([f"e{number}" for number in range(entities)]),
            Vocabulary([f"r{number}" for number in range(RELATIONS)]),
            *known,  # type: ignore[call-arg] # as many as that version has
            {"margin": 12.0},
            {},
        )
    )


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
                print(f"  {line.name:<48} {line.value:>10,.2f} {line.unit:<5} {ratio}".rstrip(), flush=True)
    print(f"\npeak memory of a child: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20:.1f} GB")


if __name__ == "__main__":
    main()
