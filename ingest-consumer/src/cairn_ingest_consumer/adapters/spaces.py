"""The spaces of embedding models in PostgreSQL: opened, filled a batch at a time, switched to when complete."""

from __future__ import annotations

import uuid

import asyncpg

from cairn_ingest_consumer.model import Filled, Space
from cairn_ingest_consumer.ports import EmbeddingModel, EmbedTexts
from cairn_shared.errors import Conflict, TransientError
from cairn_shared.postgres import Connection, Pool, translate

MAX_DIMENSION = {"vector": 2000, "halfvec": 4000, None: 4000}
"""Of an HNSW index (pgvector's README); without a storage the number of dimensions decides which."""

# Writers hold it shared for their transaction, so that a switch sees all that they wrote, and they what it did.
SHARE_SPACES = "SELECT pg_advisory_xact_lock_shared(hashtext('cairn.spaces'))"
_LOCK_SPACES = "SELECT pg_advisory_xact_lock(hashtext('cairn.spaces'))"
_LOCK_FILLING = "SELECT pg_try_advisory_xact_lock(hashtext('cairn.rebuild'))"

_SPACES = """
SELECT fingerprint, model, dimension, table_name AS table, state, problem
FROM embedding_space_states ORDER BY started_at, fingerprint
"""
_OPEN = "SELECT open_embedding_space($1, $2, $3, $4)"

_NEXT = """
SELECT c.chunk_id, c.embed_sha, c.embed_text FROM chunks c
WHERE c.chunk_id > $1 AND NOT EXISTS (SELECT FROM {table} e WHERE e.chunk_id = c.chunk_id)
ORDER BY c.chunk_id LIMIT $2
"""
# The lock keeps a writer from changing the chunk between this look and the end of the transaction. Chunks that a writer
# holds are passed over, so nobody waits in a circle; the next round finds them.
_HOLD = "SELECT chunk_id, embed_sha FROM chunks WHERE chunk_id = ANY($1::uuid[]) FOR SHARE SKIP LOCKED"
_FILL = """
INSERT INTO {table} (chunk_id, kind, occurred_at, fingerprint, embedding)
SELECT chunk_id, kind, occurred_at, $2, $3 FROM chunks WHERE chunk_id = $1
ON CONFLICT DO NOTHING
"""
_MISSING = "SELECT count(*) FROM chunks c WHERE NOT EXISTS (SELECT FROM {table} e WHERE e.chunk_id = c.chunk_id)"
_PROBLEM = "UPDATE embedding_spaces SET problem = $2 WHERE fingerprint = $1 AND problem IS DISTINCT FROM $2"

_STATE = "SELECT state FROM embedding_space_states WHERE fingerprint = $1"
_RETIRE = """
UPDATE embedding_spaces SET retired_at = now()
WHERE fingerprint <> $1 AND fingerprint = (SELECT fingerprint FROM corpus_state)
"""
_COMPLETE = "UPDATE embedding_spaces SET completed_at = now(), retired_at = NULL, problem = NULL WHERE fingerprint = $1"
_SWITCH = "UPDATE corpus_state SET fingerprint = $1, epoch = epoch + 1"

TIMEOUT = 120.0


async def read_spaces(connection: Connection | Pool) -> list[Space]:
    """Every space; under `SHARE_SPACES` it stays so until the transaction ends."""
    return [Space(**dict(row)) for row in await connection.fetch(_SPACES)]


