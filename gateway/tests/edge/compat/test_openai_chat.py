"""`/v1/chat/completions` as the official client sees it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

if TYPE_CHECKING:
    from gateway.tests.edge.compat.conftest import ConnectAi
    from gateway.tests.edge.conftest import Upstream

Json = dict[str, Any]
AS_JSON = {"content-type": "application/json"}
USER: Any = {"role": "user", "content": "Redis is down. What now?"}


def sse(event: str, data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()


def told(answer: Json) -> list[bytes]:
    """The answer as the answerer streams it."""
    return [
        sse("sources", {"sources": answer["sources"]}),
        *(sse("claim", claim) for claim in answer["claims"]),
        b": keep-alive\n\n",
        sse("done", answer),
    ]


async def streamed(ai: openai.AsyncOpenAI, **more: Any) -> list[ChatCompletionChunk]:
    stream = await ai.chat.completions.create(model="cairn", messages=[USER], stream=True, **more)
    return [chunk async for chunk in stream]


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


async def test_a_question_is_answered_with_its_citations_and_what_they_rest_on(
    ai: openai.AsyncOpenAI, upstream: Upstream, answer: Json
) -> None:
    upstream.answer = {**answer, "degraded": True, "degraded_reason": "claims_dropped", "dropped_claims": 1}
    completion = await ai.chat.completions.create(model="cairn", messages=[USER])
    (choice,) = completion.choices
    text = choice.message.content or ""
    assert (choice.message.role, text.partition("\n\n---\n\n")[0]) == ("assistant", answer["answer"])
    assert (
        "Not the best possible answer: claims dropped (mode full).\n\n1 part of the model's plan did not exist and was left out."
        in text
    )
    assert "- Step 2 of Redis, down\n  - [changes state] kubectl -n <ns> rollout restart deploy/redis\n" in text
    assert "[Redis, down, Step 2]" in (choice.message.content or "")
    assert (choice.finish_reason, choice.index, completion.model, completion.object) == (
        "stop",
        0,
        "cairn",
        "chat.completion",
    )
    assert completion.id.startswith("chatcmpl-")
    assert completion.created > 1_700_000_000
    usage = completion.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (6, -(-len(text) // 4))
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    cairn = (completion.model_extra or {})["cairn"]
    assert cairn["question"] == USER["content"]
    assert (cairn["mode"], cairn["degraded_reason"], cairn["dropped_claims"]) == ("full", "claims_dropped", 1)
    assert [claim["citations"][0]["step"] for claim in cairn["claims"] if claim["citations"]] == [2, 3, 1]
    assert cairn["sources"][0]["commands"][0]["safety"] == "changes state"
    assert upstream.asked[0]["stream"] is False


async def test_a_stream_gives_the_same_text_claim_by_claim(
    ai: openai.AsyncOpenAI, upstream: Upstream, answer: Json
) -> None:
    upstream.frames = told(answer)
    chunks = await streamed(ai)
    upstream.answer = answer
    whole = await ai.chat.completions.create(model="cairn", messages=[USER])
    assert text_of(chunks) == whole.choices[0].message.content
    assert text_of(chunks).startswith(answer["answer"] + "\n\n---\n\nCommands of the cited steps:")
    assert (chunks[0].choices[0].delta.role, chunks[0].choices[0].delta.content) == ("assistant", "")
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces[0] == "> *In the model's words:* Begin with the pod."
    assert pieces[1] == "\n\n**[Redis, down, Step 2]**\n\nRestart the pod."
    assert pieces[2].startswith("\n\n**[Redis, down, Step 3]**\n\n```sh\n")
    assert pieces[3].startswith("\n\nReported by events")
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    cairn = (chunks[-1].model_extra or {})["cairn"]
    assert (cairn["mode"], len(cairn["claims"]), len(cairn["sources"])) == ("full", 4, 4)
    assert all("cairn" not in (chunk.model_extra or {}) for chunk in chunks[:-1])
    assert upstream.asked[0]["stream"] is True


async def test_usage_comes_in_a_chunk_of_its_own_where_it_is_wanted(
    client: httpx.AsyncClient, ai: openai.AsyncOpenAI, upstream: Upstream, answer: Json
) -> None:
    upstream.frames = told(answer)
    assert all(chunk.usage is None for chunk in await streamed(ai))
    chunks = await streamed(ai, stream_options={"include_usage": True})
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == -(-len(text_of(chunks)) // 4)
    assert all(chunk.usage is None for chunk in chunks[:-1])
    raw = await client.post("/v1/chat/completions", json={"model": "cairn", "messages": [USER], "stream": True})
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert raw.text.endswith("\n\ndata: [DONE]\n\n")
    assert '"usage"' not in raw.text


async def test_a_refusal_is_an_answer(ai: openai.AsyncOpenAI, upstream: Upstream) -> None:
    near = {"runbook_id": "redis-down", "title": "Redis, down", "step": 2, "why": "Look at the log."}
    refused = {"answer": "I don't have a runbook covering that", "mode": "refused"}
    for upstream.answer, below in (
        (refused, ""),
        (
            {**refused, "nearest": [near]},
            "\n\n---\n\nNearest runbooks, judged not to answer this:\n\n- Redis, down (redis-down), step 2: Look at the log.",
        ),
    ):
        completion = await ai.chat.completions.create(model="cairn", messages=[USER])
        assert completion.choices[0].message.content == "I don't have a runbook covering that" + below
    cairn = (completion.model_extra or {})["cairn"]
    assert (cairn["mode"], cairn["nearest"][0]["runbook_id"]) == ("refused", "redis-down")


async def test_without_an_answerer_the_answer_says_so_in_both_forms(ai: openai.AsyncOpenAI, upstream: Upstream) -> None:
    upstream.status = 503
    completion = await ai.chat.completions.create(model="cairn", messages=[USER])
    assert "cannot answer right now" in (completion.choices[0].message.content or "")
    assert (completion.model_extra or {})["cairn"]["mode"] == "unavailable"
    chunks = await streamed(ai)
    assert "cannot answer right now" in text_of(chunks)
    assert (chunks[-1].model_extra or {})["cairn"]["mode"] == "unavailable"


async def test_a_stream_that_breaks_off_is_an_error_not_an_end(
    ai: openai.AsyncOpenAI, upstream: Upstream, answer: Json
) -> None:
    for last, message in (
        ([], "broke off"),
        ([sse("error", {"detail": "wait_for: no such event", "field": "wait_for"})], "no such event"),
        ([sse("done", {"nonsense": True})], "Something went wrong"),
    ):
        upstream.frames = [*told(answer)[:2], *last]
        with pytest.raises(openai.APIError, match=message):
            await streamed(ai)


async def test_parameters_of_sampling_are_accepted(ai: openai.AsyncOpenAI, upstream: Upstream) -> None:
    completion = await ai.chat.completions.create(
        model="cairn",
        messages=[{"role": "system", "content": "Answer as a pirate."}, USER],
        temperature=0.2,
        max_tokens=5,
        max_completion_tokens=5,
        top_p=0.5,
        seed=7,
        stop=["x"],
        n=1,
        user="u",
        tool_choice="auto",
        response_format={"type": "text"},
        extra_body={"something_new": {"a": 1}},
    )
    assert completion.choices[0].message.content == "Restart it."
    assert upstream.asked[0]["question"] == USER["content"]


async def test_what_ask_takes_besides_is_taken_here(ai: openai.AsyncOpenAI, upstream: Upstream) -> None:
    options = {"k": 3, "alert": {"name": "RedisDown", "labels": {"pod": "redis-0"}}, "filters": {"service": "redis"}}
    await ai.chat.completions.create(model="cairn", messages=[USER], extra_body={"cairn": options})
    asked = upstream.asked[0]
    assert (asked["k"], asked["alert"]["labels"], asked["filters"]["service"]) == (3, {"pod": "redis-0"}, "redis")


async def test_a_question_takes_with_it_what_was_said_before(ai: openai.AsyncOpenAI, upstream: Upstream) -> None:
    completion = await ai.chat.completions.create(
        model="cairn",
        messages=[
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": "How do I see whether a replica lags?"},
            {"role": "assistant", "content": "Look. [Replica lag, Step 1]"},
            {"role": "user", "content": [{"type": "text", "text": "and how do I fix it?"}]},
        ],
    )
    assert upstream.asked[0]["question"] == "and how do I fix it?"
    assert upstream.asked[0]["context"] == {
        "question": "How do I see whether a replica lags?",
        "cited": [{"runbook_id": None, "title": "Replica lag", "steps": [1]}],
    }
    assert (completion.model_extra or {})["cairn"]["follows"] is False
    told = {"question": "before", "cited": [{"runbook_id": "redis"}]}
    messages: list[Any] = [USER, {"role": "assistant", "content": "So."}, USER]
    await ai.chat.completions.create(model="cairn", messages=messages, extra_body={"cairn": {"context": told}})
    assert upstream.asked[1]["context"]["question"] == "before", "what a client says itself counts"


REFUSED: list[tuple[Json, str, str]] = [
    ({"n": 2}, "n", "one answer"),
    ({"logprobs": True}, "logprobs", "leave it out"),
    ({"modalities": ["text", "audio"]}, "modalities", "text only"),
    ({"response_format": {"type": "json_object"}}, "response_format", "`cairn`"),
    ({"tool_choice": "required"}, "tool_choice", "calls no tools"),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "calls no tools"),
    ({"messages": []}, "messages", "at least 1 item"),
    ({"messages": [{"role": "system", "content": "x"}]}, "messages", "role `user`"),
    ({"messages": [{"role": "user", "content": " "}]}, "messages.0.content", "no question"),
    ({"messages": [{"role": "user", "content": "a\0b"}]}, "messages.0.content", "NUL"),
    ({"messages": [{"role": "user", "content": "x" * 40_000}]}, "messages.0.content", "at most 32768"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "\ud800"}]}]},
        "messages.0.content.0.text",
        "half a surrogate pair",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages.0.content.0",
        "`text`",
    ),
    ({"messages": [{"role": "narrator", "content": "x"}]}, "messages.0.role", "user"),
    ({"cairn": {"k": 99}}, "cairn.k", "less than or equal to 20"),
    ({"cairn": {"question": "x"}}, "cairn.question", "request itself"),
    ({"cairn": {"nonsense": 1}}, "cairn.nonsense", "not permitted"),
    ({"stream": "perhaps"}, "stream", "boolean"),
]


async def test_what_is_wrong_or_not_supported_is_refused_by_name(client: httpx.AsyncClient, upstream: Upstream) -> None:
    for change, param, message in REFUSED:
        body = json.dumps({"model": "cairn", "messages": [USER], **change}).encode()
        refused = await client.post("/v1/chat/completions", content=body, headers=AS_JSON)
        assert (refused.status_code, refused.headers["content-type"]) == (400, "application/json"), refused.text
        assert set(refused.json()) == {"error"}
        error = refused.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, None), error
        assert message in error["message"], error
    assert upstream.asked == []


async def test_a_question_that_the_answerer_refuses_is_a_bad_request_in_both_forms(
    ai: openai.AsyncOpenAI, upstream: Upstream
) -> None:
    upstream.refusal = (422, {"detail": "wait_for: no such event", "field": "wait_for"})
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            await ai.chat.completions.create(model="cairn", messages=[USER], stream=stream)
        assert (refused.value.param, refused.value.type) == ("wait_for", "invalid_request_error")
    upstream.refusal = None
    upstream.frames = [sse("error", {"detail": "wait_for: no such event", "field": "wait_for"})]
    with pytest.raises(openai.BadRequestError, match="no such event"):
        await streamed(ai)


async def test_errors_of_every_origin_have_openais_shape(
    client: httpx.AsyncClient, ai: openai.AsyncOpenAI, connect_ai: ConnectAi
) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await ai.chat.completions.create(model="gpt-4o", messages=[USER])
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    async with connect_ai(client, api_key="cairn_wrong") as stranger:
        with pytest.raises(openai.AuthenticationError) as refused:
            await stranger.chat.completions.create(model="cairn", messages=[USER])
        assert (refused.value.code, refused.value.type) == ("invalid_api_key", "invalid_request_error")
        assert refused.value.response.headers["www-authenticate"] == "Bearer"
        assert refused.value.request_id
    with pytest.raises(openai.NotFoundError) as nowhere:
        await ai.completions.create(model="cairn", prompt="x")
    assert nowhere.value.code == "unknown_url"
    broken = await client.post("/v1/chat/completions", content=b"{", headers=AS_JSON)
    assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
    large = await client.post("/v1/chat/completions", content=b"x" * (4 * 1024 * 1024 + 1))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    wrong_way = await client.get("/v1/chat/completions")
    assert (wrong_way.status_code, set(wrong_way.json())) == (405, {"error"})


async def test_other_routes_keep_their_own_errors(client: httpx.AsyncClient) -> None:
    problem = await client.post("/ask", content=b"{", headers=AS_JSON)
    assert (problem.status_code, problem.headers["content-type"]) == (400, "application/problem+json")
    for path in ("/v1/logs", "/v1/traces"):
        other = await client.post(path, content=b"{", headers=AS_JSON)
        assert other.status_code in {400, 404}
        assert "error" not in other.json(), path


async def test_a_client_that_leaves_cancels_its_question_in_both_forms(
    ai: openai.AsyncOpenAI, upstream: Upstream, answer: Json
) -> None:
    upstream.frames = told(answer)[:2]
    upstream.endless = True
    stream = await ai.chat.completions.create(model="cairn", messages=[USER], stream=True)
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    assert not upstream.stream_cancelled.is_set()
    await stream.close()
    async with asyncio.timeout(5):
        await upstream.stream_cancelled.wait()
    upstream.hangs = True
    asked = asyncio.create_task(ai.chat.completions.create(model="cairn", messages=[USER]))
    async with asyncio.timeout(5):
        await upstream.hanging.wait()
    asked.cancel()
    async with asyncio.timeout(5):
        await upstream.left.wait()
