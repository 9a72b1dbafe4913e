"""`Embedder` over HTTP."""

from __future__ import annotations

import re
from collections.abc import Sequence

import httpx

from cairn_gateway.model import Vectors
from cairn_shared.api.embedding import MAX_TEXTS, EmbedRequest, ModelInfo
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import InvalidInput, TransientError

NAME = "embedder"
_PLACE = re.compile(r"texts\[(\d{1,4})\]")


class HttpEmbedder:
    """The embedder's client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = EmbedderClient(client)

    async def model(self) -> ModelInfo:
        return await self._client.model()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors: list[bytes] = []
        tokens = 0
        fingerprint = ""
        for start in range(0, len(texts), MAX_TEXTS):
            try:
                answer = await self._client.embed(EmbedRequest(texts=list(texts[start : start + MAX_TEXTS])))
            except InvalidInput as exc:
                raise _placed(exc, start) from exc
            if fingerprint not in {"", answer.fingerprint}:
                raise TransientError("the embedding model changed meanwhile; ask again")
            fingerprint = answer.fingerprint
            vectors += [row.astype("<f4").tobytes() for row in answer.vectors]
            tokens += sum(answer.tokens)
        return Vectors(tuple(vectors), fingerprint, tokens)


def _placed(error: InvalidInput, start: int) -> InvalidInput:
    """`error`, naming the text as the caller counts it: `input.N` for the N-th, from 0."""

    def place(found: re.Match[str]) -> str:
        return f"input.{start + int(found[1])}"

    return type(error)(_PLACE.sub(place, error.detail), field=_PLACE.sub(place, error.field or "input"))
