"""The workbench over HTTP: dead letters from a real broker, replays to it, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cairn_gateway.dlq import changes
from cairn_gateway.dlq.documents import JOBS, LETTERS
from cairn_gateway.dlq.indexer import LetterIndexer
from cairn_gateway.dlq.jobs import MongoJobs
from cairn_gateway.dlq.model import Choice
from cairn_gateway.dlq.reading import letter_of
from cairn_gateway.dlq.replay import Replayer, Sender
from cairn_gateway.dlq.resolver import ResolvePolicy, Resolver
from cairn_gateway.dlq.store import MongoLetters
from cairn_gateway.metrics import Metrics
from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.api.index import LedgerEntry
from cairn_shared.errors import Unavailable
from cairn_shared.events import TOPIC_EVENTS, Event, SourceDocument, dead_letter_topic, document_id, make_event
from cairn_shared.kafka.dead_letters import Failure, dead_letter_headers
from cairn_shared.kafka.producer import open_producer
from cairn_shared.kafka.records import Headers, Record
from cairn_shared.settings import KafkaSettings

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, Start, StillClock, Upstream

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DLQ = dead_letter_topic(TOPIC_EVENTS)


def an_event(subject: str) -> Event:
    return make_event(
        "ticket",
        source="jira",
        source_id=f"{subject} {uuid.uuid4()}",
        subject=subject,
        version=3,
        occurred_at=NOW,
        accepted_at=NOW,
        payload=SourceDocument(title=subject),
    )


def told(record: Record, *, at: datetime | None = None, message: str = "title: too long") -> Headers:
    when = at or datetime.now(UTC)
    failure = Failure("validate", "permanent", "cairn.PermanentError", message, 1, when, when, stack="a stack")
    return dead_letter_headers(record, failure, group="g", app_version="1", pipeline="0001")


def dead_record(event: Event, offset: int = 0) -> Record:
    record = Record(TOPIC_EVENTS, 0, offset, event.key(), event.encode(), tuple(event.headers()))
    return replace(record, topic=DLQ, headers=told(record))


class Broker:
    """Writes dead letters, and reads what is replayed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    async def dead(self, *records: Record) -> None:
        async with open_producer(self._settings, "tests") as producer:
            for record in records:
                await producer.send(DLQ, key=record.key, value=record.value, headers=record.headers)

    def replayed(self) -> list[Record]:
        """Everything on the topic of events."""
        config = {"bootstrap.servers": self._settings.kafka_bootstrap_servers, "group.id": "unused"}
        consumer = Consumer(config | {"enable.auto.commit": False, "enable.partition.eof": True})
        try:
            partitions = consumer.list_topics(TOPIC_EVENTS, timeout=10).topics[TOPIC_EVENTS].partitions
            consumer.assign([TopicPartition(TOPIC_EVENTS, number, 0) for number in partitions])
            ended, found = 0, []
            while ended < len(partitions):
                message = consumer.poll(5)
                assert message is not None
                if message.error():
                    ended += 1
                else:
                    headers: Any = message.headers() or []
                    found.append(Record(TOPIC_EVENTS, 0, 0, message.key(), message.value(), tuple(headers)))
            return found
        finally:
            consumer.close()


@pytest.fixture
def broker(kafka_settings: KafkaSettings) -> Broker:
    return Broker(kafka_settings)


@pytest.fixture
def key_of(client: httpx.AsyncClient) -> Any:
    async def make(role: str) -> dict[str, str]:
        await client.put(f"/users/{role}", json={"name": role, "role": role})
        made = (await client.post(f"/users/{role}/keys", json={})).json()
        return {"authorization": f"Bearer {made['key']}"}

    return make


async def letters(client: httpx.AsyncClient, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get("/dlq", params=wanted)).json()["letters"]
    return found


