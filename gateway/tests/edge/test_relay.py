"""The relay over real MongoDB and a scripted Kafka: order, crashes, outages, refusals, several relays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from cairn_gateway.adapters.mongo_spool import MongoSpool, SpoolPolicy
from cairn_gateway.adapters.mongo_wakeups import MongoWakeups
from cairn_gateway.metrics import Metrics
from cairn_gateway.relay import Relay, RelayPolicy
from cairn_shared import mongo
from cairn_shared.clock import SystemClock
from cairn_shared.errors import CairnError, TooLarge, Unavailable
from cairn_shared.events import decode
from cairn_shared.retry import Backoff
from cairn_shared.runbooks.model import Runbook, Step
from cairn_shared.runbooks.outbox import OUTBOX
from cairn_shared.runbooks.store import RunbookStore

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually

QUICK = RelayPolicy(batch=500, poll_interval=0.05, backoff=Backoff(base=0.01, limit=0.02))


class ScriptedKafka:
    """Keeps what it is given, unless `fate` has an error for it."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int]] = []
        self.fate: Callable[[str, int], CairnError | None] = lambda _key, _version: None
        self.pause = 0.0

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        event = decode(value)
        assert topic == "cairn.runbooks.v1"
        assert dict(headers)["event-id"] == str(event.event_id).encode()
        await asyncio.sleep(self.pause)
        if error := self.fate(key.decode(), event.version):
            raise error
        self.records.append((key.decode(), event.version))

    def versions(self, key: str) -> list[int]:
        return [version for name, version in self.records if name == key]


@pytest.fixture
def kafka() -> ScriptedKafka:
    return ScriptedKafka()


@pytest.fixture
def spool(database: mongo.Database) -> MongoSpool:
    return MongoSpool(database[OUTBOX], SystemClock(), SpoolPolicy(keep=timedelta(days=7), settles=False))


@pytest.fixture
def relay(spool: MongoSpool, kafka: ScriptedKafka, metrics: Metrics) -> Relay:
    return Relay([spool], kafka, SystemClock(), metrics, QUICK)


async def write(store: RunbookStore, name: str, times: int = 1) -> None:
    for number in range(times):
        book = Runbook(id=name, title=name, steps=[Step(number=1, label="1", body=f"{number}")])
        await store.put(book, markdown=None, by="test")


async def states(database: mongo.Database) -> dict[str, int]:
    groups = database[OUTBOX].aggregate([{"$group": {"_id": "$state", "n": {"$sum": 1}}}])
    return {group["_id"]: group["n"] async for group in groups}


async def test_revisions_of_a_runbook_reach_kafka_in_order(
    store: RunbookStore, relay: Relay, kafka: ScriptedKafka, database: mongo.Database
) -> None:
    await asyncio.gather(*(write(store, f"book-{number}", times=4) for number in range(5)))
    assert await relay.drain(term=1) == 20
    assert all(kafka.versions(f"book-{number}") == [1, 2, 3, 4] for number in range(5))
    assert await states(database) == {"published": 20}
    assert await relay.drain(term=1) == 0


async def test_what_follows_a_failure_waits_and_other_runbooks_do_not(
    store: RunbookStore, relay: Relay, kafka: ScriptedKafka, database: mongo.Database
) -> None:
    await write(store, "a", times=3)
    await write(store, "b", times=2)
    kafka.fate = lambda key, version: Unavailable("kafka") if (key, version) == ("a", 2) else None
    with pytest.raises(Unavailable):
        await relay.drain(term=1)
    assert (kafka.versions("a"), kafka.versions("b")) == ([1], [1, 2])
    assert await states(database) == {"published": 3, "pending": 2}
    kafka.fate = lambda _key, _version: None
    await relay.drain(term=1)
    assert kafka.versions("a") == [1, 2, 3]


