"""`Answerer` over HTTP, by aiohttp: a request costs a fifth of what it costs by httpx (docs/decisions/0005)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from cairn_shared import context
from cairn_shared.api.ask import AskRequest
from cairn_shared.errors import Overloaded, Unavailable
from cairn_shared.http import error_of, whole_seconds

NAME = "answerer"
CONNECT_SECONDS = 2.0
GRACE = 0.5
"""Seconds that the answerer's last word has to come here: it is given that much less."""


@asynccontextmanager
async def open_session(url: str, headers: Mapping[str, str] = {}) -> AsyncIterator[aiohttp.ClientSession]:
    """Kept-alive connections, as many as there are questions; the gateway bounds those."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        url, connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=headers
    ) as session:
        yield session


class HttpAnswerer:
    """The answerer's client."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(self, request: AskRequest, seconds: float) -> bytes:
        async with self._asked(request, seconds, "application/json") as response:
            return await response.read()

    @asynccontextmanager
    async def stream(self, request: AskRequest, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._asked(request, seconds, "text/event-stream") as response:
            yield response.content.iter_any()

    @asynccontextmanager
    async def _asked(self, request: AskRequest, seconds: float, accept: str) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {
            "content-type": "application/json",
            "accept": accept,
            **context.outgoing_headers(max(0.0, seconds - GRACE)),
        }
        # Without a threshold the end of a longer time would be rounded up to a whole second.
        timeout = aiohttp.ClientTimeout(seconds, sock_connect=CONNECT_SECONDS, ceil_threshold=math.inf)
        try:
            async with self._session.post(
                "/ask", data=request.model_dump_json().encode(), headers=headers, timeout=timeout
            ) as response:
                if response.status >= 400:
                    wait = whole_seconds(response.headers.get("retry-after"))
                    if response.status == 503 and wait is not None:  # it says when: it is there, and busy
                        raise Overloaded(retry_after=wait)
                    raise error_of(NAME, response.status, await response.read(), wait)
                yield response
        except TimeoutError as exc:
            raise Unavailable(NAME, f"{NAME} timed out") from exc
        except aiohttp.ClientError as exc:
            raise Unavailable(NAME) from exc
