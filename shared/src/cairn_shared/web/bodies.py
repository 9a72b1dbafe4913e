"""Bodies of requests: how large, how slow, and how many bytes of them at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cairn_shared.errors import Overloaded
from cairn_shared.web import problem


@dataclass(frozen=True)
class BodyPatience:
    """Seconds to wait for the next piece of a body, and for all of it."""

    piece: float = 20.0
    whole: float = 120.0


class BodyBudget:
    """Bytes of all bodies together, from their arrival to the answer. Whoever sends may not be known until a body is
    whole (a signature is over all of it), so many senders together must not fill the memory either.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def take(self, count: int) -> None:
        """Hold `count` bytes more.

        Raises:
            Overloaded: there is no room; nothing is held then.
        """
        if self._held + count > self._most:
            raise Overloaded("too many bodies arrive at once: send it again in a moment")
        self._held += count

    def release(self, count: int) -> None:
        """The bytes are held no more."""
        self._held -= count


class BodyLimit:
    """Refuse bodies over `limit` bytes with 413, by Content-Length or while they arrive; with 408 those that stall;
    with 503 those for which `budget` has no room.

    `limits` gives single path prefixes another limit.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: int,
        limits: dict[str, int] | None = None,
        patience: BodyPatience = BodyPatience(),
        budget: BodyBudget | None = None,
    ) -> None:
        self._app = app
        self._limit = limit
        self._limits = limits or {}
        self._patience = patience
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = next((size for path, size in self._limits.items() if scope["path"].startswith(path)), self._limit)
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > limit:
            await _too_large(limit)(scope, receive, send)
            return
        body = _Body(receive, send, limit, self._patience, self._budget)
        try:
            await self._app(scope, body.receive, body.send)
        except _Refused:
            pass
        finally:
            body.release()
        if body.refusal is not None and not body.started:
            await body.refusal(scope, receive, send)


class _Refused(Exception):
    """The body is not read on; `_Body.refusal` is the answer, whatever the app makes of this."""


class _Body:
    """One body on its way."""

    def __init__(
        self, receive: Receive, send: Send, limit: int, patience: BodyPatience, budget: BodyBudget | None
    ) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._piece = patience.piece
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + patience.whole
        self._seen = self._held = 0
        self._complete = False
        self.started = False
        self.refusal: Response | None = None

    async def receive(self) -> Message:
        if self._complete:  # what follows is the disconnect, for which anybody may wait as long as they like
            return await self._receive()
        try:
            async with asyncio.timeout_at(min(self._end, self._loop.time() + self._piece)):
                message = await self._receive()
        except TimeoutError as exc:
            raise self._refuse(_stalled()) from exc
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            if self._seen > self._limit:
                raise self._refuse(_too_large(self._limit))
            if self._budget is not None:
                try:
                    self._budget.take(self._seen - self._held)
                except Overloaded as exc:
                    raise self._refuse(problem.of(exc)) from exc
                self._held = self._seen
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is not None and not self.started:
            return  # frameworks make an answer of their own of a body that cannot be read
        self.started = self.started or message["type"] == "http.response.start"
        await self._send(message)

    def release(self) -> None:
        """The request is over."""
        if self._budget is not None:
            self._budget.release(self._held)

    def _refuse(self, answer: Response) -> _Refused:
        answer.headers["Connection"] = "close"
        self.refusal = answer
        return _Refused()


def _too_large(limit: int) -> Response:
    return problem.problem(413, "Too large", f"the body is over {limit} bytes", field="body")


def _stalled() -> Response:
    return problem.problem(408, "Request timeout", "the body stopped coming: send it again")
