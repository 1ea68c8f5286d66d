"""A Spark of one's own: a cluster of two worker processes on this machine, with 1 GB for each."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

MEMORY = 1024  # megabytes for an executor
EXECUTOR = "CoarseGrainedExecutorBackend"


def lacking() -> str | None:
    """What must be installed first, if anything."""
    if find_spec("pyspark") is None:
        return "PySpark"
    return None if shutil.which("java") or os.environ.get("JAVA_HOME") else "a Java runtime"


@contextmanager
def running_cluster(folder: Path) -> Iterator[Any]:
    """A session with the cluster; folder: where Spark puts what it needs for a time."""
    from pyspark.sql import SparkSession

    modules = os.pathsep.join(path for path in sys.path if path)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": f"{MEMORY}m",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",  # so that batches cut newcomers
        "spark.executorEnv.PYTHONPATH": modules,
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local-cluster[2,1,{MEMORY}]").appName("ookg tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    work = Path(find_spec("pyspark").origin or "").parent / "work" / session.sparkContext.applicationId  # type: ignore[union-attr]
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(work, ignore_errors=True)


def marking(folder: Path) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A task that lets everything through, and leaves a file in a folder each time it runs."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        (folder / uuid4().hex).touch()
        yield from batches

    return task


def killing_once(mark: Path) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A task that kills its executor at the first batch it sees, and lets all later ones through."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows and _is_first(mark):
                os.kill(_executor(), signal.SIGKILL)
            yield batch

    return task


def _is_first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """The process of the executor that this one works for."""
    number = os.getpid()
    while EXECUTOR not in Path(f"/proc/{number}/cmdline").read_text():
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return number


def only_the_hub(batches: Iterable[Any]) -> Iterator[Any]:
    """A task that lets the hub's vector through, and adds the most memory that this process has had, in megabytes."""
    import resource

    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        hub = batch.filter(pc.equal(batch["entity"], "hub"))
        yield pa.RecordBatch.from_arrays([hub["vector"], hub["triples"], pa.nulls(hub.num_rows, pa.float64())], NAMES)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = {"vector": None, "triples": None, "megabytes": most}
    kinds = (pa.list_(pa.float32()), pa.int64(), pa.float64())
    yield pa.RecordBatch.from_pylist([row], pa.schema(list(zip(NAMES, kinds, strict=True))))


NAMES = ["vector", "triples", "megabytes"]
HUB_AND_MEMORY = "vector array<float>, triples long, megabytes double"
