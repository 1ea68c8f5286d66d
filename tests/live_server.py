"""Serving in the tests: an app in a thread of this process, and somebody who asks it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from fastapi import FastAPI

from ookg.service.server import listen, uvicorn_server
from ookg.service.service import Service


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


def problem(response: httpx.Response, status: int) -> str:
    """The line of a refusal, which has the one form that there is."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    values = response.json()
    assert values["status"] == status
    assert values["title"]
    detail = values["detail"]
    assert isinstance(detail, str)
    assert "\n" not in detail
    return detail
