"""The embedder's API, `cairn_shared.api.embedding`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cairn_embedder.dependencies import EmbeddingDep
from cairn_shared.api.embedding import EmbedRequest, EmbedResponse, ModelInfo

router = APIRouter(tags=["embedding"])
CLIENT_CLOSED_REQUEST = 499
"""Nobody reads it; it shows in logs and metrics."""


@router.post("/embed", response_model=EmbedResponse)
async def embed(request: Request, body: EmbedRequest, embedding: EmbeddingDep) -> Response:
    """Vectors of texts. Work that nobody waits for any more is dropped."""
    answer = await _unless_disconnected(request, embedding.embed(body))
    if answer is None:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get("/model")
async def model(embedding: EmbeddingDep) -> ModelInfo:
    """The model that is loaded."""
    return embedding.info


@router.get("/model/tokenizer", response_class=Response)
async def tokenizer(request: Request, embedding: EmbeddingDep) -> Response:
    """The model's `tokenizer.json`, truncation and padding off. The ETag is the model's fingerprint."""
    etag = f'"{embedding.info.fingerprint}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"etag": etag})
    return Response(embedding.tokenizer_json, media_type="application/json", headers={"etag": etag})


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, EmbedResponse]) -> EmbedResponse | None:
    """The result of `work`, or None, and `work` cancelled, when the client goes away first."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        task.cancel()
        watch.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
