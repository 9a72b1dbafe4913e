"""Pitfall 25: identical questions at the same time are answered once, over two instances and a real Redis."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import httpx
import pytest
from answerer_bench import Bench, MemoryStore
from answerer_servers import GOOD_PLAN, ScriptedModel, hang_script, plan_script, serving, status_script
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_answerer.adapters.redis_store import RedisFlights, RestingRedis
from cairn_answerer.app import create_app
from cairn_answerer.flights import Flights, Policy
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import Done, Produced, Progress
from cairn_answerer.settings import AnswererSettings
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.clock import SystemClock
from cairn_shared.redis import open_redis
from cairn_shared.settings import RedisSettings

Settings = Callable[..., AnswererSettings]
QUESTION = AskRequest(question="How do I recover the replica?")


@pytest.fixture
async def pair(make_settings: Settings, index: object) -> AsyncIterator[list[str]]:
    """Two instances over the same stores."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving(create_app(make_settings()))) for _ in range(2)]


async def ask_all(
    urls: list[str], count: int, question: str = "How do I recover the replica?"
) -> list[dict[str, object]]:
    async with httpx.AsyncClient(timeout=20, limits=httpx.Limits(max_connections=200)) as client:
        answers = await asyncio.gather(
            *(client.post(f"{urls[number % len(urls)]}/ask", json={"question": question}) for number in range(count))
        )
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json() for answer in answers]


async def test_a_hundred_identical_questions_over_two_instances_are_one_call(
    pair: list[str], model: ScriptedModel
) -> None:
    model.scripts = [plan_script(*GOOD_PLAN, delay=0.3)]
    answers = await ask_all(pair, 100)
    assert len(model.calls) == 1
    assert {answer["mode"] for answer in answers} <= {"full", "cached"}
    assert len({str(answer["answer"]) for answer in answers}) == 1
    assert len({answer["request_id"] for answer in answers}) == 100


async def test_with_the_model_down_waiters_share_the_degraded_answer(pair: list[str], model: ScriptedModel) -> None:
    model.scripts = [hang_script]
    answers = await ask_all(pair, 60)
    assert Counter(str(answer["degraded_reason"]) for answer in answers) == {"llm_timeout": 60}
    assert len(model.calls) <= 3, "one answer: one call and its retries"


async def test_a_later_question_is_not_served_the_degraded_answer_of_an_earlier_flight(
    pair: list[str], model: ScriptedModel
) -> None:
    model.scripts = [status_script(401)]
    first = await ask_all(pair, 2)
    model.scripts = [plan_script(*GOOD_PLAN)]
    second = await ask_all(pair, 2)
    assert {answer["mode"] for answer in first} == {"excerpts"}
    assert {answer["mode"] for answer in second} <= {"full", "cached"}


async def test_when_the_leader_dies_one_waiter_takes_over(bench: Bench, model: ScriptedModel) -> None:
    """The first replica holds the lease and is gone; fifty waiters of three others make one more call, not three."""
    model.scripts = [hang_script, plan_script(*GOOD_PLAN, delay=0.5)]
    leader, *followers = [await bench.answerer(attempt=5.0, deadline=10.0) for _ in range(4)]
    first = asyncio.create_task(leader.ask(QUESTION))
    while not model.calls:
        await asyncio.sleep(0.01)
    waiting = [asyncio.create_task(followers[number % 3].ask(QUESTION)) for number in range(50)]
    await asyncio.sleep(0.1)
    assert len(model.calls) == 1
    first.cancel()
    answers = await asyncio.gather(*waiting)
    assert {answer.mode for answer in answers} <= {"full", "cached"}
    assert len(model.calls) == 2


