"""The composition root: opens what the consumer needs, runs it, closes in reverse order."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from cairn_ingest_consumer.adapters.attempts import PostgresAttempts
from cairn_ingest_consumer.adapters.dead_letter_topic import DeadLetterTopic
from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.embedder import http_endpoint
from cairn_ingest_consumer.adapters.expansions import PostgresExpansions
from cairn_ingest_consumer.adapters.halts import PostgresHalts
from cairn_ingest_consumer.adapters.ledger import PostgresLedger
from cairn_ingest_consumer.adapters.question_model import ChatModel
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.adapters.statistics import PostgresStatistics
from cairn_ingest_consumer.dry_run import DryRun
from cairn_ingest_consumer.embedders import Embedders, Endpoint
from cairn_ingest_consumer.engine_metrics import EngineMetrics
from cairn_ingest_consumer.expanding import Expand
from cairn_ingest_consumer.health_server import Call, Calls, HealthServer, serve
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.ingest import Ingest
from cairn_ingest_consumer.isolation import Isolation
from cairn_ingest_consumer.limits import PoisonLimit, PoisonPolicy
from cairn_ingest_consumer.metrics import ExpansionMetrics, IngestMetrics, RebuildMetrics
from cairn_ingest_consumer.model import PIPELINE
from cairn_ingest_consumer.ports import EventHandler
from cairn_ingest_consumer.rebuild import Rebuild
from cairn_ingest_consumer.repositories.fetching import FetchCommits, FetchMetrics, FetchPolicy
from cairn_ingest_consumer.repositories.handler import SyncMetrics, SyncRepositories
from cairn_ingest_consumer.repositories.sync import RepositorySync, SyncPolicy
from cairn_ingest_consumer.settings import IngestSettings
from cairn_shared import mongo
from cairn_shared.api.consumer import MAX_DRY_RUN_BYTES, DryRunQuery, HaltsAnswer, ReleaseAnswer, ReleaseBody
from cairn_shared.clock import SystemClock
from cairn_shared.embedder_client import EmbedderClient, open_client
from cairn_shared.errors import TransientError, Unavailable
from cairn_shared.events import PAYLOADS, Event, SourceDocument
from cairn_shared.health import Readiness
from cairn_shared.kafka.confluent import ConfluentConsumer
from cairn_shared.kafka.engine import ConsumerEngine, FaulthandlerAlarm
from cairn_shared.kafka.producer import EventProducer, open_producer
from cairn_shared.kafka.records import Partition
from cairn_shared.logging import get_logger
from cairn_shared.openai import Endpoint as ModelEndpoint
from cairn_shared.postgres import Pool, open_pool, ping
from cairn_shared.repositories.commits import open_commits
from cairn_shared.repositories.fetches import FetchStore
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.readers import open_reader
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.retry import until_up
from cairn_shared.runbooks.store import RunbookStore, WritePolicy
from cairn_shared.service_token import bearer, proven

log = get_logger(__name__)

SERVICE = "ingest-consumer"
EVENT_HEADROOM = 64 * 1024
"""Bytes of the largest Kafka record that key and headers may take."""

LARGEST_DEAD_LETTER = 64 * 1024 * 1024
"""Bytes before compression. What the topic takes, the broker decides: compressed, it took the record itself."""

DOCUMENT_TYPES = ("runbook.upserted", "runbook.deleted", *(t for t, m in PAYLOADS.items() if m is SourceDocument))


async def run(settings: IngestSettings) -> None:
    """Consume until SIGTERM or SIGINT.

    Raises:
        EngineFailed: the process should end and be started again.
    """
    clock = SystemClock()
    registry = CollectorRegistry()
    readiness = Readiness()
    starting = asyncio.Event()
    readiness.register("start", lambda: _passed(starting))
    async with AsyncExitStack() as stack:
        health = HealthServer(SERVICE, settings.app_version, readiness, registry, lambda sent: proven(sent, settings))
        await stack.enter_async_context(serve(health, settings.host, settings.port))
        stopped = _stop_signals(stack)
        opening = asyncio.create_task(_open(settings, stack, registry, readiness, clock, health=health))
        stopping = asyncio.create_task(stopped.wait())
        stack.callback(stopping.cancel)
        await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            return
        engine = opening.result()
        starting.set()
        stopping.add_done_callback(lambda task: None if task.cancelled() else engine.stop())
        await engine.run()
    log.info("stopped")


async def _open(
    settings: IngestSettings,
    stack: AsyncExitStack,
    registry: CollectorRegistry,
    readiness: Readiness,
    clock: SystemClock,
    *,
    health: HealthServer,
) -> ConsumerEngine:
    """Wait for the stores in any order, put the parts together."""
    pool = await stack.enter_async_context(open_pool(settings, SERVICE))
    readiness.register("postgres", lambda: ping(pool))
    spaces, rebuild_metrics = PostgresSpaces(pool), RebuildMetrics(registry)
    embedders = Embedders(spaces, await _endpoints(settings, stack, readiness, rebuild_metrics), clock)
    await until_up("embedder", embedders.plan)
    client_id = f"{SERVICE}-{socket.gethostname()}"
    producer = await stack.enter_async_context(
        open_producer(settings, client_id, max_message_bytes=LARGEST_DEAD_LETTER)
    )
    readiness.register("kafka", lambda: asyncio.to_thread(producer.ping))
    metrics = IngestMetrics(registry)
    store = PostgresDocumentStore(pool)
    index = IndexDocuments(store, embedders, metrics, clock)
    ledger = PostgresLedger(pool)
    handlers: Mapping[str, EventHandler] = {
        **dict.fromkeys(DOCUMENT_TYPES, index),
        **await _repository_handlers(settings, stack, registry, ledger, clock, index=index, producer=producer),
    }
    limit = PoisonLimit(PoisonPolicy(max_run=settings.poison_max_run, max_share=settings.poison_max_share))
    halts = PostgresHalts(pool, settings.consumer_group, limit)
    dry_run = DryRun(handlers, store, embedders, app_version=settings.app_version, git_sha=settings.git_sha)
    health.calls = _calls(dry_run, halts)
    ingest = Ingest(
        handlers,
        attempts=PostgresAttempts(pool, settings.consumer_group),
        dead_letters=DeadLetterTopic(
            producer,
            group=settings.consumer_group,
            app_version=settings.app_version,
            pipeline=PIPELINE,
            git_sha=settings.git_sha,
        ),
        ledger=ledger,
        metrics=metrics,
        clock=clock,
        isolation=Isolation(),
        limit=limit,
    )
    statistics = asyncio.create_task(_refresh(PostgresStatistics(pool, settings.ledger_days), settings, clock))
    stack.push_async_callback(_cancel, statistics)
    rebuild = Rebuild(embedders, spaces, rebuild_metrics, clock, policy=settings.rebuild(), busy=lambda: index.busy)
    stack.push_async_callback(_cancel, asyncio.create_task(rebuild.run()))
    await _expand(settings, stack, registry, clock, index=index, embedders=embedders, pool=pool)
    observer = EngineMetrics(registry, clock)
    policy = settings.policy()
    engine = ConsumerEngine(
        lambda: ConfluentConsumer(settings, settings.consumer_group, client_id, policy),
        settings.topics(),
        ingest,
        policy=policy,
        observer=observer,
        clock=clock,
        alarm=FaulthandlerAlarm(),
        halts=halts,
    )
    readiness.register("consumer", lambda: _consuming(engine, observer))
    return engine


async def _expand(
    settings: IngestSettings,
    stack: AsyncExitStack,
    registry: CollectorRegistry,
    clock: SystemClock,
    *,
    index: IndexDocuments,
    embedders: Embedders,
    pool: Pool,
) -> None:
    """The making of questions, where it is wanted. Its model may be away: nothing else waits for it."""
    if settings.expand == "off":
        return
    place = ModelEndpoint.of(settings.llm_base_url or "", settings.llm_api_key_header)
    client = await stack.enter_async_context(open_client(f"{place.address}/", settings.expand_timeout, connections=2))
    expand = Expand(
        PostgresExpansions(pool),
        ChatModel(client, place, model=settings.llm_model or "", api_key=settings.llm_api_key),
        embedders,
        ExpansionMetrics(registry),
        clock,
        policy=settings.expansion(),
        busy=lambda: index.busy,
        nonce=lambda: secrets.token_hex(8),
    )
    stack.push_async_callback(_cancel, asyncio.create_task(expand.run()))


async def _endpoints(
    settings: IngestSettings, stack: AsyncExitStack, readiness: Readiness, metrics: RebuildMetrics
) -> list[Endpoint]:
    """The embedders. A second one may be away: the rebuilding waits for it, ingest only if it has the model in use."""
    endpoints: list[Endpoint] = []
    for url in settings.embedder_urls():
        client = await stack.enter_async_context(
            open_client(url, settings.embedder_timeout, headers=bearer(settings.service_token))
        )
        if not endpoints:
            readiness.register("embedder", partial(_answers, EmbedderClient(client)))
        endpoints.append(http_endpoint(client, metrics.truncated))
    return endpoints


async def _answers(embedder: EmbedderClient) -> None:
    await embedder.model()


async def _repository_handlers(
    settings: IngestSettings,
    stack: AsyncExitStack,
    registry: CollectorRegistry,
    ledger: PostgresLedger,
    clock: SystemClock,
    *,
    index: IndexDocuments,
    producer: EventProducer,
) -> dict[str, EventHandler]:
    """The handlers of pushes. MongoDB may be away: only the partitions of pushes wait for it."""
    mongo_settings = settings.mongo()
    if mongo_settings is None:
        return {}
    database = await stack.enter_async_context(mongo.open_database(mongo_settings, SERVICE, wait=False))
    repositories = RepositoryStore(database, clock)
    policy = WritePolicy(max_event_bytes=settings.kafka_max_message_bytes - EVENT_HEADROOM)
    sync = RepositorySync(
        RunbookStore(database, clock, policy),
        repositories,
        partial(open_reader, settings=settings),
        clock,
        SyncPolicy(budget=settings.repo_sync_budget),
    )
    hosts = Hosts(settings)

    async def publish(event: Event) -> None:
        await producer.send(event.topic(), key=event.key(), value=event.encode(), headers=event.headers())

    return {
        "repo.pushed": SyncRepositories(
            sync, repositories, hosts=hosts, ledger=ledger, metrics=SyncMetrics(registry), clock=clock
        ),
        "push.cut": FetchCommits(
            index,
            FetchStore(database, clock),
            hosts=hosts,
            open_commits=partial(open_commits, settings=settings),
            publish=publish,
            ledger=ledger,
            metrics=FetchMetrics(registry),
            clock=clock,
            policy=FetchPolicy(most=settings.push_fetch_commits),
        ),
    }


def _calls(dry_run: DryRun, halts: PostgresHalts) -> Calls:
    """What the gateway asks of a consumer for the dead letter workbench."""

    async def try_records(body: bytes) -> BaseModel:
        return await dry_run.run(DryRunQuery.model_validate_json(body))

    async def list_halts(_: bytes) -> BaseModel:
        return HaltsAnswer(halts=await halts.list())

    async def release(body: bytes) -> BaseModel:
        wanted = ReleaseBody.model_validate_json(body)
        found = await halts.release(Partition(wanted.topic, wanted.partition), wanted.by)
        return ReleaseAnswer(released=found)

    routes: dict[tuple[str, str], Call] = {
        ("POST", "/dry-run"): try_records,
        ("GET", "/halts"): list_halts,
        ("POST", "/halts/release"): release,
    }
    return Calls(routes, MAX_DRY_RUN_BYTES)


async def _passed(event: asyncio.Event) -> None:
    if not event.is_set():
        raise Unavailable("start")


async def _consuming(engine: ConsumerEngine, observer: EngineMetrics) -> None:
    if observer.halted_partitions:
        raise Unavailable("consumer", "consumption is halted")
    if engine.seconds_since_step() > 60:
        raise Unavailable("consumer", "the consumer does not poll")


async def _refresh(statistics: PostgresStatistics, settings: IngestSettings, clock: SystemClock) -> None:
    while True:
        try:
            if await statistics.refresh():
                log.info("word statistics refreshed")
        except TransientError as exc:
            log.warning("word statistics not refreshed", error=exc.detail)
        await clock.sleep(settings.lexeme_interval)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _stop_signals(stack: AsyncExitStack) -> asyncio.Event:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
        stack.callback(loop.remove_signal_handler, number)
    return stopped
