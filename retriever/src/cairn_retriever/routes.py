"""HTTP in and out: bodies are `cairn_shared.api.search` and `cairn_shared.api.index`."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Query

from cairn_retriever.dependencies import ReportsDep, SearcherDep, VectorCheckDep
from cairn_shared.api.embedding import MAX_TEXTS
from cairn_shared.api.fields import Moment
from cairn_shared.api.index import (
    CheckedVectors,
    IndexedDocuments,
    IndexStatus,
    IngestCounts,
    LedgerAnswer,
    LedgerQuery,
    SettledEvents,
    SilentAlerts,
    VersionsAnswer,
    VersionsQuery,
)
from cairn_shared.api.search import SearchRequest, SearchResponse

router = APIRouter()


@router.post("/search", tags=["search"])
async def search(request: SearchRequest, searcher: SearcherDep) -> SearchResponse:
    """Ranked steps of runbooks, and events, with the features that ranked them."""
    return await searcher.search(request)


@router.get("/index/status", tags=["index"])
async def status(reports: ReportsDep) -> IndexStatus:
    """Sizes and freshness of the index."""
    return await reports.status()


@router.get("/index/documents", tags=["index"])
async def documents(  # noqa: PLR0917 - query parameters, which FastAPI passes by name
    reports: ReportsDep,
    source: str | None = None,
    kind: str | None = None,
    after: uuid.UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    words: Annotated[bool, Query(description="Make identifiers and lexemes again, and compare: 0.5 s a MB.")] = False,
) -> IndexedDocuments:
    """What the index holds, a page at a time, tombstones included."""
    return await reports.documents(source, kind, after, limit, words=words)


@router.get("/index/vectors", tags=["index"])
async def vectors(
    check: VectorCheckDep,
    source: str,
    after: uuid.UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_TEXTS)] = 64,
) -> CheckedVectors:
    """Embed the texts of some chunks again, and tell whose vector is of another text."""
    return await check.check(source, after, limit)


@router.post("/index/ledger", tags=["index"])
async def ledger(query: LedgerQuery, reports: ReportsDep) -> LedgerAnswer:
    """What became of events, as far as they reached an end."""
    return await reports.ledger(query.event_ids)


@router.post("/index/versions", tags=["index"])
async def versions(query: VersionsQuery, reports: ReportsDep) -> VersionsAnswer:
    """Which write of each part of these documents the index has."""
    return await reports.versions(query.document_ids)


@router.get("/index/events", tags=["index"])
async def events(
    reports: ReportsDep, since: Moment | None = None, limit: Annotated[int, Query(ge=1, le=5000)] = 100
) -> SettledEvents:
    """Events as they were settled: the first since a time, or the last."""
    return await reports.events(since, limit)


@router.get("/index/silent-alerts", tags=["index"])
async def silent_alerts(
    reports: ReportsDep, since: Moment, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> SilentAlerts:
    """Alerts that fired since a time, and that no runbook is for."""
    return await reports.silent_alerts(since, limit)


@router.get("/index/ingest", tags=["index"])
async def ingest(reports: ReportsDep, since: Moment) -> IngestCounts:
    """How much was ingested since a time, by hour and source."""
    return await reports.ingest(since)
