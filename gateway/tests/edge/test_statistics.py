"""Figures: how runbooks are used and what they lack, what is asked, what comes in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, Upstream

CITED = {"runbook_id": "redis", "title": "Redis", "step": 1, "label": "1", "section": "", "score": 0.9, "cited": True}


async def carried_out(client: httpx.AsyncClient, runbook_id: str, step: int, outcome: str, days_ago: float) -> None:
    at = datetime.now(UTC) - timedelta(days=days_ago)
    record = {"runbook_id": runbook_id, "step": step, "user_id": "ada", "outcome": outcome}
    name = f"{runbook_id}-{step}-{outcome}-{days_ago}"
    answer = await client.put(f"/executions/{name}", json=record | {"started_at": at.isoformat()})
    assert answer.status_code == 201, answer.text


async def test_executions_are_counted_by_runbook_and_step(client: httpx.AsyncClient) -> None:
    await client.put("/runbooks/redis", json={"title": "Redis is full", "steps": ["Look.", "Free it."]})
    for days, outcome in ((1, "worked"), (2, "failed"), (3, "worked"), (4, "skipped"), (200, "failed")):
        await carried_out(client, "redis", 1, outcome, days)
    await carried_out(client, "redis", 2, "skipped", 1)
    await carried_out(client, "gone", 1, "worked", 1)

    redis, gone = (await client.get("/stats/runbooks")).json()["runbooks"]
    assert (redis["title"], redis["executions"], redis["success_rate"]) == ("Redis is full", 5, 0.6667)
    assert [(one["step"], one["executions"], one["worked"], one["failed"]) for one in redis["steps"]] == [
        (1, 4, 2, 1),
        (2, 1, 0, 0),
    ]
    assert redis["last_used"] == max(one["last_used"] for one in redis["steps"])
    assert (gone["title"], gone["success_rate"]) == (None, 1.0)

    (old,) = (await client.get("/stats/runbooks", params={"days": 365, "runbook_id": "redis"})).json()["runbooks"]
    assert (old["executions"], old["success_rate"]) == (6, 0.5)


async def test_coverage_names_what_nobody_cites_or_carries_out(
    client: httpx.AsyncClient, upstream: Upstream, eventually: Eventually
) -> None:
    for name in ("redis", "mysql"):
        await client.put(f"/runbooks/{name}", json={"title": name.title(), "steps": ["Look."]})
    await carried_out(client, "mysql", 1, "worked", 1)
    upstream.answer = {"answer": "Look.", "mode": "full", "sources": [CITED]}
    for question in ("redis?", "redis ?", "what now?"):
        await client.post("/ask", json={"question": question})

    async def figures() -> dict[str, Any]:
        found: dict[str, Any] = (await client.get("/stats/questions")).json()
        return found if sum(one["count"] for one in found["days"]) == 3 else {}

    asked = await eventually(figures)
    assert {one["mode"] for one in asked["days"]} == {"full"}
    assert asked["most_asked"][0]["count"] == 2
    found = (await client.get("/stats/coverage")).json()
    names = {reason: [one["runbook_id"] for one in found[reason]] for reason in found if reason != "runbooks"}
    assert found["runbooks"] == 2
    assert names == {"never_cited": ["mysql"], "never_used": ["redis"], "stale": [], "empty": []}
    stale = (await client.get("/stats/coverage", params={"stale_days": 1e-9})).json()["stale"]
    assert [one["runbook_id"] for one in stale] == ["mysql", "redis"]


async def test_what_came_in_is_asked_of_the_retriever(client: httpx.AsyncClient, upstream: Upstream) -> None:
    upstream.settled = [{"event_id": "b6b1a7a6-6a9d-4f3c-8f0b-0d5f4a3c2b1a", "state": "searchable"}]
    upstream.counts = [{"hour": "2026-05-01T02:00:00Z", "source": "github", "state": "dead", "events": 2}]
    (event,) = (await client.get("/events", params={"limit": 7})).json()["events"]
    assert (event["state"], event["title"]) == ("searchable", "Redis is full")
    assert upstream.asked[-1] == {"limit": "7"}
    (count,) = (await client.get("/stats/ingest", params={"hours": 2})).json()["counts"]
    assert (count["source"], count["events"]) == ("github", 2)
    since = datetime.fromisoformat(upstream.asked[-1]["since"])
    assert timedelta(hours=1.9) < datetime.now(UTC) - since < timedelta(hours=2.1)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/stats/runbooks?days=0", "days"),
        ("/stats/runbooks?runbook_id=..%2Fx", "runbook_id"),
        ("/stats/coverage?stale_days=never", "stale_days"),
        ("/stats/ingest?hours=1e9", "hours"),
        ("/events?since=yesterday", "since"),
        ("/events?limit=0", "limit"),
    ],
)
async def test_bad_parameters_are_named(client: httpx.AsyncClient, path: str, field: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["field"]) == (422, f"query.{field}")
