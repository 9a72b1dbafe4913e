"""The retriever's read-only view of the index, for the gateway's verify, status and ingest pages.

`GET /index/status`, `GET /index/documents?source=&after=&limit=&words=`, `GET /index/vectors?source=&after=&limit=`,
`POST /index/ledger`, `POST /index/versions`, `GET /index/events?since=&limit=`, `GET /index/ingest?since=`,
`GET /index/silent-alerts?since=&limit=`.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

LedgerState = Literal["searchable", "superseded", "dead"]


class IndexStatus(BaseModel):
    """Sizes and freshness of the index."""

    documents: dict[str, int]
    steps: int
    chunks: int
    epoch: int
    fingerprint: str | None
    last_indexed_at: AwareDatetime | None
    details: dict[str, Any] = {}


class IndexedFacts(BaseModel):
    """What the index says about a document beside its text: it routes alerts, filters searches and names sources."""

    service: str | None = None
    severity: str | None = None
    owner: str | None = None
    tags: list[str] = []
    alerts: list[str] = []
    links: list[str] = []
    labels: dict[str, str] = {}
    path: str | None = None
    commit: str | None = None
    blob: str | None = None
    url: str | None = None


class IndexedDocument(BaseModel):
    """What the index holds of one document, enough to compare it with the truth."""

    document_id: uuid.UUID
    source: str
    external_id: str
    kind: str
    version: int
    deleted: bool
    title: str | None = None
    content_sha: str
    steps: int
    chunks: int
    altered_steps: Annotated[int, Field(description="Steps whose text is not the one that was written.")] = 0
    altered_chunks: Annotated[
        int, Field(description="Chunks whose text is not the embedded one; with `words`, or whose lexemes are not its.")
    ] = 0
    broken_vectors: Annotated[int, Field(description="Chunks without a vector, or with a wrong one.")]
    commit: str | None = None
    path: str | None = None
    facts: IndexedFacts | None = None


class IndexedDocuments(BaseModel):
    """One page, ordered by `document_id`; `next` is the `after` of the next page."""

    documents: list[IndexedDocument]
    next: uuid.UUID | None


class CheckedVectors(BaseModel):
    """A page of chunks whose texts were embedded again; `next` is the `after` of the next page."""

    checked: int
    wrong: Annotated[
        dict[str, int], Field(description="Chunks whose vector is of another text, by their document's external id.")
    ]
    next: uuid.UUID | None


class LedgerQuery(BaseModel):
    """Up to 1000 events whose state is asked."""

    event_ids: Annotated[list[uuid.UUID], Field(max_length=1000)]


class LedgerEntry(BaseModel):
    """What became of one event."""

    event_id: uuid.UUID
    state: LedgerState
    document_id: uuid.UUID | None
    version: int | None
    accepted_at: AwareDatetime | None
    settled_at: AwareDatetime
    detail: str | None = None


class VersionsQuery(BaseModel):
    """Up to 1000 documents whose versions are asked."""

    document_ids: Annotated[list[uuid.UUID], Field(max_length=1000)]


class PartVersion(BaseModel):
    """Which write of a part of a document the index has."""

    document_id: uuid.UUID
    part: str
    version: int
    event_id: uuid.UUID
    deleted: bool


class VersionsAnswer(BaseModel):
    """The parts of those documents that the index knows."""

    parts: list[PartVersion]


class SettledEvent(BaseModel):
    """An event that came to an end, and the document that it wrote, as far as it is known."""

    event_id: uuid.UUID
    state: LedgerState
    settled_at: AwareDatetime
    accepted_at: AwareDatetime | None
    version: int | None
    part: str | None
    topic: str
    detail: str | None
    document_id: uuid.UUID | None
    kind: str | None
    source: str | None
    subject: str | None
    title: str | None
    service: str | None
    url: str | None


class SettledEvents(BaseModel):
    """In the order in which they were settled."""

    events: list[SettledEvent]


class IngestCount(BaseModel):
    """Events settled in an hour; `seconds` is the median from accepted to settled."""

    hour: AwareDatetime
    source: str | None
    state: LedgerState
    events: int
    seconds: float | None


class IngestCounts(BaseModel):
    """By hour, source and state."""

    counts: list[IngestCount]


class SilentAlert(BaseModel):
    """An alert that fired and that no runbook is for."""

    name: str
    fired: int
    last_fired_at: AwareDatetime | None
    service: str | None


class SilentAlerts(BaseModel):
    """The most frequent first."""

    alerts: list[SilentAlert]


class LedgerAnswer(BaseModel):
    """Entries of the events that reached an end; others are still on their way."""

    entries: list[LedgerEntry]
