"""From HTTP to a real broker: what is on the topic, how fast, and what becomes of a broker that comes late or forgets."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from cairn_gateway.settings import GatewaySettings
from cairn_local.migrate import create_topics
from cairn_local.ports import free_port
from cairn_local.programs import Server, signal_group, start
from cairn_local.stores import tansu
from cairn_shared.events import TOPIC_RUNBOOKS, Event, decode
from cairn_shared.settings import KafkaSettings

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, Start, Upstream


def read_all(bootstrap: str, subject: str) -> list[tuple[Event, dict[str, bytes]]]:
    """Every record about `subject` on the topic of runbooks, in the order of its partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(TOPIC_RUNBOOKS, timeout=10).topics[TOPIC_RUNBOOKS].partitions
        consumer.assign([TopicPartition(TOPIC_RUNBOOKS, number, 0) for number in partitions])
        ended: set[int | None] = set()
        found: list[tuple[Event, dict[str, bytes]]] = []
        while len(ended) < len(partitions):
            message = consumer.poll(5)
            assert message is not None, "the broker has no end"
            if message.error():
                ended.add(message.partition())
            elif message.key() == subject.encode():
                headers: Any = message.headers() or []
                found.append((decode(message.value()), dict(headers)))
        return found
    finally:
        consumer.close()


async def test_an_edit_is_on_kafka_within_moments_and_in_order(
    client: httpx.AsyncClient, kafka_settings: KafkaSettings, eventually: Eventually
) -> None:
    await asyncio.to_thread(create_topics, kafka_settings)
    name = f"book-{uuid.uuid4().hex[:8]}"
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    url = f"/runbooks/{name}"
    for number in range(5):
        body = {"title": "T", "steps": [f"Look {number}."]}
        await client.put(url, json=body, headers={"traceparent": trace})
    await client.delete(url)

    async def sent() -> bool:
        return bool((await client.get("/status")).json()["queues"]["outbox"]["pending"] == 0)

    await eventually(sent)
    records = await asyncio.to_thread(read_all, kafka_settings.kafka_bootstrap_servers, name)
    assert [event.version for event, _ in records] == [1, 2, 3, 4, 5, 6]
    assert [event.type for event, _ in records] == ["runbook.upserted"] * 5 + ["runbook.deleted"]
    event, headers = records[0]
    assert headers["event-id"] == str(event.event_id).encode()
    assert headers["event-type"] == b"runbook.upserted"
    assert headers["traceparent"].decode()[3:35] == trace[3:35]
    waits = []
    for number in range(10):
        started = time.perf_counter()
        await client.put(url, json={"title": "T", "steps": [f"Again {number}."]})
        await eventually(sent, within=2.0)
        waits.append(time.perf_counter() - started)
    assert sorted(waits)[5] < 0.25, waits


async def test_of_two_gateways_one_relays_for_both_and_the_other_takes_over(
    start_gateway: Start, gateway_settings: GatewaySettings, kafka_settings: KafkaSettings, eventually: Eventually
) -> None:
    await asyncio.to_thread(create_topics, kafka_settings)
    settings = gateway_settings.model_copy(update={"relay_poll_interval": 60.0})  # only a wake-up is quick
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        leader = await first.enter_async_context(start_gateway(settings))

        async def term_of_leader() -> int:
            relay = (await leader.get("/status")).json()["relay"]
            return int(relay["term"]) if relay else 0

        assert await eventually(term_of_leader) == 1
        other = await stack.enter_async_context(start_gateway(settings))

        async def sent() -> bool:
            return bool((await other.get("/status")).json()["queues"]["outbox"]["pending"] == 0)

        async def taken_over() -> bool:
            relay = (await other.get("/status")).json()["relay"]
            return bool(relay and relay["term"] == 2)

        await other.put("/runbooks/pair", json={"title": "T", "steps": ["Look."]})
        await eventually(sent, within=3.0)
        await first.aclose()
        await eventually(taken_over, within=3.0)
        await other.put("/runbooks/pair", json={"title": "T", "steps": ["Look again."]})
        await eventually(sent, within=3.0)