async def test_a_crash_between_acknowledgement_and_mark_repeats_the_record_and_loses_none(
    store: RunbookStore, relay: Relay, spool: MongoSpool, kafka: ScriptedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(store, "a", times=2)

    async def crash(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(spool, "mark_published", crash)
        with pytest.raises(asyncio.CancelledError):
            await relay.drain(term=1)
    await relay.drain(term=2)
    assert kafka.versions("a") == [1, 2, 1, 2]
    assert await relay.drain(term=2) == 0


async def test_while_kafka_is_away_the_outbox_waits_and_then_catches_up(
    store: RunbookStore, relay: Relay, kafka: ScriptedKafka, database: mongo.Database, eventually: Eventually
) -> None:
    kafka.fate = lambda _key, _version: Unavailable("kafka")
    running = asyncio.create_task(relay.run(term=1))
    await write(store, "a", times=3)
    await asyncio.sleep(0.2)
    assert await states(database) == {"pending": 3}
    kafka.fate = lambda _key, _version: None

    async def caught_up() -> bool:
        return await states(database) == {"published": 3}

    await eventually(caught_up)
    running.cancel()
    assert kafka.versions("a") == [1, 2, 3]


async def test_an_entry_that_kafka_can_never_take_is_refused_and_holds_nothing_up(
    store: RunbookStore, relay: Relay, kafka: ScriptedKafka, database: mongo.Database
) -> None:
    await write(store, "a", times=3)
    kafka.fate = lambda _key, version: TooLarge("too large") if version == 2 else None
    await relay.drain(term=1)
    assert kafka.versions("a") == [1, 3]
    refused = await database[OUTBOX].find_one({"state": "refused"})
    assert refused is not None
    assert (refused["version"], refused["detail"], refused["outcome"]) == (2, "too large", "dead")


async def test_two_relays_at_once_only_repeat_records(
    store: RunbookStore, spool: MongoSpool, kafka: ScriptedKafka, metrics: Metrics, database: mongo.Database
) -> None:
    kafka.pause = 0.001
    await asyncio.gather(*(write(store, f"book-{number}", times=3) for number in range(4)))
    relays = [Relay([spool], kafka, SystemClock(), metrics, QUICK) for _ in range(2)]
    await asyncio.gather(*(one.drain(term=number) for number, one in enumerate(relays)))
    for number in range(4):
        assert set(kafka.versions(f"book-{number}")) == {1, 2, 3}
    assert await states(database) == {"published": 12}


async def test_published_entries_expire_and_waiting_ones_do_not(
    store: RunbookStore, relay: Relay, database: mongo.Database
) -> None:
    await write(store, "a")
    await relay.drain(term=7)
    await write(store, "b")
    published = await database[OUTBOX].find_one({"subject": "a"})
    waiting = await database[OUTBOX].find_one({"subject": "b"})
    assert published is not None
    assert waiting is not None
    assert published["expires_at"] - published["published_at"] == timedelta(days=7)
    assert (published["attempts"], published["term"], "expires_at" in waiting) == (1, 7, False)


async def test_a_write_by_another_process_wakes_the_relay_through_the_change_stream(
    database: mongo.Database, store: RunbookStore, eventually: Eventually
) -> None:
    woken: list[int] = []
    watching = asyncio.create_task(MongoWakeups(database, (OUTBOX,), SystemClock(), lambda: woken.append(1)).run())

    async def awake() -> bool:
        return bool(woken)

    await eventually(awake)  # once at the beginning, for what was missed
    woken.clear()
    await write(store, "a")
    await eventually(awake, within=2.0)
    watching.cancel()


async def test_a_wake_up_does_not_wait_for_the_poll(
    store: RunbookStore, spool: MongoSpool, kafka: ScriptedKafka, metrics: Metrics, eventually: Eventually
) -> None:
    patient = Relay([spool], kafka, SystemClock(), metrics, RelayPolicy(poll_interval=60))
    running = asyncio.create_task(patient.run(term=1))
    await asyncio.sleep(0.05)
    await write(store, "a")
    patient.wake()

    async def there() -> bool:
        return kafka.versions("a") == [1]

    await eventually(there, within=1.0)
    running.cancel()
