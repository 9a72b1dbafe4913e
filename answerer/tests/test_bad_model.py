"""A model that does everything wrong: no word of it passes for the runbook's, and each case ends in time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from answerer_bench import Bench
from answerer_corpus import STEPS
from answerer_servers import (
    GOOD,
    ModelCall,
    Script,
    ScriptedModel,
    begin_stream,
    delta,
    half_stream_script,
    hang_script,
    plan_of,
    plan_script,
    respond,
    status_script,
    text_script,
)

from cairn_answerer.pipeline import Answerer
from cairn_shared.api.ask import AskRequest

DEADLINE = 3.0


async def ask(answerer: Answerer, question: str = "How do I recover the replica?") -> dict[str, Any]:
    response = await answerer.ask(AskRequest(question=question))
    return response.model_dump(mode="json")


async def endless(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    while True:
        writer.write(delta("Reboot every node and reformat the disks. " * 40))
        await writer.drain()
        await asyncio.sleep(0.001)


async def endless_items(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(delta('{"answerable": true, "items": ['))
    while True:
        writer.write(delta(json.dumps({"step": "zz99", "units": [1], "lead": REBOOT}) + ","))
        await writer.drain()
        await asyncio.sleep(0.001)


async def endless_bytes(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()
        await asyncio.sleep(0)


async def prompt_echo(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    await text_script(call.prompt, piece=400)(call, writer)


async def no_protocol(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    respond(writer, b"<html>Welcome to nginx</html>", kind="text/html")


async def error_in_stream(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(b'data: {"error": {"message": "overloaded"}}\n\n')


REBOOT = "Reboot the whole data centre."
CHOOSING_NOTHING: dict[str, Script] = {
    "unknown id": plan_script(("zz99", [1], REBOOT)),
    "unknown unit": plan_script((1, [17], REBOOT)),
    "unit nought": plan_script((1, [0, -1], REBOOT)),
    "step that was not shown": plan_script(("[PostgreSQL replica, fallen behind, Step 9]", [1])),
    "its own words": text_script(json.dumps({"answerable": True, "items": [{"text": REBOOT}], "lead": REBOOT})),
    "no json": text_script("Sure! Have you tried turning it off and on again? Reboot all nodes."),
    "prose with invented citations": text_script("Reboot all nodes [Reboot guide, Step 1]. Format the disks [1]."),
    "endless text": endless,
    "endless items": endless_items,
    "endless line": endless_bytes,
    "empty": text_script(""),
    "empty object": text_script("{}"),
    "null": text_script("null"),
    "wrong types": text_script('{"answerable": "maybe", "items": {"step": {"a": 1}, "units": {"a": [1, [2]]}}}'),
    "deep": text_script("[" * 3000 + "{" * 3000, piece=500),
    "no protocol": no_protocol,
}
FAILING: dict[str, tuple[Script, str]] = {
    "429": (status_script(429), "llm_rate_limited"),
    "429 for an hour": (status_script(429, retry_after="3600"), "llm_rate_limited"),
    "500": (status_script(500), "llm_error"),
    "401": (status_script(401), "llm_refused_key"),
    "403": (status_script(403), "llm_refused_key"),
    "404": (status_script(404), "llm_refused_request"),
    "hang": (hang_script, "llm_timeout"),
    "half a stream": (half_stream_script, "llm_unreachable"),
    "error in the stream": (error_in_stream, "llm_error"),
}


@pytest.mark.parametrize("script", CHOOSING_NOTHING.values(), ids=CHOOSING_NOTHING.keys())
async def test_where_nothing_is_chosen_the_steps_are_shown(bench: Bench, model: ScriptedModel, script: Script) -> None:
    """Pitfall 17."""
    model.scripts = [script]
    started = time.monotonic()
    answer = await ask(await bench.answerer(deadline=DEADLINE))
    assert time.monotonic() - started < DEADLINE + 1
    assert answer["claims"] == []
    assert (answer["mode"], answer["degraded_reason"]) == ("excerpts", "llm_bad_output")
    assert "[PostgreSQL replica, fallen behind, Step 1]" in answer["answer"]
    assert not [word for word in ("Reboot", "Format", "turning it off", "zz99") if word in answer["answer"]]
    assert len(model.calls) <= 2


async def test_a_model_that_repeats_its_prompt_chooses_what_stands_in_it(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [prompt_echo]
    answer = await ask(await bench.answerer(deadline=DEADLINE))
    assert all(claim["origin"] == "runbook" and claim["text"] in STEPS for claim in answer["claims"])


@pytest.mark.parametrize(("script", "reason"), FAILING.values(), ids=FAILING.keys())
async def test_a_failing_model_leads_to_excerpts_with_its_reason_in_time(
    bench: Bench, model: ScriptedModel, script: Script, reason: str
) -> None:
    """Pitfall 28: the total time stays within the deadline, retries included."""
    model.scripts = [script]
    started = time.monotonic()
    answer = await ask(await bench.answerer(deadline=DEADLINE))
    assert time.monotonic() - started < DEADLINE + 1
    assert (answer["mode"], answer["degraded_reason"]) == ("excerpts", reason)
    assert len(model.calls) <= 4, "three attempts, and once in a simpler way"


async def test_an_unreachable_model_is_told_apart(bench: Bench, model: ScriptedModel) -> None:
    await model.stop()
    answer = await ask(await bench.answerer())
    assert answer["degraded_reason"] == "llm_unreachable"


SECOND = STEPS[0]
"""What the second unit of the first step comes to: with the words in bold before it."""

MARKER = "PostgreSQL replica, fallen behind, Step 1"
READABLE: dict[str, Callable[[str], str]] = {
    "fenced json": lambda key: f'```json\n{{"answerable": true, "items": [{{"step": "{key}", "units": [2]}}]}}\n```',
    "prose around json": lambda key: (
        f'Here you are: {{"answerable": true, "items": [{{"step": "{key}", "units": [2]}}]}} Good luck!'
    ),
    "answerable missing": lambda key: f'{{"items": [{{"step": "{key}", "units": [2]}}]}}',
    "answerable last": lambda key: f'{{"items": [{{"step": "{key}", "units": [2]}}], "answerable": true}}',
    "other keys": lambda key: f'{{"items": [{{"id": "[{key.upper()}]", "unit": "2"}}]}}',
    "bare list": lambda key: f'[{{"step": "{key}", "units": ["2-2"]}}]',
    "numbers with ids": lambda key: f'{{"items": [{{"step": "{key}", "units": ["{key}.2"]}}]}}',
    "by marker": lambda key: f'{{"items": [{{"step": "[{MARKER}]", "units": [2]}}]}}',
    "lines": lambda key: f"I would take these:\n{key}: 2\n",
    "prose": lambda key: f"The lag is measured in [{key}.2], so begin there.",
}


@pytest.mark.parametrize("write", READABLE.values(), ids=READABLE.keys())
async def test_a_right_plan_in_a_wrong_shape_is_read(
    bench: Bench, model: ScriptedModel, write: Callable[[str], str]
) -> None:
    async def script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await text_script(write(call.ids[1]))(call, writer)

    model.scripts = [script]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded"]) == ("full", False)
    assert [claim["text"] for claim in answer["claims"]] == [SECOND]
    assert [citation["step"] for citation in answer["claims"][0]["citations"]] == [1]


@pytest.mark.parametrize("units", [None, ["all"], "*", ""])
async def test_a_step_without_numbers_is_taken_whole(bench: Bench, model: ScriptedModel, units: object) -> None:
    async def script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        item = {"step": call.ids[1], **({} if units is None else {"units": units})}
        await text_script(json.dumps({"answerable": True, "items": [item]}))(call, writer)

    model.scripts = [script]
    answer = await ask(await bench.answerer())
    assert [claim["text"] for claim in answer["claims"]] == [STEPS[0]]


async def test_no_json_is_asked_for_once_more(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [text_script("Sure, happy to help."), GOOD]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded"], answer["dropped_claims"]) == ("full", False, 0)
    assert len(model.calls) == 2
    assert model.calls[1].request.body["messages"][2]["role"] == "assistant"


async def test_an_unknown_id_costs_itself_and_nothing_else(bench: Bench, model: ScriptedModel) -> None:
    """Pitfalls 24 and 27: most of the plan is wrong, the rest is the answer; it is marked, and not kept."""
    model.scripts = [plan_script(("zz99", [1]), (1, [1, 2, 17]), ("yy88", None))]
    answerer = await bench.answerer()
    first = await ask(answerer)
    second = await ask(answerer)
    assert (first["mode"], first["degraded_reason"], first["dropped_claims"]) == ("full", "claims_dropped", 3)
    assert [claim["text"] for claim in first["claims"]] == [STEPS[0]]
    assert second["mode"] == "full"
    assert len(model.calls) == 2, "one for each answer: nothing is asked again for what was dropped"


async def test_a_passing_failure_is_retried(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [status_script(500), status_script(429, retry_after="0"), GOOD]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], len(model.calls)) == ("full", 3)


async def test_an_endpoint_without_json_schema_is_used_without(bench: Bench, model: ScriptedModel) -> None:
    async def picky(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        script = status_script(400) if "response_format" in call.request.body else GOOD
        await script(call, writer)

    model.scripts = [picky]
    answerer = await bench.answerer()
    first = await ask(answerer)
    calls = len(model.calls)
    await ask(answerer, "another question")
    assert first["mode"] == "full"
    assert calls == 3
    assert len(model.calls) == 4, "what works is remembered"


async def test_a_parameter_that_the_server_names_is_changed(bench: Bench, model: ScriptedModel) -> None:
    async def strict(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        body = call.request.body
        if "max_tokens" in body:
            message = b'{"error": {"message": "Unsupported parameter: use \'max_completion_tokens\' instead."}}'
            respond(writer, message, status=400)
        elif "temperature" in body:
            respond(writer, b'{"error": {"message": "temperature does not support 0.1"}}', status=400)
        else:
            await GOOD(call, writer)

    model.scripts = [strict]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], len(model.calls)) == ("full", 3)
    assert model.calls[-1].request.body["response_format"]["type"] == "json_schema"


async def test_a_prompt_that_is_too_long_teaches_nothing_about_the_server(bench: Bench, model: ScriptedModel) -> None:
    async def small(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        respond(writer, b'{"error": {"message": "maximum context length is 4096 tokens"}}', status=400)

    model.scripts = [small]
    answerer = await bench.answerer()
    answer = await ask(answerer)
    assert (answer["degraded_reason"], len(model.calls)) == ("llm_refused_request", 1)
    model.scripts = [GOOD]
    await ask(answerer)
    assert model.calls[-1].request.body["response_format"]["type"] == "json_schema"


async def test_an_endpoint_that_cannot_stream_is_used_all_the_same(bench: Bench, model: ScriptedModel) -> None:
    async def whole(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        content = json.dumps(plan_of(call, (1, [2])))
        body: dict[str, Any] = {
            "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]
        }
        respond(writer, json.dumps(body).encode())

    model.scripts = [whole]
    answer = await ask(await bench.answerer())
    assert answer["mode"] == "full"


async def test_an_answer_cut_by_the_token_limit_is_marked(bench: Bench, model: ScriptedModel) -> None:
    async def cut(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        text = json.dumps(plan_of(call, (1, [2])))
        await text_script(text[:-2] + ', {"step": "' + call.ids[2] + '", "uni', finish="length")(call, writer)

    model.scripts = [cut]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded_reason"]) == ("full", "llm_truncated")
    assert [claim["text"] for claim in answer["claims"]] == [SECOND]


async def test_a_model_that_says_nothing_is_not_waited_for_longer_than_the_setting_allows(
    bench: Bench, model: ScriptedModel
) -> None:
    model.scripts = [hang_script]
    answerer = await bench.answerer(deadline=8.2, attempt=8.0, first=0.3)
    begun = asyncio.get_running_loop().time()
    response = await answerer.ask(AskRequest(question="How do I recover the replica?"))
    assert (response.mode, response.degraded_reason) == ("excerpts", "llm_timeout")
    assert asyncio.get_running_loop().time() - begun < 5.0
    assert len(model.calls) == 1, "another whole attempt would not fit into the deadline"


async def test_a_plan_whose_json_breaks_off_is_shown_as_not_all(bench: Bench, model: ScriptedModel) -> None:
    async def half(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        item = json.dumps({"step": call.ids[1], "units": [2]})
        await text_script('{"answerable": true, "items": [' + item + ', {"step": "')(call, writer)

    model.scripts = [half]
    answerer = await bench.answerer()
    response = await answerer.ask(AskRequest(question="How do I recover the replica?"))
    assert (response.mode, response.degraded_reason) == ("full", "llm_truncated")
    assert [claim.text for claim in response.claims] == [SECOND]
    assert (await answerer.ask(AskRequest(question="How do I recover the replica?"))).mode == "full", "it is not kept"


async def test_a_plan_that_is_late_gives_what_is_whole_of_it(bench: Bench, model: ScriptedModel) -> None:
    async def slow(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        items = [json.dumps(item) for item in plan_of(call, (1, [2]), (2, [2]))["items"]]
        for piece in ('{"answerable": true, "items": [' + items[0], ", ", "  ", "  ", "  ", items[1]):
            writer.write(delta(piece))
            await writer.drain()
            await asyncio.sleep(0.3)

    model.scripts = [slow]
    response = await (await bench.answerer(attempt=0.8)).ask(AskRequest(question="How do I recover the replica?"))
    assert (response.mode, response.degraded_reason) == ("full", "llm_timeout")
    assert [claim.text for claim in response.claims] == [SECOND]
    assert len(model.calls) == 1


async def test_a_slow_model_is_waited_for_once(bench: Bench, model: ScriptedModel) -> None:
    """One that needs most of its time answers in that time: nothing is thrown away, nothing asked again."""
    model.scripts = [plan_script(("zz99", [1]), (1, [2]), delay=1.1)]
    begun = asyncio.get_running_loop().time()
    response = await (await bench.answerer(deadline=2.5, attempt=2.0)).ask(AskRequest(question="q"))
    assert (response.mode, len(model.calls)) == ("full", 1)
    assert asyncio.get_running_loop().time() - begun < 1.6
