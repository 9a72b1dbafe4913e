"""Connections before a request: how many from one address, and how long its head may take.

uvicorn bounds neither. A connection that says nothing costs a file descriptor for as long as it likes (Slowloris).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


@dataclass(frozen=True)
class ConnectionPolicy:
    """`head`: seconds from a connection, or from the first byte of a request, to the end of its head.
    `per_address`: most connections of one address; 0 for no limit.
    """

    head: float = 15.0
    per_address: int = 4096


def bounded_protocol(policy: ConnectionPolicy) -> type[HttpToolsProtocol]:
    """A protocol for one server: what it counts is that server's."""
    open_from: Counter[str] = Counter()

    class Bounded(HttpToolsProtocol):
        """uvicorn's protocol with limits."""

        _address = ""
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._address = self.client[0] if self.client else ""
            open_from[self._address] += 1
            if policy.per_address and open_from[self._address] > policy.per_address:
                transport.abort()
                return
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._done()
            open_from[self._address] -= 1
            if open_from[self._address] <= 0:
                del open_from[self._address]
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._patience is None:
                self._wait()

        def on_headers_complete(self) -> None:
            self._done()
            super().on_headers_complete()

        def _wait(self) -> None:
            self._patience = self.loop.call_later(policy.head, self.transport.abort)

        def _done(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return Bounded
