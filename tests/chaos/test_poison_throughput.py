"""Twenty thousand events with forty that can never be processed: forty dead letters, and no slower for it.

Slices with and without poison take turns over the same replicas, in the order A B B A, so that neither what else the
machine does nor the growth of the index falls on one kind. A turn of four holds the same share of poison as the whole,
and is compared with what it would have taken if all four were like the two without; the median of the turns is what
counts. The embedder is a stand-in that answers at once:
the real one would take nearly all of the time, and hide what poison costs.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx
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
TURN = (False, True, True, False)
"""Which slices have poison."""
TURNS = 10
SLICE = EVENTS // (TURNS * len(TURN))
POISON_EACH = POISON // (TURNS * sum(TURN))
LEAST = 0.9
"""Of the throughput without poison."""


@dataclass(frozen=True)
class Measured:
    """One slice: seconds until its last healthy event was searchable, and of all replicas and their sessions' CPU."""

    with_poison: bool
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Turn:
    """Four slices, against four such as the two without poison: what of the throughput is left, what CPU time it takes."""

    slices: Sequence[Measured]

    @property
    def throughput(self) -> float:
        return 1 / self._against_none("seconds")

    @property
    def cpu(self) -> float:
        return self._against_none("cpu")

    def _against_none(self, what: str) -> float:
        spent = {kind: sum(getattr(one, what) for one in self.slices if one.with_poison is kind) for kind in TURN}
        return float(sum(spent.values()) / (2 * spent[False]))


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


def records(first: int, count: int, bad: int, chance: random.Random) -> list[Raw]:
    events = [event(first + number, chance) for number in range(count)]
    made: list[Raw] = [(one.key(), one.encode(), tuple(one.headers())) for one in events]
    for number in chance.sample(range(count), bad):
        made[number] = poison(chance, events[number])
    return made


async def produce(producer: EventProducer, topic: str, made: Sequence[Raw]) -> None:
    await asyncio.gather(*(producer.send(topic, key=key, value=value, headers=headers) for key, value, headers in made))


async def searchable(connection: asyncpg.Connection[asyncpg.Record], wanted: int) -> None:
    async with asyncio.timeout(600):
        while await connection.fetchval("SELECT count(*) FROM documents WHERE source = 'load'") < wanted:
            await asyncio.sleep(0.05)


async def cpu_seconds(connection: asyncpg.Connection[asyncpg.Record], group: Replicas) -> float:
    """Spent so far by the replicas and by PostgreSQL for them."""
    sessions = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ingest-consumer'"
    )
    pids = [*(member.pid for member in group.members), *(row["pid"] for row in sessions)]
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


async def seconds_of_a_dead_letter(group: Replicas) -> float:
    """From the sending to the acknowledgement, on average, as the replicas tell it."""
    total = {"sum": 0.0, "count": 0.0}
    async with httpx.AsyncClient(trust_env=False) as client:
        for member in group.members:
            text = (await client.get(f"{member.server.address}/metrics")).text
            for name in total:
                found = re.search(rf'stage_seconds_{name}{{stage="dead_letter"}} (\S+)', text)
                total[name] += float(found[1]) if found else 0.0
    return total["sum"] / total["count"]


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_forty_poison_records_among_twenty_thousand_are_forty_dead_letters_and_cost_no_throughput(
    tmp_path: Path,
    kafka_settings: KafkaSettings,
    kafka_topics: TopicFactory,
    postgres_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance = random.Random(f"poison {os.environ.get('SEED') or '1'}")
    connection = await asyncpg.connect(postgres_dsn)
    async with (
        replicas(tmp_path, kafka_settings, kafka_topics, postgres_dsn, count=3, partitions=6) as group,
        open_producer(kafka_settings, "chaos") as producer,
    ):
        for member in group.members:
            member.wanted = True
        await asyncio.gather(*(member.wait_ready(120) for member in group.members))
        sent, healthy = 0, 0

        async def measured(with_poison: bool) -> Measured:
            nonlocal sent, healthy
            bad = POISON_EACH if with_poison else 0
            made = records(sent, SLICE, bad, chance)
            sent, healthy = sent + SLICE, healthy + SLICE - bad
            before, began = await cpu_seconds(connection, group), time.monotonic()
            await produce(producer, group.topic, made)
            await searchable(connection, healthy)
            seconds = time.monotonic() - began
            await group.at_rest(120)
            return Measured(with_poison, seconds, await cpu_seconds(connection, group) - before)

        await measured(with_poison=False)  # to warm up
        turns = [Turn([await measured(with_poison) for with_poison in TURN]) for _ in range(TURNS)]
        verdict = await judge(postgres_dsn, group.log)
        assert verdict.faults == {}
        assert len(group.log.poison) == POISON
        assert len(group.log.letters) == POISON, "nothing died, so no dead letter was sent twice"
        assert verdict.parts == verdict.chunks == healthy
        letter = await seconds_of_a_dead_letter(group)
    await connection.close()
    throughput = statistics.median(turn.throughput for turn in turns)
    cpu = statistics.median(turn.cpu for turn in turns)
    seconds = sum(one.seconds for turn in turns for one in turn.slices)
    with capsys.disabled():
        each = " ".join(f"{turn.throughput:.0%}" for turn in turns)
        print(
            f"\n{EVENTS} events, {POISON} of them poison, {EVENTS / seconds:.0f} events/s; {letter * 1000:.0f} ms a dead"
            f" letter; with poison {throughput:.1%} of the throughput (turns: {each}) and {cpu:.1%} of the CPU time",
            flush=True,
        )
    assert throughput >= LEAST
    assert cpu <= 1 / LEAST
