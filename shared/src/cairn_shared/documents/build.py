"""One place where a document of any source becomes an event: cleaned, without secrets, bounded."""

from __future__ import annotations

import hashlib
from datetime import datetime

from cairn_shared.documents import text
from cairn_shared.events import Event, EventType, SourceDocument, make_event
from cairn_shared.redaction import redact

MAX_PATHS = 1000
MAX_LABELS = 100
MAX_SOURCE_ID = 1000
MAX_SUBJECT = 900


def document_event(
    kind: EventType,
    document: SourceDocument,
    *,
    source: str,
    source_id: str,
    subject: str,
    version: int,
    occurred_at: datetime,
    accepted_at: datetime,
) -> Event:
    """An event for `document`. `source_id` is what makes a redelivery the same event."""
    return make_event(
        kind,
        source=source,
        source_id=source_id[:MAX_SOURCE_ID],
        subject=bounded_subject(subject),
        version=version,
        occurred_at=occurred_at,
        accepted_at=accepted_at,
        payload=_safe(document),
    )


def bounded_subject(subject: str) -> str:
    """`subject` as a natural key of at most 900 characters; a longer one ends in a digest, so it stays unique."""
    subject = text.key(subject)
    if len(subject) <= MAX_SUBJECT:
        return subject
    return f"{subject[: MAX_SUBJECT - 65]}~{hashlib.sha256(subject.encode()).hexdigest()}"


def _safe(document: SourceDocument) -> SourceDocument:
    return document.model_copy(
        update={
            "title": text.title(_redacted(document.title)),
            "body": text.clip(_redacted(document.body), text.MAX_BODY),
            "url": _line(document.url, 2000),
            "service": _line(document.service, 200),
            "severity": _line(document.severity, 100),
            "status": _line(document.status, 100),
            "author": _line(document.author, 200),
            "labels": {
                text.clip(text.clean(name), 200): text.clip(_redacted(value), 1000)
                for name, value in list(document.labels.items())[:MAX_LABELS]
            },
            "references": [_redacted(value) for value in document.references],
            "paths": [text.clip(_redacted(path), 1000) for path in document.paths[:MAX_PATHS]],
        }
    )


def _redacted(value: str) -> str:
    return redact(text.clean(value))


def _line(value: str | None, limit: int) -> str | None:
    if value is None:
        return None
    return text.clip(" ".join(_redacted(value).split()), limit) or None
