"""Load by seed: every way in which a source may speak, and everything that no consumer should ever be sent."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
from chaos_log import BrokerLog, Place, Raw

from cairn_shared.errors import TransientError
from cairn_shared.events import TOPIC_EVENTS, TOPIC_RUNBOOKS, Event, SourceDocument, make_event
from cairn_shared.kafka.producer import EventProducer
from cairn_shared.kafka.records import Headers

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("commit", "pull_request", "issue", "ticket", "deployment", "alert", "log")
WORDS = [
    "replica",
    "lag",
    "disk",
    "full",
    "restart",
    "pod",
    "drain",
    "node",
    "failover",
    "primary",
    "certificate",
    "expired",
    "queue",
    "backlog",
    "latency",
    "memory",
    "leak",
    "rollback",
    "deploy",
    "cache",
    "eviction",
    "timeout",
    "connection",
    "pool",
    "exhausted",
    "index",
    "rebuild",
    "snapshot",
    "restore",
]


class Subjects:
    """Documents that change: versions grow, some texts are deleted and come back, some have parts."""

    def __init__(self, chance: random.Random, prefix: str, count: int) -> None:
        self._chance = chance
        self._names = [f"{prefix}-{number}" for number in range(count)]
        self._versions: Counter[str] = Counter()
        self._closed: set[str] = set()
        self._made = 0

    def text(self) -> str:
        """A text that no other event has; one in eight is cut into several chunks."""
        self._made += 1
        length = self._chance.randint(200, 500) if self._chance.random() < 0.12 else self._chance.randint(6, 30)
        words = self._chance.choices(WORDS, k=length)
        sentences = [" ".join(words[first : first + 14]) for first in range(0, length, 14)]
        return f"note n{self._made}x{self._chance.getrandbits(24):06x}: {'. '.join(sentences)}."

    def next(self) -> list[Event]:
        """Some events of one subject, in the order of their versions."""
        number = self._chance.randrange(len(self._names))
        name = self._names[number]
        kind = KINDS[number % len(KINDS)]
        with_parts = number % 4 == 0
        if name in self._closed:
            return []
        dice = self._chance.random()
        if dice < 0.12:
            if with_parts:
                self._closed.add(name)  # the parts of a revived document do not come back by themselves
            return [self._event(name, kind, deleted=True)]
        if dice < 0.2:
            return self._equals(name, kind)
        if with_parts and dice < 0.6:
            part = f"comment-{self._chance.randrange(3)}"
            return [self._event(name, "comment", part=part, deleted=dice < 0.27)]
        return [self._event(name, kind) for _ in range(self._chance.randint(1, 3))]

    def _equals(self, name: str, kind: str) -> list[Event]:
        """Two different events of one version: the id decides."""
        first = self._event(name, kind)
        return [first, self._event(name, kind, version=first.version)]

    def _event(
        self, name: str, kind: str, *, part: str = "", deleted: bool = False, version: int | None = None
    ) -> Event:
        if version is None:
            self._versions[name] += 1
            version = self._versions[name]
        document = SourceDocument(
            title=f"{name} {part}".strip(),
            body="" if deleted else "\n\n".join(self.text() for _ in range(self._chance.randint(1, 2))),
            part=part,
            deleted=deleted,
        )
        return make_event(
            kind,  # type: ignore[arg-type]
            source="chaos",
            source_id=f"{name}|{part}|{version}|{self._chance.getrandbits(64):x}",
            subject=name,
            version=version,
            occurred_at=EPOCH + timedelta(minutes=version),
            accepted_at=datetime.now(UTC),
            payload=document,
        )


def poison(chance: random.Random, event: Event) -> Raw:
    """A record that can never be processed; `event` is what it would be if it were well."""
    mark = f"{chance.getrandbits(64):016x}"
    body: dict[str, Any] = orjson.loads(event.encode()) | {"event_id": str(uuid.UUID(int=chance.getrandbits(128)))}
    body = _with(body, deleted=False)  # what a delete says beside its being one is not read
    key = event.key()
    surrogate = orjson.dumps(_with(body, title="half")).replace(b'"half"', b'"\\ud800' + mark.encode() + b'"')
    made: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (key, f"not json {mark}".encode(), [("event-id", b"\xff\xfe")]),
        (key, None, [("chaos", mark.encode())]),
        (None, None, [("chaos", mark.encode())]),
        (key, b"", [("chaos", mark.encode())]),
        (key, orjson.dumps(body | {"schema_version": 99}), []),
        (key, orjson.dumps(body | {"type": "telepathy"}), []),
        (key, orjson.dumps(_with(body, title=None)), []),
        (key, orjson.dumps(_with(body, body=f"a NUL \0 {mark}")), []),
        (key, surrogate, []),
        (key, b"[" * 50_000 + mark.encode(), []),
        (key, b"\x00\xff" + mark.encode(), [("a", None), ("a", b"twice")]),
        (key, orjson.dumps(body | {"version": -1}), []),
    ]
    bad_key, value, headers = chance.choice(made)
    return bad_key, value, tuple(headers)


def _with(event: dict[str, Any], /, **payload: Any) -> dict[str, Any]:
    return event | {"payload": event["payload"] | payload}


@dataclass
class Accepted:
    """What somebody was told is safe."""

    events: set[uuid.UUID] = field(default_factory=set)
    poison: dict[Raw, Place] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)


class RawLoad:
    """Records straight to Kafka: duplicates, reorder, stale and late writes, equal versions, poison."""

    def __init__(
        self,
        producer: EventProducer,
        log: BrokerLog,
        chance: random.Random,
        *,
        rate: float,
        events: str = TOPIC_EVENTS,
        runbooks: str = TOPIC_RUNBOOKS,
    ) -> None:
        self._producer = producer
        self._log = log
        self._events = events
        self._runbooks = runbooks
        self._chance = chance
        self._rate = rate
        self._subjects = Subjects(chance, "OPS", 60)
        self._late: list[Event] = []
        self._past: list[Event] = []
        self.accepted = Accepted()

    async def run(self) -> None:
        """Until cancelled; cancel it with `finish`, or what is under way is in doubt."""
        while True:
            await self.burst()
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * 3 / self._rate)

    async def burst(self) -> None:
        """Some records at once."""
        events = self._subjects.next()
        self._past = (self._past + events)[-400:]
        dice = self._chance.random()
        if dice < 0.15 and events:
            self._late.append(events.pop(0))  # overtaken by those that follow
            self.accepted.sent["held back"] += 1
        if self._late and self._chance.random() < 0.2:
            events.append(self._late.pop(self._chance.randrange(len(self._late))))
        if dice > 0.85 and self._past:
            old = self._chance.choices(self._past, k=2)
            events += old
            self.accepted.sent["old or repeated"] += len(old)
        self._chance.shuffle(events)
        await asyncio.gather(*(self._send(event) for event in events))
        if self._chance.random() < 0.08:
            await self.send_poison()
        if self._chance.random() < 0.08 and self._log.raw[self._runbooks]:
            key, value, headers = self._chance.choice(self._log.raw[self._runbooks])
            await self._until_acknowledged(self._runbooks, key, value, headers)
            self.accepted.sent["old runbook again"] += 1

    async def flush(self) -> None:
        """Send what was held back."""
        late, self._late = self._late, []
        await asyncio.gather(*(self._send(event) for event in late))

    async def _send(self, event: Event) -> None:
        await self._until_acknowledged(self._events, event.key(), event.encode(), tuple(event.headers()))
        self.accepted.events.add(event.event_id)
        self.accepted.sent[event.type] += 1

    async def send_poison(self) -> None:
        event = next((e for e in self._past[::-1]), None)
        if event is None:
            return
        key, value, headers = poison(self._chance, event)
        topic = self._chance.choice((self._events, self._events, self._runbooks))
        self.accepted.poison[key, value, headers] = await self._until_acknowledged(topic, key, value, headers)
        self.accepted.sent["poison"] += 1

    async def _until_acknowledged(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> Place:
        while True:
            try:
                done = await self._producer.send(topic, key=key, value=value, headers=headers)
            except TransientError:
                await asyncio.sleep(0.3)
            else:
                return Place(done.topic, done.partition, done.offset)


class GatewayLoad:
    """An editor who writes, edits and deletes runbooks, and a source that posts CloudEvents."""

    def __init__(self, client: httpx.AsyncClient, chance: random.Random, *, rate: float) -> None:
        self._client = client
        self._chance = chance
        self._rate = rate
        self._subjects = Subjects(chance, "unused", 1)
        self._count = 0
        self.accepted = Accepted()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.burst()
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) / self._rate)

    async def burst(self) -> None:
        name = f"book-{self._chance.randrange(25)}"
        dice = self._chance.random()
        if dice < 0.55:
            await self._ask("runbook put", lambda: self._put(name), (200, 201), lambda b: [b["event_id"]])
        elif dice < 0.7:
            url = f"/runbooks/{name}"
            await self._ask("runbook delete", lambda: self._client.delete(url), (200,), lambda b: [b["event_id"]])
        else:
            await self._ask("cloud event", self._cloud_event, (202,), lambda b: b["event_ids"])

    def _put(self, name: str) -> Any:
        steps = "\n".join(f"{n}. {self._subjects.text()}" for n in range(1, self._chance.randint(2, 5)))
        return self._client.put(
            f"/runbooks/{name}",
            content=f"# {name} runs hot\n\n## Steps\n\n{steps}\n",
            headers={"content-type": "text/markdown"},
        )

    def _cloud_event(self) -> Any:
        self._count += 1
        event = {
            "specversion": "1.0",
            "id": f"ce-{self._count}",
            "source": "chaos/source",
            "type": "com.example.alert",
            "time": (EPOCH + timedelta(seconds=self._count)).isoformat(),
            "cairnkind": "alert",
            "data": {"title": f"alert {self._count}", "body": self._subjects.text()},
        }
        return self._client.post(
            "/events", content=orjson.dumps(event), headers={"content-type": "application/cloudevents+json"}
        )

    async def _ask(
        self, what: str, request: Callable[[], Any], good: tuple[int, ...], ids: Callable[[Any], list[str]]
    ) -> None:
        try:
            response = await request()
        except httpx.HTTPError:
            self.accepted.sent[f"{what}: no answer"] += 1  # it may have been done all the same
            return
        if response.status_code in good:
            self.accepted.sent[what] += 1
            self.accepted.events |= {uuid.UUID(one) for one in ids(response.json())}
        elif response.status_code != 404:
            self.accepted.sent[f"{what}: {response.status_code}"] += 1
