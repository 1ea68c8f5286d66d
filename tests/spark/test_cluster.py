"""On a real cluster of two workers: the same as on one machine, whoever is killed, and within the memory there is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ookg
from conftest import SMALL
from ookg.errors import InputError
from ookg.graph.triples import Triples
from ookg.model.model import Model
from ookg.newcomers.reducer import Degree, Uniform
from opening import write_model
from spark_cluster import HUB_AND_MEMORY, MEMORY, killing_once, lacking, marking, only_the_hub, running_cluster
from spark_pipeline import QUESTIONS, TIED, Triple, compare, given, table_of

# PySpark warns of versions of pandas, which nothing here uses, and leaves its sockets to be collected.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
COLUMNS = "head string, relation string, tail string"
EDGES, HUB = 9_000_000, 1_125_000  # the hub's share is more than 12 %


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The cluster; where something is missing, these tests are skipped, unless they are asked for."""
    lacks = lacking()
    if lacks is not None:
        reason = f"{lacks} is not installed; `make spark` installs it and runs these tests"
        if os.environ.get("OOKG_SPARK") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    with running_cluster(tmp_path_factory.mktemp("local")) as session:
        yield session


@pytest.fixture(scope="module")
def known(graph: Triples) -> Model:
    return ookg.train(graph, SMALL, device="cpu")


@pytest.fixture(scope="module")
def folder(known: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cluster") / "model"
    known.save(place)
    return place


def many(seed: int) -> list[Triple]:
    return given(seed, newcomers=3000, size=20_000)


def made_by(frame: Any) -> dict[str, Any]:
    rows = frame.collect()
    assert len({row.entity for row in rows}) == len(rows)
    return {row.entity: (row.vector, row.triples) for row in rows}


def test_vectors_have_the_bits_of_one_machine(spark: Any, known: Model, folder: Path) -> None:
    from ookg.spark import embed

    triples = many(0)
    frame = spark.createDataFrame(triples, COLUMNS).repartition(4)
    compare(made_by(embed(frame, folder)), known, triples, None)
    compare(made_by(embed(frame, folder, weights=Uniform(), ties=False)), known, triples, Uniform())


def test_tied_newcomers_meet(spark: Any, known: Model, folder: Path) -> None:
    from ookg.spark import embed

    triples = [*many(1), *TIED]
    frame = spark.createDataFrame(triples, COLUMNS).repartition(4)
    compare(made_by(embed(frame, folder)), known, triples, None, 1e-5)


def test_answers_are_those_of_one_machine(spark: Any, known: Model, folder: Path) -> None:
    from ookg.spark import predict

    triples = [*many(2), *TIED]
    frame = spark.createDataFrame(triples, COLUMNS).repartition(4)
    rows = predict(spark.createDataFrame(QUESTIONS, COLUMNS), frame, folder, top=3).collect()
    assert len(rows) == len(QUESTIONS)
    extended = known.extend(sorted(set(triples)), weights=Degree(), refine=False)
    for row in rows:
        question = ookg.Question(row.relation, row.head, row.tail)
        options = ookg.AnswerOptions(combine=False, top=3, new_answers=False)
        (expected,) = extended.predict_all([question], options)
        assert row.note is None
        assert [one.entity for one in row.answers] == [one.entity for one in expected.answers]


def test_triples_are_read_once_where_nothing_is_tied(spark: Any, known: Model, folder: Path, tmp_path: Path) -> None:
    from ookg.spark import embed

    triples, read = many(5), tmp_path / "read"
    read.mkdir()
    frame = spark.createDataFrame(triples, COLUMNS).repartition(4)
    vectors = embed(frame.mapInArrow(marking(read), COLUMNS), folder)
    compare(made_by(vectors), known, triples, None)
    assert len(made_by(vectors)) == vectors.count()
    assert len(list(read.iterdir())) == 4  # partitions


@pytest.mark.parametrize(("after", "ties"), [("reading", False), ("the shuffle", False), ("the shuffle", True)])
def test_a_killed_worker_is_survived(
    spark: Any, known: Model, folder: Path, tmp_path: Path, after: str, ties: bool
) -> None:
    from ookg.spark import embed

    triples, mark = many(3), tmp_path / "killed"
    frame = spark.createDataFrame(triples, COLUMNS).repartition(4)
    if after == "reading":
        vectors = embed(frame.mapInArrow(killing_once(mark), COLUMNS), folder, ties=ties)
    else:
        vectors = embed(frame, folder, ties=ties)
        vectors = vectors.mapInArrow(killing_once(mark), vectors.schema)
    compare(made_by(vectors), known, triples, None)
    assert mark.exists()


def test_a_hub_fits_into_an_executor(spark: Any, tmp_path: Path) -> None:
    from ookg.spark import embed

    write_model(tmp_path / "model", 200_000, 400_000, 16)
    model = ookg.load(tmp_path / "model")
    # Every eighth triple is the hub's; the others are of 900,000 newcomers.
    newcomer = "if(id % 8 = 0, 'hub', concat('new/', (id * 7919) % 900000)) as head"
    relation, tail = "concat('relation/', id div 8 % 11) as relation", "concat('entity/', id div 88 % 200000) as tail"
    frame = spark.range(EDGES, numPartitions=8).selectExpr(newcomer, relation, tail)
    vectors = embed(frame, tmp_path / "model", ties=False)
    rows = vectors.mapInArrow(only_the_hub, HUB_AND_MEMORY).collect()
    (hub,) = [row for row in rows if row.vector is not None]
    triples = pa.table(
        {
            "head": pa.array(["hub"]).take(pa.array(np.zeros(HUB, dtype=np.int64))),
            "relation": [f"relation/{number % 11}" for number in range(HUB)],
            "tail": [f"entity/{number // 11 % 200_000}" for number in range(HUB)],
        }
    )
    expected = model.embed(triples)
    assert hub.triples == expected.neighbors[0] == HUB
    np.testing.assert_allclose(hub.vector, expected.vectors[0].numpy(), rtol=1e-3, atol=1e-4)
    assert max(row.megabytes for row in rows if row.megabytes is not None) < MEMORY


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("select 'a' as head, 'b' as relation", "triples have no column 'tail' but 'head', 'relation'; rename one"),
        ("select 'a' as head, 'b' as relation, 1 as tail", "column 'tail' of triples is int, expected string; cast it"),
    ],
)
def test_a_frame_of_something_else_is_refused(spark: Any, folder: Path, frame: str, problem: str) -> None:
    from ookg.spark import embed

    with pytest.raises(InputError, match=problem):
        embed(spark.sql(frame), folder)


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "ookg.spark", *arguments, "--master", "local[1]"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=600, env=environment)


