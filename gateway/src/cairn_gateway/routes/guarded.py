"""Routes whose JSON body FastAPI reads: who asks is known before the body is read, and its text can be kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from cairn_gateway.dependencies import authenticate, principal_of
from cairn_gateway.drafts import reject_unstorable
from cairn_shared.errors import InvalidInput

# NUL, or a half of a surrogate pair, which may have its other half: such a body is looked through.
_SUSPECT = re.compile(rb"\x00|\\u(?:0000|[dD][89a-fA-F])")


class GuardedRoute(APIRoute):
    """Answers 401 before it reads a body, 415 to an encoded one, 422 to text that no store holds."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        private = _asks_who(self.dependant)

        async def guarded(request: Request) -> Response:
            if private:
                await authenticate(request)
            refuse_encoded(request)
            check_text(await request.body())
            return await handle(request)

        return guarded


def refuse_encoded(request: Request) -> None:
    """Raises HTTPException (415, RFC 9110 §15.5.16): the body is compressed."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise HTTPException(415, "send the body without Content-Encoding", headers={"Accept-Encoding": "identity"})


def check_text(body: bytes) -> None:
    """Raises InvalidInput: the JSON `body` is not UTF-8, or holds NUL or half a surrogate pair. Other JSON passes."""
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"invalid UTF-8 at byte offset {exc.start}", field="body") from exc
    if not _SUSPECT.search(body):
        return
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return  # FastAPI says where it is no JSON
    reject_unstorable(value, "")


def _asks_who(dependant: Dependant) -> bool:
    return dependant.call is principal_of or any(_asks_who(inner) for inner in dependant.dependencies)
