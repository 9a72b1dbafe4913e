"""From deliveries to the index: in any order, repeated, each thing is one document that says what it should."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_gateway.sources import alertmanager, github, jira
from cairn_gateway.sources.logs.lines import read_lines
from cairn_gateway.sources.logs.translate import translate_records
from cairn_gateway.sources.model import Delivery as Sent
from cairn_gateway.sources.model import RunbookRepositories
from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.embedder import http_endpoint
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.embedders import Embedders
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import Delivery
from cairn_retriever.app import create_app as create_retriever
from cairn_retriever.settings import RetrieverSettings
from cairn_shared.clock import SystemClock
from cairn_shared.embedder_client import open_client
from cairn_shared.events import Event
from cairn_shared.kafka.records import Record
from cairn_shared.postgres import Pool, open_pool
from cairn_shared.settings import PostgresSettings

PAYLOADS = Path(__file__).parents[2] / "gateway" / "tests" / "sources" / "payloads"
NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


def sent(body: bytes, at: datetime = NOW) -> Sent:
    return Sent({}, body, at)


def golden(name: str, **headers: str) -> Sent:
    named = {header.replace("_", "-"): value for header, value in headers.items()}
    return Sent(named, (PAYLOADS / f"{name}.json").read_bytes(), NOW)


@pytest.fixture
async def pool(postgres_dsn: str) -> AsyncIterator[Pool]:
    async with open_pool(PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0), "test") as opened:
        yield opened


@pytest.fixture
async def index(pool: Pool, embedder_url: str) -> AsyncIterator[IndexDocuments]:
    """The consumer's handler with the real embedder."""
    async with open_client(embedder_url, 60) as client:
        yield IndexDocuments(
            PostgresDocumentStore(pool),
            Embedders(PostgresSpaces(pool), [http_endpoint(client)], SystemClock()),
            IngestMetrics(CollectorRegistry()),
            SystemClock(),
        )


async def write(index: IndexDocuments, events: Sequence[Event], seed: int) -> None:
    """Every event once and a third of them twice, in random order and batches of ten."""
    chance = random.Random(seed)
    order = [*events, *(event for event in events if chance.random() < 0.3)]
    chance.shuffle(order)
    for start in range(0, len(order), 10):
        batch = order[start : start + 10]
        await index.handle(
            [
                Delivery(Record("t", 0, start + number, None, event.encode(), (), None), event)
                for number, event in enumerate(batch)
            ]
        )


