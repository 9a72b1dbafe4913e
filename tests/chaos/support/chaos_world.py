"""A whole Cairn of its own for one chaos run: stores with durable logs, services, and the misbehaving embedder."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from chaos_processes import Guardian, Process
from chaos_proxy import EmbedderProxy
from pydantic import SecretStr

from cairn_local import backends, migrate, services
from cairn_local.ports import free_port
from cairn_local.programs import Server
from cairn_local.stores import mongo, postgres, redis, tansu
from cairn_shared.settings import KafkaSettings, MongoSettings

PASSWORD = "for-tests-only"
KEY = "key-of-the-chaos-run"
GROUP = "cairn-ingest"
PARTITIONS = 6
REPLICAS = 4
EMBEDDER_TIMEOUT = 6.0
STORES = ("postgres", "redis", "mongo", "kafka")

APACHE = os.environ.get("BROKER") == "apache"


@dataclass
class World:
    """What runs. `consumers` are the replicas, whether wanted now or not."""

    folder: Path
    guardian: Guardian
    proxy: EmbedderProxy
    kafka: KafkaSettings
    mongo: MongoSettings
    dsn: str
    redis: str
    client: httpx.AsyncClient

    @property
    def processes(self) -> dict[str, Process]:
        return self.guardian.processes

    @property
    def consumers(self) -> list[Process]:
        return [self.processes[f"ingest-consumer-{number}"] for number in range(1, REPLICAS + 1)]

    @property
    def durable(self) -> bool:
        """Whether the broker may be killed without losing its log."""
        return APACHE

    async def ready(self, seconds: float = 150) -> None:
        """Everything that is wanted answers."""
        await asyncio.gather(*(one.wait_ready(seconds) for one in self.processes.values() if one.wanted))


@asynccontextmanager
async def running_world() -> AsyncIterator[World]:
    """Start everything; at the end no process and no file of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="cairn-chaos-"))
    folder.chmod(0o711)  # PostgreSQL's system user passes through
    guardian = Guardian()
    try:
        async with AsyncExitStack() as stack:
            stack.callback(guardian.stop)
            yield await _start(folder, guardian, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _start(folder: Path, guardian: Guardian, stack: AsyncExitStack) -> World:
    def add(server: Server) -> Process:
        process = guardian.add(Process(server, folder / f"{server.program.name}.log"))
        process.start()
        return process

    pg = add(postgres.server(folder / "postgres" / "data", free_port(), PASSWORD))
    cache = add(redis.server(folder / "redis", free_port(), PASSWORD))
    store = add(mongo.server(folder / "mongo", free_port()))
    broker = add(backends.kafka(folder / "kafka", free_port(), free_port()))
    embedder = add(services.embedder(free_port(), {"REDIS_URL": cache.server.address, "OMP_NUM_THREADS": "1"}))
    task = asyncio.create_task(guardian.run())
    stack.push_async_callback(_cancel, task)
    await asyncio.gather(*(guardian.processes[name].wait_ready() for name in STORES))
    kafka = KafkaSettings(kafka_bootstrap_servers=broker.server.address, kafka_partitions=PARTITIONS)
    dsn = f"{pg.server.address.rpartition('/')[0]}/cairn"
    await asyncio.to_thread(lambda: asyncio.run(migrate.migrate_postgres(SecretStr(dsn))))
    await asyncio.to_thread(migrate.create_topics, kafka)

    proxy = EmbedderProxy(embedder.server.address, timeout=EMBEDDER_TIMEOUT)
    spoiling = await stack.enter_async_context(proxy.running())
    stores = {"KAFKA_BOOTSTRAP_SERVERS": broker.server.address, "PG_DSN": dsn, "TOKENIZERS_PARALLELISM": "false"}
    retriever = add(
        services.retriever(
            free_port(), {**stores, "REDIS_URL": cache.server.address, "EMBEDDER_URL": embedder.server.address}
        )
    )
    gateway = add(
        services.gateway(
            free_port(),
            {
                **stores,
                "MONGO_URI": store.server.address,
                "REDIS_URL": cache.server.address,
                "RETRIEVER_URL": retriever.server.address,
                "ANSWERER_URL": "http://127.0.0.1:9",
                "CAIRN_BOOTSTRAP_API_KEY": KEY,
                "INBOX": "fallback" if APACHE else "always",
                "LEASE_SECONDS": "2",
                "RECONCILE_INTERVAL": "0",  # it would heal what the other promises must keep by themselves
            },
        )
    )
    for number in range(1, REPLICAS + 1):
        server = services.consumer(
            number,
            free_port(),
            {
                **stores,
                "EMBEDDER_URL": spoiling,
                "EMBEDDER_TIMEOUT": str(EMBEDDER_TIMEOUT),
                "CONSUMER_SESSION_TIMEOUT": "6",
                **({} if APACHE else tansu.CONSUMERS),
                "CONSUMER_GROUP": GROUP,
            },
        )
        process = guardian.add(Process(server, folder / f"{server.program.name}.log", wanted=number <= 2))
        if process.wanted:
            process.start()
    client = httpx.AsyncClient(
        base_url=gateway.server.address, headers={"authorization": f"Bearer {KEY}"}, timeout=15, trust_env=False
    )
    stack.push_async_callback(client.aclose)
    world = World(
        folder=folder,
        guardian=guardian,
        proxy=proxy,
        kafka=kafka,
        mongo=MongoSettings(mongo_uri=SecretStr(store.server.address)),
        dsn=dsn,
        redis=cache.server.address,
        client=client,
    )
    await world.ready(240)
    return world


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def eventually(check: Callable[[], object], seconds: float) -> None:
    """Poll a plain condition."""
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.1)
