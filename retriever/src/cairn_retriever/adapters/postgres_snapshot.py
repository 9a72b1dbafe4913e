"""`Snapshot` over PostgreSQL: the candidate sources, the filling of scores, and the steps to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cairn_retriever.adapters.sql import HITS, Sources, Statement, candidates, greatest_weight
from cairn_retriever.model import RUNBOOK, Candidate, CorpusState, Ranked, Vector
from cairn_retriever.policy import LexicalPolicy
from cairn_retriever.ports import Hints, QueryVectors
from cairn_shared.api.search import Hit

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection


class PostgresSnapshot:
    """One consistent view of the index, of the halves of the corpus that the request's filters leave."""

    def __init__(self, connection: Connection, state: CorpusState, halves: Sequence[Sources]) -> None:
        self.state = state
        self._connection = connection
        self._halves = halves

    async def candidates(
        self, hints: Hints, vectors: QueryVectors | None, *, without: Sequence[str] = ()
    ) -> list[Candidate]:
        """What any source proposes, every score filled in, ordered by chunk id."""
        found: list[Candidate] = []
        for sources in self._halves:
            named = await self._proposals(replace(sources, without=without), hints, vectors)
            if named:
                found += await self._filled(named, hints, vectors, sources.policy.lexical)
        return found

    async def _proposals(
        self, sources: Sources, hints: Hints, vectors: QueryVectors | None
    ) -> list[tuple[str, Statement]]:
        runbooks = sources.half == "runbooks"
        named: list[tuple[str, Statement]] = []
        exactly = bool(vectors) and (runbooks or await self._are_few(sources))
        for name, vector in _named(vectors):
            if exactly:
                named.append((f"{sources.half} by {name}", sources.exact(vector)))
            else:
                named.append((f"{sources.half} by {name}", sources.indexed(vector)))
                named.append((f"recent {sources.half} by {name}", sources.recent(vector)))
        words = hints.runbook_words if runbooks else hints.event_words
        if words:
            lexicon = hints.runbooks if runbooks else hints.events
            named.append((f"{sources.half} by words", sources.worded(words, lexicon)))
        if hints.identifiers:
            named.append((f"{sources.half} by identifiers", sources.identified(hints.identifiers)))
        if hints.routed and runbooks:
            named.append(("routed", sources.routed(hints.routed)))
        return named

    async def _are_few(self, sources: Sources) -> bool:
        """Whether the filters leave so few that comparing all is cheap; an index scan could miss some."""
        if not sources.scope.restricted:
            return False
        limit = sources.policy.candidates.exact_rows
        counted = sources.count(limit + 1)
        number: int = await self._connection.fetchval(counted.text, *counted.args)
        return number <= limit

    async def _filled(
        self, named: Sequence[tuple[str, Statement]], hints: Hints, vectors: QueryVectors | None, lexical: LexicalPolicy
    ) -> list[Candidate]:
        statement = candidates(
            [proposal for _, proposal in named],
            hints.lexemes,
            hints.identifiers,
            vectors,
            table=self.state.vectors,
            lexical=lexical,
        )
        rows = await self._connection.fetch(statement.text, *statement.args)
        scale = greatest_weight(lexical)
        names = [name for name, _ in named]
        return [_candidate(row, names, scale) for row in rows]

    async def hits(self, ranked: Sequence[Ranked]) -> list[Hit]:
        """The steps to show, in the order given."""
        if not ranked:
            return []
        rows = {row["step_id"]: row for row in await self._connection.fetch(HITS, [one.step_id for one in ranked])}
        return [_hit(rows[one.step_id], one) for one in ranked]


def _named(vectors: QueryVectors | None) -> Iterator[tuple[str, Vector]]:
    if vectors is not None:
        yield "vector", vectors.original
        if vectors.extra is not None:
            yield "refined vector", vectors.extra


def _candidate(row: Any, names: Sequence[str], scale: float) -> Candidate:
    return Candidate(
        sources=tuple(names[place] for place in row["sources"]),
        chunk_id=row["chunk_id"],
        step_id=row["step_id"],
        document_id=row["document_id"],
        kind=row["kind"],
        ordinal=row["ordinal"],
        step_number=row["step_number"],
        section=row["section"],
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
