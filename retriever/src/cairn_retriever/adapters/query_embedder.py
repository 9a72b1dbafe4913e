"""`QueryEmbedder` over HTTP, with the vectors of recent queries kept in the process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cairn_retriever.metrics import Metrics
from cairn_retriever.model import Vector
from cairn_retriever.ports import QueryVectors
from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import TransientError


class CachedQueryEmbedder:
    """Embeds queries; the same text is asked once while the model stays the same.

    The cache is emptied when the embedder answers with another fingerprint: vectors of two models never meet.
    """

    def __init__(self, client: EmbedderClient, metrics: Metrics, *, size: int, timeout: float) -> None:
        self._client = client
        self._metrics = metrics
        self._size = size
        self._timeout = timeout
        self._fingerprint = ""
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    async def embed(self, text: str, extra: str | None) -> QueryVectors:
        """Vectors of `text` and `extra`.

        Raises:
            TransientError: the embedder is away or too slow.
        """
        texts = [text] if extra is None else [text, extra]
        known = {one: vector for one in texts if (vector := self._recall(one)) is not None}
        asked = [one for one in dict.fromkeys(texts) if one not in known]
        for one in texts:
            self._metrics.vector(cached=one in known)
        if asked:
            answer = await self._client.embed(
                EmbedRequest(texts=asked, kind="query", truncate=True), timeout=self._timeout
            )
            if answer.fingerprint != self._fingerprint:
                self._vectors.clear()
                if known:
                    self._fingerprint = answer.fingerprint
                    return await self.embed(text, extra)
            self._fingerprint = answer.fingerprint
            fresh = dict(zip(asked, answer.vectors, strict=True))
            for one, vector in fresh.items():
                self._remember(one, vector)
            known |= fresh
        return QueryVectors(self._fingerprint, known[text], known[extra] if extra is not None else None)

    def _recall(self, text: str) -> Vector | None:
        vector = self._vectors.get(text)
        if vector is not None:
            self._vectors.move_to_end(text)
        return vector

    def _remember(self, text: str, vector: Vector) -> None:
        if self._size:
            self._vectors[text] = np.array(vector, dtype=np.float32)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)


class OneEmbedder(Protocol):
    """An embedder with whatever model it has."""

    async def embed(self, text: str, extra: str | None) -> QueryVectors: ...


class QueryEmbedders:
    """`QueryEmbedder` over the embedders that there are: one, or two while the model is being changed."""

    def __init__(self, embedders: Sequence[OneEmbedder]) -> None:
        self._embedders = list(embedders)

    async def embed(self, text: str, extra: str | None, fingerprint: str | None = None) -> QueryVectors:
        """As `QueryEmbedder.embed`. Who served is asked first the next time."""
        failure: TransientError | None = None
        for one in list(self._embedders):
            try:
                vectors = await one.embed(text, extra)
            except TransientError as exc:
                failure = failure or exc
                continue
            if fingerprint in {None, vectors.fingerprint}:
                self._embedders.sort(key=lambda other: other is not one)
                return vectors
        raise failure or TransientError("no embedder has the model of the index")
