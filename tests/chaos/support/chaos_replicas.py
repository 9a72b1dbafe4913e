"""Replicas of the consumer over the test run's own stores, with an embedder that answers at once."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chaos_log import BrokerLog
from chaos_processes import Guardian, Process
from confluent_kafka.admin import NewTopic
from ingest_fakes import EmbedderServer

from cairn_local import services
from cairn_local.migrate import create_topics
from cairn_local.ports import free_port
from cairn_local.stores import tansu
from cairn_local.testing import TopicFactory
from cairn_shared.events import dead_letter_topic
from cairn_shared.settings import KafkaSettings

APACHE = os.environ.get("BROKER") == "apache"


@dataclass
class Replicas:
    """A topic of its own and a group over it. `embedder` may be told to misbehave."""

    topic: str
    log: BrokerLog
    embedder: EmbedderServer
    guardian: Guardian
    members: list[Process]

    async def at_rest(self, seconds: float) -> None:
        """Until every record has come to its end and is committed."""
        async with asyncio.timeout(seconds):
            await self.log.catch_up(0.5)
            while await self.log.unfinished():
                await asyncio.sleep(0.1)
            await self.log.catch_up(0.5)


@asynccontextmanager
async def replicas(
    folder: Path, kafka: KafkaSettings, topics: TopicFactory, dsn: str, *, count: int, partitions: int, **extra: str
) -> AsyncIterator[Replicas]:
    """`count` replicas, not started yet: they live once `wanted`."""
    topic = topics("chaos", partitions=partitions)
    create_topics(kafka, [NewTopic(dead_letter_topic(topic), num_partitions=partitions, replication_factor=1)])
    group = f"chaos-{uuid.uuid4().hex[:8]}"
    embedder, guardian = EmbedderServer(), Guardian()
    log = BrokerLog(kafka.kafka_bootstrap_servers, [topic], partitions, group)
    async with embedder.running() as url:
        environment = {
            "PG_DSN": dsn,
            "KAFKA_BOOTSTRAP_SERVERS": kafka.kafka_bootstrap_servers,
            "EMBEDDER_URL": url,
            "CONSUMER_TOPICS": json.dumps([topic]),
            "CONSUMER_GROUP": group,
            **({} if APACHE else tansu.CONSUMERS),
            "CONSUMER_SESSION_TIMEOUT": "6" if APACHE else "2",
            "MONGO_URI": "",
            **extra,
        }
        members = []
        for number in range(1, count + 1):
            server = services.consumer(number, free_port(), environment)
            process = Process(server, folder / f"{server.program.name}.log", wanted=False)
            members.append(guardian.add(process))
        task = asyncio.create_task(guardian.run())
        try:
            yield Replicas(topic, log, embedder, guardian, members)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            guardian.stop()
            log.close()
