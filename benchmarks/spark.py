"""Vectors for newcomers in bulk by Spark, against the path on one machine.

    python benchmarks/spark.py [--triples 1000000] [--entities 100000] [--dim 100] [--folder FOLDER]

A model with random vectors, and triples that tie a tenth as many newcomers to its entities, are written into a folder
first, and used again if it has them already (--folder; else a temporary one, removed in the end). Both paths go from
the same Parquet files to Parquet files of vectors: one machine as `ookg embed` does it, in a process of its own, and
Spark on a cluster of two workers with one core each (`local-cluster`). Then some of the vectors are compared.

Disk: 4 · dim + 100 bytes for each entity, 25 for each triple, and twice 4 · dim + 40 for each newcomer; 17 GB for
100 million triples, 10 million entities and dim 100, of which 4 GB are the model.

Memory of an executor is that of its JVM and of its Python worker together, as sampled twice a second: what belongs to
them alone ("own"), and mapped pages of files ("files"), which all of them share and the system can take back.
The seconds of Spark do not count its start, nor the first use of a small model, which starts the workers. Processor
time, which a busy machine does not change much, is that of all processes together, the driver's too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

import ookg
from ookg.graph.vectors import write_vectors
from opening import RELATIONS, write_model

PART = 5_000_000  # triples in a file
WARMUP = 20_000
COMPARED = 1000  # newcomers
EXECUTOR = "CoarseGrainedExecutorBackend"


def write_triples(folder: Path, triples: int, entities: int, seed: int) -> None:
    """Links of newcomers in any order, a tenth as many newcomers as triples, in files of PART."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for number, start in enumerate(range(0, triples, PART)):
        size = min(PART, triples - start)
        newcomer = _labels("new", random.integers(0, max(1, triples // 10), size))
        known = _labels("entity", random.integers(0, entities, size))
        is_head = pa.array(random.random(size) < 0.5)
        relation = _labels("relation", random.integers(0, RELATIONS, size))
        columns = [pc.if_else(is_head, newcomer, known), relation, pc.if_else(is_head, known, newcomer)]
        table = pa.table(dict(zip(("head", "relation", "tail"), columns, strict=True)))
        pq.write_table(table, folder / f"{number:05}.parquet", row_group_size=1 << 20)


def _labels(kind: str, numbers: Any) -> Any:
    return pc.binary_join_element_wise(f"{kind}/", pa.array(numbers).cast(pa.string()), "")


def written(folder: Path, arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The model and the triples, made unless a run before has made them."""
    name = f"{arguments.entities}-{arguments.dim}"
    model, triples = folder / f"model-{name}", folder / f"triples-{arguments.triples}-{arguments.entities}"
    if not (model / "model.json").exists():
        print(f"writing a model of {arguments.entities:,} entities", flush=True)
        write_model(model, arguments.entities, 2 * arguments.entities, arguments.dim)
    if not (triples / "done").exists():
        print(f"writing {arguments.triples:,} triples", flush=True)
        shutil.rmtree(triples, ignore_errors=True)
        write_triples(triples, arguments.triples, arguments.entities, 0)
        (triples / "done").touch()
    return model, triples


def on_one_machine(model: Path, triples: Path, out: Path) -> None:
    """What the process of its own does: read, embed, write, and report."""
    start, used = perf_counter(), process_time()
    known = ookg.load(model)
    # Batch by batch, as a single file is read: no label is held as often as it occurs.
    files = dataset(sorted(map(str, triples.glob("*.parquet"))), format="parquet")
    new = known.embed(files.scanner(fragment_readahead=1, batch_readahead=4).to_reader())
    write_vectors(out, "entity", new.entities, new.vectors, {})
    print(json.dumps({"seconds": perf_counter() - start, "processor": process_time() - used}))


@contextmanager
def watched(root: int, marked: str | None) -> Iterator[list[dict[str, float]]]:
    """The most gigabytes of processes below one, each with all below it; marked: only those with this in their line."""
    most: dict[int, dict[str, float]] = {}
    result: list[dict[str, float]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            children = _children()
            everyone = _below(root, children)
            chosen = [number for number in everyone if marked is not None and marked in _line(number)]
            for number in chosen or ([root] if marked is None else []):
                memory = [_memory(one) for one in _below(number, children)]
                for kind in ("own", "files"):
                    now = sum(one.get(kind, 0.0) for one in memory)
                    before = most.setdefault(number, {})
                    before[kind] = max(before.get(kind, 0.0), now)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield result
    finally:
        over.set()
        thread.join()
        result += most.values()


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(path.name))
    return children


def _below(number: int, children: dict[int, list[int]]) -> list[int]:
    return [number, *(other for child in children.get(number, []) for other in _below(child, children))]


def _line(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _memory(number: int) -> dict[str, float]:
    try:
        text = Path(f"/proc/{number}/status").read_text()
    except OSError:
        return {}
    lines = dict(line.split(":", 1) for line in text.splitlines())
    names = {"own": "RssAnon", "files": "RssFile"}
    return {kind: int(lines[name].split()[0]) / 1e6 for kind, name in names.items() if name in lines}


def processor_seconds(root: int) -> float:
    """Of a process and all below it, those included that have ended."""
    ticks = 0
    for number in _below(root, _children()):
        with suppress(OSError):  # it has ended
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Run:
    """What a path took. memory: the most gigabytes of each process that was watched"""

    seconds: float
    processor: float
    memory: list[dict[str, float]]


def one_machine(model: Path, triples: Path, out: Path) -> Run:
    """In a process of its own; without the start of Python."""
    line = [sys.executable, __file__, "--one-machine", str(model), str(triples), str(out)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    with watched(process.pid, None) as memory:
        output, _ = process.communicate()
    if process.returncode:
        print(f"one machine: ended with {process.returncode}; -9 is what the system does where memory runs out")
        return Run(float("nan"), float("nan"), memory)
    return Run(**json.loads(output.splitlines()[-1]), memory=memory)


@contextmanager
def cluster(folder: Path, megabytes: int) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": f"{megabytes}m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    builder = SparkSession.builder.master(f"local-cluster[2,1,{megabytes}]").appName("ookg benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def by_spark(session: Any, model: Path, triples: Path, out: Path, *, ties: bool) -> Run:
    from ookg.spark import embed

    shutil.rmtree(out, ignore_errors=True)
    with watched(os.getpid(), EXECUTOR) as memory:
        start, used = perf_counter(), processor_seconds(os.getpid())
        embed(session.read.parquet(f"{triples}/*.parquet"), model, ties=ties).write.parquet(str(out))
        seconds, processor = perf_counter() - start, processor_seconds(os.getpid()) - used
    return Run(seconds, processor, memory)


def largest_difference(one: Path, other: Path) -> float:
    """Between the vectors of some newcomers, as a share of the largest number in them."""
    whole = pq.ParquetFile(one)
    first = next(whole.iter_batches(COMPARED))
    labels = first["entity"].to_pylist()
    second = pq.read_table(other, filters=pc.field("entity").isin(labels))
    assert whole.metadata.num_rows == sum(part.metadata.num_rows for part in pq.ParquetDataset(other).fragments)
    vectors = dict(zip(second["entity"].to_pylist(), second["vector"].to_pylist(), strict=True))
    here, there = np.array(first["vector"].to_pylist()), np.array([vectors[label] for label in labels])
    return float(np.abs(here - there).max() / np.abs(here).max())


def line(name: str, run: Run, beside: Run) -> str:
    own, files = (max((one.get(kind, 0.0) for one in run.memory), default=0.0) for kind in ("own", "files"))
    times = f"{run.seconds:.1f} s | {run.seconds / beside.seconds:.2f} | {run.processor:.1f} s"
    return f"| {name} | {times} | {own:.2f} GB | {files:.2f} GB |"


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    model, triples = written(folder, arguments)
    alone, out = folder / "one-machine.parquet", folder / "spark"
    print("one machine", flush=True)
    base = one_machine(model, triples, alone)
    rows = [line("one machine", base, base)]
    print(rows[-1], flush=True)
    with cluster(folder / "local", arguments.executor_memory) as session:
        small = argparse.Namespace(entities=WARMUP // 10, dim=arguments.dim, triples=WARMUP)
        by_spark(session, *written(folder / "small", small), out, ties=True)
        for ties, name in ((True, "Spark, ties looked for"), (False, "Spark, ties said to be none")):
            print(name, flush=True)
            rows.append(line(name, by_spark(session, model, triples, out, ties=ties), base))
            print(rows[-1], flush=True)
            if alone.exists():
                print(f"largest difference from one machine: {largest_difference(alone, out):.1e}")
    print(f"\n{arguments.triples:,} triples, {arguments.entities:,} entities, dim {arguments.dim}")
    print("| path | time | times one machine | processor time | own memory, of one executor | files |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--executor-memory", type=int, default=1024, help="megabytes of its JVM's heap")
    parser.add_argument("--one-machine", nargs=3, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one_machine:
        on_one_machine(*arguments.one_machine)
    elif arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        measure(arguments.folder.resolve(), arguments)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), arguments)


if __name__ == "__main__":
    main()
