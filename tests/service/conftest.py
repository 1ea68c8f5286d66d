from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from ookg.demo.tour import TENET, train_on_films
from ookg.service.app import create_app
from ookg.service.server import listen, uvicorn_server
from ookg.service.service import Service
from ookg.service.settings import ServiceSettings


class Client(httpx.Client):
    """Asks an app that is served in this process."""

    def __init__(self, app: FastAPI, port: int) -> None:
        super().__init__(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self.app, self.port = app, port

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service


@contextmanager
def running(app: FastAPI) -> Iterator[Client]:
    """Serve an app on a free port of this machine, in a thread."""
    listening, server = listen("127.0.0.1", 0), uvicorn_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        with Client(app, listening.getsockname()[1]) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


Serve = Callable[..., Client]


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
