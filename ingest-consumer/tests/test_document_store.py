"""The write path on a real PostgreSQL, one property at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import numpy as np
import pytest
from index_state import Index, actual, expected
from ingest_fakes import deleted, deliveries_of, runbook, source_event, upserted

from cairn_ingest_consumer import model as model_module
from cairn_ingest_consumer.adapters import document_rows, document_store, ledger
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.errors import Rejected
from cairn_shared.errors import PermanentError, TransientError
from cairn_shared.events import Event
from cairn_shared.postgres import Pool


@pytest.fixture
def index(pool: Pool) -> Index:
    return Index(pool)


async def rows(pool: Pool) -> dict[str, dict[Any, Any]]:
    """Row versions of steps, chunks and vectors: `xmin` and `ctid` change with every new tuple."""
    return {
        table: {
            row[0]: (row["xmin"], row["ctid"]) for row in await pool.fetch(f"SELECT {key}, xmin, ctid FROM {table}")
        }
        for table, key in (("steps", "step_id"), ("chunks", "chunk_id"), ("chunk_embeddings_384", "chunk_id"))
    }


async def test_a_runbook_becomes_steps_chunks_and_vectors(index: Index) -> None:
    event = upserted(runbook("r", "`redis-cli info`", "check PROJ-123", alerts=["RedisDown"], tags=["cache"]), 1)
    await index.apply(event)
    assert await actual(index.pool) == expected([event])
    [row] = await index.pool.fetch("SELECT * FROM documents")
    assert (row["alerts"], row["tags"], row["source"], row["external_id"]) == (
        ["redisdown"],
        ["cache"],
        "runbooks",
        "r",
    )
    assert (await index.pool.fetchval("SELECT identifiers FROM steps WHERE step_number = 2")) == ["proj-123"]
    assert await index.states([event]) == ["searchable"]


async def test_words_are_found_by_title_section_body_and_the_parts_of_identifiers(index: Index) -> None:
    await index.apply(upserted(runbook("r", "restart test_login_timeout", title="Broken checkout"), 1))

    async def found(query: str) -> bool:
        return bool(
            await index.pool.fetchval("SELECT count(*) FROM chunks WHERE tsv @@ to_tsquery('english', $1)", query)
        )

    assert await found("checkout:A")
    assert await found("restarting:D")
    assert await found("login")
    assert not await found("kubernetes")


async def test_a_newer_version_replaces_everything_and_a_shorter_one_leaves_no_tail(index: Index) -> None:
    long = upserted(runbook("r", *(f"step {n} " + "word " * 400 for n in range(5))), 1)
    short = upserted(runbook("r", "only this"), 2)
    await index.apply(long)
    assert await index.pool.fetchval("SELECT count(*) FROM chunks") > 5
    await index.apply(short)
    assert await actual(index.pool) == expected([long, short])
    assert await index.pool.fetchval("SELECT count(*) FROM chunks") == 1


DAMAGE = {
    "a step is gone": "DELETE FROM steps WHERE step_number = 1",
    "a chunk is gone": "DELETE FROM chunks WHERE ordinal = 0",
    "a step too many": """INSERT INTO steps (step_id, document_id, part, step_number, label, section, body, content_sha)
        SELECT gen_random_uuid(), document_id, part, 7, '7', '', 'rm -rf /', '' FROM steps LIMIT 1""",
    "a chunk too many": """INSERT INTO chunks (chunk_id, step_id, document_id, kind, ordinal, text, embed_text, embed_sha,
        n_tokens, tsv) SELECT gen_random_uuid(), step_id, document_id, kind, 9, 'x', 'x', 'x', 1, '' FROM chunks LIMIT 1""",
    "a step says something else": "UPDATE steps SET body = 'rm -rf /'",
    "a chunk says something else": "UPDATE chunks SET text = 'x', embed_text = 'x'",
    "a vector is gone": "DELETE FROM chunk_embeddings_384",
    "a vector is zero": "UPDATE chunk_embeddings_384 SET embedding = array_fill(0, ARRAY[384])::vector",
    "a vector is of another text": """UPDATE chunk_embeddings_384 e SET embedding = o.embedding
        FROM chunk_embeddings_384 o WHERE o.chunk_id <> e.chunk_id""",
    "another title": "UPDATE documents SET title = 'x'",
    "only the text of a chunk says something else": "UPDATE chunks SET text = 'x'",
    "lexemes are gone": "UPDATE chunks SET tsv = ''",
    "identifiers are gone": "UPDATE steps SET identifiers = '{}'",
    "facts are others": "UPDATE documents SET alerts = '{x}', url = 'x', path = 'x', service = 'x', labels = '{}'",
    "an older version": "UPDATE documents SET version = 0",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
async def test_a_rewrite_of_the_same_content_heals_whatever_was_done_to_the_rows(index: Index, damage: str) -> None:
    book = runbook("r", *(f"step {n} " + "word " * 300 for n in range(3)))
    whole = upserted(book, 1)
    await index.apply(whole)
    await index.pool.execute(damage)
    before = await index.epoch()
    again = upserted(book, 2, rewrite=True)
    await index.apply(again)
    assert await actual(index.pool) == expected([whole, again])
    assert await index.epoch() > before, "answers from the damaged index are kept"


async def test_freshness_is_told_once_of_each_event_and_not_of_repetitions(index: Index) -> None:
    event, new = upserted(runbook("r", "old"), 1), upserted(runbook("r", "new"), 2)
    await index.apply(event, event)
    await index.apply(event)
    await index.apply(event, new)
    assert index.registry.get_sample_value("cairn_ingest_freshness_seconds_count") == 2
    labels = {"type": "runbook.upserted", "outcome": "searchable"}
    assert index.registry.get_sample_value("cairn_ingest_records_total", labels) == 5


async def test_an_older_version_changes_nothing_and_is_superseded(index: Index) -> None:
    new, old = upserted(runbook("r", "new"), 2), upserted(runbook("r", "old"), 1)
    await index.apply(new)
    before = await rows(index.pool)
    await index.apply(old)
    assert await rows(index.pool) == before
    assert await index.states([new, old]) == ["searchable", "superseded"]
    assert len(index.embedder.texts) == 1


async def test_the_same_event_again_changes_nothing_but_is_counted(index: Index) -> None:
    event = upserted(runbook("r", "x"), 1)
    await index.apply(event)
    before, epoch = await rows(index.pool), await index.epoch()
    await index.apply(event)
    await index.apply(event, event)
    assert await rows(index.pool) == before
    assert await index.epoch() == epoch
    assert await index.states([event]) == ["searchable"]
    assert await index.pool.fetchval("SELECT deliveries FROM ingest_ledger") == 4


async def test_deleted_stays_deleted_whatever_comes_late(index: Index) -> None:
    events = [upserted(runbook("r", "x"), 1), deleted("r", 3), upserted(runbook("r", "late"), 2)]
    for event in events:
        await index.apply(event)
    assert await actual(index.pool) == expected(events)
    assert await index.pool.fetchval("SELECT count(*) FROM steps") == 0
    assert await index.states(events) == ["searchable", "searchable", "superseded"]


async def test_a_delete_that_comes_first_wins_over_an_older_upsert(index: Index) -> None:
    events = [deleted("r", 3), upserted(runbook("r", "late"), 2)]
    for event in events:
        await index.apply(event)
    assert await actual(index.pool) == expected(events)
    assert index.embedder.texts == []


async def test_a_deleted_runbook_comes_back_with_a_higher_revision(index: Index) -> None:
    events = [upserted(runbook("r", "x"), 1), deleted("r", 2), upserted(runbook("r", "x"), 3)]
    for event in events:
        await index.apply(event)
    assert await actual(index.pool) == expected(events)


async def test_unchanged_chunks_are_neither_embedded_again_nor_touched(index: Index) -> None:
    await index.apply(upserted(runbook("r", "one", "two", "three"), 1))
    before = await rows(index.pool)
    index.embedder.texts.clear()
    edited = upserted(runbook("r", "one", "TWO", "three"), 2)
    await index.apply(edited)
    assert [text.splitlines()[-1] for text in index.embedder.texts] == ["TWO"]
    after = await rows(index.pool)
    for table in after:
        changed = {key for key in after[table] if after[table][key] != before[table].get(key)}
        assert len(changed) == 1, f"{table}: {len(changed)} rows written for one changed step"


async def test_a_step_that_moves_takes_its_vector_with_it(index: Index) -> None:
    await index.apply(upserted(runbook("r", "one", "two"), 1))
    index.embedder.texts.clear()
    events = [upserted(runbook("r", "zero", "one", "two"), 2)]
    await index.apply(*events)
    assert [text.splitlines()[-1] for text in index.embedder.texts] == ["zero"]
    assert await actual(index.pool) == expected(events)


async def test_the_same_content_at_a_higher_version_only_notes_the_version(index: Index) -> None:
    await index.apply(upserted(runbook("r", "one", commit="c1"), 1))
    before, epoch = await rows(index.pool), await index.epoch()
    index.embedder.texts.clear()
    again = upserted(runbook("r", "one", commit="c2"), 2)
    await index.apply(again)
    assert await rows(index.pool) == before
    assert index.embedder.texts == []
    assert await index.epoch() == epoch
    [row] = await index.pool.fetch("SELECT version, commit_sha FROM documents")
    assert tuple(row) == (2, "c2")
    assert await index.states([again]) == ["searchable"]


async def test_a_text_that_occurs_twice_is_embedded_once(index: Index) -> None:
    await index.apply(upserted(runbook("a", "same", title="T"), 1), upserted(runbook("b", "same", title="T"), 1))
    assert len(index.embedder.texts) == 1


async def test_a_newer_pipeline_writes_the_same_version_again(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    event = upserted(runbook("r", "one"), 1)
    await index.apply(event)
    for module in (model_module, document_rows, document_store):
        monkeypatch.setattr(module, "PIPELINE", "0002")
    monkeypatch.setattr("cairn_ingest_consumer.collapse.PIPELINE", "0002")
    await index.apply(event)
    assert await index.pool.fetchval("SELECT pipeline FROM document_parts") == "0002"
    for module in (model_module, document_rows, document_store):
        monkeypatch.setattr(module, "PIPELINE", "0001")
    monkeypatch.setattr("cairn_ingest_consumer.collapse.PIPELINE", "0001")
    await index.apply(event)
    assert await index.pool.fetchval("SELECT pipeline FROM document_parts") == "0002", "an old replica wrote over it"


async def test_the_epoch_grows_with_what_runbooks_say_and_with_nothing_else(index: Index) -> None:
    await index.apply(upserted(runbook("r", "one"), 1))
    assert await index.epoch() == 1
    await index.apply(source_event("OPS-1", 1))
    await index.apply(deleted("never-there", 1))
    assert await index.epoch() == 1
    await index.apply(upserted(runbook("r", "two"), 2))
    assert await index.epoch() == 2
    await index.apply(deleted("r", 3))
    assert await index.epoch() == 3
    await index.apply(deleted("r", 4))
    assert await index.epoch() == 3


async def test_the_first_write_claims_the_index_for_its_model_and_another_model_gets_a_space_of_its_own(
    index: Index,
) -> None:
    await index.apply(upserted(runbook("r", "one"), 1))
    first = index.models.fingerprint
    assert await index.pool.fetchval("SELECT fingerprint FROM corpus_state") == first
    index.models.fingerprint = "another"
    late = upserted(runbook("r", "two"), 2)
    await index.apply(late)
    assert await index.states([late]) == ["searchable"]
    assert await index.pool.fetchval("SELECT fingerprint FROM corpus_state") == first
    assert await index.pool.fetchval("SELECT count(*) FROM chunk_embeddings_384") == 0, "a vector of the former text"
    [table] = [space.table for space in await PostgresSpaces(index.pool).all() if space.state == "building"]
    assert [row[0] for row in await index.pool.fetch(f"SELECT fingerprint FROM {table}")] == ["another"]


async def test_postgres_itself_refuses_a_vector_of_another_model(index: Index) -> None:
    await index.apply(upserted(runbook("r", "one"), 1))
    with pytest.raises(asyncpg.CheckViolationError):
        await index.pool.execute("UPDATE chunk_embeddings_384 SET fingerprint = 'another'")


@pytest.mark.parametrize("order", [1, -1])
async def test_parts_of_a_document_are_written_each_by_itself_and_their_order_leaves_no_trace(
    index: Index, order: int
) -> None:
    events = [
        source_event("OPS-1", 1, part="c1", kind="comment", title="Ann", body="first"),
        source_event("OPS-1", 5, part="c2", kind="comment", title="Bob", body="second"),
    ][::order]
    for event in events:
        await index.apply(event)
    assert await actual(index.pool) == expected(events), "the highest part names it while there is no main part"
    later = [source_event("OPS-1", 2, title="Disk full"), source_event("OPS-1", 9, part="c1", deleted=True)][::order]
    for event in later:
        await index.apply(event)
    assert await actual(index.pool) == expected(events + later)
    assert await index.pool.fetchval("SELECT title FROM documents") == "Disk full"


async def test_a_deleted_main_part_hides_all_parts_and_those_that_come_later(index: Index) -> None:
    events = [
        source_event("OPS-1", 1, title="Disk full"),
        source_event("OPS-1", 2, part="c1", kind="comment", body="first"),
        source_event("OPS-1", 3, deleted=True),
        source_event("OPS-1", 4, part="c2", kind="comment", body="late"),
    ]
    for event in events:
        await index.apply(event)
    assert await actual(index.pool) == expected(events)
    assert await index.pool.fetchval("SELECT count(*) FROM document_parts") == 3
    assert await index.pool.fetchval("SELECT count(*) FROM steps") == 0


async def test_counts_and_times_of_a_part_are_kept(index: Index) -> None:
    event = source_event("log|1", 1, kind="log", count=40, first_seen="2026-01-01T00:00:00Z")
    await index.apply(event)
    [row] = await index.pool.fetch("SELECT count, first_seen, last_seen FROM document_parts")
    assert row["count"] == 40
    assert row["first_seen"].year == 2026
    assert row["last_seen"] is None


async def test_readers_see_the_old_document_or_the_new_one_and_never_anything_else(index: Index) -> None:
    versions = [[f"{name} {n}" for n in range(6)] for name in ("old", "new")]
    await index.apply(upserted(runbook("r", *versions[0]), 1))
    seen: set[tuple[str, ...]] = set()
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            found = await index.pool.fetch("SELECT c.text FROM chunks c JOIN chunk_embeddings_384 USING (chunk_id)")
            seen.add(tuple(sorted(row["text"] for row in found)))

    readers = [asyncio.create_task(read()) for _ in range(2)]
    for version in range(2, 40):
        await index.apply(upserted(runbook("r", *versions[version % 2]), version))
    done.set()
    await asyncio.gather(*readers)
    assert seen <= {tuple(sorted(version)) for version in versions}
    assert len(seen) == 2


async def test_two_writers_of_one_document_end_as_the_higher_version_without_leftovers(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race that folding claim and delete into one statement would lose (research §3.2)."""
    low = upserted(runbook("r", *(f"low {n}" for n in range(5))), 2)
    high = upserted(runbook("r", "high"), 3)
    await index.apply(upserted(runbook("r", "first"), 1))
    await in_a_race(index, monkeypatch, low, high)
    assert await actual(index.pool) == expected([low, high])


