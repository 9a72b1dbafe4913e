"""Conversations, chunks, vectors and errors: translated without a gateway."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.chat import ChatCompletionChunk

from cairn_answerer import rendering
from cairn_gateway.compat.chunks import END, WAITING, ChunkWriter
from cairn_gateway.compat.conversation import ChatMessage, question_of
from cairn_gateway.compat.embeddings import EmbeddingsRequest, check_model, models_of, texts_of, to_embeddings
from cairn_gateway.compat.errors import error_of
from cairn_gateway.routes.openai_errors import OpenAIErrors
from cairn_gateway.sse import Frame
from cairn_shared.api.ask import Claim
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

Json = dict[str, Any]
NOTES = (
    "\n\n---\n\nCommands of the cited steps:\n\n- Step 2 of Redis, down\n"
    "  - [changes state] kubectl -n <ns> rollout restart deploy/redis\n  - [fill in] <ns>"
)
"""What stands below the fixture's answer."""


def conversation(*said: str) -> list[ChatMessage]:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return [ChatMessage(role=roles[number % 2], content=text) for number, text in enumerate(said)]


def test_a_question_comes_after_the_last_one_and_what_its_answer_cites() -> None:
    answer = (
        "Restart it. [Redis, down (MISCONF), Step 2] [Redis, down (MISCONF), Step 3]\n\n"
        "[commit: Step 9 is new, 2026-11-20] [1] [Other, Step x] Then wait. [Waiting [now], Step 1]"
    )
    asked = question_of(conversation("mongo?", "[Mongo, Step 1]", "redis is down", answer, "is postgres well?"))
    assert (asked.text, asked.field) == ("is postgres well?", "messages.4.content")
    assert asked.earlier is not None
    assert asked.earlier.question == "redis is down"
    assert [(one.title, one.steps) for one in asked.earlier.cited] == [
        ("Redis, down (MISCONF)", [2, 3]),
        ("Waiting [now]", [1]),
    ]


def test_what_only_followed_is_not_what_led_to_the_page() -> None:
    redis, mongo = "Do. [Redis, Step 1]", "See. [Mongo, Step 1] [Redis, Step 2]"
    said = [
        "mongo?",
        mongo,
        "redis is down",
        redis,
        "and then?",
        redis,
        "who won?",
        "I don't have a runbook",
        "and now?",
    ]
    earlier = question_of(conversation(*said)).earlier
    assert earlier is not None
    assert (earlier.question, [one.title for one in earlier.cited]) == ("redis is down", ["Redis"])


@pytest.mark.parametrize(
    ("said", "question"),
    [
        (("why?",), None),
        (("x" * 5000, "", "why?"), "x" * 600),
        (("redis\0 is down", "So.", "why?"), "redis  is down"),
        (("redis is down", "So.", "  ", "What?", "why?"), "redis is down"),
    ],
)
def test_what_was_asked_before_is_cut_and_may_be_nothing(said: tuple[str, ...], question: str | None) -> None:
    earlier = question_of(conversation(*said)).earlier
    assert (earlier and earlier.question) == question


def test_the_last_user_message_is_the_question_whatever_follows() -> None:
    messages = [*conversation("redis is down"), ChatMessage(role="tool", content="42"), ChatMessage(role="assistant")]
    assert question_of(messages).text == "redis is down"
    with pytest.raises(InvalidInput, match="role `user`"):
        question_of([ChatMessage(role="system", content="redis is down")])


def test_parts_of_text_are_joined_and_others_refused() -> None:
    text: Json = {"type": "text", "text": "redis is"}
    message = ChatMessage(role="user", content=[text, {"type": "text", "text": "down"}])
    assert question_of([message]).text == "redis is\ndown"
    seen = ChatMessage(role="user", content=[text, {"type": "input_audio"}])
    with pytest.raises(InvalidInput) as refused:
        question_of([seen])
    assert refused.value.field == "messages.0.content.1"
    earlier = [seen, ChatMessage(role="assistant", content="?"), ChatMessage(role="user", content="why?")]
    asked = question_of(earlier)
    assert asked.text == "why?"
    assert asked.earlier is not None
    assert asked.earlier.question == "redis is"


