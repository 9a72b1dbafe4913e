"""A generated corpus of any size, the same for the same seed: words with a natural frequency, vectors in clusters.

Words follow Zipf's law, as in any language. Vectors are scattered around topic centres, so that near and far exist: vectors
drawn evenly over the sphere are all equally far from one another, which no index and no text is like.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import numpy as np
import numpy.typing as npt
from pgvector.asyncpg import register_vector

FINGERPRINT = "generated"
DIMENSION = 384
EVENT_KINDS = ("alert", "commit", "deployment", "issue", "log", "pull_request", "ticket")
SERVICES = tuple(f"service-{number:02d}" for number in range(50))
NOW = datetime(2026, 6, 1, tzinfo=UTC)

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Shape:
    """How much of what. A runbook has ten steps of one chunk, an event one chunk."""

    runbook_chunks: int = 5_000
    event_chunks: int = 95_000
    topics: int = 1_500
    vocabulary: int = 30_000
    words_per_chunk: int = 90
    spread: float = 0.75
    """Length of the noise around a topic's centre, relative to the centre's."""
    days: int = 180
    seed: int = 7


class Generator:
    """Texts and vectors of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._random = np.random.default_rng(shape.seed)
        self._words = self._make_words()
        ranks = np.arange(1, shape.vocabulary + 1)
        self._cumulative = np.cumsum(1.0 / ranks**1.05)
        self._cumulative /= self._cumulative[-1]
        self._centres = _unit(self._random.standard_normal((shape.topics, DIMENSION)).astype(np.float32))
        self._topic_words = self._random.integers(300, shape.vocabulary, size=(shape.topics, 12))

    def _make_words(self) -> list[str]:
        consonants, vowels = "bdfgklmnprstvz", "aeiou"
        words: dict[str, None] = {}
        while len(words) < self.shape.vocabulary:
            length = int(self._random.integers(2, 5))
            letters = self._random.integers(0, (len(consonants), len(vowels)), size=(length, 2))
            words["".join(consonants[int(c)] + vowels[int(v)] for c, v in letters) + "k"] = None
        return list(words)

    def chunk(self, topic: int) -> str:
        """Words about `topic` among common ones."""
        common = np.searchsorted(self._cumulative, self._random.random(self.shape.words_per_chunk))
        own = self._random.choice(self._topic_words[topic], size=8)
        return " ".join(self._words[int(index)] for index in self._random.permutation(np.concatenate([common, own])))

    def question(self, topic: int) -> str:
        """Ten words that somebody would ask about `topic`."""
        common = np.searchsorted(self._cumulative, self._random.random(6))
        own = self._random.choice(self._topic_words[topic], size=4)
        return " ".join(self._words[int(index)] for index in np.concatenate([own, common]))

    def topic(self) -> int:
        """A topic by chance."""
        return int(self._random.integers(self.shape.topics))

    def vectors(self, topics: list[int]) -> Vectors:
        """A vector for each topic given, near its centre; shape (len(topics), 384)."""
        noise = _unit(self._random.standard_normal((len(topics), DIMENSION)).astype(np.float32))
        return _unit(self._centres[topics] + self.shape.spread * noise)

    def age(self) -> timedelta:
        """How old an event is."""
        return timedelta(seconds=float(self._random.random()) * self.shape.days * 86_400)


def _unit(rows: Vectors) -> Vectors:
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


async def load(dsn: str, shape: Shape, *, now: datetime = NOW) -> None:
    """Fill an empty, migrated database; the HNSW index is built after its table is filled."""
    generator = Generator(shape)
    connection = await asyncpg.connect(dsn)
    try:
        await register_vector(connection)
        await connection.execute("SET maintenance_work_mem = '1GB'; SET synchronous_commit = off")
        definition = await connection.fetchval(
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'chunk_embeddings_384_hnsw'"
        )
        await connection.execute("DROP INDEX chunk_embeddings_384_hnsw")
        await connection.execute("SELECT open_embedding_space($1, 'generated', 384)", FINGERPRINT)
        for batch in _batches(generator, now):
            await _copy(connection, batch)
        await connection.execute(
            "UPDATE corpus_state SET epoch = 1, refreshed_at = now(),"
            " chunks = (SELECT count(*) FROM chunks), average_length = (SELECT avg(length(tsv)) FROM chunks)"
        )
        await connection.execute(
            "INSERT INTO lexeme_df SELECT word, ndoc FROM ts_stat('SELECT tsv FROM chunks')", timeout=300
        )
        await connection.execute(definition, timeout=900)
        for table in ("documents", "steps", "chunks", "chunk_embeddings_384", "lexeme_df"):
            await connection.execute(f"VACUUM (ANALYZE) {table}", timeout=300)
    finally:
        await connection.close()


