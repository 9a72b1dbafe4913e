"""Attempts, ledger and word statistics in PostgreSQL."""

from __future__ import annotations

import uuid

import pytest
from index_state import Index
from ingest_fakes import record_of, runbook, source_event, upserted

from cairn_ingest_consumer.adapters.attempts import PostgresAttempts
from cairn_ingest_consumer.adapters.ledger import Entry, PostgresLedger, settle
from cairn_ingest_consumer.adapters.statistics import PostgresStatistics
from cairn_shared.errors import Unavailable
from cairn_shared.postgres import Pool

RECORDS = [record_of(source_event(f"A-{n}", 1), n) for n in range(3)]


async def test_attempts_survive_the_process_and_count_once_for_each_life(pool: Pool) -> None:
    for life in range(1, 4):
        attempts = PostgresAttempts(pool, "g")
        for _ in range(3):
            assert await attempts.begin(RECORDS) == dict.fromkeys(range(3), life)


async def test_what_was_forgiven_counts_again_and_what_ended_is_forgotten(pool: Pool) -> None:
    attempts = PostgresAttempts(pool, "g")
    await attempts.begin(RECORDS)
    await attempts.forgive(RECORDS)
    assert await attempts.begin(RECORDS) == dict.fromkeys(range(3), 1)
    await attempts.end(RECORDS)
    assert await pool.fetchval("SELECT count(*) FROM ingest_attempts") == 0


async def test_attempts_of_groups_and_partitions_are_apart(pool: Pool) -> None:
    await PostgresAttempts(pool, "g").begin(RECORDS)
    assert await PostgresAttempts(pool, "h").begin(RECORDS) == dict.fromkeys(range(3), 1)
    elsewhere = [record_of(source_event("A", 1), 0, partition=1)]
    assert await PostgresAttempts(pool, "g").begin(elsewhere) == {0: 1}


async def test_a_closed_pool_is_a_store_that_is_away(pool: Pool) -> None:
    await pool.close()
    with pytest.raises(Unavailable):
        await PostgresAttempts(pool, "g").begin(RECORDS)


async def state(pool: Pool, event_id: uuid.UUID) -> tuple[str, str | None]:
    [row] = await pool.fetch("SELECT state, detail FROM ingest_ledger WHERE event_id = $1", event_id)
    return row["state"], row["detail"]


async def test_a_dead_event_becomes_searchable_by_a_replay_and_never_dead_again(pool: Pool) -> None:
    record, event_id = RECORDS[0], uuid.uuid4()
    ledger = PostgresLedger(pool)
    await ledger.dead(record, event_id, "embed: refused")
    assert await state(pool, event_id) == ("dead", "embed: refused")
    await settle(pool, [Entry(event_id, "searchable", "t", 0, 9)])
    assert await state(pool, event_id) == ("searchable", None)
    await ledger.dead(record, event_id, "again")
    assert await state(pool, event_id) == ("searchable", None)


async def test_details_that_postgres_cannot_store_are_mended(pool: Pool) -> None:
    event_id = uuid.uuid4()
    await PostgresLedger(pool).dead(RECORDS[0], event_id, "nul \0, half \ud800 pair, " + "x" * 5000)
    assert len((await state(pool, event_id))[1] or "") <= 1000


async def test_a_record_without_an_event_id_has_no_entry(pool: Pool) -> None:
    await PostgresLedger(pool).dead(RECORDS[0], None, "no id")
    assert await pool.fetchval("SELECT count(*) FROM ingest_ledger") == 0


async def test_word_statistics_follow_the_chunks_and_are_left_alone_when_nothing_changed(pool: Pool) -> None:
    index, statistics = Index(pool), PostgresStatistics(pool, ledger_days=90)
    await index.apply(upserted(runbook("a", "restart postgres", "vacuum"), 1))
    assert await statistics.refresh()

    async def documents_with(lexeme: str) -> int:
        return await pool.fetchval("SELECT ndoc FROM lexeme_df WHERE lexeme = $1", lexeme) or 0

    assert (await documents_with("restart"), await documents_with("runbook")) == (1, 2)
    [row] = await pool.fetch("SELECT chunks, average_length FROM corpus_state")
    assert row["chunks"] == 2
    assert row["average_length"] == await pool.fetchval("SELECT avg(length(tsv)) FROM chunks")
    assert not await statistics.refresh()
    await index.apply(upserted(runbook("a", "restart mysql"), 2))
    assert await statistics.refresh()
    assert (await documents_with("postgr"), await documents_with("vacuum"), await documents_with("restart")) == (
        0,
        0,
        1,
    )


async def test_one_replica_at_a_time_counts_words(pool: Pool) -> None:
    await Index(pool).apply(upserted(runbook("a", "x"), 1))
    async with pool.acquire() as other, other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock(hashtext('cairn.lexeme_df'))")
        assert not await PostgresStatistics(pool, 90).refresh()
    assert await PostgresStatistics(pool, 90).refresh()


async def test_old_ends_of_events_are_removed_and_tombstones_are_not(pool: Pool) -> None:
    index = Index(pool)
    events = [upserted(runbook("a", "x"), 1), upserted(runbook("b", "x"), 1)]
    await index.apply(*events)
    await pool.execute(
        "UPDATE ingest_ledger SET settled_at = now() - interval '91 days' WHERE event_id = $1", events[0].event_id
    )
    assert await PostgresStatistics(pool, 90).refresh()
    assert await index.states(events) == [None, "searchable"]
    assert await pool.fetchval("SELECT count(*) FROM document_parts") == 2
