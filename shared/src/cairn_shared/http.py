"""Calls between services: one pooled client per process, ids passed on, failures as our errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from cairn_shared import context
from cairn_shared.errors import InvalidInput, NotFound, TooLarge, TransientError, Unavailable

ModelT = TypeVar("ModelT", bound=BaseModel)


KEPT_ALIVE = 8
"""Idle connections kept per service: httpcore looks at each of them, with a system call, for every request."""


@asynccontextmanager
async def open_client(base_url: str, timeout: float, *, connections: int = 64) -> AsyncIterator[httpx.AsyncClient]:
    """A pooled client for one service; connecting may take at most 2 s of `timeout` seconds."""
    async with httpx.AsyncClient(
        base_url=base_url,
        timeout=httpx.Timeout(timeout, connect=min(2.0, timeout)),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=min(connections, KEPT_ALIVE)),
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
    if response.status_code < 400:
        return
    if response.status_code >= 500 or response.status_code == 429:
        raise Unavailable(service, f"{service} answered {response.status_code}", retry_after=retry_after(response))
    detail, field = f"{service} answered {response.status_code}", None
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        detail = str(problem.get("detail") or detail)
        field = problem.get("field")
    if response.status_code == 404:
        raise NotFound(detail)
    if response.status_code == 413:
        raise TooLarge(detail, field=field)
    raise InvalidInput(detail, field=field)


def retry_after(response: httpx.Response) -> float | None:
    """The Retry-After header in seconds, when it is a number (RFC 9110 §10.2.3)."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None
