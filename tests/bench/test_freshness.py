"""How soon what was accepted can be found, on the one-machine stack. `make bench` prints the table.

Only wrong answers fail these tests, as in `test_stack_speed.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import psutil
import pytest
from bench_report import Report
from freshness import until_found, watching
from mixed_webhooks import Webhook, mixed
from open_load import Plan, Result
from stack_load import JSON, measure, plan
from whole_stack import Stack, until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0), pytest.mark.usefixtures("reference")]

RATE = 20.0
SECONDS = float(os.environ.get("BENCH_FRESHNESS_SECONDS", "60"))
SPOT_EVERY = 3.0
"""Seconds between webhooks that are also searched for until they are found."""


def sending(stack: Stack, webhooks: Sequence[Webhook], **changes: Any) -> Plan:
    """The load that `webhooks` are, at `RATE`."""
    return replace(
        plan(stack, "", [], rate=RATE, seconds=len(webhooks) / RATE),
        bodies=[one.body for one in webhooks],
        each=[one.headers for one in webhooks],
        paths=[one.path for one in webhooks],
        headers=JSON,
        **changes,
    )


def secrets(stack: Stack) -> dict[str, str]:
    """The settings that the stack made for itself."""
    return dict(line.split("=", 1) for line in (stack.home / "env").read_text().splitlines() if "=" in line)


async def test_webhook_to_searchable(stack: Stack, report: Report) -> None:
    """Open loop; every single event is waited for."""
    webhooks = mixed(int(RATE * SECONDS), secrets(stack))
    dsn = psutil.Process(stack.state()["answerer"]["pid"]).environ()["PG_DSN"]
    async with watching(dsn) as seen:
        what = f"signed webhook until 202, six sources, {RATE:g}/s for {SECONDS:g} s"
        result = await asyncio.to_thread(measure, report, what, sending(stack, webhooks, keep=True), status="202")
        accepted = {event: at for at, body in result.answers for event in json.loads(body)["event_ids"]}
        assert len(result.answers) == len(webhooks)
        async with asyncio.timeout(120):  # a backlog is a figure, not a failure
            while not accepted.keys() <= seen.keys():
                await asyncio.sleep(0.1)
    lags = [max(0.0, seen[event] - at) for event, at in accepted.items()]
    report.add_load(f"webhook accepted until searchable, {RATE:g}/s", Result(lags, {}, {}, 0.0, []), p95_ms=1000)


async def test_webhook_until_a_search_finds_it(stack: Stack, report: Report) -> None:
    """From outside, beside the same load: some are searched for by their own word until the search shows them."""
    load = sending(stack, mixed(int(RATE * SECONDS / 2), secrets(stack), seed=8))
    probes = mixed(int(SECONDS / 2 / SPOT_EVERY), secrets(stack), seed=9)
    carrying = asyncio.create_task(asyncio.to_thread(measure, report, "the load beside it", load, status="202"))
    lags = []
    key = stack.http.headers["authorization"]
    async with httpx.AsyncClient(base_url=stack.http.base_url, trust_env=False, timeout=20) as client:
        for probe in probes:
            await asyncio.sleep(SPOT_EVERY)
            answer = await client.post(probe.path, content=probe.body, headers={**JSON, **probe.headers})
            assert answer.status_code == 202, answer.text
            client.headers["authorization"] = key
            lags.append(await until_found(client, probe.marker))
            del client.headers["authorization"]
    await carrying
    assert max(lags) < float("inf"), "a webhook was never found"
    report.add_load("webhook accepted until a search finds it", Result(lags, {}, {}, 0.0, []), p95_ms=1000)


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
