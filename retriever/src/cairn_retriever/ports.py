"""What the search needs from outside."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cairn_retriever.model import (
    Candidate,
    CorpusState,
    Lexicon,
    ParsedQuery,
    Phrase,
    Prepared,
    Ranked,
    Vector,
    WordChoice,
)
from cairn_shared.api.search import Hit, SearchFilters


@dataclass(frozen=True)
class QueryVectors:
    """The query's vector and, where there is one, the refined query's, of one model."""

    fingerprint: str
    original: Vector
    extra: Vector | None = None


class QueryEmbedder(Protocol):
    """Text to vectors."""

    async def embed(self, text: str, extra: str | None, fingerprint: str | None = None) -> QueryVectors:
        """Vectors of unit length, of the model that served last, or of the one with this fingerprint.

        Raises:
            TransientError: the embedder is away or too slow, or none has that model.
        """
        ...


@dataclass(frozen=True)
class Hints:
    """What leads to candidates beside vectors, and what they are scored by."""

    lexemes: Sequence[str]
    together: Sequence[str]
    """Those of which a chunk must hold all to have a `seed_rank`."""
    runbooks: Lexicon
    events: Lexicon
    runbook_words: Sequence[WordChoice]
    event_words: Sequence[WordChoice]
    phrases: Sequence[Phrase]
    """Of the query; told of the runbooks' chunks that hold one."""
    identifiers: Sequence[str]
    routed: Sequence[uuid.UUID]


class Snapshot(Protocol):
    """One consistent view of the index: a document is seen as it was or as it is, never as a mix."""

    state: CorpusState

    async def candidates(
        self, hints: Hints, vectors: QueryVectors | None, *, without: Sequence[str] = ()
    ) -> list[Candidate]:
        """What any source proposes, every score filled in; `without` leaves out steps with one of these hashes."""
        ...

    async def hits(self, ranked: Sequence[Ranked]) -> list[Hit]:
        """The steps to show, in the order given."""
        ...


class Index(Protocol):
    """The searchable corpus."""

    async def prepare(self, query: ParsedQuery, *, events: bool) -> Prepared:
        """Lexemes, frequencies and routes of a query. Raises Unavailable."""
        ...

    async def lexicon(self, state: CorpusState) -> Lexicon:
        """Frequencies among runbooks; may be some seconds behind. Raises Unavailable."""
        ...

    def snapshot(self, filters: SearchFilters, k: int, now: datetime) -> AbstractAsyncContextManager[Snapshot]:
        """Open a view restricted by `filters`, of which `k` results are wanted."""
        ...
