"""Connections that do not let a slow client hold them open for nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0  # for the first line and the headers of a request


class PatientProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not begin in time: one that says nothing, or byte by byte."""

    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A client says something."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """An answer is out."""
        super().on_response_complete()
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the clock while no request is under way."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._giving_up is None and not self.transport.is_closing():
            self._giving_up = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _forget(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        self._giving_up = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
