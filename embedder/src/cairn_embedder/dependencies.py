"""What routes get: the only place that reads `app.state`.

Coroutine functions, for FastAPI hands plain ones to a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from cairn_embedder.embedding import Embedding
from cairn_shared.errors import Unavailable


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


@dataclass(frozen=True)
class State:
    """`app.state.embedder`."""

    model: LoadedModel = field(default_factory=LoadedModel)


async def _embedding(request: Request) -> Embedding:
    state: State = request.app.state.embedder
    return state.model.get()


EmbeddingDep = Annotated[Embedding, Depends(_embedding)]