async def test_a_letter_is_found_shown_replayed_and_resolved_and_status_says_so(
    client: httpx.AsyncClient, broker: Broker, upstream: Upstream, eventually: Eventually, key_of: Any
) -> None:
    event = an_event("T-1")
    garbage = Record(TOPIC_EVENTS, 1, 5, None, b"\xff\xfe no event", (("bin", b"\xff"),))
    await broker.dead(dead_record(event), replace(garbage, headers=told(garbage, message="not an event")))
    await eventually(lambda: _found(client, event), within=40)
    status = (await client.get("/status")).json()
    assert status["status"] == "degraded"
    assert status["dead_letters"]["open"] >= 2, "the broker's topic holds those of other tests as well"

    (letter,) = await letters(client, source="jira", state="open", event_id=str(event.event_id))
    assert (letter["event_id"], letter["failure"]["stage"]) == (str(event.event_id), "validate")
    groups = (await client.get("/dlq/groups")).json()["groups"]
    assert {"title: too long", "not an event"} <= {group["message"] for group in groups}
    await eventually(lambda: letters(client, event_type="unknown"), within=40)
    (other,) = await letters(client, event_type="unknown")
    shown = (await client.get(f"/dlq/{other['id']}")).json()
    assert shown["key"]["null"]
    assert shown["value"]["hex"].startswith("ff fe 20")
    assert shown["headers"][0] | {"name": "bin"} == shown["headers"][0]
    assert shown["headers"][0]["hex"] == "ff"
    raw = await client.get(f"/dlq/{other['id']}/value")
    assert raw.content == garbage.value
    upstream.parts = [
        {
            "document_id": str(document_id("jira", "T-1")),
            "part": "",
            "version": 4,
            "event_id": str(uuid.uuid4()),
            "deleted": False,
        }
    ]
    shown = (await client.get(f"/dlq/{letter['id']}")).json()
    assert (shown["superseded"], shown["indexed_version"]) == (True, 4)
    assert shown["decoded"]["payload"]["title"] == "T-1"

    chosen = {"ids": [letter["id"]]}
    reader, editor, operator = [await key_of(role) for role in ("reader", "editor", "operator")]
    assert (await client.get("/dlq", headers=reader)).status_code == 403
    assert (await client.get("/dlq", headers=editor)).status_code == 200
    for path, body in (("/dlq/replays", chosen), ("/dlq/discards", chosen | {"reason": "no"})):
        assert (await client.post(path, json=body, headers=editor)).status_code == 403
    for path in ("/dlq/export", f"/dlq/{letter['id']}/value"):
        assert (await client.get(path, headers=editor)).status_code == 403

    started = await client.post("/dlq/replays", json=chosen | {"note": "mended"}, headers=operator)
    assert (started.status_code, started.json()["selected"]) == (202, 1)
    job = f"/dlq/replays/{started.json()['id']}"
    await eventually(lambda: _is(client, job, "on_their_way", 1))
    (back,) = [record for record in await asyncio.to_thread(broker.replayed) if record.value == event.encode()]
    assert (back.key, back.value) == (event.key(), event.encode())
    assert back.headers[: len(event.headers())] == tuple(event.headers())
    upstream.settle(str(event.event_id))
    await eventually(lambda: _is(client, job, "settled", True))
    assert (await client.get(job)).json()["resolved"] == 1
    shown = (await client.get(f"/dlq/{letter['id']}")).json()
    assert [line["what"] for line in shown["history"]] == ["dead-lettered", "replayed", "resolved"]

    gone = await client.post("/dlq/discards", json={"ids": [other["id"]], "reason": "a test"}, headers=operator)
    assert gone.json() == {"discarded": 1}
    await client.post("/dlq/discards", json={"all": True, "reason": "of other tests"}, headers=operator)
    assert (await client.get("/status")).json()["status"] == "ok"
    lines = (await client.get("/audit")).json()["lines"]
    acts = [(line["user_id"], line["action"]) for line in lines][:3]
    assert acts == [("operator", "dlq.discard"), ("operator", "dlq.discard"), ("operator", "dlq.replay")]
    assert "a test" in lines[1]["detail"]
    assert "mended" in lines[2]["detail"]

    exported = (await client.get("/dlq/export")).content
    here = len(exported.splitlines())
    assert here >= 2
    taken = (await client.post("/dlq/import", content=exported + b"no json\n")).json()
    assert (taken["imported"], taken["known"], taken["rejected"][0]["line"]) == (0, here, here + 1)


async def _found(client: httpx.AsyncClient, event: Event) -> bool:
    return bool(await letters(client, event_id=str(event.event_id)))


