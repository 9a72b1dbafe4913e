"""Writes to steps and windows with their ids. Pure, and bound by the processor: run it in a thread."""

from __future__ import annotations

import hashlib
import uuid

from cairn_ingest_consumer.chunking import ChunkPolicy, chunk_step
from cairn_ingest_consumer.model import ChunkDraft, PartWrite, PreparedPart, PreparedStep, StepDraft
from cairn_ingest_consumer.ports import EmbeddingModel
from cairn_shared.searchable import step_identifiers

WINDOW_TOKENS = 220
"""Design §7: room below the model's limit for other tokenizers' differences."""


def prepare(write: PartWrite, model: EmbeddingModel) -> PreparedPart:
    """The rows that `write` stands for. The same content gives the same ids, so unchanged rows are recognised.

    Raises:
        PermanentError: a step cannot be cut.
    """
    return PreparedPart(write, tuple(_step(write, draft, model) for draft in write.steps if draft.body.strip()))


def embed_sha(embed_text: str) -> str:
    """Hex SHA-256 of what a vector is of."""
    return hashlib.sha256(embed_text.encode()).hexdigest()


def _step(write: PartWrite, draft: StepDraft, model: EmbeddingModel) -> PreparedStep:
    step_id = uuid.uuid5(write.document_id, f"{write.part}|{draft.number}")
    policy = ChunkPolicy(max_tokens=min(WINDOW_TOKENS, model.max_tokens))
    windows = chunk_step(write.facts.title, draft.section, draft.body, model.count_tokens, policy)
    return PreparedStep(
        step_id=step_id,
        draft=draft,
        content_sha=hashlib.sha256(f"{draft.label}\0{draft.section}\0{draft.body}".encode()).hexdigest(),
        identifiers=step_identifiers(draft.section, draft.body, draft.mentions),
        chunks=tuple(
            ChunkDraft(
                chunk_id=uuid.uuid5(step_id, str(ordinal)),
                ordinal=ordinal,
                text=window.text,
                embed_text=window.embed_text,
                embed_sha=embed_sha(window.embed_text),
                n_tokens=window.n_tokens,
            )
            for ordinal, window in enumerate(windows)
        ),
    )
