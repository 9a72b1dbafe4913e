"""An answer as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

sources   {"sources": [Source, ...]}     at once, useful by themselves
claim     Claim                          each as soon as it is certain; none is ever withdrawn
done      AskResponse                    the whole answer, its parts in order
error     {"detail", "field"}            instead of `done`: the request turned out to be wrong
: keep-alive                             a comment while nothing happens, so that proxies keep the connection
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson
from pydantic import BaseModel

from cairn_answerer.model import ClaimReleased, Progress, SourcesFound
from cairn_shared.errors import CairnError, InvalidInput, Overloaded

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE = b": keep-alive\n\n"


async def stream(progress: AsyncGenerator[Progress, None], keep_alive: float) -> AsyncGenerator[bytes, None]:
    """`progress` as events; a comment after every `keep_alive` seconds of silence. Closing it ends `progress`.

    Raises:
        Overloaded: there is no room for the question; then nothing was told yet.
    """
    arrived: asyncio.Queue[Progress | CairnError | None] = asyncio.Queue()
    # One task follows from beginning to end: the deadline inside belongs to the task that set it.
    following = asyncio.create_task(_follow(progress, arrived))
    try:
        while True:
            try:
                async with asyncio.timeout(keep_alive):
                    item = await arrived.get()
            except TimeoutError:
                yield KEEP_ALIVE
                continue
            if item is None:
                return
            if isinstance(item, Overloaded):
                raise item
            yield _refusal(item) if isinstance(item, CairnError) else encode(item)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def resumed(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """A stream of which somebody took the first piece already."""
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


async def _follow(
    progress: AsyncGenerator[Progress, None], arrived: asyncio.Queue[Progress | CairnError | None]
) -> None:
    try:
        async with aclosing(progress):
            async for item in progress:
                arrived.put_nowait(item)
    except CairnError as exc:
        arrived.put_nowait(exc)
    finally:
        arrived.put_nowait(None)


def encode(item: Progress) -> bytes:
    """One event. JSON holds no raw line breaks, so one data line is enough."""
    if isinstance(item, SourcesFound):
        return _event("sources", orjson.dumps({"sources": [source.model_dump(mode="json") for source in item.sources]}))
    if isinstance(item, ClaimReleased):
        return _event("claim", _json(item.claim))
    return _event("done", _json(item.produced.response))


def _refusal(error: CairnError) -> bytes:
    field = error.field if isinstance(error, InvalidInput) else None
    return _event("error", orjson.dumps({"detail": error.detail, "field": field}))


def _json(model: BaseModel) -> bytes:
    return model.model_dump_json().encode()


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
