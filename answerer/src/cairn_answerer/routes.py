"""`POST /ask`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from cairn_answerer import sse
from cairn_answerer.dependencies import Asker, KeepAlive, Seconds
from cairn_answerer.freshness import event_ids
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.web.disconnect import CLIENT_CLOSED_REQUEST, unless_disconnected

router = APIRouter(tags=["answers"])


@router.post("/ask", response_model=AskResponse, responses={422: {"description": "The request is wrong."}})
async def ask(request: AskRequest, http: Request, asker: Asker, seconds: Seconds, keep_alive: KeepAlive) -> Response:
    """A cited answer: always 200 unless the request itself is wrong. `mode` tells what could not be done.

    With `stream` server-sent events: `sources`, `claim` ..., `done` (see `cairn_answerer.sse`). A client that leaves
    is no longer worked for.
    """
    event_ids(request)  # refused before a stream begins, where the status can still say so
    if request.stream:
        body = sse.stream(asker.follow(request, seconds), keep_alive)
        first = await anext(body)  # where there is no room the status still says so
        return StreamingResponse(sse.resumed(first, body), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)
    response = await unless_disconnected(http, asker.ask(request, seconds))
    if response is None:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return Response(response.model_dump_json().encode(), media_type="application/json")
