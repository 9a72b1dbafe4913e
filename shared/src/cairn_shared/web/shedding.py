"""Refusing questions at once while there is more to do than can be done, so that those admitted are answered in time.

Two signs are looked at. How many questions are in work bounds what waits for others (a model, a store). How long the
event loop takes to come round bounds what waits for this process: every await of every request costs one round. A
single long round is an accident; rounds that stay long are a queue that grows (the rule of CoDel, RFC 8289 §3).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter
from starlette.types import ASGIApp, Receive, Scope, Send

from cairn_shared.errors import Overloaded
from cairn_shared.web import problem


@dataclass(frozen=True)
class ShedPolicy:
    """Which paths begin with what may be refused; `most` of them at once; seconds that rounds may stay over `round`.

    With fewer than `least` in work it is not they who make the rounds long, and refusing would help nobody.
    """

    paths: tuple[str, ...]
    most: int = 128
    least: int = 16
    round: float = 0.1
    patience: float = 0.5


class LoopWatch:
    """How the event loop comes round, learned from one callback at a time; costs nothing while nobody asks."""

    def __init__(self, policy: ShedPolicy) -> None:
        self._policy = policy
        self._sent: float | None = None
        self._seen: float = 0.0
        self._slow_since: float | None = None

    def late(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the rounds stay too long; also begins to measure the present one."""
        now = loop.time()
        if self._sent is None:
            if now - self._seen > self._policy.patience:  # nobody asked since: what was slow then says nothing of now
                self._slow_since = None
            self._sent = now
            loop.call_soon(self._came_round, loop)
        return self._slow_since is not None and now - self._slow_since > self._policy.patience

    def _came_round(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._sent is not None
        self._seen = loop.time()
        if self._seen - self._sent <= self._policy.round:
            self._slow_since = None
        elif self._slow_since is None:
            self._slow_since = self._seen
        self._sent = None


class Shedding:
    """Answers 503 with Retry-After, before the body is read, where the policy says so; other paths always pass."""

    def __init__(self, app: ASGIApp, policy: ShedPolicy, registry: CollectorRegistry) -> None:
        self._app = app
        self._policy = policy
        self._watch = LoopWatch(policy)
        self._in_work = 0
        # By the sign that was seen: in_work, loop.
        self._shed = Counter("cairn_shed_total", "Requests refused for load, by sign.", ["sign"], registry=registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._policy.paths):
            await self._app(scope, receive, send)
            return
        sign = self._sign()
        if sign is not None:
            self._shed.labels(sign).inc()
            await problem.of(Overloaded())(scope, receive, send)
            return
        self._in_work += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_work -= 1

    def _sign(self) -> str | None:
        late = self._watch.late(asyncio.get_running_loop())
        if self._in_work >= self._policy.most:
            return "in_work"
        return "loop" if late and self._in_work >= self._policy.least else None
