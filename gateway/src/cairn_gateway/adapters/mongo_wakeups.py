"""A change stream over outbox and inbox that wakes the relay. It carries no data: the relay reads the collections."""

from __future__ import annotations

from cairn_gateway.ports import Wake
from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)


class MongoWakeups:
    """Watches for inserts by other processes. Where change streams fail, polling goes on without it."""

    def __init__(self, database: mongo.Database, collections: tuple[str, ...], clock: Clock, wake: Wake) -> None:
        self._database = database
        self._collections = collections
        self._clock = clock
        self._wake = wake

    async def run(self) -> None:
        """Watch until cancelled. After a break it begins with now, and wakes once for what it missed."""
        pipeline = [{"$match": {"operationType": "insert", "ns.coll": {"$in": list(self._collections)}}}]
        backoff = Backoff(base=0.5, limit=30.0)
        failures = 0
        while True:
            try:
                async with self._database.watch(pipeline, max_await_time_ms=1000) as stream:
                    self._wake()
                    async for _ in stream:
                        failures = 0
                        self._wake()
            except mongo.MongoError as exc:
                failures += 1
                delay = backoff.delay(failures)
                log.warning("no change stream, polling only", error=type(exc).__name__, retry_in=round(delay, 2))
                await self._clock.sleep(delay)
