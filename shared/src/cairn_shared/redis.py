"""The Redis client: short time-outs, opened in the lifespan without waiting, because losing it costs speed only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from cairn_shared.settings import RedisSettings

Client: TypeAlias = Redis

RedisFailure = (RedisError, OSError, TimeoutError)
"""What a caller catches to go on without Redis."""


@asynccontextmanager
async def open_redis(settings: RedisSettings, process: str) -> AsyncIterator[Client]:
    """A pooled client for bytes; it connects at first use and reconnects by itself."""
    # Blocking: with all connections busy a command waits for one, where the plain pool would fail at once.
    pool = BlockingConnectionPool.from_url(
        settings.redis_url.get_secret_value(),
        client_name=process,
        socket_timeout=settings.redis_timeout,
        socket_connect_timeout=settings.redis_timeout,
        retry=Retry(NoBackoff(), 1),
        max_connections=64,
        timeout=settings.redis_timeout,
    )
    client: Client = Redis.from_pool(pool)
    try:
        yield client
    finally:
        await client.aclose()


async def ping(client: Client) -> None:
    """Raise unless Redis answers."""
    await client.execute_command("PING")  # type: ignore[no-untyped-call]
