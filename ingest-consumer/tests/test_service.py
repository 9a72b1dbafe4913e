"""The process itself: `python -m cairn_ingest_consumer` between a real broker and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import httpx
import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from index_state import actual, expected
from ingest_fakes import EmbedderServer, deleted, runbook, source_event, upserted, vector_of

from cairn_local.testing import TopicFactory
from cairn_shared.api.embedding import EmbedRequest, EmbedResponse
from cairn_shared.crashpoints import CONSUMER_POINTS
from cairn_shared.events import Event, dead_letter_topic
from cairn_shared.kafka.dead_letters import details, original_headers
from cairn_shared.kafka.producer import EventProducer, open_producer
from cairn_shared.kafka.records import Headers, Record
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


def origin(letter: Record) -> tuple[int, int]:
    """Partition and offset of the record that a dead letter is of."""
    said = details(letter.headers)
    return int(said["original.partition"]), int(said["original.offset"])


class Stack:
    """A topic, its settings, and consumers over them."""

    def __init__(self, environment: dict[str, str], topic: str, producer: EventProducer, pool: Pool) -> None:
        self.environment = environment
        self.topic = topic
        self.producer = producer
        self.pool = pool

    async def unsettled(self, events: Sequence[Event]) -> set[uuid.UUID]:
        """Those of `events` that the ledger does not know."""
        ids = [event.event_id for event in events]
        rows = await self.pool.fetch("SELECT event_id FROM ingest_ledger WHERE event_id = ANY($1)", ids)
        return set(ids) - {row["event_id"] for row in rows}

    async def settled(self, events: Sequence[Event], seconds: float = 40) -> None:
        async def check() -> bool:
            return not await self.unsettled(events)

        await eventually(check, seconds)

    def dead_letters(self) -> list[Record]:
        """Everything on the dead letter topic, as the console reads it."""
        topic = dead_letter_topic(self.topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.environment["KAFKA_BOOTSTRAP_SERVERS"],
                "group.id": "reader",
                "enable.partition.eof": True,
            }
        )
        found: list[Record] = []
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
            ends = 0
            while ends < 2:
                message = consumer.poll(10)
                assert message is not None
                if message.error():
                    ends += 1
                else:
                    headers = cast("Headers", tuple(message.headers() or ()))
                    found.append(Record(topic, message.partition() or 0, 0, message.key(), message.value(), headers))
        finally:
            consumer.close()
        return found

    def committed(self) -> int:
        """The sum of committed offsets of the topic."""
        return sum(self.committed_offsets())

    def committed_offsets(self) -> list[int]:
        """Those of partitions 0 and 1."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.environment["KAFKA_BOOTSTRAP_SERVERS"],
                "group.id": self.environment["CONSUMER_GROUP"],
            }
        )
        try:
            offsets = consumer.committed([TopicPartition(self.topic, number) for number in range(2)], timeout=10)
            return [max(0, partition.offset) for partition in offsets]
        finally:
            consumer.close()

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
            "CONSUMER_SESSION_TIMEOUT": "2",  # how long everybody waits for one who died
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


async def test_poison_at_the_first_middle_and_last_place_becomes_whole_dead_letters_and_harms_nobody(
    stack: Stack,
) -> None:
    good = [upserted(runbook(f"r{n}", f"step {n}"), 1) for n in range(9)]
    unstorable = source_event("OPS-1", 1, body="nul \0 byte")
    poison: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k1", b"\x00\xff not json", [("a", b"1"), ("a", None), ("event-id", b"\xff")]),
        (None, None, []),
        (unstorable.key(), unstorable.encode(), [*unstorable.headers("00-" + "a" * 32 + "-" + "b" * 16 + "-01")]),
    ]

    async def produce(index: int) -> None:
        key, value, headers = poison[index]
        await stack.producer.send(stack.topic, key=key, value=value, headers=headers)

    await produce(0)
    await stack.send(*good[:5])
    await produce(1)
    await stack.send(*good[5:])
    await produce(2)
    async with stack.consumer():
        await stack.settled([*good, unstorable])

        async def all_committed() -> bool:
            return await asyncio.to_thread(stack.committed) == len(good) + len(poison)

        await eventually(all_committed)
    assert await actual(stack.pool) == expected(good)
    letters = await asyncio.to_thread(stack.dead_letters)
    assert {(letter.key, letter.value, original_headers(letter.headers)) for letter in letters} == {
        (key, value, tuple(headers)) for key, value, headers in poison
    }
    by_value = {letter.value: details(letter.headers) for letter in letters}
    assert len(letters) == 3
    assert by_value[None]["original.value-null"] == "true"
    assert (by_value[None]["stage"], by_value[None]["class"]) == ("decode", "permanent")
    assert by_value[unstorable.encode()]["stage"] == "validate"
    assert by_value[unstorable.encode()]["original.topic"] == stack.topic


