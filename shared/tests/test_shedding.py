"""When requests are refused because the process cannot keep up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httpx
from prometheus_client import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cairn_shared.web.shedding import LoopWatch, Shedding, ShedPolicy

POLICY = ShedPolicy(paths=("/ask",), round=0.25, patience=1.0)


class Loop:
    """A loop whose rounds take as long as the test says."""

    def __init__(self) -> None:
        self.now = 100.0
        self._soon: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._soon.append(lambda: callback(*args))

    def come_round(self, seconds: float) -> None:
        self.now += seconds
        due, self._soon = self._soon, []
        for callback in due:
            callback()


def asked(rounds: list[float]) -> list[bool]:
    """Whether a request that comes at the beginning of each round is refused."""
    loop, watch, refused = Loop(), LoopWatch(POLICY), []
    for seconds in rounds:
        refused.append(watch.late(cast(asyncio.AbstractEventLoop, loop)))
        loop.come_round(seconds)
    return refused


def test_short_rounds_are_never_late_and_one_long_round_is_an_accident() -> None:
    assert not any(asked([0.1] * 50))
    assert not any(asked([0.1, 5.0, 0.1, 0.1]))


def test_rounds_that_stay_long_are_refused_until_they_are_short_again() -> None:
    assert asked([0.4] * 6 + [0.1, 0.1]) == [False] * 4 + [True] * 3 + [False]


def test_what_was_slow_long_ago_refuses_nobody_now() -> None:
    loop, watch = Loop(), LoopWatch(POLICY)
    aio = cast(asyncio.AbstractEventLoop, loop)
    for seconds in (0.4, 0.4, 0.4, 0.4):
        watch.late(aio)
        loop.come_round(seconds)
    assert watch.late(aio)
    loop.come_round(0.4)
    loop.now += 30  # idle: no round was measured
    assert not watch.late(aio)


async def test_what_is_over_the_limit_is_told_when_to_come_again_and_other_paths_pass() -> None:
    release = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/ask":
            await release.wait()
        await PlainTextResponse("done")(scope, receive, send)

    shedding = Shedding(app, ShedPolicy(paths=("/ask",), most=2), CollectorRegistry())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(shedding), base_url="http://test") as client:
        admitted = [asyncio.create_task(client.post("/ask")) for _ in range(2)]
        await asyncio.sleep(0.05)
        refused = await client.post("/ask")
        assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await client.get("/health")).status_code == 200
        release.set()
        assert [answer.status_code for answer in await asyncio.gather(*admitted)] == [200, 200]
        assert (await client.post("/ask")).status_code == 200
