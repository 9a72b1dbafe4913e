"""The tools over streamable HTTP, without sessions: any replica can answer any request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send


class ToolEndpoint:
    """An ASGI app that answers while `running`. Who may ask is decided before it is called.

    Answers come as an event stream where they take long, so that proxies keep the connection and a client that leaves
    cancels its call. `origins` are those of web pages that may ask, separated by commas.
    """

    def __init__(self, server: Server[Any], origins: str) -> None:
        self._manager = StreamableHTTPSessionManager(server, stateless=True)
        self._origins = {origin.strip().rstrip("/") for origin in origins.split(",")} - {""}

    def allows(self, origin: str | None) -> bool:
        """Whether a request may come from there; programs have no Origin.

        A page on a rebound name has no key to send; the protocol wants it refused by its Origin all the same
        (https://modelcontextprotocol.io/specification, Transports, Security Warning).
        """
        return origin is None or origin in self._origins

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take requests; entered once."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
