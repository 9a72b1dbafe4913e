"""What routes get: the only place that reads `app.state`.

Coroutine functions, for FastAPI hands plain ones to a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from cairn_embedder.embedding import Embedding
from cairn_embedder.reranking import Reranking
from cairn_shared.errors import NotFound, Unavailable


@dataclass
class LoadedModel:
    """Empty until the model is loaded, which the process does not wait for."""

    embedding: Embedding | None = None

    def get(self) -> Embedding:
        """The model.

        Raises:
            Unavailable: it is still loading.
        """
        if self.embedding is None:
            raise Unavailable("model", "the model is still loading", retry_after=2)
        return self.embedding


@dataclass
class LoadedReranker:
    """Empty until it is loaded; `wanted` says whether it ever will be."""

    wanted: bool = False
    reranking: Reranking | None = None

    def get(self) -> Reranking:
        """The reranker.

        Raises:
            NotFound: none is configured.
            Unavailable: it is still loading.
        """
        if not self.wanted:
            raise NotFound("no reranker is configured: set RERANKER_MODEL")
        if self.reranking is None:
            raise Unavailable("reranker", "the reranker is still loading", retry_after=2)
        return self.reranking


@dataclass(frozen=True)
class State:
    """`app.state.embedder`."""

    model: LoadedModel = field(default_factory=LoadedModel)
    reranker: LoadedReranker = field(default_factory=LoadedReranker)


async def _embedding(request: Request) -> Embedding:
    state: State = request.app.state.embedder
    return state.model.get()


async def _reranking(request: Request) -> Reranking:
    state: State = request.app.state.embedder
    return state.reranker.get()


RerankingDep = Annotated[Reranking, Depends(_reranking)]
EmbeddingDep = Annotated[Embedding, Depends(_embedding)]
