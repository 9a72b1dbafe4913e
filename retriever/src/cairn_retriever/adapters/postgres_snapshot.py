"""`Snapshot` over PostgreSQL: the candidate sources, the filling of scores, and the steps to show."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cairn_retriever.adapters.read_transaction import ReadTransaction
from cairn_retriever.adapters.sql import HITS, Sources, Statement, candidates
from cairn_retriever.features import SECTION, TITLE
from cairn_retriever.model import RUNBOOK, Candidate, CorpusState, Ranked, Vector
from cairn_retriever.policy import LexicalPolicy
from cairn_retriever.ports import Hints, QueryVectors
from cairn_shared.api.search import Hit

BY_QUESTIONS = "runbooks by questions made of them"


class PostgresSnapshot:
    """One consistent view of the index, of the halves of the corpus that the request's filters leave.

    `transactions` are one, or two that see the same: the first has begun, a second begins when it is needed.
    """

    def __init__(
        self,
        transactions: Sequence[ReadTransaction],
        snapshot: str | None,
        state: CorpusState,
        halves: Sequence[Sources],
    ) -> None:
        self.state = state
        self._transactions = transactions
        self._snapshot = snapshot
        self._halves = halves

    async def candidates(
        self, hints: Hints, vectors: QueryVectors | None, *, without: Sequence[str] = ()
    ) -> list[Candidate]:
        """What any source proposes, every score filled in, ordered by half and chunk id."""
        halves = [replace(sources, without=without) for sources in self._halves]
        if len(self._transactions) < len(halves):
            found = [await self._of_half(self._transactions[0], sources, hints, vectors) for sources in halves]
        else:
            pairs = zip(self._transactions, halves, strict=False)
            found = await _all(self._of_half(one, sources, hints, vectors) for one, sources in pairs)
        return [candidate for half in found for candidate in half]

    async def _of_half(
        self, transaction: ReadTransaction, sources: Sources, hints: Hints, vectors: QueryVectors | None
    ) -> list[Candidate]:
        await transaction.begin(like=self._snapshot)
        named = await self._proposals(transaction, sources, hints, vectors)
        if not named:
            return []
        statement = candidates(
            [proposal for _, proposal in named],
            hints,
            vectors,
            table=self.state.vectors,
            policy=sources.policy,
            whole=sources.half,
            without=sources.without,
            asked=sources.half == "runbooks" and vectors is not None,
        )
        names = [name for name, _ in named]
        rows = await transaction.fetch(statement.text, *statement.args)
        return _candidates(rows, names, sources.policy.lexical)

    async def _proposals(
        self, transaction: ReadTransaction, sources: Sources, hints: Hints, vectors: QueryVectors | None
    ) -> list[tuple[str, Statement]]:
        runbooks = sources.half == "runbooks"
        named: list[tuple[str, Statement]] = []
        exactly = bool(vectors) and (runbooks or await _are_few(transaction, sources))
        for name, vector in _named(vectors):
            if exactly:
                named.append((f"{sources.half} by {name}", sources.exact(vector)))
            else:
                named.append((f"{sources.half} by {name}", sources.indexed(vector)))
                named.append((f"recent {sources.half} by {name}", sources.recent(vector)))
        if runbooks and vectors is not None:
            named.append((BY_QUESTIONS, sources.asked()))
        words = hints.runbook_words if runbooks else hints.event_words
        if words:
            lexicon = hints.runbooks if runbooks else hints.events
            named.append((f"{sources.half} by words", sources.worded(words, lexicon)))
        if hints.identifiers:
            named.append((f"{sources.half} by identifiers", sources.identified(hints.identifiers)))
        if hints.routed and runbooks:
            named.append(("routed", sources.routed(hints.routed)))
        return named

    async def hits(self, ranked: Sequence[Ranked]) -> list[Hit]:
        """The steps to show, in the order given."""
        if not ranked:
            return []
        rows = {row["step_id"]: row for row in await self._transactions[0].fetch(HITS, [one.step_id for one in ranked])}
        return [_hit(rows[one.step_id], one) for one in ranked]


async def _all(halves: Iterable[Coroutine[Any, Any, list[Candidate]]]) -> list[list[Candidate]]:
    """What all give; or the first error, when all have ended: no connection is given back amid a statement."""
    results = await asyncio.gather(*halves, return_exceptions=True)
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return [one for one in results if not isinstance(one, BaseException)]


async def _are_few(transaction: ReadTransaction, sources: Sources) -> bool:
    """Whether the filters leave so few that comparing all is cheap; an index scan could miss some."""
    if not sources.scope.restricted:
        return False
    limit = sources.policy.candidates.exact_rows
    counted = sources.count(limit + 1)
    number: int = (await transaction.fetch(counted.text, *counted.args))[0][0]
    return number <= limit


def _named(vectors: QueryVectors | None) -> Iterator[tuple[str, Vector]]:
    if vectors is not None:
        yield "vector", vectors.original
        if vectors.extra is not None:
            yield "refined vector", vectors.extra


def _candidates(rows: Sequence[Any], names: Sequence[str], lexical: LexicalPolicy) -> list[Candidate]:
    if not rows:
        return []
    fields = (np.array([row["fields"] for row in rows]).reshape(len(rows), -1) * TITLE).astype(np.int64)
    weighted = (
        lexical.title * (fields // TITLE)
        + lexical.section * (fields // SECTION % SECTION)
        + lexical.body * (fields % SECTION)
    )
    columns = zip(rows, fields.tolist(), weighted.tolist(), strict=True)
    return [_candidate(row, names, tuple(own), tuple(frequencies)) for row, own, frequencies in columns]


def _candidate(row: Any, names: Sequence[str], fields: tuple[int, ...], frequencies: tuple[float, ...]) -> Candidate:
    return Candidate(
        sources=tuple(map(names.__getitem__, row["sources"] or ())),
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
        frequencies=frequencies,
        quoted=tuple(row["quoted"]),
        length=row["length"],
        cosine=row["cosine"],
        extra_cosine=row["extra_cosine"],
        seed_rank=row["seed_rank"],
        fields=fields,
        title=row["title"],
        path=row["path"],
        title_lexemes=tuple(row["title_lexemes"] or ()),
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
        author=row["author"],
        alerts=row["alerts"],
        version=row["version"],
        occurred_at=row["occurred_at"],
        indexed_at=row["indexed_at"],
        content_sha=row["content_sha"],
        count=row["count"] + row["copies"] if row["kind"] != RUNBOOK else ranked.features.get("folded", 1),
        score=ranked.score,
        features=dict(ranked.features),
    )
