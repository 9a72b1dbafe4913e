"""Invariant I1: what was accepted is kept until Kafka has it, or (INBOX=always) until the index says so."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest

from cairn_gateway.accept import Accepter, AcceptPolicy
from cairn_gateway.adapters.mongo_spool import MongoSpool, SpoolPolicy
from cairn_gateway.metrics import Metrics
from cairn_gateway.model import Entry
from cairn_gateway.relay import Relay, RelayPolicy
from cairn_gateway.settle import SettlePolicy, Settler
from cairn_shared import mongo
from cairn_shared.api.index import LedgerEntry, LedgerState
from cairn_shared.errors import TooLarge, TransientError, Unavailable
from cairn_shared.events import Event, SourceDocument, decode, make_event

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import StillClock

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class ForgetfulKafka:
    """A broker in memory: `away` refuses, `slow` never answers, `forget` loses its log."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.values: list[bytes] = []
        self.away = False
        self.slow = False
        self.tried = 0

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        self.tried += 1
        if self.slow:
            await asyncio.Event().wait()
        if self.away:
            raise Unavailable("kafka")
        self.log.append(key.decode())
        self.values.append(value)


class KnownLedger:
    """The index's ledger as a dictionary."""

    def __init__(self) -> None:
        self.known: dict[uuid.UUID, LedgerEntry] = {}
        self.away = False

    def settle(self, event: Event, state: LedgerState = "searchable") -> None:
        self.known[event.event_id] = LedgerEntry(
            event_id=event.event_id, state=state, document_id=None, version=1, accepted_at=None, settled_at=NOW
        )

    async def ledger(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, LedgerEntry]:
        if self.away:
            raise Unavailable("retriever")
        return {event_id: self.known[event_id] for event_id in event_ids if event_id in self.known}


class KeptReceipts:
    def __init__(self) -> None:
        self.first: dict[uuid.UUID, datetime] = {}

    async def remember(self, accepted: Mapping[uuid.UUID, datetime]) -> None:
        self.first = {**accepted, **self.first}

    async def recall(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]:
        return {event_id: self.first[event_id] for event_id in event_ids if event_id in self.first}


class World:
    """Inbox, relay, settler and accepter over one clock."""

    def __init__(
        self, database: mongo.Database, clock: StillClock, metrics: Metrics, mode: Literal["fallback", "always"]
    ) -> None:
        self.clock, self.kafka, self.ledger, self.receipts = clock, ForgetfulKafka(), KnownLedger(), KeptReceipts()
        self.inbox = MongoSpool(database["inbox"], clock, SpoolPolicy(timedelta(hours=1), settles=mode == "always"))
        self.relay = Relay([self.inbox], self.kafka, clock, metrics, RelayPolicy())
        self.settler = Settler(
            spools=[self.inbox],
            index=self.ledger,
            clock=clock,
            metrics=metrics,
            policy=SettlePolicy(republish_after=10),
            wake=self.relay.wake,
        )
        self.accepter = Accepter(
            publisher=self.kafka,
            inbox=self.inbox,
            receipts=self.receipts,
            wake=self.relay.wake,
            clock=clock,
            metrics=metrics,
            policy=AcceptPolicy(mode, kafka_timeout=0.05, rest=5, max_event_bytes=2000),
        )

    async def state_of(self, event: Event) -> Entry | None:
        return (await self.inbox.find([event.event_id])).get(event.event_id)


def event(name: str = "a", body: str = "") -> Event:
    return make_event(
        "alert",
        source="alertmanager",
        source_id=name,
        subject=name,
        version=1,
        occurred_at=NOW,
        accepted_at=NOW,
        payload=SourceDocument(title=name, body=body),
    )


@pytest.fixture
async def world(database: mongo.Database, clock: StillClock, metrics: Metrics) -> World:
    made = World(database, clock, metrics, "always")
    await made.inbox.ensure_indexes()
    return made


