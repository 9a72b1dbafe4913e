"""`Snapshot` over PostgreSQL: the candidate sources, the filling of scores, and the steps to show.

Every vector source of the HNSW index asks for `ORDER BY embedding <=> query LIMIT n`, the one form that the index
answers; scores are combined outside, and no distance is compared inside, which would make an iterative scan walk to its
limit (pgvector's README, "Filtering" and "Iterative index scans").
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cairn_retriever.adapters import sql
from cairn_retriever.adapters.quoting import all_of, quote_lexeme
from cairn_retriever.adapters.scope import Half, Scope
from cairn_retriever.model import RUNBOOK, Candidate, CorpusState, Ranked, Vector
from cairn_retriever.policy import LexicalPolicy, RetrievalPolicy
from cairn_retriever.ports import QueryVectors, Words
from cairn_shared.api.search import Hit

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection


class PostgresSnapshot:
    """One consistent view of the index, restricted to a scope; `k` results are wanted of it."""

    def __init__(
        self, connection: Connection, state: CorpusState, scope: Scope, k: int, policy: RetrievalPolicy
    ) -> None:
        self.state = state
        self._connection = connection
        self._scope = scope
        self._policy = policy
        self._limit = max(policy.candidates.vector, 2 * k)
        self._few_events: bool | None = None

    async def candidates(
        self,
        words: Words,
        identifiers: Sequence[str],
        routed: Sequence[uuid.UUID],
        vectors: QueryVectors | None,
        *,
        without: Sequence[str] = (),
    ) -> Mapping[str, list[uuid.UUID]]:
        """Chunk ids by source, best first."""
        found: dict[str, list[uuid.UUID]] = {}
        for name, vector in _named(vectors):
            if self._scope.includes("runbooks"):
                found[f"runbook {name}"] = await self._run(sql.exact, "runbooks", vector, without)
            if self._scope.includes("events"):
                if await self._events_are_few():
                    found[f"event {name}"] = await self._run(sql.exact, "events", vector, without)
                else:
                    found[f"event {name}"] = await self._run(sql.indexed, "events", vector, without)
                    found[f"recent {name}"] = await self._run(sql.recent, "events", vector, without)
        halves: tuple[tuple[Half, Sequence[tuple[str, float]]], ...] = (
            ("runbooks", words.runbooks),
            ("events", words.events),
        )
        for half, chosen in halves:
            if chosen and self._scope.includes(half):
                found[f"{half} words"] = await self._worded(half, chosen, without)
        if identifiers:
            found["identifiers"] = await self._identified(identifiers, without)
        if routed and not without:
            found["routed"] = await self._routed(routed)
        return found

    async def _events_are_few(self) -> bool:
        """Whether the filters leave so few events that comparing all is exact and cheap; an index scan could miss some."""
        if not self._scope.restricted:
            return False
        if self._few_events is None:
            limit = self._policy.candidates.exact_rows
            text, args = sql.count(self._scope, limit + 1)
            self._few_events = await self._connection.fetchval(text, *args) <= limit
        return self._few_events

    async def _run(
        self, source: sql.VectorSource, half: Half, vector: Vector, without: Sequence[str]
    ) -> list[uuid.UUID]:
        text, args = source(self._scope, half, vector, without, self._limit, self._policy.candidates)
        return _ids(await self._connection.fetch(text, *args))

    async def _worded(self, half: Half, chosen: Sequence[tuple[str, float]], without: Sequence[str]) -> list[uuid.UUID]:
        limit = max(self._policy.candidates.lexical, self._limit)
        queries = [quote_lexeme(lexeme) for lexeme, _ in chosen]
        weights = [weight for _, weight in chosen]
        text, args = sql.worded(self._scope, half, queries, weights, without, limit, self._policy.lexical)
        return _ids(await self._connection.fetch(text, *args))

    async def _identified(self, identifiers: Sequence[str], without: Sequence[str]) -> list[uuid.UUID]:
        limit = max(self._policy.candidates.identifier, self._limit)
        text, args = sql.identified(self._scope, identifiers, without, limit)
        return _ids(await self._connection.fetch(text, *args))

    async def _routed(self, routed: Sequence[uuid.UUID]) -> list[uuid.UUID]:
        text, args = sql.routed(self._scope, routed, max(self._policy.candidates.routed, self._limit))
        return _ids(await self._connection.fetch(text, *args))

    async def fill(
        self,
        chunks: Sequence[uuid.UUID],
        lexemes: Sequence[str],
        identifiers: Sequence[str],
        vectors: QueryVectors | None,
    ) -> tuple[list[Candidate], set[str]]:
        """Every score of `chunks`, and the hashes of their embedded texts."""
        if not chunks:
            return [], set()
        lexical = self._policy.lexical
        text, args = sql.fill(
            chunks,
            [quote_lexeme(lexeme) for lexeme in lexemes],
            field_weights(lexical),
            all_of(lexemes),
            identifiers,
            vectors,
        )
        rows = await self._connection.fetch(text, *args)
        scale = max(lexical.title, lexical.section, lexical.body)
        return [_candidate(row, scale) for row in rows], {row["embed_sha"] for row in rows}

    async def hits(self, ranked: Sequence[Ranked]) -> list[Hit]:
        """The steps to show, in the order given."""
        if not ranked:
            return []
        rows = {row["step_id"]: row for row in await self._connection.fetch(sql.HITS, [one.step_id for one in ranked])}
        return [_hit(rows[one.step_id], one) for one in ranked]


def field_weights(lexical: LexicalPolicy) -> list[float]:
    """`{D, C, B, A}` for ts_rank_cd, which wants them in [0, 1]: relative to the greatest."""
    greatest = max(lexical.title, lexical.section, lexical.body)
    return [lexical.body / greatest, lexical.body / greatest, lexical.section / greatest, lexical.title / greatest]


def _named(vectors: QueryVectors | None) -> Iterator[tuple[str, Vector]]:
    if vectors is not None:
        yield "vector", vectors.original
        if vectors.extra is not None:
            yield "refined vector", vectors.extra


def _ids(rows: Sequence[Any]) -> list[uuid.UUID]:
    return [row["chunk_id"] for row in rows]


def _candidate(row: Any, scale: float) -> Candidate:
    return Candidate(
        chunk_id=row["chunk_id"],
        step_id=row["step_id"],
        document_id=row["document_id"],
        kind=row["kind"],
        ordinal=row["ordinal"],
        step_number=row["step_number"],
        occurred_at=row["occurred_at"],
        content_sha=row["content_sha"],
        identifiers=frozenset(row["held"]),
        frequencies=tuple(scale * value for value in row["frequencies"]),
        length=row["length"],
        cosine=row["cosine"],
        extra_cosine=row["extra_cosine"],
        seed_rank=row["seed_rank"],
    )


def _hit(row: Any, ranked: Ranked) -> Hit:
    return Hit(
        kind=row["kind"],
        document_id=row["document_id"],
        step_id=row["step_id"],
        runbook_id=row["external_id"],
        source=row["source"],
        title=row["title"],
        step=row["step_number"],
        label=row["label"],
        section=row["section"],
        text=row["body"],
        path=row["path"],
        commit=row["commit_sha"],
        line_start=row["line_start"],
        line_end=row["line_end"],
        url=row["url"],
        service=row["service"],
        severity=row["severity"],
        version=row["version"],
        occurred_at=row["occurred_at"],
        indexed_at=row["indexed_at"],
        content_sha=row["content_sha"],
        count=row["count"] + row["copies"] if row["kind"] != RUNBOOK else ranked.features.get("folded", 1),
        score=ranked.score,
        features=dict(ranked.features),
    )
