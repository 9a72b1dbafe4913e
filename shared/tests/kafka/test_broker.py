"""The engine on a real broker: members that join, leave and die, topics that come late, a broker that forgets."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka_member import quick_policy

from cairn_local.migrate import create_topics
from cairn_local.ports import free_port
from cairn_local.programs import start
from cairn_local.stores import tansu
from cairn_local.testing import TopicFactory
from cairn_shared.kafka.confluent import ConfluentConsumer
from cairn_shared.kafka.engine import ConsumerEngine
from cairn_shared.kafka.policy import ConsumerPolicy, GroupProtocol
from cairn_shared.kafka.producer import open_producer
from cairn_shared.kafka.records import Record
from cairn_shared.settings import KafkaSettings

APACHE = os.environ.get("BROKER") == "apache"
MEMBER = Path(__file__).parent / "support" / "kafka_member.py"
each_protocol = pytest.mark.parametrize(
    "protocol",
    ["classic", pytest.param("consumer", marks=pytest.mark.skipif(not APACHE, reason="Tansu has no KIP-848"))],
)


class Collect:
    """Keeps what it is given."""

    def __init__(self, delay: float = 0.0) -> None:
        self.values: list[bytes] = []
        self._delay = delay

    async def handle(self, records: Sequence[Record]) -> None:
        await asyncio.sleep(self._delay)
        self.values += [r.value or b"" for r in records]


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def make_engine(
    settings: KafkaSettings,
    topic: str,
    group: str,
    handler: Collect,
    protocol: GroupProtocol = "classic",
    *,
    policy: ConsumerPolicy | None = None,
) -> ConsumerEngine:
    policy = policy or quick_policy(protocol)
    return ConsumerEngine(
        lambda: ConfluentConsumer(settings, group, f"test-{id(handler)}", policy), [topic], handler, policy=policy
    )


@asynccontextmanager
async def running(engine: ConsumerEngine) -> AsyncIterator[None]:
    task = asyncio.create_task(engine.run())
    try:
        yield
    finally:
        engine.stop()
        await asyncio.wait_for(task, 20)


async def produce(settings: KafkaSettings, topic: str, values: Sequence[bytes]) -> None:
    async with open_producer(settings, "test") as producer:
        await asyncio.gather(*(producer.send(topic, key=value, value=value) for value in values))


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def committed(settings: KafkaSettings, group: str, topic: str, partitions: int) -> int:
    """The sum of committed offsets, which is the number of records in logs that begin at 0."""
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap_servers, "group.id": group})
    try:
        results = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=10)
        return sum(max(0, result.offset) for result in results)
    finally:
        consumer.close()


@each_protocol
async def test_a_member_that_joins_and_one_that_leaves_cause_no_duplicate_and_no_loss(
    kafka_settings: KafkaSettings, kafka_topics: TopicFactory, protocol: GroupProtocol
) -> None:
    topic, group = kafka_topics("clean", partitions=4), new_group()
    values: list[bytes] = []
    first, second = Collect(0.02), Collect(0.02)

    async def keep_producing() -> None:
        while True:
            new = [f"v{n}".encode() for n in range(len(values), len(values) + 20)]
            await produce(kafka_settings, topic, new)
            values.extend(new)
            await asyncio.sleep(0.05)

    producing = asyncio.create_task(keep_producing())
    async with running(make_engine(kafka_settings, topic, group, second, protocol)):
        await until(lambda: len(second.values) > 50)
        async with running(make_engine(kafka_settings, topic, group, first, protocol)):
            await until(lambda: len(first.values) > 50)
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
        await until(lambda: set(values) <= {*first.values, *second.values})
    assert max(Counter(first.values + second.values).values()) == 1
    assert committed(kafka_settings, group, topic, 4) == len(first.values) + len(second.values)


async def test_a_leader_that_ends_while_the_group_forms_leaves_it_able_to_work(
    kafka_settings: KafkaSettings, kafka_topics: TopicFactory
) -> None:
    """Tansu keeps a leader that says goodbye then, and gives nobody anything; one that falls silent it forgets."""
    topic, group = kafka_topics("leader", partitions=4), new_group()
    policy = replace(quick_policy(), leave_group=APACHE)
    leading, staying, joining = Collect(), Collect(), Collect()

    def engine(handler: Collect) -> ConsumerEngine:
        return make_engine(kafka_settings, topic, group, handler, policy=policy)

    async with running(engine(staying)), AsyncExitStack() as later:
        async with running(engine(leading)):
            await produce(kafka_settings, topic, [f"a{n}".encode() for n in range(40)])
            await until(lambda: len(leading.values) + len(staying.values) >= 40)
            await later.enter_async_context(running(engine(joining)))
            await asyncio.sleep(0.2)
        await produce(kafka_settings, topic, [f"b{n}".encode() for n in range(40)])
        await until(lambda: len({v for v in staying.values + joining.values if v.startswith(b"b")}) == 40)


@each_protocol
async def test_nothing_is_lost_when_a_member_is_killed(
    kafka_settings: KafkaSettings, kafka_topics: TopicFactory, tmp_path: Path, protocol: GroupProtocol
) -> None:
    topic, group, handled = kafka_topics("kill", partitions=4), new_group(), tmp_path / "handled"
    values = [f"v{n}".encode() for n in range(600)]
    await produce(kafka_settings, topic, values)
    address = kafka_settings.kafka_bootstrap_servers
    members = [subprocess.Popen([sys.executable, MEMBER, address, topic, group, handled, protocol]) for _ in range(2)]

    def lines() -> list[str]:
        return handled.read_text().splitlines() if handled.exists() else []

    try:
        await until(lambda: len(lines()) > 100)
        members[0].send_signal(signal.SIGKILL)
        await until(lambda: len({line.split()[2] for line in lines()}) == len(values), 90)  # KIP-848: 45 s
        members[1].terminate()
        assert await asyncio.to_thread(members[1].wait, 20) == 0
    finally:
        for member in members:
            member.kill()
            member.wait()
    in_flight = 4 * quick_policy().batch_records + 4 * 200  # handled since the last commit, at most
    assert len(lines()) - len(values) <= in_flight
    assert committed(kafka_settings, group, topic, 4) == len(values)


async def test_a_topic_that_is_created_later_is_found(kafka_settings: KafkaSettings) -> None:
    topic, handler = f"late.{uuid.uuid4().hex[:8]}", Collect()
    async with running(make_engine(kafka_settings, topic, new_group(), handler)):
        await asyncio.sleep(1)
        create_topics(kafka_settings, [NewTopic(topic, num_partitions=1, replication_factor=1)])
        await produce(kafka_settings, topic, [b"here"])
        await until(lambda: handler.values == [b"here"])


@pytest.mark.slow
async def test_a_broker_that_comes_back_empty_is_read_from_the_beginning(tmp_path: Path) -> None:
    port = free_port()
    server = tansu.server(tmp_path / "kafka", port)
    settings = KafkaSettings(kafka_bootstrap_servers=server.address)
    handler = Collect()

    async def up() -> subprocess.Popen[bytes]:
        process = start(server.program, subprocess.DEVNULL)
        for _ in range(200):
            try:
                await asyncio.to_thread(server.probe)
            except Exception:
                await asyncio.sleep(0.05)
            else:
                break
        create_topics(settings, [NewTopic("t", num_partitions=1, replication_factor=1)])
        return process

    server.prepare()
    process = await up()
    try:
        async with running(make_engine(settings, "t", "g", handler)):
            await produce(settings, "t", [b"old-%d" % n for n in range(20)])
            await until(lambda: len(handler.values) == 20)
            process.kill()
            process.wait()
            await asyncio.sleep(1)
            process = await up()
            await produce(settings, "t", [b"new-%d" % n for n in range(5)])
            await until(lambda: handler.values[20:] == [b"new-%d" % n for n in range(5)], 40)
    finally:
        process.kill()
        process.wait()
