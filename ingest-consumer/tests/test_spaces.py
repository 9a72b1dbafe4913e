"""Changing the embedding model on a real PostgreSQL: built beside, kept right under writes, switched, taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pytest
from ingest_fakes import FakeEmbedder, FakeModels, deleted, deliveries_of, runbook, upserted, vector_of
from prometheus_client import CollectorRegistry

from cairn_ingest_consumer import spaces_command
from cairn_ingest_consumer.adapters import document_store, ledger
from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.embedders import Embedders, Endpoint
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.metrics import IngestMetrics, RebuildMetrics
from cairn_ingest_consumer.model import Space, Vector
from cairn_ingest_consumer.rebuild import FIRST, Rebuild, RebuildPolicy
from cairn_shared.clock import SystemClock
from cairn_shared.errors import Conflict, TransientError, Unavailable
from cairn_shared.events import Event
from cairn_shared.postgres import Connection, Pool

OLD, NEW = "old@1", "new@1"
POLICY = RebuildPolicy(batch=4, share=1.0, patience=0.0)


class Models:
    """A consumer with one embedder or two, and the rebuilding that runs in it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.spaces = PostgresSpaces(pool)
        self.old, self.old_embedder = FakeModels(OLD, 384), FakeEmbedder(384)
        self.new, self.new_embedder = FakeModels(NEW, 768), FakeEmbedder(768)
        self.with_embedders(Endpoint(self.old, self.old_embedder, self.old_embedder))

    def with_embedders(self, *endpoints: Endpoint) -> None:
        """Start the consumer again with other settings."""
        registry = CollectorRegistry()
        embedders = Embedders(self.spaces, endpoints, SystemClock())
        self.index = IndexDocuments(PostgresDocumentStore(self.pool), embedders, IngestMetrics(registry), SystemClock())
        self.rebuild = Rebuild(
            embedders, self.spaces, RebuildMetrics(registry), SystemClock(), policy=POLICY, busy=lambda: self.index.busy
        )

    def with_both(self) -> None:
        self.with_embedders(
            Endpoint(self.old, self.old_embedder, self.old_embedder),
            Endpoint(self.new, self.new_embedder, self.new_embedder),
        )

    async def apply(self, *events: Event) -> None:
        await self.index.handle(deliveries_of(events))

    async def space(self, fingerprint: str) -> Space:
        return next(space for space in await self.spaces.all() if space.fingerprint == fingerprint)

    async def states(self) -> dict[str, str]:
        return {space.fingerprint: space.state for space in await self.spaces.all()}

    async def wrong(self, fingerprint: str) -> list[str]:
        """Chunks whose vector of this model is missing or of another text."""
        space = await self.space(fingerprint)
        rows = await self.pool.fetch(
            f"SELECT c.embed_text, e.embedding FROM chunks c LEFT JOIN {space.table} e USING (chunk_id)"
        )
        return [
            row["embed_text"]
            for row in rows
            if row["embedding"] is None
            or not np.allclose(
                np.asarray(row["embedding"].to_numpy(), dtype=np.float32),
                vector_of(row["embed_text"], fingerprint, space.dimension),
                atol=1e-3,
            )
        ]

    async def epoch(self) -> int:
        return int(await self.pool.fetchval("SELECT epoch FROM corpus_state"))


@pytest.fixture
def models(pool: Pool) -> Models:
    return Models(pool)


def books(count: int, version: int = 1, text: str = "first") -> list[Event]:
    return [upserted(runbook(f"r{n}", f"{text} {n}", "second step"), version) for n in range(count)]


async def test_a_new_model_is_built_under_writes_survives_a_death_and_is_switched_to_when_complete(
    models: Models,
) -> None:
    await models.apply(*books(12))
    models.with_both()
    half = asyncio.Event()

    async def slowly(texts: Sequence[str]) -> None:
        if len(models.new_embedder.texts) >= 8:
            half.set()
            await asyncio.sleep(60)

    models.new_embedder.before = slowly
    filling = asyncio.create_task(models.rebuild.once())
    await asyncio.wait_for(half.wait(), 20)
    filling.cancel()  # the replica dies in the middle
    await asyncio.gather(filling, return_exceptions=True)
    assert await models.states() == {OLD: "active", NEW: "building"}
    kept = await models.pool.fetchval("SELECT count(*) FROM chunk_embeddings_768")
    assert 0 < kept < 24

    models.new_embedder.before = None
    models.new_embedder.texts.clear()
    models.with_both()
    before = await models.epoch()
    await asyncio.gather(
        models.rebuild.once(),
        models.apply(*books(3, 2, "edited"), upserted(runbook("late", "a new one"), 1)),
        models.apply(deleted("r11", 2)),
    )
    await models.rebuild.once()
    assert await models.states() == {OLD: "retired", NEW: "active"}
    assert await models.wrong(NEW) == []
    assert await models.wrong(OLD) == [], "the old space is kept right while its embedder is there"
    assert await models.epoch() == before + 3, "two batches changed runbooks, and the model changed"
    assert len(models.new_embedder.texts) < 24 - kept + 12, "what was embedded before the death is not embedded again"