def told(answer: Json) -> list[Frame]:
    """The answer as the answerer streams it."""
    return [
        Frame.of("sources", {"sources": answer["sources"]}),
        *(Frame.of("claim", claim) for claim in answer["claims"]),
        Frame.of("done", answer),
    ]


def written(frames: list[Frame]) -> tuple[str, list[ChatCompletionChunk], bytes]:
    """(text, chunks as the official client reads them, the last bytes)."""
    writer = ChunkWriter(completion_id="c", created=1, question="q", prompt_tokens=3, include_usage=False)
    parts = [writer.begin(), *(writer.feed(frame) for frame in frames), writer.end()]
    lines = [line for line in b"".join(parts).decode().split("\n\n") if line.startswith("data: {")]
    chunks = [ChatCompletionChunk.model_validate(json.loads(line.removeprefix("data: "))) for line in lines]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return text, chunks, b"".join(parts)


def test_the_parts_of_a_stream_make_up_the_answer(answer: Json) -> None:
    text, chunks, stream = written(told(answer))
    assert text == answer["answer"] + NOTES
    assert stream.endswith(END)
    assert WAITING in stream
    assert [bool(chunk.choices[0].delta.content) for chunk in chunks] == [False, True, True, True, True, True, False]


def test_an_answer_without_claims_comes_whole(answer: Json) -> None:
    excerpts = {**answer, "claims": [], "mode": "excerpts"}
    text, chunks, _ = written(told(excerpts))
    assert (text, len(chunks)) == (answer["answer"] + NOTES, 3)


def test_what_has_its_place_before_what_was_sent_comes_with_the_whole(answer: Json) -> None:
    frames = told(answer)
    del frames[2]
    text, _, _ = written(frames)
    before, after = text.split("**The whole answer, in the order of its runbook:**\n\n")
    assert before.startswith("> *In the model's words:* Begin with the pod.\n\n**[Redis, down, Step 3]**")
    assert after == answer["answer"] + NOTES


def test_after_the_end_nothing_is_written(answer: Json) -> None:
    _, once, stream = written(told(answer))
    _, twice, _ = written([*told(answer), *told(answer)])
    assert len(once) == len(twice)
    assert stream.count(END) == 1


def test_a_chat_is_written_as_the_answerer_writes(answer: Json) -> None:
    claims = [Claim.model_validate(claim) for claim in answer["claims"]]
    assert rendering.answer(claims) == answer["answer"]


MODEL = ModelInfo(
    name="sentence-transformers/all-MiniLM-L6-v2", revision="r", dimension=2, max_tokens=256, special_tokens=2,
    fingerprint="f",
)  # fmt: skip


def request(value: Any, **more: Any) -> EmbeddingsRequest:
    return EmbeddingsRequest(model=MODEL.name, input=value, **more)


def test_vectors_are_given_as_numbers_or_as_the_bytes_themselves() -> None:
    raw = struct.pack("<2f", 0.6, -0.8)
    numbers = to_embeddings(request("x"), MODEL, [raw], 4)
    assert numbers.data[0].embedding == pytest.approx([0.6, -0.8])
    text = to_embeddings(request("x", encoding_format="base64"), MODEL, [raw, raw], 4)
    assert base64.b64decode(str(text.data[1].embedding)) == raw
    assert (text.data[1].index, text.usage.prompt_tokens, text.model) == (1, 4, MODEL.name)


