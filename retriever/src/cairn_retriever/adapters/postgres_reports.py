"""The index's own state: what is in it, how fresh it is, and what became of events."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from cairn_retriever.adapters.postgres_words import OtherWords, other_words
from cairn_retriever.vector_check import StoredVector
from cairn_shared.api.index import (
    IndexedDocument,
    IndexedDocuments,
    IndexedFacts,
    IndexStatus,
    IngestCount,
    IngestCounts,
    LedgerAnswer,
    LedgerEntry,
    PartVersion,
    SettledEvent,
    SettledEvents,
    SilentAlert,
    SilentAlerts,
    VersionsAnswer,
)
from cairn_shared.postgres import translate

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection, Pool

STATUS = """
SELECT (SELECT coalesce(jsonb_object_agg(kind, n), '{}') FROM
           (SELECT kind, count(*) AS n FROM documents WHERE NOT deleted AND version >= 0 GROUP BY kind) AS k
       ) AS documents,
       (SELECT count(*) FROM documents WHERE deleted) AS tombstones,
       (SELECT count(*) FROM steps) AS steps,
       (SELECT count(*) FROM chunks) AS chunks,
       (SELECT max(indexed_at) FROM documents) AS last_indexed_at,
       (SELECT coalesce(jsonb_object_agg(state, n), '{}') FROM
           (SELECT state, count(*) AS n FROM ingest_ledger GROUP BY state) AS l) AS ledger,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
       epoch, fingerprint, refreshed_at
FROM corpus_state
"""

SPACES = """
SELECT fingerprint, model, dimension, table_name, state, started_at, completed_at, retired_at, problem
FROM embedding_space_states ORDER BY started_at, fingerprint
"""

DOCUMENTS = """
WITH page AS (
    SELECT * FROM documents
    WHERE ($1::text IS NULL OR source = $1) AND ($2::text IS NULL OR kind = $2)
      AND ($3::uuid IS NULL OR document_id > $3)
    ORDER BY document_id LIMIT $4
)
SELECT page.document_id, source, external_id, page.kind, title, version, deleted, content_sha, commit_sha, path,
       service, severity, owner, tags, alerts, links, labels, blob_sha, url,
       s.steps, s.altered, c.chunks, c.altered AS altered_chunks, c.broken
FROM page CROSS JOIN LATERAL (
    SELECT count(*) AS steps, count(*) FILTER (WHERE content_sha <> encode(sha256(
        convert_to(label, 'UTF8') || '\\x00' || convert_to(section, 'UTF8') || '\\x00' || convert_to(body, 'UTF8')
    ), 'hex')) AS altered
    FROM steps WHERE steps.document_id = page.document_id
) AS s CROSS JOIN LATERAL (
    SELECT count(*) AS chunks, count(*) FILTER (WHERE NOT ({sound})) AS broken,
           -- What is embedded is the text, with a line of title and section in front where there is room for it.
           count(*) FILTER (
               WHERE text NOT IN (embed_text, substr(embed_text, strpos(embed_text, chr(10)) + 1))) AS altered
    FROM chunks c WHERE c.document_id = page.document_id
) AS c
ORDER BY page.document_id
"""

# The text that its hash is of, and a vector of unit length, of the model that searches use. A halfvec has a norm as a
# vector. That it is the vector of this text only the model can tell (`vector_check`).
SOUND = """c.embed_sha = encode(sha256(convert_to(c.embed_text, 'UTF8')), 'hex') AND EXISTS (
    SELECT 1 FROM {table} e WHERE e.chunk_id = c.chunk_id
    AND e.fingerprint = (SELECT fingerprint FROM corpus_state) AND abs(vector_norm(e.embedding::vector) - 1) < 0.01
)"""

VECTORS = """
SELECT c.chunk_id, d.external_id, c.embed_text, e.embedding
FROM chunks c JOIN documents d USING (document_id) JOIN {table} e USING (chunk_id)
WHERE d.source = $1 AND c.chunk_id > $2
ORDER BY c.chunk_id LIMIT $3
"""

LEDGER = """
SELECT event_id, state, document_id, version, accepted_at, settled_at, detail
FROM ingest_ledger WHERE event_id = ANY($1::uuid[]) ORDER BY event_id
"""

VERSIONS = """
SELECT document_id, part, version, event_id, deleted FROM document_parts
WHERE document_id = ANY($1::uuid[]) ORDER BY document_id, part LIMIT 10000
"""

SETTLED = """
SELECT l.event_id, l.state, l.settled_at, l.accepted_at, l.version, l.part, l.topic, l.detail, l.document_id,
       d.kind, d.source, d.external_id AS subject, d.title, d.service, d.url
