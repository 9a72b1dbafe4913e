"""What the search needs from outside."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cairn_retriever.model import Candidate, CorpusState, Lexicon, ParsedQuery, Prepared, Ranked, Vector
from cairn_shared.api.search import Hit, SearchFilters


@dataclass(frozen=True)
class QueryVectors:
    """The query's vector and, where there is one, the refined query's, of one model."""

    fingerprint: str
    original: Vector
    extra: Vector | None = None


class QueryEmbedder(Protocol):
    """Text to vectors."""

    async def embed(self, text: str, extra: str | None) -> QueryVectors:
        """Vectors of unit length. Raises TransientError when the embedder is away or too slow."""
        ...


@dataclass(frozen=True)
class Words:
    """The words that select candidates of one half of the corpus, and their weights."""

    runbooks: Sequence[tuple[str, float]]
    events: Sequence[tuple[str, float]]


class Snapshot(Protocol):
    """One consistent view of the index: a document is seen as it was or as it is, never as a mix."""

    state: CorpusState

    async def candidates(
        self,
        words: Words,
        identifiers: Sequence[str],
        routed: Sequence[uuid.UUID],
        vectors: QueryVectors | None,
        *,
        without: Sequence[str] = (),
    ) -> Mapping[str, list[uuid.UUID]]:
        """Chunk ids by source, best first; `without` leaves out chunks whose embedded text has one of these hashes."""
        ...

    async def fill(
        self,
        chunks: Sequence[uuid.UUID],
        lexemes: Sequence[str],
        identifiers: Sequence[str],
        vectors: QueryVectors | None,
    ) -> tuple[list[Candidate], set[str]]:
        """Every score of `chunks`, and the hashes of their embedded texts."""
        ...

    async def hits(self, ranked: Sequence[Ranked]) -> list[Hit]:
        """The steps to show, in the order given."""
        ...


class Index(Protocol):
    """The searchable corpus."""

    async def prepare(self, query: ParsedQuery, *, events: bool) -> Prepared:
        """Lexemes, frequencies and routes of a query."""
        ...

    async def lexicon(self, state: CorpusState, now: datetime) -> Lexicon:
        """Frequencies among runbooks; may be a second or two behind."""
        ...

    def snapshot(self, filters: SearchFilters, k: int) -> AbstractAsyncContextManager[Snapshot]:
        """Open a view restricted by `filters`, of which `k` results are wanted."""
        ...