async def test_writes_go_to_both_spaces_and_deletes_leave_neither(models: Models) -> None:
    await models.apply(*books(2))
    models.with_both()
    await models.apply(*books(2, 2, "edited"), upserted(runbook("more", "x"), 1))
    table = (await models.space(NEW)).table
    assert await models.pool.fetchval(f"SELECT count(*) FROM {table}") == 5, (
        "a document that changes has its vectors at once"
    )
    await models.rebuild.once()
    await models.apply(deleted("r0", 3), deleted("r1", 3), deleted("more", 3))
    for one in ("chunks", "chunk_embeddings_384", "chunk_embeddings_768"):
        assert await models.pool.fetchval(f"SELECT count(*) FROM {one}") == 0


async def test_a_failing_new_embedder_neither_stops_ingest_nor_leaves_a_vector_of_former_text(models: Models) -> None:
    await models.apply(*books(2))
    models.with_both()
    await models.rebuild.once()
    await models.spaces.use(OLD)
    await models.rebuild.once()
    assert await models.states() == {OLD: "active", NEW: "retired"}

    async def fail(texts: Sequence[str]) -> None:
        raise Unavailable("embedder")

    models.new_embedder.before = fail
    await models.apply(*books(2, 2, "edited"))
    assert await models.wrong(OLD) == []
    assert await models.pool.fetchval("SELECT count(*) FROM chunk_embeddings_768") == 2, "only what did not change"
    models.new.away = True
    await models.apply(*books(2, 3, "again"))
    assert await models.wrong(OLD) == []


async def test_an_embedder_that_may_have_the_model_in_use_is_waited_for(models: Models) -> None:
    await models.apply(*books(1))
    models.with_both()
    models.old.away = True
    with pytest.raises(TransientError):
        await models.apply(*books(1, 2))
    assert await models.pool.fetchval("SELECT version FROM documents") == 1


async def test_a_model_changed_in_place_never_blocks_ingest_and_takes_over_when_complete(models: Models) -> None:
    await models.apply(*books(3))
    models.with_embedders(Endpoint(models.new, models.new_embedder, models.new_embedder))
    await models.apply(*books(1, 2, "edited"))
    assert await models.states() == {OLD: "active", NEW: "building"}
    assert await models.pool.fetchval("SELECT count(*) FROM chunk_embeddings_384") == 5
    assert await models.pool.fetchval("SELECT count(*) FROM chunk_embeddings_768") == 2
    await models.rebuild.once()
    assert await models.states() == {OLD: "retired", NEW: "active"}
    assert await models.wrong(NEW) == []


async def test_back_to_the_former_model_only_when_it_is_asked_for(models: Models) -> None:
    await models.apply(*books(4))
    models.with_embedders(Endpoint(models.new, models.new_embedder, models.new_embedder))
    await models.rebuild.once()
    await models.apply(*books(1, 2, "edited"))
    models.with_both()
    await models.rebuild.once()
    assert (await models.states())[OLD] == "retired", "an embedder that still has it is no reason to go back"
    models.old_embedder.texts.clear()
    await models.spaces.use(OLD)
    await models.rebuild.once()
    assert await models.states() == {OLD: "active", NEW: "retired"}
    assert await models.wrong(OLD) == []
    assert len(models.old_embedder.texts) == 1, "only what changed since is embedded again"
    await models.rebuild.once()
    assert await models.states() == {OLD: "active", NEW: "retired"}


async def test_a_dropped_space_frees_its_table_and_comes_back_only_when_asked_for(models: Models) -> None:
    await models.apply(*books(2))
    models.with_both()
    with pytest.raises(Conflict, match="searches use"):
        await models.spaces.drop(OLD)
    with pytest.raises(Conflict, match="no embedding space"):
        await models.spaces.drop("never seen")
    await models.rebuild.once()
    await models.spaces.drop(OLD)
    await models.apply(*books(1, 2, "edited"))
    await models.rebuild.once()
    assert await models.states() == {OLD: "dropped", NEW: "active"}
    assert await models.pool.fetchval("SELECT count(*) FROM chunk_embeddings_384") == 0
    await models.spaces.use(OLD)
    await models.rebuild.once()
    assert await models.states() == {OLD: "active", NEW: "retired"}
    assert await models.wrong(OLD) == []


