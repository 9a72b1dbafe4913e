"""What a search is made of: the parsed query, the corpus it meets, candidates, ranked steps."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cairn_retriever.spelling import Spelling

Vector = npt.NDArray[np.float32]

RUNBOOK = "runbook"
EVENT = "event"
"""Any kind that is not a runbook."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A request, read: what to embed, what to match as words, and what is named exactly."""

    lexical_text: str
    products: tuple[str, ...]
    """Servers and brokers that the text names, one word each."""
    spellings: tuple[tuple[str, ...], ...]
    """Groups of words that are one to an engineer, of which the text has at least one."""
    fillers: tuple[str, ...]
    """Words that say nothing of what the text is about."""
    joined: tuple[str, ...]
    """CamelCase names of the text, case-folded, whose parts are words of their own in `lexical_text`."""
    embed_text: str
    identifiers: tuple[str, ...]
    """Case-folded, as `cairn_shared.identifiers` gives them for documents too."""
    alerts: tuple[str, ...]
    """Case-folded names that an alert in the request states."""
    names: Mapping[str, bool]
    """Case-folded words of the text that may name an alert or a runbook; True where the spelling says it is a name."""
    links: tuple[str, ...]
    """Case-folded addresses: a runbook_url among them routes."""


@dataclass(frozen=True, slots=True)
class Route:
    """A runbook that the request names exactly, and by what."""

    document_id: uuid.UUID
    by: str


@dataclass(frozen=True, slots=True)
class CorpusState:
    """The single row of `corpus_state`."""

    epoch: int
    fingerprint: str | None
    chunks: int
    average_length: float
    refreshed: bool
    thresholds: Mapping[str, Any]
    vectors: str | None
    """The table that holds the vectors of `fingerprint`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the database says about a query before its vector is known."""

    state: CorpusState
    lexemes: tuple[str, ...]
    """Of the query itself."""
    sequence: tuple[tuple[int, str], ...]
    """The same in the order of the text, with the place of each word; stop words are left out."""
    products: tuple[tuple[str, ...], ...]
    """Of the products that the query names: any of the lexemes of one says that a page is about it."""
    spellings: tuple[tuple[str, ...], ...]
    """Lexemes that mean one thing, in groups; some are not the query's own."""
    fillers: frozenset[str]
    """Lexemes that say nothing of what the query is about."""
    joined: frozenset[str]
    """Lexemes of CamelCase names, whose parts are lexemes too."""
    event_frequencies: Mapping[str, int]
    identifier_documents: Mapping[str, int]
    """How many documents hold each identifier of the query; absent where none does."""
    routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """How often lexemes occur in one half of the corpus (runbooks or events), in chunks."""

    chunks: int
    average_length: float
    frequencies: Mapping[str, int]
    spelling: Spelling | None = None
    """Of the same words, where typing errors are read as one of them."""

    def frequency(self, lexeme: str) -> int:
        """Chunks that hold `lexeme`."""
        return self.frequencies.get(lexeme, 0)

    def rarity(self, lexeme: str) -> float:
        """Inverse document frequency as in Lucene's BM25: never negative."""
        frequency = self.frequency(lexeme)
        return math.log(1.0 + (max(self.chunks, frequency) - frequency + 0.5) / (frequency + 0.5))


Tells = Literal["always", "less where unknown", "where known", "never"]
"""When the absence of a lexeme from a page says something about the page."""


@dataclass(frozen=True, slots=True)
class WeightedLexeme:
    """A lexeme to match, with its inverse document frequency among runbooks and among events."""

    lexeme: str
    meaning: str
    """Equal for spellings of one thing, which count once; of any other lexeme itself."""
    asked: bool
    """The query says it; otherwise it is another spelling of what the query says."""
    tells: Tells
    runbook_idf: float
    event_idf: float
    likeness: float = 1.0
    """Below 1 for a word that a typing error is read as: how alike they are, by which its rarity was multiplied."""

    def idf(self, kind: str) -> float:
        return self.runbook_idf if kind == RUNBOOK else self.event_idf


@dataclass(frozen=True, slots=True)
class WordChoice:
    """A lexeme that selects candidates, and what it weighs."""

    lexeme: str
    idf: float


@dataclass(frozen=True, slots=True)
class Phrase:
    """Lexemes that follow one another in the query; `gaps` are the distances from each to the next, in words."""

    lexemes: tuple[str, ...]
    gaps: tuple[int, ...]
    rarity: float
    """Mean inverse document frequency of its lexemes, as a share of the greatest that there is; 1 for a whole query."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that some source proposed, with every score filled in."""

    sources: tuple[str, ...]
    chunk_id: uuid.UUID
    step_id: uuid.UUID
    document_id: uuid.UUID
    kind: str
    ordinal: int
    step_number: int
    section: str
    occurred_at: datetime | None
    content_sha: str
    identifiers: frozenset[str]
    """Those of the query that its step holds."""
    frequencies: tuple[float, ...]
    """Field-weighted occurrences of each lexeme of the query."""
    quoted: tuple[int, ...]
    """Phrases of the query, by number, that it holds word by word."""
    length: int
    cosine: float | None
    extra_cosine: float | None
    seed_rank: float
    """ts_rank_cd of all lexemes together, as the first prototype scored."""
    fields: tuple[int, ...] = ()
    """For each lexeme of the query its occurrences in title, headings and text, as one number (`features.py`)."""
    title: str = ""
    path: str | None = None
    title_lexemes: tuple[str, ...] = ()
    """Of a page's first chunk only."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk with its scores."""

    candidate: Candidate
    cosine: float | None
    """The better of the query's and the refined query's."""
    words: Sequence[float]
    """What each lexeme of the query adds to BM25."""
    bm25: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A step in its place."""

    step_id: uuid.UUID
    document_id: uuid.UUID
    kind: str
    step_number: int
    content_sha: str
    score: float
    tier: int
    features: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for the first document of one half of the corpus being an answer. Raw scores, never fused ones."""

    cosine: float | None
    """Its best, or None without vectors."""
    coverage: float
    """The share of the query's subject, by rarity, that it holds; in [0, 1]."""
    gap: float
    """By how much its cosine is above that of a rival further down."""
    quoted: bool = False
    """It holds, word by word, a phrase of the query that few documents hold."""
    foreign: bool = False
    """The query names products, and it is about none of them."""
    document_id: uuid.UUID | None = None
    held: frozenset[str] = frozenset()
    """Identifiers of the query that it holds."""
    rivals: tuple[uuid.UUID, ...] = ()
    """Runbooks that the evidence does not tell apart, best first."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Steps in order, and the evidence of both halves of the corpus."""

    steps: list[Ranked]
    runbooks: Evidence | None
    events: Evidence | None
    pages: Mapping[uuid.UUID, float] = field(default_factory=dict)
    """What the fitted model makes of the runbooks found, as log odds."""
