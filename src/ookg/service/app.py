"""The app: routes behind the gate, with the model that they serve."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import run_sync
from fastapi import FastAPI

from ookg.service import documents, routes
from ookg.service.gate import Gate
from ookg.service.metrics import Metrics
from ookg.service.problems import handle_problems
from ookg.service.service import Service
from ookg.service.settings import ServiceSettings
from ookg.version import __version__

DESCRIPTION = (
    "A knowledge graph that lives: add what is new, ask about it, see the reasons. "
    "Errors are RFC 9457 problems, each with one line that says what to do."
)


def create_app(settings: ServiceSettings) -> FastAPI:
    """An app that serves one model directory."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = await run_sync(Service, settings)
        try:
            yield
        finally:
            await run_sync(app.state.service.close)

    app = FastAPI(
        title="ookg",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    routers = (routes.router, routes.open_to_all, documents.router)
    for router in routers:
        app.include_router(router)
    handle_problems(app)
    paths = sorted({str(getattr(route, "path", "")) for router in routers for route in router.routes})
    app.state.metrics = Metrics(paths, settings.runtime, settings.workers)
    app.add_middleware(Gate, settings=settings, metrics=app.state.metrics)
    return app
