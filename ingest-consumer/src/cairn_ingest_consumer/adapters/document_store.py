"""The index in PostgreSQL: one short transaction per batch, guarded by version (invariants I3 and I4).

READ COMMITTED with separate statements, on purpose: each takes a new snapshot after the rows are locked. Folding
the claim and the delete into one statement would read chunks as they were before it waited for the lock, and leave
a concurrent winner's chunks behind. Documents are locked in sorted order, so two batches never wait in a circle;
corpus_state, which they all share, comes last and is held shortest.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cairn_ingest_consumer.adapters import document_rows as sql
from cairn_ingest_consumer.adapters.ledger import Entry, settle
from cairn_ingest_consumer.adapters.spaces import SHARE_SPACES, read_spaces
from cairn_ingest_consumer.collapse import Register, is_same_content
from cairn_ingest_consumer.errors import ContentMoved
from cairn_ingest_consumer.model import (
    PIPELINE,
    KnownPart,
    LedgerNote,
    Outcome,
    PreparedPart,
    Rank,
    Space,
    Vector,
    Vectors,
    WriteResult,
)
from cairn_shared.crashpoints import crash_at
from cairn_shared.errors import TransientError
from cairn_shared.postgres import Connection, Pool, translate


class PostgresDocumentStore:
    """As `ports.DocumentStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def known_parts(self, keys: Iterable[Register]) -> dict[Register, KnownPart]:
        """What the index holds of these parts, without locks."""
        try:
            return await _known_parts(self._pool, keys)
        except Exception as exc:
            raise translate(exc) from exc

    async def vectors(self, document_ids: Iterable[uuid.UUID], space: Space) -> dict[str, Vector]:
        """As `ports.DocumentStore.vectors`."""
        if space.table is None:
            return {}
        try:
            rows = await self._pool.fetch(sql.VECTORS.format(table=space.table), list(document_ids))
        except Exception as exc:
            raise translate(exc) from exc
        return {row["embed_sha"]: np.asarray(row["embedding"].to_numpy(), dtype=np.float32) for row in rows}

    async def write(
        self,
        parts: Sequence[PreparedPart],
        vectors: Mapping[str, Vectors],
        active: str | None,
        notes: Sequence[LedgerNote],
    ) -> WriteResult:
        """As `ports.DocumentStore.write`."""
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                result = await _Write(connection, parts, vectors, active).run(notes)
                crash_at("in_transaction")
                return result
        except Exception as exc:
            raise translate(exc) from exc


class _Write:
    """One transaction."""

    def __init__(
        self,
        connection: Connection,
        parts: Sequence[PreparedPart],
        vectors: Mapping[str, Vectors],
        active: str | None,
    ) -> None:
        self._connection = connection
        self._parts = {part.write.key: part for part in sorted(parts, key=lambda part: part.write.key)}
        self._vectors = vectors
        self._active = active
        self._spaces: list[Space] = []

    async def run(self, notes: Sequence[LedgerNote]) -> WriteResult:
        won: dict[Register, PreparedPart] = {}
        epoch_grew = False
        written = 0
        if self._parts:
            if any(part.steps for part in self._parts.values()):
                await self._hold_spaces()
            before = await self._lock()
            won = await self._claim(before)
            await self._update_documents(won)
            written = await self._replace_content(won)
            epoch_grew = any(_changes_answers(part, before.get(key)) for key, part in won.items())
            if epoch_grew:
                await self._connection.execute(sql.GROW_EPOCH)
            same = {key for key, part in self._parts.items() if key in before and before[key].rank == part.write.rank}
        else:
            same = set()
        outcomes: dict[uuid.UUID, Outcome] = {}
        for note in notes:
            # The same event can have come twice, at two times: it is searchable when either of them is.
            if outcomes.get(_event_id(note)) != "searchable":
                outcomes[_event_id(note)] = _outcome(note, won, same)
        await settle(self._connection, _entries(notes, outcomes))
        return WriteResult(outcomes, epoch_grew, written)

    async def _hold_spaces(self) -> None:
        """Which models there are, and that it stays so; before any row is locked, so that a switch waits for us only.

        Raises:
            ContentMoved: searches use another model than when the vectors were made.
        """
        await self._connection.execute(SHARE_SPACES)
        spaces = await read_spaces(self._connection)
        if self._active != next((space.fingerprint for space in spaces if space.state == "active"), None):
            raise ContentMoved("searches use another embedding model since")
        self._spaces = [space for space in spaces if space.table]
        for space in self._spaces:
            _check(self._vectors.get(space.fingerprint, {}), space)

    async def _lock(self) -> dict[Register, KnownPart]:
        """Lock the documents, made where they are missing; what is held of the parts cannot change from here on."""
        await self._connection.execute(sql.INSERT_STUBS, sql.stub_rows(self._parts.values()))
        ids = sorted({document_id for document_id, _ in self._parts})
        await self._connection.fetch(sql.LOCK, ids)
        return await _known_parts(self._connection, self._parts)

    async def _claim(self, before: Mapping[Register, KnownPart]) -> dict[Register, PreparedPart]:
        rows = await self._connection.fetch(sql.CLAIM, sql.part_rows(self._parts.values()))
        won = {key: self._parts[key] for key in sorted((row["document_id"], row["part"]) for row in rows)}
        for key, part in won.items():
            if part.steps is None and not is_same_content(part.write, before.get(key)):
                raise ContentMoved(f"part {key[1]!r} of {key[0]} was written meanwhile")
        return won

    async def _update_documents(self, won: Mapping[Register, PreparedPart]) -> None:
        rows = sql.document_rows(won.values())
        await self._connection.execute(sql.UPDATE_DOCUMENTS, rows, True)
        await self._connection.execute(sql.UPDATE_DOCUMENTS, rows, False)
        await self._connection.execute(sql.TOUCH, [key[0] for key in won])
        runbooks = [part.write for part in won.values() if part.write.kind == "runbook"]
        if runbooks:
            anew = [write.document_id for write in runbooks if write.rewrite]
            await self._connection.execute(sql.DELETE_EXPANSIONS, [write.document_id for write in runbooks], anew)

    async def _replace_content(self, won: Mapping[Register, PreparedPart]) -> int:
        """Exactly the steps and chunks of the parts that won; of hidden documents none at all."""
        hidden = {row["document_id"] for row in await self._connection.fetch(sql.HIDDEN, [key[0] for key in won])}
        await self._connection.execute(sql.DELETE_HIDDEN_STEPS, list(hidden))
        visible = {key: part for key, part in won.items() if key[0] not in hidden and part.steps is not None}
        if not visible:
            return 0
        documents, names = [key[0] for key in visible], [key[1] for key in visible]
        wrong = [key for key, part in visible.items() if part.write.rewrite]
        await self._connection.execute(sql.DELETE_STEPS, [key[0] for key in wrong], [key[1] for key in wrong], [])
        present = {space: await self._present(space, documents) for space in self._spaces}
        steps = [step for part in visible.values() for step in part.steps or ()]
        chunk_ids = [chunk.chunk_id for step in steps for chunk in step.chunks]
        await self._connection.execute(sql.DELETE_STEPS, documents, names, [step.step_id for step in steps])
        await self._connection.execute(sql.DELETE_CHUNKS, documents, names, chunk_ids)
        if not steps:
            return 0
        await self._connection.execute(sql.UPSERT_STEPS, sql.step_rows(visible.values()))
        await self._connection.execute(sql.UPSERT_CHUNKS, sql.chunk_rows(visible.values()))
        return sum([await self._write_vectors(space, visible, present[space]) for space in self._spaces])

    async def _present(self, space: Space, documents: list[uuid.UUID]) -> set[tuple[Any, ...]]:
        rows = await self._connection.fetch(sql.PRESENT_CHUNKS.format(table=space.table), documents)
        return {tuple(row) for row in rows}

    async def _write_vectors(
        self, space: Space, visible: Mapping[Register, PreparedPart], present: set[tuple[Any, ...]]
    ) -> int:
        """Vectors of chunks whose text or time changed; the others' rows are not touched.

        Without a vector of this model the chunk loses the one of its former text.
        """
        vectors = self._vectors.get(space.fingerprint, {})
        changed = [
            (part.write, chunk)
            for part in visible.values()
            for step in part.steps or ()
            for chunk in step.chunks
            if (chunk.chunk_id, chunk.embed_sha, part.write.kind, part.write.decays_from) not in present
        ]
        without = [chunk.chunk_id for _, chunk in changed if chunk.embed_sha not in vectors]
        if without:
            await self._connection.execute(sql.DELETE_VECTORS.format(table=space.table), without)
        rows = [
            (chunk.chunk_id, write.kind, write.decays_from, space.fingerprint, vectors[chunk.embed_sha])
            for write, chunk in changed
            if chunk.embed_sha in vectors
        ]
        await self._connection.executemany(sql.UPSERT_VECTORS.format(table=space.table), rows)
        return len(rows)


async def _known_parts(connection: Connection | Pool, keys: Iterable[Register]) -> dict[Register, KnownPart]:
    pairs = list(keys)
    rows = await connection.fetch(sql.KNOWN_PARTS, [key[0] for key in pairs], [key[1] for key in pairs])
    return {
        (row["document_id"], row["part"]): KnownPart(
            Rank(row["version"], row["arrived"], row["event_id"]), row["pipeline"], row["content_sha"], row["deleted"]
        )
        for row in rows
    }


def _check(vectors: Vectors, space: Space) -> None:
    """Wrong vectors never reach the transaction: pgvector would refuse some and store others (research §2, 23)."""
    for vector in vectors.values():
        if vector.shape != (space.dimension,):
            raise TransientError(f"{space.model} has {space.dimension} dimensions, the embedder gives {vector.shape}")
        if not np.all(np.isfinite(vector)) or not np.any(vector):
            raise TransientError("a vector is zero or not finite")


def _changes_answers(part: PreparedPart, before: KnownPart | None) -> bool:
    """Whether this write changes what answers from runbooks may say."""
    write = part.write
    if write.kind != "runbook":
        return False
    if before is None or write.rewrite:
        return not write.deleted
    return (before.deleted, before.content_sha, before.pipeline) != (write.deleted, write.content_sha, PIPELINE)


def _event_id(note: LedgerNote) -> uuid.UUID:
    return note.delivery.event.event_id


def _outcome(note: LedgerNote, won: Mapping[Register, PreparedPart], same: set[Register]) -> Outcome:
    if note.outcome is not None:
        return note.outcome
    key = (note.document_id, note.part)
    return "searchable" if key in won or key in same else "superseded"


def _entries(notes: Sequence[LedgerNote], outcomes: Mapping[uuid.UUID, Outcome]) -> list[Entry]:
    """One entry an event, however many records carried it."""
    carried = Counter(_event_id(note) for note in notes)
    last = {_event_id(note): note for note in notes}
    return [
        Entry(
            event_id=event_id,
            state=outcomes[event_id],
            topic=note.delivery.record.topic,
            partition=note.delivery.record.partition,
            offset=note.delivery.record.offset,
            document_id=note.document_id,
            part=note.part,
            version=note.delivery.event.version,
            accepted_at=note.delivery.event.accepted_at,
            deliveries=carried[event_id],
        )
        for event_id, note in last.items()
    ]
