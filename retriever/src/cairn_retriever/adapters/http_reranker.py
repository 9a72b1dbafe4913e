"""`Reranker` over HTTP: the embedder's second model."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_shared.api.reranking import RerankRequest
from cairn_shared.embedder_client import EmbedderClient


class HttpReranker:
    """Asks the embedder."""

    def __init__(self, client: EmbedderClient) -> None:
        self._client = client

    async def scores(self, query: str, passages: Sequence[str], seconds: float) -> list[float]:
        """As `Reranker.scores`."""
        return await self._client.rerank(RerankRequest(query=query, passages=list(passages)), timeout=seconds)
