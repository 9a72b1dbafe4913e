"""A zombie by design, not by luck: a writer that was overtaken between its reading and its writing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from index_state import Index, actual, expected
from ingest_fakes import deleted, runbook, source_event, upserted
from pydantic import SecretStr

from cairn_shared.events import Event
from cairn_shared.postgres import open_pool
from cairn_shared.settings import PostgresSettings

OVERTAKEN = {
    "edit": (upserted(runbook("r", "old one", "old two"), 2), upserted(runbook("r", "new"), 3)),
    "delete": (upserted(runbook("r", "old"), 2), deleted("r", 3)),
    "part": (source_event("OPS-1", 2, body="old"), source_event("OPS-1", 3, body="new")),
    "equal versions": tuple(
        sorted((upserted(runbook("r", salt), 2, source_id=f"r@2{salt}") for salt in "ab"), key=lambda one: one.event_id)
    ),
}


@pytest.mark.parametrize("kind", OVERTAKEN)
async def test_a_writer_that_was_overtaken_while_it_embedded_undoes_nothing(postgres_dsn: str, kind: str) -> None:
    late: Event
    newer: Event
    late, newer = OVERTAKEN[kind]
    settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0)
    async with open_pool(settings, "test") as pool:
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
