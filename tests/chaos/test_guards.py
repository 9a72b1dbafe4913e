"""Races by design, not by luck: each makes the two writers meet where a guard is needed, on any machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from index_state import Index, actual, expected
from ingest_fakes import deleted, runbook, source_event, upserted
from pydantic import SecretStr

from cairn_ingest_consumer.adapters import document_store
from cairn_shared.events import Event
from cairn_shared.postgres import Pool, open_pool
from cairn_shared.settings import PostgresSettings

OVERTAKEN = {
    "edit": (upserted(runbook("r", "old one", "old two"), 2), upserted(runbook("r", "new"), 3)),
    "delete": (upserted(runbook("r", "old"), 2), deleted("r", 3)),
    "part": (source_event("OPS-1", 2, body="old"), source_event("OPS-1", 3, body="new")),
    "equal versions": tuple(
        sorted((upserted(runbook("r", salt), 2, source_id=f"r@2{salt}") for salt in "ab"), key=lambda one: one.event_id)
    ),
}


@pytest.fixture
async def pool(postgres_dsn: str) -> AsyncIterator[Pool]:
    settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0)
    async with open_pool(settings, "test") as opened:
        yield opened


@pytest.mark.parametrize("kind", OVERTAKEN)
async def test_a_writer_that_was_overtaken_while_it_embedded_undoes_nothing(pool: Pool, kind: str) -> None:
    """What a zombie does when it comes back. Fails without the version check."""
    late: Event
    newer: Event
    late, newer = OVERTAKEN[kind]
    zombie, other = Index(pool), Index(pool)
    embedding, go_on = asyncio.Event(), asyncio.Event()

    async def suspended(_: Sequence[str]) -> None:
        embedding.set()
        await go_on.wait()

    zombie.embedder.before = suspended
    writing = asyncio.create_task(zombie.apply(late))
    await asyncio.wait_for(embedding.wait(), 10)
    await other.apply(newer)
    go_on.set()
    await writing
    assert await actual(pool) == expected([late, newer])
    assert await other.states([late, newer]) == ["superseded", "searchable"]


PART = source_event("OPS-1", 2, part="c1", kind="comment", body="late")
END = source_event("OPS-1", 3, deleted=True)
SAME = [upserted(runbook("r", body), version) for version, body in ((1, "same"), (2, "other"), (3, "same"))]
RACES = {
    "a part, then the end of its document": (source_event("OPS-1", 1), PART, END),
    "the end of a document, then a part": (source_event("OPS-1", 1), END, PART),
    "known content after content that is being changed": tuple(SAME),
}


@pytest.mark.parametrize("race", RACES)
async def test_a_writer_waits_for_the_one_that_has_the_document(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, race: str
) -> None:
    """The first has won and not yet changed the document when the second comes. Fails without the document's lock."""
    before, first, second = RACES[race]
    index = Index(pool)
    await index.apply(before)
    entered, release = asyncio.Event(), asyncio.Event()
    claim = document_store._Write._claim

    async def claim_and_dawdle(write: Any, known: Any) -> Any:
        won = await claim(write, known)
        if not entered.is_set():
            entered.set()
            await release.wait()
        return won

    monkeypatch.setattr(document_store._Write, "_claim", claim_and_dawdle)
    one = asyncio.create_task(index.apply(first))
    await asyncio.wait_for(entered.wait(), 10)
    two = asyncio.create_task(index.apply(second))
    async with asyncio.timeout(10):
        while not two.done() and not await pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ):
            await asyncio.sleep(0.02)
    release.set()
    await asyncio.gather(one, two)
    assert await actual(pool) == expected([before, first, second])


async def test_two_batches_with_the_same_new_documents_in_opposite_orders_do_not_wait_in_a_circle(pool: Pool) -> None:
    """Each row takes its time, so that both batches are half way when they meet. Fails without sorted locks."""
    await pool.execute("""
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END';
        CREATE TRIGGER dawdle AFTER INSERT ON documents FOR EACH ROW EXECUTE FUNCTION dawdle();
        CREATE TRIGGER dawdle_too BEFORE INSERT ON documents FOR EACH ROW EXECUTE FUNCTION dawdle();""")
    names = [f"r{number}" for number in range(6)]
    batches = [
        [upserted(runbook(name, f"{version}"), version) for name in names[::way]] for version, way in ((1, 1), (2, -1))
    ]
    await asyncio.gather(*(Index(pool).apply(*batch) for batch in batches))
    assert await actual(pool) == expected([event for batch in batches for event in batch])
