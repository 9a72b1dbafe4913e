"""How fast the one-machine stack answers and takes events in, measured from outside. `make bench` prints the table.

Only wrong answers fail these tests; whether a target is met is for the reader of the table, who knows what else the
machine was doing (its load average is in the last column).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import httpx
import psutil
import pytest
from bench_report import Report
from open_load import Plan, Result, run
from whole_stack import ROOT, Stack, until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]

WORDS = ["pump", "valve", "crane", "lamp", "ferry", "tide", "gauge", "alarm", "stuck", "slow", "leak", "hot", "cold"]
JSON = {"content-type": "application/json"}


def questions(stack: Stack, count: int, seed: int) -> list[str]:
    """Questions that nobody asked: the words of a runbook's title in another order each time."""
    titles = [book["title"] for book in stack.http.get("/runbooks", params={"limit": 100}).json()["runbooks"]]
    shuffle = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        words = shuffle.choice(titles).split()
        made[" ".join(shuffle.sample(words, len(words)))] = None
    return list(made)


def plan(stack: Stack, path: str, bodies: Sequence[object], *, rate: float, seconds: float) -> Plan:
    """JSON bodies to a path of the gateway, with the admin's key."""
    url = f"{stack.http.base_url}".rstrip("/") + path
    headers = JSON | {"authorization": stack.http.headers["authorization"]}
    return Plan(url, [json.dumps(body) for body in bodies], rate, seconds, headers=headers)


def measure(report: Report, what: str, load: Plan, note: str = "", status: str = "200", **targets: float) -> Result:
    """Carry out and report; what was not answered with `status` is in the table too, and fails the test."""
    result = run(load)
    refused = {**result.errors, **{code: count for code, count in result.statuses.items() if code != status}}
    trouble = ", ".join(f"{count} x {name}" for name, count in refused.items())
    report.add_load(what, result, ", ".join(text for text in (note, trouble) if text), **targets)
    assert not refused, trouble
    return result


@pytest.fixture(scope="module", autouse=True)
def _reference(stack: Stack, report: Report) -> None:
    health = replace(plan(stack, "/health", [], rate=200, seconds=5), method="GET")
    report.reference = measure(report, "GET /health of the gateway, 200/s", health, "the reference").quantile(0.5)


def test_cached_answers(stack: Stack, report: Report) -> None:
    known = questions(stack, 20, seed=1)
    kept = [question for question in known if _is_kept(stack, question)]
    assert len(kept) > 10
    asked = plan(stack, "/ask", [{"question": question} for question in kept], rate=200, seconds=15)
    measure(report, "POST /ask, cached, through the gateway, 200/s", asked, p50_ms=5, p99_ms=20)


def _is_kept(stack: Stack, question: str) -> bool:
    stack.ask(question)
    return bool(stack.ask(question)["mode"] == "cached")


def test_search(stack: Stack, report: Report) -> None:
    searches = plan(
        stack, "/search", [{"query": query} for query in questions(stack, 200, seed=2)], rate=20, seconds=10
    )
    measure(report, "POST /search on the demo runbooks, all new, 20/s", searches)


def test_excerpts_when_the_model_is_dead(stack: Stack, report: Report) -> None:
    stack.model.stop()
    try:
        for question in questions(stack, 8, seed=3):
            stack.ask(question)
        assert stack.ask(questions(stack, 1, seed=4)[0])["degraded_reason"] == "circuit_open"
        asked = [{"question": question} for question in questions(stack, 200, seed=5)]
        load = plan(stack, "/ask", asked, rate=20, seconds=10)
        measure(report, "POST /ask, excerpts without an LLM, all new, 20/s", load, p95_ms=60)
    finally:
        stack.model.start()