FROM ingest_ledger l LEFT JOIN documents d USING (document_id)
"""
SETTLED_SINCE = SETTLED + "WHERE l.settled_at >= $1 ORDER BY l.settled_at, l.event_id LIMIT $2"
SETTLED_LAST = SETTLED + "ORDER BY l.settled_at DESC, l.event_id DESC LIMIT $1"

SILENT = """
SELECT min(d.labels ->> 'alertname') AS name, count(*) AS fired, max(d.occurred_at) AS last_fired_at,
       max(d.service) AS service
FROM documents d
WHERE d.kind = 'alert' AND NOT d.deleted AND d.labels ? 'alertname' AND d.occurred_at >= $1
  AND NOT EXISTS (SELECT FROM documents r WHERE r.kind = 'runbook' AND NOT r.deleted
                  AND r.alerts @> ARRAY[lower(d.labels ->> 'alertname')])
GROUP BY lower(d.labels ->> 'alertname') ORDER BY fired DESC, name LIMIT $2
"""

INGEST = """
SELECT date_trunc('hour', l.settled_at, 'UTC') AS hour, d.source, l.state, count(*) AS events,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM l.settled_at - l.accepted_at)::float8) AS seconds
FROM ingest_ledger l LEFT JOIN documents d USING (document_id)
WHERE l.settled_at >= $1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