async def _is(client: httpx.AsyncClient, path: str, name: str, value: object) -> bool:
    return bool((await client.get(path)).json()[name] == value)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/dlq/replays", {}, "which letters"),
        ("/dlq/replays", {"filter": {}}, "which letters"),
        ("/dlq/replays", {"ids": ["x"]}, "ids.0"),
        ("/dlq/replays", {"all": True, "rate": 0}, "rate"),
        ("/dlq/discards", {"all": True}, "reason"),
        ("/dlq/discards", {"all": True, "reason": " "}, "reason"),
        (f"/dlq/{uuid.UUID(int=1)}/edit", {}, "value"),
    ],
)
async def test_a_request_that_chooses_nothing_is_refused(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], field: str
) -> None:
    refused = await client.post(path, json=body)
    assert refused.status_code == 422
    assert field in refused.text


async def test_what_only_consumers_know_is_asked_of_any_of_them(
    start_gateway: Start, gateway_settings: GatewaySettings, broker: Broker, eventually: Eventually
) -> None:
    """Dry runs, halts and releases; an edited letter is tried and sent as a new event."""
    from gateway.tests.edge.conftest import serving

    asked: list[dict[str, Any]] = []
    halt = {"topic": TOPIC_EVENTS, "partition": 3, "reason": "25 in a row", "halted_at": NOW.isoformat()}

    async def dry_run(request: Request) -> Response:
        asked.append(await request.json())
        results = [{"id": one["id"], "ok": True, "verdict": "searchable"} for one in asked[-1]["records"]]
        return JSONResponse({"app_version": "2", "pipeline": "0001", "git_sha": None, "results": results})

    async def release(request: Request) -> Response:
        asked.append(await request.json())
        return JSONResponse({"released": asked[-1]["partition"] == 3})

    async def halts(_: Request) -> Response:
        return JSONResponse({"halts": [halt]})

    consumer = Starlette(
        routes=[
            Route("/dry-run", dry_run, methods=["POST"]),
            Route("/halts", halts),
            Route("/halts/release", release, methods=["POST"]),
        ]
    )
    async with serving(consumer) as url:
        urls = f"http://127.0.0.1:9,{url}"
        settings = gateway_settings.model_copy(update={"ingest_consumer_urls": urls, "inbox": "always"})
        async with start_gateway(settings) as client:
            event = an_event("T-9")
            await broker.dead(dead_record(event))
            await eventually(lambda: _found(client, event), within=40)
            (letter,) = await letters(client, event_id=str(event.event_id))
            tried = (await client.post("/dlq/dry-runs", json={"ids": [letter["id"]]})).json()
            assert (tried["ok"], tried["app_version"]) == (1, "2")
            assert (await client.get("/status")).json()["dead_letters"]["halted"] == [f"{TOPIC_EVENTS}[3]"]
            path = "/dlq/halts/release"
            assert (await client.post(path, json={"topic": TOPIC_EVENTS, "partition": 3})).status_code == 204
            assert asked[-1]["by"] == "bootstrap"
            assert (await client.post(path, json={"topic": TOPIC_EVENTS, "partition": 4})).status_code == 404

            edit = f"/dlq/{letter['id']}/edit"
            assert (await client.post(edit, json={"value": "{}"})).status_code == 422
            value = json.dumps(json.loads(event.encode()) | {"subject": "T-10"})
            made = (await client.post(edit, json={"value": value, "reason": "typo"})).json()
            assert made["letter"]["state"] == "replaying"
            assert made["letter"]["edited_to"] == made["event_id"] != str(event.event_id)
            state = (await client.get(f"/ingest/{made['event_id']}")).json()
            assert (state["state"], state["subject"]) in (("accepted", "T-10"), ("queued", "T-10"))
            assert (await client.post(edit, json={"value": value})).status_code == 409


