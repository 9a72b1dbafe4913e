"""Two answerer processes beside the stack's stores and a model server that counts: one call where one is enough."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from model_server import ModelServer
from replicas import Replica, start
from whole_stack import Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PAGE = """---
title: Ferry ramp is stuck half way
service: ferries
---
## Steps

1. Read the pressure of the ramp with `rampctl pressure --berth 4`.
2. Open the bypass valve slowly and wait for 40 seconds.
3. Lower the ramp with `rampctl lower --berth 4` while nobody stands below.
"""
QUESTION = "ferry ramp is stuck half way"

# Small, so that everything can be seen in seconds; the relations are those of production.
OPEN_SECONDS = 2.0
LEASE = 1.0
DEADLINE = 12.0
ATTEMPT = 2.0
TOO_BUSY = "503"


@dataclass
class Pair:
    """Two replicas that know the same stores and the same model."""

    first: Replica
    second: Replica
    model: ModelServer


@pytest.fixture(name="stocked")
def _stocked(stack: Stack) -> Stack:
    assert stack.settled(stack.put("ferry-ramp", PAGE)["event_id"]) == "searchable"
    return stack


@pytest.fixture
def pair(stocked: Stack) -> Iterator[Pair]:
    """A fresh model server: cache keys and the circuit have its address in them, so nothing is known from before."""
    with ExitStack() as cleanup:
        model = ModelServer()
        cleanup.callback(model.stop)
        settings = {
            "LLM_BASE_URL": model.url,
            "LLM_ATTEMPT_TIMEOUT": str(ATTEMPT),
            "ASK_DEADLINE": str(DEADLINE),
            "CIRCUIT_OPEN_SECONDS": str(OPEN_SECONDS),
            "FLIGHT_LEASE": str(LEASE),
        }
        first, second = (start(stocked, "answerer", cleanup, **settings) for _ in range(2))
        yield Pair(first, second, model)


@dataclass(frozen=True)
class Answered:
    """One question: when it was asked, after how many seconds which answer came."""

    asked: float
    seconds: float
    body: dict[str, Any]


async def ask(client: httpx.AsyncClient, url: str, question: str = QUESTION) -> Answered:
    answered = await ask_at_any_load(client, url, question)
    assert answered.body["mode"] != TOO_BUSY
    return answered


async def ask_at_any_load(client: httpx.AsyncClient, url: str, question: str = QUESTION) -> Answered:
    """An answer, or the refusal of a machine that has too much to do."""
    asked = time.monotonic()
    response = await client.post(f"{url}/ask", json={"question": question})
    assert response.status_code in (200, 503), response.text
    body = response.json() if response.status_code == 200 else {"mode": TOO_BUSY, "degraded_reason": ""}
    return Answered(asked, time.monotonic() - asked, body)


async def ask_behind_a_balancer(client: httpx.AsyncClient, url: str, other: str) -> Answered:
    """As a client of a load balancer: when the connection breaks the question goes to the other replica."""
    try:
        return await ask(client, url)
    except httpx.TransportError:
        return await ask(client, other)


def _client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=400, max_keepalive_connections=400)
    return httpx.AsyncClient(timeout=30, trust_env=False, limits=limits)


async def test_a_hundred_identical_questions_to_two_processes_are_one_call_of_the_model(pair: Pair) -> None:
    pair.model.delay = 1.0
    async with _client() as client:
        urls = [pair.first.url, pair.second.url] * 50
        answers = await asyncio.gather(*(ask(client, url) for url in urls))
    assert pair.model.calls == 1
    assert {answer.body["answer"] for answer in answers} == {answers[0].body["answer"]}
    assert {answer.body["mode"] for answer in answers} <= {"full", "cached"}
    assert "[Ferry ramp is stuck half way, Step 1]" in answers[0].body["answer"]
    assert len({answer.body["request_id"] for answer in answers}) == len(answers)


async def test_when_the_leader_is_killed_one_more_call_serves_everybody(pair: Pair) -> None:
    pair.model.delay = 1.5
    async with _client() as client:
        leading = asyncio.create_task(ask_behind_a_balancer(client, pair.first.url, pair.second.url))
        async with asyncio.timeout(10):
            while pair.model.calls == 0:
                await asyncio.sleep(0.01)
        # The first replica leads now, whoever comes follows it.
        others = [pair.first.url, pair.second.url] * 50
        asking = [asyncio.create_task(ask_behind_a_balancer(client, url, pair.second.url)) for url in others]
        await asyncio.sleep(0.5)
        assert pair.model.calls == 1
        os.kill(pair.first.process.pid, signal.SIGKILL)
        answers = await asyncio.gather(leading, *asking)
    assert pair.model.calls == 2
    assert {answer.body["mode"] for answer in answers} <= {"full", "cached"}
    assert max(answer.seconds for answer in answers) < DEADLINE


@pytest.mark.parametrize(
    ("seconds", "rate", "silent"),
    [
        pytest.param(10, 25, False, id="ten seconds of errors"),  # half the rate: other tests run beside it
        pytest.param(60, 50, False, id="a minute of errors", marks=[pytest.mark.chaos, pytest.mark.timeout(300)]),
        pytest.param(60, 50, True, id="a minute of silence", marks=[pytest.mark.chaos, pytest.mark.timeout(300)]),
    ],
)
async def test_a_model_that_is_down_under_steady_load_costs_one_probe_at_a_time(
    pair: Pair, seconds: int, rate: int, silent: bool
) -> None:
    """Questions come whether or not those before were answered; errors come at once, silence never ends."""
    pair.model.status = 503
    pair.model.delay = 30.0 if silent else 0.0
    opened: list[float] = []
    async with _client() as client:

        async def watch() -> None:
            while not opened:
                if pair.second.process.poll() is None and await _circuit(client, pair.second) == 2:
                    opened.append(time.monotonic())
                await asyncio.sleep(0.05)

        watching = asyncio.create_task(watch())
        answers = await _steady(client, pair, seconds, rate)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

        modes = Counter((answer.body["mode"], answer.body["degraded_reason"]) for answer in answers)
        assert len(answers) == seconds * rate
        slowest = max(answer.seconds for answer in answers)
        print(
            f"\n{len(answers)} questions in {seconds} s, the slowest {slowest:.2f} s, {pair.model.calls} calls: {dict(modes)}"
        )
        assert slowest < DEADLINE + 0.5, modes
        # `keyword`, 503: a busy machine's embedder was too slow for a question or two, or there was no room for them.
        assert {mode for mode, _ in modes} <= {"excerpts", "keyword", TOO_BUSY}, modes
        refused = sum(count for (mode, _), count in modes.items() if mode == TOO_BUSY)
        assert refused < len(answers) / 2, modes
        assert opened, modes
        assert (
            sum(count for (_, reason), count in modes.items() if "circuit_open" in reason)
            > (len(answers) - refused) / 2
        ), modes

        probes = [at for at in pair.model.times if at > opened[0] + OPEN_SECONDS / 2]
        gaps = [later - earlier for earlier, later in itertools.pairwise(probes)]
        assert len(probes) >= 2, "it is asked again now and then"
        assert len(probes) < len(answers) / 2, "most questions do not wait for it"
        if seconds >= 60:  # in a short run one replica that Redis does not answer in time, and so goes by itself, tells
            close = sum(gap < OPEN_SECONDS * 0.5 for gap in gaps)
            assert close <= len(probes) // 5, f"one probe at a time, over both replicas: {gaps}"

        pair.model.status, pair.model.delay = 200, 0.0
        async with asyncio.timeout(OPEN_SECONDS + ATTEMPT + 10):
            while (await ask_at_any_load(client, pair.first.url)).body["mode"] not in ("full", "cached"):
                await asyncio.sleep(0.1)
            while [await _circuit(client, replica) for replica in (pair.first, pair.second)] != [0, 0]:
                await asyncio.sleep(0.1)
        assert (await ask(client, pair.second.url, f"{QUESTION} again")).body["mode"] == "full"
    assert pair.first.process.poll() is None
    assert pair.second.process.poll() is None


async def _steady(client: httpx.AsyncClient, pair: Pair, seconds: int, rate: int) -> list[Answered]:
    """Questions at fixed times, to both replicas in turn, in forty wordings."""
    begun = time.monotonic()
    asking = []
    for number in range(seconds * rate):
        await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
        replica = (pair.first, pair.second)[number % 2]
        asking.append(asyncio.create_task(ask_at_any_load(client, replica.url, QUESTION + "?" * (number % 40))))
    return list(await asyncio.gather(*asking))


async def _circuit(client: httpx.AsyncClient, replica: Replica) -> int:
    text = (await client.get(f"{replica.url}/metrics")).text
    line = next(line for line in text.splitlines() if line.startswith("cairn_circuit_state "))
    return int(float(line.rsplit(" ", 1)[1]))
