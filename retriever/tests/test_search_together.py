"""Many searches at once, on few connections, while documents change."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from retriever_corpus import BagEmbedder, Document, FrozenClock, event, write

from cairn_retriever.adapters.postgres_index import PostgresIndex
from cairn_retriever.adapters.sql import Sources, Statement
from cairn_retriever.metrics import Metrics
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.search import Searcher
from cairn_shared.api.search import SearchRequest
from cairn_shared.errors import CairnError
from cairn_shared.postgres import Pool, open_pool
from cairn_shared.settings import PostgresSettings

DOCUMENTS = [
    *(Document(f"book-{i}", f"Book {i}", [f"Drain node {i}."]) for i in range(20)),
    *(event(f"event-{i}", f"Node {i} was drained.") for i in range(20)),
]


def searcher_over(pool: Pool) -> Searcher:
    policy, metrics, clock = RetrievalPolicy(), Metrics(CollectorRegistry()), FrozenClock()
    return Searcher(PostgresIndex(pool, clock, policy, metrics, 0.0), BagEmbedder(), clock, metrics, policy)


async def test_few_connections_delay_searches_but_never_block_them(postgres_dsn: str) -> None:
    """Each would like a second connection; waiting for it while holding the first would end in nobody having two."""
    for most in (1, 2, 3):
        settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0, pg_pool_max=most)
        async with open_pool(settings, "test") as pool, asyncio.timeout(60):
            if most == 1:
                await write(pool, DOCUMENTS)
            searcher = searcher_over(pool)
            found = await asyncio.gather(*(searcher.search(SearchRequest(query=f"drain node {i}")) for i in range(20)))
            assert all({hit.kind for hit in one.results} == {"runbook", "alert"} for one in found)


async def test_one_connection_or_two_find_the_same(postgres_dsn: str) -> None:
    orders = []
    for most in (1, 4):
        settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0, pg_pool_max=most)
        async with open_pool(settings, "test") as pool:
            if most == 1:
                await write(pool, DOCUMENTS)
            answer = await searcher_over(pool).search(SearchRequest(query="drain node 7", k=30))
            orders.append([hit.step_id for hit in answer.results])
    assert orders[0] == orders[1]


async def test_both_halves_are_seen_at_one_moment(pool: Pool) -> None:
    """A runbook and an event that are always written together are found together or not at all."""
    searcher = searcher_over(pool)
    stop = asyncio.Event()

    async def flip() -> None:
        while not stop.is_set():
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("UPDATE steps SET body = 'a' || body")
            await asyncio.sleep(0)

    await write(pool, [Document("pair", "Pair", ["pair of things"]), event("pair", "pair of things")])
    flipping = asyncio.create_task(flip())
    try:
        for _ in range(40):
            answer = await searcher.search(SearchRequest(query="pair of things"))
            bodies = {hit.text for hit in answer.results}
            assert len(answer.results) == 2
            assert len(bodies) == 1
    finally:
        stop.set()
        await flipping


async def test_the_error_of_one_half_waits_for_the_other_and_is_the_one_told(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is given back amid a statement is closed, and tells of that instead of the error."""

    def worded(sources: Sources, *_: object) -> Statement:
        broken = "WHERE 1 / (c.ordinal - c.ordinal) = 1" if sources.half == "runbooks" else ", pg_sleep(0.5) LIMIT 1"
        return Statement(f"SELECT c.chunk_id FROM chunks c {broken}", [])

    settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0, pg_pool_max=2)
    async with open_pool(settings, "test") as pool:
        await write(pool, DOCUMENTS)
        searcher = searcher_over(pool)
        with monkeypatch.context() as patch:
            patch.setattr(Sources, "worded", worded)
            with pytest.raises(CairnError) as told:
                await searcher.search(SearchRequest(query="drain node 7"))
        assert "DivisionByZero" in str(told.value.__cause__ or told.value) + told.value.detail
        assert pool.get_idle_size() == 2
        assert (await searcher.search(SearchRequest(query="drain node 7"))).results