@pytest.mark.parametrize("part_first", [True, False])
async def test_a_part_that_is_written_while_its_document_is_deleted_leaves_nothing(
    index: Index, monkeypatch: pytest.MonkeyPatch, part_first: bool
) -> None:
    main, end = source_event("OPS-1", 1), source_event("OPS-1", 3, deleted=True)
    part = source_event("OPS-1", 2, part="c1", kind="comment", body="late")
    await index.apply(main)
    await in_a_race(index, monkeypatch, *((part, end) if part_first else (end, part)))
    assert await actual(index.pool) == expected([main, part, end])


async def test_a_version_of_known_content_waits_for_the_write_that_changes_the_content(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else version 3 would be noted over the chunks of version 2."""
    events = [upserted(runbook("r", body), version) for version, body in ((1, "same"), (2, "other"), (3, "same"))]
    await index.apply(events[0])
    await in_a_race(index, monkeypatch, *events[1:])
    assert await actual(index.pool) == expected(events)


async def in_a_race(index: Index, monkeypatch: pytest.MonkeyPatch, first: Event, second: Event) -> None:
    """`first` has done everything but commit when `second` begins, and must be waited for."""
    entered, release = asyncio.Event(), asyncio.Event()

    async def settle_slowly(connection: Any, entries: Any) -> None:
        if not entered.is_set():
            entered.set()
            await release.wait()
        await ledger.settle(connection, entries)

    monkeypatch.setattr(document_store, "settle", settle_slowly)
    tasks = [asyncio.create_task(index.apply(first))]
    await entered.wait()
    tasks.append(asyncio.create_task(index.apply(second)))
    await asyncio.sleep(0.3)
    release.set()
    await asyncio.gather(*tasks)


async def test_content_that_moved_between_reading_and_writing_is_read_again(index: Index) -> None:
    """A write that would only note its version must not do so when the content is not what it was."""
    same = upserted(runbook("r", "same"), 1)
    other, again = upserted(runbook("r", "other"), 2), upserted(runbook("r", "same"), 3)
    await index.apply(same)
    store = index.handler._store
    known_parts = store.known_parts
    calls = 0

    async def read_then_be_overtaken(keys: Any) -> Any:
        nonlocal calls
        calls += 1
        known = await known_parts(keys)
        if calls == 1:
            await index.apply(other)
        return known

    store.known_parts = read_then_be_overtaken  # type: ignore[method-assign]
    await index.apply(again)
    assert await actual(index.pool) == expected([same, other, again])
    assert calls >= 3


async def test_opposite_orders_of_documents_do_not_deadlock(index: Index) -> None:
    books = [f"r{n}" for n in range(8)]

    async def write(order: Sequence[str], version: int) -> None:
        await index.apply(*(upserted(runbook(book, f"{book} {version}"), version) for book in order))

    for version in range(1, 12, 2):
        await asyncio.gather(write(books, version), write(books[::-1], version + 1))
    assert await index.pool.fetchval("SELECT count(*) FROM documents WHERE version = 12") == len(books)


@pytest.mark.parametrize("bad", [np.full(384, np.nan), np.zeros(384), np.ones(3)], ids=["nan", "zero", "short"])
async def test_a_wrong_vector_is_never_written_and_never_blamed_on_the_record(index: Index, bad: Any) -> None:
    async def embed(texts: Sequence[str], fingerprint: str) -> list[Any]:
        return [bad.astype(np.float32) for _ in texts]

    index.embedder.embed = embed  # type: ignore[method-assign]
    with pytest.raises(TransientError):
        await index.apply(upserted(runbook("r", "x"), 1))
    assert await index.pool.fetchval("SELECT count(*) FROM documents") == 0


async def test_a_text_that_the_embedder_refuses_names_its_own_record(index: Index) -> None:
    index.embedder.refused = {"unembeddable"}
    events = [source_event(f"A-{n}", 1, body="unembeddable" if n == 3 else f"body {n}") for n in range(6)]
    with pytest.raises(Rejected) as caught:
        await index.apply(*events)
    assert set(caught.value.culprits) == {3}
    assert caught.value.culprits[3][1].stage == "embed"
    assert await index.pool.fetchval("SELECT count(*) FROM documents") == 0


async def test_invalid_records_are_named_before_anything_is_paid_for(index: Index) -> None:
    events = [source_event(f"A-{n}", 1, body="\0" if n in (0, 5) else "fine") for n in range(6)]
    with pytest.raises(Rejected) as caught:
        await index.apply(*events)
    assert set(caught.value.culprits) == {0, 5}
    assert index.embedder.texts == []


async def test_data_that_postgres_refuses_is_a_permanent_error_and_rolls_back(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cairn_ingest_consumer.documents._refuse_nul", lambda write: None)
    with pytest.raises(PermanentError, match="postgres refused the data"):
        await index.apply(source_event("A", 1, body="\0"), source_event("B", 1))
    assert await index.pool.fetchval("SELECT count(*) FROM documents") == 0


async def test_no_event_at_all_is_fine(index: Index) -> None:
    await index.handler.handle(deliveries_of([]))
