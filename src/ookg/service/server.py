"""Running the server: its processes, its connections, its end."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from uvicorn.supervisors import Multiprocess

from ookg.errors import InputError
from ookg.service.app import create_app
from ookg.service.log import log_to_stderr
from ookg.service.settings import ServiceSettings

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
STOP_SECONDS = 30  # for what is under way when the server is told to end


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
    with tempfile.TemporaryDirectory(prefix="ookg-serve-") as runtime:
        settings = replace(settings, runtime=Path(runtime))
        config = uvicorn.Config(
            partial(worker_app, settings, log_requests),
            factory=True,
            host=host,
            port=port,
            workers=settings.workers,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=64 << 10,
        )
        server = uvicorn.Server(config)
        log_to_stderr(requests=log_requests)
        try:
            socket = config.bind_socket()
        except SystemExit:
            raise InputError(f"{host}:{port} cannot be listened on; choose another --host or --port") from None
        if settings.workers > 1:
            Multiprocess(config, target=server.run, sockets=[socket]).run()
        else:
            server.run(sockets=[socket])


def worker_app(settings: ServiceSettings, log_requests: bool) -> object:
    """The app of one process of the server."""
    log_to_stderr(requests=log_requests)
    return create_app(settings)
