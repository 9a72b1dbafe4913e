"""MongoDB against the index; the states of events; the status page; the planner's evidence."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from cairn_gateway.adapters.mongo_spool import MongoSpool, SpoolPolicy
from cairn_gateway.adapters.retriever import HttpRetriever
from cairn_gateway.ingest_state import combine
from cairn_gateway.metrics import Metrics
from cairn_gateway.model import Entry
from cairn_gateway.reconcile import ReconcilePolicy, Reconciler, compare, kind_of
from cairn_shared import mongo
from cairn_shared.api.index import IndexedDocument, IndexedFacts, LedgerEntry
from cairn_shared.http import open_client
from cairn_shared.runbooks.records import Head
from cairn_shared.runbooks.store import RunbookStore

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, Start, StillClock, Upstream

    from cairn_gateway.settings import GatewaySettings

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def head(name: str = "a", revision: int = 3, *, deleted: bool = False, at: datetime = NOW) -> Head:
    return Head(
        id=name,
        revision=revision,
        deleted=deleted,
        content_sha="" if deleted else "sha",
        title=name,
        service=None,
        severity=None,
        owner=None,
        tags=(),
        alerts=(),
        source="api",
        path=None,
        commit=None,
        blob=None,
        url=None,
        steps=1,
        updated_at=at,
    )


def indexed(
    version: int = 3,
    *,
    deleted: bool = False,
    sha: str = "sha",
    steps: int = 1,
    chunks: int = 1,
    broken: int = 0,
    altered: int = 0,
    title: str = "a",
) -> IndexedDocument:
    return IndexedDocument(
        document_id=uuid.uuid4(),
        source="runbooks",
        external_id="a",
        kind="runbook",
        version=version,
        deleted=deleted,
        content_sha=sha,
        steps=steps,
        chunks=chunks,
        title=title,
        altered_steps=altered,
        broken_vectors=broken,
    )


OTHER_FACTS = [
    IndexedFacts.model_validate({"labels": {"source": "api"}, **other})
    for other in cast(
        "tuple[dict[str, Any], ...]",
        (
            *({name: "x"} for name in ("service", "severity", "owner", "path", "commit", "blob", "url")),
            *({name: ["x"]} for name in ("tags", "alerts", "links")),
            {"labels": {"source": "another"}},
        ),
    )
]


@pytest.mark.parametrize(
    ("truth", "found", "kind"),
    [
        (head(), indexed(), None),
        (head(), None, "missing"),
        (head(), indexed(2), "stale"),
        (head(), indexed(2, deleted=True), "missing"),
        (head(), indexed(4), "ahead"),
        (head(), indexed(sha="other"), "altered"),
        (head(), indexed(deleted=True), "altered"),
        (head(), indexed(steps=2), "altered"),
        (head(), indexed(altered=1), "altered"),
        (head(), indexed(title="b"), "altered"),
        (head(), indexed().model_copy(update={"altered_chunks": 1}), "altered"),
        (head(), indexed().model_copy(update={"facts": IndexedFacts(labels={"source": "api"})}), None),
        (head(), indexed().model_copy(update={"facts": IndexedFacts()}), "altered"),
        *((head(), indexed().model_copy(update={"facts": facts}), "altered") for facts in OTHER_FACTS),
        (head(), indexed(broken=1), "broken"),
        (head(), indexed(chunks=0), "broken"),
        (head(deleted=True), None, None),
        (head(deleted=True), indexed(3, deleted=True), None),
        (head(deleted=True), indexed(2, deleted=True), None),
        (head(deleted=True), indexed(2), "undeleted"),
        (head(deleted=True), indexed(4), "ahead"),
        (head(deleted=True), indexed(4, deleted=True), "ahead"),
    ],
)
def test_every_way_in_which_a_runbook_can_differ(truth: Head, found: IndexedDocument | None, kind: str | None) -> None:
    assert kind_of(truth, found) == kind


def test_what_changed_just_now_is_on_its_way_not_different() -> None:
    fresh = head("fresh", at=NOW + timedelta(seconds=1))
    comparison = compare([fresh, head("old")], {}, NOW)
    assert comparison.pending == ("fresh",)
    assert [item.runbook_id for item in comparison.differences.missing] == ["old"]


def test_an_index_that_is_ahead_is_no_matter_of_time() -> None:
    comparison = compare([head(at=NOW + timedelta(seconds=1))], {"a": indexed(9)}, NOW)
    assert [item.indexed_version for item in comparison.differences.ahead] == [9]


def test_what_mongodb_never_knew_is_unknown_unless_deleted() -> None:
    comparison = compare([], {"a": indexed(5), "b": indexed(5, deleted=True)}, NOW)
    assert [item.runbook_id for item in comparison.differences.unknown] == ["a"]


async def plant(store: RunbookStore, client: httpx.AsyncClient, upstream: Upstream) -> None:
    """Seven runbooks, one of each difference and one that is right."""
    for name in ("right", "missing", "stale", "undeleted", "altered", "broken", "ahead"):
        await client.put(f"/runbooks/{name}", json={"title": name, "steps": ["Look."]})
        stored = await store.get(name)
        upstream.index(name, 1, stored.content_sha)
    del upstream.documents["missing"]
    await client.put("/runbooks/stale", json={"title": "stale", "steps": ["Look twice."]})
    await client.delete("/runbooks/undeleted")
    upstream.documents["altered"]["content_sha"] = "0000"
    upstream.documents["broken"]["broken_vectors"] = 2
    upstream.documents["ahead"]["version"] = 9
    upstream.index("unknown", 4, "ffff")
    async with asyncio.timeout(10):
        while (await client.get("/status")).json()["queues"]["outbox"]["pending"]:
            await asyncio.sleep(0.01)


@pytest.fixture
async def reconciler(
    database: mongo.Database, store: RunbookStore, upstream: Upstream, clock: StillClock, metrics: Metrics
) -> AsyncIterator[Reconciler]:
    """A reconciler beside the gateway's, whose time the test moves."""
    async with open_client(upstream.url, 5) as http:
        outbox = MongoSpool(database["outbox"], clock, SpoolPolicy(timedelta(days=7), settles=False))
        yield Reconciler(
            store=store,
            outbox=outbox,
            index=HttpRetriever(http),
            clock=clock,
            metrics=metrics,
            policy=ReconcilePolicy(),
        )


