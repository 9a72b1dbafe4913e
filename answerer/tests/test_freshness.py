"""The receipt, and reading what was just written."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import asyncpg
import pytest
from answerer_bench import Bench
from answerer_servers import post, serving

from cairn_answerer.app import create_app
from cairn_answerer.freshness import pending
from cairn_answerer.settings import AnswererSettings
from cairn_shared.api.ask import AskRequest

Settings = Callable[..., AnswererSettings]


def test_only_what_is_behind_is_pending() -> None:
    late = pending({"a": 3, "b": 2, "c": 1}, {"a": 2, "b": 2})
    assert [(item.runbook_id, item.indexed_revision, item.latest_revision) for item in late] == [
        ("a", 2, 3),
        ("c", 0, 1),
    ]


async def test_it_waits_until_the_revision_is_searchable(bench: Bench) -> None:
    answerer = await bench.answerer(wait=2.0)
    task = asyncio.create_task(answerer.ask(AskRequest(question="q", min_revision={"pg-replica": 4})))
    await asyncio.sleep(0.15)
    assert not task.done()
    bench.corpus.known["pg-replica"] = 4
    response = await task
    assert (response.mode, response.freshness.pending) == ("full", [])


async def test_after_the_wait_the_answer_says_what_is_behind(bench: Bench) -> None:
    answerer = await bench.answerer(wait=0.1)
    response = await answerer.ask(AskRequest(question="q", min_revision={"pg-replica": 9}))
    assert response.degraded_reason == "index_behind"
    assert [(item.indexed_revision, item.latest_revision) for item in response.freshness.pending] == [(3, 9)]


async def test_it_waits_for_events(bench: Bench) -> None:
    event = uuid.uuid4()
    answerer = await bench.answerer(wait=2.0)
    task = asyncio.create_task(answerer.ask(AskRequest(question="q", wait_for=[str(event)])))
    await asyncio.sleep(0.15)
    assert not task.done()
    bench.corpus.ended.add(event)
    assert (await task).degraded is False


@pytest.mark.parametrize("settled", [True, False])
async def test_the_receipt_comes_from_the_ledger(
    make_settings: Settings, index: asyncpg.Connection[asyncpg.Record], settled: bool
) -> None:
    event = uuid.uuid4()
    if settled:
        await index.execute(
            'INSERT INTO ingest_ledger (event_id, state, topic, partition, "offset", accepted_at, settled_at) '
            "VALUES ($1, 'searchable', 't', 0, 0, '2026-11-30T10:00:00Z', '2026-11-30T10:00:00.750Z')",
            event,
        )
    async with serving(create_app(make_settings(ask_wait=0.2))) as url:
        answer = await post(url, wait_for=[str(event)], min_revision={"pg-replica": 3})
    if settled:
        assert answer["freshness"]["lag_seconds"] == 0.75
        assert answer["freshness"]["index_time"] == "2026-11-30T10:00:00.750000Z"
        assert answer["degraded"] is False
    else:
        assert answer["degraded_reason"] == "index_behind"