async def test_two_models_of_one_dimension_have_each_their_table(models: Models) -> None:
    models.new, models.new_embedder = FakeModels(NEW, 384), FakeEmbedder(384)
    await models.apply(*books(2))
    models.with_both()
    await models.rebuild.once()
    tables = {space.table for space in await models.spaces.all()}
    assert len(tables) == 2
    assert await models.wrong(OLD) == await models.wrong(NEW) == []
    hnsw = await models.pool.fetch("SELECT tablename FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")
    assert tables <= {row["tablename"] for row in hnsw}


async def test_a_chunk_that_the_new_model_refuses_is_named_and_keeps_only_the_switch_waiting(models: Models) -> None:
    await models.apply(*books(9), upserted(runbook("bad", "unembeddable"), 1))
    models.with_both()
    models.new_embedder.refused = {"unembeddable"}
    await models.rebuild.once()
    space = await models.space(NEW)
    assert space.state == "building"
    assert space.problem is not None
    assert "refuses 1 of its chunks" in space.problem
    assert len(await models.wrong(NEW)) == 1
    models.new_embedder.refused = set()
    await models.rebuild.once()
    assert (await models.space(NEW)).state == "active"
    assert (await models.space(NEW)).problem is None


async def test_a_chunk_that_is_edited_while_it_is_being_embedded_never_gets_the_vector_of_its_former_text(
    models: Models,
) -> None:
    await models.apply(*books(1))
    models.with_both()
    await models.spaces.open(await models.new.current())
    space = await models.space(NEW)

    async def embed(texts: Mapping[str, str]) -> Mapping[str, Vector]:
        models.new.away = True  # the writer leaves the vector to the rebuilding
        await models.apply(*books(1, 2, "edited"))
        return {sha: vector_of(text, NEW, 768) for sha, text in texts.items()}

    filled = await models.spaces.fill(space, FIRST, 10, embed)
    assert filled is not None
    assert (filled.seen, filled.written) == (2, 1)
    [wrong] = await models.wrong(NEW)
    assert "edited" in wrong
    assert await models.pool.fetchval("SELECT count(*) FROM chunk_embeddings_768") == 1


