"""`Index` over PostgreSQL: what is known of a query before its vector, and the views that it is searched in."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from cairn_retriever.adapters.postgres_snapshot import PostgresSnapshot
from cairn_retriever.adapters.read_transaction import STATE_COLUMNS, ReadTransaction, ScanSettings
from cairn_retriever.adapters.runbook_lexicon import RunbookLexicon
from cairn_retriever.adapters.scope import Half, Scope
from cairn_retriever.adapters.sql import Sources, quote_lexeme
from cairn_retriever.metrics import Metrics
from cairn_retriever.model import CorpusState, Lexicon, ParsedQuery, Prepared, Route
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.query import link_names
from cairn_retriever.vocabulary import aliases
from cairn_shared.api.search import SearchFilters
from cairn_shared.clock import Clock
from cairn_shared.postgres import translate

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection, Pool

MANY = 200
"""Steps with an identifier are counted up to here."""

# Everything that is known of a query without its vector, in one row.
PREPARE = f"""
SELECT {STATE_COLUMNS}, q.lexemes, q.others, q.places, q.sequence,
       ARRAY(
           SELECT coalesce(f.ndoc, 0) FROM unnest(q.lexemes || q.others) WITH ORDINALITY AS asked(lexeme, place)
           LEFT JOIN lexeme_df f USING (lexeme) ORDER BY place
       ) AS frequencies,
       ARRAY(
           SELECT (SELECT count(DISTINCT seen.document_id) FROM (
               SELECT s.document_id FROM steps s WHERE s.identifiers @> ARRAY[asked.identifier] LIMIT $3
           ) AS seen)
           FROM unnest($2::text[]) WITH ORDINALITY AS asked(identifier, place) ORDER BY place
       ) AS holders
