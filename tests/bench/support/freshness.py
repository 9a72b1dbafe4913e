"""When events that were accepted can be found: as the ledger commits it, and as a search from outside sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import httpx

LOOK = 0.04
"""Seconds between looks: the figures are too high by half of it."""


@asynccontextmanager
async def watching(dsn: str) -> AsyncIterator[dict[str, float]]:
    """When (seconds since the epoch) each event was first seen committed as searchable; it fills by itself."""
    seen: dict[str, float] = {}
    task = asyncio.create_task(_watch(dsn, seen))
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(dsn: str, seen: dict[str, float]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        since = await connection.fetchval("SELECT now()")
        while True:
            # now() is when a transaction began, and it may commit later than another: the look goes back a little.
            rows = await connection.fetch(
                "SELECT event_id, settled_at FROM ingest_ledger WHERE state = 'searchable'"
                " AND settled_at >= $1::timestamptz - interval '5 s'",
                since,
            )
            now = time.time()
            for row in rows:
                seen.setdefault(str(row["event_id"]), now)
            since = max((row["settled_at"] for row in rows), default=since)
            await asyncio.sleep(LOOK)
    finally:
        await connection.close()


async def until_found(client: httpx.AsyncClient, marker: str, give_up: float = 15.0) -> float:
    """Seconds until a search for the word `marker` shows it, searching without pause; infinity if it never does."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < give_up:
        answer = await client.post("/search", json={"query": marker, "k": 3, "filters": {"kind": "event"}})
        if any(marker in f"{hit['title']} {hit['text']}" for hit in answer.raise_for_status().json()["results"]):
            return time.perf_counter() - begun
        await asyncio.sleep(LOOK)
    return float("inf")
