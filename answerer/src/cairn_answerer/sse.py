"""An answer as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

sources   {"sources": [Source, ...]}     at once, useful by themselves
claim     Claim                          each after it passed its checks
restart   {}                             the claims so far are withdrawn, better ones follow
done      AskResponse                    the whole answer; what it holds is what counts
: keep-alive                             a comment while nothing happens, so that proxies keep the connection
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
from pydantic import BaseModel

from cairn_answerer.model import ClaimReleased, Done, Progress, SourcesFound

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE = b": keep-alive\n\n"


async def stream(progress: AsyncIterator[Progress], keep_alive: float) -> AsyncIterator[bytes]:
    """`progress` as events; a comment after every `keep_alive` seconds of silence. Closing it closes `progress`."""
    source = aiter(progress)
    step: asyncio.Task[Progress] | None = None
    try:
        while True:
            step = step or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({step}, timeout=keep_alive)
            if not done:
                yield KEEP_ALIVE
                continue
            try:
                item = step.result()
            except StopAsyncIteration:
                return
            step = None
            yield encode(item)
    finally:
        if step is not None:
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
        await source.aclose()  # type: ignore[attr-defined]


def encode(item: Progress) -> bytes:
    """One event. JSON holds no raw line breaks, so one data line is enough."""
    if isinstance(item, SourcesFound):
        return _event("sources", orjson.dumps({"sources": [source.model_dump(mode="json") for source in item.sources]}))
    if isinstance(item, ClaimReleased):
        return _event("claim", _json(item.claim))
    if isinstance(item, Done):
        return _event("done", _json(item.produced.response))
    return _event("restart", b"{}")


def _json(model: BaseModel) -> bytes:
    return model.model_dump_json().encode()


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
