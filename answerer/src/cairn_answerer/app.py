"""The composition root: the only place that picks adapters."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from cairn_answerer import breaker, cache, flights, pipeline, prompt, resilience, writing
from cairn_answerer.adapters.completions import Silence
from cairn_answerer.adapters.openai_model import OpenAIModel
from cairn_answerer.adapters.postgres_corpus import PostgresCorpus, leave_clean
from cairn_answerer.adapters.redis_store import RedisAnswers, RedisCircuit, RedisFlights, RestingRedis
from cairn_answerer.adapters.retriever import HttpRetriever
from cairn_answerer.breaker import Circuit
from cairn_answerer.dependencies import State
from cairn_answerer.dialects import Experience
from cairn_answerer.gathering import Gatherer
from cairn_answerer.metrics import Metrics
from cairn_answerer.ports import Retriever
from cairn_answerer.refine import Refiner
from cairn_answerer.refined_search import RefinedRetriever
from cairn_answerer.responses import Lifetimes
from cairn_answerer.routes import router
from cairn_answerer.settings import AnswererSettings
from cairn_shared import context
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.health import Readiness
from cairn_shared.http import open_client
from cairn_shared.openai import Endpoint
from cairn_shared.postgres import open_pool
from cairn_shared.redis import open_redis
from cairn_shared.service_token import bearer
from cairn_shared.web.service import create_service
from cairn_shared.web.shedding import ShedPolicy

PROCESS = "answerer"
_CIRCUIT_LOOK = 2.0
"""Seconds between looks at the shared circuit, so that the gauge of an idle replica is right too."""


def create_app(settings: AnswererSettings, clock: Clock | None = None) -> FastAPI:
    """The answerer as an application; everything it needs is opened in its lifespan."""
    clock = clock or SystemClock()
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    readiness = Readiness()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            pool = await stack.enter_async_context(open_pool(settings, PROCESS, reset=leave_clean))
            redis = RestingRedis(await stack.enter_async_context(open_redis(settings, PROCESS)), clock)
            client = await stack.enter_async_context(
                open_client(settings.retriever_url, settings.retriever_timeout, headers=bearer(settings.service_token))
            )
            corpus = PostgresCorpus(pool, clock)
            readiness.register("postgres", corpus.ping)
            plain = HttpRetriever(client)
            retriever: Retriever = plain
            writer = None
            if settings.llm_endpoint:
                model, circuit, endpoint = await _model(settings, redis, clock, metrics, stack)
                writer = writing.Writer(
                    model,
                    metrics,
                    choose=random.SystemRandom().choice,
                    nonce=lambda: secrets.token_hex(8),
                    policy=writing.Policy(
                        room=replace(writing.ROOM, places=settings.llm_concurrency),
                        leads=settings.answer_leads == "on",
                    ),
                    budget=settings.llm_context_characters,
                )
                if settings.llm_refine:
                    rewriter = Refiner(
                        endpoint,
                        circuit,
                        RedisAnswers(redis),
                        model=_digest(settings.llm_endpoint, settings.llm_model or ""),
                        seconds=settings.llm_refine_timeout,
                        nonce=lambda: secrets.token_hex(8),
                    )
                    retriever = RefinedRetriever(
                        retriever, rewriter, lambda outcome: metrics.refinements.labels(outcome).inc()
                    )
            answers = cache.AnswerCache(RedisAnswers(redis), corpus, metrics, random.SystemRandom().uniform)
            flight_policy = flights.Policy(lease=settings.flight_lease)
            app.state.services = State(
                answerer=pipeline.Answerer(
                    gatherer=Gatherer(retriever, corpus, plain),
                    writer=writer,
                    corpus=corpus,
                    answers=answers,
                    flights=flights.Flights(RedisFlights(redis), clock, metrics, flight_policy),
                    fingerprints=_fingerprints(settings),
                    clock=clock,
                    policy=pipeline.Policy(
                        deadline=settings.ask_deadline,
                        wait=settings.ask_wait,
                        search=settings.retriever_timeout,
                        lifetimes=Lifetimes(
                            settings.answer_ttl, settings.answer_event_ttl, settings.answer_refusal_ttl
                        ),
                    ),
                    metrics=metrics,
                    request_id=context.request_id.get,
                ),
                deadline=settings.ask_deadline,
                keep_alive=settings.sse_keep_alive,
            )
            yield

    app = create_service(
        PROCESS,
        settings,
        readiness,
        registry,
        lifespan=lifespan,
        max_body_bytes=256 * 1024,
        shed=ShedPolicy(paths=("/ask",)),
        internal=True,
        description="A question to a verified, cited answer.",
    )
    app.include_router(router)
    return app


async def _model(
    settings: AnswererSettings, redis: RestingRedis, clock: Clock, metrics: Metrics, stack: contextlib.AsyncExitStack
) -> tuple[resilience.ResilientModel, Circuit, OpenAIModel]:
    place = Endpoint.of(settings.llm_endpoint or "", settings.llm_api_key_header)
    longest = settings.llm_attempt_timeout or settings.ask_deadline
    client = await stack.enter_async_context(
        open_client(f"{place.address}/", longest, connections=settings.llm_concurrency)
    )
    endpoint = OpenAIModel(
        client,
        place,
        Experience(clock),
        model=settings.llm_model or "",
        api_key=settings.llm_api_key,
        max_tokens=settings.llm_max_tokens,
        temperature=settings.llm_temperature,
        silence=Silence(settings.llm_first_token_timeout, settings.llm_silence_timeout),
    )
    circuit = Circuit(
        RedisCircuit(redis, _digest(settings.llm_endpoint or "", settings.llm_model or "")),
        clock,
        breaker.Policy(
            failures=settings.circuit_failures,
            open_seconds=settings.circuit_open_seconds,
            probe_seconds=longest + 5.0,
        ),
        on_change=metrics.circuit_state.set,
    )
    patience = resilience.Patience(attempts=settings.llm_attempts, attempt_seconds=settings.llm_attempt_timeout)
    model = resilience.ResilientModel(
        endpoint, circuit, clock, patience, on_failure=lambda reason: metrics.llm_failures.labels(reason).inc()
    )
    look = asyncio.create_task(_watch(circuit, clock), name="circuit gauge")
    stack.push_async_callback(_end, look)
    return model, circuit, endpoint


async def _watch(circuit: Circuit, clock: Clock) -> None:
    while True:
        await circuit.refresh()
        await clock.sleep(_CIRCUIT_LOOK)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _fingerprints(settings: AnswererSettings) -> cache.Fingerprints:
    """What of the settings decides an answer."""
    return cache.Fingerprints(
        model=_digest(
            settings.llm_endpoint or "none",
            settings.llm_model or "none",
            str(settings.llm_max_tokens),
            str(settings.llm_temperature),
            str(settings.llm_context_characters),
            settings.answer_leads,
        ),
        prompt=prompt.PROMPT_VERSION,
        retrieval=f"hybrid;refine={settings.llm_refine}",
    )
