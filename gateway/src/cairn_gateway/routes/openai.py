"""`/v1/chat/completions`, `/v1/models`, `/v1/embeddings`: for clients of OpenAI's API."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from cairn_gateway.compat.chat import (
    ChatCompletion,
    ChatRequest,
    prompt_tokens_of,
    to_completion,
    to_question,
)
from cairn_gateway.compat.chunks import ChunkWriter, Refusal
from cairn_gateway.compat.embeddings import (
    EmbeddingsAnswer,
    EmbeddingsRequest,
    ModelList,
    ModelObject,
    check_model,
    models_of,
    texts_of,
    to_embeddings,
)
from cairn_gateway.compat.errors import ErrorBody, UnknownModel
from cairn_gateway.dependencies import Gateway, RequireReader, State
from cairn_gateway.ports import Embedder
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.plain import as_json
from cairn_gateway.routes.problems import Responses
from cairn_gateway.sse import HEADERS, MEDIA_TYPE, Frame
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.errors import InvalidInput, TransientError, Unavailable
from cairn_shared.logging import get_logger
from cairn_shared.web.arrival import seconds_left
from cairn_shared.web.disconnect import CLIENT_CLOSED_REQUEST, unless_disconnected

log = get_logger(__name__)
router = APIRouter(prefix="/v1", tags=["openai"], route_class=GuardedRoute)

MODEL_PATIENCE = 2.0
"""Seconds that the list of models waits for the embedder."""

_ERRORS: Responses = {
    400: {"model": ErrorBody, "description": "A parameter is wrong or not supported; `param` names it."},
    401: {"model": ErrorBody, "description": "No API key, or a wrong one."},
    404: {"model": ErrorBody, "description": "There is no such model."},
    413: {"model": ErrorBody, "description": "The body is too large."},
    429: {"model": ErrorBody, "description": "Too many requests with this key; Retry-After says when."},
    503: {"model": ErrorBody, "description": "A dependency is away. Retry-After says when to try again."},
}
_STREAMED: Responses = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "The answer."},
    **_ERRORS,
}


@router.post("/chat/completions", response_model=ChatCompletion, responses=_STREAMED)
async def complete_chat(body: ChatRequest, request: Request, state: Gateway, _: RequireReader) -> Response:
    """Answer the last user message as `POST /ask` does; the member `cairn` has claims, sources and the mode.

    With `stream` the parts of the answer come as chunks, each as soon as it is certain.
    """
    question = to_question(body)
    completion_id = f"chatcmpl-{secrets.token_hex(12)}"
    created = int(state.clock.now().timestamp())
    prompt_tokens = prompt_tokens_of(body.messages)
    seconds = seconds_left(request, state.asking.deadline)
    if question.stream:
        writer = ChunkWriter(
            completion_id=completion_id,
            created=created,
            question=question.question,
            prompt_tokens=prompt_tokens,
            include_usage=bool(body.stream_options and body.stream_options.include_usage),
        )
        events = state.asking.stream(question, seconds)
        first = Frame(await anext(events, b""))
        if first.event == "error":  # a refused question is an error, not a stream
            refusal = Refusal.model_validate_json(first.data)
            raise InvalidInput(refusal.detail, field=refusal.field)
        return StreamingResponse(_written(writer, first, events), media_type=MEDIA_TYPE, headers=HEADERS)
    answer = await unless_disconnected(request, state.asking.ask(question, seconds))
    if answer is None:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return as_json(
        to_completion(
            answer,
            completion_id=completion_id,
            created=created,
            question=question.question,
            prompt_tokens=prompt_tokens,
        )
    )


async def _written(writer: ChunkWriter, first: Frame, events: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(events):
        yield writer.begin()
        try:
            yield writer.feed(first)
            async for event in events:
                yield writer.feed(Frame(event))
        except ValueError:
            log.exception("the answerer's stream is not what was agreed")
            yield writer.fail()
        yield writer.end()


@router.get("/models", response_model=ModelList, response_model_exclude_none=True, responses=_ERRORS)
async def list_models(state: Gateway, _: RequireReader) -> ModelList:
    """`cairn`, and the embedding model while the embedder can be asked."""
    return models_of(await _embedding_model(state))


@router.get("/models/{model:path}", response_model=ModelObject, response_model_exclude_none=True, responses=_ERRORS)
async def get_model(model: str, state: Gateway, _: RequireReader) -> ModelObject:
    """One model."""
    for known in models_of(await _embedding_model(state)).data:
        if known.id == model:
            return known
    raise UnknownModel(f"there is no model {model[:100]!r} here", field="model")


@router.post("/embeddings", response_model=EmbeddingsAnswer, responses=_ERRORS)
async def embed(body: EmbeddingsRequest, request: Request, state: Gateway, _: RequireReader) -> Response:
    """Vectors by the model that the search uses."""
    texts = texts_of(body)
    answer = await unless_disconnected(request, _embedded(body, texts, _embedder(state)))
    return Response(status_code=CLIENT_CLOSED_REQUEST) if answer is None else as_json(answer)


async def _embedded(body: EmbeddingsRequest, texts: list[str], embedder: Embedder) -> EmbeddingsAnswer:
    model = await embedder.model()
    check_model(body, model)
    found = await embedder.embed(texts)
    if found.fingerprint != model.fingerprint:
        raise TransientError("the embedding model changed meanwhile; ask again")
    return to_embeddings(body, model, found.vectors, found.tokens)


def _embedder(state: State) -> Embedder:
    if state.embedder is None:
        raise Unavailable("embedder", "this gateway has no embedder: EMBEDDER_URL is not set")
    return state.embedder


async def _embedding_model(state: State) -> ModelInfo | None:
    if state.embedder is None:
        return None
    try:
        async with asyncio.timeout(MODEL_PATIENCE):
            return await state.embedder.model()
    except (TransientError, TimeoutError):
        return None
