"""Calls between services: one pooled client per process, ids passed on, failures as our errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import orjson
from pydantic import BaseModel, ValidationError

from cairn_shared import context
from cairn_shared.errors import CairnError, InvalidInput, NotFound, TooLarge, TransientError, Unavailable

ModelT = TypeVar("ModelT", bound=BaseModel)


KEPT_ALIVE = 8
"""Idle connections kept per service: httpcore looks at each of them, with a system call, for every request."""


@asynccontextmanager
async def open_client(
    base_url: str, timeout: float, *, connections: int = 64, headers: Mapping[str, str] = {}
) -> AsyncIterator[httpx.AsyncClient]:
    """A pooled client for one service; connecting may take at most 2 s of `timeout` seconds."""
    async with httpx.AsyncClient(
        base_url=base_url,
        timeout=httpx.Timeout(timeout, connect=min(2.0, timeout)),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=min(connections, KEPT_ALIVE)),
        headers=headers,
        trust_env=False,
    ) as client:
        yield client


async def call(
    client: httpx.AsyncClient,
    service: str,
    method: str,
    path: str,
    answer: type[ModelT],
    *,
    body: BaseModel | None = None,
    params: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> ModelT:
    """Call `service` and parse its answer.

    Raises:
        Unavailable: it cannot be reached, timed out, or answered 5xx or 429 (with its Retry-After).
        InvalidInput, TooLarge, NotFound: it refused the request.
        TransientError: its answer is not what was agreed.
    """
    try:
        response = await client.request(
            method,
            path,
            content=body.model_dump_json().encode() if body is not None else None,
            params=params,
            headers={"content-type": "application/json", **context.outgoing_headers()},
            timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
        )
    except httpx.TimeoutException as exc:
        raise Unavailable(service, f"{service} timed out") from exc
    except httpx.HTTPError as exc:
        raise Unavailable(service) from exc
    raise_for_status(service, response)
    try:
        return answer.model_validate_json(response.content)
    except ValidationError as exc:
        raise TransientError(f"{service} gave an answer that does not fit {answer.__name__}") from exc


def raise_for_status(service: str, response: httpx.Response) -> None:
    """Turn an error status into our error; the problem's own detail is kept for 4xx."""
    if response.status_code >= 400:
        raise error_of(service, response.status_code, response.content, retry_after(response))


def error_of(service: str, status: int, body: bytes, wait: float | None) -> CairnError:
    """What an error status of `service` means to us; `wait` is its Retry-After."""
    detail, field = f"{service} answered {status}", None
    if status >= 500 or status == 429:
        return Unavailable(service, detail, retry_after=wait)
    try:
        problem = orjson.loads(body)
    except orjson.JSONDecodeError:
        problem = None
    if isinstance(problem, dict):
        detail = str(problem.get("detail") or detail)
        field = problem.get("field")
    if status == 404:
        return NotFound(detail)
    if status == 413:
        return TooLarge(detail, field=field)
    return InvalidInput(detail, field=field)


def retry_after(response: httpx.Response) -> float | None:
    """The Retry-After header in seconds (RFC 9110 §10.2.3): a number, or a date after that of the response itself."""
    value = response.headers.get("retry-after")
    seconds = whole_seconds(value)
    if seconds is not None or not value:
        return seconds
    then, now = _date(value), _date(response.headers.get("date", ""))
    return max(0.0, (then - now).total_seconds()) if then and now else None


def whole_seconds(value: str | None) -> float | None:
    """A Retry-After in seconds; None where there is none, or a date."""
    return float(value) if value and value.isascii() and value.isdigit() else None


def _date(value: str) -> datetime | None:
    """An HTTP date (RFC 9110 §5.6.7); one without a zone is in UTC."""
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
