"""Whether vectors are of the texts that they stand for: the texts are embedded again, and compared.

A vector of unit length and of the right model is not found out by looking at it. This costs as much as it cost to
index the texts, so it is done when somebody asks for it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cairn_retriever.model import Vector
from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.api.index import CheckedVectors
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import TransientError

SAME = 0.999
"""Cosine from which two vectors are of one text: batches and `halfvec` move a vector by less than 0.0001."""


@dataclass(frozen=True)
class StoredVector:
    """A chunk's text with the vector that searches use for it."""

    chunk_id: uuid.UUID
    external_id: str
    text: str
    vector: Vector


class StoredVectors(Protocol):
    """The vectors of the model that searches use."""

    async def page(self, source: str, after: uuid.UUID | None, limit: int) -> tuple[str | None, Sequence[StoredVector]]:
        """The model's fingerprint, and at most `limit` chunks of `source` after `after`, by id. Raises Unavailable."""
        ...


class VectorCheck:
    """Embeds stored texts again, by whichever embedder has the model of the index."""

    def __init__(self, stored: StoredVectors, embedders: Sequence[EmbedderClient]) -> None:
        self._stored = stored
        self._embedders = embedders

    async def check(self, source: str, after: uuid.UUID | None, limit: int) -> CheckedVectors:
        """One page of chunks.

        Raises:
            TransientError: PostgreSQL or the embedder is away, or no embedder has the model of the index.
        """
        fingerprint, page = await self._stored.page(source, after, limit)
        wrong: Counter[str] = Counter()
        if page:
            fresh = await self._embed([one.text for one in page], fingerprint)
            for one, vector in zip(page, fresh, strict=True):
                if not is_same(one.vector, vector):
                    wrong[one.external_id] += 1
        return CheckedVectors(
            checked=len(page), wrong=dict(wrong), next=page[-1].chunk_id if len(page) == limit else None
        )

    async def _embed(self, texts: list[str], fingerprint: str | None) -> Vector:
        failure: TransientError | None = None
        for embedder in self._embedders:
            try:
                answer = await embedder.embed(EmbedRequest(texts=texts, truncate=True))
            except TransientError as exc:
                failure = failure or exc
                continue
            if answer.fingerprint == fingerprint:
                return answer.vectors
        raise failure or TransientError("no embedder has the model of the index")


def is_same(stored: Vector, fresh: Vector) -> bool:
    """Whether both are of one text; not so where one is zero, not finite or of another dimension."""
    if stored.shape != fresh.shape:
        return False
    length = float(np.linalg.norm(stored)) * float(np.linalg.norm(fresh))
    return bool(length > 0.0 and float(stored @ fresh) / length >= SAME)
