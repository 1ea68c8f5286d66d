from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import ookg
from ookg.demo.tour import TENET, train_on_films
from ookg.graph.triples import Triples, as_triples
from ookg.model.model import Model
from ookg.training.settings import TrainingSettings
from postgres_server import Server, binaries

if TYPE_CHECKING:
    from live_server import Client, Serve

torch.set_num_threads(1)  # small tensors; two threads that wait for each other are slower

SMALL = TrainingSettings(dim=8, steps=30, batch=16, negatives=4, margin=4.0, lr=0.05)


def random_triples(seed: int, entities: int = 20, relations: int = 4, size: int = 60) -> Triples:
    rng = np.random.default_rng(seed)
    rows = {
        (f"e{h}", f"r{r}", f"e{t}")
        for h, r, t in zip(
            rng.integers(0, entities, size),
            rng.integers(0, relations, size),
            rng.integers(0, entities, size),
            strict=True,
        )
    }
    return as_triples(sorted(rows))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of the tests' own; where there is none, they are skipped, unless they are asked for."""
    lacks = "PostgreSQL's server" if binaries() is None else "psycopg" if find_spec("psycopg") is None else None
    if lacks is not None:
        reason = f"{lacks} is not installed; `make postgres` installs it and runs these tests"
        if os.environ.get("OOKG_POSTGRES") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    server = Server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def graph() -> Triples:
    return random_triples(0)


@pytest.fixture(scope="session", params=["transe", "rotate"])
def model(request: pytest.FixtureRequest, graph: Triples) -> Model:
    return ookg.train(graph, SMALL.changed({"model": request.param}), device="cpu")


@pytest.fixture(scope="session")
def published() -> Path:
    folder = os.environ.get("OOKG_DATA")
    if not folder:
        pytest.skip("OOKG_DATA is not set: no published data sets")
    return Path(folder)


@pytest.fixture
def interpreted() -> Callable[[str], str]:
    """Run a test file as a script, its kernels by Triton's interpreter on the CPU; return what it printed."""

    def run(file: str) -> str:
        # The interpreter is chosen when Triton is imported, so this is a process of its own.
        environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
        result = subprocess.run(
            [sys.executable, file], env=environment, capture_output=True, text=True, timeout=1800, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


# The film graph, served.


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The film graph's model; nobody writes to it."""
    folder = tmp_path_factory.mktemp("films") / "model"
    train_on_films().save(folder)
    return folder


@pytest.fixture
def directory(films: Path, tmp_path: Path) -> Path:
    """A copy of it to write to."""
    return Path(shutil.copytree(films, tmp_path / "model"))


@pytest.fixture
def serve(directory: Path) -> Iterator[Serve]:
    """Serves the copy, by settings."""
    from live_server import running  # not installed where models are exchanged with other tools
    from ookg.service.app import create_app
    from ookg.service.settings import ServiceSettings

    with ExitStack() as opened:

        def start(**settings: Any) -> Client:
            return opened.enter_context(running(create_app(ServiceSettings(directory, **settings))))

        yield start


@pytest.fixture
def client(serve: Serve) -> Client:
    return serve()


@pytest.fixture
def tenet() -> list[list[str]]:
    return [list(triple) for triple in TENET.given]
