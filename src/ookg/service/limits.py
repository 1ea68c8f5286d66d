"""How much one client may ask for: requests per second, and the size of a body and the time it may take to come."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import Message, Receive, Scope

from ookg.service.problems import Problem
from ookg.service.settings import Limits

MOST_CLIENTS = 10_000  # that are remembered; whoever has been quiet the longest is forgotten
BURST_SECONDS = 2.0  # what a client has not used lately it may use at once


class RateLimit:
    """A bucket of requests for each client: it fills at a rate, and each request takes one out."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and since when

    def wait(self, client: str) -> float:
        """Seconds until a client may ask again; 0 if it may now, which counts."""
        if self.rate <= 0:
            return 0.0
        now, size = self._clock(), max(1.0, self.rate * BURST_SECONDS)
        left, since = self._buckets.pop(client, (size, now))
        left = min(size, left + (now - since) * self.rate)
        is_free = left >= 1
        self._buckets[client] = (left - is_free, now)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if is_free else (1 - left) / self.rate


async def whole_body(scope: Scope, receive: Receive, limits: Limits) -> Receive:
    """Read a request's body within the limits; return what hands it on."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0" if b"transfer-encoding" not in headers else b"")
    if length == b"0":
        return receive
    too_large = Problem(413, f"the body has more than {limits.body:,} bytes; send less at once")
    if length.isdigit() and int(length) > limits.body:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.reading):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Problem(400, "the client has gone before its request was there")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body:
                    raise too_large
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise Problem(408, f"the body did not come within {limits.reading:g} s; send it faster, or less") from None
    whole: Message | None = {"type": "http.request", "body": b"".join(parts), "more_body": False}

    async def replay() -> Message:
        nonlocal whole
        if whole is None:
            return await receive()
        message, whole = whole, None
        return message

    return replay
