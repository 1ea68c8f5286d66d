"""The gate that every request passes: who may come in, how long it may take, what its answer must carry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ookg.service.keys import Keys
from ookg.service.limits import RateLimit, whole_body
from ookg.service.metrics import Metrics
from ookg.service.problems import Problem, problem_response, unexpected
from ookg.service.settings import ServiceSettings

LOG = logging.getLogger("ookg.service.requests")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Gate:
    """Keeps out what may not come in, gives up what takes too long, counts and logs."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._rate = RateLimit(settings.limits.rate / settings.workers)
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_headers(message["headers"], scope["path"])
            await send(message)

        self.metrics.began()
        self._under_way += 1
        try:
            try:
                self._check(scope)
                async with asyncio.timeout(self.settings.limits.seconds):
                    await self.app(scope, await whole_body(scope, receive, self.settings.limits), answer)
            except Exception as error:
                if status:  # half an answer is out: nothing else can be said
                    raise
                await problem_response(self._problem(error, scope))(scope, receive, answer)
        finally:
            self._under_way -= 1
            seconds = time.perf_counter() - begun
            route = getattr(scope.get("route"), "path", "")
            self.metrics.ended(route, status or 500, seconds)
            if not LOG.disabled:
                fields = {"method": scope["method"], "route": route, "status": status, "seconds": round(seconds, 6)}
                LOG.info("request", extra={"fields": fields | {"client": _client(scope)}})

    def _problem(self, error: Exception, scope: Scope) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, TimeoutError):
            problem = f"this took more than {self.settings.limits.seconds:g} s and was given up"
            if scope["method"] not in SAFE_METHODS:
                problem += "; a write may still be done, send it again under the same key to make sure"
            return Problem(503, problem, {"retry-after": "1"})
        return unexpected(error)

    def _check(self, scope: Scope) -> None:
        """Refuse what comes from elsewhere, too often, or when too much is under way."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        hosts = self.settings.hosts
        if hosts and _bare(host) not in hosts:
            # A page elsewhere can give its own name this machine's address, and then read what is served here.
            remedy = f"ask for {' or '.join(sorted(hosts))}, or start it with `ookg serve --host`"
            raise Problem(421, f"this server is not {host!r}; {remedy}")
        origin = headers.get(b"origin")
        if origin is not None and scope["method"] not in SAFE_METHODS and _place(origin) != host:
            raise Problem(403, "a page from elsewhere may not write here; ask without an Origin header")
        wait = self._rate.wait(_asker(scope, headers)) if self._rate.rate > 0 else 0.0
        if wait:
            rate = f"{self.settings.limits.rate:g} requests per second"
            raise Problem(429, f"more than {rate}; slow down", {"retry-after": str(int(wait) + 1)})
        if self._under_way > self.settings.limits.waiting:
            raise Problem(503, "too many requests are under way; try again in a second", {"retry-after": "1"})


def _with_headers(headers: Iterable[tuple[bytes, bytes]], path: str) -> list[tuple[bytes, bytes]]:
    there = list(headers)
    names = {name for name, _ in there}
    there += [(name, value) for name, value in HEADERS if name not in names]
    if b"cache-control" not in names:
        there.append((b"cache-control", b"no-store"))
    return there


def _asker(scope: Scope, headers: dict[bytes, bytes]) -> str:
    """Whose requests count together: those with a known key, wherever they come from; without one, an address's."""
    kind, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    keys: Keys | None = scope["app"].state.service.keys
    holder = keys.holder(text.strip()) if keys is not None and kind.lower() == "bearer" else None
    return f"address {_client(scope)}" if holder is None else f"key {holder.number}"


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _place(origin: bytes) -> str:
    """The host and port of an origin; nothing where it is none."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower()
    except ValueError:
        return ""


def _bare(host: str) -> str:
    """A host without its port."""
    return host[: host.rindex("]") + 1] if "]" in host else host.partition(":")[0]
