"""Running the server: its socket, its processes, its end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import tempfile
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn

import torch
import uvicorn
from fastapi import FastAPI

from ookg.errors import InputError
from ookg.kernels.threads import get_num_threads, set_num_threads
from ookg.service.app import create_app
from ookg.service.connections import PatientProtocol
from ookg.service.log import log_to_stderr
from ookg.service.service import Service
from ookg.service.settings import ServiceSettings
from ookg.service.workers import Workers, end_with_parent
from ookg.system.progress import tell

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
STOP_SECONDS = 30  # for what is under way when the server is told to end
KEEP_SECONDS = 15  # for the next request on a connection
WAITING = 2048  # connections that the system holds until they are taken


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def serve(settings: ServiceSettings, host: str, port: int, *, log_requests: bool = True) -> None:
    """Serve until told to end; returns when all that was taken in is answered."""
    listening = listen(host, port)
    with listening, tempfile.TemporaryDirectory(prefix="ookg-serve-") as runtime:
        settings = replace(settings, runtime=Path(runtime))
        signal.signal(signal.SIGTERM, _end)  # until there is a server to tell
        address = f"[{host}]" if ":" in host else host
        tell(f"http://{address}:{listening.getsockname()[1]}/ serves {settings.directory}")
        log_to_stderr(requests=log_requests)
        if settings.workers == 1:
            run_worker(settings, listening, log_requests)
        else:
            Workers(run_worker, (settings, listening, log_requests), settings.workers).run()


def _end(*_: object) -> NoReturn:
    raise SystemExit(0)


def listen(host: str, port: int) -> socket.socket:
    """A socket that waits for connections."""
    listening: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        if os.name == "posix":  # there it takes the port over from a server that has just ended, and from no other
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(WAITING)
    except (OSError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port}: cannot be listened on ({reason}); choose another `host` or `port`") from error
    return listening


def run_worker(settings: ServiceSettings, listening: socket.socket, log_requests: bool) -> None:
    """One process of the server, until it is told to end."""
    told: list[int] = []  # to end, while there is no server to tell
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, _: told.append(number))
    log_to_stderr(requests=log_requests)
    gc.freeze()  # what is imported stays: nobody has to pass over it in search of garbage
    # What PyTorch does for a question is small, and its threads wait for each other awake; the kernels have their own.
    torch.set_num_threads(1)
    if settings.workers > 1:  # they share the cores
        set_num_threads(max(1, get_num_threads() // settings.workers))
        end_with_parent()
    app = create_app(settings)
    server = uvicorn_server(app)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, server.handle_exit)  # also before it runs, and after it: then uvicorn raises it once more
    server.should_exit = bool(told)
    server.run(sockets=[listening])
    service: Service | None = getattr(app.state, "service", None)
    if service is not None:  # uvicorn does not end what it was told to end while it began
        service.close()


def uvicorn_server(app: FastAPI) -> uvicorn.Server:
    """What takes in connections for an app."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=PatientProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )
