"""What OpenAI-compatible servers do beyond the documentation: each over real HTTP, through the real adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from answerer_bench import HandClock
from answerer_servers import ModelCall, Script, ScriptedModel, begin_stream, respond, status_script
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from cairn_answerer.adapters.completions import Silence
from cairn_answerer.adapters.openai_model import OpenAIModel
from cairn_answerer.dialects import Experience, Trust
from cairn_answerer.errors import BadOutput, ModelFailure, RefusedByModelServer, RetryableFailure
from cairn_answerer.ports import Completion, Message
from cairn_answerer.thinking import Spoken
from cairn_shared.http import open_client
from cairn_shared.openai import Endpoint

SAID = '{"answerable": true}'
THOUGHT = 'Is it covered? {"answerable": false} No, wait.'
MESSAGES = [Message("system", "Only JSON."), Message("user", "What now?")]
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


class Heard:
    """A reader that keeps what counts."""

    usable = False

    def __init__(self) -> None:
        self.text = ""
        self.restarts = 0

    def restart(self) -> None:
        self.text, self.restarts = "", self.restarts + 1

    def feed(self, text: str) -> bool:
        self.text += text
        return True


class Provider:
    """The adapter in front of a scripted server, with time by hand."""

    def __init__(self, server: ScriptedModel, model: OpenAIModel, clock: HandClock) -> None:
        self.server, self.model, self.clock = server, model, clock
        self.heard = Heard()

    async def ask(self, *scripts: Script, seconds: float = 5.0) -> Completion:
        self.server.scripts = list(scripts)
        self.heard = Heard()
        return await self.model.attempt(MESSAGES, self.heard, seconds=seconds, schema=SCHEMA)

    def asked(self) -> list[dict[str, Any]]:
        """The bodies since the last look."""
        bodies = [call.request.body for call in self.server.calls]
        self.server.calls.clear()
        return bodies


@asynccontextmanager
async def provided(
    server: ScriptedModel,
    *,
    path: str = "/v1",
    header: str | None = None,
    first: float | None = None,
    between: float = 2.0,
) -> AsyncIterator[Provider]:
    clock = HandClock()
    place = Endpoint.of(f"{server.url}{path}", header)
    async with open_client(f"{place.address}/", 5.0) as client:
        model = OpenAIModel(
            client,
            place,
            Experience(clock, Trust(first=60.0, longest=200.0)),
            model="m",
            api_key=SecretStr("sk-secret"),
            max_tokens=500,
            temperature=0.1,
            silence=Silence(first, between),
        )
        yield Provider(server, model, clock)


@pytest.fixture
async def provider(model: ScriptedModel) -> AsyncIterator[Provider]:
    async with provided(model) as provider:
        yield provider


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def sse(*events: object, end: str = "\n\n", head: str = "") -> bytes:
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}{end}" for event in events]
    return (head + "".join(lines)).encode()


def raw(body: bytes, *, kind: str = "text/event-stream", cut: Sequence[int] = ()) -> Script:
    """`body`, in pieces that end at `cut`."""

    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode())
        for start, end in zip((0, *cut), (*cut, len(body)), strict=True):
            writer.write(body[start:end])
            await writer.drain()
            await asyncio.sleep(0.002)

    return run


def whole(content: object, finish: str = "stop", **message: Any) -> Script:
    body = {"choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}]}
    return raw(json.dumps(body).encode(), kind="application/json")


SPOKEN = (chunk(content=SAID[:9]), chunk(content=SAID[9:]))
STOP = chunk("stop")
USAGE = {"total_tokens": 7}
THOUGHT_ALOUD = f"<think>{THOUGHT}</think>\n\n{SAID}"

ODD: dict[str, Script] = {
    "reasoning_content, DeepSeek": raw(
        sse(chunk(reasoning_content=THOUGHT), chunk(reasoning_content=".", content=SAID), STOP, "[DONE]")
    ),
    "reasoning, vLLM and OpenRouter": raw(sse(chunk(reasoning=THOUGHT, content=None), *SPOKEN, STOP, "[DONE]")),
    "think tags": raw(sse(chunk(content=THOUGHT_ALOUD), STOP, "[DONE]")),
    "think tags letter by letter": raw(sse(*(chunk(content=letter) for letter in THOUGHT_ALOUD), STOP, "[DONE]")),
    "opening tag in the template": raw(
        sse(*(chunk(content=part) for part in (THOUGHT, "</thi", "nk>", SAID)), STOP, "[DONE]")
    ),
    "another pair of tags": raw(sse(chunk(content=f"[THINK]{THOUGHT}[/THINK]{SAID}"), STOP)),
    "whole, with reasoning_content": whole(SAID, reasoning_content=THOUGHT),
    "whole, with think tags": whole(THOUGHT_ALOUD),
    "whole, thought and text as parts": whole(
        [
            {"type": "thinking", "thinking": THOUGHT},
            {"type": "reasoning", "text": THOUGHT},
            {"type": "text", "text": SAID},
        ]
    ),
    "usage: choices empty": raw(sse(*SPOKEN, STOP, {"choices": [], "usage": USAGE}, "[DONE]")),
    "usage: choices null": raw(sse(*SPOKEN, STOP, {"choices": None, "usage": USAGE}, "[DONE]")),
    "usage: choices absent": raw(sse(*SPOKEN, STOP, {"usage": USAGE}, "[DONE]")),
    "Azure: filters first, without delta": raw(
        sse(
            {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]},
            *SPOKEN,
            STOP,
            "[DONE]",
        )
    ),
    "delta null": raw(sse({"choices": [{"delta": None}]}, *SPOKEN, STOP)),
    "no [DONE]": raw(sse(*SPOKEN, STOP)),
    "[DONE] without finish_reason": raw(sse(*SPOKEN, "[DONE]")),
    "the end without a blank line": raw(sse(*SPOKEN, STOP).rstrip()),
    "events without blank lines": raw(sse(*SPOKEN, STOP, "[DONE]", end="\n")),
    "empty data": raw(b"data:\n\ndata: \n\n" + sse(*SPOKEN, STOP, "[DONE]")),
    "data over several lines": raw(sse(json.dumps(chunk("stop", content=SAID), indent=1).replace("\n", "\ndata: "))),
    "no blank after the colon": raw(sse(*SPOKEN, STOP, "[DONE]").replace(b"data: ", b"data:")),
    "CR only": raw(sse(*SPOKEN, STOP, "[DONE]", end="\r\r")),
    "CRLF, cut between the two": raw(body := sse(*SPOKEN, STOP, "[DONE]", end="\r\n\r\n"), cut=[body.index(b"\r") + 1]),
    "comments, OpenRouter": raw(b": OPENROUTER PROCESSING\n\n" + sse(*SPOKEN, STOP, "[DONE]", head=": ping\n")),
    "byte order mark": raw(b"\xef\xbb\xbf" + sse(*SPOKEN, STOP, "[DONE]")),
    "ids, names and retry times": raw(b"id: 7\nevent: chunk\nretry: 9\n" + sse(*SPOKEN, STOP, "[DONE]")),
    "separators that are no line ends": raw(
        sse(json.dumps(chunk(id_="\u2028\x85", content=SAID), ensure_ascii=False), STOP)
    ),
    "letters cut in the middle": raw(
        body := sse(json.dumps(chunk(reasoning="größer →", content=SAID), ensure_ascii=False), STOP),
        cut=[body.index("ö".encode()) + 1, body.index("→".encode()) + 2],
    ),
    "a whole answer to a streamed request": whole(SAID),
    "text instead of a message": raw(
        json.dumps({"choices": [{"text": SAID, "finish_reason": "stop"}]}).encode(), kind="application/json"
    ),
}


@pytest.mark.parametrize("script", ODD.values(), ids=ODD)
async def test_what_the_model_said_is_its_answer_however_it_is_sent(provider: Provider, script: Script) -> None:
    completion = await provider.ask(script)
    assert (completion.text.strip(), completion.truncated) == (SAID, False)
    assert provider.heard.text.strip() == SAID
    assert len(provider.asked()) == 1


FAILED: dict[str, tuple[Script, type[ModelFailure], str]] = {
    "only thought, unclosed": (
        raw(sse(chunk(content=f"<think>{THOUGHT}"), chunk("length"))),
        ModelFailure,
        "llm_truncated",
    ),
    "only thought, hidden": (whole("", "length", reasoning_content=THOUGHT), ModelFailure, "llm_truncated"),
    "filtered": (raw(sse(chunk("content_filter"), "[DONE]")), ModelFailure, "llm_truncated"),
    "no choices at all": (raw(sse({"usage": USAGE}, "[DONE]")), BadOutput, "llm_bad_output"),
    "no JSON": (raw(sse("hello", "[DONE]")), BadOutput, "llm_bad_output"),
    "cut within an event": (raw(sse(*SPOKEN)[:-20]), RetryableFailure, "llm_unreachable"),
    "cut behind an event": (raw(sse(*SPOKEN)), RetryableFailure, "llm_unreachable"),
    "an error with status 200": (
        raw(b'{"error": {"message": "Provider returned error", "code": 429}}', kind="application/json"),
        RetryableFailure,
        "llm_rate_limited",
    ),
    "an error in the stream": (raw(sse(*SPOKEN, {"error": "overloaded"})), RetryableFailure, "llm_error"),
    "a wrong key": (status_script(401), RefusedByModelServer, "llm_refused_key"),
}


@pytest.mark.parametrize(("script", "error", "reason"), FAILED.values(), ids=FAILED)
async def test_what_is_no_answer_is_a_failure_with_its_reason(
    provider: Provider, script: Script, error: type[ModelFailure], reason: str
) -> None:
    with pytest.raises(error) as failure:
        await provider.ask(script)
    assert failure.value.reason == reason
    assert len(provider.asked()) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "Tue, 01 Dec 2026 06:00:30 GMT", "date": "Tue, 01 Dec 2026 06:00:00 GMT"}, 30.0),
        ({"retry_after": "Tue, 01 Dec 2026 05:00:00 GMT", "date": "Tue, 01 Dec 2026 06:00:00 GMT"}, 0.0),
        ({"retry_after": "Tue, 01 Dec 2026 06:00:30 GMT"}, None),
        ({"retry_after": "soon", "date": "Tue, 01 Dec 2026 06:00:00 GMT"}, None),
    ],
)
async def test_retry_after_is_seconds_or_a_date(
    provider: Provider, headers: dict[str, str], seconds: float | None
) -> None:
    with pytest.raises(RetryableFailure) as failure:
        await provider.ask(status_script(429, **headers))
    assert failure.value.retry_after == seconds


class TestThinking:
    async def test_a_thought_without_a_beginning_is_taken_back_once_and_then_waited_for(
        self, provider: Provider
    ) -> None:
        script = raw(sse(chunk(content=THOUGHT), chunk(content=f"</think>{SAID}"), STOP))
        await provider.ask(script)
        assert provider.heard.restarts == 2, "of the attempt, and of the thought"
        await provider.ask(script)
        assert (provider.heard.restarts, provider.heard.text) == (1, SAID)
        completion = await provider.ask(raw(sse(*SPOKEN, STOP)))
        assert (completion.text, provider.heard.text) == (SAID, SAID), "and where there is none, nothing is lost"

    @given(
        parts=st.lists(st.tuples(st.booleans(), st.text(alphabet="<>/think[]TH {}", max_size=12)), max_size=5),
        cuts=st.lists(st.integers(0, 120), max_size=8),
        unclosed=st.booleans(),
    )
    def test_no_way_of_cutting_changes_what_is_said(
        self, parts: list[tuple[bool, str]], cuts: list[int], unclosed: bool
    ) -> None:
        written = "".join(f"<think>{text}</think>" if hidden else text for hidden, text in parts)
        written += "<think>never" if unclosed else ""
        one, many = Heard(), Heard()
        at_once, in_pieces = Spoken(one), Spoken(many)
        at_once.feed(written)
        at_once.finish()
        ends = sorted({min(cut, len(written)) for cut in cuts} | {len(written)})
        for start, end in zip([0, *ends], ends, strict=False):
            in_pieces.feed(written[start:end])
        in_pieces.finish()
        assert many.text == one.text == at_once.text == in_pieces.text
        assert "never" not in one.text


async def silent(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(sse(chunk(role="assistant", content="")))
    await writer.drain()
    await asyncio.sleep(30)


async def slow_to_begin(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(sse(chunk(role="assistant", content="")) + b": still loading\n\n")
    await writer.drain()
    await asyncio.sleep(0.5)
    writer.write(sse(*SPOKEN, STOP, "[DONE]"))


async def stuck(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(sse(SPOKEN[0]))
    await writer.drain()
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("script", "first", "said"),
    [(slow_to_begin, None, True), (slow_to_begin, 0.2, False), (silent, 0.2, False), (stuck, None, False)],
)
async def test_the_first_word_has_another_limit_than_those_after_it(
    model: ScriptedModel, script: Script, first: float | None, said: bool
) -> None:
    begun = asyncio.get_running_loop().time()
    async with provided(model, first=first, between=0.2) as provider:
        if said:
            assert (await provider.ask(script)).text == SAID
        else:
            with pytest.raises(RetryableFailure) as failure:
                await provider.ask(script)
            assert failure.value.reason == "llm_timeout"
    assert asyncio.get_running_loop().time() - begun < 2.0


def refusing(status: int, refuses: Callable[[dict[str, Any]], bool], message: str = "no") -> Script:
    """A server that answers `status` to a body that it does not like."""

    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        body = call.request.body
        if refuses(body):
            respond(writer, json.dumps({"error": {"message": message}}).encode(), status=status)
        else:
            script = raw(sse(*SPOKEN, STOP, "[DONE]")) if body["stream"] else whole(SAID)
            await script(call, writer)

    return run


def schema_asked(body: dict[str, Any]) -> bool:
    return "response_format" in body and body["response_format"]["type"] == "json_schema"


def any_format(body: dict[str, Any]) -> bool:
    return "response_format" in body


def streamed(body: dict[str, Any]) -> bool:
    return bool(body["stream"])


def with_system(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


REFUSALS: dict[str, tuple[int, Callable[[dict[str, Any]], bool], str, int]] = {
    "json_schema, 400": (400, schema_asked, "response_format.type must be json_object", 2),
    "any format, 422": (422, any_format, "extra fields not permitted", 3),
    "any format, 404": (404, any_format, "No endpoints found that support it", 2),
    "any format, 500": (500, any_format, "Internal Server Error", 2),
    "stream, 404": (404, streamed, "not found", 2),
    "stream, 501": (501, streamed, "not implemented", 2),
    "system, 400": (400, with_system, "System role not supported", 2),
    "system, 500": (500, with_system, "Internal Server Error", 2),
    "temperature, 400": (400, lambda body: "temperature" in body, "'temperature' does not support 0.1", 2),
    "max_tokens, 400": (400, lambda body: "max_tokens" in body, "use 'max_completion_tokens' instead", 2),
}


@pytest.mark.parametrize(("status", "refuses", "message", "calls"), REFUSALS.values(), ids=REFUSALS)
async def test_a_server_that_takes_less_is_asked_for_less_until_all_is_tried_again(
    provider: Provider, status: int, refuses: Callable[[dict[str, Any]], bool], message: str, calls: int
) -> None:
    server = refusing(status, refuses, message)
    assert (await provider.ask(server)).text == SAID
    first = provider.asked()
    assert len(first) == calls
    assert all("Only JSON." in str(body["messages"]) for body in first), "the rules are never left out"
    for _ in range(2):
        await provider.ask(server)
    provider.asked()
    await provider.ask(server)
    assert len(provider.asked()) == 1, "what works is kept to"
    await provider.clock.sleep(61)
    await provider.ask(server)
    assert len(provider.asked()) == 2, "all is tried again, and then at once what worked before"
    await provider.clock.sleep(61)
    await provider.ask(server)
    assert len(provider.asked()) == 1, "it is believed longer now"
    await provider.clock.sleep(201)
    await provider.ask(raw(sse(*SPOKEN, STOP)))
    await provider.ask(raw(sse(*SPOKEN, STOP)))
    assert [schema_asked(body) and streamed(body) for body in provider.asked()] == [True, True], "it was updated"


async def test_a_whim_costs_one_answer_its_schema(provider: Provider) -> None:
    good = raw(sse(*SPOKEN, STOP))
    for status in (400, 500, 404):
        await provider.ask(status_script(status), good)
        assert len(provider.asked()) == 2
        await provider.clock.sleep(61)
        await provider.ask(good)
        assert schema_asked(provider.asked()[0])


async def test_a_server_that_is_down_is_asked_plainly_once(provider: Provider) -> None:
    for calls in (2, 1, 1):
        with pytest.raises(RetryableFailure):
            await provider.ask(status_script(500))
        assert len(provider.asked()) == calls
    for status in (503, 504, 429):
        with pytest.raises(RetryableFailure):
            await provider.ask(status_script(status))
        assert len(provider.asked()) == 1, "that is load"


@pytest.mark.parametrize(
    ("path", "header", "sent"),
    [
        ("/v1", None, ("/v1/chat/completions", "authorization", "Bearer sk-secret")),
        ("/v1/", None, ("/v1/chat/completions", "authorization", "Bearer sk-secret")),
        (
            "/openai/deployments/gpt?api-version=2024-10-21",
            None,
            ("/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "api-key", "sk-secret"),
        ),
        (
            "/openai/deployments/gpt?api-version=2024-10-21",
            "Authorization",
            (
                "/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
                "authorization",
                "Bearer sk-secret",
            ),
        ),
        ("/v1", "X-Api-Key", ("/v1/chat/completions", "x-api-key", "sk-secret")),
    ],
)
async def test_the_address_keeps_its_query_and_the_key_has_its_header(
    model: ScriptedModel, path: str, header: str | None, sent: tuple[str, str, str]
) -> None:
    async with provided(model, path=path, header=header) as provider:
        await provider.ask(whole(SAID))
        request = provider.server.requests[-1]
    # The server of these tests lowers what it reads of headers.
    assert (request.path, request.headers[sent[1]]) == (sent[0], sent[2].lower())
    assert len({"authorization", "api-key", "x-api-key"} & set(request.headers)) == 1