class Played:
    """Kafka and the ledger: what was published, and which events are searchable."""

    def __init__(self) -> None:
        self.published: list[Record] = []
        self.away = False
        self.searchable: dict[uuid.UUID, str] = {}

    async def publish(self, topic: str, key: bytes | None, value: bytes | None, headers: Any) -> None:
        if self.away:
            raise Unavailable("kafka")
        self.published.append(Record(topic, 0, len(self.published), key, value, tuple(headers)))

    async def ledger(self, event_ids: Any) -> dict[uuid.UUID, LedgerEntry]:
        return {
            event_id: LedgerEntry(
                event_id=event_id,
                state=self.searchable[event_id],
                document_id=None,
                version=1,
                accepted_at=None,
                settled_at=NOW,
            )
            for event_id in event_ids
            if event_id in self.searchable
        }


class Bench:
    """The workbench's parts on a real MongoDB, a clock that stands still, and a played broker."""

    def __init__(self, database: mongo.Database, clock: StillClock, metrics: Metrics) -> None:
        self.clock, self.played = clock, Played()
        self.letters = MongoLetters(database[LETTERS], clock)
        self.jobs = MongoJobs(database[JOBS], self.letters, clock)
        self.indexer = LetterIndexer(self.letters, clock, metrics)
        self.sender = Sender(self.played, self.letters, clock, metrics)
        self.replayer = Replayer(self.jobs, self.letters, self.sender, clock)
        self.resolver = Resolver(
            self.letters,
            self.played,
            sender=self.sender,
            clock=clock,
            metrics=metrics,
            policy=ResolvePolicy(forgets=True),
        )

    async def run_jobs(self) -> None:
        """Until no job is running."""
        task = asyncio.create_task(self.replayer.run())
        async with asyncio.timeout(60):
            while await self.jobs.running():
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def failed_again(self, record: Record) -> Record:
        return replace(record, topic=DLQ, headers=told(record, at=self.clock.now(), message="still"))


@pytest.fixture
async def bench(database: mongo.Database, clock: StillClock, metrics: Metrics) -> Bench:
    clock.time = datetime.now(UTC)  # MongoDB drops what expired by its own clock
    made = Bench(database, clock, metrics)
    await made.letters.ensure_indexes()
    await made.jobs.ensure_indexes()
    return made


async def test_letters_are_replayed_once_each_also_after_the_broker_forgot(bench: Bench) -> None:
    """The topic is read twice, as after a restart; the job is cut off in the middle; Kafka swallows a part of it."""
    events = [an_event(f"T-{number}") for number in range(120)]
    records = [dead_record(event, offset) for offset, event in enumerate(events)]
    for start in range(0, 120, 50):
        await bench.indexer.handle(records[start : start + 50])
    await bench.indexer.handle(records[:80])
    forgotten = [dead_record(event, 0) for event in events[:10]]
    await bench.indexer.handle(forgotten)
    assert (await bench.letters.tally()).counts == {"open": 120}

    job = await bench.jobs.start(Choice(), by="ada", rate=50, limit=1000, force=False, note="")
    assert job.selected == 120
    began = bench.clock.now()
    first = asyncio.create_task(bench.replayer.run())
    while len(bench.played.published) < 40:
        await asyncio.sleep(0.005)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await bench.run_jobs()
    # Ten a step, and the steps of the first process; the clock moves only when somebody sleeps.
    assert (bench.clock.now() - began).total_seconds() >= 120 / 50 - 1
    await bench.indexer.handle(records[:50])  # and once more from the beginning: nothing is undone by that

    sent = [record.value for record in bench.played.published]
    unsent = [letter async for letter in bench.letters.each(Choice(state="replaying"), 1000)]
    unsent = [letter for letter in unsent if letter.replay is not None and letter.replay.published_at is None]
    assert len(set(sent)) + len(unsent) >= 120
    assert len(sent) == len(set(sent)), "none twice"
    bench.clock.advance(20)
    await bench.resolver.look()  # sends what the first process had marked and not sent
    assert {record.value for record in bench.played.published} == {event.encode() for event in events}

    bench.played.searchable = {event.event_id: "searchable" for event in events}
    bench.clock.advance(20)
    while (await bench.letters.tally()).replaying:
        await bench.resolver.look()
        bench.clock.advance(10)
    assert (await bench.letters.tally()).counts == {"resolved": 120}
    progress = await bench.jobs.progress(job)
    assert (progress.resolved, progress.waiting, progress.on_their_way) == (120, 0, 0)
    async for letter in bench.letters.each(Choice(), 1000):
        acts = [change.what for change in letter.history if change.what != "dead-lettered again"]
        assert acts == ["dead-lettered", "replayed", "resolved"]