@pytest.fixture
def late_broker(tmp_path: Path) -> Iterator[LateBroker]:
    broker = LateBroker(tmp_path)
    yield broker
    broker.kill()


class LateBroker:
    """A Tansu of this test's own, that is started when the test says so and keeps its log in memory."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.server: Server = tansu.server(folder, self.port)
        self.process: Any = None
        self.output = folder / "tansu.log"

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings(kafka_bootstrap_servers=f"127.0.0.1:{self.port}", kafka_delivery_timeout=1.5)

    async def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = start(self.server.program, output)
        async with asyncio.timeout(20):
            while True:
                try:
                    await asyncio.to_thread(self.server.probe)
                    break
                except Exception:
                    await asyncio.sleep(0.05)
        await asyncio.to_thread(create_topics, self.settings)

    def kill(self) -> None:
        if self.process is not None:
            signal_group(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def settings_of(self, settings: GatewaySettings, **more: Any) -> GatewaySettings:
        return GatewaySettings.model_validate(settings.model_dump() | self.settings.model_dump() | more)


async def test_a_broker_that_comes_late_gets_everything(
    start_gateway: Start, gateway_settings: GatewaySettings, late_broker: LateBroker, eventually: Eventually
) -> None:
    async with start_gateway(late_broker.settings_of(gateway_settings)) as client:
        for number in range(3):
            answer = await client.put("/runbooks/late", json={"title": "T", "steps": [f"Look {number}."]})
            assert answer.status_code < 300, "edits do not need Kafka"
        status = (await client.get("/status")).json()
        assert (status["queues"]["outbox"]["pending"], status["dependencies"]["kafka"] == "ok") == (3, False)
        state = (await client.get(f"/ingest/{answer.json()['event_id']}")).json()["state"]
        assert state == "accepted"
        await late_broker.start()

        async def sent() -> bool:
            return bool((await client.get("/status")).json()["queues"]["outbox"]["pending"] == 0)

        await eventually(sent, within=20)
    records = await asyncio.to_thread(read_all, late_broker.settings.kafka_bootstrap_servers, "late")
    assert list(dict.fromkeys(event.version for event, _ in records)) == [1, 2, 3]


async def test_what_a_broker_without_a_durable_log_forgot_is_published_again(
    start_gateway: Start,
    gateway_settings: GatewaySettings,
    late_broker: LateBroker,
    upstream: Upstream,
    eventually: Eventually,
) -> None:
    await late_broker.start()
    settings = late_broker.settings_of(gateway_settings, inbox="always", republish_after=1.0)
    async with start_gateway(settings) as client:
        kept = (await client.put("/runbooks/kept", json={"title": "T", "steps": ["Look."]})).json()
        lost = (await client.put("/runbooks/lost", json={"title": "T", "steps": ["Look."]})).json()

        async def queue() -> dict[str, int]:
            found: dict[str, int] = (await client.get("/status")).json()["queues"]["outbox"]
            return found

        async def sent() -> bool:
            return (await queue())["pending"] == 0

        async def one_unsettled() -> bool:
            return (await queue())["unsettled"] == 1

        await eventually(sent)
        upstream.settle(kept["event_id"])
        await eventually(one_unsettled)
        late_broker.kill()
        await late_broker.start()

        async def is_back() -> bool:
            bootstrap = late_broker.settings.kafka_bootstrap_servers
            records = await asyncio.to_thread(read_all, bootstrap, "lost")
            return [event.version for event, _ in records][:1] == [1]

        await eventually(is_back, within=25)
        assert await asyncio.to_thread(read_all, late_broker.settings.kafka_bootstrap_servers, "kept") == []
        upstream.settle(lost["event_id"])

        async def settled() -> bool:
            return (await queue())["unsettled"] == 0

        await eventually(settled)
