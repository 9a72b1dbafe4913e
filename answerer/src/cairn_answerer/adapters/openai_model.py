"""Any OpenAI-compatible chat endpoint: one attempt, streamed, bounded in time and in size.

`POST {base}/chat/completions`, https://platform.openai.com/docs/api-reference/chat. Servers differ in what they
support, so after a 400 or 422 this adapter asks in a simpler dialect, and remembers which one works.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import orjson
from pydantic import SecretStr

from cairn_answerer.dialects import Dialect
from cairn_answerer.errors import BadOutput, RefusedByModelServer, RetryableFailure
from cairn_answerer.ports import Completion, JsonSchema, Message, Reader
from cairn_shared.http import retry_after

MAX_RESPONSE = 1024 * 1024
"""Bytes of one response that are read, framing included."""

MAX_COMPLAINT = 4096
"""Bytes of a refusal that are read."""

_DONE = b"[DONE]"


class OpenAIModel:
    """One chat model. `client` has the endpoint as its base URL."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        model: str,
        api_key: SecretStr | None,
        max_tokens: int,
        temperature: float,
        silence: float,
    ) -> None:
        self._client = client
        self._model = model
        self._api_key = api_key
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._silence = silence
        self._dialect = Dialect()

    async def attempt(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        """One answer within `seconds`, of the form of `schema` where the server can do that.

        Raises:
            RetryableFailure: connection, time-out, 429, 5xx, or the stream broke off.
            RefusedByModelServer: another 4xx.
            BadOutput: what came is no chat completion.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._with_fallback(messages, reader, schema)
        except TimeoutError as exc:
            raise RetryableFailure("llm_timeout", f"the model took longer than {seconds:.1f} s") from exc

    async def _with_fallback(
        self, messages: Sequence[Message], reader: Reader, schema: JsonSchema | None
    ) -> Completion:
        dialect = self._dialect
        while True:
            try:
                completion = await self._request(messages, reader, schema, dialect)
            except RefusedByModelServer as exc:
                simpler = dialect.simpler(exc.complaint) if exc.http_status in (400, 422) else None
                if simpler is None:
                    raise
                dialect = simpler
            else:
                self._dialect = dialect
                return completion

    async def _request(
        self, messages: Sequence[Message], reader: Reader, schema: JsonSchema | None, dialect: Dialect
    ) -> Completion:
        reader.restart()
        headers = {"accept": "text/event-stream, application/json"}
        if self._api_key is not None:
            headers["authorization"] = f"Bearer {self._api_key.get_secret_value()}"
        patience = self._client.timeout
        if dialect.stream:  # otherwise silent until all is written, and bounded by the attempt alone
            patience = httpx.Timeout(**{**patience.as_dict(), "read": self._silence})
        try:
            async with self._client.stream(
                "POST",
                "chat/completions",
                json=self._body(messages, schema, dialect),
                headers=headers,
                timeout=patience,
            ) as response:
                if response.status_code >= 400:
                    raise _refusal(response, await _start(response))
                if "text/event-stream" in response.headers.get("content-type", ""):
                    return await _read_stream(response, reader)
                return _read_whole(await _limited(response), reader)
        except httpx.TimeoutException as exc:
            raise RetryableFailure("llm_timeout", "the model timed out") from exc
        except httpx.HTTPError as exc:
            raise RetryableFailure("llm_unreachable", f"the model cannot be reached: {type(exc).__name__}") from exc

    def _body(self, messages: Sequence[Message], schema: JsonSchema | None, dialect: Dialect) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            **dialect.body(schema=schema, max_tokens=self._max_tokens, temperature=self._temperature),
        }


def _refusal(response: httpx.Response, complaint: str) -> RetryableFailure | RefusedByModelServer:
    status = response.status_code
    if status == 429:
        return RetryableFailure(
            "llm_rate_limited", "the model's server limits our rate", retry_after=retry_after(response)
        )
    if status >= 500 or status == 408:
        return RetryableFailure("llm_error", f"the model's server answered {status}", retry_after=retry_after(response))
    if status in (401, 403):
        return RefusedByModelServer("llm_refused_key", "the model's server refuses LLM_API_KEY", status=status)
    return RefusedByModelServer(
        "llm_refused_request", f"the model's server answered {status}", status=status, complaint=complaint
    )


async def _start(response: httpx.Response) -> str:
    """The beginning of a refusal's text."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= MAX_COMPLAINT:
            break
    return body[:MAX_COMPLAINT].decode(errors="replace")


async def _limited(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_RESPONSE:
            raise BadOutput("the model's answer has no end")
    return bytes(body)


def _read_whole(body: bytes, reader: Reader) -> Completion:
    choice = _choice(_json(body))
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else choice.get("text")
    text = _text(content)
    reader.feed(text)
    return Completion(text=text, truncated=choice.get("finish_reason") == "length")


async def _read_stream(response: httpx.Response, reader: Reader) -> Completion:
    pieces: list[str] = []
    finished: str | None = None
    size = 0
    async for data in _events(response):
        size += len(data)
        if size > MAX_RESPONSE:
            return Completion(text="".join(pieces), truncated=True)
        if data == _DONE:
            finished = finished or "stop"
            break
        event = _json(data)
        if isinstance(event, dict) and event.get("error"):
            raise RetryableFailure("llm_error", "the model's server broke off with an error")
        if isinstance(event, dict) and event.get("choices") == []:
            continue  # usage comes in an event of its own
        choice = _choice(event)
        delta = choice.get("delta")
        piece = _text(delta.get("content")) if isinstance(delta, dict) else ""
        finished = choice.get("finish_reason") or finished
        if piece:
            pieces.append(piece)
            if not reader.feed(piece):
                return Completion(text="".join(pieces), truncated=True)
    if finished is None:
        raise RetryableFailure("llm_unreachable", "the model's stream broke off")
    return Completion(text="".join(pieces), truncated=finished == "length")


async def _events(response: httpx.Response) -> AsyncIterator[bytes]:
    """The data of server-sent events, https://html.spec.whatwg.org/multipage/server-sent-events.html."""
    buffer = bytearray()
    async for piece in response.aiter_bytes():
        buffer += piece
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end]).rstrip(b"\r")
            del buffer[: end + 1]
            if line.startswith(b"data:"):
                yield line[5:].strip()
        if len(buffer) > MAX_RESPONSE:
            raise BadOutput("the model's answer has no end")
    if buffer.startswith(b"data:"):
        yield bytes(buffer[5:]).strip()


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise BadOutput("the model's server does not speak the chat protocol") from exc


def _choice(answer: Any) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadOutput("the model's server does not speak the chat protocol")
    return choices[0]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
