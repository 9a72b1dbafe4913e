"""`/health`, `/health/ready`, `/metrics` and a few calls of the gateway: HTTP/1.1 over asyncio.

One answer a connection. A web framework would be most of the image, for six routes that two programs ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel, ValidationError

from cairn_shared import context
from cairn_shared.errors import CairnError
from cairn_shared.events import first_error
from cairn_shared.health import Readiness
from cairn_shared.logging import get_logger
from cairn_shared.service_token import refusal

log = get_logger(__name__)

Answer: TypeAlias = tuple[HTTPStatus, str, bytes]
"""Status, content type, body."""

REQUEST_TIMEOUT = 5.0
"""Seconds for a request to arrive, but for its body."""

CALL_TIMEOUT = 60.0
"""Seconds for a call: its body, and what is done about it."""

HEADER_LIMIT = 16 * 1024

Call = Callable[[bytes], Awaitable[BaseModel]]
"""Given the body, it returns the answer. It raises a CairnError, or pydantic's ValidationError for a wrong body."""


@dataclass(frozen=True)
class Calls:
    """What else is served, by method and path; bodies have at most `body_limit` bytes."""

    by_route: Mapping[tuple[str, str], Call] = field(default_factory=dict)
    body_limit: int = 1024 * 1024


class HealthServer:
    """One answer per connection, then it is closed: probes and scrapes need no more.

    `calls` are served once they are set, when the process has opened what they need, to whom `proven` says yes of the
    `Authorization`.
    """

    def __init__(
        self,
        service: str,
        version: str,
        readiness: Readiness,
        registry: CollectorRegistry,
        proven: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.calls = Calls()
        self._service = service
        self._version = version
        self._proven = proven
        self._readiness = readiness
        self._registry = registry

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request, answer it, close."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(CALL_TIMEOUT):
                writer.write(_response(*await self._answer(head, reader)))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader) -> Answer:
        method, path, headers = _parsed(head)
        call = self.calls.by_route.get((method, path))
        if call is not None:
            if not self._proven(headers.get("authorization", "")):
                return _problem(HTTPStatus.UNAUTHORIZED, refusal().detail)
            return await self._call(call, headers, reader)
        if method != "GET":
            return _problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served here")
        return await self._page(path)

    async def _page(self, path: str) -> Answer:
        if path == "/health":
            return _json(HTTPStatus.OK, {"status": "ok", "service": self._service, "version": self._version})
        if path == "/health/ready":
            failures = await self._readiness.failures()
            if failures:
                return _problem(
                    HTTPStatus.SERVICE_UNAVAILABLE, f"waiting for {', '.join(sorted(failures))}", failures=failures
                )
            return _json(HTTPStatus.OK, {"status": "ready", "service": self._service})
        if path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        return _problem(HTTPStatus.NOT_FOUND, "there are /health, /health/ready and /metrics")

    async def _call(self, call: Call, headers: Mapping[str, str], reader: asyncio.StreamReader) -> Answer:
        context.adopt(headers.get("x-request-id"), headers.get("traceparent"))
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            return _problem(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        if int(length) > self.calls.body_limit:
            return _problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is over {self.calls.body_limit} bytes")
        body = await reader.readexactly(int(length))
        try:
            return HTTPStatus.OK, "application/json", (await call(body)).model_dump_json().encode()
        except ValidationError as exc:
            return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, first_error(exc))
        except CairnError as exc:
            return _problem(HTTPStatus(exc.status), exc.detail)
        except Exception:
            log.exception("a call failed")
            return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the call failed; the log says why")


@asynccontextmanager
async def serve(server: HealthServer, host: str, port: int) -> AsyncIterator[int]:
    """Listen; yields the port that was bound (useful when `port` is 0)."""
    listener = await asyncio.start_server(server.serve, host, port, limit=HEADER_LIMIT)
    bound: int = listener.sockets[0].getsockname()[1]
    log.info("health and metrics", address=f"{host}:{bound}")
    try:
        yield bound
    finally:
        listener.close()


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path without its query, and headers by lower-case name (RFC 9112 §3, §5)."""
    lines = head.decode("latin-1").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    pairs = (line.partition(":") for line in lines[1:] if ":" in line)
    return method, path, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _json(status: HTTPStatus, body: object) -> Answer:
    return status, "application/json", orjson.dumps(body)


def _problem(status: HTTPStatus, detail: str, **extra: object) -> Answer:
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **extra}
    return status, "application/problem+json", orjson.dumps(body)


def _response(status: HTTPStatus, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
