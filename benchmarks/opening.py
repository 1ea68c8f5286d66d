"""What it costs to open a large model and to ask it for the first time.

    python benchmarks/opening.py [--entities 10000000] [--triples N] [--dim 8] [--folder FOLDER]

A model with random vectors and a random graph is written into a temporary folder, and removed in the end. It is then
opened, asked for an id and for labels, extended by one newcomer and asked a question in a process of its own, twice:
with its files dropped from the system's cache, and with them in it. A small model goes the same way first, so that
imports and compiled kernels do not count.
Memory is what the process holds more than before; mapped pages of files count as "files", and can be taken back by the
system at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

import ookg
from ookg.graph.known import KnownGraph
from ookg.graph.vocabulary import Vocabulary
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.storage.checkpoint import Checkpoint, save_checkpoint
from ookg.types import IntArray

RELATIONS = 200
TRIPLES_PER_ENTITY = 2
SMALL = 5000
NEW = [("new", "relation/1", "entity/5"), ("new", "relation/2", "entity/77"), ("entity/9", "relation/3", "new")]


def labels(kind: str, number: int) -> Vocabulary:
    texts = pc.binary_join_element_wise(f"{kind}/", pa.array(np.arange(number)).cast(pa.string()), "")
    return Vocabulary.distinct(texts)


def random_graph(entities: int, triples: int) -> IntArray:
    """Distinct triples, with a few entities in many of them."""
    random = np.random.default_rng(0)
    heads = np.minimum(np.exp(random.random(triples) * np.log(entities + 1)).astype(np.int64), entities) - 1
    keys = (heads * RELATIONS + random.integers(0, RELATIONS, triples)) * entities
    keys = np.unique(keys + random.integers(0, entities, triples))
    keys, tails = np.divmod(keys, entities)
    return np.stack([keys // RELATIONS, keys % RELATIONS, tails], axis=1)


def write_model(directory: Path, entities: int, triples: int, dim: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(entities, dim, generator=generator), torch.randn(RELATIONS, dim, generator=generator)
    graph = KnownGraph(random_graph(entities, triples), entities, RELATIONS)
    names = labels("entity", entities), labels("relation", RELATIONS)
    save_checkpoint(Checkpoint(Embedding(TransE(dim), *tables), *names, graph, {}, {}), directory)


def memory() -> dict[str, float]:
    """Megabytes of this process: its own, and those of mapped files."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")}


def measured(directory: str) -> list[tuple[str, float, dict[str, float]]]:
    """Milliseconds and memory of each step with a model."""
    before, rows = memory(), []

    def note(title: str, start: float) -> None:
        taken = (perf_counter() - start) * 1e3
        rows.append((title, taken, {kind: now - before[kind] for kind, now in memory().items()}))

    start = perf_counter()
    model = ookg.load(directory)
    note("ookg.load", start)
    size = len(model.entities)
    start = perf_counter()
    model.entities.find(f"entity/{size * 2 // 3}")
    note("id of a label", start)
    start = perf_counter()
    model.entities.select(np.arange(10) * (size // 10))
    note("labels of ten ids", start)
    start = perf_counter()
    extended = model.extend(NEW)
    note("extend by one newcomer", start)
    for title, relation in (("first question", "relation/4"), ("second question", "relation/5")):
        start = perf_counter()
        extended.predict(head="new", relation=relation)
        note(title, start)
    return rows


def drop_from_cache(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=10_000_000)
    parser.add_argument("--triples", type=int, help=f"{TRIPLES_PER_ENTITY} for each entity by default")
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        small, large = arguments.child
        measured(small)
        print(json.dumps(measured(large)))
        return
    triples = arguments.triples or TRIPLES_PER_ENTITY * arguments.entities
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        small, large = Path(name) / "small", Path(name) / "large"
        write_model(small, SMALL, SMALL, arguments.dim)
        start = perf_counter()
        write_model(large, arguments.entities, triples, arguments.dim)
        files = {path.name: path.stat().st_size for path in large.glob("data-*/*")}
        there = json.loads((large / "model.json").read_text())["triples"]
        print(f"{arguments.entities:,} entities, {there:,} triples, d {arguments.dim}", end="")
        print(f"; made and written in {perf_counter() - start:.0f} s")
        for file, size in sorted(files.items()):
            print(f"  {file:<24} {size / 1e6:>10,.1f} MB {size / there:>8.1f} bytes a triple")
        for state in ("not in the system's cache", "in the system's cache"):
            if state.startswith("not"):
                drop_from_cache(large)
            command = [sys.executable, __file__, "--child", str(small), str(large)]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"\n{f'files {state}':<32} {'ms':>10} {'own MB':>10} {'files MB':>10}")
            for title, taken, held in json.loads(result.stdout):
                print(f"  {title:<30} {taken:>10,.1f} {held['RssAnon']:>10,.1f} {held['RssFile']:>10,.1f}", flush=True)


if __name__ == "__main__":
    main()