KINDS = ("missing", "stale", "undeleted", "altered", "broken", "ahead", "unknown")


async def test_verify_finds_every_planted_difference(
    client: httpx.AsyncClient, store: RunbookStore, upstream: Upstream
) -> None:
    await plant(store, client, upstream)
    found = (await client.post("/verify", json={"grace_seconds": 0})).json()
    assert found["ok"] is False
    assert (found["checked"], found["tombstones"], found["indexed"], found["repaired"]) == (6, 1, 7, [])
    assert {kind: [item["runbook_id"] for item in items] for kind, items in found["differences"].items()} == {
        kind: [kind] for kind in KINDS
    }
    default = (await client.post("/verify", json={})).json()
    assert sorted(default["pending"]) == ["altered", "broken", "missing", "stale", "undeleted"]


async def test_verify_with_repair_publishes_what_heals_each_difference(
    client: httpx.AsyncClient, store: RunbookStore, upstream: Upstream, database: mongo.Database
) -> None:
    await plant(store, client, upstream)
    await database["outbox"].delete_many({})
    found = (await client.post("/verify", json={"repair": True, "grace_seconds": 0})).json()
    assert sorted(found["repaired"]) == sorted(KINDS)
    sent = {entry["subject"]: (entry["type"], entry["version"]) async for entry in database["outbox"].find()}
    assert sent == {
        "missing": ("runbook.upserted", 1),
        "stale": ("runbook.upserted", 2),
        "undeleted": ("runbook.deleted", 2),
        "altered": ("runbook.upserted", 2),
        "broken": ("runbook.upserted", 2),
        "ahead": ("runbook.upserted", 10),
        "unknown": ("runbook.deleted", 5),
    }
    payloads = [json.loads(entry["value"])["payload"] async for entry in database["outbox"].find()]
    rewritten = {payload["runbook"]["id"] for payload in payloads if payload.get("rewrite")}
    assert rewritten == {"altered", "broken", "ahead"}, "the same content alone would change nothing there"


async def test_what_the_index_had_and_lost_is_written_anew_beyond_it(
    client: httpx.AsyncClient, reconciler: Reconciler, clock: StillClock, upstream: Upstream, store: RunbookStore
) -> None:
    event_id = (await client.put("/runbooks/a", json={"title": "T", "steps": ["Look."]})).json()["event_id"]
    upstream.settle(event_id)
    clock.time = datetime.now(UTC)
    found = await reconciler.verify(repair=True, grace=timedelta(0))
    assert ([item.runbook_id for item in found.differences.missing], found.repaired) == (["a"], ("a",))
    assert (await store.get("a")).revision == 2, "the same revision is no news to an index that knows it"


