"""The composition root: the only module that picks adapters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from cairn_gateway.accept import Accepter, AcceptPolicy
from cairn_gateway.adapters.answerer import HttpAnswerer, open_session
from cairn_gateway.adapters.consumers import HttpConsumers
from cairn_gateway.adapters.embedder import HttpEmbedder
from cairn_gateway.adapters.gauges import Gauges
from cairn_gateway.adapters.kafka_events import KafkaPublisher
from cairn_gateway.adapters.mongo_leases import MongoLeases
from cairn_gateway.adapters.mongo_names import MongoNames
from cairn_gateway.adapters.mongo_plans import MongoPlans
from cairn_gateway.adapters.mongo_statistics import MongoStatistics
from cairn_gateway.adapters.mongo_wakeups import MongoWakeups
from cairn_gateway.adapters.redis_limiter import LimitPolicy, RedisLimiter
from cairn_gateway.adapters.redis_receipts import RedisReceipts
from cairn_gateway.adapters.redis_resolves import RedisResolves
from cairn_gateway.adapters.retriever import HttpRetriever
from cairn_gateway.arrivals import Arrivals
from cairn_gateway.asking import Asking
from cairn_gateway.auth import Authenticator, AuthPolicy
from cairn_gateway.declared import DeclaredRepositories
from cairn_gateway.dependencies import State
from cairn_gateway.dlq import assembly
from cairn_gateway.fetch_timer import FetchTimer
from cairn_gateway.freshness import Revisions
from cairn_gateway.importing import MAX_IMPORT_BYTES
from cairn_gateway.intake import Intake
from cairn_gateway.lease import Leadership, LeasePolicy
from cairn_gateway.mcp_server.endpoint import ToolEndpoint
from cairn_gateway.mcp_server.own import OwnKnowledge
from cairn_gateway.mcp_server.server import build_server
from cairn_gateway.metrics import Metrics, RequestMetrics
from cairn_gateway.overview import Overview
from cairn_gateway.parts import (
    INBOX,
    TIMEOUT,
    all_dependencies,
    background,
    holder,
    open_consumers,
    open_embedder,
    open_repositories,
    people,
    secrets_of,
    spools_of,
    warm_up,
)
from cairn_gateway.questions.recorder import Recorder, RecordPolicy
from cairn_gateway.reconcile import ReconcilePolicy, Reconciler
from cairn_gateway.relay import Relay, RelayPolicy
from cairn_gateway.repository_verify import RepositoryVerifier
from cairn_gateway.routes import ROUTERS
from cairn_gateway.routes.openai_errors import OpenAIErrors
from cairn_gateway.routes.root import root_router
from cairn_gateway.settings import GatewaySettings
from cairn_gateway.settle import SettlePolicy, Settler
from cairn_shared import mongo, redis
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.health import Readiness
from cairn_shared.http import open_client
from cairn_shared.kafka.producer import open_producer
from cairn_shared.repositories.fetches import FetchStore
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.retry import until_up
from cairn_shared.runbooks.outbox import OUTBOX
from cairn_shared.runbooks.store import RunbookStore, WritePolicy
from cairn_shared.service_token import bearer
from cairn_shared.web.service import create_service
from cairn_shared.web.shedding import ShedPolicy

NAME = "gateway"
EVENT_HEADROOM = 64 * 1024
"""Bytes of the largest Kafka record that key and headers may take."""

BODY_LIMIT = 1024 * 1024
BODY_LIMITS = {
    "/dlq": 32 * 1024 * 1024,
    "/runbooks/import": 2 * MAX_IMPORT_BYTES,  # JSON escapes take up to twice the Markdown
    "/runbooks": 4 * 1024 * 1024,
    "/webhooks/github": 25 * 1024 * 1024,  # GitHub's own limit
    "/webhooks": 5 * 1024 * 1024,
    "/events": 5 * 1024 * 1024,
    "/backfill": 25 * 1024 * 1024,
    "/v1/logs": 5 * 1024 * 1024,
    "/v1/chat": 4 * 1024 * 1024,
    "/v1/embeddings": 16 * 1024 * 1024,
}
"""Bytes of a request body by path prefix; the first that fits counts."""


SHED = ShedPolicy(paths=("/ask", "/search", "/v1/chat", "/v1/embeddings"))
"""What a client can ask again. What others deliver is never refused for load: many deliver only once."""


def create_app(settings: GatewaySettings) -> FastAPI:
    """The gateway as an ASGI app. Nothing is opened before its lifespan begins."""
    clock = SystemClock()
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    readiness = Readiness()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_gateway(settings, clock, metrics, readiness) as state:
            app.state.gateway = state
            yield

    app = create_service(
        NAME,
        settings,
        readiness,
        registry,
        lifespan=lifespan,
        max_body_bytes=BODY_LIMIT,
        body_limits=BODY_LIMITS,
        shed=SHED,
        description="Runbooks in, cited answers out. Errors are RFC 9457 problems, under `/v1/` OpenAI's.",
    )
    app.add_middleware(OpenAIErrors)
    app.add_middleware(RequestMetrics, metrics=metrics, clock=clock)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(root_router(console=settings.console))
    if settings.console:
        from cairn_gateway.console import open_console  # a second of imports, for those who want it

        open_console(app, settings)
    return app


@asynccontextmanager
async def open_gateway(
    settings: GatewaySettings, clock: Clock, metrics: Metrics, readiness: Readiness
) -> AsyncIterator[State]:
    """Open every resource, start the background work, and close all of it in reverse."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(mongo.open_database(settings, NAME))
        cache = await stack.enter_async_context(redis.open_redis(settings, NAME))
        producer = await stack.enter_async_context(open_producer(settings, NAME))
        retriever_http = await stack.enter_async_context(
            open_client(settings.retriever_url, settings.retriever_timeout, headers=bearer(settings.service_token))
        )
        answerer_http = await stack.enter_async_context(
            open_client(settings.answerer_url, TIMEOUT, connections=2, headers=bearer(settings.service_token))
        )
        answerer = HttpAnswerer(
            await stack.enter_async_context(open_session(settings.answerer_url, bearer(settings.service_token)))
        )
        embedder_http = await open_embedder(settings, stack)

        publisher = KafkaPublisher(producer)
        retriever = HttpRetriever(retriever_http)
        spools = inbox, outbox = spools_of(settings, database, clock)
        relay = Relay(spools, publisher, clock, metrics, RelayPolicy(poll_interval=settings.relay_poll_interval))
        max_event_bytes = settings.kafka_max_message_bytes - EVENT_HEADROOM
        store = RunbookStore(database, clock, WritePolicy(max_event_bytes=max_event_bytes), relay.wake)
        users, executions, feedback, audit, questions = people(database, clock)
        declarations, fetches = RepositoryStore(database, clock), FetchStore(database, clock)
        dead = assembly.stored(settings, database, clock)
        stored = (store, outbox, inbox, users, executions, feedback, declarations, fetches, audit, questions)
        for collection in (*stored, dead.letters, dead.jobs):
            await until_up("mongo indexes", collection.ensure_indexes)

        leases = MongoLeases(database["leases"])
        receipts = RedisReceipts(cache)
        reconciler = Reconciler(
            store=store,
            outbox=outbox,
            index=retriever,
            clock=clock,
            metrics=metrics,
            policy=ReconcilePolicy(settings.reconcile_interval, timedelta(seconds=settings.reconcile_grace)),
        )
        settler = Settler(
            spools=spools,
            index=retriever,
            clock=clock,
            metrics=metrics,
            policy=SettlePolicy(republish_after=settings.republish_after),
            wake=relay.wake,
            indexed_letters=dead.letters.indexed,
        )
        wakeups = MongoWakeups(database, (OUTBOX, INBOX), clock, relay.wake)
        lease_policy = LeasePolicy(settings.lease_seconds)
        leadership = Leadership(leases, holder(), clock, metrics, lease_policy)

        accepter = Accepter(
            publisher=publisher,
            inbox=inbox,
            receipts=receipts,
            wake=relay.wake,
            clock=clock,
            metrics=metrics,
            policy=AcceptPolicy(settings.inbox, settings.accept_timeout, max_event_bytes=max_event_bytes),
        )
        hosts = Hosts(settings)
        repositories, repository_timer = await open_repositories(settings, hosts, declarations, accepter, clock)

        readiness.register("mongo", lambda: mongo.ping(database))
        services = {"retriever": retriever_http, "answerer": answerer_http}
        services |= {"embedder": embedder_http} if embedder_http else {}
        consumer_https = await open_consumers(settings, stack)
        consumers = HttpConsumers(tuple(consumer_https.values()))
        gauges = Gauges(answerer_http, tuple(consumer_https.values()))
        services |= consumer_https
        dead_letters = assembly.assemble(
            settings,
            dead,
            publisher=publisher,
            accepter=accepter,
            consumers=consumers,
            index=retriever,
            audit=audit,
            clock=clock,
            metrics=metrics,
        )

        async def lead(term: int) -> None:
            fetch_timer = FetchTimer(fetches, accepter, clock)
            async with asyncio.TaskGroup() as group:
                for part in (settler, reconciler, wakeups, repository_timer, fetch_timer):
                    group.create_task(part.run())
                for work in dead_letters.work():
                    group.create_task(work)
                group.create_task(relay.run(term))

        recorder = Recorder(questions, clock, metrics, RecordPolicy(timedelta(days=settings.question_log_days)))
        asking = Asking(
            answerer,
            Revisions.following(store, clock),
            metrics,
            settings.ask_deadline,
            clock=clock,
            record=recorder.record,
        )
        tools = ToolEndpoint(
            build_server(OwnKnowledge(asking, retriever, store), settings.app_version), settings.mcp_allowed_origins
        )
        await stack.enter_async_context(tools.running())
        await stack.enter_async_context(background(leadership.run(lead), recorder.run(), warm_up(producer)))
        yield State(
            clock=clock,
            arrivals=Arrivals(clock),
            store=store,
            users=users,
            executions=executions,
            feedback=feedback,
            plans=MongoPlans(database),
            spools=spools,
            receipts=receipts,
            index=retriever,
            searcher=retriever,
            settlements=retriever,
            asking=asking,
            embedder=HttpEmbedder(embedder_http) if embedder_http else None,
            tools=tools,
            accepter=accepter,
            intake=Intake(
                accepter,
                secrets=secrets_of(settings),
                declared=DeclaredRepositories(declarations, hosts, clock),
                resolves=RedisResolves(cache),
                names=MongoNames(database["source_names"]),
                metrics=metrics,
            ),
            repositories=repositories,
            repository_verifier=RepositoryVerifier(declarations, store, hosts, reconciler),
            hosts=hosts,
            reconciler=reconciler,
            overview=Overview(
                dependencies=all_dependencies(database, producer, cache, services),
                names=("mongo", "kafka", "redis", "postgres", *services),
                store=store,
                spools=spools,
                index=retriever,
                leader=lambda: leases.find(lease_policy.name),
                clock=clock,
                version=settings.app_version,
                inbox=settings.inbox,
                tally=dead.letters.tally,
                halts=consumers.halts,
                partitions=gauges.partitions,
                answers=gauges.answers,
            ),
            workbench=dead_letters.workbench,
            audit=audit,
            questions=questions,
            statistics=MongoStatistics(database, questions),
            authenticator=Authenticator(
                users,
                settings.cairn_bootstrap_api_key.get_secret_value() if settings.cairn_bootstrap_api_key else None,
                clock,
                AuthPolicy(fresh=settings.auth_cache_seconds),
            ),
            limiter=RedisLimiter(cache, clock, LimitPolicy(settings.rate_limit_per_minute, settings.rate_limit_burst)),
        )
