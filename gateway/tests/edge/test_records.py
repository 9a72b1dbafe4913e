"""Executions and feedback."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

PAST = {
    "runbook_id": "redis-oom",
    "step": 2,
    "user_id": "user-jonas",
    "outcome": "worked",
    "note": "Evictions stopped.",
    "started_at": "2026-01-11T02:14:00.123456Z",
    "finished_at": "2026-01-11T02:17:00Z",
}


async def test_an_execution_put_again_changes_nothing(client: httpx.AsyncClient) -> None:
    first = await client.put("/executions/e-1", json=PAST)
    assert (first.status_code, first.json()["status"]) == (201, "created")
    again = await client.put("/executions/e-1", json=PAST)
    assert (again.status_code, again.json()["status"]) == (200, "unchanged")
    changed = await client.put("/executions/e-1", json=PAST | {"outcome": "failed"})
    assert changed.json()["status"] == "changed"


async def test_executions_are_listed_newest_first_page_by_page(client: httpx.AsyncClient) -> None:
    for number in range(7):  # pairs share a time: a page may end between them
        record = PAST | {
            "started_at": f"2026-01-11T0{number // 2}:00:00Z",
            "finished_at": None,
            "user_id": f"u{number % 2}",
        }
        await client.put(f"/executions/e-{number}", json=record)
    seen: list[str] = []
    after: dict[str, Any] = {}
    while True:
        params = {"runbook_id": "redis-oom", "limit": 3, **after}
        page = (await client.get("/executions", params=params)).json()
        seen += [item["id"] for item in page["executions"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == ["e-6", "e-4", "e-5", "e-2", "e-3", "e-0", "e-1"]
    of_user = (await client.get("/executions", params={"user_id": "u1"})).json()["executions"]
    assert [item["id"] for item in of_user] == ["e-5", "e-3", "e-1"]
    assert (await client.get("/executions", params={"runbook_id": "other"})).json()["executions"] == []


async def test_who_records_an_execution_is_who_did_it(client: httpx.AsyncClient) -> None:
    await client.put("/runbooks/redis-oom", json={"title": "T", "steps": ["Look."]})
    body = {"runbook_id": "redis-oom", "step": 1, "outcome": "skipped"}
    recorded = await client.post("/executions", json=body)
    assert recorded.status_code == 201
    assert (recorded.json()["user_id"], recorded.json()["outcome"]) == ("bootstrap", "skipped")
    assert recorded.json()["started_at"]
    forged = await client.post("/executions", json=body | {"user_id": "somebody-else"})
    assert (forged.status_code, forged.json()["field"]) == (422, "user_id")


async def test_feedback_is_kept_without_secrets_and_shown(client: httpx.AsyncClient) -> None:
    await client.put("/runbooks/redis-oom", json={"title": "T", "steps": ["Look."]})
    token = "ghp_" + "a1B2" * 9
    body = {"verdict": "outdated", "question": f"Why {token}?", "note": "Step 2", "runbook_id": "redis-oom"}
    given = await client.post("/feedback", json=body)
    assert given.status_code == 201
    await client.post("/feedback", json={"verdict": "helpful", "request_id": "nobody-knows-it"})
    listed = (await client.get("/feedback")).json()["feedback"]
    assert [item["verdict"] for item in listed] == ["helpful", "outdated"]
    assert token not in str(listed)
    (one,) = (await client.get("/feedback", params={"runbook_id": "redis-oom"})).json()["feedback"]
    assert (one["id"], one["user_id"]) == (given.json()["id"], "bootstrap")
    assert (await client.get("/feedback", params={"verdict": "wrong"})).json()["feedback"] == []


ONE = {"runbook_id": "redis-oom", "step": 1}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/feedback", {"verdict": "wrong"}, "runbook_id"),
        ("/feedback", {"verdict": "wrong", "note": "no"}, "runbook_id"),
        ("/feedback", {"verdict": "wrong", "question": ""}, "runbook_id"),
        ("/feedback", {"verdict": "wrong", "runbook_id": "nobody"}, "runbook_id"),
        ("/feedback", {"verdict": "wrong", **ONE, "step": 99}, "step"),
        ("/feedback", {"verdict": "wrong", **ONE, "revision": 7}, "revision"),
        ("/feedback", {"verdict": "wrong", **ONE, "step": 2, "revision": 1}, "step"),
        ("/feedback", {"verdict": "wrong", "request_id": "r", "step": 1}, "step"),
        ("/executions", {"outcome": "worked", **ONE, "revision": 7}, "revision"),
        ("/executions", {"outcome": "worked", **ONE, "step": 2, "revision": 1}, "step"),
        ("/executions", {"outcome": "worked", **ONE, "started_at": "2100-01-01T00:00:00Z"}, "started_at"),
        ("/executions", {"outcome": "worked", **ONE, "finished_at": "2100-01-01T00:00:00Z"}, "finished_at"),
        (
            "/executions",
            {"outcome": "worked", **ONE, "started_at": PAST["finished_at"], "finished_at": PAST["started_at"]},
            "finished_at",
        ),
    ],
)
async def test_what_cannot_be_is_refused_by_its_name(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], field: str
) -> None:
    await client.put("/runbooks/redis-oom", json={"title": "T", "steps": ["Look."]})
    await client.put("/runbooks/redis-oom", json={"title": "T", "steps": ["Look.", "Act."]})
    refused = await client.post(path, json=body)
    assert refused.status_code == 422, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["field"] == field
    if path == "/executions":
        put = await client.put("/executions/e-9", json={"started_at": PAST["started_at"], "user_id": "u", **body})
        assert (put.status_code, put.json().get("field")) == (422, field)


async def test_an_earlier_revision_and_a_deleted_runbook_can_be_reported_on(client: httpx.AsyncClient) -> None:
    await client.put("/runbooks/redis-oom", json={"title": "T", "steps": ["Look.", "Act."]})
    await client.put("/runbooks/redis-oom", json={"title": "T", "steps": ["Look."]})
    of_the_first = {"runbook_id": "redis-oom", "step": 2, "revision": 1}
    assert (await client.post("/feedback", json={"verdict": "wrong", **of_the_first})).status_code == 201
    finished = {"outcome": "worked", **of_the_first, "finished_at": PAST["finished_at"]}
    recorded = (await client.post("/executions", json=finished)).json()
    assert recorded["started_at"] == recorded["finished_at"]  # not now: it would start after its end
    await client.delete("/runbooks/redis-oom")
    assert (await client.post("/feedback", json={"verdict": "wrong", **of_the_first})).status_code == 201
