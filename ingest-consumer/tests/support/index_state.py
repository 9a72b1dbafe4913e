"""What the index holds, as values that tests compare; and the model that it must equal."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ingest_fakes import FINGERPRINT, FakeEmbedder, FakeModels, count_words, deliveries_of, vector_of
from prometheus_client import CollectorRegistry

from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.collapse import highest
from cairn_ingest_consumer.documents import render
from cairn_ingest_consumer.embedders import Embedders, Endpoint
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import MAIN_PART, PartWrite
from cairn_ingest_consumer.ports import EmbeddingModel
from cairn_ingest_consumer.prepare import prepare
from cairn_shared.clock import SystemClock
from cairn_shared.events import Event
from cairn_shared.postgres import Pool

MODEL = EmbeddingModel(FINGERPRINT, 384, 256, count_words)


@dataclass(frozen=True)
class DocumentState:
    """One document: what names it, its parts' ranks, and every chunk with its step's place."""

    kind: str
    title: str
    version: int
    deleted: bool
    content_sha: str
    parts: tuple[tuple[str, int, uuid.UUID, bool], ...]
    steps: tuple[tuple[str, int, str], ...]
    chunks: tuple[tuple[Any, ...], ...]


def expected(events: Iterable[Event]) -> dict[uuid.UUID, DocumentState]:
    """Fold by highest rank: what any delivery of these events must end as."""
    documents: dict[uuid.UUID, list[PartWrite]] = {}
    for write in highest(render(event) for event in events).values():
        documents.setdefault(write.document_id, []).append(write)
    return {document_id: _fold(writes) for document_id, writes in documents.items()}


def _fold(writes: list[PartWrite]) -> DocumentState:
    main = next((write for write in writes if write.part == MAIN_PART), None)
    naming = main or max(writes, key=lambda write: write.rank)
    hidden = main is not None and main.deleted
    steps = [(write.part, step) for write in writes if not hidden for step in (prepare(write, MODEL).steps or ())]
    chunks = [
        (part, step.draft.number, chunk.ordinal, chunk.text, chunk.embed_sha)
        for part, step in steps
        for chunk in step.chunks
    ]
    return DocumentState(
        kind=naming.kind,
        title=naming.facts.title,
        version=main.rank.version if main else -1,
        deleted=hidden,
        content_sha=main.content_sha if main else "",
        parts=tuple(sorted((w.part, w.rank.version, w.rank.event_id, w.deleted) for w in writes)),
        steps=tuple(sorted((part, step.draft.number, step.draft.body) for part, step in steps)),
        chunks=tuple(sorted(chunks)),
    )


async def actual(pool: Pool) -> dict[uuid.UUID, DocumentState]:
    """What is in the database; fails when a chunk's vector is missing or not of its text."""
    documents = await pool.fetch("SELECT * FROM documents")
    parts = await pool.fetch("SELECT * FROM document_parts ORDER BY part")
    steps = await pool.fetch("SELECT document_id, part, step_number, body FROM steps")
    chunks = await pool.fetch("""
        SELECT s.document_id, s.part, s.step_number, c.ordinal, c.text, c.embed_sha, c.embed_text, e.embedding
        FROM chunks c JOIN steps s USING (step_id) LEFT JOIN chunk_embeddings_384 e USING (chunk_id)""")
    for row in chunks:
        assert row["embedding"] is not None, "a chunk without a vector"
        assert np.allclose(row["embedding"].to_numpy(), vector_of(row["embed_text"]), atol=1e-6), (
            "a vector of other text"
        )
    return {
        document["document_id"]: DocumentState(
            kind=document["kind"],
            title=document["title"],
            version=document["version"],
            deleted=document["deleted"],
            content_sha=document["content_sha"],
            parts=tuple(
                (part["part"], part["version"], part["event_id"], part["deleted"])
                for part in parts
                if part["document_id"] == document["document_id"]
            ),
            steps=tuple(
                sorted(
                    (row["part"], row["step_number"], row["body"])
                    for row in steps
                    if row["document_id"] == document["document_id"]
                )
            ),
            chunks=tuple(
                sorted(
                    (row["part"], row["step_number"], row["ordinal"], row["text"], row["embed_sha"])
                    for row in chunks
                    if row["document_id"] == document["document_id"]
                )
            ),
        )
        for document in documents
    }


class Index:
    """The handler under test over a real database, with a counting embedder."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.models = FakeModels()
        self.embedder = FakeEmbedder()
        self.registry = CollectorRegistry()
        endpoint = Endpoint(self.models, self.embedder, self.embedder)
        self.embedders = Embedders(PostgresSpaces(pool), [endpoint], SystemClock())
        self.handler = IndexDocuments(
            PostgresDocumentStore(pool), self.embedders, IngestMetrics(self.registry), SystemClock()
        )

    async def apply(self, *events: Event, first_offset: int = 0) -> None:
        await self.handler.handle(deliveries_of(events, first_offset))

    async def states(self, events: Sequence[Event]) -> list[str | None]:
        """What the ledger says of each event."""
        return [
            await self.pool.fetchval("SELECT state FROM ingest_ledger WHERE event_id = $1", event.event_id)
            for event in events
        ]

    async def epoch(self) -> int:
        return int(await self.pool.fetchval("SELECT epoch FROM corpus_state"))
