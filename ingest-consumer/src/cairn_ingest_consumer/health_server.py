"""`/health`, `/health/ready` and `/metrics` for a process that serves nothing else: HTTP/1.1 over asyncio, GET only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from cairn_shared.health import Readiness
from cairn_shared.logging import get_logger

log = get_logger(__name__)

REQUEST_TIMEOUT = 5.0
HEADER_LIMIT = 16 * 1024


class HealthServer:
    """One answer per connection, then it is closed: probes and scrapes need no more."""

    def __init__(self, service: str, version: str, readiness: Readiness, registry: CollectorRegistry) -> None:
        self._service = service
        self._version = version
        self._readiness = readiness
        self._registry = registry

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request, answer it, close."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(*await self._answer(head.split(b"\r\n", 1)[0])))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, request_line: bytes) -> tuple[HTTPStatus, str, bytes]:
        method, _, rest = request_line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return _problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served here")
        if path == b"/health":
            return _json(HTTPStatus.OK, {"status": "ok", "service": self._service, "version": self._version})
        if path == b"/health/ready":
            failures = await self._readiness.failures()
            if failures:
                return _problem(
                    HTTPStatus.SERVICE_UNAVAILABLE, f"waiting for {', '.join(sorted(failures))}", failures=failures
                )
            return _json(HTTPStatus.OK, {"status": "ready", "service": self._service})
        if path == b"/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        return _problem(HTTPStatus.NOT_FOUND, "there are /health, /health/ready and /metrics")


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


def _json(status: HTTPStatus, body: object) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", orjson.dumps(body)


def _problem(status: HTTPStatus, detail: str, **extra: object) -> tuple[HTTPStatus, str, bytes]:
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **extra}
    return status, "application/problem+json", orjson.dumps(body)


def _response(status: HTTPStatus, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