async def test_what_kafka_has_and_the_index_has_yet_to_reach_is_pending(
    client: httpx.AsyncClient, reconciler: Reconciler, clock: StillClock, upstream: Upstream, eventually: Eventually
) -> None:
    event_id = (await client.put("/runbooks/a", json={"title": "T", "steps": ["Look."]})).json()["event_id"]

    async def sent() -> bool:
        return bool((await client.get(f"/ingest/{event_id}")).json()["state"] == "queued")

    await eventually(sent)
    clock.time = datetime.now(UTC) + timedelta(minutes=5)
    assert (await reconciler.verify(repair=True, drastic=False)).pending == ("a",)
    clock.advance(15 * 60)
    assert (await reconciler.verify(repair=False)).differences.missing[0].runbook_id == "a"
    clock.advance(-15 * 60)
    upstream.settle(event_id)  # the ledger says searchable, the index does not have it
    found = await reconciler.verify(repair=True, drastic=False)
    assert ([item.runbook_id for item in found.differences.missing], found.repaired) == (["a"], ("a",))


async def test_the_periodic_comparison_leaves_dead_letters_and_a_lost_mongodb_to_people(
    client: httpx.AsyncClient, reconciler: Reconciler, clock: StillClock, upstream: Upstream
) -> None:
    dead = (await client.put("/runbooks/dead", json={"title": "T", "steps": ["Look."]})).json()["event_id"]
    upstream.settle(dead, "dead")
    upstream.index("unknown", 4, "ffff")
    clock.time = datetime.now(UTC) + timedelta(hours=1)
    found = await reconciler.verify(repair=True, drastic=False)
    assert (len(found.differences.missing), len(found.differences.unknown), found.repaired) == (1, 1, ())
    assert sorted((await reconciler.verify(repair=True)).repaired) == ["dead", "unknown"]


async def test_verify_of_equal_stores_is_ok(client: httpx.AsyncClient, store: RunbookStore, upstream: Upstream) -> None:
    for number in range(5):
        await client.put(f"/runbooks/b{number}", json={"title": "T", "steps": ["Look."]})
        upstream.index(f"b{number}", 1, (await store.get(f"b{number}")).content_sha)
    found = (await client.post("/verify", json={"grace_seconds": 0})).json()
    assert (found["ok"], found["checked"], found["indexed"]) == (True, 5, 5)
    upstream.status = 503
    assert (await client.post("/verify", json={})).status_code == 503


async def test_vectors_of_other_texts_are_looked_for_where_it_is_asked(
    client: httpx.AsyncClient, store: RunbookStore, upstream: Upstream
) -> None:
    for number in range(4):
        await client.put(f"/runbooks/b{number}", json={"title": "T", "steps": ["Look."]})
        upstream.index(f"b{number}", 1, (await store.get(f"b{number}")).content_sha)
    upstream.wrong_vectors = ("b0", "b2")
    body = {"grace_seconds": 0}
    assert (await client.post("/verify", json=body)).json()["ok"] is True
    found = (await client.post("/verify", json=body | {"vectors": True, "repair": True})).json()
    assert (found["ok"], found["counts"]["broken"], sorted(found["repaired"])) == (False, 2, ["b0", "b2"])
    assert (await store.get("b2")).revision == 2, "written anew, which embeds it again"


EVENT = uuid.UUID(int=1)
LEDGER = LedgerEntry(
    event_id=EVENT, state="dead", document_id=None, version=2, accepted_at=None, settled_at=NOW, detail="bad"
)
WAITING = Entry(
    event_id=EVENT,
    state="pending",
    topic="t",
    key=b"a",
    value=b"",
    headers=(),
    type="alert",
    source="s",
    subject="a",
    version=1,
    accepted_at=NOW,
    created_at=NOW,
    attempts=0,
)
SENT = replace(WAITING, state="published", published_at=NOW, attempts=1)
SETTLED = replace(SENT, state="settled", outcome="superseded")
REFUSED = replace(WAITING, state="refused", outcome="dead", detail="too large")


@pytest.mark.parametrize(
    ("ledger", "entry", "receipt", "state"),
    [
        (None, WAITING, None, "accepted"),
        (None, SENT, None, "queued"),
        (None, replace(SENT, state="pending"), None, "queued"),  # published again: Kafka had it
        (None, SETTLED, None, "superseded"),
        (None, REFUSED, None, "dead"),
        (None, None, NOW, "queued"),
        (LEDGER, None, None, "dead"),
        (LEDGER, SENT, NOW, "dead"),
    ],
)
def test_an_events_state_from_what_is_known_of_it(
    ledger: LedgerEntry | None, entry: Entry | None, receipt: datetime | None, state: str
) -> None:
    found = combine(EVENT, ledger, entry, receipt, index_asked=True)
    assert found is not None
    assert found.state == state


def test_an_event_that_nobody_knows_has_no_state() -> None:
    assert combine(EVENT, None, None, None, index_asked=True) is None


