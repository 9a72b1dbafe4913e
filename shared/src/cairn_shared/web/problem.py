"""RFC 9457 problem details: the one place where errors become HTTP answers."""

from __future__ import annotations

import math
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cairn_shared import context
from cairn_shared.errors import CairnError, InvalidInput, Overloaded, TooManyRequests, TransientError, Unavailable
from cairn_shared.logging import get_logger
from cairn_shared.web.disconnect import CLIENT_CLOSED_REQUEST

log = get_logger(__name__)
MEDIA_TYPE = "application/problem+json"


def problem(status: int, title: str, detail: str, *, headers: dict[str, str] | None = None, **extra: Any) -> Response:
    """A problem response. `extra` members are added where they are not None."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    body.update({name: value for name, value in extra.items() if value is not None})
    if rid := context.request_id.get():
        body["request_id"] = rid
    return Response(orjson.dumps(body, default=str), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Register the handlers of our errors, of validation and of everything unforeseen."""
    app.add_exception_handler(CairnError, _ours)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _unforeseen)


async def _ours(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, CairnError)
    if exc.status >= 500 and not isinstance(exc, Overloaded):  # a flood must not become one of logs
        log.warning("request failed", status=exc.status, error=type(exc).__name__, detail=exc.detail)
    return of(exc)


def of(exc: CairnError) -> Response:
    """The problem that tells of `exc`."""
    headers: dict[str, str] = {}
    if exc.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    wait = exc.retry_after if isinstance(exc, (TooManyRequests, TransientError)) else None
    if isinstance(exc, (TooManyRequests, TransientError)):
        headers["Retry-After"] = str(math.ceil(wait if wait is not None else 2))
    return problem(
        exc.status,
        exc.title,
        exc.detail,
        headers=headers,
        field=exc.field if isinstance(exc, InvalidInput) else None,
        dependency=exc.dependency if isinstance(exc, Unavailable) else None,
    )


async def _validation(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    errors = [{"field": _field(error), "message": error["msg"]} for error in exc.errors()]
    first = errors[0]
    status = 400 if any(error["type"] == "json_invalid" for error in exc.errors()) else 422
    return problem(
        status, "Invalid input", f"{first['field']}: {first['message']}", field=first["field"], errors=errors[:20]
    )


def _field(error: dict[str, Any]) -> str:
    if error["type"] == "json_invalid":  # its place is an offset, not a field
        return "body"
    name = ".".join(str(part) for part in error["loc"] if part != "body") or "body"
    return name.encode(errors="backslashreplace").decode()  # a client's own member may be named by half a character


async def _http(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    titles = {404: "Not found", 405: "Method not allowed"}
    return problem(
        exc.status_code,
        titles.get(exc.status_code, "Request refused"),
        str(exc.detail),
        headers=dict(exc.headers or {}),
    )


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)  # the client left in the middle of its body


async def _unforeseen(_: Request, exc: Exception) -> Response:
    log.error("unforeseen error", exc_info=exc)
    return problem(500, "Internal error", "Something went wrong on our side; the log has it under this request id.")