class PostgresSpaces:
    """As `ports.Spaces` and `ports.FillableSpaces`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def all(self) -> list[Space]:
        """As `ports.Spaces.all`."""
        try:
            return await read_spaces(self._pool)
        except Exception as exc:
            raise translate(exc) from exc

    async def open(self, model: EmbeddingModel) -> None:
        """As `ports.Spaces.open`."""
        limit = MAX_DIMENSION[model.storage]
        if not 0 < model.dimension <= limit:
            raise TransientError(
                f"vectors of {model.name} have {model.dimension} dimensions, an index of {model.storage or 'halfvec'} "
                f"takes at most {limit}: give the embedder another model, EMBEDDING_DIMENSIONS or EMBEDDING_STORAGE"
            )
        try:
            await self._pool.execute(
                _OPEN, model.fingerprint, model.name or model.fingerprint, model.dimension, model.storage
            )
        except Exception as exc:
            raise translate(exc) from exc

    async def fill(self, space: Space, after: uuid.UUID, limit: int, embed: EmbedTexts) -> Filled | None:
        """As `ports.FillableSpaces.fill`.

        The transaction is open while `embed` works, but holds only the lock of who fills: under READ COMMITTED it keeps
        no row from being changed or vacuumed meanwhile. A chunk that changed since is left for the next round.
        """
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(_LOCK_FILLING):
                    return None
                rows = await connection.fetch(_NEXT.format(table=space.table), after, limit, timeout=TIMEOUT)
                if not rows:
                    return None
                vectors = await embed({row["embed_sha"]: row["embed_text"] for row in rows})
                held = await connection.fetch(_HOLD, [row["chunk_id"] for row in rows if row["embed_sha"] in vectors])
                fresh = [
                    (row["chunk_id"], space.fingerprint, vectors[row["embed_sha"]])
                    for row in held
                    if row["embed_sha"] in vectors
                ]
                await connection.executemany(_FILL.format(table=space.table), fresh)
                return Filled(len(rows), len(fresh), rows[-1]["chunk_id"])
        except Exception as exc:
            raise translate(exc) from exc

    async def missing(self, space: Space) -> int:
        """As `ports.FillableSpaces.missing`."""
        try:
            count: int = await self._pool.fetchval(_MISSING.format(table=space.table), timeout=TIMEOUT)
        except Exception as exc:
            raise translate(exc) from exc
        return count

    async def chunks(self) -> int:
        """All chunks: what a complete space has."""
        try:
            count: int = await self._pool.fetchval("SELECT count(*) FROM chunks", timeout=TIMEOUT)
        except Exception as exc:
            raise translate(exc) from exc
        return count

    async def note(self, space: Space, problem: str | None) -> None:
        """As `ports.FillableSpaces.note`."""
        try:
            await self._pool.execute(_PROBLEM, space.fingerprint, problem)
        except Exception as exc:
            raise translate(exc) from exc

    async def switch(self, space: Space) -> bool:
        """As `ports.FillableSpaces.switch`."""
        try:
            await self._pool.execute(f"ANALYZE {space.table}", timeout=TIMEOUT)
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute("SET LOCAL lock_timeout = '5s'")
                await connection.execute(_LOCK_SPACES)
                if await connection.fetchval(_STATE, space.fingerprint) != "building":
                    return False
                if await connection.fetchval(_MISSING.format(table=space.table), timeout=TIMEOUT):
                    return False
                await connection.execute(_RETIRE, space.fingerprint)
                await connection.execute(_COMPLETE, space.fingerprint)
                await connection.execute(_SWITCH, space.fingerprint)
                return True
        except Exception as exc:
            raise translate(exc) from exc

    async def use(self, fingerprint: str) -> None:
        """Ask a retired or dropped space back: it is completed, then switched to.

        Raises:
            Conflict: there is no such space.
        """
        await self._call("SELECT use_embedding_space($1)", fingerprint)

    async def drop(self, fingerprint: str) -> None:
        """Delete the vectors of a space that searches do not use.

        Raises:
            Conflict: there is no such space, or searches use it.
        """
        await self._call("SELECT drop_embedding_space($1)", fingerprint)

    async def _call(self, statement: str, fingerprint: str) -> None:
        try:
            await self._pool.execute(statement, fingerprint, timeout=TIMEOUT)
        except (asyncpg.NoDataFoundError, asyncpg.ObjectInUseError) as exc:
            raise Conflict(str(exc)) from exc
        except Exception as exc:
            raise translate(exc) from exc
