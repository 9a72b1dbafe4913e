"""The process itself: `python -m cairn_ingest_consumer` between a real broker and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from ingest_fakes import EmbedderServer, deleted, runbook, upserted

from cairn_local.testing import TopicFactory
from cairn_shared.events import Event, dead_letter_topic
from cairn_shared.kafka.producer import EventProducer, open_producer
from cairn_shared.postgres import Pool
from cairn_shared.settings import KafkaSettings


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.05)


class Stack:
    """A topic, its settings, and consumers over them."""

    def __init__(self, environment: dict[str, str], topic: str, producer: EventProducer, pool: Pool) -> None:
        self.environment = environment
        self.topic = topic
        self.producer = producer
        self.pool = pool

    async def send(self, *events: Event) -> None:
        await asyncio.gather(
            *(
                self.producer.send(self.topic, key=event.key(), value=event.encode(), headers=event.headers())
                for event in events
            )
        )

    @asynccontextmanager
    async def consumer(self, **extra: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
        port = free_port()
        environment = {**self.environment, "PORT": str(port), **extra}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cairn_ingest_consumer", env=environment, stdout=sys.stderr
        )
        try:
            yield process, f"http://127.0.0.1:{port}"
        finally:
            if process.returncode is None:
                process.terminate()
                await asyncio.wait_for(process.wait(), 20)


@pytest.fixture
async def stack(
    pool: Pool, postgres_dsn: str, kafka_settings: KafkaSettings, kafka_topics: TopicFactory
) -> AsyncIterator[Stack]:
    topic = kafka_topics("service", partitions=2)
    from confluent_kafka.admin import NewTopic

    from cairn_local.migrate import create_topics

    create_topics(kafka_settings, [NewTopic(dead_letter_topic(topic), num_partitions=2, replication_factor=1)])
    async with EmbedderServer().running() as url, open_producer(kafka_settings, "test") as producer:
        environment = {
            "PATH": os.environ["PATH"],
            "PG_DSN": postgres_dsn,
            "KAFKA_BOOTSTRAP_SERVERS": kafka_settings.kafka_bootstrap_servers,
            "EMBEDDER_URL": url,
            "CONSUMER_TOPICS": json.dumps([topic]),
            "CONSUMER_GROUP": f"group-{uuid.uuid4().hex[:8]}",
            "CONSUMER_SESSION_TIMEOUT": "2",
        }
        yield Stack(environment, topic, producer, pool)


async def test_runbook_event_becomes_searchable_rows_and_sigterm_ends_the_process_cleanly(stack: Stack) -> None:
    event = upserted(runbook("redis-full", "Run `redis-cli info`", "Raise maxmemory"), 1)
    await stack.send(event)
    async with stack.consumer() as (process, url):

        async def indexed() -> bool:
            return bool(await stack.pool.fetchval("SELECT count(*) FROM chunk_embeddings_384") == 2)

        await eventually(indexed)
        state = await stack.pool.fetchval("SELECT state FROM ingest_ledger WHERE event_id = $1", event.event_id)
        assert state == "searchable"
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{url}/health")).json()["status"] == "ok"
            ready = await client.get(f"{url}/health/ready")
            assert ready.status_code == 200, ready.text
            metrics = (await client.get(f"{url}/metrics")).text
            assert 'cairn_ingest_records_total{outcome="searchable",type="runbook.upserted"} 1.0' in metrics
        await stack.send(deleted("redis-full", 2))

        async def gone() -> bool:
            return bool(await stack.pool.fetchval("SELECT count(*) FROM steps") == 0)

        await eventually(gone)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
