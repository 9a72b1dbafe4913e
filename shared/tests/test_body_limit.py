"""Bodies that are too large or stop coming; run without a server, as ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Message, Receive, Scope, Send

from cairn_shared.web.bodies import BodyLimit, BodyPatience

SCOPE = {"type": "http", "path": "/a", "headers": []}
PIECE: Message = {"type": "http.request", "body": b"x", "more_body": True}
LAST: Message = {"type": "http.request", "body": b"x", "more_body": False}


async def read_all(_: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await receive()  # the disconnect, for which a route may wait as long as it likes
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body"})


async def status_of(messages: Sequence[Message], *, every: float, patience: BodyPatience) -> int:
    """The status when `messages` come one each `every` seconds, and then the disconnect."""
    waiting = iter(messages)
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(every)
        return next(waiting, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        sent.append(message)

    await BodyLimit(read_all, 100, patience=patience)(SCOPE, receive, send)
    return int(sent[0]["status"])


async def test_a_body_that_stops_coming_is_answered_408() -> None:
    assert await status_of([PIECE], every=0.2, patience=BodyPatience(piece=0.05, whole=10)) == 408


async def test_a_body_that_drips_is_answered_408_when_its_time_is_over() -> None:
    assert await status_of([PIECE] * 90, every=0.01, patience=BodyPatience(piece=5, whole=0.1)) == 408


async def test_a_body_in_time_passes_and_the_wait_after_it_has_no_end() -> None:
    messages = [PIECE, LAST]
    assert await status_of(messages, every=0.1, patience=BodyPatience(piece=5, whole=0.25)) == 200


async def test_a_body_over_the_limit_is_answered_413() -> None:
    assert await status_of([PIECE] * 101, every=0, patience=BodyPatience()) == 413
