"""The ends of events in PostgreSQL: searchable, superseded or dead."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from cairn_ingest_consumer.model import Delivery
from cairn_shared.kafka.records import Record
from cairn_shared.postgres import Connection, Pool, translate

# What was searchable once stays so: a later delivery or a failing repetition does not take it back.
_SETTLE = """
INSERT INTO ingest_ledger AS l
    (event_id, document_id, part, version, state, topic, partition, "offset", accepted_at, deliveries, detail)
SELECT event_id, document_id, part, version, state, topic, partition, "offset", accepted_at, deliveries, detail
FROM jsonb_to_recordset($1::jsonb) AS r(
    event_id uuid, document_id uuid, part text, version bigint, state text, topic text, partition int,
    "offset" bigint, accepted_at timestamptz, deliveries int, detail text)
ORDER BY event_id
ON CONFLICT (event_id) DO UPDATE SET
    deliveries = l.deliveries + excluded.deliveries,
    state = CASE WHEN l.state = 'searchable' THEN l.state ELSE excluded.state END,
    detail = CASE WHEN l.state = 'searchable' THEN l.detail ELSE excluded.detail END,
    settled_at = CASE WHEN l.state IN ('searchable', excluded.state) THEN l.settled_at ELSE now() END,
    document_id = coalesce(excluded.document_id, l.document_id),
    part = coalesce(excluded.part, l.part),
    version = coalesce(excluded.version, l.version),
    accepted_at = coalesce(excluded.accepted_at, l.accepted_at)
"""

DETAIL_LIMIT = 1000


@dataclass(frozen=True)
class Entry:
    """How one event ended; `deliveries` is how many records of this batch carried it."""

    event_id: uuid.UUID
    state: str
    topic: str
    partition: int
    offset: int
    document_id: uuid.UUID | None = None
    part: str | None = None
    version: int | None = None
    accepted_at: datetime | None = None
    deliveries: int = 1
    detail: str | None = None


async def settle(connection: Connection | Pool, entries: Iterable[Entry]) -> None:
    """Write entries, each event at most once; part of the caller's transaction."""
    rows = [entry.__dict__ for entry in entries]
    if rows:
        await connection.execute(_SETTLE, orjson.dumps(rows).decode())


class PostgresLedger:
    """As `ports.Ledger`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def dead(self, record: Record, event_id: uuid.UUID | None, detail: str) -> None:
        """Note a dead letter; without an event id there is nothing to note it under."""
        if event_id is None:
            return
        text = detail.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:DETAIL_LIMIT]
        entry = Entry(event_id, "dead", record.topic, record.partition, record.offset, detail=text)
        try:
            await settle(self._pool, [entry])
        except Exception as exc:
            raise translate(exc) from exc

    async def done(self, deliveries: Sequence[Delivery], detail: str) -> None:
        """Note that events which are no documents came to their end."""
        entries = [
            Entry(
                one.event.event_id,
                "searchable",
                one.record.topic,
                one.record.partition,
                one.record.offset,
                version=one.event.version,
                accepted_at=one.event.accepted_at,
                detail=detail[:DETAIL_LIMIT],
            )
            for one in {delivery.event.event_id: delivery for delivery in deliveries}.values()
        ]
        try:
            await settle(self._pool, entries)
        except Exception as exc:
            raise translate(exc) from exc

    async def ended(self, event_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
        """Those of the events that came to an end, whichever."""
        query = "SELECT event_id FROM ingest_ledger WHERE event_id = ANY($1)"
        try:
            rows = await self._pool.fetch(query, list(event_ids))
        except Exception as exc:
            raise translate(exc) from exc
        return {row["event_id"] for row in rows}
