"""The embedder's API, `cairn_shared.api.embedding`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cairn_embedder.dependencies import EmbeddingDep, RerankingDep
from cairn_shared.api.embedding import EmbedRequest, EmbedResponse, ModelInfo
from cairn_shared.api.reranking import RerankRequest, RerankResponse
from cairn_shared.web.disconnect import CLIENT_CLOSED_REQUEST, unless_disconnected

router = APIRouter(tags=["embedding"])


@router.post("/embed", response_model=EmbedResponse)
async def embed(request: Request, body: EmbedRequest, embedding: EmbeddingDep) -> Response:
    """Vectors of texts. Work that nobody waits for any more is dropped."""
    answer = await unless_disconnected(request, embedding.embed(body))
    if answer is None:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return Response(answer.model_dump_json(), media_type="application/json")


@router.post("/rerank", response_model=RerankResponse)
async def rerank(request: Request, body: RerankRequest, reranking: RerankingDep) -> Response:
    """How well each passage answers the query; 404 where no reranker is configured."""
    answer = await unless_disconnected(request, reranking.rerank(body))
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
