from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

sys.path.insert(0, str(Path(__file__).parent / "support"))

if TYPE_CHECKING:
    from retriever_corpus import BagEmbedder, FrozenClock, Search

    from cairn_retriever.search import Searcher
    from cairn_shared.api.search import SearchResponse
    from cairn_shared.postgres import Pool


@pytest.fixture
async def pool(postgres_dsn: str) -> AsyncIterator[Pool]:
    from cairn_shared.postgres import open_pool
    from cairn_shared.settings import PostgresSettings

    settings = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0, pg_command_timeout=60)
    async with open_pool(settings, "test") as opened:
        yield opened


@pytest.fixture
def clock() -> FrozenClock:
    from retriever_corpus import FrozenClock

    return FrozenClock()


@pytest.fixture
def embedder() -> BagEmbedder:
    from retriever_corpus import BagEmbedder

    return BagEmbedder()


@pytest.fixture
def searcher(pool: Pool, embedder: BagEmbedder, clock: FrozenClock) -> Searcher:
    from cairn_retriever.adapters.postgres_index import PostgresIndex
    from cairn_retriever.metrics import Metrics
    from cairn_retriever.policy import RetrievalPolicy
    from cairn_retriever.search import Searcher

    policy, metrics = RetrievalPolicy(), Metrics(CollectorRegistry())
    return Searcher(PostgresIndex(pool, clock, policy, metrics, 0.0), embedder, clock, metrics, policy)


@pytest.fixture
def search(searcher: Searcher) -> Search:
    from cairn_shared.api.search import SearchFilters, SearchRequest

    async def run(query: str, **fields: Any) -> SearchResponse:
        if "filters" in fields:
            fields["filters"] = SearchFilters(**fields["filters"])
        return await searcher.search(SearchRequest(query=query, **fields))

    return run
