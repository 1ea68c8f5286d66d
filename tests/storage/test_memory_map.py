"""A model's table is mapped into memory: giving one newcomer a vector touches the rows of its neighbours alone."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ookg.graph.known import KnownGraph
from ookg.graph.vocabulary import Vocabulary
from ookg.models import GEOMETRIES
from ookg.models.embedding import Embedding
from ookg.storage.checkpoint import Checkpoint, save_checkpoint

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")

ENTITIES, DIM, RELATIONS = 25_000, 2048, 3
TABLE = ENTITIES * DIM * 4  # bytes, about 205 MB

# A small model first, so that imports and compiled kernels do not count.
SCRIPT = """
import json, os, sys
from ookg.model.model import Model

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

new = [("new", "r0", "e3"), ("e7", "r1", "new")]
Model.load(sys.argv[1]).embed(new)
before = resident()
model = Model.load(sys.argv[2])
loaded = resident()
vector = model.embed(new).vectors[0]
embedded = resident()
model.entity_vectors.sum()
everything = resident()
print(json.dumps({
    "load": loaded - before, "embed": embedded - before, "all": everything - before, "vector": vector[:2].tolist()
}))
"""


def save_model(directory: Path, entities: int) -> None:
    vectors = torch.ones(entities, DIM)
    vectors[3], vectors[7] = 5, 8
    triples = np.array([[3, 0, 7], [7, 1, 3], [1, 2, 3]])
    checkpoint = Checkpoint(
        Embedding(GEOMETRIES["transe"](dim=DIM), vectors, torch.full((RELATIONS, DIM), 0.5)),
        Vocabulary([f"e{number}" for number in range(entities)]),
        Vocabulary([f"r{number}" for number in range(RELATIONS)]),
        KnownGraph(triples, entities, RELATIONS),
        {},
        {},
    )
    save_checkpoint(checkpoint, directory)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # pytest would keep 200 MB of three runs
        save_model(Path(name) / "small", 10)
        save_model(Path(name) / "large", ENTITIES)
        yield Path(name)


def test_one_newcomer_does_not_read_the_table(folder: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder / "small"), str(folder / "large")]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # e3 - r0 = 4.5 with degree 3, e7 + r1 = 8.5 with degree 2
    weights = np.log(np.array([3, 2]) + 0.1)
    assert found["vector"] == pytest.approx([float(weights @ [4.5, 8.5] / weights.sum())] * 2, rel=1e-5)
    assert found["load"] < 0.2 * TABLE
    assert found["embed"] < 0.4 * TABLE
    assert found["all"] > 0.8 * TABLE  # the measure sees a table that is read
