"""The PostgreSQL pool: pgvector registered, bounded, named, opened in the lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
from pgvector.asyncpg import register_vector

from cairn_shared.errors import CairnError, PermanentError, TransientError, Unavailable
from cairn_shared.retry import until_up
from cairn_shared.settings import PostgresSettings

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:  # the classes are generic in their type stubs only
    Pool = asyncpg.Pool
    Connection = asyncpg.Connection

MINIMUM_PGVECTOR = (0, 8, 4)
"""Older ones corrupt or fail to repair HNSW graphs (pgvector's changelog, 0.8.3 and 0.8.4)."""


@asynccontextmanager
async def open_pool(
    settings: PostgresSettings, process: str, *, reset: Callable[[Connection], Awaitable[None]] | None = None
) -> AsyncIterator[Pool]:
    """Wait for PostgreSQL and its schema, open the pool, close it at the end.

    `reset` makes a connection ready for the next checkout, instead of asyncpg's round trip to the server: for
    processes that leave nothing behind in a session.
    """

    async def connect() -> Pool:
        return await asyncpg.create_pool(
            settings.pg_dsn.get_secret_value(),
            min_size=settings.pg_pool_min,
            max_size=settings.pg_pool_max,
            command_timeout=settings.pg_command_timeout,
            init=register_vector,
            server_settings={"application_name": process},
            timeout=5,
            reset=reset,
        )

    pool = await until_up("postgres", connect)
    try:
        yield pool
    finally:
        try:
            async with asyncio.timeout(5):
                await pool.close()
        except TimeoutError:
            pool.terminate()


async def ping(pool: Pool) -> None:
    """Raise unless PostgreSQL answers."""
    async with pool.acquire(timeout=2) as connection:
        await connection.execute("SELECT 1")


FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""All that a call of asyncpg raises: a refusal of the server, or no server. A server that is killed in the middle of a
transaction is an `InternalClientError`, which is neither of the other two."""

# Classes of SQLSTATE that say "later", not "never": connection, rollback, resources, operator, system.
_TRANSIENT_CLASSES = ("08", "40", "53", "55", "57", "58")


def translate(exc: Exception) -> CairnError:
    """Any error of asyncpg as one of ours: transient where waiting helps, permanent where the data is at fault.

    What is no error of asyncpg, one of ours say, is raised as it is.
    """
    if isinstance(exc, asyncpg.PostgresError):
        state = exc.sqlstate or ""
        if state[:2] in _TRANSIENT_CLASSES:
            return Unavailable("postgres", f"postgres: {type(exc).__name__}")
        if state[:2] in ("22", "23"):
            return PermanentError(f"postgres refused the data: {type(exc).__name__}", stage="write")
        return TransientError(f"postgres: {type(exc).__name__}")
    if isinstance(exc, FAILURES):
        return Unavailable("postgres", f"postgres: {type(exc).__name__}")
    raise exc