async def test_a_letter_that_comes_back_three_times_is_left_out_without_force(bench: Bench) -> None:
    await bench.indexer.handle([dead_record(an_event("T-1"))])
    for number in range(1, 4):
        job = await bench.jobs.start(Choice(), by="ada", rate=100, limit=10, force=False, note="")
        await bench.run_jobs()
        bench.clock.advance(5)
        await bench.indexer.handle([bench.failed_again(bench.played.published[-1])])
        (letter,) = [letter async for letter in bench.letters.each(Choice(), 10)]
        assert (letter.state, letter.replay_count) == ("open", number)
        assert (await bench.jobs.progress(job)).failed_again == 1
    job = await bench.jobs.start(Choice(), by="ada", rate=100, limit=10, force=False, note="")
    assert (job.selected, job.refused) == (0, 1)
    job = await bench.jobs.start(Choice(), by="ada", rate=100, limit=10, force=True, note="")
    assert (job.selected, job.refused) == (1, 0)


async def test_a_stopped_replay_leaves_the_rest_open_and_an_outage_of_kafka_loses_none(bench: Bench) -> None:
    await bench.indexer.handle([dead_record(an_event(f"T-{number}")) for number in range(30)])
    job = await bench.jobs.start(Choice(), by="ada", rate=10, limit=20, force=False, note="")
    assert job.selected == 20
    bench.played.away = True
    task = asyncio.create_task(bench.replayer.run())
    while not (await bench.letters.of_job(job.id)).get("replaying"):
        await asyncio.sleep(0.01)
    ended = await bench.jobs.end(job.id, "stopped")
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ended.state == "stopped"
    tally = await bench.letters.tally()
    assert tally.open + tally.replaying == 30
    assert not await bench.letters.waiting(job.id, 100)
    bench.played.away = False
    bench.clock.advance(60)
    await bench.resolver.look()
    assert len(bench.played.published) == tally.replaying, "what was marked is sent after all"


async def test_a_replay_that_a_forgetful_broker_swallowed_is_sent_again_with_the_same_id(bench: Bench) -> None:
    await bench.indexer.handle([dead_record(an_event("T-1"))])
    await bench.jobs.start(Choice(), by="ada", rate=100, limit=10, force=False, note="")
    await bench.run_jobs()
    for _ in range(2):
        bench.clock.advance(120)
        await bench.resolver.look()
    ids = {dict(record.headers)["cairn.replay.id"] for record in bench.played.published}
    assert len(bench.played.published) == 3
    assert len(ids) == 1


@pytest.mark.bench
async def test_ten_thousand_letters_stay_quick(bench: Bench) -> None:
    """Bounds are some twenty times what was measured on an idle machine: they tell a missing index, not a slow day."""
    made = [letter_of(dead_record(an_event(f"T-{number}"), number), bench.clock.now()) for number in range(10_000)]
    for start in range(0, 10_000, 500):
        await bench.letters.add([changes.discovered(letter) for letter in made[start : start + 500]])
    took: dict[str, float] = {}

    async def timed(name: str, work: Any) -> Any:
        started = time.perf_counter()
        found = await work
        took[name] = time.perf_counter() - started
        return found

    page, after = await timed("first page", bench.letters.page(Choice(state="open"), None, 50))
    assert (len(page), after is not None) == (50, True)
    await timed("next page", bench.letters.page(Choice(state="open"), after, 50))
    assert (await timed("one", bench.letters.get(made[5000].id))).id == made[5000].id
    assert (await timed("by event", bench.letters.page(Choice(event_id=made[9000].event_id), None, 50)))[0]
    assert (await timed("tally", bench.letters.tally())).open == 10_000
    assert (await timed("groups", bench.letters.groups(Choice(state="open"), 50)))[0].count == 10_000
    print({name: round(seconds * 1000, 1) for name, seconds in took.items()})
    assert all(took[name] < 2 for name in ("first page", "next page", "one", "by event")), took
    assert took["tally"] < 5, took
    assert took["groups"] < 10, took