async def test_an_event_goes_from_queued_to_searchable(
    client: httpx.AsyncClient, upstream: Upstream, eventually: Eventually
) -> None:
    written = (await client.put("/runbooks/a", json={"title": "T", "steps": ["Look."]})).json()
    event_id = written["event_id"]

    async def state() -> dict[str, Any]:
        found: dict[str, Any] = (await client.get(f"/ingest/{event_id}")).json()
        return found

    async def queued() -> bool:
        return bool((await state())["state"] == "queued")

    await eventually(queued)
    upstream.status = 503
    assert "cannot be asked" in (await state())["detail"]
    upstream.status = 200
    upstream.settle(event_id)
    found = await state()
    assert (found["state"], found["subject"], found["version"]) == ("searchable", "a", 1)
    stranger = str(uuid.uuid4())
    many = (await client.post("/ingest/states", json={"event_ids": [event_id, stranger]})).json()
    assert many["states"][event_id]["state"] == "searchable"
    assert many["unknown"] == [stranger]
    upstream.status = 503
    assert (await client.get(f"/ingest/{stranger}")).status_code == 503


async def test_the_status_page_tells_what_is_up_and_what_waits(
    client: httpx.AsyncClient, upstream: Upstream, eventually: Eventually
) -> None:
    await client.put("/runbooks/a", json={"title": "T", "steps": ["Look."]})

    async def calm() -> dict[str, Any] | None:
        status: dict[str, Any] = (await client.get("/status")).json()
        return status if status["status"] == "ok" and status["queues"]["outbox"]["pending"] == 0 else None

    status = await eventually(calm)
    assert status["dependencies"] == dict.fromkeys(
        ("mongo", "kafka", "redis", "postgres", "retriever", "answerer"), "ok"
    )
    assert (status["runbooks"], status["index"]["epoch"], status["inbox"]) == (1, 7, "fallback")
    assert status["relay"]["term"] == 1
    upstream.status = 500
    status = (await client.get("/status")).json()
    assert (status["status"], status["index"]) == ("degraded", None)
    assert {name for name, state in status["dependencies"].items() if state != "ok"} == {
        "postgres",
        "retriever",
        "answerer",
    }
    assert (await client.get("/health/ready")).status_code == 200, "runbooks and webhooks are still taken"


async def test_mongodb_uses_an_index_for_every_query_of_ours(client: httpx.AsyncClient) -> None:
    for number in range(50):
        body = {"title": "T", "service": f"s{number}", "tags": [f"t{number}"], "steps": ["Look."]}
        await client.put(f"/runbooks/b{number}", json=body)
    plans = (await client.get("/admin/indexes")).json()
    assert plans["ok"], [plan["name"] for plan in plans["plans"] if not plan["index"]]
    assert {plan["collection"] for plan in plans["plans"]} == {
        "runbooks",
        "runbook_revisions",
        "executions",
        "feedback",
        "users",
        "dlq_entries",
        "dlq_jobs",
        "audit",
        "questions",
        "outbox",
        "inbox",
    }
    assert all("COLLSCAN" not in plan["stages"] for plan in plans["plans"])


async def test_requests_are_counted_by_route_not_by_address(client: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await client.get(f"/runbooks/{name}")
    await client.get("/nowhere/at/all")
    text = (await client.get("/metrics")).text
    assert 'cairn_http_requests_total{method="GET",route="/runbooks/{runbook_id}",status="404"} 2.0' in text
    assert 'route="unknown",status="404"} 1.0' in text
    assert "nowhere" not in text


async def test_the_status_page_names_what_only_other_parts_talk_to(
    start_gateway: Start, gateway_settings: GatewaySettings, upstream: Upstream
) -> None:
    """Embedder and consumers at addresses where nobody listens, postgres away behind the retriever."""
    nobody = {"embedder_url": "http://127.0.0.1:9", "ingest_consumer_urls": f"{upstream.url}, http://127.0.0.1:9"}
    async with start_gateway(gateway_settings.model_copy(update=nobody)) as client:
        status = (await client.get("/status")).json()
        assert status["status"] == "degraded"
        down = {name: state for name, state in status["dependencies"].items() if state != "ok"}
        assert down == dict.fromkeys(("embedder", "ingest-consumer-2"), "Unavailable")
        upstream.unready = {"postgres": "TimeoutError"}
        states = (await client.get("/status")).json()["dependencies"]
        assert (states["postgres"], states["retriever"]) == ("Unavailable", "Unavailable")
        upstream.unready = {"model": "RuntimeError"}
        states = (await client.get("/status")).json()["dependencies"]
        assert (states["postgres"], states["retriever"]) == ("ok", "Unavailable")
