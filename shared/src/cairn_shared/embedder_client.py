"""The embedder's client, for the ingest consumer (passages) and the retriever (queries)."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import numpy as np
import numpy.typing as npt

from cairn_shared.api.embedding import EmbedRequest, EmbedResponse, ModelInfo, unpack_vector
from cairn_shared.api.reranking import RerankRequest, RerankResponse
from cairn_shared.errors import TransientError
from cairn_shared.http import call, open_client

__all__ = ["Embedded", "EmbedderClient", "open_client"]

Vector = npt.NDArray[np.float32]


class Embedded:
    """The answer of the embedder, its vectors checked: `vectors` has shape (texts, dimension)."""

    def __init__(self, vectors: Vector, fingerprint: str, tokens: list[int], truncated: list[bool]) -> None:
        self.vectors = vectors
        self.fingerprint = fingerprint
        self.tokens = tokens
        self.truncated = truncated


class EmbedderClient:
    """Embeds texts over HTTP. Wrong counts, dimensions, NaN or zero vectors never get through."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def model(self) -> ModelInfo:
        """The model that the embedder has loaded."""
        return await call(self._client, "embedder", "GET", "/model", ModelInfo)

    async def embed(self, request: EmbedRequest, *, timeout: float | None = None) -> Embedded:
        """Vectors of `request.texts`, in order, of unit length.

        Raises:
            InvalidInput, TooLarge: the embedder refuses a text or the batch.
            TransientError: it is away or its answer cannot be used.
        """
        answer = await call(self._client, "embedder", "POST", "/embed", EmbedResponse, body=request, timeout=timeout)
        return Embedded(check(request.texts, answer), answer.fingerprint, answer.tokens, answer.truncated)

    async def rerank(self, request: RerankRequest, *, timeout: float | None = None) -> list[float]:
        """How well each passage answers the query, in order.

        Raises:
            NotFound: the embedder has no reranker.
            TransientError: it is away or its answer cannot be used.
        """
        answer = await call(self._client, "embedder", "POST", "/rerank", RerankResponse, body=request, timeout=timeout)
        if len(answer.scores) != len(request.passages) or not np.all(np.isfinite(answer.scores)):
            raise TransientError("embedder gave no number for each passage")
        return answer.scores


def check(texts: Sequence[str], answer: EmbedResponse) -> Vector:
    """The vectors as an array of shape (len(texts), dimension).

    Raises:
        TransientError: the count, a dimension or a value is wrong; a healthy embedder would not answer so.
    """
    if len(answer.vectors) != len(texts):
        raise TransientError(f"embedder gave {len(answer.vectors)} vectors for {len(texts)} texts")
    rows = [np.frombuffer(unpack_vector(vector), dtype="<f4") for vector in answer.vectors]
    if any(row.shape != (answer.dimension,) for row in rows):
        raise TransientError("embedder gave a vector of a wrong dimension")
    vectors = np.stack(rows).astype(np.float32)
    norms = np.linalg.norm(vectors, axis=1)
    if not np.all(np.isfinite(vectors)) or np.any(np.abs(norms - 1.0) > 1e-2):
        raise TransientError("embedder gave a vector that is not finite or not of unit length")
    return vectors
