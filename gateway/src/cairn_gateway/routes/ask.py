"""`POST /ask`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from cairn_gateway.dependencies import Gateway, RequireReader
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import Responses, problems
from cairn_gateway.sse import HEADERS, MEDIA_TYPE
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.web.arrival import seconds_left
from cairn_shared.web.disconnect import CLIENT_CLOSED_REQUEST, unless_disconnected

router = APIRouter(tags=["questions"], route_class=GuardedRoute)

_RESPONSES: Responses = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "The answer."},
    **problems(400, 413, 422),
}


@router.post(
    "/ask",
    response_model=AskResponse,
    responses=_RESPONSES,
)
async def ask(body: AskRequest, request: Request, state: Gateway, _: RequireReader) -> Response:
    """Answer a question from the runbooks, citing steps.

    Always 200: `mode` and `degraded_reason` say what could not be done. With `stream` the answer comes as
    server-sent events: `sources`, `claim` ..., `done`. A client that leaves cancels the question.
    """
    seconds = seconds_left(request, state.asking.deadline)
    if not body.stream:
        answer = await unless_disconnected(request, state.asking.ask_json(body, seconds))
        return Response(answer, CLIENT_CLOSED_REQUEST if answer is None else 200, media_type="application/json")
    events = state.asking.stream(body, seconds)
    first = await anext(events, b"")  # a refused question is a problem, not a stream
    return StreamingResponse(_rest(first, events), media_type=MEDIA_TYPE, headers=HEADERS)


async def _rest(first: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for event in events:
        yield event
