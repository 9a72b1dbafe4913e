"""Server-sent events in transit: whole frames, so that one can be looked into (WHATWG HTML §9.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Proxies must neither keep nor gather the events."""

MAX_FRAME_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Frame:
    """One frame as it came, its blank line included."""

    raw: bytes

    @classmethod
    def of(cls, event: str, data: Any) -> Frame:
        """A frame with JSON data."""
        return cls.written(event, orjson.dumps(data))

    @classmethod
    def written(cls, event: str, data: bytes) -> Frame:
        """A frame with data that holds no line break."""
        return cls(b"event: " + event.encode() + b"\ndata: " + data + b"\n\n")

    @property
    def event(self) -> str:
        """Its name, `message` where it has none."""
        return self._field(b"event")[-1].decode() if self._field(b"event") else "message"

    @property
    def data(self) -> bytes:
        """Its data lines, joined."""
        return b"\n".join(self._field(b"data"))

    def _field(self, name: bytes) -> list[bytes]:
        lines = self.raw.replace(b"\r\n", b"\n").split(b"\n")
        return [line[len(name) + 1 :].removeprefix(b" ") for line in lines if line.startswith(name + b":")]


async def frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """Whole frames out of a stream cut anywhere; what is left at the end comes as it is.

    Raises:
        ValueError: a frame over `MAX_FRAME_BYTES`.
    """
    held = b""
    async for chunk in chunks:
        held += chunk
        while (cut := _end(held)) > 0:
            yield Frame(held[:cut])
            held = held[cut:]
        if len(held) > MAX_FRAME_BYTES:
            raise ValueError("a server-sent event without end")
    if held:
        yield Frame(held)


def _end(held: bytes) -> int:
    """Where the first frame of `held` ends, 0 if it has not ended yet."""
    ends = [at + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if (at := held.find(mark)) >= 0]
    return min(ends, default=0)
