"""`Index` and `Searcher` over HTTP."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection
from datetime import datetime

import httpx

from cairn_shared.api.index import (
    CheckedVectors,
    IndexedDocuments,
    IndexStatus,
    IngestCounts,
    LedgerAnswer,
    LedgerEntry,
    LedgerQuery,
    PartVersion,
    SettledEvents,
    SilentAlerts,
    VersionsAnswer,
    VersionsQuery,
)
from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.errors import TransientError
from cairn_shared.http import call

NAME = "retriever"
LEDGER_BATCH = 1000
VECTOR_BATCH = 32
"""Texts that are embedded again in one call: a slow processor has them done within the client's time limit."""


class HttpRetriever:
    """The retriever's client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def status(self) -> IndexStatus:
        return await call(self._client, NAME, "GET", "/index/status", IndexStatus)

    async def documents(
        self, source: str, after: uuid.UUID | None, limit: int, *, words: bool = False
    ) -> IndexedDocuments:
        params: dict[str, str | int] = {"source": source, "limit": limit, "words": str(words).lower()}
        params |= {"after": str(after)} if after else {}
        return await call(self._client, NAME, "GET", "/index/documents", IndexedDocuments, params=params)

    async def wrong_vectors(self, source: str) -> dict[str, int]:
        wrong: Counter[str] = Counter()
        params: dict[str, str | int] = {"source": source, "limit": VECTOR_BATCH}
        while True:
            page = await call(self._client, NAME, "GET", "/index/vectors", CheckedVectors, params=params)
            wrong.update(page.wrong)
            if page.next is None:
                return dict(wrong)
            if params.get("after") == str(page.next):
                raise TransientError("retriever: the pages of vectors do not end")
            params["after"] = str(page.next)

    async def ledger(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, LedgerEntry]:
        found: dict[uuid.UUID, LedgerEntry] = {}
        wanted = list(event_ids)
        for start in range(0, len(wanted), LEDGER_BATCH):
            query = LedgerQuery(event_ids=wanted[start : start + LEDGER_BATCH])
            answer = await call(self._client, NAME, "POST", "/index/ledger", LedgerAnswer, body=query)
            found |= {entry.event_id: entry for entry in answer.entries}
        return found

    async def versions(self, document_ids: Collection[uuid.UUID]) -> list[PartVersion]:
        query = VersionsQuery(document_ids=list(document_ids))
        return (await call(self._client, NAME, "POST", "/index/versions", VersionsAnswer, body=query)).parts

    async def events(self, since: datetime | None, limit: int) -> SettledEvents:
        params: dict[str, str | int] = {"limit": limit} | ({"since": since.isoformat()} if since else {})
        return await call(self._client, NAME, "GET", "/index/events", SettledEvents, params=params)

    async def silent_alerts(self, since: datetime) -> SilentAlerts:
        params = {"since": since.isoformat()}
        return await call(self._client, NAME, "GET", "/index/silent-alerts", SilentAlerts, params=params)

    async def ingest(self, since: datetime) -> IngestCounts:
        params = {"since": since.isoformat()}
        return await call(self._client, NAME, "GET", "/index/ingest", IngestCounts, params=params)

    async def search(self, request: SearchRequest) -> SearchResponse:
        return await call(self._client, NAME, "POST", "/search", SearchResponse, body=request)
