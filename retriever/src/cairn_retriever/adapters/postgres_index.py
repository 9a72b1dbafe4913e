"""`Index` over PostgreSQL: what is known of a query before its vector, and the frequencies of words."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from cairn_retriever.adapters.postgres_snapshot import PostgresSnapshot
from cairn_retriever.adapters.quoting import quote_lexeme
from cairn_retriever.adapters.scope import Scope
from cairn_retriever.metrics import Metrics
from cairn_retriever.model import CorpusState, Lexicon, ParsedQuery, Prepared, Route
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.query import link_names
from cairn_shared.api.search import SearchFilters
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError
from cairn_shared.postgres import translate

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection, Pool

MANY = 200
"""Documents with an identifier, or chunks with a lexeme beyond the frequent ones, are not counted further than needed."""

STATE = "SELECT epoch, fingerprint, chunks, average_length, refreshed_at IS NOT NULL AS refreshed, thresholds FROM corpus_state"

LEXEMES = "SELECT tsvector_to_array(to_tsvector('english', $1))"

IDENTIFIERS = f"""
SELECT asked.identifier, held.documents
FROM unnest($1::text[]) AS asked(identifier)
CROSS JOIN LATERAL (
    SELECT count(DISTINCT seen.document_id) AS documents
    FROM (SELECT s.document_id FROM steps s WHERE s.identifiers @> ARRAY[asked.identifier] LIMIT {MANY}) AS seen
) AS held
WHERE held.documents > 0
"""

# The name of a file is what stands between the last `/` and the last `.`: the expression of an index.
ROUTES = """
SELECT document_id, 'alert' AS by, alert AS name
FROM documents, unnest(alerts) AS alert
WHERE kind = 'runbook' AND NOT deleted AND alerts && $1::text[] AND alert = ANY($1::text[])
UNION ALL
SELECT document_id, 'link', link
FROM documents, unnest(links) AS link
WHERE kind = 'runbook' AND NOT deleted AND links && $2::text[] AND link = ANY($2::text[])
UNION ALL
SELECT document_id, 'title', lower(title) FROM documents
WHERE kind = 'runbook' AND NOT deleted AND lower(title) = ANY($1::text[])
UNION ALL
SELECT document_id, 'path', lower(regexp_replace(path, '^.*/|\\.[^./]*$', '', 'g')) FROM documents
WHERE kind = 'runbook' AND NOT deleted AND lower(regexp_replace(path, '^.*/|\\.[^./]*$', '', 'g')) = ANY($1::text[])
"""

EVENT_FREQUENCIES = "SELECT lexeme, ndoc FROM lexeme_df WHERE lexeme = ANY($1::text[])"

# Where the table of frequencies was not filled yet: counted now, but not beyond what a query may visit anyway.
COUNTED_FREQUENCIES = """
SELECT asked.lexeme, held.chunks
FROM unnest($1::text[], $2::text[]::tsquery[]) AS asked(lexeme, query)
CROSS JOIN LATERAL (
    SELECT count(*) AS chunks
    FROM (SELECT 1 FROM chunks c WHERE c.kind <> 'runbook' AND c.tsv @@ asked.query LIMIT $3) AS seen
) AS held
"""
EVENT_SIZE = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'chunks'::regclass"

LEXICON = "SELECT word, ndoc FROM ts_stat('SELECT tsv FROM chunks WHERE kind = ''runbook''')"
LEXICON_SIZE = "SELECT count(*) AS chunks, coalesce(avg(length(tsv)), 0) AS average FROM chunks WHERE kind = 'runbook'"


class PostgresIndex:
    """The searchable corpus in PostgreSQL."""

    def __init__(self, pool: Pool, clock: Clock, policy: RetrievalPolicy, metrics: Metrics, max_age: float) -> None:
        self._pool = pool
        self._clock = clock
        self._policy = policy
        self._metrics = metrics
        self._max_age = max_age
        self._lexicon: tuple[int, float, Lexicon] | None = None
        self._reading = asyncio.Lock()

    async def prepare(self, query: ParsedQuery, *, events: bool) -> Prepared:
        """One checkout, a few point queries."""
        limits = self._policy.candidates
        try:
            async with self._pool.acquire() as connection:
                state = await read_state(connection)
                lexemes: list[str] = await connection.fetchval(LEXEMES, query.lexical_text) or []
                asked = list(query.identifiers[: limits.identifier_limit])
                held = await connection.fetch(IDENTIFIERS, asked) if asked else []
                routes = await self._routes(connection, query)
                if events and lexemes:
                    state, frequencies = await self._event_frequencies(connection, state, lexemes)
                else:
                    frequencies = {}
        except Exception as exc:
            raise _ours(exc) from exc
        return Prepared(
            state=state,
            lexemes=tuple(lexemes),
            event_frequencies=frequencies,
            identifier_documents={row["identifier"]: row["documents"] for row in held},
            routes=routes,
        )

    async def _routes(self, connection: Connection, query: ParsedQuery) -> tuple[Route, ...]:
        """Runbooks that the request names: by an alert's name, a runbook_url, or their own title or file name."""
        by_link = link_names(query.links)
        names = list(dict.fromkeys([*query.alerts, *query.names, *by_link]))
        if not names and not query.links:
            return ()
        found: dict[uuid.UUID, str] = {}
        for row in await connection.fetch(ROUTES, names, list(query.links)):
            name = row["name"]
            certain = row["by"] == "link" or name in query.alerts or name in by_link or query.names.get(name, False)
            if certain:
                found.setdefault(row["document_id"], row["by"])
        return tuple(Route(document, by) for document, by in sorted(found.items()))

    async def _event_frequencies(
        self, connection: Connection, state: CorpusState, lexemes: list[str]
    ) -> tuple[CorpusState, dict[str, int]]:
        if state.refreshed and state.chunks:
            rows = await connection.fetch(EVENT_FREQUENCIES, lexemes)
            return state, {row["lexeme"]: row["ndoc"] for row in rows}
        limit = self._policy.candidates.posting_budget
        queries = [quote_lexeme(lexeme) for lexeme in lexemes]
        rows = await connection.fetch(COUNTED_FREQUENCIES, lexemes, queries, limit)
        size = max(await connection.fetchval(EVENT_SIZE), max((row["chunks"] for row in rows), default=0))
        counted = CorpusState(state.epoch, state.fingerprint, size, state.average_length, False, state.thresholds)
        return counted, {row["lexeme"]: row["chunks"] for row in rows if row["chunks"]}

    async def lexicon(self, state: CorpusState, now: datetime) -> Lexicon:
        """The runbooks' frequencies, read again when the epoch moved and the last reading is old enough."""
        del now
        known = self._lexicon
        if known is not None and (known[0] == state.epoch or self._clock.monotonic() - known[1] < self._max_age):
            return known[2]
        async with self._reading:
            known = self._lexicon
            if known is not None and (known[0] == state.epoch or self._clock.monotonic() - known[1] < self._max_age):
                return known[2]
            started = self._clock.monotonic()
            try:
                async with self._pool.acquire() as connection:
                    size = await connection.fetchrow(LEXICON_SIZE)
                    rows = await connection.fetch(LEXICON)
            except Exception as exc:
                raise _ours(exc) from exc
            assert size is not None
            lexicon = Lexicon(size["chunks"], float(size["average"]), {row["word"]: row["ndoc"] for row in rows})
            ended = self._clock.monotonic()
            self._metrics.lexicon_seconds.observe(ended - started)
            self._lexicon = (state.epoch, ended, lexicon)
            return lexicon

    @asynccontextmanager
    async def snapshot(self, filters: SearchFilters, k: int) -> AsyncIterator[PostgresSnapshot]:
        """A read-only transaction: its settings end with it, so that the next checkout has the defaults."""
        limits = self._policy.candidates
        try:
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                await connection.execute(
                    f"SET LOCAL hnsw.ef_search = {min(1000, max(limits.ef_search, 4 * k))}; SET LOCAL hnsw.iterative_scan = relaxed_order;"
                    f"SET LOCAL hnsw.max_scan_tuples = {limits.max_scan_tuples}; SET LOCAL jit = off"
                )
                state = await read_state(connection)
                yield PostgresSnapshot(connection, state, Scope(filters), k, self._policy)
        except Exception as exc:
            raise _ours(exc) from exc


async def read_state(connection: Connection) -> CorpusState:
    """The row of `corpus_state`."""
    row = await connection.fetchrow(STATE)
    assert row is not None
    thresholds: Any = row["thresholds"]
    return CorpusState(
        epoch=row["epoch"],
        fingerprint=row["fingerprint"],
        chunks=row["chunks"],
        average_length=row["average_length"],
        refreshed=row["refreshed"],
        thresholds=orjson.loads(thresholds) if isinstance(thresholds, str) else thresholds,
    )


def _ours(exc: Exception) -> Exception:
    return exc if isinstance(exc, CairnError) else translate(exc)