async def test_a_switch_waits_for_writers_and_sees_what_they_took_away(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    await models.apply(*books(2))
    models.with_both()
    await models.spaces.open(await models.new.current())
    space = await models.space(NEW)
    await models.spaces.fill(
        space, FIRST, 10, lambda texts: _later({sha: vector_of(text, NEW, 768) for sha, text in texts.items()})
    )
    written, may_commit = asyncio.Event(), asyncio.Event()

    async def hold(connection: Connection | Pool, entries: Iterable[ledger.Entry]) -> None:
        await ledger.settle(connection, entries)
        written.set()
        await may_commit.wait()

    monkeypatch.setattr(document_store, "settle", hold)
    models.new.away = True
    writing = asyncio.create_task(models.apply(*books(1, 2, "edited")))
    await asyncio.wait_for(written.wait(), 10)
    switching = asyncio.create_task(models.spaces.switch(space))
    await asyncio.sleep(0.3)
    assert not switching.done()
    may_commit.set()
    await writing
    assert await switching is False
    assert await models.states() == {OLD: "active", NEW: "building"}
    assert len(await models.wrong(NEW)) == 1


async def test_a_chunk_that_a_writer_holds_is_left_to_the_next_round(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    await models.apply(*books(1))
    models.with_both()
    await models.spaces.open(await models.new.current())
    written, may_commit = asyncio.Event(), asyncio.Event()

    async def hold(connection: Connection | Pool, entries: Iterable[ledger.Entry]) -> None:
        written.set()
        await may_commit.wait()

    monkeypatch.setattr(document_store, "settle", hold)
    models.new.away = True
    writing = asyncio.create_task(models.apply(*books(1, 2, "edited")))

    async def embed(texts: Mapping[str, str]) -> Mapping[str, Vector]:
        await asyncio.wait_for(written.wait(), 10)
        return {sha: vector_of(text, NEW, 768) for sha, text in texts.items()}

    await asyncio.wait_for(models.spaces.fill(await models.space(NEW), FIRST, 10, embed), 10)
    may_commit.set()
    await writing
    rows = await models.pool.fetch("SELECT embed_text FROM chunks JOIN chunk_embeddings_768 USING (chunk_id)")
    assert not [row for row in rows if "edited" in row["embed_text"]], "a vector of the former text"


async def test_a_batch_embedded_before_the_switch_and_written_after_it_is_embedded_again_for_the_new_model(
    models: Models,
) -> None:
    await models.apply(*books(2))
    models.with_both()
    rebuild = models.rebuild
    models.with_both()
    models.new.away = True

    async def meanwhile(texts: Sequence[str]) -> None:
        models.old_embedder.before = None
        models.new.away = False
        await rebuild.once()

    models.old_embedder.before = meanwhile
    await models.apply(*books(1, 2, "edited"))
    assert await models.states() == {OLD: "retired", NEW: "active"}
    assert await models.wrong(NEW) == []


async def test_two_replicas_do_not_embed_the_same_chunks(models: Models) -> None:
    await models.apply(*books(10))
    models.with_both()
    first = models.rebuild
    models.with_both()

    async def slowly(texts: Sequence[str]) -> None:
        await asyncio.sleep(0.01)

    models.new_embedder.before = slowly
    await asyncio.gather(first.once(), models.rebuild.once())
    await first.once()
    assert len(models.new_embedder.texts) == 20, "each text once"
    assert (await models.states())[NEW] == "active"


async def test_a_model_of_too_many_dimensions_is_refused_by_name_and_no_record_is_blamed(models: Models) -> None:
    models.old = FakeModels("huge@1", 5000)
    models.with_embedders(Endpoint(models.old, models.old_embedder, models.old_embedder))
    with pytest.raises(TransientError, match="huge@1 have 5000 dimensions"):
        await models.apply(*books(1))


async def _later(vectors: Mapping[str, Vector]) -> Mapping[str, Vector]:
    return vectors


@pytest.mark.parametrize(
    ("dimension", "storage", "kept_as"),
    [
        (384, None, "vector(384)"),
        (384, "halfvec", "halfvec(384)"),
        (768, None, "halfvec(768)"),
        (768, "vector", "vector(768)"),
        (2000, "vector", "vector(2000)"),
        (4000, None, "halfvec(4000)"),
    ],
)
async def test_vectors_are_kept_as_the_model_asks_and_come_back_so_when_they_were_dropped(
    models: Models, dimension: int, storage: Literal["vector", "halfvec"] | None, kept_as: str
) -> None:
    """Beside a model of the default kind, so that the tables which every database has are taken and are not."""
    await models.apply(upserted(runbook("a", "Cordon it.", "Drain it."), 1))
    models.new, models.new_embedder = FakeModels(NEW, dimension, storage), FakeEmbedder(dimension)
    models.with_both()
    for _ in range(2):
        await models.rebuild.once()
        assert (await models.states())[NEW] == "active"
        assert await models.wrong(NEW) == []
        table = (await models.space(NEW)).table
        assert kept_as == await models.pool.fetchval(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = $1::text::regclass AND attname = 'embedding'",
            table,
        )
        await models.spaces.use(OLD)
        await models.rebuild.once()
        await models.spaces.drop(NEW)
        await models.spaces.use(NEW)


async def test_more_dimensions_than_an_index_of_the_wanted_storage_takes(models: Models) -> None:
    models.with_embedders(Endpoint(FakeModels("wide@1", 2001, "vector"), FakeEmbedder(2001), FakeEmbedder(2001)))
    with pytest.raises(TransientError, match=r"an index of vector takes at most 2000: .*EMBEDDING_STORAGE"):
        await models.apply(upserted(runbook("a", "Cordon it."), 1))


async def test_the_command_shows_asks_back_and_drops(
    models: Models, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PG_DSN", postgres_dsn)
    await models.apply(*books(2))
    models.with_both()
    await models.rebuild.once()
    await models.apply(deleted("r0", 2))
    await spaces_command.run([])
    assert capsys.readouterr().out.splitlines() == ["retired  2/2  old@1", "active   2/2  new@1"]
    await spaces_command.run(["use", OLD])
    assert capsys.readouterr().out.startswith("building 2/2  old@1")
    await spaces_command.run(["drop", OLD])
    assert capsys.readouterr().out.startswith("dropped  0/2  old@1")
    with pytest.raises(Conflict, match="searches use"):
        await spaces_command.run(["drop", NEW])
    with pytest.raises(SystemExit):
        spaces_command.parse(["use"])