async def test_a_leader_that_is_killed_is_replaced_when_its_lease_runs_out(redis_url: str) -> None:
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "test") as client:
        store = RedisFlights(RestingRedis(client, SystemClock()))
        await store.lead("cairn:flight:k", "of a killed process", 0.4)
        flights = Flights(store, SystemClock(), Metrics(CollectorRegistry()), Policy(lease=0.4))
        count = 0

        async def produce(_: Callable[[Progress], None]) -> Produced:
            nonlocal count
            count += 1
            await asyncio.sleep(0.5)  # longer than the lease: it is renewed
            return Produced(AskResponse(answer="x", mode="full"))

        async def fly() -> str:
            async for progress in flights.fly("k", produce):
                if isinstance(progress, Done):
                    return progress.produced.response.answer
            return ""

        async with asyncio.timeout(5):
            assert await asyncio.gather(*(fly() for _ in range(20))) == ["x"] * 20
        assert count == 1
        assert await client.get("cairn:flight:k") is None


async def test_a_lease_is_renewed_and_given_back_by_its_holder_only_and_all_ends_by_itself(redis_url: str) -> None:
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "test") as client:
        store = RedisFlights(RestingRedis(client, SystemClock()))
        assert [await store.lead("k", token, 60.0) for token in ("holder", "other")] == ["holder", "holder"]
        assert 0 < await client.pttl("k") <= 60_000
        assert not await store.renew("k", "other", 600.0)
        await store.land("k", "other", b"late", 60.0)
        assert await store.look("k", "other") == ("holder", None)
        assert await store.renew("k", "holder", 600.0)
        assert 60_000 < await client.pttl("k") <= 600_000
        await store.land("k", "holder", b"result", 60.0)
        assert await store.look("k", "holder") == (None, b"result")
        assert 0 < await client.pttl("k:holder") <= 60_000


async def test_a_leader_renews_its_lease_while_it_works() -> None:
    renewed = asyncio.Event()

    class Store(MemoryStore):
        async def renew(self, key: str, token: str, seconds: float) -> bool:
            renewed.set()
            return True

    async def produce(_: Callable[[Progress], None]) -> Produced:
        await renewed.wait()
        return Produced(AskResponse(answer="x", mode="full"))

    flights = Flights(Store(), SystemClock(), Metrics(CollectorRegistry()), Policy(lease=0.05))
    async with asyncio.timeout(10):
        assert [type(progress) async for progress in flights.fly("k", produce)] == [Done]


async def test_the_first_client_may_leave_without_harm_to_the_others(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [plan_script(*GOOD_PLAN, delay=0.2)]
    answerer = await bench.answerer()
    tasks = [asyncio.create_task(answerer.ask(QUESTION)) for _ in range(5)]
    await asyncio.sleep(0.1)
    tasks[0].cancel()
    answers = await asyncio.gather(*tasks[1:])
    assert {answer.mode for answer in answers} == {"full"}
    assert len(model.calls) == 1


async def test_when_the_last_client_leaves_the_model_is_no_longer_asked(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [hang_script]
    answerer = await bench.answerer(attempt=30.0, deadline=40.0)
    tasks = [asyncio.create_task(answerer.ask(QUESTION)) for _ in range(3)]
    while not model.calls:
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(2):
        while bench.store.leases:
            await asyncio.sleep(0.01)


async def test_a_failure_reaches_everybody_who_waits(redis_url: str) -> None:
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "test") as client:
        flights = Flights(
            RedisFlights(RestingRedis(client, SystemClock())), SystemClock(), Metrics(CollectorRegistry()), Policy()
        )

        async def produce(_: Callable[[Progress], None]) -> Produced:
            await asyncio.sleep(0.05)
            raise ValueError("broken")

        async def fly() -> None:
            async for _ in flights.fly("k", produce):
                pass

        results = await asyncio.gather(*(fly() for _ in range(5)), return_exceptions=True)
        assert [str(result) for result in results] == ["broken"] * 5


async def test_without_redis_each_instance_still_answers_once(
    make_settings: Settings, index: object, model: ScriptedModel
) -> None:
    model.scripts = [plan_script(*GOOD_PLAN, delay=0.3)]
    settings = make_settings(redis_url=SecretStr("redis://127.0.0.1:9/0"))
    async with serving(create_app(settings)) as url:
        answers = await ask_all([url], 20)
    assert {answer["mode"] for answer in answers} == {"full"}
    assert len(model.calls) == 1
