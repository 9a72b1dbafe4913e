"""A corpus that a test writes by hand, and an embedder whose vectors a test understands.

The vector of a text is the sum of one fixed direction for each of its words, so that texts with common words are near
one another and others are at right angles. `write` is what the ingest consumer writes, without its pipeline.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cairn_retriever.model import Vector
from cairn_retriever.ports import QueryVectors
from cairn_shared.api.search import SearchResponse
from cairn_shared.errors import TransientError, Unavailable
from cairn_shared.events import document_id
from cairn_shared.identifiers import identifiers, searchable_text

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool

Search = Callable[..., Awaitable[SearchResponse]]
"""`search(query, **fields of SearchRequest)`."""

DIMENSION = 384
FINGERPRINT = "bag-of-words"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def bag_of_words(text: str) -> Vector:
    """The unit vector of a text."""
    total = np.full(DIMENSION, 1e-6)
    for word in re.findall(r"[a-z0-9]+", text.casefold()):
        total += _direction(word)
    unit: Vector = (total / np.linalg.norm(total)).astype(np.float32)
    return unit


@cache
def _direction(word: str) -> npt.NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSION)


class BagEmbedder:
    """Embeds as the corpus was embedded; `away` makes it fail as the real one does."""

    def __init__(self) -> None:
        self.away = False
        self.fingerprint = FINGERPRINT
        self.asked: list[str] = []

    async def embed(self, text: str, extra: str | None, fingerprint: str | None = None) -> QueryVectors:
        if self.away:
            raise Unavailable("embedder")
        if fingerprint not in {None, self.fingerprint}:
            raise TransientError("no embedder has the model of the index")
        self.asked.append(text)
        return QueryVectors(self.fingerprint, bag_of_words(text), bag_of_words(extra) if extra else None)


class FrozenClock:
    """A clock that a test sets."""

    def __init__(self, now: datetime = NOW) -> None:
        self.time = now
        self.elapsed = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        self.elapsed += 0.001
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.elapsed += seconds


@dataclass(frozen=True)
class Document:
    """A document to write: a runbook, or with another `kind` an event of one step."""

    id: str
    title: str
    steps: Sequence[str] = ()
    kind: str = "runbook"
    sections: Sequence[str] = ()
    source: str = "api"
    service: str | None = None
    occurred_at: datetime | None = None
    alerts: Sequence[str] = ()
    links: Sequence[str] = ()
    path: str | None = None
    count: int = 1
    vector: Vector | None = None
    identifiers: Sequence[str] = field(default=())

    @property
    def document_id(self) -> uuid.UUID:
        return document_id(self.source, self.id)


def event(name: str, body: str, *, kind: str = "alert", age_days: float = 0.0, **extra: object) -> Document:
    """An event that happened `age_days` before NOW."""
    from datetime import timedelta

    return Document(
        name,
        name,
        [body],
        kind,
        source="webhook",
        occurred_at=NOW - timedelta(days=age_days),
        **extra,  # type: ignore[arg-type]
    )


async def write(pool: Pool, documents: Sequence[Document], *, fingerprint: str = FINGERPRINT) -> None:
    """Write documents, and grow the epoch as the consumer does."""
    rows: dict[str, list[tuple[object, ...]]] = {"documents": [], "parts": [], "steps": [], "chunks": [], "vectors": []}
    for document in documents:
        _add(rows, document, fingerprint)
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT open_embedding_space($1, 'a model of tests', 384)", fingerprint)
        await connection.executemany(
            "INSERT INTO documents (document_id, kind, source, external_id, title, service, alerts, links, path, version,"
            " content_sha, occurred_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10, $11)",
            rows["documents"],
        )
        await connection.executemany(
            "INSERT INTO document_parts (document_id, part, version, event_id, pipeline, content_sha, count)"
            " VALUES ($1, '', 1, $1, 'test', '', $2)",
            rows["parts"],
        )
        await connection.executemany(
            "INSERT INTO steps (step_id, document_id, step_number, label, section, body, content_sha, identifiers)"
            " VALUES ($1, $2, $3, $3::int::text, $4, $5, $6, $7)",
            rows["steps"],
        )
        await connection.executemany(
            "INSERT INTO chunks (chunk_id, step_id, document_id, kind, ordinal, text, embed_text, embed_sha, n_tokens,"
            " occurred_at, tsv) VALUES ($1, $1, $2, $3, 0, $4, $5, $6, 20, $7,"
            " setweight(to_tsvector('english', $8), 'A') || setweight(to_tsvector('english', $9), 'B')"
            " || setweight(to_tsvector('english', $10), 'D'))",
            rows["chunks"],
        )
        await connection.executemany(
            "INSERT INTO chunk_embeddings_384 (chunk_id, kind, occurred_at, fingerprint, embedding)"
            " VALUES ($1, $2, $3, $4, $5)",
            rows["vectors"],
        )
        await connection.execute("UPDATE corpus_state SET epoch = epoch + 1")


def _add(rows: dict[str, list[tuple[object, ...]]], document: Document, fingerprint: str) -> None:
    key, when = document.document_id, document.occurred_at
    rows["documents"].append(
        (
            key,
            document.kind,
            document.source,
            document.id,
            document.title,
            document.service,
            [name.casefold() for name in document.alerts],
            [link.casefold() for link in document.links],
            document.path,
            hashlib.sha256("".join(document.steps).encode()).hexdigest(),
            when,
        )
    )
    rows["parts"].append((key, document.count))
    for number, body in enumerate(document.steps, 1):
        step = uuid.uuid5(key, str(number))
        section = document.sections[number - 1] if document.sections else ""
        embedded = f"{document.title} {section} {body}"
        sha = hashlib.sha256(f"{number}\0{section}\0{body}".encode()).hexdigest()
        names = [*identifiers(f"{document.title}\n{body}"), *document.identifiers]
        vector = document.vector if document.vector is not None else bag_of_words(embedded)
        words = (searchable_text(document.title), searchable_text(section), searchable_text(body))
        rows["steps"].append((step, key, number, section, body, sha, names))
        rows["chunks"].append(
            (step, key, document.kind, body, embedded, hashlib.sha256(embedded.encode()).hexdigest(), when, *words)
        )
        rows["vectors"].append((step, document.kind, when, fingerprint, vector))