@pytest.fixture
async def fallback(database: mongo.Database, clock: StillClock, metrics: Metrics) -> World:
    made = World(database, clock, metrics, "fallback")
    await made.inbox.ensure_indexes()
    return made


async def test_with_a_durable_broker_events_go_straight_to_kafka(fallback: World) -> None:
    accepted = await fallback.accepter.accept([event("a"), event("b")])
    assert accepted == [event("a").event_id, event("b").event_id]
    assert fallback.kafka.log == ["a", "b"]
    assert await fallback.state_of(event("a")) is None
    assert list(fallback.receipts.first) == accepted


@pytest.mark.parametrize("how", ["away", "slow"])
async def test_without_kafka_events_go_to_the_inbox_and_later_to_kafka(fallback: World, how: str) -> None:
    setattr(fallback.kafka, how, True)
    await fallback.accepter.accept([event("a")])
    entry = await fallback.state_of(event("a"))
    assert entry is not None
    assert entry.state == "pending"
    setattr(fallback.kafka, how, False)
    await fallback.relay.drain(term=1)
    assert fallback.kafka.log == ["a"]


async def test_after_a_failure_kafka_is_left_alone_for_a_while(fallback: World) -> None:
    fallback.kafka.away = True
    for name in "abc":
        await fallback.accepter.accept([event(name)])
    assert fallback.kafka.tried == 1
    fallback.kafka.away = False
    fallback.clock.advance(6)
    await fallback.accepter.accept([event("d")])
    assert fallback.kafka.log == ["d"]


async def test_without_kafka_and_mongodb_nothing_is_accepted(fallback: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: Sequence[Event]) -> None:
        raise Unavailable("mongo")

    fallback.kafka.away = True
    monkeypatch.setattr(fallback.inbox, "add", away)
    with pytest.raises(Unavailable):
        await fallback.accepter.accept([event("a")])


async def test_an_event_that_kafka_cannot_take_is_refused_and_none_of_its_batch_is_accepted(fallback: World) -> None:
    with pytest.raises(TooLarge):
        await fallback.accepter.accept([event("a"), event("b", body="x" * 3000)])
    assert fallback.kafka.log == []


async def test_a_redelivered_event_waits_once(world: World) -> None:
    await world.accepter.accept([event("a")])
    await world.accepter.accept([event("a"), event("b")])
    await world.relay.drain(term=1)
    assert sorted(world.kafka.log) == ["a", "b"]


async def test_what_came_later_is_later_and_what_comes_again_keeps_its_place(fallback: World) -> None:
    def at(name: str, second: float) -> Event:
        return event(name).model_copy(update={"accepted_at": NOW + timedelta(seconds=second)})

    await fallback.accepter.accept([at("first", 0), at("beside it", 0)])
    await fallback.accepter.accept([at("second", 1)])
    await fallback.accepter.accept([at("first", 2)])  # the sender delivers it again
    first, beside, second, again = (decode(value) for value in fallback.kafka.values)
    assert first.arrived < beside.arrived < second.arrived
    assert again.arrived == first.arrived


async def test_an_entry_is_kept_until_the_index_has_it(world: World) -> None:
    await world.accepter.accept([event("a"), event("b")])
    assert world.kafka.log == []
    await world.relay.drain(term=1)
    world.ledger.settle(event("a"), "superseded")
    world.clock.advance(1)
    await world.settler.settle(world.inbox)
    settled, open_one = await world.state_of(event("a")), await world.state_of(event("b"))
    assert settled is not None
    assert open_one is not None
    assert (settled.state, settled.outcome, open_one.state) == ("settled", "superseded", "published")


async def test_what_the_broker_forgot_is_published_again_until_the_index_has_it(world: World) -> None:
    await world.accepter.accept([event("a")])
    await world.relay.drain(term=1)
    world.kafka.log.clear()  # it restarted, its log was in memory
    for _ in range(15):
        world.clock.advance(1)
        await world.settler.settle(world.inbox)
        await world.relay.drain(term=1)
    assert world.kafka.log == ["a"], "once after ten seconds, not at every look"
    world.ledger.settle(event("a"))
    for _ in range(40):
        world.clock.advance(5)
        await world.settler.settle(world.inbox)
        await world.relay.drain(term=1)
    assert world.kafka.log == ["a"]
    entry = await world.state_of(event("a"))
    assert entry is not None
    assert (entry.state, entry.attempts) == ("settled", 2)


async def test_a_backlog_that_moves_is_not_published_again(world: World) -> None:
    """Sixty seconds behind, one after the other: adding each once more would make it two minutes, then four."""
    events = [event(f"e{number}") for number in range(60)]
    await world.accepter.accept(events)
    await world.relay.drain(term=1)
    for one in events:
        world.ledger.settle(one)
        world.clock.advance(1)
        await world.settler.settle(world.inbox)
        await world.relay.drain(term=1)
    assert len(world.kafka.log) == 60


async def test_what_was_overtaken_is_lost_and_published_again(world: World) -> None:
    await world.accepter.accept([event("lost")])
    await world.relay.drain(term=1)
    for number in range(20):
        world.clock.advance(1)
        one = event(f"later{number}")
        await world.accepter.accept([one])
        await world.relay.drain(term=1)
        world.ledger.settle(one)
        world.clock.advance(0.5)
        await world.settler.settle(world.inbox)
        await world.relay.drain(term=1)
    assert world.kafka.log.count("lost") == 2
    assert len(world.kafka.log) == 22


async def test_an_entry_that_never_settles_is_published_again_less_and_less_often(world: World) -> None:
    await world.accepter.accept([event("a")])
    times = []
    for second in range(200):
        before = len(world.kafka.log)
        await world.relay.drain(term=1)
        if len(world.kafka.log) > before:
            times.append(second)
        world.clock.advance(1)
        await world.settler.settle(world.inbox)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(waits) >= 3
    assert waits[0] >= 10
    assert all(longer >= 1.5 * shorter for shorter, longer in pairwise(waits))


async def test_while_the_retriever_is_away_nothing_is_settled_or_published_again(world: World) -> None:
    await world.accepter.accept([event("a")])
    await world.relay.drain(term=1)
    world.ledger.away = True
    world.clock.advance(100)
    with pytest.raises(TransientError):
        await world.settler.settle(world.inbox)
    entry = await world.state_of(event("a"))
    assert entry is not None
    assert entry.state == "published"


async def drained(world: World) -> None:
    while await world.relay.drain(term=1):
        pass


async def test_a_large_delivery_is_a_few_writes_and_every_event_reaches_kafka_once(
    world: World, database: mongo.Database
) -> None:
    events = [event(f"e{number}") for number in range(250)]
    await world.accepter.accept(events)
    assert await database["inbox"].count_documents({}) == 3
    assert (await world.inbox.depth()).pending == 250
    known = await world.inbox.find([one.event_id for one in events])
    assert {entry.state for entry in known.values()} == {"pending"}
    assert len(known) == 250
    await drained(world)
    assert sorted(world.kafka.log) == sorted(one.subject for one in events)
    assert (await world.inbox.depth()).pending == 0


async def test_a_large_delivery_that_is_sent_again_meanwhile_reaches_kafka_once(world: World) -> None:
    events = [event(f"e{number}") for number in range(150)]
    await world.accepter.accept(events)
    assert len(await world.inbox.pending(10)) == 10, "the first parcel is unpacked"
    await world.accepter.accept(events)
    await drained(world)
    await world.accepter.accept(events)
    await drained(world)
    assert sorted(world.kafka.log) == sorted(one.subject for one in events)


async def test_a_parcel_is_unpacked_in_its_turn_though_there_is_always_something_else(world: World) -> None:
    await world.accepter.accept([event(f"e{number}") for number in range(101)])
    for number in range(3):
        world.clock.advance(1)
        await world.accepter.accept([event(f"later{number}-{one}") for one in range(20)])
    found = await world.inbox.pending(20)
    assert found[0].subject.startswith("e")
