"""`Answerer` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from cairn_shared import context
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.errors import Unavailable
from cairn_shared.http import call, raise_for_status

NAME = "answerer"


class HttpAnswerer:
    """The answerer's client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, request: AskRequest) -> AskResponse:
        return await call(self._client, NAME, "POST", "/ask", AskResponse, body=request)

    @asynccontextmanager
    async def stream(self, request: AskRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        headers = {"content-type": "application/json", "accept": "text/event-stream", **context.outgoing_headers()}
        try:
            async with self._client.stream(
                "POST", "/ask", content=request.model_dump_json().encode(), headers=headers
            ) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise_for_status(NAME, response)
                yield response.aiter_bytes()
        except httpx.TimeoutException as exc:
            raise Unavailable(NAME, f"{NAME} timed out") from exc
        except httpx.HTTPError as exc:
            raise Unavailable(NAME) from exc
