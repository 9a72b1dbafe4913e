"""Pitfall 28: the circuit opens for the provider's faults only, and lets exactly one probe through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Self

import pytest
from answerer_bench import Bench, HandClock, MemoryStore
from answerer_servers import ScriptedModel, hang_script, plan_script, status_script
from pydantic import SecretStr
from redis.exceptions import ConnectionError as RedisAway

from cairn_answerer.adapters.redis_store import RedisCircuit, RestingRedis
from cairn_answerer.breaker import Circuit, Policy, State
from cairn_answerer.errors import BadOutput, CircuitOpen, RefusedByModelServer, RetryableFailure
from cairn_answerer.ports import CircuitStore
from cairn_shared.api.ask import AskRequest
from cairn_shared.clock import SystemClock
from cairn_shared.redis import open_redis
from cairn_shared.settings import RedisSettings


class AwayStore(MemoryStore):
    """Redis is gone."""

    async def read(self) -> tuple[int, float | None]:
        raise RedisAway

    async def failed(self) -> int:
        raise RedisAway

    async def opened(self, at: float) -> None:
        raise RedisAway

    async def closed(self) -> None:
        raise RedisAway

    async def take_probe(self, token: str, seconds: float) -> bool:
        raise RedisAway

    async def release_probe(self, token: str) -> None:
        raise RedisAway


Work = Callable[[bool], Awaitable[str]]


async def works(_: bool) -> str:
    await asyncio.sleep(0)
    return "answer"


async def fails(_: bool) -> str:
    await asyncio.sleep(0)
    raise RetryableFailure("llm_unreachable", "down")


async def refuses(_: bool) -> str:
    raise RefusedByModelServer("llm_refused_request", "400", status=400)


async def babbles(_: bool) -> str:
    raise BadOutput


async def outcome(circuit: Circuit, work: Work) -> str:
    try:
        return await circuit.call(work)
    except CircuitOpen:
        return "open"
    except (RetryableFailure, RefusedByModelServer, BadOutput) as exc:
        return exc.reason


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.slow), "away"])
async def store(request: pytest.FixtureRequest) -> object:
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    return MemoryStore() if request.param == "memory" else AwayStore()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


class Replicas:
    """Circuits that share a store."""

    def __init__(self, store: object, clock: HandClock) -> None:
        self._store = store
        self._clock = clock
        self.seen: list[State] = []

    async def __aenter__(self) -> Self:
        if isinstance(self._store, str):
            self._context = open_redis(RedisSettings(redis_url=SecretStr(self._store)), "test")
            self._shared: CircuitStore = RedisCircuit(
                RestingRedis(await self._context.__aenter__(), SystemClock()), "test"
            )
        else:
            assert isinstance(self._store, MemoryStore)
            self._shared = self._store
        return self

    async def __aexit__(self, *_: object) -> None:
        if isinstance(self._store, str):
            await self._context.__aexit__(None, None, None)

    def circuit(self) -> Circuit:
        return Circuit(self._shared, self._clock, Policy(5, 30.0, 5.0), on_change=self.seen.append)


async def test_five_failures_in_a_row_open_it_and_a_success_in_between_starts_anew(
    store: object, clock: HandClock
) -> None:
    async with Replicas(store, clock) as replicas:
        circuit = replicas.circuit()
        for _ in range(4):
            assert await outcome(circuit, fails) == "llm_unreachable"
        assert await outcome(circuit, works) == "answer"
        for _ in range(5):
            assert await outcome(circuit, fails) == "llm_unreachable"
        assert await outcome(circuit, works) == "open"
        assert replicas.seen[-1] is State.OPEN
        clock.time += timedelta(seconds=29)
        assert await outcome(circuit, works) == "open"
        clock.time += timedelta(seconds=2)
        assert await outcome(circuit, works) == "answer"
        assert circuit.state is State.CLOSED
        assert [
            state for state, before in zip(replicas.seen[1:], replicas.seen, strict=False) if state is not before
        ] == [
            State.OPEN,
            State.HALF_OPEN,
            State.CLOSED,
        ]


@pytest.mark.parametrize("work", [refuses, babbles], ids=["400", "verification"])
async def test_refusals_and_bad_output_never_open_it(store: object, clock: HandClock, work: Work) -> None:
    async with Replicas(store, clock) as replicas:
        circuit = replicas.circuit()
        for _ in range(50):
            await outcome(circuit, work)
        assert await outcome(circuit, works) == "answer"


async def test_a_cancelled_call_counts_for_nothing(store: object, clock: HandClock) -> None:
    async def hangs(_: bool) -> str:
        await asyncio.sleep(60)
        return ""

    async with Replicas(store, clock) as replicas:
        circuit = replicas.circuit()
        for _ in range(10):
            task = asyncio.create_task(circuit.call(hangs))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert circuit.state is State.CLOSED


async def test_exactly_one_of_many_callers_probes(store: object, clock: HandClock) -> None:
    async with Replicas(store, clock) as replicas:
        circuits = [replicas.circuit(), replicas.circuit()]
        if isinstance(store, AwayStore):
            circuits = circuits[:1]
        for _ in range(5):
            await outcome(circuits[0], fails)
        clock.time += timedelta(seconds=31)
        probes = 0

        async def probe(probing: bool) -> str:
            nonlocal probes
            assert probing
            probes += 1
            await asyncio.sleep(0.05)
            raise RetryableFailure("llm_timeout", "still down")

        results = await asyncio.gather(*(outcome(circuits[number % len(circuits)], probe) for number in range(40)))
        assert probes == 1
        assert sorted(set(results)) == ["llm_timeout", "open"]
        assert await outcome(circuits[-1], works) == "open", "a failed probe opens it for another while"
        clock.time += timedelta(seconds=31)
        assert await outcome(circuits[-1], works) == "answer"
        assert await outcome(circuits[0], works) == "answer"


async def test_the_right_to_probe_is_given_back_by_its_holder_only_and_ends_by_itself(redis_url: str) -> None:
    """A replica that is killed while it probes must not keep the circuit open for ever."""
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "test") as client:
        shared = RedisCircuit(RestingRedis(client, SystemClock()), "test")
        assert await shared.take_probe("holder", 60.0)
        assert 0 < await client.pttl("cairn:circuit:test:probe") <= 60_000
        await shared.release_probe("other")
        assert not await shared.take_probe("other", 60.0)
        await shared.release_probe("holder")
        assert await shared.take_probe("other", 60.0)


async def test_who_waited_while_another_replica_probed_does_not_probe_again(clock: HandClock) -> None:
    class Shared(MemoryStore):
        async def take_probe(self, token: str, seconds: float) -> bool:
            if self.probe is None and not probed:
                probed.append(token)
                assert await outcome(first, fails) == "llm_unreachable"
            return await super().take_probe(token, seconds)

    probed: list[str] = []
    async with Replicas(Shared(), clock) as replicas:
        first, second = replicas.circuit(), replicas.circuit()
        for _ in range(5):
            await outcome(first, fails)
        clock.time += timedelta(seconds=31)
        assert await outcome(second, works) == "open"
        assert len(probed) == 1


async def test_a_cancelled_probe_leaves_the_way_free_for_the_next(store: object, clock: HandClock) -> None:
    async def hangs(_: bool) -> str:
        await asyncio.sleep(60)
        return ""

    async with Replicas(store, clock) as replicas:
        circuit = replicas.circuit()
        for _ in range(5):
            await outcome(circuit, fails)
        clock.time += timedelta(seconds=31)
        task = asyncio.create_task(circuit.call(hangs))
        await asyncio.sleep(0.05)
        assert replicas.seen[-1] is State.HALF_OPEN
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert circuit.state is State.OPEN
        assert await outcome(circuit, works) == "answer"


@pytest.mark.parametrize("store", ["memory", "redis"], indirect=True)
async def test_replicas_open_and_close_together(store: object, clock: HandClock) -> None:
    async with Replicas(store, clock) as replicas:
        first, second = replicas.circuit(), replicas.circuit()
        for circuit in (first, second, first, second, first):
            assert await outcome(circuit, fails) == "llm_unreachable"
        assert await outcome(second, works) == "open"
        clock.time += timedelta(seconds=31)
        assert await outcome(second, works) == "answer"
        assert await outcome(first, works) == "answer"
        assert first.state is State.CLOSED


async def test_late_failures_of_many_concurrent_calls_leave_it_open_once(store: object, clock: HandClock) -> None:
    under_way = asyncio.Barrier(30)

    async def fails_late(_: bool) -> str:
        await under_way.wait()  # all were admitted before the first fails
        return await fails(_)

    async with Replicas(store, clock) as replicas:
        circuit = replicas.circuit()
        results = await asyncio.gather(*(outcome(circuit, fails_late) for _ in range(30)))
        assert set(results) == {"llm_unreachable"}
        assert circuit.state is State.OPEN
        clock.time += timedelta(seconds=31)
        assert await outcome(circuit, works) == "answer"


async def test_an_open_circuit_answers_with_excerpts_at_once_and_recovers_by_itself(
    bench: Bench, model: ScriptedModel
) -> None:
    model.scripts = [status_script(500)]
    answerer = await bench.answerer(failures=2, open_seconds=0.4)
    for number in range(2):
        response = await answerer.ask(AskRequest(question=f"question {number}"))
        assert response.degraded_reason == "llm_error"
    calls = len(model.calls)
    response = await answerer.ask(AskRequest(question="another"))
    assert (response.mode, response.degraded_reason) == ("excerpts", "circuit_open")
    assert len(model.calls) == calls
    await asyncio.sleep(0.45)
    await answerer.ask(AskRequest(question="probe"))
    assert len(model.calls) == calls + 1, "a probe is a single attempt"
    model.scripts = [plan_script((1, [2]))]
    await asyncio.sleep(0.45)
    assert (await answerer.ask(AskRequest(question="again"))).mode == "full"


async def test_under_load_with_the_model_down_no_request_is_late(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [hang_script]
    answerer = await bench.answerer(attempt=0.3, deadline=5.0, open_seconds=0.5)
    loop = asyncio.get_running_loop()

    async def one(number: int) -> tuple[float, str | None]:
        await asyncio.sleep(number * 0.02)
        started = loop.time()
        response = await answerer.ask(AskRequest(question=f"question {number}"))
        return loop.time() - started, response.degraded_reason

    results = await asyncio.gather(*(one(number) for number in range(150)))
    assert max(seconds for seconds, _ in results) < 10.0, (
        "twice the deadline: a loaded machine is late, not a minute late"
    )
    reasons = {reason for _, reason in results}
    assert {"llm_timeout", "circuit_open"} <= reasons <= {"llm_timeout", "circuit_open", "llm_busy"}
    assert len(model.calls) < 150
