"""Composition root: the one place that picks adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from cairn_retriever.adapters.http_reranker import HttpReranker
from cairn_retriever.adapters.postgres_index import PostgresIndex
from cairn_retriever.adapters.postgres_reports import PostgresReports
from cairn_retriever.adapters.query_embedder import CachedQueryEmbedder, QueryEmbedders
from cairn_retriever.adapters.read_transaction import leave_clean
from cairn_retriever.dependencies import State
from cairn_retriever.metrics import Metrics
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.reranking import Reranked, RerankPolicy, Searches
from cairn_retriever.routes import router
from cairn_retriever.search import Searcher
from cairn_retriever.settings import RetrieverSettings
from cairn_retriever.vector_check import VectorCheck
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.health import Readiness
from cairn_shared.http import open_client
from cairn_shared.postgres import open_pool, ping
from cairn_shared.service_token import bearer
from cairn_shared.web.service import create_service

DESCRIPTION = "Finds the runbook steps and events that a question is about."


def create_app(
    settings: RetrieverSettings, *, policy: RetrievalPolicy = RetrievalPolicy(), clock: Clock | None = None
) -> FastAPI:
    """The retriever. The embedder may be away: then words and identifiers are searched, and the answer says so."""
    time = clock or SystemClock()
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    readiness = Readiness()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            open_pool(settings, "cairn-retriever", reset=leave_clean) as pool,
            AsyncExitStack() as clients,
        ):
            readiness.register("postgres", lambda: ping(pool))
            embedders = [await _embedder(settings, clients, url) for url in settings.embedder_urls()]
            embedder = QueryEmbedders([_for_queries(settings, metrics, one) for one in embedders])
            index = PostgresIndex(pool, time, policy, metrics, settings.lexicon_max_age)
            reports = PostgresReports(pool)
            searches: Searches = Searcher(index, embedder, time, metrics, policy)
            if settings.rerank:
                limits = RerankPolicy(top=settings.rerank_top, seconds=settings.rerank_timeout)
                searches = Reranked(searches, HttpReranker(embedders[0]), time, limits)
            app.state.cairn = State(searches, reports, VectorCheck(reports, embedders))
            yield

    app = create_service(
        "cairn-retriever", settings, readiness, registry, lifespan=lifespan, internal=True, description=DESCRIPTION
    )
    app.include_router(router)
    return app


async def _embedder(settings: RetrieverSettings, clients: AsyncExitStack, url: str) -> EmbedderClient:
    return EmbedderClient(
        await clients.enter_async_context(
            open_client(url, settings.embedder_timeout, headers=bearer(settings.service_token))
        )
    )


def _for_queries(settings: RetrieverSettings, metrics: Metrics, client: EmbedderClient) -> CachedQueryEmbedder:
    return CachedQueryEmbedder(client, metrics, size=settings.query_vector_cache, timeout=settings.query_embed_timeout)
