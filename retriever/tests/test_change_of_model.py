"""Searches while the embedding model is changed: the table in use and its embedder are followed, nothing is mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from retriever_corpus import FINGERPRINT, BagEmbedder, Document, FrozenClock, bag_of_words, write

from cairn_retriever.adapters.postgres_index import PostgresIndex
from cairn_retriever.adapters.query_embedder import QueryEmbedders
from cairn_retriever.app import create_app
from cairn_retriever.metrics import Metrics
from cairn_retriever.model import Vector
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.ports import QueryVectors
from cairn_retriever.search import Searcher
from cairn_retriever.settings import RetrieverSettings
from cairn_shared.api.search import SearchRequest, SearchResponse

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool

WIDE = "wide@1"


def wide(text: str) -> Vector:
    """Another model's vector: twice as long, its halves in the other order."""
    narrow = bag_of_words(text)
    return np.concatenate([np.zeros_like(narrow), narrow[::-1]])


class WideEmbedder(BagEmbedder):
    """An embedder with a model of 768 dimensions."""

    async def embed(self, text: str, extra: str | None, fingerprint: str | None = None) -> QueryVectors:
        vectors = await super().embed(text, extra, fingerprint)
        return QueryVectors(WIDE, wide(text), wide(extra) if extra and vectors.extra is not None else None)


async def build(pool: Pool) -> None:
    """A complete second space of 768 dimensions, not in use yet."""
    await pool.execute("SELECT open_embedding_space($1, 'wide', 768)", WIDE)
    for row in await pool.fetch("SELECT chunk_id, kind, occurred_at, embed_text FROM chunks"):
        await pool.execute(
            "INSERT INTO chunk_embeddings_768 (chunk_id, kind, occurred_at, fingerprint, embedding)"
            " VALUES ($1, $2, $3, $4, $5)",
            *list(row)[:3],
            WIDE,
            wide(row["embed_text"]),
        )


class Two:
    """A searcher that knows two embedders."""

    def __init__(self, pool: Pool) -> None:
        self.narrow, self.wide = BagEmbedder(), WideEmbedder()
        clock, metrics, policy = FrozenClock(), Metrics(CollectorRegistry()), RetrievalPolicy()
        index = PostgresIndex(pool, clock, policy, metrics, 0.0)
        self.searcher = Searcher(index, QueryEmbedders([self.narrow, self.wide]), clock, metrics, policy)

    async def search(self) -> SearchResponse:
        return await self.searcher.search(SearchRequest(query="drain the node", mode="semantic"))


@pytest.fixture
async def two(pool: Pool) -> Two:
    await write(pool, [Document("drain", "Drain a node", ["Cordon it."]), Document("bread", "Bake bread", ["Knead."])])
    await build(pool)
    return Two(pool)


async def test_the_switch_is_followed_within_the_search_that_meets_it(pool: Pool, two: Two) -> None:
    before = await two.search()
    assert (before.fingerprint, before.degraded) == (FINGERPRINT, [])
    await pool.execute("UPDATE corpus_state SET fingerprint = $1", WIDE)
    after = await two.search()
    assert (after.fingerprint, after.degraded) == (WIDE, [])
    assert after.results[0].runbook_id == before.results[0].runbook_id == "drain"
    assert after.results[0].features["cosine"] == pytest.approx(before.results[0].features["cosine"], abs=2e-3)
    asked = len(two.narrow.asked)
    await two.search()
    assert len(two.narrow.asked) == asked, "the embedder of the former model is not asked any more"


async def test_the_embedder_of_the_former_model_may_go_after_the_switch(pool: Pool, two: Two) -> None:
    await pool.execute("UPDATE corpus_state SET fingerprint = $1", WIDE)
    two.narrow.away = True
    assert (await two.search()).degraded == []


async def test_without_an_embedder_of_the_model_in_use_words_are_searched_and_it_is_said(pool: Pool, two: Two) -> None:
    await pool.execute("UPDATE corpus_state SET fingerprint = $1", WIDE)
    two.wide.away = True
    found = await two.search()
    assert found.degraded == ["embedding model"]
    assert found.results[0].runbook_id == "drain"
    assert found.results[0].features["cosine"] is None


async def test_the_state_of_every_model_is_reported(pool: Pool, two: Two, postgres_dsn: str) -> None:
    await pool.execute(
        "DELETE FROM chunk_embeddings_768 WHERE chunk_id = (SELECT min(chunk_id::text)::uuid FROM chunks)"
    )
    settings = RetrieverSettings(pg_dsn=SecretStr(postgres_dsn), embedder_url="http://127.0.0.1:9", port=0)
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://retriever") as client,
    ):
        status = (await client.get("/index/status")).json()
        spaces = {one["fingerprint"]: one for one in status["details"]["embedding_spaces"]}
        assert (spaces[FINGERPRINT]["state"], spaces[FINGERPRINT]["chunks"]) == ("active", 2)
        assert (spaces[WIDE]["state"], spaces[WIDE]["chunks"], spaces[WIDE]["dimension"]) == ("building", 1, 768)
        page = (await client.get("/index/documents")).json()
        assert [one["broken_vectors"] for one in page["documents"]] == [0, 0]
        await pool.execute("UPDATE corpus_state SET fingerprint = $1", WIDE)
        page = (await client.get("/index/documents")).json()
        assert sorted(one["broken_vectors"] for one in page["documents"]) == [0, 1]
