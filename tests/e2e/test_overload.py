"""Far more questions than can be answered: those admitted are answered in time, the rest refused at once."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from open_load import Plan, run
from replicas import without_model
from whole_stack import Stack

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]  # times that only an idle machine keeps

DEADLINE = 6.0
WORDS = ["anchor", "berth", "crane", "dock", "ferry", "gauge", "hull", "jetty", "keel", "lock", "mast", "pier", "rope"]


@pytest.fixture(name="gateway")
def _gateway(stack: Stack) -> Iterator[str]:
    """A gateway and an answerer of the test's own: a flood is not to reach those that other tests use."""
    with without_model(stack, ASK_DEADLINE=str(DEADLINE), RATE_LIMIT_PER_MINUTE="0") as url:
        yield url


def new_questions() -> Iterator[str]:
    """Questions that nobody asked: each has to be embedded and searched for."""
    shuffle = random.Random(11)
    return (json.dumps({"question": " ".join(shuffle.sample(WORDS, 9))}) for _ in itertools.count())


def test_at_five_times_the_capacity_every_accepted_question_is_in_time_and_the_rest_are_refused_at_once(
    stack: Stack, gateway: str
) -> None:
    asked = new_questions()
    headers = {"content-type": "application/json", "authorization": stack.http.headers["authorization"]}

    def ask(body: str) -> httpx.Response:
        return client.post("/ask", content=body)

    with (
        httpx.Client(base_url=gateway, headers=headers, timeout=30, trust_env=False) as client,
        ThreadPoolExecutor(8) as pool,
    ):  # as many as are answered when as many wait as can
        begun = time.monotonic()
        assert {answer.status_code for answer in pool.map(ask, itertools.islice(asked, 120))} == {200}
        capacity = 120 / (time.monotonic() - begun)

        rate, seconds = 5 * capacity, 8.0
        bodies = list(itertools.islice(asked, int(rate * seconds)))
        flood = pool.submit(run, Plan(f"{gateway}/ask", bodies, rate, seconds, headers=headers, connections=2000))
        time.sleep(seconds / 2)
        for path in ("/health", "/metrics"):
            begun = time.monotonic()
            assert client.get(path).status_code == 200
            assert time.monotonic() - begun < 3
        shed = []
        while not flood.done():
            shed += [answer for answer in (ask(next(asked)),) if answer.status_code == 503]
            time.sleep(0.2)
        result = flood.result()
        begun = time.monotonic()
        after = ask(next(asked))
        assert (after.status_code, time.monotonic() - begun < 3) == (200, True), after.text

    print(
        f"\n{capacity:.0f}/s answered, {rate:.0f}/s asked: {result.statuses}, {result.errors}; answers p50 "
        f"{result.of(200, 0.5):.0f} p99 {result.of(200, 0.99):.0f} ms, refusals p50 {result.of(503, 0.5):.0f} "
        f"p99 {result.of(503, 0.99):.0f} ms, the client late by {result.late * 1000:.0f} ms"
    )
    assert not result.errors
    assert result.statuses.keys() == {"200", "503"}
    assert result.of(200, 1.0) < (DEADLINE + 1) * 1000 + result.late * 1000
    assert result.of(503, 0.95) < 2500 + result.late * 1000
    assert {(answer.headers["content-type"], answer.headers["retry-after"]) for answer in shed} <= {
        ("application/problem+json", "1")
    }
