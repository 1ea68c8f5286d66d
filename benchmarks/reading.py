"""What it takes to read a large file of triples into ids, and to sort and count them for a model.

    python benchmarks/reading.py [--triples 30000000] [--entities 10000000] [--form tsv] [--folder FOLDER]

A file of random triples with labels such as Freebase has is written into a temporary folder, and removed in the end:
46 bytes per triple as TSV, 14 GB for 300 million. It is read in a process of its own. Of each step the table has
seconds, seconds of processor time (which a busy machine does not change much) and the most memory that the process had
held by then, less what it holds with everything imported.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ookg.graph.encoding import TripleEncoder
from ookg.graph.known import KnownGraph
from ookg.graph.triples import Triples, read_triples

RELATIONS = 15_000
CHUNK = 1 << 20


def labels(prefix: str, ids: Any) -> Any:
    """Labels in no order, as real ones are."""
    mixed = pa.array(ids * 2_654_435_761 % (1 << 37)).cast(pa.string())
    return pc.binary_join_element_wise(prefix, mixed, "")


def write_file(path: Path, triples: int, entities: int) -> None:
    """Random triples: heads often the same few, every entity now and then."""
    random = np.random.default_rng(0)
    names = ("head", "relation", "tail")
    schema = pa.schema([(name, pa.string()) for name in names])
    is_parquet = path.suffix == ".parquet"
    sink: Any = pq.ParquetWriter(path, schema) if is_parquet else pa.output_stream(str(path), compression="detect")
    with sink:
        for start in range(0, triples, CHUNK):
            size = min(CHUNK, triples - start)
            heads = np.minimum(random.random(size) ** 2 * entities, entities - 1).astype(np.int64)
            # An entity is of one of 500 kinds, and a kind has 30 relations.
            relations = heads % 500 * 30 + np.minimum(random.random(size) ** 2 * 30, 29).astype(np.int64)
            # Each entity is the tail of a triple in turn, so that there are as many as asked for.
            tails = (np.arange(start, start + size) * 7_368_787) % entities
            columns = [labels("/m/0", heads), labels("/r/", relations), labels("/m/0", tails)]
            table = pa.table(columns, schema)
            if is_parquet:
                sink.write_table(table)
            else:
                lines = pc.binary_join_element_wise(*columns, "\t")
                sink.write(("\n".join(lines.to_pylist()) + "\n").encode())


def peak() -> int:
    """The most bytes this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compile_all() -> int:
    """Compile what is measured; how many bytes the process holds then."""
    column = pa.array(["a", "b"]).dictionary_encode()
    encoder = TripleEncoder()
    encoder.add([column, column, column], None)
    encoder.finish(keep_duplicates=False)
    return peak()


def measured(path: str) -> dict[str, Any]:
    """The steps of reading and of what a model needs of its triples."""
    base, rows = compile_all(), []

    def step(title: str, work: Callable[[], Any]) -> Any:
        start, used = perf_counter(), process_time()
        result = work()
        rows.append((title, perf_counter() - start, process_time() - used, peak() - base))
        # At once, as a later step may run out of memory.
        print(f"{title}: {rows[-1][1]:.1f} s, peak {rows[-1][3] / 1e9:.2f} GB", file=sys.stderr, flush=True)
        return result

    triples: Triples = step("read", lambda: read_triples(path, progress=True))
    sizes = len(triples.entities), len(triples.relations)
    graph = KnownGraph(triples.ids, *sizes)
    step("index", lambda: graph.index)
    step("statistics", lambda: graph.statistics)
    step("order of the labels", lambda: triples.entities.order)
    text = len(triples.entities.texts.data) / max(1, sizes[0])
    return {"triples": len(triples), "entities": sizes[0], "relations": sizes[1], "text": text, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=30_000_000)
    parser.add_argument("--entities", type=int, default=10_000_000)
    parser.add_argument("--form", choices=("tsv", "tsv.gz", "tsv.zst", "parquet"), default="tsv")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measured(arguments.child)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        path = Path(name) / f"triples.{arguments.form}"
        write_file(path, arguments.triples, arguments.entities)
        print(f"{path.name}: {path.stat().st_size / 1e9:,.2f} GB")
        command = [sys.executable, __file__, "--child", str(path)]
        read = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    counts = f"{read['triples']:,} triples, {read['entities']:,} entities, {read['relations']:,} relations"
    print(f"{counts}; labels of {read['text']:.1f} bytes")
    print(f"{'':<24} {'s':>8} {'CPU s':>8} {'peak GB':>9} {'bytes a triple':>15}")
    for title, seconds, used, held in read["rows"]:
        print(f"{title:<24} {seconds:>8.1f} {used:>8.1f} {held / 1e9:>9.2f} {held / read['triples']:>15.1f}")


if __name__ == "__main__":
    main()
