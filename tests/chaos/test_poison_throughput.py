"""Twenty thousand events with forty that can never be processed: forty dead letters, and no slower for it.

The embedder is a stand-in that answers at once, because the real one would take nearly all of the time.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import psutil
import pytest
from chaos_index import judge
from chaos_load import WORDS, poison
from chaos_log import Raw
from chaos_replicas import Replicas, replicas

from cairn_local.testing import TopicFactory
from cairn_shared.events import Event, SourceDocument, make_event
from cairn_shared.kafka.producer import EventProducer, open_producer
from cairn_shared.settings import KafkaSettings

EVENTS = int(os.environ.get("CHAOS_EVENTS") or "20000")
POISON = 40
RUN_IN = EVENTS // 10
"""Events until the clock starts: replicas do not start at the same moment."""


def event(number: int, chance: random.Random) -> Event:
    return make_event(
        "ticket",
        source="load",
        source_id=str(number),
        subject=f"LOAD-{number}",
        version=1,
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        accepted_at=datetime.now(UTC),
        payload=SourceDocument(title=f"LOAD-{number}", body=" ".join(chance.choices(WORDS, k=20))),
    )


def records(chance: random.Random, bad: int) -> list[Raw]:
    events = [event(number, chance) for number in range(EVENTS)]
    made: list[Raw] = [(one.key(), one.encode(), tuple(one.headers())) for one in events]
    for number in chance.sample(range(EVENTS), bad):
        made[number] = poison(chance, events[number])
    return made


async def produce(producer: EventProducer, topic: str, made: list[Raw]) -> None:
    for first in range(0, len(made), 1000):
        await asyncio.gather(
            *(
                producer.send(topic, key=key, value=value, headers=headers)
                for key, value, headers in made[first : first + 1000]
            )
        )


async def measured(group: Replicas, dsn: str, healthy: int) -> tuple[float, float]:
    """Events a second from the run-in to the end, and CPU seconds of all replicas."""
    connection = await asyncpg.connect(dsn)
    try:
        for member in group.members:
            member.wanted = True
        began: tuple[float, int] | None = None
        async with asyncio.timeout(1200):
            while (
                done := await connection.fetchval("SELECT count(*) FROM ingest_ledger WHERE state <> 'dead'")
            ) < healthy:
                if began is None and done >= RUN_IN:
                    began = time.monotonic(), done
                await asyncio.sleep(0.1)
        ended = time.monotonic()
    finally:
        await connection.close()
    assert began is not None
    spent = sum(sum(psutil.Process(member.pid).cpu_times()[:2]) for member in group.members)
    return (healthy - began[1]) / (ended - began[0]), spent


async def emptied(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("TRUNCATE documents, document_parts, ingest_ledger, ingest_attempts CASCADE")
    finally:
        await connection.close()


@pytest.mark.chaos
async def test_forty_poison_records_among_twenty_thousand_are_forty_dead_letters_and_cost_no_throughput(
    tmp_path: Path,
    kafka_settings: KafkaSettings,
    kafka_topics: TopicFactory,
    postgres_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures: dict[int, list[tuple[float, float]]] = {0: [], POISON: []}

    async def run(bad: int) -> None:
        await emptied(postgres_dsn)
        async with (
            replicas(tmp_path, kafka_settings, kafka_topics, postgres_dsn, count=3, partitions=6) as group,
            open_producer(kafka_settings, "chaos") as producer,
        ):
            await produce(producer, group.topic, records(random.Random(f"poison {bad}"), bad))
            figures[bad].append(await measured(group, postgres_dsn, EVENTS - bad))
            await group.at_rest(120)
            verdict = await judge(postgres_dsn, group.log)
            assert verdict.faults == {}
            assert len(group.log.poison) == bad
            assert len(group.log.letters) == bad, "nothing died, so no dead letter was sent twice"
            assert verdict.parts == EVENTS - bad
            assert verdict.chunks == EVENTS - bad
        with capsys.disabled(), suppress(IndexError):
            rate, spent = figures[bad][-1]
            print(f"\n{EVENTS} events, {bad} poison: {rate:.0f} events/s, {spent:.1f} CPU s of 3 replicas", flush=True)

    await run(0)
    await run(POISON)
    best = {bad: max(rate for rate, _ in runs) for bad, runs in figures.items()}
    if best[POISON] < 0.9 * best[0]:  # a busy machine: once more each
        await run(POISON)
        await run(0)
        best = {bad: max(rate for rate, _ in runs) for bad, runs in figures.items()}
    with capsys.disabled():
        print(f"\nthroughput with poison: {best[POISON] / best[0]:.1%} of that without", flush=True)
    assert best[POISON] >= 0.9 * best[0]
