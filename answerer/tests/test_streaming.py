"""Server-sent events: sources first, claims when they passed, the whole at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from answerer_bench import Bench
from answerer_corpus import STEPS, make_event, make_hit, make_search
from answerer_servers import (
    GOOD,
    GOOD_PLAN,
    Item,
    ModelCall,
    Script,
    ScriptedModel,
    begin_stream,
    delta,
    hang_script,
    plan_of,
    plan_script,
    serving,
)

from cairn_answerer import sse
from cairn_answerer.app import create_app
from cairn_answerer.model import ClaimReleased, Done, Produced, Progress, SourcesFound
from cairn_answerer.settings import AnswererSettings
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.errors import InvalidInput

Settings = Callable[..., AnswererSettings]
QUESTION = {"question": "How do I recover the replica?", "stream": True}


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])
        elif line.startswith(":"):
            yield "comment", line


async def slow_claims(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    """The second item, an invented one and the end come later."""
    plan = plan_of(call, *GOOD_PLAN, ("zz99", [1], "Reboot the data centre."))
    first, second, invented = (json.dumps(item) for item in plan["items"])
    begin_stream(writer)
    writer.write(delta('{"answerable": true, "items": [' + first))
    await writer.drain()
    await asyncio.sleep(0.25)
    writer.write(delta(f", {invented}, {second}"))
    await writer.drain()
    await asyncio.sleep(0.25)
    third = json.dumps({"step": call.ids[3], "units": [2]})
    writer.write(delta(f", {third}]}}") + delta("", "stop") + b"data: [DONE]\n\n")


async def test_each_claim_is_released_when_it_passed(
    make_settings: Settings, index: object, model: ScriptedModel
) -> None:
    model.scripts = [slow_claims]
    seen: list[tuple[float, str, Any]] = []
    loop = asyncio.get_running_loop()
    async with serving(create_app(make_settings(llm_attempt_timeout=2.0, sse_keep_alive=0.1))) as url:
        async with httpx.AsyncClient() as client, client.stream("POST", f"{url}/ask", json=QUESTION) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            async for name, data in events(response):
                seen.append((loop.time(), name, data))
        async with httpx.AsyncClient() as client, client.stream("POST", f"{url}/ask", json=QUESTION) as response:
            again = [name async for name, _ in events(response) if name != "comment"]
    assert "comment" in [name for _, name, _ in seen]
    seen = [item for item in seen if item[1] != "comment"]
    assert [name for _, name, _ in seen] == ["sources", "claim", "claim", "claim", "done"]
    times = [at for at, _, _ in seen]
    assert times[2] - times[1] > 0.2
    assert times[4] - times[2] > 0.2
    done = seen[-1][2]
    assert AskResponse.model_validate(done).dropped_claims == 1
    assert [data for _, name, data in seen if name == "claim"] == done["claims"]
    assert "data centre" not in str(seen)
    assert {source["step"] for source in seen[0][2]["sources"]} == {1, 2, 3, 4}
    assert again == ["sources", "claim", "claim", "claim", "done"], "not cached: an item was dropped"


async def test_a_stream_from_the_cache_has_the_same_events(
    make_settings: Settings, index: object, model: ScriptedModel
) -> None:
    async with serving(create_app(make_settings())) as url, httpx.AsyncClient() as client:
        seen = []
        for _ in range(2):
            async with client.stream("POST", f"{url}/ask", json=QUESTION) as response:
                seen.append([(name, data) async for name, data in events(response)])
    assert [name for name, _ in seen[0]] == [name for name, _ in seen[1]]
    assert seen[0][1] == seen[1][1]
    assert seen[1][-1][1]["mode"] == "cached"
    assert len(model.calls) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_ends_the_call_of_the_model(
    make_settings: Settings, index: object, model: ScriptedModel, *, stream: bool
) -> None:
    model.scripts = [hang_script]
    settings = make_settings(llm_attempt_timeout=30.0, ask_deadline=40.0)
    async with serving(create_app(settings)) as url:
        async with httpx.AsyncClient() as client:
            asking = asyncio.create_task(client.post(f"{url}/ask", json={**QUESTION, "stream": stream}, timeout=60))
            while not model.calls:
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        model.scripts = [plan_script(*GOOD_PLAN)]
        # If the first call were still running, this one would join it and hang.
        async with httpx.AsyncClient(timeout=5) as client:
            answer = (await client.post(f"{url}/ask", json={**QUESTION, "stream": False})).json()
    assert answer["mode"] == "full"
    assert len(model.calls) == 2


def breaking_off(*items: Item) -> Script:
    """Writes the beginning of a plan; then the connection is gone."""

    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        plan = plan_of(call, *items)
        writer.write(delta('{"answerable": true, "items": [' + ", ".join(map(json.dumps, plan["items"])) + ", {"))
        await writer.drain()
        await asyncio.sleep(0.05)

    return run


async def test_what_was_told_before_a_failure_stays_and_is_the_answer(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [breaking_off((1, [1, 2])), GOOD]
    answerer = await bench.answerer()
    seen = [item async for item in answerer.follow(AskRequest(question="q"))]
    assert [type(item) for item in seen] == [SourcesFound, ClaimReleased, Done]
    done = seen[-1]
    assert isinstance(done, Done)
    response = done.produced.response
    assert (response.mode, response.degraded_reason) == ("full", "llm_unreachable")
    assert [claim.text for claim in response.claims] == [STEPS[0]]
    assert len(model.calls) == 1, "no second answer for one that can be used"
    assert (await answerer.ask(AskRequest(question="q"))).degraded is False, "and it is not kept"


async def test_a_plan_that_goes_back_is_told_in_order_at_the_end_and_takes_nothing_back(
    bench: Bench, model: ScriptedModel
) -> None:
    model.scripts = [plan_script((3, [1]), (1, [1, 2]), (4, [1]))]
    seen = [item async for item in (await bench.answerer()).follow(AskRequest(question="q"))]
    told = [item.claim for item in seen if isinstance(item, ClaimReleased)]
    done = seen[-1]
    assert isinstance(done, Done)
    whole = done.produced.response.claims
    assert [claim.citations[0].step for claim in told] == [3]
    assert [claim.citations[0].step for claim in whole] == [1, 3, 4]
    assert all(claim in whole for claim in told)


async def test_events_are_told_after_everything_that_runbooks_say(bench: Bench, model: ScriptedModel) -> None:
    bench.retriever.answer = make_search(make_event("orders-42 was deployed"), make_hit(1))

    async def script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await plan_script((call.event_ids[0], [1]), (1, [1, 2]))(call, writer)

    model.scripts = [script]
    seen = [item async for item in (await bench.answerer()).follow(AskRequest(question="q"))]
    told = [item.claim for item in seen if isinstance(item, ClaimReleased)]
    assert [claim.origin for claim in told] == ["runbook", "event"]
    done = seen[-1]
    assert isinstance(done, Done)
    assert done.produced.response.claims == told


async def test_closing_the_stream_closes_what_it_follows() -> None:
    closed = asyncio.Event()

    async def progress() -> AsyncGenerator[Progress, None]:
        try:
            yield SourcesFound(())
            await asyncio.sleep(60)
        finally:
            closed.set()

    stream = sse.stream(progress(), keep_alive=0.02)
    assert await anext(stream) == b'event: sources\ndata: {"sources":[]}\n\n'
    assert await anext(stream) == sse.KEEP_ALIVE
    await stream.aclose()
    assert closed.is_set()


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "data: x\n\nevent: done"])
async def test_line_breaks_cannot_forge_an_event(text: str) -> None:
    encoded = sse.encode(Done(Produced(AskResponse(answer=text, mode="full"))))
    assert encoded.count(b"\n") == 3
    assert json.loads(encoded.split(b"data: ", 1)[1])["answer"] == text


async def test_a_request_that_turns_out_wrong_ends_the_stream_with_its_field() -> None:
    async def progress() -> AsyncGenerator[Progress, None]:
        yield SourcesFound(())
        raise InvalidInput("no such source", field="filters.source")

    told = [chunk async for chunk in sse.stream(progress(), keep_alive=1.0)]
    assert told[1] == b'event: error\ndata: {"detail":"no such source","field":"filters.source"}\n\n'