async def search(postgres_dsn: str, embedder_url: str, query: str) -> list[dict[str, Any]]:
    """What the retriever finds among the events."""
    settings = RetrieverSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0, embedder_url=embedder_url)
    app = create_retriever(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://retriever") as client:
            answer = await client.post("/search", json={"query": query, "filters": {"kind": "event"}})
            assert answer.status_code == 200, answer.text
            results: list[dict[str, Any]] = answer.json()["results"]
            return results


async def documents(pool: Pool, kind: str) -> list[Any]:
    rows: list[Any] = await pool.fetch(
        "SELECT d.*, (SELECT sum(count) FROM document_parts p WHERE p.document_id = d.document_id AND NOT p.deleted)"
        " AS occurrences, (SELECT array_agg(s.body ORDER BY s.part, s.step_number) FROM steps s"
        " WHERE s.document_id = d.document_id) AS bodies,"
        " (SELECT count(*) FROM chunks c JOIN chunk_embeddings_384 USING (chunk_id) WHERE c.document_id = d.document_id)"
        " AS embedded FROM documents d WHERE kind = $1",
        kind,
    )
    return rows


@pytest.mark.parametrize("seed", [1, 2])
async def test_ten_thousand_lines_in_ten_batches_are_one_document_with_the_right_count(
    index: IndexDocuments, pool: Pool, postgres_dsn: str, embedder_url: str, seed: int
) -> None:
    events: list[Event] = []
    for batch in range(10):
        at = NOW + timedelta(minutes=batch)
        lines = "\n".join(
            f"{(at + timedelta(seconds=n / 20)).isoformat()} ERROR pool {n} is empty, PROJ-77" for n in range(1000)
        )
        delivery = sent(lines.encode(), at)
        events += translate_records(read_lines(delivery.body, "shop"), delivery).events
    await write(index, events, seed)
    found = await documents(pool, "log")
    assert len(found) == 1
    assert (found[0]["occurrences"], found[0]["service"], found[0]["severity"]) == (10_000, "shop", "error")
    assert len(found[0]["bodies"]) == 1
    assert "is empty, PROJ-77" in found[0]["bodies"][0]
    assert found[0]["embedded"] >= 1
    parts = await pool.fetchrow("SELECT min(first_seen) AS first, max(last_seen) AS last FROM document_parts")
    assert parts is not None
    assert (parts["first"], parts["last"]) == (NOW, NOW + timedelta(minutes=9, seconds=999 / 20))
    hits = await search(postgres_dsn, embedder_url, "pool is empty PROJ-77")
    assert [(hit["kind"], hit["count"]) for hit in hits] == [("log", 10_000)]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_an_alert_is_one_document_in_its_last_state_with_its_episodes(
    index: IndexDocuments, pool: Pool, seed: int
) -> None:
    events: list[Event] = []
    firing, resolved = (
        json.loads((PAYLOADS / f"alertmanager/{one}.json").read_bytes()) for one in ("firing", "resolved")
    )
    for day in range(3):
        for payload in (firing, resolved):
            alert = dict(payload["alerts"][0])
            began = NOW + timedelta(days=day)
            alert["startsAt"] = began.isoformat()
            if payload is resolved:
                alert["endsAt"] = (began + timedelta(minutes=12)).isoformat()
            body = json.dumps({**payload, "alerts": [alert]}).encode()
            at = began + timedelta(minutes=13 if payload is resolved else 1)
            events += alertmanager.translate(sent(body, at)).events
    await write(index, events, seed)
    found = await documents(pool, "alert")
    assert len(found) == 1
    assert (found[0]["status"], found[0]["occurrences"], found[0]["severity"]) == ("resolved", 3, "warning")
    assert found[0]["links"] == ["https://runbooks.prometheus-operator.dev/runbooks/kubernetes/kubepodcrashlooping"]
    assert len(found[0]["bodies"]) == 1
    assert "Resolved: 2026-03-08" in found[0]["bodies"][0]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_ticket_ends_with_its_last_edit_and_without_its_deleted_comment(
    index: IndexDocuments, pool: Pool, seed: int
) -> None:
    names = ("issue_created", "issue_updated", "comment_created", "comment_updated", "comment_internal")
    events = [event for name in names for event in jira.translate(golden(f"jira/{name}")).events]
    await write(index, events, seed)
    found = await documents(pool, "ticket")
    assert [(row["external_id"], row["status"]) for row in found] == [("PROJ-123", "Done")]
    assert "The pool was empty" in found[0]["bodies"][0]
    assert [body for body in found[0]["bodies"] if "Restarted" in body] == [found[0]["bodies"][1]]
    assert "Restarted twice." in found[0]["bodies"][1]
    deletion = jira.translate(golden("jira/comment_deleted")).events
    await write(index, [*events, *deletion], seed)
    found = await documents(pool, "ticket")
    assert len(found[0]["bodies"]) == 1
    gone = jira.translate(golden("jira/issue_deleted")).events
    await write(index, [*gone, *events, *deletion], seed)
    found = await documents(pool, "ticket")
    assert (found[0]["deleted"], found[0]["bodies"], found[0]["embedded"]) == (True, None, 0)


@pytest.mark.parametrize("seed", [1, 2])
async def test_an_issue_comes_through_its_comment_and_dies_with_its_deletion(
    index: IndexDocuments, pool: Pool, seed: int
) -> None:
    def events_of(event: str, *names: str) -> list[Event]:
        return [
            one
            for name in names
            for one in github.translate(
                golden(f"github/{name}", x_github_event=event, x_github_delivery=name), RunbookRepositories()
            ).events
        ]

    commented = events_of("issue_comment", "issue_comment_created", "issue_comment_edited")
    await write(index, commented, seed)
    found = await documents(pool, "issue")
    assert [(row["external_id"], row["title"]) for row in found] == [
        ("acme/payments#42", "Ledger pool exhausted after deploy")
    ]
    assert "Limit raised to 60." in found[0]["bodies"][1]
    await write(index, [*commented, *events_of("issues", "issues_opened", "issues_closed", "issues_deleted")], seed)
    found = await documents(pool, "issue")
    assert (found[0]["deleted"], found[0]["embedded"]) == (True, 0)
