"""Events among runbooks: filters, the HNSW index, copies, age (pitfalls 4 to 10, 15, 30)."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from retriever_corpus import NOW, BagEmbedder, Document, FrozenClock, bag_of_words, event, write

from cairn_retriever.adapters.postgres_index import PostgresIndex
from cairn_retriever.adapters.read_transaction import ScanSettings
from cairn_retriever.adapters.scope import Scope
from cairn_retriever.adapters.sql import Sources
from cairn_retriever.metrics import Metrics
from cairn_retriever.policy import CandidatePolicy, RetrievalPolicy
from cairn_retriever.search import Searcher
from cairn_shared.api.search import SearchFilters, SearchRequest

if TYPE_CHECKING:
    from retriever_corpus import Search

    from cairn_retriever.model import Vector
    from cairn_shared.postgres import Pool


def crowd(count: int, *, kind: str = "alert", seed: int = 1, **fields: object) -> list[Document]:
    """Events with words of their own."""
    chance = random.Random(seed)
    words = [f"word{i}" for i in range(300)]
    return [
        event(
            f"{kind}-{seed}-{i}",
            " ".join(chance.sample(words, 12)) + f" number {i}",
            kind=kind,
            age_days=i % 50,
            **fields,
        )
        for i in range(count)
    ]


def scattered(count: int, seed: int = 1) -> list[Vector]:
    rows = np.random.default_rng(seed).standard_normal((count, 384)).astype(np.float32)
    return list(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def clustered(count: int, seed: int = 1) -> list[Vector]:
    """As texts are: about topics. Directions drawn evenly have no near and far to find."""
    centres = np.array(scattered(40, seed=0))
    rows = centres[np.random.default_rng(seed).integers(40, size=count)] + 0.7 * np.array(scattered(count, seed=seed))
    return list((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


async def test_words_and_meaning_are_on_one_scale(pool: Pool, search: Search) -> None:
    """Pitfall 4: raw ts_rank added to a cosine would have no voice."""
    await write(
        pool,
        [
            Document("by-words", "Notes", ["The quorum is lost."], vector=bag_of_words("unrelated things entirely")),
            Document("by-meaning", "Other", ["Nothing."], vector=bag_of_words("how do we regain quorum")),
            *(Document(f"other-{i}", f"Topic {i}", [f"About matter {i}."]) for i in range(20)),
        ],
    )
    found = await search("how do we regain quorum")
    assert {hit.runbook_id for hit in found.results[:3]} >= {"by-words", "by-meaning"}
    assert all(0.0 <= hit.score <= 1.0 for hit in found.results)


async def test_a_lone_weak_candidate_is_not_taken_for_a_good_one(pool: Pool, search: Search) -> None:
    """Pitfall 5: absolute features stay low, and the gate refuses."""
    await write(pool, [Document("lone", "Bread", ["Knead the dough for ten minutes."])])
    found = await search("kafka broker under-replicated partitions")
    assert found.results
    assert found.results[0].features["cosine"] < 0.3
    assert found.results[0].features["coverage"] == 0.0
    assert not found.gate.enough


class TestLimitsAndFilters:
    """Pitfall 6."""

    async def test_more_results_than_the_index_scan_usually_gives(self, pool: Pool, search: Search) -> None:
        await write(pool, crowd(1000))
        assert len((await search("word1 word2", k=60, filters={"kind": "event"})).results) == 60
        assert len((await search("word1 word2", k=100)).results) == 100

    @pytest.mark.parametrize("mode", ["hybrid", "semantic"])
    async def test_a_filter_that_leaves_one_percent_gives_all_of_k(self, pool: Pool, search: Search, mode: str) -> None:
        await write(pool, [*crowd(1000), *crowd(12, seed=2, service="rare"), *crowd(40, seed=3, kind="ticket")])
        rare = await search("word1 word2", k=10, mode=mode, filters={"service": "rare"})
        assert len(rare.results) == 10
        assert {hit.service for hit in rare.results} == {"rare"}
        tickets = await search("word1 word2", k=30, mode=mode, filters={"kind": "ticket"})
        assert len(tickets.results) == 30
        assert {hit.kind for hit in tickets.results} == {"ticket"}

    async def test_a_filter_too_wide_to_compare_all_gives_all_of_k(
        self, pool: Pool, embedder: BagEmbedder, clock: FrozenClock
    ) -> None:
        """Beyond `exact_rows` the index goes on until enough rows pass."""
        policy = RetrievalPolicy(candidates=CandidatePolicy(exact_rows=50))
        metrics = Metrics(CollectorRegistry())
        searcher = Searcher(PostgresIndex(pool, clock, policy, metrics, 0.0), embedder, clock, metrics, policy)
        await write(pool, [*crowd(60, service="wide"), *crowd(900, seed=2)])
        filters = SearchFilters(service="wide")
        found = await searcher.search(SearchRequest(query="word1 word2", k=20, mode="semantic", filters=filters))
        assert len(found.results) == 20
        assert {hit.service for hit in found.results} == {"wide"}

    async def test_every_filter_holds(self, pool: Pool, search: Search) -> None:
        await write(
            pool, [*crowd(60), Document("book", "word1", ["word1 word2"], occurred_at=NOW - timedelta(days=40))]
        )
        since, until = NOW - timedelta(days=20), NOW - timedelta(days=5)
        found = await search("word1 word2", k=50, filters={"since": since, "until": until})
        assert len(found.results) > 10
        assert all(hit.occurred_at and since <= hit.occurred_at <= until for hit in found.results)
        assert not (await search("word1", filters={"source": "nowhere"})).results
        assert {hit.kind for hit in (await search("word1", filters={"kind": "runbook"})).results} == {"runbook"}

    async def test_settings_of_a_search_do_not_leak_into_the_pool(self, pool: Pool, search: Search) -> None:
        """Pitfall 30: SET without a transaction would stay with the connection."""
        await write(pool, crowd(5))
        await search("word1", k=100)
        async with pool.acquire() as connection:
            assert await connection.fetchval("SHOW hnsw.ef_search") == "40"
            assert await connection.fetchval("SHOW hnsw.iterative_scan") == "off"


class TestIndexScan:
    async def plan(self, pool: Pool, filters: SearchFilters) -> str:
        sources = Sources("events", Scope(filters), RetrievalPolicy(), NOW, 50, "chunk_embeddings_384")
        statement = sources.indexed(scattered(1, seed=9)[0])
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL hnsw.iterative_scan = relaxed_order")
            rows = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING OFF) {statement.text}", *statement.args)
        return "\n".join(row[0] for row in rows)

    async def test_the_event_source_uses_the_hnsw_index(self, pool: Pool) -> None:
        """Pitfall 8: ordering by a blended score would read the whole table."""
        await write(pool, [event(f"e{i}", f"text {i}", vector=v) for i, v in enumerate(scattered(800))])
        assert "Index Scan using chunk_embeddings_384_hnsw" in await self.plan(pool, SearchFilters())

    async def test_no_distance_is_compared_inside_the_scan(self, pool: Pool) -> None:
        """Pitfall 7: a threshold inside would make the scan walk to its limit when nothing is near enough."""
        await write(pool, [event(f"e{i}", f"text {i}", vector=v) for i, v in enumerate(scattered(800))])
        plan = await self.plan(pool, SearchFilters())
        assert "Filter" not in plan
        assert "rows=50" in plan

    async def test_recall_holds_after_a_third_was_updated(self, pool: Pool) -> None:
        """Pitfall 9."""
        await write(pool, [event(f"e{i}", f"text {i}", vector=v) for i, v in enumerate(clustered(1500, seed=1))])
        async with pool.acquire() as connection:
            ids = [row[0] for row in await connection.fetch("SELECT chunk_id FROM chunks ORDER BY chunk_id LIMIT 500")]
            changed = list(zip(ids, clustered(500, seed=2), strict=True))
            await connection.executemany("UPDATE chunk_embeddings_384 SET embedding = $2 WHERE chunk_id = $1", changed)
            shares = [await self.recall(connection, query) for query in clustered(100, seed=3)]
        assert sum(shares) / len(shares) >= 0.95

    async def recall(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], query: Vector) -> float:
        policy = RetrievalPolicy()
        sources = Sources("events", Scope(SearchFilters()), policy, NOW, 20, "chunk_embeddings_384")
        settings = ScanSettings(policy.candidates.ef_search, policy.candidates.max_scan_tuples)
        async with connection.transaction():
            await connection.execute(f"{settings.statements()}; SET LOCAL enable_seqscan = off")
            indexed, exact = sources.indexed(query), sources.exact(query)
            found = {row[0] for row in await connection.fetch(indexed.text, *indexed.args)}
            nearest = {row[0] for row in await connection.fetch(exact.text, *exact.args)}
        return len(found & nearest) / 20


class TestCopies:
    """Pitfall 10."""

    async def test_thousands_of_equal_alerts_are_one_row_and_hide_nothing(self, pool: Pool, search: Search) -> None:
        flood = [event(f"flood-{i}", "Pod web is crash looping again", age_days=0.1) for i in range(5000)]
        for document in flood:
            object.__setattr__(document, "title", "Crash loop")
        gold = event("gold", "Pod web is crash looping since the deploy of build 77", age_days=2)
        await write(pool, [*flood, gold])
        found = await search("why is pod web crash looping", k=5)
        assert [hit.count for hit in found.results if hit.title == "Crash loop"] == [5000]
        assert "gold" in [hit.runbook_id for hit in found.results]

    async def test_occurrences_told_by_one_event_are_counted(self, pool: Pool, search: Search) -> None:
        await write(pool, [event("one", "Disk is slow", count=17), event("two", "Disk is slow", count=3)])
        found = await search("disk is slow")
        assert [hit.count for hit in found.results] == [20]


class TestAge:
    """Pitfall 15."""

    async def test_a_recent_event_outside_the_nearest_is_found(self, pool: Pool, search: Search) -> None:
        query = "replication is broken on db seven"
        near = bag_of_words(query)
        noise = scattered(1, seed=5)[0]

        def mixed(share: float, salt: int) -> Vector:
            own = scattered(1, seed=100 + salt)[0]
            total = share * near + (1 - share) * (0.8 * noise + 0.2 * own)
            unit: Vector = (total / np.linalg.norm(total)).astype(np.float32)
            return unit

        old = [event(f"old-{i}", f"x{i}", age_days=300, vector=mixed(0.6, i)) for i in range(120)]
        fresh = event("fresh", "y", age_days=0.1, vector=mixed(0.5, 999))
        await write(pool, [*old, fresh])
        found = await search(query, k=5, filters={"kind": "event"})
        assert found.results[0].runbook_id == "fresh"

    async def test_old_ticket_by_its_key(self, pool: Pool, search: Search) -> None:
        await write(pool, [event("PROJ-7", "Replica rebuilt by hand.", kind="ticket", age_days=700), *crowd(200)])
        found = await search("what happened in PROJ-7", k=5)
        assert found.results[0].runbook_id == "PROJ-7"

    async def test_results_depend_on_the_clock_that_is_passed_in(
        self, pool: Pool, searcher: Searcher, search: Search, clock: FrozenClock
    ) -> None:
        await write(pool, [event("one", "Disk is slow")])
        fresh = (await search("disk is slow")).results[0].features["age_days"]
        clock.time = NOW + timedelta(days=30)
        assert (await search("disk is slow")).results[0].features["age_days"] == pytest.approx(fresh + 30)


class TestFingerprints:
    """Pitfall 11: vectors of two models are never compared."""

    async def test_another_model_falls_back_to_words(self, pool: Pool, search: Search) -> None:
        await write(pool, [Document("one", "Drain a node", ["Cordon it."])], fingerprint="older-model")
        found = await search("drain a node")
        assert found.degraded == ["embedding model"]
        assert found.results[0].runbook_id == "one"
        assert found.gate.best_cosine is None

    async def test_only_the_vectors_of_the_model_in_use_are_looked_at(self, pool: Pool, search: Search) -> None:
        await write(pool, [Document("one", "Drain a node", ["Cordon it."])])
        assert (await search("drain a node")).results[0].features["cosine"] > 0.5
        await pool.execute("SELECT open_embedding_space('older-model', 'older', 384)")
        table = await pool.fetchval("SELECT table_name FROM embedding_spaces WHERE fingerprint = 'older-model'")
        await pool.execute(
            f"INSERT INTO {table} SELECT chunk_id, kind, occurred_at, 'older-model', embedding FROM chunk_embeddings_384"
        )
        await pool.execute("DELETE FROM chunk_embeddings_384")
        [hit] = (await search("drain a node")).results
        assert hit.features["cosine"] is None
