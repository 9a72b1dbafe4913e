"""Scratch indexes: real PostgreSQL and embedder, filled through the real loader, chunker and write path."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx
from eval_sets import DEMO, IdentifierDocument
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.embedder import http_endpoint
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.adapters.statistics import PostgresStatistics
from cairn_ingest_consumer.embedders import Embedders
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import Delivery
from cairn_local.migrate import migrate_postgres
from cairn_local.testservers import TestServers
from cairn_shared.clock import SystemClock
from cairn_shared.errors import InvalidInput
from cairn_shared.events import Event, RunbookUpserted, SourceDocument, make_event
from cairn_shared.http import open_client
from cairn_shared.kafka.records import Record
from cairn_shared.postgres import open_pool
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook
from cairn_shared.runbooks.model import Runbook
from cairn_shared.settings import PostgresSettings

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = 10


class Servers:
    """PostgreSQL and the embedder for the time of one evaluation. A running stack is not touched."""

    def __init__(self) -> None:
        self._servers = TestServers.create()
        maintenance = self._servers.postgres()
        self._address = maintenance.rpartition("/")[0]
        self.embedder = self._servers.embedder()
        self.tests = self._servers

    def dsn(self, name: str) -> str:
        """The DSN of the scratch database `name`."""
        return f"{self._address}/eval_{name}"

    def stop(self) -> None:
        """End both, and remove what they stored."""
        self._servers.stop()


def demo_runbooks() -> Iterator[Runbook]:
    """The demo runbooks, with the ids that `cairn seed` gives them."""
    yield from read_runbooks(DEMO, source="api", prefix="")


def corpus_runbooks(folder: Path) -> Iterator[Runbook]:
    """Both public corpora."""
    for name in ("prometheus-operator-runbooks", "openshift-runbooks"):
        yield from read_runbooks(folder / name, source=f"repo:{name}", prefix=f"{name}-")


def read_runbooks(root: Path, *, source: str, prefix: str) -> Iterator[Runbook]:
    """The pages under `root` that have content."""
    for file in sorted(root.rglob("*.md")):
        path = file.relative_to(root).as_posix()
        identity = re.sub(r"[^A-Za-z0-9._-]", "-", prefix + path.removesuffix(".md"))
        try:
            yield load_runbook(decode_markdown(file.read_bytes()), runbook_id=identity, source=source, path=path)
        except InvalidInput:
            continue  # pages without content


def runbook_events(runbooks: Iterable[Runbook], *, of_corpus: bool = False) -> list[Event]:
    """The events that put `runbooks` into the index; with `of_corpus` each under the source it names, to filter by."""
    return [
        make_event(
            "runbook.upserted",
            source=book.source if of_corpus else "runbooks",
            source_id=f"{book.id}@1",
            subject=book.id,
            version=1,
            occurred_at=WHEN,
            accepted_at=WHEN,
            payload=RunbookUpserted(runbook=book),
        )
        for book in runbooks
    ]


def identifier_events(documents: Iterable[IdentifierDocument]) -> list[Event]:
    """The documents of the identifier table as tickets, each row a source of its own."""
    return [
        make_event(
            "ticket",
            source=one.row,
            source_id=one.id,
            subject=one.id,
            version=1,
            occurred_at=WHEN,
            accepted_at=WHEN,
            payload=SourceDocument(title=one.title, body=one.body),
        )
        for one in documents
    ]


async def build(servers: Servers, name: str, events: Sequence[Event]) -> str:
    """A fresh database with `events` indexed; its DSN."""
    dsn = servers.dsn(name)
    await migrate_postgres(SecretStr(dsn))
    await index_events(dsn, servers.embedder, events)
    return dsn


async def index_events(
    dsn: str, embedder: str, events: Sequence[Event], client: httpx.AsyncClient | None = None
) -> None:
    """Index `events` in a migrated database, as the ingest consumer does; `client` stands for the embedder's own."""
    settings = PostgresSettings(pg_dsn=SecretStr(dsn), pg_pool_min=0, pg_command_timeout=120)
    async with open_pool(settings, "eval") as pool, open_client(embedder, 120) as direct:
        http = client or direct
        index = IndexDocuments(
            PostgresDocumentStore(pool),
            Embedders(PostgresSpaces(pool), [http_endpoint(http)], SystemClock()),
            IngestMetrics(CollectorRegistry()),
            SystemClock(),
        )
        for start in range(0, len(events), BATCH):
            await index.handle([_delivery(start + i, event) for i, event in enumerate(events[start : start + BATCH])])
        await PostgresStatistics(pool, 30).refresh()
        for table in ("documents", "steps", "chunks", "chunk_embeddings_384"):
            await pool.execute(f"ANALYZE {table}")


def _delivery(offset: int, event: Event) -> Delivery:
    record = Record(
        topic=event.topic(),
        partition=0,
        offset=offset,
        key=event.subject.encode(),
        value=event.encode(),
        headers=(),
        timestamp_ms=0,
    )
    return Delivery(record, event)


@asynccontextmanager
async def without_page(dsn: str, name: str) -> AsyncIterator[None]:
    """The index as if no page of this file name existed; put back afterwards."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE TEMP TABLE gone (document_id uuid)")
        await connection.execute(
            "INSERT INTO gone SELECT document_id FROM documents"
            " WHERE lower(regexp_replace(path, '^.*/|\\.[^./]*$', '', 'g')) = $1",
            name,
        )
        await connection.execute(
            "CREATE TEMP TABLE kept_documents AS SELECT * FROM documents NATURAL JOIN gone;"
            "CREATE TEMP TABLE kept_steps AS SELECT s.* FROM steps s NATURAL JOIN gone;"
            "CREATE TEMP TABLE kept_chunks AS SELECT c.* FROM chunks c NATURAL JOIN gone;"
            "CREATE TEMP TABLE kept_vectors AS SELECT e.* FROM chunk_embeddings_384 e JOIN kept_chunks USING (chunk_id);"
            "DELETE FROM steps WHERE document_id IN (SELECT document_id FROM gone);"
            "UPDATE documents SET deleted = true WHERE document_id IN (SELECT document_id FROM gone);"
            "UPDATE corpus_state SET epoch = epoch + 1"
        )
        yield
    finally:
        await connection.execute(
            "INSERT INTO steps SELECT * FROM kept_steps; INSERT INTO chunks SELECT * FROM kept_chunks;"
            "UPDATE documents SET deleted = false WHERE document_id IN (SELECT document_id FROM gone);"
            "UPDATE corpus_state SET epoch = epoch + 1"
        )
        columns = "chunk_id, kind, occurred_at, fingerprint, embedding"
        await connection.execute(
            f"INSERT INTO chunk_embeddings_384 ({columns})"
            " SELECT v.chunk_id, v.kind, v.occurred_at, v.fingerprint, v.embedding FROM kept_vectors v"
        )
        await connection.close()
