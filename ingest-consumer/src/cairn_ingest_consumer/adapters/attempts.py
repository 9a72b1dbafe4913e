"""Attempts in PostgreSQL: counted before each try, so that a crash cannot hide one."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_shared.kafka.records import Record
from cairn_shared.postgres import Pool, translate

_BEGIN = """
INSERT INTO ingest_attempts AS a (consumer_group, topic, partition, "offset", attempts)
SELECT $1, $2, $3, o, 1 FROM unnest($4::bigint[]) AS o ORDER BY o
ON CONFLICT (consumer_group, topic, partition, "offset")
    DO UPDATE SET attempts = a.attempts + 1, last_at = now()
RETURNING "offset", attempts
"""
_FORGIVE = """
UPDATE ingest_attempts SET attempts = attempts - 1
WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND "offset" = ANY($4::bigint[]) AND attempts > 0
"""
_END = """
DELETE FROM ingest_attempts
WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND "offset" = ANY($4::bigint[])
"""


class PostgresAttempts:
    """As `ports.Attempts`. Records of one call lie on one partition.

    A record counts once for each life of the process, however often it is tried in it: `begin` again without
    `forgive` between does not count again.
    """

    def __init__(self, pool: Pool, group: str) -> None:
        self._pool = pool
        self._group = group
        self._begun: dict[tuple[str, int, int], int] = {}

    async def begin(self, records: Sequence[Record]) -> dict[int, int]:
        """Count one more attempt; returns the counts by offset."""
        new = [record for record in records if _key(record) not in self._begun]
        if new:
            try:
                rows = await self._pool.fetch(_BEGIN, *self._where(new))
            except Exception as exc:
                raise translate(exc) from exc
            self._begun |= {(new[0].topic, new[0].partition, row["offset"]): row["attempts"] for row in rows}
        return {record.offset: self._begun[_key(record)] for record in records}

    async def forgive(self, records: Sequence[Record]) -> None:
        """Take back what was counted."""
        counted = [record for record in records if _key(record) in self._begun]
        await self._forget(_FORGIVE, counted)

    async def end(self, records: Sequence[Record]) -> None:
        """Delete the counts."""
        await self._forget(_END, records)

    async def _forget(self, statement: str, records: Sequence[Record]) -> None:
        if not records:
            return
        try:
            await self._pool.execute(statement, *self._where(records))
        except Exception as exc:
            raise translate(exc) from exc
        for record in records:
            self._begun.pop(_key(record), None)

    def _where(self, records: Sequence[Record]) -> tuple[str, str, int, list[int]]:
        return self._group, records[0].topic, records[0].partition, [record.offset for record in records]


def _key(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset
