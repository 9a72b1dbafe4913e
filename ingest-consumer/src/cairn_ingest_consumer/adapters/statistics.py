"""How common each word is among the chunks, for ranking: refreshed now and then by one replica."""

from __future__ import annotations

from cairn_shared.postgres import FAILURES, Pool, translate

_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('cairn.lexeme_df'))"
_CHANGED = """
SELECT refreshed_at IS NULL OR EXISTS (SELECT FROM documents WHERE indexed_at > refreshed_at) FROM corpus_state
"""
_COUNT = """
CREATE TEMP TABLE fresh_df ON COMMIT DROP AS SELECT word AS lexeme, ndoc FROM ts_stat('SELECT tsv FROM chunks')
"""
_DELETE = "DELETE FROM lexeme_df l WHERE NOT EXISTS (SELECT FROM fresh_df f WHERE f.lexeme = l.lexeme)"
_UPSERT = """
INSERT INTO lexeme_df AS l (lexeme, ndoc) SELECT lexeme, ndoc FROM fresh_df ORDER BY lexeme
ON CONFLICT (lexeme) DO UPDATE SET ndoc = excluded.ndoc WHERE l.ndoc <> excluded.ndoc
"""
_SUMMARY = """
UPDATE corpus_state SET chunks = s.chunks, average_length = s.average_length, refreshed_at = now()
FROM (SELECT count(*) AS chunks, coalesce(avg(length(tsv)), 0) AS average_length FROM chunks) AS s
"""
_PRUNE_LEDGER = "DELETE FROM ingest_ledger WHERE settled_at < now() - make_interval(days => $1)"
_PRUNE_ATTEMPTS = "DELETE FROM ingest_attempts WHERE last_at < now() - interval '7 days'"

TIMEOUT = 120.0


class PostgresStatistics:
    """Word statistics, and the removal of what has had its time. Tombstones are never removed."""

    def __init__(self, pool: Pool, ledger_days: int) -> None:
        self._pool = pool
        self._ledger_days = ledger_days

    async def refresh(self) -> bool:
        """Count again if documents changed since the last time and nobody else is at it; True when counted.

        `average_length` is in distinct lexemes, as `length(tsv)` counts them.

        Raises:
            TransientError: PostgreSQL is away.
        """
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(_LOCK) or not await connection.fetchval(_CHANGED):
                    return False
                for statement in (_COUNT, _DELETE, _UPSERT, _SUMMARY):
                    await connection.execute(statement, timeout=TIMEOUT)
                await connection.execute(_PRUNE_LEDGER, self._ledger_days, timeout=TIMEOUT)
                await connection.execute(_PRUNE_ATTEMPTS, timeout=TIMEOUT)
                return True
        except FAILURES as exc:
            raise translate(exc) from exc
