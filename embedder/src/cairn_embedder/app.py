"""The composition root: settings to a running embedder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias, TypeVar

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from cairn_embedder import prefixes
from cairn_embedder.adapters.cross_encoder import RerankerChoice, load_reranker
from cairn_embedder.adapters.openai_embeddings import RemoteEngine, RemoteModel, RemotePolicy, measure
from cairn_embedder.adapters.redis_vectors import NoVectors, RedisVectors
from cairn_embedder.adapters.remote_reading import RemoteChoice, RemoteReading
from cairn_embedder.adapters.sentence_transformer import ModelChoice, load
from cairn_embedder.batching import Batcher, BatchPolicy
from cairn_embedder.dependencies import LoadedModel, LoadedReranker, State
from cairn_embedder.embedding import Embedding
from cairn_embedder.errors import WrongSetting
from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.ports import Encoder, Engine, Reading
from cairn_embedder.reranking import Reranking
from cairn_embedder.routes import router
from cairn_embedder.settings import EmbedderSettings
from cairn_shared.clock import SystemClock
from cairn_shared.errors import CairnError
from cairn_shared.health import Readiness
from cairn_shared.http import open_client
from cairn_shared.logging import get_logger
from cairn_shared.openai import Endpoint
from cairn_shared.redis import Client, open_redis
from cairn_shared.retry import until_up
from cairn_shared.web.service import create_service

log = get_logger(__name__)
MAX_BODY_BYTES = 16 * 1024 * 1024
REMOTE_MAX_TOKENS = 512
"""Longest input of an endpoint's model unless told otherwise: what nearly all of them take."""

T = TypeVar("T")
Opened: TypeAlias = tuple[Reading, Engine]


def create_app(
    settings: EmbedderSettings,
    load_encoder: Callable[[], Encoder] | None = None,
    refuse: Callable[[str], None] = lambda _: None,
) -> FastAPI:
    """The app. The model loads in the background: alive at once, ready when it is there.

    `refuse` is told which setting the model shows to be wrong: it will never be ready then.
    """
    registry = CollectorRegistry()
    metrics = EmbedderMetrics(registry)
    readiness = Readiness()
    state = State()

    async def model_works() -> None:
        state.model.get().check()

    async def reranker_is_there() -> None:
        state.reranker.get()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.embedder = state
        readiness.register("model", model_works)
        async with AsyncExitStack() as stack:
            redis = settings.redis()
            client = await stack.enter_async_context(open_redis(redis, "cairn-embedder")) if redis else None
            base = settings.embeddings_base_url
            if base is not None and load_encoder is None:
                place = Endpoint.of(base)
                http = await stack.enter_async_context(open_client(f"{place.address}/", settings.embeddings_timeout))
                opening: Callable[[], Awaitable[Opened]] = partial(_open_remote, settings, http, place, metrics)
            else:
                load_model = load_encoder or (lambda: load(_choice(settings)))
                opening = partial(_open_local, settings, load_model, metrics)
            serving = partial(_serve_model, opening, settings, client, metrics, state.model)
            task = asyncio.create_task(_or_refuse(serving, refuse))
            stack.push_async_callback(_stop, task)
            if settings.reranker_model is not None:
                state.reranker.wanted = True
                readiness.register("reranker", reranker_is_there)
                serving = partial(_serve_reranker, settings, state.reranker)
                task = asyncio.create_task(_or_refuse(serving, refuse))
                stack.push_async_callback(_stop, task)
            yield

    app = create_service(
        "cairn-embedder",
        settings,
        readiness,
        registry,
        lifespan=lifespan,
        max_body_bytes=MAX_BODY_BYTES,
        internal=True,
        description="Text to normalised vectors, batched across requests.",
    )
    app.include_router(router)
    return app


async def _or_refuse(serving: Callable[[], Awaitable[None]], refuse: Callable[[str], None]) -> None:
    try:
        await serving()
    except WrongSetting as exc:
        log.critical("a setting is wrong", detail=str(exc))
        refuse(str(exc))


async def _serve_model(
    opening: Callable[[], Awaitable[Opened]],
    settings: EmbedderSettings,
    redis: Client | None,
    metrics: EmbedderMetrics,
    loaded: LoadedModel,
) -> None:
    """Open the model and run it until cancelled."""
    reading, engine = await opening()
    info = reading.info
    metrics.model.labels(info.name, info.fingerprint, str(info.dimension)).set(1)
    log.info("model loaded", model=info.name, fingerprint=info.fingerprint, max_tokens=info.max_tokens)
    cache = (
        RedisVectors(
            redis,
            info.fingerprint,
            info.dimension,
            metrics,
            SystemClock(),
            keep_seconds=settings.embedding_cache_seconds,
        )
        if redis
        else NoVectors()
    )
    loaded.embedding = Embedding(reading, engine, cache, metrics)
    try:
        await engine.run()
    finally:
        loaded.embedding.close()
        loaded.embedding = None


async def _serve_reranker(settings: EmbedderSettings, loaded: LoadedReranker) -> None:
    """Load the reranker and keep it until cancelled."""
    name = settings.reranker_model or ""
    choice = RerankerChoice(name, settings.reranker_revision, settings.reranker_max_tokens)
    scorer = await _loaded("RERANKER_MODEL", name, lambda: load_reranker(choice))
    await asyncio.to_thread(scorer.score, "ready", ["ready"])
    log.info("reranker loaded", model=name)
    loaded.reranking = Reranking(scorer)
    try:
        await asyncio.Event().wait()
    finally:
        loaded.reranking.close()
        loaded.reranking = None


async def _loaded(setting: str, name: str, load_it: Callable[[], T]) -> T:
    """What `load_it` gives, in a thread, as often as it takes.

    Raises:
        WrongSetting: it never will.
    """

    def load_or_say_why() -> T | WrongSetting:
        try:
            return load_it()
        except WrongSetting as exc:
            return exc
        except Exception as exc:
            log.warning("a model cannot be loaded", setting=setting, model=name, detail=str(exc)[:500])
            raise

    loaded = await until_up("model", lambda: asyncio.to_thread(load_or_say_why))
    if isinstance(loaded, WrongSetting):
        raise loaded
    return loaded


async def _open_local(
    settings: EmbedderSettings, load_model: Callable[[], Encoder], metrics: EmbedderMetrics
) -> Opened:
    """A model in this process, when it is loaded."""
    encoder = await _loaded("EMBEDDING_MODEL", settings.embedding_model, load_model)
    policy = BatchPolicy(max_tokens=settings.embedding_batch_tokens, max_passages=settings.embedding_queue_size)
    probe = encoder.tokenize(["ready"], "query")[0].ids
    # The first batch of a new process is slow; nobody should have to wait for it.
    await asyncio.to_thread(encoder.encode, [probe])
    return encoder, Batcher(encoder.encode, probe, policy, metrics, SystemClock())


async def _open_remote(
    settings: EmbedderSettings, client: httpx.AsyncClient, place: Endpoint, metrics: EmbedderMetrics
) -> Opened:
    """A model behind an endpoint, when that answers: only then it is known how long its vectors are."""
    model = RemoteModel(
        client,
        place,
        model=settings.embedding_model,
        api_key=settings.embeddings_api_key,
        dimensions=settings.embedding_dimensions,
    )

    async def measure_or_say_why() -> int:
        try:
            return await measure(model)
        except CairnError as exc:
            log.warning("EMBEDDINGS_BASE_URL does not embed", model=settings.embedding_model, detail=exc.detail)
            raise

    own = await until_up("model", measure_or_say_why)
    choice = RemoteChoice(
        name=settings.embedding_model,
        revision=settings.embedding_revision,
        max_tokens=settings.embedding_max_tokens or REMOTE_MAX_TOKENS,
        dimensions=settings.embedding_dimensions,
        storage=settings.embedding_storage,
        prefixes=prefixes.choose(
            {}, None, query=settings.embedding_query_prefix, passage=settings.embedding_passage_prefix
        ),
        tokenizer=settings.embeddings_tokenizer,
    )
    reading = await asyncio.to_thread(RemoteReading, choice, own)
    policy = RemotePolicy(
        batch=settings.embeddings_batch,
        concurrency=settings.embeddings_concurrency,
        queue=settings.embedding_queue_size,
        attempts=settings.embeddings_attempts,
        patience=2 * settings.embeddings_timeout,
    )
    return reading, RemoteEngine(model, policy, metrics, SystemClock(), own=own, dimension=reading.info.dimension)


def _choice(settings: EmbedderSettings) -> ModelChoice:
    """The model that the settings name."""
    return ModelChoice(
        name=settings.embedding_model,
        revision=settings.embedding_revision,
        trust_remote_code=settings.embedding_trust_remote_code,
        max_tokens=settings.embedding_max_tokens,
        dtype=settings.embedding_dtype,
        threads=settings.embedding_threads,
        dimensions=settings.embedding_dimensions,
        storage=settings.embedding_storage,
        query_prefix=settings.embedding_query_prefix,
        passage_prefix=settings.embedding_passage_prefix,
    )


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