class PostgresReports:
    """Answers about the index."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def status(self) -> IndexStatus:
        """Sizes and freshness. Raises Unavailable when PostgreSQL cannot be reached."""
        try:
            async with self._pool.acquire() as connection:
                row = await connection.fetchrow(STATUS)
                spaces = [await _space(connection, space) for space in await connection.fetch(SPACES)]
        except Exception as exc:
            raise translate(exc) from exc
        assert row is not None
        return IndexStatus(
            documents=_object(row["documents"]),
            steps=row["steps"],
            chunks=row["chunks"],
            epoch=row["epoch"],
            fingerprint=row["fingerprint"],
            last_indexed_at=row["last_indexed_at"],
            details={
                "tombstones": row["tombstones"],
                "ledger": _object(row["ledger"]),
                "pgvector": row["pgvector"],
                "frequencies_refreshed_at": row["refreshed_at"],
                "embedding_spaces": spaces,
            },
        )

    async def documents(
        self, source: str | None, kind: str | None, after: uuid.UUID | None, limit: int, *, words: bool = False
    ) -> IndexedDocuments:
        """One page of what the index holds, tombstones included, to compare with the truth.

        With `words` identifiers and lexemes are made again from the texts, and compared.
        """
        other = OtherWords(Counter(), Counter())
        try:
            async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
                sound = await _sound(connection)
                rows = await connection.fetch(DOCUMENTS.format(sound=sound), source, kind, after, limit + 1)
                if words:
                    other = await other_words(connection, [row["document_id"] for row in rows[:limit]])
        except Exception as exc:
            raise translate(exc) from exc
        page = [
            IndexedDocument(
                document_id=row["document_id"],
                source=row["source"],
                external_id=row["external_id"],
                kind=row["kind"],
                version=row["version"],
                deleted=row["deleted"],
                title=row["title"],
                content_sha=row["content_sha"],
                steps=row["steps"],
                chunks=row["chunks"],
                altered_steps=max(row["altered"], other.steps[row["document_id"]]),
                altered_chunks=max(row["altered_chunks"], other.chunks[row["document_id"]]),
                broken_vectors=row["broken"],
                commit=row["commit_sha"],
                path=row["path"],
                facts=_facts(row),
            )
            for row in rows[:limit]
        ]
        return IndexedDocuments(documents=page, next=page[-1].document_id if len(rows) > limit else None)

    async def page(self, source: str, after: uuid.UUID | None, limit: int) -> tuple[str | None, Sequence[StoredVector]]:
        """As `vector_check.StoredVectors.page`."""
        try:
            async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
                active = await _active(connection)
                if active is None:
                    return None, []
                statement = VECTORS.format(table=active["table_name"])
                rows = await connection.fetch(statement, source, after or uuid.UUID(int=0), limit)
        except Exception as exc:
            raise translate(exc) from exc
        return active["fingerprint"], [
            StoredVector(
                row["chunk_id"], row["external_id"], row["embed_text"], row["embedding"].to_numpy().astype(np.float32)
            )
            for row in rows
        ]

    async def ledger(self, event_ids: Sequence[uuid.UUID]) -> LedgerAnswer:
        """The ends that these events reached, as far as they did."""
        try:
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(LEDGER, list(event_ids))
        except Exception as exc:
            raise translate(exc) from exc
        return LedgerAnswer(entries=[LedgerEntry(**dict(row)) for row in rows])

    async def events(self, since: datetime | None, limit: int) -> SettledEvents:
        """The first events settled since then, or the last of all; in the order in which they were settled."""
        try:
            async with self._pool.acquire() as connection:
                if since is None:
                    rows = list(reversed(await connection.fetch(SETTLED_LAST, limit)))
                else:
                    rows = await connection.fetch(SETTLED_SINCE, since, limit)
        except Exception as exc:
            raise translate(exc) from exc
        return SettledEvents(events=[SettledEvent(**dict(row)) for row in rows])

    async def silent_alerts(self, since: datetime, limit: int) -> SilentAlerts:
        """Alerts that fired since then and that no runbook is for."""
        try:
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(SILENT, since, limit)
        except Exception as exc:
            raise translate(exc) from exc
        return SilentAlerts(alerts=[SilentAlert(**dict(row)) for row in rows])

    async def ingest(self, since: datetime) -> IngestCounts:
        """Events settled since then, counted by hour, source and state."""
        try:
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(INGEST, since)
        except Exception as exc:
            raise translate(exc) from exc
        return IngestCounts(counts=[IngestCount(**dict(row)) for row in rows])

    async def versions(self, document_ids: Sequence[uuid.UUID]) -> VersionsAnswer:
        """The writes that these documents' parts are of."""
        try:
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(VERSIONS, list(document_ids))
        except Exception as exc:
            raise translate(exc) from exc
        return VersionsAnswer(parts=[PartVersion(**dict(row)) for row in rows])


async def _space(connection: Connection, row: Any) -> dict[str, Any]:
    """One embedding model: its state, and of how many chunks there is a vector."""
    space = dict(row)
    table = space.pop("table_name")
    space["chunks"] = await connection.fetchval(f"SELECT count(*) FROM {table}") if table else 0  # noqa: S608
    return space


async def _active(connection: Connection) -> Any:
    """The row of the embedding model that searches use; None where there is none yet."""
    return next((row for row in await connection.fetch(SPACES) if row["state"] == "active"), None)


async def _sound(connection: Connection) -> str:
    active = await _active(connection)
    return "false" if active is None else SOUND.format(table=active["table_name"])


def _facts(row: Any) -> IndexedFacts:
    names = ("service", "severity", "owner", "tags", "alerts", "links", "path", "url")
    given = {name: row[name] for name in names}
    return IndexedFacts(**given, labels=_object(row["labels"]), commit=row["commit_sha"], blob=row["blob_sha"])


def _object(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(value) if isinstance(value, str) else value
    return found
