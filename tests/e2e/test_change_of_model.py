"""Two real embedders: the same weights with cut vectors, kept as halfvec, and in bfloat16 are another model."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.embedder import http_endpoint
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.embedders import Embedders
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.metrics import IngestMetrics, RebuildMetrics
from cairn_ingest_consumer.model import Delivery
from cairn_ingest_consumer.rebuild import Rebuild, RebuildPolicy
from cairn_local.programs import python_module
from cairn_retriever.app import create_app
from cairn_retriever.settings import RetrieverSettings
from cairn_shared.clock import SystemClock
from cairn_shared.embedder_client import open_client
from cairn_shared.events import Event, RunbookUpserted, make_event
from cairn_shared.kafka.records import Record
from cairn_shared.postgres import open_pool
from cairn_shared.runbooks.model import Runbook, Step
from cairn_shared.settings import PostgresSettings

PROBLEMS = {
    "disk": "Free space on a full volume",
    "bread": "Knead the dough",
    "lag": "The replica is behind its primary",
    "tls": "Renew an expired certificate",
}


@asynccontextmanager
async def another_embedder() -> AsyncIterator[str]:
    """A second embedder process; its URL."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PORT": str(port),
        "EMBEDDING_DTYPE": "bfloat16",
        "EMBEDDING_DIMENSIONS": "256",
        "EMBEDDING_STORAGE": "halfvec",
        "OMP_NUM_THREADS": "1",
        "LOG_LEVEL": "WARNING",
    }
    process = await asyncio.create_subprocess_exec(*python_module("cairn_embedder"), env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(90):
            while True:
                try:
                    if (await client.get(f"{url}/health/ready")).status_code == 200:
                        break
                except httpx.HTTPError:
                    pass
                await asyncio.sleep(0.2)
        yield url
    finally:
        process.terminate()
        await process.wait()


def runbook_event(name: str, text: str, version: int) -> Event:
    now = datetime.now(UTC)
    runbook = Runbook(id=name, title=text, steps=[Step(number=1, label="1", body=text)])
    return make_event(
        "runbook.upserted",
        source="runbooks",
        source_id=f"{name}@{version}",
        subject=name,
        version=version,
        occurred_at=now,
        accepted_at=now,
        payload=RunbookUpserted(runbook=runbook),
    )


async def apply(index: IndexDocuments, *events: Event) -> None:
    await index.handle(
        [
            Delivery(Record(event.topic(), 0, offset, event.key(), event.encode(), tuple(event.headers())), event)
            for offset, event in enumerate(events)
        ]
    )


@pytest.mark.slow
async def test_searches_by_meaning_work_before_during_and_after_a_change_of_real_models(
    postgres_dsn: str, embedder_url: str
) -> None:
    settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0)
    clock = SystemClock()
    async with (
        another_embedder() as next_url,
        open_pool(settings, "test") as pool,
        open_client(embedder_url, 30) as old,
        open_client(next_url, 30) as new,
    ):
        app = create_app(
            RetrieverSettings(
                pg_dsn=SecretStr(postgres_dsn),
                embedder_url=embedder_url,
                embedder_next_url=next_url,
                port=0,
                query_embed_timeout=30,
            )
        )
        spaces, registry = PostgresSpaces(pool), CollectorRegistry()
        only_old = Embedders(spaces, [http_endpoint(old)], clock)
        first = IndexDocuments(PostgresDocumentStore(pool), only_old, IngestMetrics(CollectorRegistry()), clock)
        await apply(first, *(runbook_event(name, text, 1) for name, text in PROBLEMS.items()))
        both = Embedders(spaces, [http_endpoint(old), http_endpoint(new)], clock)
        index = IndexDocuments(PostgresDocumentStore(pool), both, IngestMetrics(registry), clock)
        rebuild = Rebuild(
            both,
            spaces,
            RebuildMetrics(registry),
            clock,
            policy=RebuildPolicy(batch=1, share=1.0, interval=0.1),
            busy=lambda: index.busy,
        )
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as client,
        ):

            async def search() -> dict[str, Any]:
                body = {"query": "the storage has run out of room", "mode": "semantic"}
                found: dict[str, Any] = (await client.post("/search", json=body)).json()
                assert found["degraded"] == []
                assert found["results"][0]["runbook_id"] == "disk"
                assert found["results"][0]["features"]["cosine"] > 0.3
                return found

            before = await search()
            rebuilding = asyncio.create_task(rebuild.run())
            try:
                fingerprints = {before["fingerprint"]}
                async with asyncio.timeout(60):
                    version = 2
                    while len(fingerprints) < 2:
                        fingerprints.add((await search())["fingerprint"])
                        await apply(index, runbook_event("bread", f"Knead the dough {version} times", version))
                        version += 1
                await search()
            finally:
                rebuilding.cancel()
                await asyncio.gather(rebuilding, return_exceptions=True)
            status = (await client.get("/index/status")).json()["details"]["embedding_spaces"]
            assert {one["state"]: one["chunks"] for one in status} == {"retired": 4, "active": 4}
            ways = {one["state"]: one["fingerprint"].split(":", 1)[1] for one in status}
            assert ways == {"retired": "float32:mean:256", "active": "bfloat16:mean:256:d256:halfvec"}
            kept_as = await pool.fetchval(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute JOIN embedding_space_states"
                " ON attrelid = table_name::regclass WHERE attname = 'embedding' AND state = 'active'"
            )
            assert kept_as == "halfvec(256)"
