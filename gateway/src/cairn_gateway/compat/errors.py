"""Problem details (RFC 9457) as OpenAI's error object: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field

from cairn_shared.errors import InvalidInput

INTERNAL = "Something went wrong on our side; the log has it under this request id."


class UnknownModel(InvalidInput):
    """There is no such model here."""

    status = 404
    title = "Unknown model"


class ErrorObject(BaseModel):
    """What went wrong."""

    message: str
    type: Annotated[str, Field(description="`invalid_request_error`, `rate_limit_error` or `server_error`.")]
    param: Annotated[str | None, Field(description="The parameter that is wrong.")] = None
    code: str | None = None


class ErrorBody(BaseModel):
    """Every error under `/v1/` but those of `/v1/logs`."""

    error: ErrorObject


def error_of(problem: Mapping[str, Any]) -> tuple[int, ErrorBody]:
    """(status, body) for a problem. What OpenAI answers with 400 is 400 here."""
    status = int(problem.get("status") or 500)
    field = problem.get("field")
    error = ErrorObject(
        message=str(problem.get("detail") or problem.get("title") or INTERNAL),
        type="rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error",
        param=str(field) if field and field != "body" else None,
        code=_code(status, field),
    )
    return 400 if status == 422 else status, ErrorBody(error=error)


def _code(status: int, field: object) -> str | None:
    if status == 404:
        return "model_not_found" if field == "model" else "unknown_url"
    codes = {
        401: "invalid_api_key",
        403: "insufficient_permissions",
        413: "request_too_large",
        429: "rate_limit_exceeded",
        503: "service_unavailable",
    }
    return codes.get(status)
