"""The runbook store on real MongoDB: revisions, tombstones, outbox, and writers against one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from cairn_shared import mongo
from cairn_shared.clock import SystemClock
from cairn_shared.errors import Conflict, NotFound, PreconditionFailed, TooLarge
from cairn_shared.events import RunbookUpserted, decode
from cairn_shared.runbooks.model import Runbook, Step
from cairn_shared.runbooks.outbox import OUTBOX
from cairn_shared.runbooks.records import Precondition, after, revision_event_id
from cairn_shared.runbooks.store import REVISIONS, RUNBOOKS, RunbookQuery, RunbookStore, WritePolicy
from cairn_shared.settings import MongoSettings


@pytest.fixture
async def database(mongo_settings: MongoSettings) -> AsyncIterator[mongo.Database]:
    async with mongo.open_database(mongo_settings, "tests") as opened:
        yield opened


@pytest.fixture
async def store(database: mongo.Database) -> RunbookStore:
    opened = RunbookStore(database, SystemClock())
    await opened.ensure_indexes()
    return opened


def runbook(name: str = "redis-oom", body: str = "Look.", **fields: object) -> Runbook:
    values = {"id": name, "title": "Out of memory", "steps": [Step(number=1, label="1", body=body)], **fields}
    return Runbook.model_validate(values)


async def put(store: RunbookStore, book: Runbook, markdown: str | None = "# Text") -> int:
    return (await store.put(book, markdown=markdown, by="mira")).revision


async def test_a_new_runbook_its_revision_and_its_event_are_stored_together(
    store: RunbookStore, database: mongo.Database
) -> None:
    written = await store.put(runbook(), markdown="# Text", by="mira")
    assert (written.revision, written.changed, written.created) == (1, True, True)
    stored = await store.get("redis-oom")
    assert (stored.runbook, stored.markdown, stored.updated_by) == (runbook(), "# Text", "mira")
    assert [past.revision for past in await store.revisions("redis-oom")] == [1]
    (entry,) = await database[OUTBOX].find().to_list(None)
    event = decode(entry["value"])
    assert entry["_id"] == event.event_id == written.event_id == revision_event_id("redis-oom", 1)
    assert (event.type, event.subject, event.version) == ("runbook.upserted", "redis-oom", 1)
    body = event.body()
    assert isinstance(body, RunbookUpserted)
    assert body.runbook == runbook()
    assert (entry["state"], entry["topic"], entry["key"]) == ("pending", "cairn.runbooks.v1", b"redis-oom")


async def test_equal_content_makes_no_revision_and_no_event(store: RunbookStore, database: mongo.Database) -> None:
    first = await store.put(runbook(), markdown="# Text", by="mira")
    again = await store.put(runbook(commit="0a1b"), markdown="# Text", by="jonas")
    assert (again.revision, again.changed, again.created) == (1, False, False)
    assert again.event_id == first.event_id
    assert await database[OUTBOX].count_documents({}) == 1
    assert await database[REVISIONS].count_documents({}) == 1


@pytest.mark.parametrize(
    ("changed", "markdown"),
    [
        pytest.param(runbook(body="Look twice."), "# Text", id="a step"),
        pytest.param(runbook(title="Memory"), "# Text", id="the title"),
        pytest.param(runbook(), "# Text\n<!-- note -->", id="only the source text"),
        pytest.param(runbook(blob="9f"), "# Text", id="only the blob"),
    ],
)
async def test_any_other_content_is_the_next_revision(store: RunbookStore, changed: Runbook, markdown: str) -> None:
    await put(store, runbook())
    assert await put(store, changed, markdown) == 2


async def test_twenty_concurrent_writers_get_revisions_one_to_twenty(
    store: RunbookStore, database: mongo.Database
) -> None:
    revisions = await asyncio.gather(*(put(store, runbook(body=f"Writer {number}.")) for number in range(20)))
    assert sorted(revisions) == list(range(1, 21))
    entries = await database[OUTBOX].find().sort([("created_at", 1), ("_id", 1)]).to_list(None)
    assert [entry["version"] for entry in entries] == list(range(1, 21)), "the outbox's order is the revisions'"
    assert (await store.get("redis-oom")).revision == 20
    assert await database[REVISIONS].count_documents({}) == 20


async def test_of_writers_with_the_same_if_match_exactly_one_wins(store: RunbookStore) -> None:
    await put(store, runbook())

    async def write(number: int) -> bool:
        try:
            await store.put(
                runbook(body=f"{number}"), markdown=None, by="x", precondition=Precondition(revisions=frozenset({1}))
            )
        except PreconditionFailed:
            return False
        return True

    assert sorted(await asyncio.gather(*(write(number) for number in range(8)))) == [False] * 7 + [True]
    assert (await store.get("redis-oom")).revision == 2


async def test_a_transaction_that_fails_leaves_nothing(store: RunbookStore, database: mongo.Database) -> None:
    await database[OUTBOX].insert_one({"_id": revision_event_id("redis-oom", 1), "state": "pending"})
    impatient = RunbookStore(database, SystemClock(), WritePolicy(attempts=2))
    with pytest.raises(Conflict):  # the outbox entry cannot be written
        await impatient.put(runbook(), markdown=None, by="mira")
    assert await database[RUNBOOKS].count_documents({}) == 0
    assert await database[REVISIONS].count_documents({}) == 0


async def test_a_deleted_runbook_leaves_a_tombstone_and_comes_back_at_a_higher_revision(
    store: RunbookStore, database: mongo.Database
) -> None:
    await put(store, runbook())
    gone = await store.delete("redis-oom", by="mira")
    assert gone.revision == 2
    with pytest.raises(NotFound):
        await store.get("redis-oom")
    tombstone = await store.find("redis-oom")
    assert tombstone is not None
    assert (tombstone.deleted, tombstone.runbook.steps, tombstone.markdown) == (True, [], None)
    entry = await database[OUTBOX].find_one({"_id": gone.event_id})
    assert entry is not None
    assert decode(entry["value"]).type == "runbook.deleted"
    with pytest.raises(NotFound):
        await store.delete("redis-oom", by="mira")
    back = await store.put(runbook(), markdown=None, by="mira")
    assert (back.revision, back.created) == (3, True)


@pytest.mark.parametrize(
    ("precondition", "holds"),
    [
        (Precondition(revisions=frozenset({1})), True),
        (Precondition(revisions=frozenset({1, 7})), True),
        (Precondition(revisions=frozenset({2})), False),
        (Precondition(revisions=frozenset()), False),
        (Precondition(any_revision=True), True),
        (Precondition(no_revision=True), False),
    ],
)
async def test_preconditions_of_an_existing_runbook(
    store: RunbookStore, precondition: Precondition, holds: bool
) -> None:
    await put(store, runbook())
    if not holds:
        with pytest.raises(PreconditionFailed):
            await store.put(runbook(body="New."), markdown=None, by="x", precondition=precondition)
        with pytest.raises(PreconditionFailed):
            await store.delete("redis-oom", by="x", precondition=precondition)
        return
    written = await store.put(runbook(body="New."), markdown=None, by="x", precondition=precondition)
    assert written.revision == 2


async def test_a_tombstone_counts_as_absent_for_preconditions(store: RunbookStore) -> None:
    await put(store, runbook())
    await store.delete("redis-oom", by="x")
    with pytest.raises(PreconditionFailed):
        await store.put(runbook(), markdown=None, by="x", precondition=Precondition(any_revision=True))
    written = await store.put(runbook(), markdown=None, by="x", precondition=Precondition(no_revision=True))
    assert written.created


async def test_an_edit_by_hand_keeps_where_the_runbook_came_from(store: RunbookStore) -> None:
    origin = {"source": "repo:docs", "path": "a.md", "commit": "0a", "blob": "1b"}
    await put(store, runbook(**origin))
    written = await store.put(runbook(body="New."), markdown=None, by="x", keep_provenance=True)
    assert written.runbook == runbook(body="New.", **origin)


async def test_an_event_that_kafka_cannot_take_is_refused_before_anything_is_stored(
    store: RunbookStore, database: mongo.Database
) -> None:
    small = RunbookStore(database, SystemClock(), WritePolicy(max_event_bytes=2000))
    with pytest.raises(TooLarge, match="divide it"):
        await small.put(runbook(body="x" * 3000), markdown=None, by="x")
    assert await database[RUNBOOKS].count_documents({}) == 0


async def test_lists_go_page_by_page_and_filter(store: RunbookStore) -> None:
    for number in range(5):
        service = "redis" if number % 2 else "mysql"
        await put(store, runbook(f"book-{number}", service=service, tags=["memory"], title=f"Title (v{number})"))
    await store.delete("book-4", by="x")
    first = await store.page(RunbookQuery(limit=2))
    second = await store.page(RunbookQuery(limit=2, after=first[-1].id))
    assert [head.id for head in (*first, *second)] == ["book-0", "book-1", "book-2", "book-3"]
    assert [head.id for head in await store.page(RunbookQuery(service="redis"))] == ["book-1", "book-3"]
    assert [head.id for head in await store.page(RunbookQuery(tag="memory", text="(V3"))] == ["book-3"]
    assert [head.id async for head in store.heads(page=2)] == [f"book-{number}" for number in range(5)]
    assert (await store.count(), first[0].steps) == (4, 1)


async def test_publishing_again_makes_the_same_event_pending_once_more(
    store: RunbookStore, database: mongo.Database
) -> None:
    written = await store.put(runbook(), markdown=None, by="x")
    await database[OUTBOX].update_one(
        {"_id": written.event_id}, {"$set": {"state": "published", "expires_at": datetime.now(UTC)}}
    )
    again = await store.publish_again("redis-oom")
    (entry,) = await database[OUTBOX].find().to_list(None)
    assert (again.event_id, entry["_id"], entry["state"]) == (written.event_id, written.event_id, "pending")
    assert "expires_at" not in entry, "it must not expire before it is published"


async def test_advancing_writes_the_same_content_above_what_the_index_has(store: RunbookStore) -> None:
    await put(store, runbook())
    assert (await store.advance("redis-oom", beyond=9, by="reconciler")).revision == 10
    assert (await store.get("redis-oom")).runbook == runbook()
    unknown = await store.advance("lost", beyond=4, by="reconciler")
    tombstone = await store.find("lost")
    assert tombstone is not None
    assert (unknown.revision, tombstone.deleted) == (5, True)


def test_the_time_of_a_revision_is_after_that_of_the_one_before_whatever_the_clocks_say() -> None:
    now = datetime(2026, 1, 1, microsecond=123_456, tzinfo=UTC)
    assert after(now, None) == now.replace(microsecond=123_000)
    later = now + timedelta(hours=1)
    assert after(now, later) == later + timedelta(milliseconds=1)


async def test_a_write_wakes_the_relay_of_this_process_only_when_something_changed(database: mongo.Database) -> None:
    woken: list[int] = []
    store = RunbookStore(database, SystemClock(), on_write=lambda: woken.append(1))
    await put(store, runbook())
    await put(store, runbook())
    assert len(woken) == 1
