"""A misbehaving embedder: passes requests on to the real one, and spoils those that it was told to spoil."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, get_args

import httpx
import numpy as np
import orjson

from cairn_shared.api.embedding import pack_vector

Manner = Literal[
    "500",
    "429 with Retry-After",
    "slow",
    "slower than the time-out",
    "wrong dimension",
    "NaN",
    "too few vectors",
    "connection reset",
    "answer cut short",
    "not JSON",
    "another fingerprint",
]
MANNERS: tuple[str, ...] = get_args(Manner)
Answer = tuple[int, dict[str, str], bytes]
HOP = ("content-length", "transfer-encoding", "connection", "content-encoding")


class Reset(Exception):
    """Close the connection with a TCP reset; after `sent` bytes of an answer, if any."""

    def __init__(self, sent: bytes = b"") -> None:
        super().__init__()
        self.sent = sent


class EmbedderProxy:
    """`spoil` queues misdeeds; each spoils one request to `/embed`. `done` counts what was really done."""

    def __init__(self, upstream: str, *, timeout: float) -> None:
        self._client = httpx.AsyncClient(base_url=upstream, timeout=30, trust_env=False)
        self._timeout = timeout
        self._queue: deque[str] = deque()
        self.done: Counter[str] = Counter()

    def spoil(self, manner: str) -> None:
        self._queue.append(manner)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def forgive(self) -> int:
        """Drop what was not done yet; how much."""
        left = len(self._queue)
        self._queue.clear()
        return left

    async def _respond(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        manner = self._queue.popleft() if path == "/embed" and self._queue else None
        if manner is not None:
            self.done[manner] += 1
        if manner == "500":
            return 500, {"content-type": "application/problem+json"}, b'{"detail": "chaos"}'
        if manner == "429 with Retry-After":
            return 429, {"retry-after": "1", "content-type": "application/problem+json"}, b'{"detail": "chaos"}'
        if manner == "not JSON":
            return 200, {"content-type": "application/json"}, b"<html>gateway</html>"
        if manner == "connection reset":
            raise Reset
        if manner == "slow":
            await asyncio.sleep(1.5)
        if manner == "slower than the time-out":
            await asyncio.sleep(self._timeout + 1)
        try:
            kept = {"content-type": headers.get("content-type", "application/json")}
            answer = await self._client.request(method, path, content=body, headers=kept)
        except httpx.HTTPError as exc:
            raise Reset from exc
        content = answer.content
        if manner == "answer cut short":
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            raise Reset(head + content[: len(content) // 2])
        if manner is not None and answer.status_code == 200:
            content = _spoiled(manner, content)
        fields = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
        return answer.status_code, fields, content

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.split("\r\n")
                headers = {n.strip().lower(): v.strip() for n, _, v in (h.partition(":") for h in rest if h)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = line.split(" ")
                status, fields, content = await self._respond(method, path, headers, body)
                text = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
                writer.write(f"HTTP/1.1 {status} X\r\n{text}Content-Length: {len(content)}\r\n\r\n".encode() + content)
                await writer.drain()
        except Reset as reset:
            writer.write(reset.sent)
            sock = writer.get_extra_info("socket")
            if not reset.sent:
                sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER 0: a reset instead of an end
            writer.close()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """The proxy's URL."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            await self._client.aclose()


def _spoiled(manner: str, content: bytes) -> bytes:
    body: dict[str, Any] = orjson.loads(content)
    size = body["dimension"]
    if manner == "wrong dimension":
        body["dimension"] = size // 2
        body["vectors"] = [_unit(size // 2) for _ in body["vectors"]]
    elif manner == "NaN":
        body["vectors"][-1] = pack_vector(np.full(size, np.nan, dtype="<f4").tobytes())
    elif manner == "too few vectors":
        body["vectors"] = body["vectors"][:-1]
    elif manner == "another fingerprint":
        body["fingerprint"] = "of-another-model"
    return orjson.dumps(body)


def _unit(size: int) -> str:
    return pack_vector(np.full(size, size**-0.5, dtype="<f4").tobytes())
