"""The request that a piece of work belongs to, carried across awaits for logs and outgoing calls."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)

DEADLINE_HEADER = "x-deadline-ms"
"""Milliseconds that the caller still waits for the answer."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def adopt(incoming_request_id: str | None, incoming_traceparent: str | None) -> tuple[str, str]:
    """Take over well-formed ids of a caller, or make new ones; sets both context variables.

    The traceparent follows W3C Trace Context, https://www.w3.org/TR/trace-context/.
    """
    rid = incoming_request_id or ""
    if not _REQUEST_ID.fullmatch(rid):
        rid = secrets.token_hex(8)
    trace = incoming_traceparent or ""
    if not _TRACEPARENT.fullmatch(trace):
        trace = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
    request_id.set(rid)
    traceparent.set(trace)
    return rid, trace


def outgoing_headers(seconds: float | None = None) -> dict[str, str]:
    """Headers that pass the present request on to another service, which has `seconds` for it."""
    headers: dict[str, str] = {}
    if seconds is not None:
        headers[DEADLINE_HEADER] = str(int(seconds * 1000))
    if rid := request_id.get():
        headers["x-request-id"] = rid
    if trace := traceparent.get():
        headers["traceparent"] = trace
    return headers
