"""The answerer's own, read-only look at PostgreSQL: epoch, dependencies, whole procedures, what is searchable."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from cairn_answerer.latest import Latest
from cairn_answerer.model import CorpusState, Passage
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, Unavailable
from cairn_shared.postgres import FAILURES, Connection, Pool, translate

T = TypeVar("T")

_STATE = """
SELECT s.epoch, s.fingerprint, l.settled_at, l.accepted_at {more}
FROM corpus_state s
LEFT JOIN LATERAL (
    SELECT settled_at, accepted_at FROM ingest_ledger
    WHERE state = 'searchable' ORDER BY settled_at DESC LIMIT 1
) l ON true
"""

_STATE_ALONE = _STATE.format(more="")
_STATE_AND_UNCHANGED = _STATE.format(
    more=""", (
    SELECT count(*) FROM steps JOIN unnest($1::uuid[], $2::text[]) AS d(step_id, content_sha) USING (step_id)
    WHERE steps.content_sha = d.content_sha
) AS unchanged"""
)

_PROCEDURE = """
SELECT s.step_id, s.document_id, s.step_number, s.label, s.section, s.body, s.line_start, s.line_end, s.content_sha,
       d.kind, d.external_id, d.title, d.version, d.path, d.commit_sha, d.url
FROM steps s JOIN documents d USING (document_id)
WHERE s.document_id = $1 AND NOT d.deleted
ORDER BY s.step_number, s.part
LIMIT 400
"""

_KNOWN = """
SELECT external_id, title FROM documents
WHERE kind = 'runbook' AND NOT deleted AND (external_id = ANY($1::text[]) OR title = ANY($2::text[]))
LIMIT 100
"""

_REVISIONS = """
SELECT external_id, max(version) AS version FROM documents
WHERE kind = 'runbook' AND external_id = ANY($1::text[]) GROUP BY external_id
"""

_SETTLED = "SELECT event_id FROM ingest_ledger WHERE event_id = ANY($1::uuid[])"


async def leave_clean(_: Connection) -> None:
    """Nothing to do between two users of a connection: single statements leave nothing behind in a session."""


class PostgresCorpus:
    """Bounded reads: connecting and asking take at most `seconds` together.

    A server that does not answer in that time is left alone for `rest` seconds, instead of being waited for each time.
    """

    def __init__(self, pool: Pool, clock: Clock, seconds: float = 1.0, rest: float = 1.0) -> None:
        self._pool = pool
        self._clock = clock
        self._seconds = seconds
        self._rest = rest
        self._resting_until = 0.0
        self._state = Latest(self._read_state)

    async def state(self) -> CorpusState:
        return await self._state.get()

    async def _read_state(self) -> CorpusState:
        return _state(await self._read(lambda connection: connection.fetchrow(_STATE_ALONE)))

    async def check(self, dependencies: Mapping[uuid.UUID, str]) -> tuple[CorpusState, bool]:
        ids, shas = list(dependencies), list(dependencies.values())
        row = await self._read(lambda connection: connection.fetchrow(_STATE_AND_UNCHANGED, ids, shas))
        return _state(row), row is not None and row["unchanged"] == len(ids)

    async def procedure(self, document_id: uuid.UUID) -> list[Passage]:
        rows = await self._read(lambda connection: connection.fetch(_PROCEDURE, document_id))
        return [_passage(dict(row)) for row in rows]

    async def named(self, runbook_ids: Sequence[str], titles: Sequence[str]) -> dict[str, str]:
        rows = await self._read(lambda connection: connection.fetch(_KNOWN, list(runbook_ids), list(titles)))
        return {row["external_id"]: row["title"] for row in rows}

    async def revisions(self, runbook_ids: Sequence[str]) -> dict[str, int]:
        rows = await self._read(lambda connection: connection.fetch(_REVISIONS, list(runbook_ids)))
        return {row["external_id"]: row["version"] for row in rows}

    async def settled(self, event_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        rows = await self._read(lambda connection: connection.fetch(_SETTLED, list(event_ids)))
        return {row["event_id"] for row in rows}

    async def ping(self) -> None:
        """Raise unless PostgreSQL answers."""
        await self._read(lambda connection: connection.execute("SELECT 1"))

    async def _read(self, query: Callable[[Connection], Awaitable[T]]) -> T:
        if self._clock.monotonic() < self._resting_until:
            raise Unavailable("postgres", "postgres is left alone for a moment: it did not answer in time")
        try:
            async with asyncio.timeout(self._seconds):
                connection = await self._pool.acquire()
                try:
                    return await query(connection)
                except asyncio.CancelledError:
                    # Asking a server that hangs to cancel would only wait as long again.
                    connection.terminate()
                    raise
                finally:
                    await self._pool.release(connection)
        except TimeoutError as exc:
            self._resting_until = self._clock.monotonic() + self._rest
            raise Unavailable("postgres") from exc
        except FAILURES as exc:
            raise _away(translate(exc)) from exc
        except ValueError as exc:  # pgvector's types are not there before the migrations ran
            raise Unavailable("postgres") from exc


def _away(error: CairnError) -> CairnError:
    """For a reader every failure of PostgreSQL is one: the index cannot be asked now."""
    return error if isinstance(error, Unavailable) else Unavailable("postgres", error.detail)


def _state(row: asyncpg.Record | None) -> CorpusState:
    if row is None:
        raise Unavailable("postgres", "the index has no state yet")
    lag = None
    if row["settled_at"] is not None and row["accepted_at"] is not None:
        lag = max(0.0, (row["settled_at"] - row["accepted_at"]).total_seconds())
    return CorpusState(
        epoch=row["epoch"], fingerprint=row["fingerprint"], index_time=row["settled_at"], lag_seconds=lag
    )


def _passage(row: Mapping[str, Any]) -> Passage:
    first, last = row["line_start"], row["line_end"]
    return Passage(
        step_id=row["step_id"],
        document_id=row["document_id"],
        kind=row["kind"],
        runbook_id=row["external_id"],
        title=row["title"],
        number=row["step_number"],
        label=row["label"],
        section=row["section"],
        text=row["body"],
        version=row["version"],
        content_sha=row["content_sha"],
        path=row["path"],
        commit=row["commit_sha"],
        lines=(first, last) if first and last else None,
        url=row["url"],
    )
