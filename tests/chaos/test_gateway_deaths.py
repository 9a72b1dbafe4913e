"""The gateway dies in each of its windows: what was written or accepted reaches Kafka all the same."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from chaos_log import BrokerLog
from chaos_processes import Guardian, Process
from chaos_world import KEY

from cairn_local import services
from cairn_local.migrate import create_topics
from cairn_local.ports import free_port
from cairn_shared import mongo
from cairn_shared.crashpoints import GATEWAY_POINTS
from cairn_shared.events import TOPIC_EVENTS, TOPIC_RUNBOOKS, event_id
from cairn_shared.runbooks.records import revision_event_id
from cairn_shared.settings import KafkaSettings, MongoSettings


@pytest.fixture
async def gateway(
    tmp_path: Path, kafka_settings: KafkaSettings, mongo_settings: MongoSettings, redis_url: str
) -> AsyncIterator[Process]:
    """A gateway that is started again whenever it dies."""
    create_topics(kafka_settings)
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka_settings.kafka_bootstrap_servers,
        "MONGO_URI": mongo_settings.mongo_uri.get_secret_value(),
        "MONGO_DATABASE": mongo_settings.mongo_database,
        "REDIS_URL": redis_url,
        "RETRIEVER_URL": "http://127.0.0.1:9",
        "ANSWERER_URL": "http://127.0.0.1:9",
        "CAIRN_BOOTSTRAP_API_KEY": KEY,
        "RECONCILE_INTERVAL": "0",
        "LEASE_SECONDS": "1",
        "INBOX": "fallback",
    }
    guardian = Guardian()
    server = services.gateway(free_port(), environment)
    process = guardian.add(Process(server, tmp_path / "gateway.log", wanted=False))
    task = asyncio.create_task(guardian.run())
    yield process
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    guardian.stop()


class Reader:
    """How often Kafka holds an event."""

    def __init__(self, settings: KafkaSettings) -> None:
        topics = (TOPIC_RUNBOOKS, TOPIC_EVENTS)
        self._log = BrokerLog(settings.kafka_bootstrap_servers, topics, settings.kafka_partitions, "nobody")

    async def copies(self, wanted: uuid.UUID, least: int = 1, seconds: float = 60) -> int:
        async with asyncio.timeout(seconds):
            while True:
                await self._log.catch_up(0.3)
                found = Counter(self._log.healthy.values())[wanted]
                if found >= least:
                    return found

    def close(self) -> None:
        self._log.close()


@pytest.mark.slow
@pytest.mark.timeout(240)  # six starts of the gateway, on a busy machine
async def test_a_gateway_that_dies_in_any_window_loses_nothing_that_it_took(
    gateway: Process, kafka_settings: KafkaSettings, mongo_settings: MongoSettings
) -> None:
    name = f"book-{uuid.uuid4().hex[:8]}"
    source = f"chaos/{uuid.uuid4().hex[:8]}"
    cloud_event = {
        "specversion": "1.0",
        "id": "1",
        "source": source,
        "type": "alert",
        "time": "2026-01-01T00:00:00Z",
        "data": {"title": "disk full", "body": "on db1"},
    }
    reader = Reader(kafka_settings)
    gateway.crash_points += list(GATEWAY_POINTS)
    gateway.wanted = True
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        base_url=gateway.server.address, headers=headers, timeout=15, trust_env=False
    ) as client:

        async def put(revision: int) -> httpx.Response | None:
            text = f"# Disk full\n\n1. Look at revision {revision}\n"
            with suppress(httpx.HTTPError):
                return await client.put(f"/runbooks/{name}", content=text, headers={"content-type": "text/markdown"})
            return None

        async def post() -> httpx.Response | None:
            with suppress(httpx.HTTPError):
                return await client.post(
                    "/events", json=cloud_event, headers={"content-type": "application/cloudevents+json"}
                )
            return None

        async def died(lives: int) -> None:
            async with asyncio.timeout(60):
                while gateway.lives == lives:
                    await asyncio.sleep(0.05)

        # In MongoDB, not answered.
        await gateway.wait_ready(60)
        assert await put(1) is None
        await died(1)
        # The next life, which dies before it publishes, finds the entry of the first.
        await died(2)
        # The third publishes and dies before it can note so.
        await died(3)
        first = revision_event_id(name, 1)
        assert await reader.copies(first) >= 1
        # The fourth publishes once more, and dies after Kafka took an event, before 202.
        await gateway.wait_ready(60)
        assert await reader.copies(first, least=2) == 2
        assert await post() is None
        await died(4)
        await gateway.wait_ready(60)
        assert gateway.died_at == list(GATEWAY_POINTS)
        again = await post()
        assert again is not None
        assert again.status_code == 202
        accepted = uuid.UUID(again.json()["event_ids"][0])
        assert accepted == event_id(source, "1") or accepted in (await _ids(reader))
        assert await reader.copies(accepted, least=2) == 2
        stored = await client.get(f"/runbooks/{name}", headers={"accept": "application/json"})
        assert stored.json()["revision"] == 1
    async with mongo.open_database(mongo_settings, "tests") as database:
        assert await database["outbox"].count_documents({"state": "pending"}) == 0
    reader.close()


async def _ids(reader: Reader) -> set[uuid.UUID]:
    await reader._log.catch_up(0.3)
    return set(reader._log.writes)