FROM corpus_state, (
    SELECT tsvector_to_array(text.tsv) AS lexemes,
           told.places, told.sequence,
           ARRAY(
               SELECT coalesce((tsvector_to_array(to_tsvector('english', word)))[1], '')
               FROM unnest($4::text[]) WITH ORDINALITY AS spelled(word, place) ORDER BY place
           ) AS others
    FROM (SELECT to_tsvector('english', $1) AS tsv) AS text, LATERAL (
        SELECT coalesce(array_agg(place ORDER BY place, word.lexeme), '{{}}') AS places,
               coalesce(array_agg(word.lexeme ORDER BY place, word.lexeme), '{{}}') AS sequence
        FROM unnest(text.tsv) AS word, unnest(word.positions) AS place
    ) AS told
) AS q
"""  # noqa: S608 - columns written above

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


class PostgresIndex:
    """The searchable corpus in PostgreSQL."""

    def __init__(self, pool: Pool, clock: Clock, policy: RetrievalPolicy, metrics: Metrics, max_age: float) -> None:
        self._pool = pool
        self._policy = policy
        self._lexicon = RunbookLexicon(pool, clock, metrics, max_age)

    async def prepare(self, query: ParsedQuery, *, events: bool) -> Prepared:
        """Everything about `query` that needs no vector."""
        asked = list(query.identifiers[: self._policy.candidates.identifier_limit])
        try:
            async with self._pool.acquire() as connection:
                products = [aliases(product) for product in query.products]
                groups = [*query.spellings, *products, query.fillers, query.joined]
                words = [word for group in groups for word in group]
                row = await connection.fetchrow(PREPARE, query.lexical_text, asked, MANY, words)
                assert row is not None
                state, lexemes = _state(row), [*row["lexemes"], *row["others"]]
                frequencies = {one: n for one, n in zip(lexemes, row["frequencies"], strict=True) if one}
                if events and lexemes and not (state.refreshed and state.chunks):
                    state, frequencies = await self._counted(connection, state, list(frequencies))
                routes = await self._routes(connection, query)
        except Exception as exc:
            raise translate(exc) from exc
        *others, fillers, joined = _grouped(groups, row["others"])
        spellings, products = others[: len(query.spellings)], others[len(query.spellings) :]
        return Prepared(
            state=state,
            lexemes=tuple(row["lexemes"]),
            sequence=tuple(zip(row["places"], row["sequence"], strict=True)),
            products=tuple(products),
            spellings=tuple(spellings),
            fillers=frozenset(fillers),
            joined=frozenset(joined),
            event_frequencies={lexeme: n for lexeme, n in frequencies.items() if n},
            identifier_documents={one: n for one, n in zip(asked, row["holders"], strict=True) if n},
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

    async def _counted(
        self, connection: Connection, state: CorpusState, lexemes: list[str]
    ) -> tuple[CorpusState, dict[str, int]]:
        limit = self._policy.candidates.event_postings
        queries = [quote_lexeme(lexeme) for lexeme in lexemes]
        rows = await connection.fetch(COUNTED_FREQUENCIES, lexemes, queries, limit)
        frequencies = {row["lexeme"]: row["chunks"] for row in rows}
        size = max(await connection.fetchval(EVENT_SIZE), *frequencies.values())
        return replace(state, chunks=size), frequencies

    async def lexicon(self, state: CorpusState) -> Lexicon:
        """The runbooks' frequencies, read again when the epoch moved and the last reading is old enough."""
        return await self._lexicon.of(state.epoch)

    @asynccontextmanager
    async def snapshot(self, filters: SearchFilters, k: int, now: datetime) -> AsyncIterator[PostgresSnapshot]:
        """One view; with a spare connection both halves of the corpus are searched at the same time in it."""
        limits = self._policy.candidates
        of_each = {"runbooks": max(limits.runbooks, 2 * k), "events": max(limits.events, 2 * k)}
        settings = ScanSettings(min(1000, max(limits.ef_search, 2 * of_each["events"])), limits.max_scan_tuples)
        scope = Scope(filters)
        every: tuple[Half, ...] = ("runbooks", "events")
        halves = [half for half in every if scope.includes(half)]
        try:
            async with AsyncExitStack() as stack:
                connections = [await stack.enter_async_context(self._pool.acquire())]
                # Never wait for the second one while holding the first: all searches might do so at once.
                if len(halves) > 1 and self._has_spare():
                    connections.append(await stack.enter_async_context(self._pool.acquire()))
                transactions = [ReadTransaction(connection, settings) for connection in connections]
                stack.push_async_callback(_end, transactions)
                await transactions[0].begin()
                row = await transactions[0].state(export=len(transactions) > 1)
                assert row is not None
                state = _state(row)
                sources = [Sources(half, scope, self._policy, now, of_each[half], state.vectors) for half in halves]
                yield PostgresSnapshot(transactions, row["snapshot"], state, sources)
        except Exception as exc:
            raise translate(exc) from exc

    def _has_spare(self) -> bool:
        return self._pool.get_idle_size() > 0 or self._pool.get_size() < self._pool.get_max_size()


async def _end(transactions: Sequence[ReadTransaction]) -> None:
    await asyncio.gather(*(transaction.end() for transaction in transactions))


def _grouped(groups: Sequence[Sequence[str]], lexemes: Sequence[str]) -> list[tuple[str, ...]]:
    """The lexemes of the words of `groups`, in their groups, each once."""
    rest = iter(lexemes)
    return [tuple(dict.fromkeys(one for one in islice(rest, len(group)) if one)) for group in groups]


def _state(row: Any) -> CorpusState:
    thresholds: Any = row["thresholds"]
    return CorpusState(
        epoch=row["epoch"],
        fingerprint=row["fingerprint"],
        chunks=row["chunks"],
        average_length=row["average_length"],
        refreshed=row["refreshed"],
        thresholds=orjson.loads(thresholds) if isinstance(thresholds, str) else thresholds,
        vectors=row["vectors"],
    )