async def test_webhook_to_searchable(stack: Stack, report: Report) -> None:
    rate, seconds = 20.0, 15.0
    secret = (stack.home / "env").read_text().split("GITHUB_WEBHOOK_SECRET=")[1].split("\n")[0]
    bodies = [_issue(number) for number in range(int(rate * seconds))]
    each = [_signed(body, secret) for body in bodies]
    load = replace(plan(stack, "/webhooks/github", [], rate=rate, seconds=seconds), bodies=bodies, each=each, keep=True)
    seen: dict[str, float] = {}
    watching = asyncio.create_task(_watch(stack, seen))
    try:
        result = await asyncio.to_thread(measure, report, "signed webhook until 202, 20/s", load, status="202")
        accepted = {event: at for at, body in result.answers for event in json.loads(body)["event_ids"]}
        async with asyncio.timeout(60):
            while not accepted.keys() <= seen.keys():
                await asyncio.sleep(0.1)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    lags = [max(0.0, seen[event] - at) for event, at in accepted.items()]
    report.add_load("webhook accepted until searchable, 20/s", Result(lags, {}, {}, 0.0, []), p95_ms=1000)


async def _watch(stack: Stack, seen: dict[str, float]) -> None:
    """When each event was first seen committed; the looks are 20 ms apart."""
    dsn = psutil.Process(stack.state()["answerer"]["pid"]).environ()["PG_DSN"]
    connection = await asyncpg.connect(dsn)
    try:
        begun = await connection.fetchval("SELECT now()")
        while True:
            rows = await connection.fetch(
                "SELECT event_id FROM ingest_ledger WHERE state = 'searchable' AND settled_at >= $1", begun
            )
            now = time.time()
            for row in rows:
                seen.setdefault(str(row["event_id"]), now)
            await asyncio.sleep(0.02)
    finally:
        await connection.close()


def _issue(number: int) -> str:
    """GitHub's `issues` event, opened: a text of its own, the length of a usual one."""
    words = random.Random(number)
    body = " ".join(words.choices(WORDS, k=60))
    at = datetime.now(UTC).isoformat()
    issue = {"number": number + 1, "title": f"Berth {number} reports {body[:40]}", "body": body, "state": "open", "created_at": at, "updated_at": at}  # fmt: skip
    return json.dumps({"action": "opened", "issue": issue, "repository": {"full_name": "harbour/bench"}})


def _signed(body: str, secret: str) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return {
        "x-github-event": "issues",
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": f"sha256={digest}",
    }


def test_edit_to_searchable(stack: Stack, report: Report) -> None:
    """From the answer to a PUT until a search shows the edit, as a user sees it: by searching until it is there."""
    lags = []
    for number in range(20):
        word = f"gatehouse{number:02}x"
        stack.put("bench-edit", f"# Lock gate does not close\n\n1. Run `gatectl close --mark {word}`.\n2. Wait.\n")
        begun = time.monotonic()
        until(lambda word=word: any(word in hit["text"] for hit in stack.search(word)), "the edit to be found")  # type: ignore[misc]
        lags.append(time.monotonic() - begun)
    report.add_load("runbook PUT until a search shows it, one at a time", Result(lags, {}, {}, 0.0, []), p95_ms=1000)


def test_embedding(stack: Stack, report: Report) -> None:
    address = stack.state()["embedder"]["address"]
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        singles = []
        for question in questions(stack, 60, seed=6):
            begun = time.monotonic()
            assert client.post("/embed", json={"texts": [question], "kind": "query"}).status_code == 200
            singles.append(time.monotonic() - begun)
        texts = [text for path in sorted((ROOT / "data/runbooks").rglob("*.md")) for text in path.read_text().split("\n\n") if len(text) > 200][:96]  # fmt: skip
        nonce = uuid.uuid4().hex[:8]  # else Redis knows them
        begun = time.monotonic()
        for start in range(0, len(texts), 32):
            batch = [f"{nonce} {text[:700]}" for text in texts[start : start + 32]]
            answer = client.post("/embed", json={"texts": batch, "kind": "passage", "truncate": True})
            assert answer.status_code == 200
        spent = time.monotonic() - begun
    report.add_load("embedder, one new query, one at a time", Result(singles, {}, {}, 0.0, []))
    report.add("embedder, passages in batches of 32", {"chunks_per_second": len(texts) / spent})