def test_the_script_goes_from_files_to_files(spark: Any, known: Model, folder: Path, tmp_path: Path) -> None:
    triples, out = [*given(4), *TIED], tmp_path / "vectors"
    (tmp_path / "new.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")
    result = script("embed", "--triples", str(tmp_path / "new.tsv"), "--model", str(folder), "--out", str(out))
    assert result.returncode == 0, result.stderr
    rows = pq.read_table(out).to_pylist()
    compare({row["entity"]: (row["vector"], row["triples"]) for row in rows}, known, triples, None, 1e-5)


@pytest.mark.parametrize(
    ("triples", "problem"),
    [
        ([("c0", "r0", None)], "ookg: column 'tail' has a gap (null); leave such rows out"),
        ([("c0", "r0", "c1")], "ookg: triple 'c0 r0 c1' is between newcomers or over a new relation"),
    ],
)
def test_the_script_refuses_in_one_line(spark: Any, folder: Path, tmp_path: Path, triples: Any, problem: str) -> None:
    pq.write_table(table_of(triples), tmp_path / "new.parquet")
    paths = "--triples", str(tmp_path / "new.parquet"), "--model", str(folder), "--out", str(tmp_path / "out")
    result = script("embed", *paths, "--no-ties")
    assert result.returncode == 2
    ours = [line for line in result.stderr.splitlines() if line.startswith("ookg:")]
    assert len(ours) == 1
    assert ours[0].startswith(problem)
