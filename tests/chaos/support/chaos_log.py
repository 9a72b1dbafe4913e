"""What the broker holds, read record by record: the truth that the index is compared with.

Every record is judged by the rules of decoding and rendering alone; the highest rank of each part is what the index
must end as, whatever happened on the way.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple, cast

from confluent_kafka import Consumer, TopicPartition

from cairn_ingest_consumer.collapse import Register
from cairn_ingest_consumer.documents import render
from cairn_ingest_consumer.model import MAIN_PART, PartWrite
from cairn_shared.errors import PermanentError
from cairn_shared.events import dead_letter_topic, decode
from cairn_shared.kafka.dead_letters import dead_letter_id, details
from cairn_shared.kafka.records import Headers, Partition


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


Raw = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""


class Letter(NamedTuple):
    """A dead letter: its id, the place and value of the record, and why."""

    id: str
    origin: Place
    value: bytes | None
    reason: str


class BrokerLog:
    """Reads `topics` and their dead letters from the beginning, on and on."""

    def __init__(self, bootstrap: str, topics: Sequence[str], partitions: int, group: str) -> None:
        self._group = group
        self._topics = tuple(topics)
        config = {"bootstrap.servers": bootstrap, "group.id": "chaos-reader", "enable.auto.commit": False}
        self._consumer = Consumer({**config, "auto.offset.reset": "earliest", "log_level": 0})
        self._members = Consumer({**config, "group.id": group, "log_level": 0})
        everything = [*topics, *(dead_letter_topic(topic) for topic in topics)]
        self._consumer.assign([TopicPartition(topic, n, 0) for topic in everything for n in range(partitions)])
        self._ends: dict[Partition, int] = {
            Partition(topic, number): 0 for topic in topics for number in range(partitions)
        }
        self.healthy: dict[Place, uuid.UUID] = {}
        self.poison: dict[Place, bytes | None] = {}
        self.writes: dict[uuid.UUID, PartWrite] = {}
        self.winners: dict[Register, PartWrite] = {}
        self.letters: list[Letter] = []
        self.raw: dict[str, list[Raw]] = {topic: [] for topic in topics}
        self.died: dict[Raw, Place] = {}
        """The records of `poison`, with the last place of each."""

    async def follow(self) -> None:
        """Read until cancelled."""
        while True:
            await asyncio.to_thread(self._read, 0.2)

    async def catch_up(self, seconds: float = 1.0) -> None:
        """Read on until nothing came for `seconds`."""
        quiet = time.monotonic()
        while time.monotonic() - quiet < seconds:
            if await asyncio.to_thread(self._read, 0.2):
                quiet = time.monotonic()

    async def unfinished(self) -> dict[Partition, tuple[int, int]]:
        """Partitions whose committed offset is not the end of the log, with both.

        Raises:
            AssertionError: one lies beyond the end.
        """
        wanted = [TopicPartition(p.topic, p.number) for p in self._ends]
        committed = await asyncio.to_thread(self._members.committed, wanted, timeout=15)
        left = {}
        for found in committed:
            partition = Partition(found.topic, found.partition)
            end = self._ends[partition]
            assert found.offset <= end, f"{partition}: {found.offset} is committed, the log ends at {end}"
            if max(found.offset, 0) < end:
                left[partition] = (found.offset, end)
        return left

    def wrong_letters(self) -> list[str]:
        """Dead letters of records that are not poison, and poison without one."""
        wanted = {str(dead_letter_id(self._group, Partition(p.topic, p.partition), p.offset)) for p in self.poison}
        found = {letter.id for letter in self.letters}
        faults = [
            f"a healthy record in the dead letters: {one.origin}: {one.reason}"
            for one in self.letters
            if one.id not in wanted
        ]
        faults += [
            f"a dead letter is not the record that died: {one.origin}"
            for one in self.letters
            if one.origin in self.poison and self.poison[one.origin] != one.value
        ]
        if missing := wanted - found:
            faults.append(f"{len(missing)} records that can never be processed are in no dead letter")
        return faults

    def close(self) -> None:
        self._consumer.close()
        self._members.close()

    def _read(self, timeout: float) -> int:
        """Take in what is there; how many records."""
        messages = [m for m in self._consumer.consume(500, timeout) if m.error() is None]
        for message in messages:
            place = Place(message.topic() or "", message.partition() or 0, message.offset() or 0)
            value = message.value()
            if place.topic not in self._topics:
                said = details(cast("Headers", tuple(message.headers() or ())))
                origin = Place(said["original.topic"], int(said["original.partition"]), int(said["original.offset"]))
                self.letters.append(Letter(said["id"], origin, value, said["exception.message"]))
                continue
            self._ends[Partition(place.topic, place.partition)] = place.offset + 1
            raw = (message.key(), value, cast("Headers", tuple(message.headers() or ())))
            self.raw[place.topic].append(raw)
            self._judge(place, value)
            if place in self.poison:
                self.died[raw] = place
        return len(messages)

    def _judge(self, place: Place, value: bytes | None) -> None:
        try:
            event = decode(value)
            write = render(event)
        except PermanentError:
            self.poison[place] = value
            return
        self.healthy[place] = event.event_id
        self.writes[event.event_id] = write
        present = self.winners.get(write.key)
        if present is None or write.rank > present.rank:
            self.winners[write.key] = write

    def hidden(self) -> set[uuid.UUID]:
        """Documents whose main part is a tombstone."""
        return {key[0] for key, write in self.winners.items() if key[1] == MAIN_PART and write.deleted}