async def test_a_record_that_is_large_until_it_is_compressed_becomes_a_dead_letter_like_any_other(stack: Stack) -> None:
    """Whoever writes to Kafka directly may compress; a dead letter that no client would send holds up its partition."""
    value = b"0" * 6_000_000
    others = Producer(
        {
            "bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP_SERVERS"],
            "compression.type": "lz4",
            "message.max.bytes": 10_000_000,
            "log_level": 0,
        }
    )
    others.produce(stack.topic, key=b"large", value=value, partition=0)
    assert others.flush(30) == 0
    good = upserted(runbook("r", "step"), 1)
    await stack.send(good)
    async with stack.consumer():
        await stack.settled([good])

        async def all_committed() -> bool:
            return await asyncio.to_thread(stack.committed) == 2

        await eventually(all_committed)
    [letter] = await asyncio.to_thread(stack.dead_letters)
    assert letter.value == value


QUICK_POINTS = ("after_embed", "in_transaction", "after_write", "after_dead_letter")


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [QUICK_POINTS, pytest.param(CONSUMER_POINTS, marks=[pytest.mark.chaos, pytest.mark.timeout(600)])],
    ids=["quick", "all"],
)
async def test_a_process_that_dies_at_any_point_loses_nothing_and_leaves_no_half(
    stack: Stack, points: Sequence[str]
) -> None:
    """Each point is passed by a batch with edits, a delete and a poison record; then the process is dead."""
    events: list[Event] = []
    poison: list[Event] = []
    sent: list[tuple[int, int]] = []
    begins = [0, 0]
    for number, point in enumerate(points, start=1):
        new = [upserted(runbook(f"r{n}", f"step {n} at {number}", "same"), number) for n in range(4)]
        new.append(deleted("r9", number) if number % 2 else upserted(runbook("r9", "back"), number))
        bad = source_event(f"OPS-{number}", 1, body="\0")
        await stack.send(*new, bad)
        events += new
        poison.append(bad)
        async with stack.consumer(CAIRN_CRASHPOINT=point) as (process, _):
            if point in ("before_drain", "after_drain"):
                await stack.settled(events)
                process.terminate()
            assert await asyncio.wait_for(process.wait(), 60) == (-signal.SIGKILL), point
        before, sent = sent, [origin(letter) for letter in await asyncio.to_thread(stack.dead_letters)]
        for partition, offset in Counter(sent) - Counter(before):
            assert offset >= begins[partition], f"{point}: what was committed was done again"
        begins = await asyncio.to_thread(stack.committed_offsets)
    async with stack.consumer():
        await stack.settled([*events, *poison], 60)

        async def all_committed() -> bool:
            return await asyncio.to_thread(stack.committed) == len(events) + len(poison)

        await eventually(all_committed)
    assert await actual(stack.pool) == expected(events)
    letters = await asyncio.to_thread(stack.dead_letters)
    assert {letter.value for letter in letters} == {event.encode() for event in poison}
    ids = [details(letter.headers)["id"] for letter in letters]
    assert len(set(ids)) == len(poison), "one failure is one dead letter, however often it was sent"
    assert await stack.pool.fetchval("SELECT count(*) FROM ingest_attempts") == 0


async def test_a_replica_that_dies_while_it_re_embeds_is_followed_by_another_and_records_flow_all_along(
    stack: Stack,
) -> None:
    events = [upserted(runbook(f"r{n}", f"step {n}", "same"), 1) for n in range(20)]
    await stack.send(*events)
    new, may_go_on = EmbedderServer("new@1", 768), asyncio.Event()

    async def slowly(request: EmbedRequest, response: EmbedResponse) -> None:
        if len(new.requests) > 2:
            await may_go_on.wait()

    new.answer = slowly

    async def switched() -> bool:
        return bool(await stack.pool.fetchval("SELECT fingerprint = 'new@1' FROM corpus_state"))

    async def begun() -> bool:
        return bool(await stack.pool.fetchval("SELECT count(*) >= 8 FROM chunk_embeddings_768"))

    async with new.running() as url:
        change = {"EMBEDDER_NEXT_URL": url, "REBUILD_INTERVAL": "0.2", "REBUILD_BATCH": "4"}
        async with stack.consumer():
            await stack.settled(events)
        async with stack.consumer(**change) as (process, _):
            await eventually(begun)
            edits = [upserted(runbook("r1", "edited"), 2), deleted("r2", 2)]
            await stack.send(*edits)
            await stack.settled(edits)
            assert not await switched()
            process.kill()
            await process.wait()
        kept = await stack.pool.fetchval("SELECT count(*) FROM chunk_embeddings_768")
        may_go_on.set()
        seen = sum(len(request.texts) for request in new.requests)
        async with stack.consumer(**change):
            await eventually(switched)
        asked = sum(len(request.texts) for request in new.requests) - seen
    assert await actual(stack.pool) == expected([*events, *edits]), "the former space is kept right as well"
    assert asked <= 37 - kept, "what was embedded before the death is not embedded again"
    rows = await stack.pool.fetch(
        "SELECT embed_text, embedding FROM chunks LEFT JOIN chunk_embeddings_768 USING (chunk_id)"
    )
    assert len(rows) == 37
    for row in rows:
        assert np.allclose(row["embedding"].to_numpy(), vector_of(row["embed_text"], "new@1", 768), atol=1e-3)
