"""The form of an event that waits in MongoDB for Kafka: one document of `outbox` (or of the gateway's `inbox`).

    packed     many events that came together, in one document (`pack`); the relay makes pending entries of them
    pending    written, not on Kafka yet
    published  acknowledged by Kafka; `check_at` says when the index is asked for it, where the log is not durable
    settled    the index says searchable, superseded or dead (`outcome`)
    refused    Kafka can never take it (`detail`)

`created_at` grows from revision to revision of one runbook, so that its order is the order of revisions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime

from cairn_shared.events import Event
from cairn_shared.mongo import Document, Index

OUTBOX = "outbox"
PACKED = "packed"
PENDING, PUBLISHED, SETTLED, REFUSED = "pending", "published", "settled", "refused"

INDEXES = (
    Index("pending_in_order", (("state", 1), ("created_at", 1), ("_id", 1))),
    Index("due_for_check", (("state", 1), ("check_at", 1))),
    Index("expiry", (("expires_at", 1),), {"expireAfterSeconds": 0}),
)


def entry(event: Event, created_at: datetime, traceparent: str | None) -> Document:
    """`event` as a pending document; its `_id` is the event's, so that an event waits at most once."""
    return {
        "_id": event.event_id,
        "state": PENDING,
        "topic": event.topic(),
        "key": event.key(),
        "value": event.encode(),
        "headers": [[name, value] for name, value in event.headers(traceparent)],
        "type": event.type,
        "source": event.source,
        "subject": event.subject,
        "version": event.version,
        "accepted_at": event.accepted_at,
        "created_at": created_at,
        "attempts": 0,
    }


PARCEL = 100
"""So many events at most go into one document."""
_PARCEL_BYTES = 4 * 1024 * 1024
"""And no more than one of over so many bytes: MongoDB takes documents of 16 MiB."""


def packed(entries: Sequence[Document]) -> Iterator[Document]:
    """Entries of one delivery as few documents: accepting two thousand events is then twenty writes in one command.

    The id follows from those of its events, so that a delivery that is sent again is not packed twice.
    """
    parcel: list[Document] = []
    size = 0
    for one in entries:
        if parcel and (len(parcel) == PARCEL or size + len(one["value"]) > _PARCEL_BYTES):
            yield _parcel(parcel)
            parcel, size = [], 0
        parcel.append(one)
        size += len(one["value"])
    if parcel:
        yield _parcel(parcel)


def _parcel(entries: list[Document]) -> Document:
    ids = [one["_id"] for one in entries]
    return {
        "_id": uuid.uuid5(uuid.NAMESPACE_OID, " ".join(map(str, ids))),
        "state": PACKED,
        "created_at": entries[0]["created_at"],
        "event_ids": ids,
        "entries": entries,
    }
