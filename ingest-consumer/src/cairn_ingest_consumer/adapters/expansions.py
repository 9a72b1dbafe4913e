"""Questions and their vectors in PostgreSQL; the tables are those of migration 0006."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from cairn_ingest_consumer.expansion import Page, PageStep, Question
from cairn_ingest_consumer.model import Vector
from cairn_shared.postgres import Pool, translate

# Every runbook has a run of its present content. The write path takes a run away with the content that it was of.
_BEGIN = """
INSERT INTO expansion_runs (document_id, content_sha)
SELECT d.document_id, d.content_sha FROM documents d
WHERE d.kind = 'runbook' AND NOT d.deleted AND d.version >= 0
  AND NOT EXISTS (SELECT FROM expansion_runs r WHERE r.document_id = d.document_id)
ORDER BY d.document_id LIMIT 500
ON CONFLICT DO NOTHING
"""
_TAKE = """
UPDATE expansion_runs SET next_at = now() + make_interval(secs => $2)
WHERE document_id = (
    SELECT document_id FROM expansion_runs WHERE done_at IS NULL AND attempts < $1 AND next_at <= now()
    ORDER BY next_at, document_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING document_id, content_sha
"""
_PAGE = """
SELECT d.title, s.step_id, s.step_number, s.section, s.body FROM documents d JOIN steps s USING (document_id)
WHERE d.document_id = $1 AND d.content_sha = $2 AND NOT d.deleted ORDER BY s.step_number
"""
_FORGET_RUN = "DELETE FROM expansion_runs WHERE document_id = $1 AND content_sha = $2"
_FAILED = """
UPDATE expansion_runs SET attempts = attempts + 1, problem = $3
WHERE document_id = $1 AND content_sha = $2 AND done_at IS NULL RETURNING attempts
"""
_POSTPONE = "UPDATE expansion_runs SET next_at = $3 WHERE document_id = $1 AND content_sha = $2 AND done_at IS NULL"
# As a writer would: the document first. Whoever changes it waits for these few rows, or has done so already.
_HOLD = "SELECT true FROM documents WHERE document_id = $1 AND content_sha = $2 AND NOT deleted FOR SHARE"
_DONE = """
UPDATE expansion_runs SET done_at = now(), problem = NULL
WHERE document_id = $1 AND content_sha = $2 AND done_at IS NULL RETURNING true
"""
_KEEP = """
INSERT INTO expansions (expansion_id, document_id, step_id, question)
SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM steps WHERE step_id = $3)
"""
_WITHOUT = """
SELECT x.expansion_id, x.question FROM expansions x
WHERE NOT EXISTS (
    SELECT FROM expansion_vectors v WHERE v.fingerprint = $1 AND v.expansion_id = x.expansion_id)
ORDER BY x.expansion_id LIMIT $2
"""
_GIVE = """
INSERT INTO expansion_vectors (expansion_id, fingerprint, embedding)
SELECT expansion_id, $2, $3::halfvec FROM expansions WHERE expansion_id = $1
ON CONFLICT DO NOTHING
"""
_DROPPED = """
DELETE FROM expansion_vectors v USING embedding_spaces s WHERE s.fingerprint = v.fingerprint AND s.table_name IS NULL
"""
_COUNTS = """
SELECT count(*) FILTER (WHERE done_at IS NOT NULL) AS done,
       count(*) FILTER (WHERE done_at IS NULL AND attempts < $1) AS waiting,
       count(*) FILTER (WHERE done_at IS NULL AND attempts >= $1) AS given_up FROM expansion_runs
"""


class PostgresExpansions:
    """As `ports.ExpansionStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def take(self, attempts: int, lease: float) -> Page | None:
        """As `ports.ExpansionStore.take`."""
        try:
            await self._pool.execute(_BEGIN)
            while (run := await self._pool.fetchrow(_TAKE, attempts, lease)) is not None:
                rows = await self._pool.fetch(_PAGE, run["document_id"], run["content_sha"])
                if rows:
                    steps = [PageStep(row["step_id"], row["step_number"], row["section"], row["body"]) for row in rows]
                    return Page(run["document_id"], run["content_sha"], rows[0]["title"], tuple(steps))
                # The page has other content since, or none.
                await self._pool.execute(_FORGET_RUN, run["document_id"], run["content_sha"])
        except Exception as exc:
            raise translate(exc) from exc
        return None

    async def keep(self, page: Page, questions: Sequence[Question]) -> bool:
        """As `ports.ExpansionStore.keep`."""
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(_HOLD, page.document_id, page.content_sha):
                    return False
                if not await connection.fetchval(_DONE, page.document_id, page.content_sha):
                    return False
                rows = [(uuid.uuid4(), page.document_id, one.step_id, one.text) for one in questions]
                await connection.executemany(_KEEP, rows)
                return True
        except Exception as exc:
            raise translate(exc) from exc

    async def failed(self, page: Page, problem: str) -> int:
        """As `ports.ExpansionStore.failed`."""
        try:
            attempts = await self._pool.fetchval(_FAILED, page.document_id, page.content_sha, problem)
        except Exception as exc:
            raise translate(exc) from exc
        return attempts or 0

    async def postpone(self, page: Page, until: datetime) -> None:
        """As `ports.ExpansionStore.postpone`."""
        try:
            await self._pool.execute(_POSTPONE, page.document_id, page.content_sha, until)
        except Exception as exc:
            raise translate(exc) from exc

    async def without_vector(self, fingerprint: str, limit: int) -> dict[uuid.UUID, str]:
        """As `ports.ExpansionStore.without_vector`."""
        try:
            rows = await self._pool.fetch(_WITHOUT, fingerprint, limit)
        except Exception as exc:
            raise translate(exc) from exc
        return {row["expansion_id"]: row["question"] for row in rows}

    async def give(self, fingerprint: str, vectors: Mapping[uuid.UUID, Vector]) -> None:
        """As `ports.ExpansionStore.give`."""
        try:
            await self._pool.executemany(_GIVE, [(one, fingerprint, vector) for one, vector in vectors.items()])
            await self._pool.execute(_DROPPED)
        except Exception as exc:
            raise translate(exc) from exc

    async def forget(self, expansion_id: uuid.UUID) -> None:
        """As `ports.ExpansionStore.forget`."""
        try:
            await self._pool.execute("DELETE FROM expansions WHERE expansion_id = $1", expansion_id)
        except Exception as exc:
            raise translate(exc) from exc

    async def counts(self, attempts: int) -> dict[str, int]:
        """As `ports.ExpansionStore.counts`."""
        try:
            row = await self._pool.fetchrow(_COUNTS, attempts)
        except Exception as exc:
            raise translate(exc) from exc
        return dict(row) if row is not None else {}
