"""One batch's story: what is counted, handed over, dead-lettered, and in which order."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from ingest_fakes import record_of, source_event
from prometheus_client import CollectorRegistry

from cairn_ingest_consumer.ingest import CrashPolicy, Ingest
from cairn_ingest_consumer.isolation import Isolation
from cairn_ingest_consumer.limits import PoisonLimit, PoisonPolicy
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import Delivery
from cairn_shared.clock import SystemClock
from cairn_shared.errors import PermanentError, Unavailable
from cairn_shared.kafka.dead_letters import Failure
from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.records import Record

EVENTS = [source_event(f"A-{n}", 1) for n in range(10)]
RECORDS = [record_of(event, offset) for offset, event in enumerate(EVENTS)]


@dataclass
class World:
    """Every port of `Ingest`, with a journal of what happened in order."""

    journal: list[str] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    dead: dict[int, tuple[Record, Failure]] = field(default_factory=dict)
    ledger: dict[int, tuple[uuid.UUID | None, str]] = field(default_factory=dict)
    handled: set[int] = field(default_factory=set)
    failing: dict[int, Exception] = field(default_factory=dict)
    dead_letters_down: bool = False
    policy: PoisonPolicy = field(default_factory=PoisonPolicy)

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ingest = Ingest(
            dict.fromkeys(["ticket", "comment"], self),
            attempts=self,
            dead_letters=self,
            ledger=Ledger(self),
            metrics=IngestMetrics(self.registry),
            clock=SystemClock(),
            isolation=Isolation(),
            limit=PoisonLimit(self.policy),
            crashes=CrashPolicy(suspect_after=3, convict_after=6),
        )

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        offsets = [delivery.record.offset for delivery in deliveries]
        self.journal.append(f"handle {offsets}")
        for offset in offsets:
            if offset in self.failing:
                raise self.failing[offset]
        self.handled |= set(offsets)

    async def begin(self, records: Sequence[Record]) -> dict[int, int]:
        self.journal.append(f"begin {[r.offset for r in records]}")
        for record in records:
            self.counts[record.offset] = self.counts.get(record.offset, 0) + 1
        return {record.offset: self.counts[record.offset] for record in records}

    async def forgive(self, records: Sequence[Record]) -> None:
        self.journal.append("forgive")
        for record in records:
            self.counts[record.offset] -= 1

    async def end(self, records: Sequence[Record]) -> None:
        self.journal.append(f"end {[r.offset for r in records]}")
        for record in records:
            self.counts.pop(record.offset, None)

    async def send(self, record: Record, failure: Failure) -> None:
        if self.dead_letters_down:
            raise Unavailable("kafka")
        self.journal.append(f"dead letter {record.offset}")
        self.dead[record.offset] = (record, failure)

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


@dataclass
class Ledger:
    world: World

    async def dead(self, record: Record, event_id: uuid.UUID | None, detail: str) -> None:
        self.world.journal.append(f"ledger {record.offset}")
        self.world.ledger[record.offset] = (event_id, detail)


def spoiled(offset: int, **changes: object) -> list[Record]:
    """The batch with one record changed."""
    return [replace(record, **changes) if record.offset == offset else record for record in RECORDS]  # type: ignore[arg-type]


async def test_a_good_batch_is_counted_handled_and_forgotten() -> None:
    world = World()
    await world.ingest.handle(RECORDS)
    everything = list(range(10))
    assert world.journal == [f"begin {everything}", f"handle {everything}", f"end {everything}"]


@pytest.mark.parametrize("position", [0, 4, 9])
@pytest.mark.parametrize(
    ("value", "stage"),
    [
        (b"not json", "decode"),
        (b"", "decode"),
        (None, "decode"),
        (b"\xff\xfe", "decode"),
        (b'{"event_id": 3}', "decode"),
        (b"[" * 100_000, "decode"),
        (EVENTS[0].model_copy(update={"schema_version": 99}).encode(), "decode"),
        (EVENTS[0].model_copy(update={"type": "alert"}).encode(), "validate"),
        (EVENTS[0].encode().replace(b'"A-0"', b'"\\ud800"'), "decode"),
    ],
    ids=["text", "empty", "null", "utf8", "shape", "deep", "schema", "no-handler", "surrogate"],
)
async def test_a_record_that_cannot_be_read_is_dead_lettered_and_the_others_are_handled(
    position: int, value: bytes | None, stage: str
) -> None:
    world = World()
    batch = spoiled(position, value=value)
    await world.ingest.handle(batch)
    assert world.dead.keys() == {position}
    record, failure = world.dead[position]
    assert record is batch[position], "the very record, not a copy of its parts"
    assert (failure.stage, failure.kind, failure.attempts) == (stage, "permanent", 1)
    assert world.handled == set(range(10)) - {position}
    assert world.journal[-1] == f"end {list(range(10))}"


async def test_two_bad_records_in_one_batch_both_find_their_way() -> None:
    world = World(failing={3: PermanentError("bad", stage="write")})
    await world.ingest.handle(spoiled(7, value=b"?"))
    assert world.dead.keys() == {3, 7}
    assert world.handled == set(range(10)) - {3, 7}


async def test_good_records_are_done_before_the_bad_are_buried_and_the_ledger_follows_the_acknowledgement() -> None:
    world = World(failing={3: PermanentError("bad", stage="write")})
    await world.ingest.handle(RECORDS)
    assert world.journal[-3:] == ["dead letter 3", "ledger 3", f"end {list(range(10))}"]
    assert world.ledger[3] == (EVENTS[3].event_id, "write: bad")
    labels = {"topic": "cairn.events.v1", "class": "permanent", "stage": "write"}
    assert world.metric("cairn_ingest_dead_letters_total", **labels) == 1


async def test_the_ledger_takes_the_event_id_from_the_header_when_the_value_is_broken() -> None:
    world = World()
    await world.ingest.handle(spoiled(2, value=b"?"))
    assert world.ledger[2][0] == EVENTS[2].event_id


async def test_a_broken_record_without_an_id_is_dead_lettered_all_the_same() -> None:
    world = World()
    await world.ingest.handle(spoiled(2, value=b"?", headers=(("event-id", b"\xff"),)))
    assert world.ledger[2][0] is None
    assert world.dead.keys() == {2}


async def test_an_unacknowledged_dead_letter_keeps_the_batch_unfinished() -> None:
    world = World(failing={3: PermanentError("bad", stage="write")}, dead_letters_down=True)
    with pytest.raises(Unavailable):
        await world.ingest.handle(RECORDS)
    assert not world.ledger
    assert not any(entry.startswith("end") for entry in world.journal)
    assert world.metric("cairn_ingest_dead_letter_failures_total") == 1
    world.dead_letters_down = False
    await world.ingest.handle(RECORDS)
    assert world.dead.keys() == {3}


async def test_a_store_that_is_away_costs_no_attempt_and_no_dead_letter() -> None:
    world = World(failing={0: Unavailable("postgres")})
    for _ in range(50):
        with pytest.raises(Unavailable):
            await world.ingest.handle(RECORDS)
    assert set(world.counts.values()) == {0}
    assert not world.dead


async def test_a_hand_over_in_the_middle_costs_no_attempt() -> None:
    world = World(failing={0: asyncio.CancelledError()})  # type: ignore[dict-item]
    for _ in range(10):
        with pytest.raises(asyncio.CancelledError):
            await world.ingest.handle(RECORDS)
    assert set(world.counts.values()) == {0}


async def test_after_three_deaths_records_go_one_by_one_and_the_innocent_get_through() -> None:
    world = World(counts=dict.fromkeys(range(10), 3))
    await world.ingest.handle(RECORDS)
    assert [entry for entry in world.journal if entry.startswith("handle")] == [f"handle [{n}]" for n in range(10)]
    assert world.handled == set(range(10))
    assert not world.counts
    assert not world.dead


async def test_the_record_that_kills_the_process_is_buried_untried() -> None:
    world = World(counts={**dict.fromkeys(range(10), 3), 4: 6})
    await world.ingest.handle(RECORDS)
    assert world.dead.keys() == {4}
    _, failure = world.dead[4]
    assert (failure.kind, failure.stage, failure.attempts) == ("crash", "unknown", 6)
    assert world.handled == set(range(10)) - {4}


async def test_a_batch_of_one_that_kills_the_process_is_buried_too() -> None:
    world = World(counts={0: 6})
    await world.ingest.handle(RECORDS[:1])
    assert world.dead.keys() == {0}
    assert not world.handled


async def test_a_run_of_poison_halts_before_the_topic_is_emptied() -> None:
    world = World(policy=PoisonPolicy(max_run=4))
    batch = [replace(record, value=b"?") for record in RECORDS]
    with pytest.raises(ConsumptionHalted):
        await world.ingest.handle(batch)
    assert world.dead.keys() == {0, 1, 2, 3}
    assert not any(entry.startswith("end") for entry in world.journal)
