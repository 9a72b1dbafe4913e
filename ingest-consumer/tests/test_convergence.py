"""Invariant I3: any events, in any order, repeated, by several writers at once, end as the fold by highest rank."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from index_state import Index, actual, expected
from ingest_fakes import deleted, runbook, source_event, upserted
from pydantic import SecretStr

from cairn_shared.events import Event
from cairn_shared.postgres import open_pool
from cairn_shared.settings import PostgresSettings

TABLES = "documents, document_parts, steps, chunks, chunk_embeddings_384, ingest_ledger"
bodies = st.lists(st.sampled_from(["one", "two", "three", "long " * 150, " "]), max_size=4)
runbook_events = st.builds(
    lambda name, version, steps, salt: upserted(
        runbook(name, *steps, title=f"{name} {salt}"), version, source_id=f"{name}@{version}{salt}{steps}"
    ),
    st.sampled_from(["r1", "r2"]),
    st.integers(0, 5),
    bodies,
    st.sampled_from(["x", "y"]),
)
deletions = st.builds(deleted, st.sampled_from(["r1", "r2"]), st.integers(0, 5))
comments = st.builds(
    lambda part, version, arrived, body, gone: source_event(
        "OPS-1",
        version,
        kind="comment" if part else "ticket",
        part=part,
        salt=f"{body}{gone}",  # one id, one content
        body=body,
        deleted=gone and bool(part),
    ).model_copy(update={"arrived": arrived}),
    st.sampled_from(["", "c1", "c2"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["one", "two"]),
    st.booleans(),
)
# The end of a ticket is final at its source; a revived one gets its parts back only when they are sent again.
ticket_end = st.builds(lambda: source_event("OPS-1", 9, deleted=True))
events = st.one_of(runbook_events, runbook_events, deletions, comments, ticket_end)
waves = st.lists(st.lists(st.lists(events, min_size=1, max_size=4), min_size=1, max_size=3), max_size=4)


@pytest.mark.slow
@given(schedule=waves, delays=st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.004]), min_size=8, max_size=8))
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)
def test_any_delivery_ends_as_the_fold_by_highest_rank(
    postgres_dsn: str, schedule: list[list[list[Event]]], delays: list[float]
) -> None:
    """Batches of one wave run at once, each as if on a replica of its own; then all of it comes once more, backwards."""

    async def story() -> None:
        settings_ = PostgresSettings(pg_dsn=SecretStr(postgres_dsn), pg_pool_min=0, pg_pool_max=3)
        async with open_pool(settings_, "test") as pool:
            await pool.execute(f"TRUNCATE {TABLES} CASCADE")
            index = Index(pool)
            pauses = iter(delays * 1000)

            async def pause(_: Sequence[str]) -> None:
                await asyncio.sleep(next(pauses))

            index.embedder.before = pause
            for wave in schedule:
                await asyncio.gather(*(index.apply(*batch) for batch in wave))
            everything = [event for wave in schedule for batch in wave for event in batch]
            model = expected(everything)
            assert await actual(pool) == model
            if everything:
                await index.apply(*reversed(everything))
            assert await actual(pool) == model
            assert None not in await index.states(everything)

    asyncio.run(story())
