"""Every rung: what is away, and what the engineer still gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from answerer_bench import Bench, HandClock
from answerer_corpus import make_event, make_hit, make_search
from answerer_servers import FakeRetriever, ScriptedModel, post, serving, status_script
from pydantic import SecretStr

from cairn_answerer.adapters.redis_store import RestingRedis
from cairn_answerer.app import create_app
from cairn_answerer.settings import AnswererSettings
from cairn_shared.api.ask import AskRequest

Settings = Callable[..., AnswererSettings]
QUESTION = AskRequest(question="How do I recover the replica?")


@pytest.mark.parametrize(
    ("embedder", "model_away", "mode", "reason"),
    [
        (True, False, "full", None),
        (True, True, "excerpts", "llm_refused_key"),
        (False, False, "keyword", "embedder_unavailable"),
        (False, True, "keyword", "embedder_unavailable, llm_refused_key"),
    ],
)
async def test_search_by_words_and_answers_without_a_model_are_marked(
    bench: Bench, model: ScriptedModel, *, embedder: bool, model_away: bool, mode: str, reason: str | None
) -> None:
    if not embedder:
        bench.retriever.answer = make_search(make_hit(1), make_hit(2), degraded=["embedder"])
    if model_away:
        model.scripts = [status_script(401)]
    response = await (await bench.answerer()).ask(QUESTION)
    assert (response.mode, response.degraded, response.degraded_reason) == (mode, reason is not None, reason)
    assert "Step 1]" in response.answer


async def test_without_a_retriever_the_answer_says_what_to_do(bench: Bench) -> None:
    await bench.retriever.stop()
    response = await (await bench.answerer()).ask(QUESTION)
    assert (response.mode, response.degraded_reason) == ("unavailable", "retriever_unavailable")
    assert "Ask again" in response.answer


async def test_without_the_neighbouring_steps_the_hits_alone_are_shown(bench: Bench) -> None:
    bench.model = None
    bench.corpus.away = True
    response = await (await bench.answerer()).ask(QUESTION)
    assert response.mode == "excerpts"
    assert [source.step for source in response.sources if source.cited] == [1, 2]


async def test_a_refusal_by_words_alone_is_marked(bench: Bench) -> None:
    bench.retriever.answer = make_search(degraded=["embedder"], enough=False)
    response = await (await bench.answerer()).ask(QUESTION)
    assert (response.mode, response.degraded_reason) == ("refused", "embedder_unavailable")


async def test_an_error_of_our_own_is_an_answer_too(bench: Bench) -> None:
    bench.corpus.revisions = None  # type: ignore[assignment, method-assign]
    response = await (await bench.answerer()).ask(AskRequest(question="q", min_revision={"a": 1}))
    assert (response.mode, response.degraded_reason) == ("unavailable", "internal_error")


async def test_a_retriever_that_hangs_costs_no_more_than_its_time(bench: Bench) -> None:
    async def hang(_: object, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    bench.retriever.handle = hang  # type: ignore[method-assign, assignment]
    started = asyncio.get_running_loop().time()
    response = await (await bench.answerer(deadline=1.0)).ask(QUESTION)
    assert asyncio.get_running_loop().time() - started < 1.5
    assert response.mode == "unavailable"


async def test_what_the_retriever_refuses_is_the_clients_error(
    make_settings: Settings, index: object, retriever: FakeRetriever
) -> None:
    retriever.status = 422
    async with serving(create_app(make_settings())) as url, httpx.AsyncClient() as client:
        response = await client.post(f"{url}/ask", json={"question": "x"})
    assert response.status_code == 422


async def test_it_starts_and_answers_without_postgres_and_redis(make_settings: Settings) -> None:
    nowhere = {
        "pg_dsn": SecretStr("postgresql://nobody@127.0.0.1:9/none"),
        "redis_url": SecretStr("redis://127.0.0.1:9/0"),
    }
    async with serving(create_app(make_settings(**nowhere))) as url, httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/health")).status_code == 200
        ready = await client.get(f"{url}/health/ready")
        assert ready.status_code == 503
        assert ready.json()["failures"].keys() == {"postgres"}
        answer = await post(url)
    assert answer["mode"] == "full", "the retriever answers, the model too"
    assert answer["freshness"]["index_time"] is None


async def test_only_events_found_are_shown_as_events(bench: Bench) -> None:
    bench.model = None
    bench.retriever.answer = make_search(make_event("orders-42 was deployed", kind="deployment"))
    response = await (await bench.answerer()).ask(QUESTION)
    assert response.mode == "excerpts"
    assert "[deployment: orders, 2026-11-20]" in response.answer


async def test_stores_that_hang_cost_their_time_once(make_settings: Settings) -> None:
    """Refused connections are quick; a store that accepts and never answers is the harder case."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1024):
                pass
        finally:
            writer.close()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hanging = {
        "pg_dsn": SecretStr(f"postgresql://nobody@127.0.0.1:{port}/none"),
        "redis_url": SecretStr(f"redis://127.0.0.1:{port}/0"),
        "redis_timeout": 0.25,
    }
    async with serving(create_app(make_settings(ask_deadline=12.0, **hanging))) as url:
        started = loop.time()
        first = await post(url)
        between = loop.time()
        second = await post(url, "another question")
        ended = loop.time()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.05)
    assert (first["mode"], second["mode"]) == ("full", "full")
    assert between - started < 8
    assert ended - between < 6


async def test_a_redis_that_does_not_answer_is_left_alone_for_a_while() -> None:
    clock = HandClock()
    redis = RestingRedis(None, clock, rest=2.0)  # type: ignore[arg-type]
    asked = 0

    async def hang(_: object) -> None:
        nonlocal asked
        asked += 1
        raise TimeoutError

    async def refuse(_: object) -> None:
        nonlocal asked
        asked += 1
        raise ConnectionError

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await redis.run(hang)
    assert asked == 1
    clock.time += timedelta(seconds=3)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await redis.run(refuse)
    assert asked == 4

    async def answer(_: object) -> str:
        return "x"

    assert await redis.run(answer) == "x"
    with pytest.raises(TimeoutError):
        await redis.run(hang)
    assert await redis.run(answer) == "x", "one late answer among others is no reason to give up"
