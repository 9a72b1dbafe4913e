"""Server-sent events from any stream of bytes, by httpx-sse (WHATWG HTML §9.2, "Event stream interpretation")."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import aclosing

import httpx
from httpx_sse import EventSource, ServerSentEvent

_AS_RESPONSE = {"content-type": "text/event-stream; charset=utf-8-sig"}
"""The standard has one byte order mark at the very beginning removed, which httpx-sse leaves in: the codec does it."""


class TooLong(ValueError):
    """More bytes came than were allowed."""


async def events(chunks: AsyncIterable[bytes], *, limit: int) -> AsyncIterator[ServerSentEvent]:
    """The events that hold data, from chunks that are cut anywhere; comments are passed over.

    Unlike in a browser an event also counts when the stream ends right behind it, without its blank line.

    Raises:
        TooLong: over `limit` bytes came, framing included.
    """
    response = httpx.Response(200, headers=_AS_RESPONSE, stream=_Bounded(chunks, limit))
    async with aclosing(EventSource(response).aiter_sse()) as source:
        async for event in source:
            if event.data:
                yield event


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, chunks: AsyncIterable[bytes], limit: int) -> None:
        self._chunks = chunks
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            self._left -= len(chunk)
            if self._left < 0:
                raise TooLong("the stream of events is longer than is read")
            yield chunk
        yield b"\n\n"