@pytest.mark.parametrize(
    ("value", "field", "message"),
    [
        (None, "input", "a text or a list"),
        ([], "input", "a text or a list"),
        ({"a": 1}, "input", "a text or a list"),
        ([1, 2], "input", "tokens"),
        ([[1, 2], [3]], "input", "tokens"),
        ("  ", "input", "blank"),
        (["a", ""], "input.1", "blank"),
        (["a", 2], "input.1", "no text"),
        (["a", "\ud800"], "input.1", "surrogate"),
        (["a"] * 2049, "input", "more than 2048"),
    ],
)
def test_what_is_no_text_is_refused_by_name(value: Any, field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        texts_of(request(value))
    assert refused.value.field == field
    assert message in refused.value.detail


def test_only_the_model_that_is_there_is_asked_and_only_with_its_own_dimension() -> None:
    check_model(request("x"), MODEL)
    check_model(EmbeddingsRequest(model="all-MiniLM-L6-v2", input="x", dimensions=2), MODEL)
    with pytest.raises(InvalidInput, match="sentence-transformers/all-MiniLM-L6-v2") as unknown:
        check_model(EmbeddingsRequest(model="text-embedding-3-small", input="x"), MODEL)
    assert (unknown.value.status, unknown.value.field) == (404, "model")
    with pytest.raises(InvalidInput, match="dimensions") as other:
        check_model(request("x", dimensions=512), MODEL)
    assert other.value.field == "dimensions"
    assert [model.id for model in models_of(MODEL).data] == ["cairn", MODEL.name]
    assert [model.id for model in models_of(None).data] == ["cairn"]


@pytest.mark.parametrize(
    ("problem", "status", "kind", "param", "code"),
    [
        ({"status": 422, "detail": "d", "field": "n"}, 400, "invalid_request_error", "n", None),
        ({"status": 400, "detail": "d", "field": "body"}, 400, "invalid_request_error", None, None),
        ({"status": 401, "detail": "d"}, 401, "invalid_request_error", None, "invalid_api_key"),
        ({"status": 403, "detail": "d"}, 403, "invalid_request_error", None, "insufficient_permissions"),
        ({"status": 404, "detail": "d", "field": "model"}, 404, "invalid_request_error", "model", "model_not_found"),
        ({"status": 404, "detail": "d"}, 404, "invalid_request_error", None, "unknown_url"),
        ({"status": 429, "detail": "d"}, 429, "rate_limit_error", None, "rate_limit_exceeded"),
        ({"status": 500, "title": "d"}, 500, "server_error", None, None),
        ({"status": 503, "detail": "d"}, 503, "server_error", None, "service_unavailable"),
    ],
)
def test_problems_become_errors(problem: Json, status: int, kind: str, param: str | None, code: str | None) -> None:
    given, body = error_of(problem)
    assert given == status
    assert body.model_dump() == {"error": {"message": "d", "type": kind, "param": param, "code": code}}


async def through(path: str, app: Any) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    await OpenAIErrors(app)({"type": "http", "path": path, "headers": []}, receive, send)
    return sent


async def test_what_nobody_foresaw_is_told_without_its_text() -> None:
    async def failing(_: Scope, __: Receive, ___: Send) -> None:
        raise RuntimeError("secret path")

    start, body = await through("/v1/models", failing)
    assert start["status"] == 500
    assert json.loads(body["body"])["error"]["type"] == "server_error"
    assert b"secret" not in body["body"]
    with pytest.raises(RuntimeError):
        await through("/ask", failing)


async def test_a_problem_in_pieces_is_translated_whole_and_an_answer_passes() -> None:
    problem = json.dumps({"status": 429, "detail": "slow down"}).encode()

    async def limited(_: Scope, __: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/problem+json"), (b"retry-after", b"7"), (b"content-length", b"99")]
        await send({"type": "http.response.start", "status": 429, "headers": headers})
        await send({"type": "http.response.body", "body": problem[:9], "more_body": True})
        await send({"type": "http.response.body", "body": problem[9:]})

    start, body = await through("/v1/models", limited)
    headers = dict(start["headers"])
    assert (headers[b"retry-after"], headers[b"content-type"]) == (b"7", b"application/json")
    assert int(headers[b"content-length"]) == len(body["body"])
    assert json.loads(body["body"])["error"]["code"] == "rate_limit_exceeded"
    assert dict((await through("/v1/logs", limited))[0]["headers"])[b"content-type"] == b"application/problem+json"
