"""What the API's description says of errors."""

from __future__ import annotations

from typing import Any, TypeAlias

from cairn_gateway.schemas.base import Problem

_WHAT = {
    400: "The body is not JSON.",
    401: "No API key, or a wrong one.",
    403: "The key's role is not enough.",
    404: "There is no such thing.",
    406: "It is not kept in the form that is asked for.",
    409: "Others write it at the same time.",
    412: "If-Match or If-None-Match does not hold.",
    413: "The body is too large.",
    415: "The body's type is not taken here.",
    422: "A field is wrong; it is named.",
    429: "Too many requests with this key; Retry-After says when.",
    503: "A dependency is away; it is named. Retry-After says when to try again.",
}
Responses: TypeAlias = dict[int | str, dict[str, Any]]
_ALWAYS = (401, 403, 429, 503)


def problems(*statuses: int) -> Responses:
    """The `responses` of a route that can answer these errors, besides those that every route can."""
    media = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"model": Problem, "description": _WHAT[status], "content": media}
        for status in sorted({*_ALWAYS, *statuses})
    }
