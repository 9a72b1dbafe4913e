"""Halted partitions in PostgreSQL, where every replica sees them: any of them can pass a release on to the owner."""

from __future__ import annotations

from cairn_ingest_consumer.limits import PoisonLimit
from cairn_shared.api.consumer import Halt
from cairn_shared.errors import CairnError
from cairn_shared.kafka.records import Partition
from cairn_shared.logging import get_logger
from cairn_shared.postgres import Pool, translate

log = get_logger(__name__)

# A halt of a process that died is no longer confirmed: what is told anew begins anew.
_HALTED = """
INSERT INTO ingest_halts AS h (consumer_group, topic, partition, reason) VALUES ($1, $2, $3, $4)
ON CONFLICT (consumer_group, topic, partition) DO UPDATE SET
    reason = excluded.reason,
    seen_at = now(),
    halted_at = CASE WHEN h.seen_at < now() - $5::float8 * interval '1 s' THEN now() ELSE h.halted_at END,
    released_at = CASE WHEN h.seen_at < now() - $5::float8 * interval '1 s' THEN NULL ELSE h.released_at END
RETURNING released_at IS NOT NULL AS released
"""
_OVER = "DELETE FROM ingest_halts WHERE consumer_group = $1 AND topic = $2 AND partition = $3"
_LIST = """
SELECT topic, partition, reason, halted_at, released_at, released_by FROM ingest_halts
WHERE consumer_group = $1 AND seen_at >= now() - $2::float8 * interval '1 s' ORDER BY topic, partition
"""
_RELEASE = """
UPDATE ingest_halts SET released_at = coalesce(released_at, now()), released_by = coalesce(released_by, $4)
WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND seen_at >= now() - $5::float8 * interval '1 s'
RETURNING topic
"""

STALE_AFTER = 15.0
"""Seconds without a word of its owner after which a halt counts as over."""


class PostgresHalts:
    """As `cairn_shared.kafka.ports.Halts`; a release makes the limit forget what it counted of the partition."""

    def __init__(self, pool: Pool, group: str, limit: PoisonLimit) -> None:
        self._pool = pool
        self._group = group
        self._limit = limit

    async def released(self, partition: Partition, reason: str) -> bool:
        """As the port: PostgreSQL being away means not yet."""
        try:
            released = await self._pool.fetchval(_HALTED, self._group, *partition, reason, STALE_AFTER)
        except Exception as exc:  # noqa: BLE001 - translated, and told
            log.warning("the halt cannot be stored", partition=str(partition), error=_detail(exc))
            return False
        if released:
            self._limit.forget(partition)
        return bool(released)

    async def over(self, partition: Partition) -> None:
        """As the port: what stays behind grows stale."""
        try:
            await self._pool.execute(_OVER, self._group, *partition)
        except Exception as exc:  # noqa: BLE001 - translated, and told
            log.warning("the halt cannot be taken back", partition=str(partition), error=_detail(exc))

    async def list(self) -> list[Halt]:
        """Partitions that are halted now, of every replica. Raises TransientError."""
        try:
            rows = await self._pool.fetch(_LIST, self._group, STALE_AFTER)
        except Exception as exc:
            raise translate(exc) from exc
        return [Halt(**dict(row)) for row in rows]

    async def release(self, partition: Partition, by: str) -> bool:
        """Tell the owner to go on; False where the partition is not halted. Raises TransientError."""
        try:
            found = await self._pool.fetchval(_RELEASE, self._group, *partition, by, STALE_AFTER)
        except Exception as exc:
            raise translate(exc) from exc
        return found is not None


def _detail(exc: Exception) -> str:
    try:
        return translate(exc).detail
    except CairnError as own:
        return own.detail
