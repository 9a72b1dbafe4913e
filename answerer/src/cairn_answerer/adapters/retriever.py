"""The retriever over HTTP."""

from __future__ import annotations

import httpx

from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.http import call


class HttpRetriever:
    """`POST /search`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def search(self, request: SearchRequest, timeout: float) -> SearchResponse:
        return await call(self._client, "retriever", "POST", "/search", SearchResponse, body=request, timeout=timeout)