Batch = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class _Document:
    number: int
    kind: str
    steps: int
    topic: int
    occurred_at: datetime | None


def _batches(generator: Generator, now: datetime, size: int = 2_000) -> Iterator[Batch]:
    shape = generator.shape
    plan = [("runbook", 10)] * (shape.runbook_chunks // 10)
    plan += [(EVENT_KINDS[index % len(EVENT_KINDS)], 1) for index in range(shape.event_chunks)]
    documents: list[_Document] = []
    for number, (kind, steps) in enumerate(plan):
        when = None if kind == "runbook" else now - generator.age()
        documents.append(_Document(number, kind, steps, generator.topic(), when))
        if sum(one.steps for one in documents) >= size:
            yield _batch(generator, documents)
            documents = []
    if documents:
        yield _batch(generator, documents)


def _batch(generator: Generator, documents: list[_Document]) -> Batch:
    batch: Batch = {"documents": [], "parts": [], "steps": [], "chunks": [], "vectors": []}
    for document in documents:
        _add(batch, generator, document)
    topics = [document.topic for document in documents for _ in range(document.steps)]
    rows = zip(batch["chunks"], generator.vectors(topics), strict=True)
    batch["vectors"] = [(chunk[0], chunk[3], chunk[9], FINGERPRINT, vector) for chunk, vector in rows]
    return batch


def _add(batch: Batch, generator: Generator, document: _Document) -> None:
    number, kind = document.number, document.kind
    key = uuid.uuid5(uuid.NAMESPACE_OID, f"{generator.shape.seed}-{number}")
    title = generator.question(document.topic)
    service = SERVICES[number % len(SERVICES)]
    source = "api" if kind == "runbook" else f"source-{number % 4}"
    sha = hashlib.sha256(key.bytes).hexdigest()
    batch["documents"].append((key, kind, source, f"{kind}-{number}", title, service, 1, sha, document.occurred_at))
    batch["parts"].append((key, "", 1, key, "generated", sha))
    for index in range(document.steps):
        step = uuid.uuid5(key, str(index))
        body = generator.chunk(document.topic)
        names = [f"unit-{number}"] if kind != "runbook" else []
        digest = hashlib.sha256(body.encode()).hexdigest()
        embedded = f"{title} > Steps\n{body}"
        batch["steps"].append((step, key, index + 1, str(index + 1), "Steps", body, digest, names))
        batch["chunks"].append((step, step, key, kind, 0, body, embedded, digest, 180, document.occurred_at, title))


async def _copy(connection: asyncpg.Connection[asyncpg.Record], batch: Batch) -> None:
    columns = {
        "documents": "document_id kind source external_id title service version content_sha occurred_at",
        "parts": "document_id part version event_id pipeline content_sha",
        "steps": "step_id document_id step_number label section body content_sha identifiers",
        "vectors": "chunk_id kind occurred_at fingerprint embedding",
    }
    tables = {"parts": "document_parts", "vectors": "chunk_embeddings_384"}
    for name in ("documents", "parts", "steps"):
        await connection.copy_records_to_table(
            tables.get(name, name), records=batch[name], columns=columns[name].split()
        )
    await connection.executemany(
        "INSERT INTO chunks (chunk_id, step_id, document_id, kind, ordinal, text, embed_text, embed_sha, n_tokens,"
        " occurred_at, tsv) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
        " setweight(to_tsvector('english', $11), 'A') || setweight(to_tsvector('english', $6), 'D'))",
        batch["chunks"],
    )
    await connection.copy_records_to_table(
        "chunk_embeddings_384", records=batch["vectors"], columns=columns["vectors"].split()
    )
