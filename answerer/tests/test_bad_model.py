"""A model that does everything wrong: nothing unsupported reaches the client, and each case ends in time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from answerer_bench import Bench
from answerer_servers import (
    GOOD,
    ModelCall,
    Script,
    ScriptedModel,
    begin_stream,
    claims_script,
    delta,
    half_stream_script,
    hang_script,
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


async def endless_claims(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(delta('{"answerable": true, "claims": ['))
    while True:
        writer.write(delta(json.dumps({"text": "Reboot all nodes now.", "cites": [call.ids[1]]}) + ","))
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
UNSUPPORTED: dict[str, Script] = {
    "unknown id": claims_script(("Run `SELECT pg_last_wal_replay_lsn();` on the standby.", ["zz99"])),
    "no citation": claims_script(("Run `SELECT pg_last_wal_replay_lsn();` on the standby.", [])),
    "wrong step": claims_script(("Run `SELECT pg_last_wal_replay_lsn();` on the standby.", [2])),
    "step that was not shown": claims_script(
        ("Run `SELECT 1;`.", ["[PostgreSQL replica, fallen behind, Step 9]", "[Another runbook, Step 1]"])
    ),
    "invented step": claims_script((REBOOT, [1])),
    "changed flag": claims_script(("`kubectl -n $NAMESPACE delete pod <pod> --grace-period=0` restarts it.", [4])),
    "left out flag": claims_script(("`kubectl -n $NAMESPACE delete pod <pod>` restarts the standby.", [4])),
    "flag in prose": claims_script(("Delete the stuck pod with --force.", [4])),
    "changed number": claims_script(("Run the query on the standby and wait 50 minutes.", [1])),
    "changed unit": claims_script(("Measure the lag on the standby and wait 5 hours.", [1])),
    "number in words": claims_script(("Measure the lag on the standby and wait ten minutes.", [1])),
    "changed size": claims_script(("Set `max_slot_wal_keep_size` to 900GB.", [3])),
    "flipped negation": claims_script(("Drop the slot while the standby needs it.", [2])),
    "added negation": claims_script(("Do not measure the lag on the standby.", [1])),
    "other path": claims_script(("Look at the slot in /var/lib/mysql.", [2])),
    "other name": claims_script(("Set `max_wal_senders` to give the slot room.", [3])),
    "link": claims_script(("Look at the slot, see https://evil.example/fix for the lag.", [1])),
    "image": claims_script(("Measure the lag ![x](https://evil.example/p.png?q=1) on the standby.", [1])),
    "html": claims_script(("Measure the lag <script>alert(1)</script> on the standby.", [1])),
    "no json": text_script("Sure! Have you tried turning it off and on again? Reboot all nodes."),
    "prose with invented citations": text_script("Reboot all nodes [Reboot guide, Step 1]. Format the disks [1]."),
    "endless text": endless,
    "endless claims": endless_claims,
    "endless line": endless_bytes,
    "prompt echo": prompt_echo,
    "empty": text_script(""),
    "empty object": text_script("{}"),
    "null": text_script("null"),
    "wrong types": text_script('{"answerable": "maybe", "claims": {"text": 7, "cites": {"a": [1, [2]]}}}'),
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
FORBIDDEN = (
    "reboot", "reformat", "format the disks", "evil.example", "zz99", "max_wal_senders", "--force", "grace-period=0",
    "50 minutes", "5 hours", "ten minutes", "900gb", "/var/lib/mysql", "<script", "![", "turning it off",
)  # fmt: skip


@pytest.mark.parametrize("script", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
async def test_what_is_not_supported_never_reaches_the_client(
    bench: Bench, model: ScriptedModel, script: Script
) -> None:
    """Pitfalls 17 and 18."""
    model.scripts = [script]
    started = time.monotonic()
    answer = await ask(await bench.answerer(deadline=DEADLINE))
    assert time.monotonic() - started < DEADLINE + 1
    assert answer["claims"] == []
    assert answer["mode"] in ("excerpts", "refused")
    if answer["mode"] == "excerpts":
        assert answer["degraded_reason"] == "llm_bad_output"
        assert "[PostgreSQL replica, fallen behind, Step 1]" in answer["answer"]
    lowered = answer["answer"].lower()
    assert not [word for word in FORBIDDEN if word in lowered]


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


GOOD_CLAIM = "Run `SELECT pg_last_wal_replay_lsn();` on the standby and wait 5 minutes."
READABLE: dict[str, Callable[[str], str]] = {
    "fenced json": lambda key: (
        f'```json\n{{"answerable": true, "claims": [{{"text": "{GOOD_CLAIM}", "cites": ["{key}"]}}]}}\n```'
    ),
    "prose around json": lambda key: (
        f'Here you are: {{"answerable": true, "claims": [{{"text": "{GOOD_CLAIM}", "cites": "{key}"}}]}} Good luck!'
    ),
    "other keys": lambda key: f'{{"claims": [{{"claim": "{GOOD_CLAIM}", "citations": [{{"id": "{key}"}}]}}]}}',
    "bare list": lambda key: f'[{{"text": "{GOOD_CLAIM}", "cites": ["[{key}]"]}}]',
    "prose with ids": lambda key: f"Do this:\n\n1. {GOOD_CLAIM} [{key}]\n",
    "prose with titles": lambda key: f"{GOOD_CLAIM} [PostgreSQL replica, fallen behind, Step 1]",
    "unicode brackets": lambda key: f"- {GOOD_CLAIM} 【PostgreSQL replica, fallen behind, Step 1】",
    "citation in the text": lambda key: (
        f'{{"answerable": true, "claims": [{{"text": "{GOOD_CLAIM} [{key}]", "cites": []}}]}}'
    ),
}


@pytest.mark.parametrize("write", READABLE.values(), ids=READABLE.keys())
async def test_a_right_answer_in_a_wrong_shape_is_read(
    bench: Bench, model: ScriptedModel, write: Callable[[str], str]
) -> None:
    async def script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await text_script(write(call.ids[1]))(call, writer)

    model.scripts = [script]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded"]) == ("full", False)
    assert [claim["text"] for claim in answer["claims"]] == [GOOD_CLAIM]
    assert [citation["step"] for citation in answer["claims"][0]["citations"]] == [1]


async def test_no_json_is_asked_for_once_more(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [text_script("Sure, happy to help."), GOOD]
    answer = await ask(await bench.answerer())
    assert answer["mode"] == "full"
    assert len(model.calls) == 2
    assert model.calls[1].request.body["messages"][2]["role"] == "assistant"


async def test_too_many_unsupported_claims_are_asked_for_once_more(bench: Bench, model: ScriptedModel) -> None:
    good = (GOOD_CLAIM, [1])
    model.scripts = [claims_script(good, (REBOOT, [1])), claims_script(good)]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded"], answer["dropped_claims"]) == ("full", False, 0)
    assert len(model.calls) == 2


async def test_a_few_dropped_claims_are_counted_shown_and_not_cached(bench: Bench, model: ScriptedModel) -> None:
    """Pitfall 24, and 27 as it concerns claims: one poisoned claim does not fail the others."""
    model.scripts = [
        claims_script(
            (GOOD_CLAIM, [1]),
            (REBOOT, [1]),
            ("Do not drop the slot while the standby needs it.", [2]),
            ("Set `max_slot_wal_keep_size` to 200GB.", [3]),
        )
    ]
    answerer = await bench.answerer()
    first = await ask(answerer)
    second = await ask(answerer)
    assert (first["mode"], first["degraded_reason"], first["dropped_claims"]) == ("full", "claims_dropped", 1)
    assert len(first["claims"]) == 3
    assert second["mode"] == "full"
    assert len(model.calls) == 2


async def test_claims_that_led_to_excerpts_are_counted(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [claims_script((GOOD_CLAIM, [1]), (REBOOT, [1]), (REBOOT, [2]))]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded_reason"], answer["dropped_claims"]) == ("excerpts", "llm_bad_output", 2)


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
        content = json.dumps({"answerable": True, "claims": [{"text": GOOD_CLAIM, "cites": [call.ids[1]]}]})
        body: dict[str, Any] = {
            "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]
        }
        respond(writer, json.dumps(body).encode())

    model.scripts = [whole]
    answer = await ask(await bench.answerer())
    assert answer["mode"] == "full"


async def test_an_answer_cut_by_the_token_limit_is_marked(bench: Bench, model: ScriptedModel) -> None:
    async def cut(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        text = json.dumps({"answerable": True, "claims": [{"text": GOOD_CLAIM, "cites": [call.ids[1]]}]})
        await text_script(text[:-2] + ', {"text": "Do not dr', finish="length")(call, writer)

    model.scripts = [cut]
    answer = await ask(await bench.answerer())
    assert (answer["mode"], answer["degraded_reason"]) == ("full", "llm_truncated")
    assert [claim["text"] for claim in answer["claims"]] == [GOOD_CLAIM]


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


async def test_claims_whose_json_breaks_off_are_shown_as_not_all(bench: Bench, model: ScriptedModel) -> None:
    async def half(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        claim = json.dumps({"text": "Measure the lag on the standby.", "cites": [call.ids[1]]})
        await text_script('{"answerable": true, "claims": [' + claim + ', {"text": "Then ru')(call, writer)

    model.scripts = [half]
    answerer = await bench.answerer()
    response = await answerer.ask(AskRequest(question="How do I recover the replica?"))
    assert (response.mode, response.degraded_reason) == ("full", "llm_truncated")
    assert [claim.text for claim in response.claims] == ["Measure the lag on the standby."]
    assert (await answerer.ask(AskRequest(question="How do I recover the replica?"))).mode == "full", "it is not kept"
